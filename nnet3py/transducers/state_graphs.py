"""Functions of states and arcs as numbers only: arcs grouped by state, orders and selections of states, useful states.

``arc_starts``, int64 (states + 1,), says where the arcs of each state begin; ``next_states`` is int32 (arcs,).
"""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.engine.loop import Loop

_top_order = Loop("nnet3py.transducers.lattice_loops", "top_order", "i8 i8[] i4[] i8[] u1[] i4[] i4[]")
_mark_useful = Loop("nnet3py.transducers.lattice_loops", "mark_useful", "i8 i8[] i4[] u1[] i8[] i4[] i4[] u1[]")


def starts_of(counts: np.ndarray) -> np.ndarray:
    """Return where each of successive groups with ``counts`` elements begins, and the end, int64 (n + 1,)."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def starts_by(groups: np.ndarray, num_groups: int) -> np.ndarray:
    """Return where each group begins when elements are sorted by ``groups``, and the end, int64 (num_groups + 1,)."""
    return starts_of(np.bincount(groups, minlength=num_groups))


def sources_of(arc_starts: np.ndarray) -> np.ndarray:
    """Return the state that each arc leaves, int32 (arcs,)."""
    return np.repeat(np.arange(len(arc_starts) - 1, dtype=np.int32), np.diff(arc_starts))


def ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the concatenation of the ranges ``first[i]`` to ``first[i] + counts[i] - 1``, int64."""
    starts = starts_of(counts)
    return np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])


def enlarged(array: np.ndarray, least: int = 0) -> np.ndarray:
    """Return a copy of an array with more rows; the contents of new rows are undefined.

    Parameters
    ----------
    least : if positive, the number of rows is doubled until it is at least this; otherwise it is doubled once
    """
    size = max(len(array), 1) * (1 if least else 2)
    while size < least:
        size *= 2
    larger = np.empty((size, *array.shape[1:]), dtype=array.dtype)
    larger[:len(array)] = array
    return larger


def is_top_sorted(arc_starts: np.ndarray, next_states: np.ndarray) -> bool:
    """Return whether every arc leads to a state of a higher number."""
    return bool((next_states > sources_of(arc_starts)).all())


def top_order(start: int, arc_starts: np.ndarray, next_states: np.ndarray) -> np.ndarray | None:
    """Return states in an order in which arcs lead to later states only, int32 (states,); None if there is a cycle.

    The order is the reverse of that in which a depth-first search from the start finishes states. OpenFst: TopSort.
    """
    size = len(arc_starts) - 1
    order = np.empty(size, dtype=np.int32)
    num_ordered = _top_order(start, arc_starts, next_states, np.empty(size, dtype=np.int64),
                             np.zeros(size, dtype=np.uint8), np.empty(size + 1, dtype=np.int32), order)
    return order if num_ordered == size else None


def useful_states(start: int, arc_starts: np.ndarray, next_states: np.ndarray, is_final: np.ndarray) -> np.ndarray:
    """Return which states are on a path from the start to a final state (``is_final`` bool), bool (states,)."""
    size = len(arc_starts) - 1
    by_target = np.argsort(next_states, kind="stable")
    entering = sources_of(arc_starts)[by_target]
    marks = np.zeros(size, dtype=np.uint8)
    _mark_useful(start, arc_starts, next_states, is_final.astype(np.uint8),
                 starts_by(next_states, size), entering,
                 np.empty(2 * size + 1, dtype=np.int32), marks)
    return marks == 3


@dataclasses.dataclass(frozen=True)
class Selection:
    """Some of the states in a new order, and the arcs between them.

    Attributes
    ----------
    states : int64 (new states,), the old number of each new state
    numbers : int32 (old states,), the new number of each old state; -1 for states that are left out
    arcs : int64, the old numbers of the remaining arcs, state by state
    arc_starts : int64 (new states + 1,), where the arcs of each new state begin
    """

    states: np.ndarray
    numbers: np.ndarray
    arcs: np.ndarray
    arc_starts: np.ndarray

    @classmethod
    def of(cls, arc_starts: np.ndarray, next_states: np.ndarray, states: np.ndarray,
           keep: np.ndarray | None = None) -> Selection:
        """Select ``states``, in their order, and the arcs between them for which ``keep`` (bool (arcs,)) is True."""
        states = np.asarray(states, dtype=np.int64)
        numbers = np.full(len(arc_starts) - 1, -1, dtype=np.int32)
        numbers[states] = np.arange(len(states), dtype=np.int32)
        counts = np.diff(arc_starts)[states]
        arcs = ranges(arc_starts[:-1][states], counts)
        stays = numbers[next_states[arcs]] >= 0
        if keep is not None:
            stays &= keep[arcs]
        before = starts_of(stays)
        return cls(states, numbers, arcs[stays], before[starts_of(counts)])

    def start(self, start: int) -> int:
        """Return the new number of the start state; -1 if there was none."""
        return int(self.numbers[start]) if start >= 0 else -1
