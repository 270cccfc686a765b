"""Matrices in any form."""
from __future__ import annotations

import numpy as np
import pytest
from io_samples import check_survives, reader_of, written

from nnet3py.errors import FormatError, NumericError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import (
    GeneralMatrix,
    SparseMatrix,
    check_finite,
    compressed,
    read_general_matrix,
    row_range,
    scaled,
    take_rows,
    to_dense,
    write_general_matrix,
)
from nnet3py.formats.matrices import write_matrix

DENSE = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
FORMS: list[GeneralMatrix] = [DENSE, CompressedMatrix.compress(DENSE), CompressedMatrix.compress(DENSE, 3),
                              SparseMatrix.from_rows([[(1, 0.5)]] * 12, 5)]


LARGE = np.finfo(np.float32).max


@pytest.mark.parametrize("matrix, fault", [
    *((form, None) for form in FORMS), (np.full((2, 2), LARGE), None), (np.zeros((0, 3)), None),
    (np.array([[0, 1]]), None),
    (np.array([[0.0, 1e39], [-np.inf, 2.0]]), "has 1e+39 in row 0, column 1 (2 such elements)"),
    (np.array([[0.0, 1.0], [np.nan, np.inf]], np.float32), "has nan in row 1, column 0 (2 such elements)"),
    (SparseMatrix(np.array([0, 1, 1, 3, 4]), np.array([1, 0, 3, 2]), np.array([1, 2, np.inf, np.nan], np.float32), 5),
     "has inf in row 2, column 3 (2 such elements)"),
    (SparseMatrix(np.array([0, 1, 2]), np.array([4, 2]), np.array([-np.inf, 1], np.float32), 5),
     "has -inf in row 0, column 4 (1 such elements)"),
    (CompressedMatrix("CM3", 0.5, np.inf, np.zeros((1, 1), np.uint8)),
     "is a compressed matrix with the minimum 0.5 and the range inf; expected finite numbers")])
def test_the_first_element_that_is_no_number(matrix: GeneralMatrix, fault: str | None) -> None:
    if fault is None:
        check_finite(matrix, "it")
        return
    with pytest.raises(NumericError) as error:
        check_finite(matrix, "it")
    assert str(error.value) == f"it {fault} (check how it was made)"


@pytest.mark.parametrize("dtype, hint", [(np.complex64, " (take .real or abs() of complex numbers)"), (np.str_, "")])
def test_elements_that_are_not_real_numbers(dtype: type, hint: str) -> None:
    matrix = np.zeros((1, 1), dtype=dtype)
    with pytest.raises(NumericError) as error:
        check_finite(matrix, "it")
    assert str(error.value) == f"it has elements of type {matrix.dtype}; expected real numbers{hint}"


@pytest.mark.parametrize("matrix", FORMS)
def test_the_form_is_kept_in_binary(matrix: GeneralMatrix) -> None:
    data = written(write_general_matrix, matrix, binary=True)
    reader = reader_of(data, True)
    found = read_general_matrix(reader)
    assert type(found) is type(matrix)
    assert reader.at_end()
    assert np.array_equal(to_dense(found), to_dense(matrix))
    assert written(write_general_matrix, found, binary=True) == data


@pytest.mark.parametrize("matrix", FORMS)
def test_text_is_dense_or_sparse(matrix: GeneralMatrix) -> None:
    found = read_general_matrix(reader_of(b" " + written(write_general_matrix, matrix, binary=False), False))
    assert isinstance(found, SparseMatrix) == isinstance(matrix, SparseMatrix)
    np.testing.assert_allclose(to_dense(found), to_dense(matrix), rtol=1e-6)      # seven digits are printed


@pytest.mark.parametrize("matrix", FORMS)
def test_rows_and_scale_keep_the_form(matrix: GeneralMatrix) -> None:
    dense = to_dense(matrix)
    part = row_range(matrix, -1, 9)
    assert type(part) is type(matrix)
    assert np.array_equal(to_dense(part), dense[[0, 0, 1, 2, 3, 4, 5, 6, 7]])
    assert np.array_equal(to_dense(take_rows(matrix, np.arange(9)[::-1])), dense[8::-1])
    assert np.array_equal(to_dense(scaled(matrix, 0.5)), dense * np.float32(0.5))
    assert np.array_equal(to_dense(matrix), dense)


def test_compressing() -> None:
    assert isinstance(compressed(DENSE), CompressedMatrix)
    for matrix in FORMS[1:]:
        assert compressed(matrix) is matrix


def test_empty_ones_are_dense() -> None:
    for empty in (SparseMatrix.from_rows([], 3), CompressedMatrix.compress(np.empty((0, 0))), np.empty((0, 0))):
        assert written(write_general_matrix, empty, binary=True) == b"FM \4\0\0\0\0\4\0\0\0\0"


def test_doubles_become_floats() -> None:
    found = read_general_matrix(reader_of(written(write_matrix, DENSE.astype(np.float64), binary=True), True))
    assert isinstance(found, np.ndarray) and found.dtype == np.float32


def test_anything_else_is_refused() -> None:
    with pytest.raises(FormatError, match="expected a matrix"):
        read_general_matrix(reader_of(b"XX \4\0\0\0\0", True))


@pytest.mark.parametrize("matrix", FORMS)
def test_damaged_bytes_are_refused(matrix: GeneralMatrix) -> None:
    data = written(write_general_matrix, matrix, binary=True)
    check_survives(lambda reader: to_dense(read_general_matrix(reader)), data, True, count=100)
