"""Finding the states of graphs that are made while decoding by their keys; imported only to be compiled."""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.engine.inline import inline


@inline
def first_place(mask: int, key: int, label: int) -> int:
    """Where a state would be in an empty table of ``mask + 1`` places."""
    mixed = (np.uint64(key) ^ (np.uint64(label) << np.uint64(20))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(24)) & mask


@inline
def place_of(keys: Any, table: Any, mask: int, key: int, label: int) -> int:
    """Where a state is in the table, or would be. ``keys`` has two numbers for each state."""
    place = first_place(mask, key, label)
    while True:
        state = np.int64(table[place])
        if state < 0 or (keys[2 * state] == key and keys[2 * state + 1] == label):
            return place
        place = (place + 1) & mask


def rebuild_table(keys: np.ndarray, table: np.ndarray, count: int) -> None:
    """Put the first ``count`` states into ``table`` again, whose size may have changed."""
    mask = np.int64(len(table) - 1)
    for place in range(len(table)):
        table[place] = -1
    for state in range(count):
        table[place_of(keys, table, mask, keys[2 * state], keys[2 * state + 1])] = state
