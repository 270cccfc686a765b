"""Matrices made of their bytes in an archive, in a fraction of the time that reading token by token takes."""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.io.compressed import CompressedMatrix
from nnet3py.io.raw_matrix import head_of, walk_features
from nnet3py.io.skim import Entry, Skimmer


def stored_matrix(data: bytes) -> CompressedMatrix | np.ndarray:
    """A matrix of its bytes, ``FM`` or compressed; the dense one is new and writable."""
    kind, minimum, range_, num_rows, num_cols, begin = head_of(data)
    count = num_rows * num_cols
    if kind == "FM":
        return np.frombuffer(data, "<f4", count, begin).astype(np.float32).reshape(num_rows, num_cols)
    if kind == "CM":
        percentiles = np.frombuffer(data, "<u2", 4 * num_cols, begin).astype(np.uint16).reshape(num_cols, 4)
        codes = np.frombuffer(data, np.uint8, count, len(data) - count).reshape(num_cols, num_rows)
        return CompressedMatrix(kind, minimum, range_, codes, percentiles)
    code: Any = np.uint16 if kind == "CM2" else np.uint8
    elements = np.frombuffer(data, np.dtype(code).newbyteorder("<"), count, begin).astype(code)
    return CompressedMatrix(kind, minimum, range_, elements.reshape(num_rows, num_cols))


def dense_matrix(value: Any) -> np.ndarray:
    """A matrix, compressed or not or its bytes, as float32 (rows, cols)."""
    matrix = stored_matrix(value) if isinstance(value, bytes) else value
    return matrix.to_dense() if isinstance(matrix, CompressedMatrix) else matrix


class DenseSkimmer(Skimmer):
    """Finds the matrices of an archive and makes them dense: float32 (rows, cols)."""

    def __init__(self) -> None:
        super().__init__(walk_features, alike=False)

    def entries(self, data: bytes) -> tuple[list[Entry], int, bool]:
        """Key and matrix of the entries in front, how many bytes they take, and whether the next one is unusual."""
        found, consumed, unusual = super().entries(data)
        return [(key, dense_matrix(value)) for key, value in found], consumed, unusual
