"""Chain and discriminative examples shifted in time, and with less context."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from sequence_samples import MERGED, discriminative, singles

from nnet3py.egs.chain_example import read_chain_egs
from nnet3py.egs.example import NnetIo
from nnet3py.egs.sequence_select import SequenceSelector, rename_supervision, scale_supervision
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import to_dense

SHIFTS = {0: 0, 1: 0, -1: 0, 2: 3, 3: 3, -2: -3}      # of inputs -> of outputs that are 3 frames apart


@pytest.mark.parametrize("shift, output_shift", SHIFTS.items())
def test_outputs_move_by_whole_frames_of_theirs(shift: int, output_shift: int) -> None:
    before, example = singles()[0], singles()[0]
    ivector = NnetIo("ivector", np.zeros((1, 3), dtype=np.int32), np.ones((1, 2), dtype=np.float32))
    example.inputs.append(ivector)
    changed = SequenceSelector(shift)(example)
    assert (changed.inputs[0].indexes - before.inputs[0].indexes == [0, shift, 0]).all()
    assert (changed.outputs[0].indexes - before.outputs[0].indexes == [0, output_shift, 0]).all()
    assert not changed.inputs[1].indexes.any()
    assert SequenceSelector(shift).changes_nothing == (shift == 0)


def test_context_counts_from_the_outermost_outputs() -> None:
    before, example = singles()[0], singles()[0]
    times = before.outputs[0].indexes[:, 1]
    changed = SequenceSelector(0, 2, 4)(example)
    kept = changed.inputs[0].indexes[:, 1]
    assert (kept.min(), kept.max()) == (times.min() - 2, times.max() + 4)
    rows = before.inputs[0].indexes[:, 1].tolist()
    first = rows.index(kept.min())
    assert np.array_equal(to_dense(changed.inputs[0].features),
                          to_dense(before.inputs[0].features)[first:first + len(kept)])
    assert changed.outputs[0] is example.outputs[0]


def test_less_context_than_asked_for_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    selector = SequenceSelector(0, 50, -1)
    with caplog.at_level(logging.WARNING):
        assert all(len(selector(one).inputs[0].indexes) == 42 for one in singles()[:3])
    assert len(caplog.records) == 1 and "left-context of 50" in caplog.text


def test_what_cannot_be_cut() -> None:
    _, merged = next(read_chain_egs(f"ark:{MERGED}"))
    with pytest.raises(Nnet3Error, match="merged"):
        SequenceSelector(0, 1, -1)(merged)
    example = singles()[0]
    example.outputs[0].name = "other"
    with pytest.raises(Nnet3Error, match="'input' and 'output'"):
        SequenceSelector(0, -1, 1)(example)
    for change in (lambda one: scale_supervision(one, 2.0), lambda one: rename_supervision(one, "x")):
        with pytest.raises(Nnet3Error, match="without 'output'"):
            change(example)
    example.outputs[0].indexes = example.outputs[0].indexes[:1]
    with pytest.raises(Nnet3Error, match="rising times"):
        SequenceSelector(1)(example)


def test_merged_examples_can_be_shifted() -> None:
    _, merged = next(read_chain_egs(f"ark:{MERGED}"))
    times = merged.outputs[0].indexes[:, 1].copy()
    assert (SequenceSelector(2)(merged).outputs[0].indexes[:, 1] == times + 3).all()
    assert SequenceSelector(-2)(discriminative()).outputs[0].indexes[:, 1].tolist() == [-3, 0]


def test_weights_and_names() -> None:
    example = singles()[0]
    scale_supervision(example, 0.1)
    assert example.outputs[0].supervision.weight == float(np.float32(0.1))
    rename_supervision(example, "output-2")
    assert example.outputs[0].name == "output-2"
