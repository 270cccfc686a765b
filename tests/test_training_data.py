"""nnet3py/training/training_data.py: minibatches of arrays, loaders, pairs, examples and archives."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runtime_cases import TDNN, class_example, plain
from test_array_trainer import WITH_IVECTOR as TWO_OUTPUTS_WITH_IVECTOR

from nnet3py.egs.example import EXAMPLE, NnetExample
from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.formats.general import SparseMatrix, to_dense
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet
from nnet3py.training.minibatches import ExampleMinibatches, TableMinibatches
from nnet3py.training.options import MinibatchOptions
from nnet3py.training.training_data import (
    ArchiveMinibatches,
    ArrayInputs,
    FrameMinibatches,
    LoaderMinibatches,
    supervision_of,
    training_data,
)

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
    nnet = Nnet.from_config(TWO_OUTPUTS_WITH_IVECTOR)
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
        ArrayInputs(Nnet.from_config(TWO_OUTPUTS_WITH_IVECTOR.replace("ivector", "speaker")))


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


OPTIONS = MinibatchOptions(minibatch_size="1:4")
RNG = np.random.default_rng(0)

WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=AffineComponent input-dim=5 output-dim=4
component-node name=a component=a input=Append(input, ReplaceIndex(ivector, t, 0))
output-node name=output input=a objective=quadratic
"""


def features(frames: int) -> np.ndarray:
    """The first column numbers the frames."""
    feats = RNG.standard_normal((frames, 3)).astype(np.float32)
    feats[:, 0] = np.arange(frames)
    return feats


def frames_and_classes(egs: list[NnetExample]) -> list[tuple[int, int]]:
    """The first column and the class of each supervised frame."""
    found = []
    for eg in egs:
        inputs, outputs = eg.io[0], eg.io[-1]
        at = {(n, t): row for row, (n, t, _) in enumerate(inputs.indexes.tolist())}
        feats, targets = to_dense(inputs.features), to_dense(outputs.features)
        found += [(int(feats[at[n, t], 0]), int(targets[row].argmax()))
                  for row, (n, t, _) in enumerate(outputs.indexes.tolist()) if targets[row].any()]
    return sorted(found)


def test_frames_of_a_network_without_context() -> None:
    data = training_data(plain(), (features(10), np.arange(10) % 4), OPTIONS)
    assert isinstance(data, FrameMinibatches)
    egs = list(data.minibatches(3))
    assert [len(eg.io[0].indexes) for eg in egs] == [4, 4, 2]
    assert egs[0].io[0].indexes.tolist() == [[n, 0, 0] for n in range(4)]
    assert isinstance(egs[0].io[1].features, SparseMatrix)
    assert frames_and_classes(egs) == [(t, t % 4) for t in range(10)]
    orders = [[to_dense(eg.io[0].features)[:, 0].tolist() for eg in data.minibatches(seed)] for seed in (3, 3, 4, -1)]
    assert orders[0] == orders[1] != orders[2]


def test_dense_targets_and_several_sequences() -> None:
    feats = np.stack([features(5), features(5)])
    data = training_data(plain(), (feats, np.ones((2, 5, 4))), OPTIONS)
    assert sum(to_dense(eg.io[1].features).sum() for eg in data.minibatches(0)) == 40
    with pytest.raises(ShapeError, match="expected targets of 2 sequences"):
        training_data(plain(), (feats, np.ones((3, 5, 4))), OPTIONS)
    with pytest.raises(ShapeError, match=r"float \(frames, dim\) or \(sequences, frames, dim\), found \(5,\)"):
        training_data(plain(), (np.ones(5), np.ones(5)), OPTIONS)


@pytest.mark.parametrize("form", [list, iter, lambda pairs: {f"utt{i}": pair for i, pair in enumerate(pairs)}])
def test_pairs_of_any_lengths(form) -> None:
    pairs = [(features(frames), np.arange(frames) % 4) for frames in (16, 3, 8)]
    data = training_data(Nnet.from_config(TDNN), form(pairs), OPTIONS)
    assert isinstance(data, ExampleMinibatches)
    assert frames_and_classes(list(data.minibatches(0))) == sorted(
        (t, t % 4) for frames in (16, 3, 8) for t in range(frames))


def test_dicts_by_name() -> None:
    feats = {"a": features(6), "b": features(9)}
    classes = {"b": np.arange(9) % 4, "a": np.arange(6) % 4}       # in another order
    of_dicts, of_pairs = (training_data(Nnet.from_config(TDNN), data, OPTIONS) for data in (
        (feats, classes), [(feats[name], classes[name]) for name in "ab"]))
    assert frames_and_classes(list(of_dicts.minibatches(1))) == frames_and_classes(list(of_pairs.minibatches(1))) != []
    with pytest.raises(UsageError, match="expected features and targets of the same names, found 'b' in one of them"):
        training_data(Nnet.from_config(TDNN), (feats, {"a": classes["a"]}), OPTIONS)
    with pytest.raises(UsageError, match="found 'a' in one of them only, and 2 more"):
        training_data(Nnet.from_config(TDNN), (feats, {"c": classes["a"]}), OPTIONS)


