"""Arcs, or other things, stored group by group: ``starts``, int64 (groups + 1,), says where each group begins."""
from __future__ import annotations

import numpy as np


def starts_of(counts: np.ndarray) -> np.ndarray:
    """int64 (n + 1,): where successive groups of ``counts`` things begin, and the end."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def starts_by(groups: np.ndarray, num_groups: int) -> np.ndarray:
    """int64 (num_groups + 1,): where each group begins once things are sorted by ``groups``, int (things,); the end."""
    return starts_of(np.bincount(groups, minlength=num_groups))


def sources_of(arc_starts: np.ndarray) -> np.ndarray:
    """int32 (arcs,), the state that each arc leaves."""
    return np.repeat(np.arange(len(arc_starts) - 1, dtype=np.int32), np.diff(arc_starts))


def ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """int64: ``first[0]``, ``first[0] + 1``, … (``counts[0]`` numbers), ``first[1]`` and so on."""
    starts = starts_of(counts)
    return np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])
