"""Dense matrices and vectors in Kaldi's files, text and binary. Kaldi: ``kaldi-matrix.cc``, ``kaldi-vector.cc``."""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from nnet3py.io.tokens import TokenReader, TokenWriter

_DTYPES = {"F": np.dtype("<f4"), "D": np.dtype("<f8")}
_WORD = re.compile(rb"-?[0-9][-+0-9.eE]*|-?\.?[0-9][-+0-9.eE]*|(?:inf|infinity|nan)", re.IGNORECASE)


def read_matrix(reader: TokenReader, dtype: Any = np.float32) -> np.ndarray:
    """A matrix (rows, cols) as ``dtype``; compressed ones decode. FormatError for what is none."""
    if not reader.binary:
        return _read_text(reader, matrix=True).astype(dtype, copy=False)
    if reader.peek(1) == b"C":
        from nnet3py.io.compressed import CompressedMatrix

        return CompressedMatrix.read(reader).to_dense().astype(dtype, copy=False)
    stored = _stored_dtype(reader, "M")
    rows, cols = reader.integer(), reader.integer()
    if rows < 0 or cols < 0:
        raise reader.error(f"expected the size of a matrix, found {rows} x {cols}")
    reader.check_count(rows * cols, stored.itemsize)
    data = np.frombuffer(reader.raw(rows * cols * stored.itemsize), dtype=stored)
    return data.astype(dtype).reshape(rows, cols)


def read_vector(reader: TokenReader, dtype: Any = np.float32) -> np.ndarray:
    """A vector (dim,) as ``dtype``. FormatError for what is none."""
    if not reader.binary:
        return _read_text(reader, matrix=False).astype(dtype, copy=False)
    stored = _stored_dtype(reader, "V")
    dim = reader.integer()
    reader.check_count(dim, stored.itemsize)
    return np.frombuffer(reader.raw(dim * stored.itemsize), dtype=stored).astype(dtype)


def write_matrix(writer: TokenWriter, matrix: np.ndarray) -> None:
    """Write a matrix (rows, cols): float64 as doubles, all else as floats."""
    matrix = _storable(matrix)
    if writer.binary:
        writer.token(f"{'D' if matrix.dtype == np.float64 else 'F'}M")
        writer.integer(matrix.shape[0])
        writer.integer(matrix.shape[1])
        writer.raw(matrix.tobytes())
    elif matrix.shape[1] == 0 or matrix.shape[0] == 0:
        writer.raw(b" [ ]\n")
    else:
        row = b"\n  " + b"%.7g " * matrix.shape[1]
        writer.raw(b" [" + (row * matrix.shape[0]) % tuple(matrix.ravel().tolist()) + b"]\n")


def write_vector(writer: TokenWriter, vector: np.ndarray) -> None:
    """Write a vector (dim,): float64 as doubles, all else as floats."""
    vector = _storable(vector)
    if writer.binary:
        writer.token(f"{'D' if vector.dtype == np.float64 else 'F'}V")
        writer.integer(vector.size)
        writer.raw(vector.tobytes())
    else:
        writer.raw(b" [ " + (b"%.7g " * vector.size) % tuple(vector.tolist()) + b"]\n")


def _storable(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, dtype="<f8" if array.dtype == np.float64 else "<f4")


def _stored_dtype(reader: TokenReader, kind: str) -> np.dtype:
    found = reader.token()
    if len(found) != 2 or found[0] not in _DTYPES or found[1] != kind:
        raise reader.error(f"expected F{kind} or D{kind}, found {found[:40]}")
    return _DTYPES[found[0]]


def _read_text(reader: TokenReader, matrix: bool) -> np.ndarray:
    what = "matrix" if matrix else "vector"
    reader.skip_whitespace()
    if reader.peek(2) == b"[]":
        reader.raw(2)
        return np.zeros((0, 0) if matrix else 0)
    if reader.raw(1) != b"[":
        raise reader.error(f"expected '[' before a {what}")
    text = reader.up_to(b"]")
    if reader.peek(1) == b"\n" or reader.peek(2) == b"\r\n":
        reader.line()
    rows = [_numbers(reader, row) for row in re.split(rb"[\n;]" if matrix else rb"\n", text) if row.strip()]
    if not matrix:
        if len(rows) > 1:
            raise reader.error("expected a vector, found several rows", "maybe it is a matrix?")
        return rows[0] if rows else np.zeros(0)
    if len({len(row) for row in rows}) > 1:
        raise reader.error(f"the rows of a matrix have different lengths: {sorted({len(row) for row in rows})}")
    return np.array(rows) if rows else np.zeros((0, 0))


def _numbers(reader: TokenReader, text: bytes) -> np.ndarray:
    words = text.split()
    for word in words:
        if _WORD.fullmatch(word) is None or word[:1] in (b".", b"+") or word[:2] == b"-i":
            raise reader.error(f"expected a number, found {word[:40]!r}")
    try:
        return np.array(words, dtype="S").astype(np.float64)
    except ValueError:
        raise reader.error(f"expected numbers, found {text[:40]!r}") from None
