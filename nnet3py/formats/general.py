"""Sparse matrices, such as the labels of examples; and functions for matrices in any of their forms.

Kaldi: ``SparseMatrix``, ``SparseVector``, ``GeneralMatrix``.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from nnet3py.errors import NumericError, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.layouts import COMPRESSED, SPARSE_ROW
from nnet3py.formats.matrices import read_matrix_after_token, read_text_matrix, write_matrix
from nnet3py.formats.simple_values import pair_rows_bytes, read_pair_rows, text_pairs
from nnet3py.io.tokens import TokenReader, TokenWriter

_MAX_ROWS = 10_000_000          # Kaldi's limit
_MAX_DENSE = 1 << 31            # elements; a sparse matrix that is larger when dense has a damaged dimension
_ROW_DTYPE = np.dtype([("token", "S3"), ("dim_size", "i1"), ("dim", "<i4"), ("count_size", "i1"), ("count", "<i4")])


class SparseMatrix:
    """A matrix of which only the elements other than 0 are stored, by rows.

    Attributes
    ----------
    row_starts : int64 (rows + 1,), where each row's elements begin
    columns : int32 (elements,), increasing within a row
    values : float32 (elements,)
    num_cols : int, number of columns
    """

    def __init__(self, row_starts: np.ndarray, columns: np.ndarray, values: np.ndarray, num_cols: int) -> None:
        self.row_starts = np.asarray(row_starts, dtype=np.int64)
        self.columns = np.asarray(columns, dtype=np.int32)
        self.values = np.asarray(values, dtype=np.float32)
        self.num_cols = int(num_cols) if self.num_rows else 0

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.num_rows, self.num_cols

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[tuple[int, float]]], num_cols: int) -> SparseMatrix:
        """Make a matrix of (column, value) lists, in any order, as :meth:`from_arrays` does."""
        lists = [list(row) for row in rows]
        pairs = [pair for row in lists for pair in row]
        starts = np.cumsum([0, *map(len, lists)])
        return cls.from_arrays(starts, np.array([c for c, _ in pairs], dtype=np.int64),
                               np.array([v for _, v in pairs], dtype=np.float32), num_cols)

    @classmethod
    def from_arrays(cls, row_starts: np.ndarray, columns: np.ndarray, values: np.ndarray,
                    num_cols: int) -> SparseMatrix:
        """Make a matrix from elements in any order within rows: repeated columns are summed, zeros dropped.

        ShapeError for a column outside 0 … num_cols - 1. Kaldi: the constructor from pairs.
        """
        columns = np.asarray(columns)
        values = np.asarray(values, dtype=np.float32)
        if len(columns) and not (0 <= int(columns.min()) and int(columns.max()) < num_cols):
            raise ShapeError(f"expected columns from 0 to {num_cols - 1}, found {columns.min()} to {columns.max()}")
        num_rows = len(row_starts) - 1
        rows = np.repeat(np.arange(num_rows), np.diff(row_starts))
        places = rows * max(num_cols, 1) + columns
        if np.any(np.diff(places) <= 0):
            order = np.argsort(places, kind="stable")
            places, first = np.unique(places[order], return_index=True)
            values = np.add.reduceat(values[order], first)
        keep = values != 0
        places, values = places[keep], values[keep]
        starts = np.searchsorted(places, np.arange(num_rows + 1) * max(num_cols, 1))
        return cls(starts, places % max(num_cols, 1), values, num_cols)

    # -- files -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader: TokenReader) -> SparseMatrix:
        """Read a matrix, text or binary; FormatError for other contents."""
        return cls.read_after_token(reader, reader.token())

    @classmethod
    def read_after_token(cls, reader: TokenReader, token: str) -> SparseMatrix:
        """Read what follows the first token: ``SM``, or ``rows=N`` in text."""
        if reader.binary:
            if token != "SM":
                raise reader.unexpected(token, "a sparse matrix (SM)")
            num_rows = reader.integer()
        else:
            num_rows = _named_number(reader, token, "rows")
        if not 0 <= num_rows < _MAX_ROWS:
            raise reader.error(f"expected a sparse matrix of less than {_MAX_ROWS} rows, found {num_rows}")
        read = _read_binary_rows if reader.binary else _read_text_rows
        row_starts, columns, values, dims = read(reader, num_rows)
        num_cols = dims[0] if dims else 0
        if any(dim != num_cols for dim in dims):
            raise reader.error("expected rows of one dimension in a sparse matrix, found several")
        return cls(row_starts, *_checked(reader, row_starts, columns, values, num_cols), num_cols)

    def write(self, writer: TokenWriter) -> None:
        """Write the matrix, text or binary."""
        if writer.binary:
            headers = np.empty(self.num_rows, dtype=_ROW_DTYPE)
            headers["token"], headers["dim"], headers["count"] = b"SV ", self.num_cols, np.diff(self.row_starts)
            headers["dim_size"] = headers["count_size"] = 4
            writer.token("SM")
            writer.integer(self.num_rows)
            writer.raw(pair_rows_bytes(headers, self.row_starts, self.columns, self.values))
            return
        writer.raw(b"rows=%d " % self.num_rows)
        for start, end in zip(self.row_starts[:-1].tolist(), self.row_starts[1:].tolist(), strict=True):
            pairs = text_pairs(self.columns[start:end], self.values[start:end])
            writer.raw(b"dim=%d [ " % self.num_cols + pairs + b"] ")
        writer.raw(b"\n")

    # -- other forms -----------------------------------------------------------------------------------------------

    def to_dense(self) -> np.ndarray:
        """Return the matrix as a new array, float32 (rows, cols). ShapeError if that needs an absurd amount of memory.
        """
        if self.num_rows * self.num_cols > _MAX_DENSE:
            raise ShapeError(f"a sparse matrix of {self.num_rows} x {self.num_cols} is too large to be made dense")
        dense = np.zeros(self.shape, dtype=np.float32)
        dense[np.repeat(np.arange(self.num_rows), np.diff(self.row_starts)), self.columns] = self.values
        return dense

    def scaled(self, factor: float) -> SparseMatrix:
        """Return this matrix times ``factor``; row starts and columns are not copied."""
        return SparseMatrix(self.row_starts, self.columns, self.values * np.float32(factor), self.num_cols)

    def take_rows(self, indexes: np.ndarray) -> SparseMatrix:
        """Return the rows ``indexes`` (int array, repeats allowed)."""
        rows = np.asarray(indexes, dtype=np.int64)
        if rows.size and not (0 <= int(rows.min()) and int(rows.max()) < self.num_rows):
            raise ShapeError(f"expected rows from 0 to {self.num_rows - 1} of a sparse matrix, found {rows.min()} to "
                             f"{rows.max()}")
        counts = np.diff(self.row_starts)[rows]
        starts = np.concatenate(([0], np.cumsum(counts)))
        elements = np.arange(starts[-1]) + np.repeat(self.row_starts[rows] - starts[:-1], counts)
        return SparseMatrix(starts, self.columns[elements], self.values[elements], self.num_cols)

    @classmethod
    def concatenate(cls, parts: Sequence[SparseMatrix]) -> SparseMatrix:
        """Return the rows of several matrices, one after the other. Kaldi: AppendSparseMatrixRows.

        ShapeError if numbers of columns differ.
        """
        filled = [part for part in parts if part.num_rows]
        dims = {part.num_cols for part in filled}
        if len(dims) > 1:
            raise ShapeError(f"sparse matrices of {' and '.join(map(str, sorted(dims)))} columns cannot be joined")
        if not filled:
            return cls(np.zeros(1), np.empty(0), np.empty(0), 0)
        sizes = np.cumsum([0] + [len(part.values) for part in filled])
        starts = [part.row_starts[:-1] + size for part, size in zip(filled, sizes, strict=False)]
        return cls(np.concatenate([*starts, sizes[-1:]]), np.concatenate([part.columns for part in filled]),
                   np.concatenate([part.values for part in filled]), dims.pop())


def _read_binary_rows(reader: TokenReader, num_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    dims = []

    def count_of(header: tuple) -> int:
        token, dim_size, dim, count_size, count = header
        if token != b"SV " or dim_size != 4 or count_size != 4:
            raise reader.error(f"expected a row of a sparse matrix (SV), found {token!r}")
        if not 0 <= count <= dim:
            raise reader.error(f"expected a row of at most {dim} elements, found {count}")
        dims.append(dim)
        return count

    return *read_pair_rows(reader, num_rows, SPARSE_ROW, count_of), dims


def _read_text_rows(reader: TokenReader, num_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    starts, columns, values, dims = [0], [], [], []
    for _ in range(num_rows):
        dims.append(_named_number(reader, reader.token(), "dim"))
        reader.expect("[")
        while reader.peek_byte() != b"]":
            columns.append(reader.integer())
            values.append(reader.real())
        reader.expect("]")
        starts.append(len(columns))
    with np.errstate(over="ignore"):
        return np.array(starts), np.array(columns, dtype=np.int32), np.array(values, dtype=np.float32), dims


def _named_number(reader: TokenReader, token: str, name: str) -> int:
    key, _, number = token.partition("=")
    if key != name or not (number.isascii() and number.isdigit()) or int(number[:20]) > 0x7fffffff:
        raise reader.unexpected(token, f"{name}=NUMBER in a sparse matrix")
    return int(number)


def _checked(reader: TokenReader, row_starts: np.ndarray, columns: np.ndarray, values: np.ndarray,
             num_cols: int) -> tuple[np.ndarray, np.ndarray]:
    """Return columns and values; FormatError if columns are out of range or not increasing within a row."""
    if len(columns):
        if int(columns.min()) < 0 or int(columns.max()) >= num_cols:
            raise reader.error(f"expected columns from 0 to {num_cols - 1}, found {columns.min()} to {columns.max()}")
        new_row = np.zeros(len(columns) + 1, dtype=bool)
        new_row[row_starts] = True
        if np.any((np.diff(columns) <= 0) & ~new_row[1:-1]):
            raise reader.error("expected increasing columns in each row of a sparse matrix")
    return columns, values


GeneralMatrix: TypeAlias = "np.ndarray | CompressedMatrix | SparseMatrix"

_FINITE_HINT = "check how it was made"


def read_general_matrix(reader: TokenReader) -> GeneralMatrix:
    """Read a matrix in the form in which it is stored: float32 (rows, cols), CompressedMatrix or SparseMatrix."""
    if not reader.binary:
        return SparseMatrix.read(reader) if reader.peek_byte() == b"r" else read_text_matrix(reader)
    token = reader.token()
    if token in COMPRESSED:
        return CompressedMatrix.read_after_token(reader, token)
    if token == "SM":
        return SparseMatrix.read_after_token(reader, token)
    return read_matrix_after_token(reader, token)


def write_general_matrix(writer: TokenWriter, matrix: GeneralMatrix) -> None:
    """Write a matrix in its own form; a matrix without rows, and in text a compressed one, is written as a dense one.
    """
    form = SparseMatrix if not writer.binary else CompressedMatrix | SparseMatrix
    if isinstance(matrix, form) and matrix.num_rows:
        matrix.write(writer)
    else:
        write_matrix(writer, to_dense(matrix).astype(np.float32, copy=False))


def to_dense(matrix: GeneralMatrix) -> np.ndarray:
    """Return the matrix as float32 (rows, cols): a new array, or the matrix itself if it is dense."""
    return matrix.to_dense() if isinstance(matrix, CompressedMatrix | SparseMatrix) else matrix


def take_rows(matrix: GeneralMatrix, indexes: np.ndarray) -> GeneralMatrix:
    """Return the rows ``indexes`` (int array, repeats allowed), in the matrix's own form."""
    return matrix.take_rows(indexes) if isinstance(matrix, CompressedMatrix | SparseMatrix) else matrix[indexes]


