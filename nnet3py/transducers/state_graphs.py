"""States and arcs as numbers only: arcs grouped by state, orders, components and selections of states, useful states.

``arc_starts``, int64 (states + 1,), says where the arcs of each state begin; ``next_states`` is int32 (arcs,).
"""
from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nnet3py.engine.loop import Loop

_MOST_ELEMENTS = 50_000        # which take plain Python 20 ms


class LightLoop(Loop):
    """A loop that runs in plain Python for small amounts of data, since compiled code takes time to load."""

    elements_done = 0          # by this process without compiled loops

    def __call__(self, *args: Any) -> Any:
        size = max(len(arg) for arg in args if hasattr(arg, "__len__"))
        if "llvmlite" in sys.modules or LightLoop.elements_done + size > _MOST_ELEMENTS:
            return super().__call__(*args)
        LightLoop.elements_done += size
        from importlib import import_module

        return self.plain(getattr(import_module(self._source), self.name), *args)

    def plain(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the module as plain Python."""
        return function(*args)


_LOOPS = "nnet3py.transducers.lattice_loops"
_top_order = LightLoop(_LOOPS, "top_order", "i8 i8[] i4[] i8[] u1[] i4[] i4[]")
_mark_useful = LightLoop(_LOOPS, "mark_useful", "i8 i8[] i4[] u1[] i8[] i4[] i4[] u1[]")
_strong_parts = LightLoop(_LOOPS, "strong_parts", "i8[] i4[] i8[] i4[] i4[] i4[] i4[] i4[]")


def _arrays(arc_starts: np.ndarray, next_states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays, or copies that compiled loops take, without gaps and writable."""
    return np.require(arc_starts, np.int64, ["C", "W"]), np.require(next_states, np.int32, ["C", "W"])


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
    """Return a copy of an array with twice the rows, or with double as often as makes ``least`` of them, if positive.

    The contents of new rows are undefined.
    """
    size = max(len(array), 1) * (1 if least else 2)
    while size < least:
        size *= 2
    larger = np.empty((size, *array.shape[1:]), dtype=array.dtype)
    larger[:len(array)] = array
    return larger


def top_order(start: int, arc_starts: np.ndarray, next_states: np.ndarray) -> np.ndarray | None:
    """Return states in an order in which arcs lead to later states only, int32 (states,); None if there is a cycle.

    The order is the reverse of that in which a depth-first search from the start finishes states. OpenFst: TopSort.
    """
    size = len(arc_starts) - 1         # if 0, the loop must not look at the start
    order = np.empty(size, dtype=np.int32)
    num_ordered = _top_order(start if size else -1, *_arrays(arc_starts, next_states), np.empty(size, dtype=np.int64),
                             np.zeros(size, dtype=np.uint8), np.empty(size + 1, dtype=np.int32), order)
    return order if num_ordered == size else None


def reachable(start: int, arc_starts: np.ndarray, next_states: np.ndarray,
              is_final: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which states the start leads to, and which lead to a final state (``is_final`` bool); bool (states,)."""
    size = len(arc_starts) - 1         # if 0, the loop must not look at the start
    entering = sources_of(arc_starts)[np.argsort(next_states, kind="stable")]
    marks = np.zeros(size, dtype=np.uint8)
    _mark_useful(start if size else -1, *_arrays(arc_starts, next_states), is_final.astype(np.uint8),
                 starts_by(next_states, size), entering, np.empty(2 * size + 1, dtype=np.int32), marks)
    return marks & 1 > 0, marks & 2 > 0


def strong_parts(arc_starts: np.ndarray, next_states: np.ndarray) -> np.ndarray:
    """Return a number for each state that just its strongly connected component shares, int32 (states,)."""
    size = len(arc_starts) - 1
    depth, parts = np.full((2, size), -1, dtype=np.int32)
    _strong_parts(*_arrays(arc_starts, next_states), np.empty(size, dtype=np.int64), depth,
                  *np.empty((3, size), dtype=np.int32), parts)
    return parts


def after_successors(roots: Iterable[int], successors: Callable[[int], list[int]]) -> list[int] | None:
    """Return ``roots`` and all states that they lead to, each after its successors; None if there is a cycle."""
    order: list[int] = []
    is_done: dict[int, bool] = {}
    for root in roots:
        stack = [root]
        while stack:
            state = stack[-1]
            if state in is_done:
                stack.pop()
                if not is_done[state]:
                    is_done[state] = True
                    order.append(state)
                continue
            is_done[state] = False
            following = successors(state)
            if not all(is_done.get(other, True) for other in following):
                return None
            stack += following
    return order


class StateGraph:
    """Base of FSTs and compact lattices, which have a start state and these arrays among others."""

    start: int
    arc_starts: np.ndarray
    next_states: np.ndarray
    final_weights: np.ndarray

    @property
    def num_states(self) -> int:
        """The number of states; they are numbered from 0."""
        return len(self.final_weights)

    @property
    def num_arcs(self) -> int:
        """The number of arcs of all states."""
        return len(self.next_states)

    @property
    def sources(self) -> np.ndarray:
        """The state that each arc leaves, int32 (arcs,)."""
        return sources_of(self.arc_starts)

    @property
    def is_final(self) -> np.ndarray:
        """Finality of each state, bool (states,)."""
        infinite: np.ndarray = np.isposinf(self.final_weights)
        return ~(np.all(infinite, axis=1) if infinite.ndim == 2 else infinite)

    @property
    def is_top_sorted(self) -> bool:
        """True if every arc leads to a state of a higher number."""
        return bool((self.next_states > self.sources).all())

    def useful_states(self) -> np.ndarray:
        """Return which states are on a path from the start to a final state, bool (states,)."""
        from_start, to_end = reachable(self.start, self.arc_starts, self.next_states, self.is_final)
        return from_start & to_end

    def equals(self, other: StateGraph) -> bool:
        """Return whether two FSTs, or two lattices, have the same states, arcs and weights, in the same order."""
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name),
                                  equal_nan=field.name.endswith("weights"))
                   for field in dataclasses.fields(self) if field.name != "stored")    # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Selection:
    """Some of the states in a new order, and the arcs between them."""

    states: np.ndarray      # int64 (new states,), the old number of each new state
    numbers: np.ndarray     # int32 (old states,), the new number of each old state; -1 for states that are left out
    arcs: np.ndarray        # int64, the old numbers of the remaining arcs, state by state
    arc_starts: np.ndarray  # int64 (new states + 1,), where the arcs of each new state begin

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
