"""A matrix in whichever form it is stored: dense, compressed or sparse. Kaldi: ``GeneralMatrix``."""
from __future__ import annotations

from typing import TypeAlias

import numpy as np

from nnet3py.errors import NumericError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.layouts import COMPRESSED
from nnet3py.formats.matrices import read_matrix_after_token, read_text_matrix, write_matrix
from nnet3py.formats.sparse import SparseMatrix
from nnet3py.io.tokens import TokenReader, TokenWriter

GeneralMatrix: TypeAlias = "np.ndarray | CompressedMatrix | SparseMatrix"

_FINITE_HINT = "check how it was made"


def read_general_matrix(reader: TokenReader) -> GeneralMatrix:
    """Read a matrix and keep its form: float32 (rows, cols), CompressedMatrix or SparseMatrix."""
    if not reader.binary:
        return SparseMatrix.read(reader) if reader.peek_byte() == b"r" else read_text_matrix(reader)
    token = reader.token()
    if token in COMPRESSED:
        return CompressedMatrix.read_after_token(reader, token)
    if token == "SM":
        return SparseMatrix.read_after_token(reader, token)
    return read_matrix_after_token(reader, token)


def read_compressed(reader: TokenReader) -> CompressedMatrix:
    """Read a compressed matrix; a dense one, or text, is compressed with the automatic method."""
    if not reader.binary:
        return CompressedMatrix.compress(read_text_matrix(reader))
    token = reader.token()
    if token in COMPRESSED:
        return CompressedMatrix.read_after_token(reader, token)
    return CompressedMatrix.compress(read_matrix_after_token(reader, token))


def write_general_matrix(writer: TokenWriter, matrix: GeneralMatrix) -> None:
    """Write a matrix in its form; one without rows, and in text a compressed one, is written as a dense one."""
    form = SparseMatrix if not writer.binary else CompressedMatrix | SparseMatrix
    if isinstance(matrix, form) and matrix.num_rows:
        matrix.write(writer)
    else:
        write_matrix(writer, to_dense(matrix).astype(np.float32, copy=False))


def to_dense(matrix: GeneralMatrix) -> np.ndarray:
    """The matrix as float32 (rows, cols): a new array, or the array itself if it is one."""
    return matrix.to_dense() if isinstance(matrix, CompressedMatrix | SparseMatrix) else matrix


def take_rows(matrix: GeneralMatrix, indexes: np.ndarray) -> GeneralMatrix:
    """The rows that ``indexes`` (int array, repeats allowed) names, in the form the matrix has."""
    return matrix.take_rows(indexes) if isinstance(matrix, CompressedMatrix | SparseMatrix) else matrix[indexes]


def row_range(matrix: GeneralMatrix, first: int, count: int) -> GeneralMatrix:
    """``count`` rows from ``first`` on, in the matrix's form; beyond its ends the first or last row is repeated.

    Kaldi: ExtractRowRangeWithPadding.
    """
    return take_rows(matrix, np.clip(np.arange(first, first + count), 0, matrix.shape[0] - 1))


def compressed(matrix: GeneralMatrix) -> GeneralMatrix:
    """A dense matrix compressed with the automatic method; others as they are. Kaldi: GeneralMatrix::Compress."""
    return matrix if isinstance(matrix, CompressedMatrix | SparseMatrix) else CompressedMatrix.compress(matrix)


def scaled(matrix: GeneralMatrix, factor: float) -> GeneralMatrix:
    """The matrix times ``factor``, in its form; the argument is left as it is. Kaldi: GeneralMatrix::Scale."""
    if isinstance(matrix, CompressedMatrix | SparseMatrix):
        return matrix.scaled(factor)
    return matrix * np.float32(factor)


def check_finite(matrix: GeneralMatrix, what: str) -> None:
    """Raise NumericError, naming the first bad element, if ``matrix`` holds NaN, infinity or more than float32 can.

    A compressed matrix is not decoded: its header says how far its values reach. Complex numbers and texts are refused.
    """
    if isinstance(matrix, CompressedMatrix):
        with np.errstate(all="ignore"):
            if not np.isfinite(matrix.minimum + matrix.range):
                raise NumericError(f"{what} is compressed with the minimum {matrix.minimum} and the range "
                                   f"{matrix.range}", _FINITE_HINT)
        return
    values = matrix.values if isinstance(matrix, SparseMatrix) else matrix
    if values.dtype.kind not in "fiub":
        raise NumericError(f"{what} has elements of type {values.dtype}; expected real numbers",
                           "take .real or abs() of complex numbers" if values.dtype.kind == "c" else None)
    # A sum is finite if all elements are, and costs a fraction of testing each; overflow is settled by the exact test.
    with np.errstate(all="ignore"):
        total = values.sum(dtype=np.float64)
        if np.isfinite(total) and values.dtype != np.float64:
            return
        bad = np.flatnonzero(~np.isfinite(values.astype(np.float32, copy=False)))
    if not len(bad):
        return
    value = values.flat[bad[0]]
    if isinstance(matrix, SparseMatrix):
        row, col = int(np.searchsorted(matrix.row_starts, bad[0], side="right")) - 1, matrix.columns[bad[0]]
    else:
        row, col = np.unravel_index(bad[0], matrix.shape)
    raise NumericError(f"{what} has {value} in row {row}, column {col} ({len(bad)} such elements)", _FINITE_HINT)