def row_range(matrix: GeneralMatrix, first: int, count: int) -> GeneralMatrix:
    """Return ``count`` rows from ``first`` on, in the matrix's own form; rows outside repeat the first or last one.

    Kaldi: ExtractRowRangeWithPadding.
    """
    return take_rows(matrix, np.clip(np.arange(first, first + count), 0, matrix.shape[0] - 1))


def compressed(matrix: GeneralMatrix) -> GeneralMatrix:
    """Compress a dense matrix with the automatic method; return others unchanged. Kaldi: GeneralMatrix::Compress."""
    return matrix if isinstance(matrix, CompressedMatrix | SparseMatrix) else CompressedMatrix.compress(matrix)


def scaled(matrix: GeneralMatrix, factor: float) -> GeneralMatrix:
    """Return the matrix times ``factor``, in its own form. Kaldi: GeneralMatrix::Scale."""
    if isinstance(matrix, CompressedMatrix | SparseMatrix):
        return matrix.scaled(factor)
    return matrix * np.float32(factor)


def check_finite(matrix: GeneralMatrix, what: str) -> None:
    """Raise NumericError, naming the first bad element, for NaN, infinity or numbers too large for float32.

    Of a compressed matrix only the minimum and range are checked. Complex numbers and texts are refused.
    """
    if isinstance(matrix, CompressedMatrix):
        with np.errstate(all="ignore"):
            if not np.isfinite(matrix.minimum + matrix.range):
                raise NumericError(f"{what} is a compressed matrix with the minimum {matrix.minimum} and the range "
                                   f"{matrix.range}; expected finite numbers", _FINITE_HINT)
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
