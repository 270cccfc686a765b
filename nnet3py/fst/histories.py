"""Numbering word sequences, such as the histories of n-grams: a tree in which each node is a sequence."""
from __future__ import annotations

import numpy as np

ROOT, MISSING = 0, -1
_SHIFT = 31                    # bits of a word in a key; words are from 0 to 2 ** 31 - 1


class Histories:
    """A growing set of word sequences, including the beginnings of each. The empty one is node 0.

    Attributes
    ----------
    num_nodes : sequences so far
    """

    def __init__(self) -> None:
        self.num_nodes = 1
        self._keys: list[np.ndarray] = []       # by length: (node of the beginning, last word), sorted
        self._nodes: list[np.ndarray] = []

    def find(self, words: np.ndarray) -> np.ndarray:
        """int64 (rows,): the node of each row of ``words`` (rows, length), MISSING if it was not added."""
        nodes = np.zeros(len(words), dtype=np.int64)
        for place in range(words.shape[1]):
            nodes = self._step(place, nodes, words[:, place])
        return nodes

    def add(self, words: np.ndarray) -> np.ndarray:
        """int64 (rows,): the node of each row of ``words`` (rows, length), made if it is new."""
        nodes = np.zeros(len(words), dtype=np.int64)
        for place in range(words.shape[1]):
            if place == len(self._keys):
                self._keys.append(np.empty(0, dtype=np.int64))
                self._nodes.append(np.empty(0, dtype=np.int64))
            states = self._step(place, nodes, words[:, place])
            missing = states == MISSING
            if missing.any():
                new, which = np.unique((nodes[missing] << _SHIFT) | words[missing, place], return_inverse=True)
                numbers = self.num_nodes + np.arange(len(new))
                self.num_nodes += len(new)
                states[missing] = numbers[which.reshape(-1)]
                keys = np.concatenate((self._keys[place], new))
                order = np.argsort(keys, kind="stable")
                self._keys[place] = keys[order]
                self._nodes[place] = np.concatenate((self._nodes[place], numbers))[order]
            nodes = states
        return nodes

    def _step(self, place: int, nodes: np.ndarray, words: np.ndarray) -> np.ndarray:
        if place >= len(self._keys) or not len(self._keys[place]):
            return np.full(len(nodes), MISSING, dtype=np.int64)
        key_there = self._keys[place]
        keys = (nodes << _SHIFT) | words
        at = np.minimum(np.searchsorted(key_there, keys), len(key_there) - 1)
        return np.where((key_there[at] == keys) & (nodes >= 0), self._nodes[place][at], MISSING)