def test_lists_of_arrays_and_single_frames() -> None:
    feats, classes = [features(6), features(9)], [np.arange(6) % 4, np.arange(9) % 4]
    nnet = Nnet.from_config(TDNN)
    of_lists, of_pairs = (training_data(nnet, data, OPTIONS) for data in (
        (feats, classes), list(zip(feats, classes, strict=True))))
    assert frames_and_classes(list(of_lists.minibatches(1))) == frames_and_classes(list(of_pairs.minibatches(1))) != []
    with pytest.raises(ShapeError, match="expected lists of equal length, .* found 2 features and 1 targets"):
        training_data(nnet, (feats, classes[:1]), OPTIONS)
    for network, targets in ((plain(), 2), (nnet, np.array([0, 0, 1, 0]))):
        data = training_data(network, [(row, targets) for row in features(6)], OPTIONS)
        assert set(frames_and_classes(list(data.minibatches(0)))) == {(t, 2) for t in range(6)}


def test_targets_for_a_loss() -> None:
    """Any class, any width, no log-softmax; all utterances alike."""
    nnet = plain(objective="linear")
    for data in ((features(8), np.arange(8) + 90), [(features(4), np.full(4, 3)), (features(5), np.full(5, 97))]):
        with pytest.raises((UsageError, ShapeError)):
            training_data(nnet, data, OPTIONS)
        egs = list(training_data(nnet, data, OPTIONS, has_loss=True).minibatches(0))
        assert {eg.io[1].features.shape[1] for eg in egs} == {98}
    egs = list(training_data(nnet, (features(8), np.zeros(8, int)), OPTIONS, has_loss=True).minibatches(0))
    assert {eg.io[1].features.shape[1] for eg in egs} == {4}
    numbers = [(features(4), np.ones((4, 2))), (features(4), np.ones((4, 2)))]
    egs = list(training_data(nnet, numbers, OPTIONS, has_loss=True).minibatches(0))
    assert {eg.io[1].features.shape[1] for eg in egs} == {2}


def test_ivectors() -> None:
    nnet = Nnet.from_config(WITH_IVECTOR)
    data = training_data(nnet, [(features(8), np.zeros(8, int), [1.0, 2.0])], OPTIONS)
    eg, = data.minibatches(0)
    np.testing.assert_array_equal(eg.find("ivector").features, [[1, 2]])          # type: ignore[union-attr]
    with pytest.raises(ShapeError, match=r"utterance 0: expected an i-vector \(2,\), found none"):
        training_data(nnet, [(features(8), np.zeros(8, int))], OPTIONS)
    with pytest.raises(ShapeError, match=r"expected no i-vector, found \(2,\)"):
        training_data(plain(), [(features(8), np.ones((8, 4)), [1.0, 2.0])], OPTIONS)


def test_examples_and_archives(tmp_path: Path) -> None:
    single = [class_example(1, seed=seed) for seed in range(6)]
    merged = [class_example(3, seed=seed) for seed in range(2)]
    nnet = plain(objective="linear")
    for examples, sizes in ((single, [4, 2]), (merged, [3, 3])):
        archive = f"ark:{tmp_path}/egs.{len(examples)}.ark"
        write_table(archive, EXAMPLE, ((str(i), example) for i, example in enumerate(examples)))
        for given in (examples, [("key", example) for example in examples], archive):
            data = training_data(nnet, given, OPTIONS)
            assert isinstance(data, ArchiveMinibatches if given is archive else ExampleMinibatches)
            for seed in (0, 1):
                assert [eg.io[0].indexes[:, 0].max() + 1 for eg in data.minibatches(seed)] == sizes
    data = TableMinibatches.__new__(TableMinibatches)
    assert training_data(nnet, data, OPTIONS) is data
    (tmp_path / "empty.ark").write_bytes(b"")
    with pytest.raises(Exception, match="no examples in ark:"):
        list(training_data(nnet, f"ark:{tmp_path}/empty.ark", OPTIONS).minibatches(0))


@pytest.mark.parametrize(("data", "error", "message"), [
    (3, UsageError, "cannot train on int"),
    ([], UsageError, "the data is empty"),
    ({}, UsageError, "the data is empty"),
    ([3], UsageError, "utterance 0: expected .feats, targets. or .feats, targets, ivector., found int"),
    ([class_example(1), 3], UsageError, "expected examples only, found int"),
    ([(np.ones((4, 2)), [0] * 4)], ShapeError, r"utterance 0: expected features \(frames, 3\), .* found \(4, 2\)"),
    ([(np.ones((4, 3)), [0] * 5)], ShapeError, r"utterance 0: the targets: expected integers \(4,\)"),
    ([(np.full((4, 3), np.inf), [0] * 4)], NumericError, "utterance 0: the feature matrix"),
])
def test_what_is_refused(data: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        training_data(plain(), data, OPTIONS)


def test_arrays_want_a_network_with_the_usual_names() -> None:
    other = Nnet.from_config(TDNN.replace("output-node name=output", "output-node name=result"))
    with pytest.raises(UsageError, match="train it on examples"):
        training_data(other, [(np.ones((4, 3)), [0] * 4)], OPTIONS)
