"""Compiled decoding of very large compressed matrices, from the tables that ``compressed.py`` makes: the same bits.

numba is imported, and the loops are compiled, when the first such matrix is decoded.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


def _uniform(table: np.ndarray, codes: np.ndarray, target: np.ndarray) -> None:
    for row in range(codes.shape[0]):
        for column in range(codes.shape[1]):
            target[row, column] = table[codes[row, column]]


def _columns(tables: np.ndarray, codes: np.ndarray, target: np.ndarray) -> None:
    rows_at_once = 64                    # so that a block of the target, whose rows lie apart, stays in the cache
    num_cols, num_rows = codes.shape
    for first in range(0, num_rows, rows_at_once):
        last = min(first + rows_at_once, num_rows)
        for column in range(num_cols):
            table, column_codes = tables[column], codes[column]
            for row in range(first, last):
                target[row, column] = table[column_codes[row]]


@cache
def _compiled(function: Callable[..., None]) -> Callable[..., Any]:
    import numba

    return numba.njit(nogil=True)(function)


def look_up_uniform(table: np.ndarray, codes: np.ndarray, target: np.ndarray) -> None:
    """``target`` (rows, cols) := the elements of ``table`` float32 (codes,) that ``codes`` (rows, cols) name."""
    _compiled(_uniform)(table, codes, target)


def look_up_columns(tables: np.ndarray, codes: np.ndarray, target: np.ndarray) -> None:
    """``target`` (rows, cols) := the elements of each column's row of ``tables`` (cols, 256) that ``codes`` name.

    ``codes`` is uint8 (cols, rows).
    """
    _compiled(_columns)(tables, codes, target)
