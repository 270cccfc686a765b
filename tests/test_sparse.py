"""Sparse matrices."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from io_samples import check_survives, reader_of, written

from nnet3py.errors import FormatError, ShapeError
from nnet3py.formats.general import SparseMatrix

NUM_COLS = 6
TEXT_PRECISION = 1e-6        # seven digits are printed

one_row = st.lists(st.tuples(st.integers(0, NUM_COLS - 1), st.floats(-1000, 1000, width=32)), max_size=8)
rows_of_pairs = st.lists(one_row, min_size=1, max_size=6)


def save(matrix: SparseMatrix, binary: bool) -> bytes:
    return written(lambda writer: matrix.write(writer), binary=binary)


def test_bytes_are_kaldis() -> None:
    matrix = SparseMatrix.from_rows([[(3, 0.5)], []], 10)
    assert save(matrix, True) == bytes.fromhex(
        "534d20 0402000000 535620 040a000000 0401000000 0403000000 040000003f 535620 040a000000 0400000000")
    assert save(matrix, False) == b"rows=2 dim=10 [ 3 0.5 ] dim=10 [ ] \n"
    assert save(SparseMatrix.from_rows([], 0), True) == b"SM \4\0\0\0\0"


@given(rows_of_pairs)
def test_rows_are_sorted_summed_and_freed_of_zeros(rows: list) -> None:
    matrix = SparseMatrix.from_rows(rows, NUM_COLS)
    dense = np.zeros((len(rows), NUM_COLS))
    for row, pairs in enumerate(rows):
        for column, value in pairs:
            dense[row, column] += value
    assert matrix.shape == dense.shape
    np.testing.assert_allclose(matrix.to_dense(), dense, rtol=1e-5, atol=1e-3)    # float sums of 8 values
    assert (matrix.values != 0).all()
    for start, end in zip(matrix.row_starts[:-1], matrix.row_starts[1:], strict=True):
        assert (np.diff(matrix.columns[start:end]) > 0).all()


@given(rows_of_pairs, st.booleans())
def test_files_come_back(rows: list, binary: bool) -> None:
    matrix = SparseMatrix.from_rows(rows, NUM_COLS)
    data = save(matrix, binary)
    reader = reader_of(data, binary)
    found = SparseMatrix.read(reader)
    assert np.array_equal(found.row_starts, matrix.row_starts)
    assert np.array_equal(found.columns, matrix.columns)
    np.testing.assert_allclose(found.values, matrix.values, rtol=0 if binary else TEXT_PRECISION)
    assert save(found, binary) == data
    reader.skip_whitespace()
    assert reader.at_end()


@given(rows_of_pairs, st.data())
def test_parts_and_joins(rows: list, data: st.DataObject) -> None:
    matrix = SparseMatrix.from_rows(rows, NUM_COLS)
    indexes = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=9))
    part = matrix.take_rows(np.array(indexes))
    assert np.array_equal(part.to_dense(), matrix.to_dense()[indexes])
    joined = SparseMatrix.concatenate([matrix, SparseMatrix.from_rows([], 3), part])
    assert np.array_equal(joined.to_dense(), np.concatenate([matrix.to_dense(), part.to_dense()]))
    assert np.array_equal(matrix.scaled(2).to_dense(), 2 * matrix.to_dense())


def test_joining_nothing_and_unlike_matrices() -> None:
    assert SparseMatrix.concatenate([]).shape == (0, 0)
    with pytest.raises(ShapeError, match="3 and 4 columns"):
        SparseMatrix.concatenate([SparseMatrix.from_rows([[]], 3), SparseMatrix.from_rows([[]], 4)])
    with pytest.raises(ShapeError):
        SparseMatrix.from_rows([[(3, 1.0)]], 3)


def test_doubles_are_accepted() -> None:
    row = b"SV \4\6\0\0\0\4\1\0\0\0"
    double = b"\4\2\0\0\0\10" + np.float64(0.1).tobytes()
    single = b"\4\3\0\0\0\4" + np.float32(0.5).tobytes()
    found = SparseMatrix.read(reader_of(b"SM \4\3\0\0\0" + row + double + row + single + row + double, True))
    assert found.columns.tolist() == [2, 3, 2]
    assert found.values.tolist() == [np.float32(0.1), 0.5, np.float32(0.1)]


@pytest.mark.parametrize("text, message", [
    (b"rows=2 dim=3 [ 0 1 ] dim=4 [ ] ", "one dimension"),
    (b"rows=1 dim=3 [ 1 1 1 2 ] ", "increasing"),
    (b"rows=1 dim=3 [ 3 1 ] ", "columns from 0 to 2"),
    (b"rows=-1 ", "rows=NUMBER"),
    (b"rows=99999999999 ", "rows=NUMBER"),
    (b"rows=20000000 ", "less than"),
    (b"rows=1 dim=x [ ] ", "dim=NUMBER"),
    (b"rows=1 dim=3 [ 1 ", "end of the file"),
])
def test_bad_text_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        SparseMatrix.read(reader_of(text, False))


def test_a_monster_is_not_made_dense() -> None:
    matrix = SparseMatrix(np.zeros(5_000_001), np.empty(0), np.empty(0), 2_000_000_000)
    with pytest.raises(ShapeError, match="too large"):
        matrix.to_dense()


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_bytes_are_refused(binary: bool) -> None:
    matrix = SparseMatrix.from_rows([[(3, 0.5), (5, 1)], [], [(0, 2.5)]], 10)
    check_survives(SparseMatrix.read, save(matrix, binary), binary)
