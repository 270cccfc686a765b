"""nnet3py/training/array_minibatches.py: arrays with the context that a network wants, and batches of loaders."""
from __future__ import annotations

import numpy as np
import pytest
from runtime_cases import TDNN, plain
from test_array_trainer import WITH_IVECTOR

from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.formats.general import SparseMatrix
from nnet3py.network.nnet import Nnet
from nnet3py.training.array_minibatches import ArrayInputs, LoaderMinibatches, supervision_of

FEATS = np.arange(2 * 6 * 3, dtype=np.float32).reshape(2, 6, 3)


def test_edges_are_repeated() -> None:
    arranger = ArrayInputs(Nnet.from_config(TDNN))
    assert (arranger.left_context, arranger.right_context) == (5, 3)
    (io,), frames, indexes = arranger.inputs(FEATS)
    assert (frames.num_sequences, frames.num_frames) == (2, 6)
    assert indexes.tolist() == [[n, t, 0] for n in range(2) for t in range(6)]
    assert io.indexes.tolist() == [[n, t, 0] for n in range(2) for t in range(-5, 9)]
    rows = io.features.reshape(2, 14, 3)
    np.testing.assert_array_equal(rows[:, 5:11], FEATS)
    assert (rows[:, :5] == FEATS[:, :1]).all() and (rows[:, 11:] == FEATS[:, -1:]).all()


@pytest.mark.parametrize(("given", "padding", "factor", "count"), [
    (6, True, 1, 6), (6, True, 3, 2), (7, True, 3, 3), (14, False, 1, 6), (9, False, 1, 1), (15, False, 3, 3),
    (14, False, 3, 2), (8, False, 1, 0)])
def test_how_many_frames(given: int, padding: bool, factor: int, count: int) -> None:
    arranger = ArrayInputs(Nnet.from_config(TDNN), frame_subsampling_factor=factor, padding=padding)
    assert arranger.num_frames(given) == count
    if count:
        (io,), frames, indexes = arranger.inputs(np.zeros((2, given, 3)))
        assert frames.num_frames == count and indexes[:count, 1].tolist() == list(range(0, count * factor, factor))
        assert io.indexes[:, 1].min() == -5 and io.indexes[:, 1].max() == (count - 1) * factor + 3


def test_ivectors_and_outputs_that_look_further() -> None:
    nnet = Nnet.from_config(WITH_IVECTOR)
    arranger = ArrayInputs(nnet, ("output", "shifted"))
    assert (arranger.left_context, arranger.right_context) == (1, 3)
    assert nnet.node_names[-1] == "shifted" and len(nnet.components) == 6        # measuring has left it as it was
    vectors = np.array([[1, 2], [3, 4]])
    (_, io), _, _ = arranger.inputs(FEATS, vectors)
    np.testing.assert_array_equal(io.features, vectors)
    assert io.indexes.tolist() == [[0, 0, 0], [1, 0, 0]] and io.features.dtype == np.float32
    (_, io), frames, _ = arranger.inputs(FEATS[0], vectors[0])
    assert frames.num_sequences == 1 and io.features.shape == (1, 2)
    for wrong in (None, vectors[0], vectors[:, :1]):
        with pytest.raises(ShapeError, match=r"expected i-vectors \(2, 2\), found"):
            arranger.inputs(FEATS, wrong)
    with pytest.raises(Nnet3Error, match="no other input but 'ivector'"):
        ArrayInputs(Nnet.from_config(WITH_IVECTOR.replace("ivector", "speaker")))


def test_supervision() -> None:
    nnet = plain()
    classes = np.array([[0, -1], [3, 2]])
    matrix = supervision_of(nnet, "output", classes, has_loss=False)
    assert isinstance(matrix, SparseMatrix) and matrix.shape == (4, 4) and matrix.columns.tolist() == [0, 3, 2]
    assert supervision_of(nnet, "output", classes + 5, has_loss=True).shape == (4, 9)
    assert supervision_of(nnet, "output", np.ones((2, 2, 7)), has_loss=True).shape == (4, 7)
    assert supervision_of(nnet, "output", np.ones((2, 2)), has_loss=True).shape == (4, 1)
    with pytest.raises(ShapeError, match="found the class 5"):
        supervision_of(nnet, "output", classes + 5, has_loss=False)
    with pytest.raises(UsageError, match="expected a log-softmax"):
        supervision_of(plain(objective="linear"), "output", classes, has_loss=False)


def test_batches_are_minibatches() -> None:
    nnet = Nnet.from_config(TDNN)
    batches = [(FEATS, np.zeros((2, 6), int)), [FEATS[:1, :4], np.ones((1, 4), int)]]
    source = LoaderMinibatches(nnet, batches, has_loss=False)
    for seed in (0, 7):                # in each pass, in the loader's own order
        egs = list(source.minibatches(seed))
        assert [len(eg.io[1].indexes) for eg in egs] == [12, 4]
        assert (egs[1].io[1].features.columns == 1).all()
    rows, = LoaderMinibatches(plain(), [(FEATS[0], np.arange(6) % 4)], has_loss=False).minibatches(0)
    assert rows.io[0].indexes.tolist() == [[n, 0, 0] for n in range(6)]
    assert rows.io[1].features.columns.tolist() == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize(("batches", "error", "message"), [
    ([], Nnet3Error, "the loader has no batches .*an iterator can be read once only"),
    ([{"input": FEATS}], UsageError, "batch 0: expected batches .feats, targets. or .*found a dict of 1 .an archive"),
    ([3], UsageError, "found a int "), ([(FEATS,)], UsageError, "found a tuple of 1"),
    ([(FEATS, np.zeros((2, 5), int))], ShapeError, "batch 0: expected targets of 2 sequences of 6 frames, found"),
    ([(FEATS, np.zeros((2, 6), int)), (FEATS[:, :, :2], np.zeros((2, 6), int))], ShapeError, "batch 1: expected feat"),
    ([(FEATS, np.full((2, 6, 4), np.nan))], NumericError, "batch 0: the targets has nan")])
def test_wrong_batches(batches: list, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        list(LoaderMinibatches(plain(), batches, has_loss=False).minibatches(0))
