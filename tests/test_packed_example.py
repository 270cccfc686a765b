"""nnet3py/egs/packed_example.py: what is merged from bytes is what is merged of decoded examples, to the byte."""
from __future__ import annotations

import struct
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from test_skim import examples, written

from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo
from nnet3py.egs.make import time_indexes
from nnet3py.egs.merger import merge_examples
from nnet3py.egs.packed_example import PACKED_EXAMPLE, PackedExample, merge_packed
from nnet3py.errors import FormatError, NumericError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix
from nnet3py.io.holder import BytePieces
from nnet3py.io.tables import SequentialReader, TableWriter


def packed(made: list[NnetExample], folder: Any) -> list[Any]:
    """The examples as they are read for merging, without those that came before their layout was known."""
    with TableWriter(f"ark:{folder / 'x.ark'}", EXAMPLE) as writer:
        for _ in range(3):
            for number, one in enumerate(made):
                writer.write(f"key-{number}", one)
    with SequentialReader(f"ark:{folder / 'x.ark'}", PACKED_EXAMPLE) as reader:
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
    with TableWriter(f"ark:{tmp_path / 'x.ark'}", EXAMPLE) as writer:
        for number, example in enumerate(made):
            writer.write(f"key-{number}", example)
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
