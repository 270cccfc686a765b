"""Matrices made from their bytes in an archive, in a fraction of the time that reading token by token takes."""
from __future__ import annotations

import struct
from typing import Any

import numpy as np

from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.compressed_code import address, decode_columns, expect_decoding
from nnet3py.formats.layouts import DENSE, FORMS, Head, head_of
from nnet3py.formats.matrix_skimmer import Found, MatrixSkimmer

_DTYPES = {kind: (np.dtype(form.element), np.dtype(form.element).newbyteorder("=")) for kind, form in FORMS.items()}


def _stored(data: bytes, head: Head) -> CompressedMatrix | np.ndarray:
    """The matrix with this head in ``data``, as it is stored, in memory of its own."""
    kind, minimum, range_, num_rows, num_cols, begin, end = head
    count = num_rows * num_cols
    stored, native = _DTYPES[kind]
    elements = np.frombuffer(data, stored, count, end - count * stored.itemsize).astype(native)
    if kind == "CM":
        percentiles = np.frombuffer(data, "<u2", 4 * num_cols, begin).astype(np.uint16).reshape(num_cols, 4)
        return CompressedMatrix(kind, minimum, range_, elements.reshape(num_cols, num_rows), percentiles)
    elements = elements.reshape(num_rows, num_cols)
    return elements if kind in DENSE else CompressedMatrix(kind, minimum, range_, elements)


def _dense(matrix: Any) -> np.ndarray:
    return matrix.to_dense() if isinstance(matrix, CompressedMatrix) else matrix


def dense_matrix(value: Any) -> np.ndarray:
    """A matrix, dense, compressed or as bytes, as float32 (rows, cols)."""
    return _dense(_stored(value, head_of(value)) if isinstance(value, bytes) else value)


def _all_dense(data: bytes, entries: list[Found]) -> list[np.ndarray]:
    return [_decoded(data, entry.head) if entry.head.kind == "CM" else _dense(_stored(data, entry.head))
            for entry in entries]


def _decoded(data: bytes, head: Head) -> np.ndarray:
    num_rows, num_cols = head.num_rows, head.num_cols
    if not expect_decoding(num_rows * num_cols):
        return _dense(_stored(data, head))
    result = np.empty((num_rows, num_cols), dtype=np.float32)
    decode_columns(data, data, struct.pack("=5q", head.begin, head.end - result.size, 0, num_rows, num_cols),
                   struct.pack("=2f", head.minimum, head.range), address(result))
    return result


def dense_skimmer() -> MatrixSkimmer:
    """Finds the matrices of an archive and makes them dense: float32 (rows, cols)."""
    return MatrixSkimmer(_all_dense)
