"""nnet3py/egs/packed_select.py: what is cut out of bytes is what is selected of decoded examples, to the byte."""
from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from test_packed_example import packed
from test_skim import written

from nnet3py.cli.egs.copy import copy_egs
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo
from nnet3py.egs.make import time_indexes
from nnet3py.egs.packed_example import PACKED_EXAMPLE, PackedExample
from nnet3py.egs.packed_select import PackedSelector
from nnet3py.egs.select import ExampleSelector, Selection
from nnet3py.errors import Nnet3Error
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.sparse import SparseMatrix
from nnet3py.io.byte_pieces import BytePieces
from nnet3py.io.tables import TableWriter
from nnet3py.random_sequence import CRandom

NUM_FRAMES, DIM, NUM_CLASSES = 4, 3, 6


def alike(count: int, compress: bool = False, dense: bool = False) -> list[NnetExample]:
    """Examples of one layout: 12 inputs, one iVector, 4 outputs of 1, 2, 0 and 1 elements (or all, if ``dense``)."""
    rng = np.random.default_rng(5)
    made = []
    for _ in range(count):
        features = rng.normal(size=(12, DIM)).astype(np.float32)
        columns = [np.sort(rng.choice(NUM_CLASSES, size, replace=False)).tolist() for size in (1, 2, 0, 1)]
        pairs = [[(column, float(rng.uniform())) for column in row] for row in columns]
        outputs = (rng.normal(size=(NUM_FRAMES, NUM_CLASSES)).astype(np.float32) if dense
                   else SparseMatrix.from_rows(pairs, NUM_CLASSES))
        made.append(NnetExample([
            NnetIo("input", time_indexes(-4, 12), CompressedMatrix.compress(features) if compress else features),
            NnetIo("ivector", time_indexes(0, 1), rng.normal(size=(1, 2)).astype(np.float32)),
            NnetIo("output", time_indexes(0, NUM_FRAMES), outputs)]))
    return made


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("selection", [
    Selection(frame=0), Selection(frame=3), Selection(frame=2, frame_shift=7), Selection(frame="random"),
    Selection(frame_shift=-300), Selection(frame=1, left_context=2, right_context=1), Selection(left_context=3)],
    ids=str)
def test_same_bytes(selection: Selection, compress: bool, dense: bool, tmp_path: Path) -> None:
    made = alike(9, compress, dense)
    examples = packed(made, tmp_path)
    assert all(isinstance(example, PackedExample) for example in examples)
    select, expected = PackedSelector(ExampleSelector(selection, CRandom(3))), ExampleSelector(selection, CRandom(3))
    for example, decoded in zip(examples, made, strict=True):
        kept = select(example)
        in_bytes = not compress or (selection.left_context, selection.right_context) == (-1, -1)
        assert isinstance(kept, BytePieces if in_bytes else NnetExample)   # parts of compressed matrices become dense
        assert written(kept, PACKED_EXAMPLE) == written(expected(decoded), EXAMPLE)


def test_rows_that_do_not_lie_together(tmp_path: Path) -> None:
    made = alike(5)
    for example in made:
        example.io[2].indexes = np.array([[0, t, 0] for t in (1, 0, 1, 2)], np.int32)
    examples = packed(made, tmp_path)
    kept = PackedSelector(ExampleSelector(Selection(frame=1), CRandom()))(examples[0])
    assert isinstance(kept, NnetExample) and kept.find("output").features.shape == (2, NUM_CLASSES)
    assert np.array_equal(kept.find("output").features.to_dense(), made[0].io[2].features.to_dense()[[0, 2]])


def test_frames_that_are_not_there_and_examples_that_cannot_be_cut(tmp_path: Path) -> None:
    example = packed(alike(3), tmp_path)[0]
    assert PackedSelector(ExampleSelector(Selection(frame=NUM_FRAMES), CRandom()))(example) is None
    merged = alike(3)
    for each in merged:
        each.io[0].indexes[6:, 0] = 1
    select = PackedSelector(ExampleSelector(Selection(frame=1), CRandom()))
    for each in packed(merged, tmp_path)[:2]:
        with pytest.raises(Nnet3Error, match="merged examples cannot be cut"):
            select(each)
    assert isinstance(select(alike(1)[0]), NnetExample)      # one that was read, not found by its layout


def test_short_context_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    select = PackedSelector(ExampleSelector(Selection(left_context=9), CRandom()))
    with caplog.at_level(logging.WARNING):
        kept = [written(select(example), PACKED_EXAMPLE) for example in packed(alike(4), tmp_path)]
    assert kept == [written(example, EXAMPLE) for example in alike(4)]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("options", [["--frame=random"], ["--frame=1"], ["--frame=2", "--keep-proportion=2.5"],
                                     ["--frame-shift=2", "--random=true"]], ids=" ".join)
def test_the_command_writes_the_same_in_binary_and_text(options: list[str], tmp_path: Path) -> None:
    with TableWriter(f"ark:{tmp_path / 'egs.ark'}", EXAMPLE) as writer:
        for number, example in enumerate([*alike(12, compress=True), *alike(12, dense=True)]):
            writer.write(f"key-{number}", example)
    for form in ("", ",t"):                                   # text is written of decoded examples
        outputs = [f"ark{form}:{tmp_path / f'{part}{form}.ark'}" for part in "ab"]
        assert copy_egs.execute([*options, f"ark:{tmp_path / 'egs.ark'}", *outputs]) == 0
    for part in "ab":
        assert copy_egs.execute([f"ark:{tmp_path / f'{part}.ark'}", f"ark,t:{tmp_path / 'text'}"]) == 0
        assert (tmp_path / "text").read_bytes() == (tmp_path / f"{part},t.ark").read_bytes() != b""
