"""nnet3py/egs/packed_example.py: bytes merged or cut are the bytes of decoded examples merged or cut."""
from __future__ import annotations

import logging
import struct
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_skim import examples, written

from nnet3py.cli.egs.copy import copy_egs
from nnet3py.egs.changes import ExampleSelector, Selection
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo
from nnet3py.egs.make import time_indexes
from nnet3py.egs.merger import merge_examples
from nnet3py.egs.packed_example import PACKED_EXAMPLE, PackedExample, PackedSelector, merge_packed
from nnet3py.errors import FormatError, Nnet3Error, NumericError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix
from nnet3py.io.holder import BytePieces
from nnet3py.io.tables import SequentialReader, TableWriter, write_table
from nnet3py.random_sequence import CRandom


def packed(made: list[NnetExample], folder: Any) -> list[Any]:
    """The examples as they are read for merging, without those that came before their layout was known."""
    with TableWriter(f"ark:{folder / 'x.ark'}", EXAMPLE) as writer:
        for _ in range(3):
            for number, one in enumerate(made):
                writer.write(f"key-{number}", one)
    with SequentialReader(f"ark:{folder / 'x.ark'}", PACKED_EXAMPLE) as reader:      # keys occur three times
        return [value for _, value in reader][2 * len(made):]


def alike(count: int, form: str, per_row: int = 1) -> list[NnetExample]:
    """Examples of one layout."""
    return [one for one in examples(20 * count, form) if len(one.io[0].indexes) == 12
            and one.io[0].indexes[0, 2] == 0 and len(one.io[1].features.values) == 4 * per_row][:count]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize("form", ["FM", "CM", "CM2", "CM3"])
def test_examples_of_one_layout(form: str, count: int, compress: bool, tmp_path) -> None:
    made = alike(9, form)
    found = packed(made, tmp_path)
    assert len(found) == 9 and all(isinstance(one, PackedExample) for one in found)
    assert found[0].structure() == made[0].structure() and found[0].size() == made[0].size()
    merged = merge_packed(found[:count], compress)
    assert isinstance(merged, BytePieces)
    assert written(merged, PACKED_EXAMPLE) == written(merge_examples(made[:count], compress), EXAMPLE)


def test_several_inputs_dense_outputs_and_sequences(tmp_path) -> None:
    rng = np.random.default_rng(2)
    made = []
    for _ in range(4):
        indexes = np.concatenate([time_indexes(0, 10), time_indexes(0, 10)])
        indexes[10:, 0] = 1                                        # two sequences in each example
        made.append(NnetExample([
            NnetIo("output", indexes[::5], rng.normal(size=(4, 3)).astype(np.float32)),
            NnetIo("ivector", np.array([[0, 0, 0], [1, 0, 0]], np.int32), rng.normal(size=(2, 5)).astype(np.float32)),
            NnetIo("input", indexes, CompressedMatrix.compress(rng.normal(size=(20, 4))))]))
    found = packed(made, tmp_path)
    assert isinstance(merge_packed(found), BytePieces)
    assert written(merge_packed(found), PACKED_EXAMPLE) == written(merge_examples(made), EXAMPLE)


def test_different_layouts_are_decoded(tmp_path) -> None:
    made = alike(4, "CM") + alike(4, "CM2")
    found = packed(made, tmp_path)
    merged = merge_packed(found)
    assert isinstance(merged, NnetExample)
    assert written(merged, EXAMPLE) == written(merge_examples(made), EXAMPLE)
    mixed = merge_packed([found[0], made[1]])
    assert written(mixed, PACKED_EXAMPLE) == written(merge_examples(made[:2]), EXAMPLE)


@pytest.mark.parametrize("features", [np.ones((6, 2)), SparseMatrix.from_rows([[(0, 1.0)]] * 6, 2)],
                         ids=["double", "sparse"])
def test_what_is_not_plain(features: Any, tmp_path) -> None:
    twice = [NnetIo(name, time_indexes(0, 6), features) for name in ("input", "input", "output")]
    made = [NnetExample(list(twice)) for _ in range(5)]
    found = packed(made, tmp_path)
    assert all(isinstance(one, NnetExample) for one in found)      # two of one name
    assert written(merge_packed(found), EXAMPLE) == written(merge_examples(made), EXAMPLE)


def test_numbers_that_cannot_be_compressed(tmp_path) -> None:
    made = alike(3, "FM")
    made[1].io[0].features[2, 1] = np.nan
    with pytest.raises(NumericError, match="cannot be compressed"):
        merge_packed(packed(made, tmp_path), compress=True)


