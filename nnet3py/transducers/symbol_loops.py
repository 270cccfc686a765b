"""Loops through the symbol tables of OpenFst's files; imported only to be compiled."""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.engine.inline import inline


@inline
def _number(data: Any, at: int, size: int) -> int:
    """Return the little-endian integer of ``size`` bytes at ``at``."""
    value = np.uint64(0)
    for i in range(size):
        value |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return np.int64(value)


def find_symbols(data: Any, size: int, at: int, places: np.ndarray, lengths: np.ndarray, keys: np.ndarray,
                 count: int) -> int:
    """Parse ``count`` symbols from ``at`` on; return the position after them, or -1 if the data end before.

    ``places`` (int64), ``lengths`` (int32) and ``keys`` (int64) get the position, the number of bytes and the number of
    each symbol, unless they are empty.
    """
    for symbol in range(count):
        if at + 4 > size:
            return np.int64(-1)
        length = _number(data, at, 4)
        if length >= 1 << 31 or at + 12 + length > size:
            return np.int64(-1)
        if len(places) > 0:
            places[symbol], lengths[symbol], keys[symbol] = at + 4, length, _number(data, at + 4 + length, 8)
        at += 12 + length
    return at


def hash_symbols(data: Any, places: np.ndarray, lengths: np.ndarray, hashes: np.ndarray) -> None:
    """Compute a hash of each symbol (FNV-1a)."""
    for symbol in range(len(places)):
        value = np.uint64(0xCBF29CE484222325)
        for at in range(places[symbol], places[symbol] + lengths[symbol]):
            value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        hashes[symbol] = value
