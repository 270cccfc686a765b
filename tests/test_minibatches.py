"""nnet3py/training/minibatches.py: minibatches straight from tables."""
from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from runtime_cases import TDNN

from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.general import to_dense
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.io.tables import TableWriter, write_table
from nnet3py.network.nnet import Nnet
from nnet3py.training.minibatches import TableMinibatches
from nnet3py.training.options import MinibatchOptions

LENGTHS = {"a": 24, "b": 17, "c": 40}


@pytest.fixture
def tables(here: Path) -> Path:
    """feats.ark and ali.ark: features (their row number in the first column) and classes t mod 4; targets.ark."""
    write({key: length for key, length in LENGTHS.items()}, LENGTHS)
    return here


def write(feats: dict[str, int], labels: dict[str, int], bad: str = "") -> None:
    rng = np.random.default_rng(0)
    with TableWriter("ark:feats.ark", FLOAT_MATRIX) as writer:
        for key, length in feats.items():
            matrix = rng.standard_normal((length, 3)).astype(np.float32)
            matrix[:, 0] = np.arange(length)
            if key == bad:
                matrix[length // 2, 1] = np.nan
            writer.write(key, matrix)
    with TableWriter("ark:ali.ark", INT_VECTOR) as ints, TableWriter("ark:targets.ark", FLOAT_MATRIX) as matrices:
        for key, length in labels.items():
            ints.write(key, np.arange(length, dtype=np.int32) % 4)
            matrices.write(key, np.eye(4, dtype=np.float32)[np.arange(length) % 4])


def minibatches(**options) -> TableMinibatches:
    targets = "ark:targets.ark" if options.get("dense_targets") else "ark:ali.ark"
    return TableMinibatches(Nnet.from_config(TDNN), "ark:feats.ark", targets, MinibatchOptions(**options))


@pytest.mark.parametrize("dense", [False, True])
def test_frames_and_targets_belong_together(tables, dense):
    data = minibatches(num_frames="8", minibatch_size="3", dense_targets=dense)
    assert (data.num_utterances, data.num_failed) == (3, 0)
    covered = 0
    for eg in data.minibatches(0):
        inputs, outputs = eg.io
        assert inputs.name == "input" and outputs.name == "output"
        features, supervision = to_dense(inputs.features), to_dense(outputs.features)
        count = inputs.indexes[:, 0].max() + 1
        assert count <= 3 and len(inputs.indexes) == count * (8 + 5 + 3)      # with the network's context
        frame = {(n, t): row for row, (n, t, _) in enumerate(inputs.indexes)}
        for row, (n, t, _) in enumerate(outputs.indexes):
            number = features[frame[n, t], 0]
            if supervision[row].sum() > 0:
                assert supervision[row].argmax() == int(number) % 4
                covered += 1
    assert covered == 72       # of 3 + 2 + 5 pieces of 8 frames the tenth is left over


def test_contexts_may_be_given(tables):
    eg = next(iter(minibatches(left_context=7, right_context=9, minibatch_size="1").minibatches(0)))
    times = eg.io[0].indexes[:, 1]
    assert (times.min(), times.max()) == (-7, 8 + 9 - 1)


def test_each_pass_has_an_order_of_its_own(tables):
    data = minibatches(num_frames="4", minibatch_size="2")

    def order(seed):
        return [to_dense(eg.io[0].features).tobytes() for eg in data.minibatches(seed)]

    assert order(0) == order(0)
    assert order(0) != order(1)
    frames = [sorted(row.tobytes() for eg in data.minibatches(seed) for row in to_dense(eg.io[0].features))
              for seed in (0, 1)]
    assert frames[0] == frames[1]


def test_unusable_utterances_are_counted(tables, caplog):
    caplog.set_level(logging.WARNING)
    write({"a": 24, "b": 17, "c": 40, "d": 20}, {"a": 24, "b": 17, "c": 30}, bad="b")
    data = minibatches()
    assert (data.num_utterances, data.num_failed) == (1, 3)
    assert "No targets for utterance d" in caplog.messages
    assert any("Skipping utterance b" in line and "nan in row 8, column 1" in line for line in caplog.messages)


def test_lengths_may_differ_a_little(tables):
    write({"a": 24, "b": 17}, {"a": 22, "b": 19})
    data = minibatches(num_frames="8", minibatch_size="1")
    assert (data.num_utterances, data.num_failed) == (2, 0)
    assert all(len(eg.io[1].indexes) == to_dense(eg.io[1].features).shape[0] for eg in data.minibatches(0))


def test_nothing_usable(tables):
    write({"a": 24}, {"b": 24})
    with pytest.raises(Nnet3Error, match="no examples could be made: 0 utterances were used, 1 failed"):
        minibatches()


def test_too_few_for_a_minibatch(tables):
    with pytest.raises(Nnet3Error, match=r"the 10 examples are too few for a minibatch of --minibatch-size=11"):
        list(minibatches(minibatch_size="11").minibatches(0))
    assert [eg.io[1].indexes[:, 0].max() + 1 for eg in minibatches(minibatch_size="1:11").minibatches(0)] == [10]


@pytest.mark.parametrize("wrong", [4, -1])
def test_classes_must_exist(tables, wrong):
    write_table("ark:ali.ark", INT_VECTOR, {"a": np.array([0, 1, wrong] + [0] * 21, dtype=np.int32)})
    with pytest.raises(ShapeError, match=f"utterance a has a target {wrong}, but the network's output has the classes "
                                         "0 to 3"):
        minibatches()


def test_targets_must_have_the_output_s_dimension(tables):
    write_table("ark:targets.ark", FLOAT_MATRIX,
                ((key, np.zeros((length, 5), dtype=np.float32)) for key, length in LENGTHS.items()))
    with pytest.raises(ShapeError, match="utterance a has targets of dimension 5, but the network's is 4"):
        minibatches(dense_targets=True)


def test_feat_must_have_the_input_s_dimension(tables):
    write_table("ark:feats.ark", FLOAT_MATRIX,
                ((key, np.zeros((length, 2), dtype=np.float32)) for key, length in LENGTHS.items()))
    with pytest.raises(ShapeError, match="utterance a has features of dimension 2, but the network's is 3"):
        minibatches()