@pytest.mark.parametrize("column", [-1, 2, 3])
def test_columns_that_a_sparse_matrix_does_not_have(column: int, tmp_path) -> None:
    """The bytes of a later example are damaged: what is merged as bytes is checked as well as what is decoded."""
    rng = np.random.default_rng(0)
    made = [NnetExample([NnetIo("input", time_indexes(0, 6), rng.normal(size=(6, 2)).astype(np.float32)),
                         NnetIo("output", time_indexes(0, 6), SparseMatrix.from_rows([[(1, value)]] * 6, 2))])
            for value in (1.0, 1.0, 1.0, 0.625)]
    write_table(f"ark:{tmp_path / 'x.ark'}", EXAMPLE,
                ((f"key-{number}", example) for number, example in enumerate(made)))
    data, sound, damaged = (tmp_path / "x.ark").read_bytes(), pair(1, 0.625), pair(column, 0.625)
    assert data.count(sound) == 6
    for content, message in ((data, ""), (data.replace(sound, damaged, 1), "expected")):
        (tmp_path / "x.ark").write_bytes(content)
        reader = SequentialReader(f"ark:{tmp_path / 'x.ark'}", PACKED_EXAMPLE)
        assert len(list(reader)) == (3 if message else 4)
        with pytest.raises(FormatError, match=message) if message else nullcontext():
            reader.close()


def pair(column: int, value: float) -> bytes:
    """An element of a sparse matrix in a binary file."""
    return struct.pack("<bibf", 4, column, 4, value)


NUM_FRAMES, DIM, NUM_CLASSES = 4, 3, 6


def examples_alike(count: int, compress: bool = False, dense: bool = False) -> list[NnetExample]:
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
    made = examples_alike(9, compress, dense)
    examples = packed(made, tmp_path)
    assert all(isinstance(example, PackedExample) for example in examples)
    select, expected = PackedSelector(ExampleSelector(selection, CRandom(3))), ExampleSelector(selection, CRandom(3))
    for example, decoded in zip(examples, made, strict=True):
        kept = select(example)
        in_bytes = not compress or (selection.left_context, selection.right_context) == (-1, -1)
        assert isinstance(kept, BytePieces if in_bytes else NnetExample)   # parts of compressed matrices become dense
        assert written(kept, PACKED_EXAMPLE) == written(expected(decoded), EXAMPLE)


def test_rows_that_do_not_lie_together(tmp_path: Path) -> None:
    made = examples_alike(5)
    for example in made:
        example.io[2].indexes = np.array([[0, t, 0] for t in (1, 0, 1, 2)], np.int32)
    examples = packed(made, tmp_path)
    kept = PackedSelector(ExampleSelector(Selection(frame=1), CRandom()))(examples[0])
    assert isinstance(kept, NnetExample) and kept.find("output").features.shape == (2, NUM_CLASSES)
    assert np.array_equal(kept.find("output").features.to_dense(), made[0].io[2].features.to_dense()[[0, 2]])


def test_frames_that_are_not_there_and_examples_that_cannot_be_cut(tmp_path: Path) -> None:
    example = packed(examples_alike(3), tmp_path)[0]
    assert PackedSelector(ExampleSelector(Selection(frame=NUM_FRAMES), CRandom()))(example) is None
    merged = examples_alike(3)
    for each in merged:
        each.io[0].indexes[6:, 0] = 1
    select = PackedSelector(ExampleSelector(Selection(frame=1), CRandom()))
    for each in packed(merged, tmp_path)[:2]:
        with pytest.raises(Nnet3Error, match="merged examples cannot be cut"):
            select(each)
    assert isinstance(select(examples_alike(1)[0]), NnetExample)      # one that was read, not found by its layout


def test_short_context_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    select = PackedSelector(ExampleSelector(Selection(left_context=9), CRandom()))
    with caplog.at_level(logging.WARNING):
        kept = [written(select(example), PACKED_EXAMPLE) for example in packed(examples_alike(4), tmp_path)]
    assert kept == [written(example, EXAMPLE) for example in examples_alike(4)]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("options", [["--frame=random"], ["--frame=1"], ["--frame=2", "--keep-proportion=2.5"],
                                     ["--frame-shift=2", "--random=true"]], ids=" ".join)
def test_the_command_writes_the_same_in_binary_and_text(options: list[str], tmp_path: Path) -> None:
    with TableWriter(f"ark:{tmp_path / 'egs.ark'}", EXAMPLE) as writer:
        for number, example in enumerate([*examples_alike(12, compress=True), *examples_alike(12, dense=True)]):
            writer.write(f"key-{number}", example)
    for form in ("", ",t"):                                   # text is written of decoded examples
        outputs = [f"ark{form}:{tmp_path / f'{part}{form}.ark'}" for part in "ab"]
        assert copy_egs.execute([*options, f"ark:{tmp_path / 'egs.ark'}", *outputs]) == 0
    for part in "ab":
        assert copy_egs.execute([f"ark:{tmp_path / f'{part}.ark'}", f"ark,t:{tmp_path / 'text'}"]) == 0
        assert (tmp_path / "text").read_bytes() == (tmp_path / f"{part},t.ark").read_bytes() != b""
