"""Finding the states of graphs that are made while decoding by their keys; imported only to be compiled."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline


@inline
def place_of(keys: np.ndarray, table: np.ndarray, key: int) -> int:
    """Where a state is in the table, or would be."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mask = np.int64(len(table) - 1)
    place = np.int64(mixed >> np.uint64(24)) & mask
    while table[place] >= 0 and keys[table[place]] != key:
        place = (place + 1) & mask
    return place


def rebuild_table(keys: np.ndarray, table: np.ndarray, count: int) -> None:
    """Put the first ``count`` states into ``table`` again, whose size may have changed."""
    for place in range(len(table)):
        table[place] = -1
    for state in range(count):
        table[place_of(keys, table, keys[state])] = state
