"""nnet3py/egs/sequence_egs.py: chain and discriminative examples merged, shifted and cut."""
from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from io_samples import reader_of
from paths import shared_golden
from sequence_samples import MERGED, discriminative, singles

from nnet3py.egs.chain_example import CHAIN_EXAMPLE, merge_supervisions, read_chain_egs
from nnet3py.egs.changes import rename_output
from nnet3py.egs.example import NnetIo
from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
from nnet3py.egs.sequence_egs import (
    SequenceSelector,
    language_ending,
    merge_chain_examples,
    merge_discriminative_examples,
    name_language,
    scale_supervision,
)
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import to_dense
from nnet3py.io.tables import write_table
from nnet3py.transducers.fst_text import read_text_fst


def write_merged(path: Path, examples: Iterable[Any], size: str) -> None:
    write_table(f"ark:{path}", CHAIN_EXAMPLE,
                ExampleMerger(MinibatchSizes(size), False, merge_chain_examples).merge(examples))


def test_merged_examples_have_kaldis_bytes(tmp_path: Path) -> None:
    write_merged(tmp_path / "merged", singles(), "16")
    assert (tmp_path / "merged").read_bytes() == MERGED.read_bytes()


def test_all_of_kaldis_minibatches(tmp_path: Path) -> None:
    golden = shared_golden() / "chain"
    write_merged(tmp_path / "merged", (one for _, one in read_chain_egs(f"ark:{golden / 'cegs.ark'}")), "16")
    assert (tmp_path / "merged").read_bytes() == (golden / "merged.cegs").read_bytes()


def test_the_examples_stay_as_they_are() -> None:
    before, after = singles(), singles()
    merge_chain_examples(after)
    assert all(np.array_equal(a.outputs[0].indexes, b.outputs[0].indexes) for a, b in zip(before, after, strict=True))
    assert before[0].structure() == after[0].structure() == after[1].structure() and after[0].size() == 42


def test_one_example_and_compression() -> None:
    only = singles()[:1]
    merged = merge_chain_examples(only, compress=True)
    assert merged.outputs[0].supervision is only[0].outputs[0].supervision
    assert isinstance(merged.inputs[0].features, CompressedMatrix)


def test_weights_of_frames() -> None:
    first, second = copy.deepcopy(singles()[:2])
    frames = len(first.outputs[0].indexes)
    first.outputs[0].deriv_weights = np.linspace(0, 1, frames, dtype=np.float32)
    second.outputs[0].deriv_weights = np.zeros(0, dtype=np.float32)
    weights = merge_chain_examples([first, second]).outputs[0].deriv_weights
    assert np.array_equal(weights[::2], first.outputs[0].deriv_weights) and (weights[1::2] == 1.0).all()
    first.outputs[0].deriv_weights = second.outputs[0].deriv_weights
    assert len(merge_chain_examples([first, second]).outputs[0].deriv_weights) == 0


@pytest.mark.parametrize("name, value", [("weight", 0.5), ("label_dim", 7), ("frames_per_sequence", 4)])
def test_what_differs_cannot_be_merged(name: str, value: float) -> None:
    first, second = singles()[:2]
    setattr(second.outputs[0].supervision, name, value)
    with pytest.raises(ShapeError, match=f"Mismatch weight or frames_per_sequence .*{name}"):
        merge_chain_examples([first, second])


def test_merged_examples_and_other_names_cannot_be_merged() -> None:
    _, merged = next(read_chain_egs(f"ark:{MERGED}"))
    with pytest.raises(ShapeError, match="not one sequence"):
        merge_chain_examples([merged, merged])
    first, second = singles()[:2]
    second.outputs[0].name = "output-xx"
    with pytest.raises(ShapeError, match="output, output-xx"):
        merge_chain_examples([first, second])


def test_supervisions_without_a_path() -> None:
    one = singles()[0].outputs[0].supervision
    dead = dataclasses.replace(one, fst=read_text_fst(reader_of(b"\n0 1 4 4\n\n", False)))
    with pytest.raises(ShapeError, match="has no path"):
        merge_supervisions([one, dead])


def test_end_to_end_supervisions_keep_their_fsts() -> None:
    one = singles()[0].outputs[0].supervision
    free = dataclasses.replace(one, fst=None, e2e_fsts=[one.fst], alignment_pdfs=np.array([1], dtype=np.int32))
    merged = merge_supervisions([free, free, free])
    assert merged.e2e_fsts == [one.fst] * 3 and merged.num_sequences == 3 and not len(merged.alignment_pdfs)
    with pytest.raises(ShapeError, match="is_end_to_end"):
        merge_supervisions([free, one])


def test_languages() -> None:
    example = singles()[0]
    name_language("utt-0?frames=8&lang=english", example)
    assert example.outputs[0].name == "output-english" and language_ending(example) == "?lang=english"
    assert language_ending(singles()[0]) == ""
    for key in ("utt-0", "utt-0?lang=", "utt-0?language=x"):
        with pytest.raises(Nnet3Error, match="does not say a language"):
            name_language(key, singles()[0])


def test_discriminative_examples() -> None:
    merged = merge_discriminative_examples([discriminative(), discriminative()])
    output = merged.outputs[0]
    assert output.indexes.tolist() == [[0, 0, 0], [1, 0, 0], [0, 3, 0], [1, 3, 0]]
    assert np.allclose(output.deriv_weights, [1, 1, 0.2, 0.2])
    supervision = output.supervision
    assert supervision.num_ali.tolist() == [3, 4, 3, 4] and supervision.num_sequences == 2
    lattice = supervision.den_lat
    assert lattice.input_labels.tolist() == [3, 4, 0, 3, 4] and lattice.output_labels.tolist() == [7, 8, 0, 7, 8]
    assert lattice.weights.tolist() == [[0.5, 1.25], [-1, 0], [0.25, 2], [0.5, 1.25], [-1, 0]]
    assert lattice.is_final.tolist() == [False] * 5 + [True] and lattice.final_weights[-1].tolist() == [0.25, 2]
    assert merged.inputs[0].indexes.tolist() == [[0, -1, 0], [1, -1, 0]]
    assert discriminative().size() == 2 and discriminative().structure() == discriminative().structure()


def test_discriminative_examples_that_differ() -> None:
    first, second = discriminative(), discriminative()
    second.outputs[0].supervision.weight = 2.0
    with pytest.raises(ShapeError, match="inconsistent lengths or weights: weight 1.0 vs. 2.0"):
        merge_discriminative_examples([first, second])
    assert merge_discriminative_examples([first]).outputs[0].supervision is first.outputs[0].supervision


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
    for change in (lambda one: scale_supervision(one, 2.0), lambda one: rename_output(one, "x")):
        with pytest.raises(Nnet3Error, match="without 'output'"):
            change(example)
    example.outputs[0].indexes = example.outputs[0].indexes[:1]
    with pytest.raises(Nnet3Error, match="no frame after its first"):
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
    rename_output(example, "output-2")
    assert example.outputs[0].name == "output-2"
