"""States and arcs as numbers only: orders of states, finding useful states, and leaving states out.

``arc_starts`` is int64 (states + 1,), where the arcs of each state begin; ``next_states`` int32 (arcs,).
"""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.transducers.arc_starts import ranges, sources_of, starts_by, starts_of
from nnet3py.transducers.fst import Fst

_top_order = Loop("nnet3py.transducers.lattice_loops", "top_order", "i8 i8[] i4[] i8[] u1[] i4[] i4[]")
_mark_useful = Loop("nnet3py.transducers.lattice_loops", "mark_useful", "i8 i8[] i4[] u1[] i8[] i4[] i4[] u1[]")


def is_top_sorted(arc_starts: np.ndarray, next_states: np.ndarray) -> bool:
    """True if every arc leads to a state of a higher number."""
    return bool((next_states > sources_of(arc_starts)).all())


def top_order(start: int, arc_starts: np.ndarray, next_states: np.ndarray) -> np.ndarray | None:
    """int32 (states,): an order in which arcs lead to later states only; None if there is a cycle.

    It is the reverse of the order in which a depth-first search from the start finishes them. OpenFst: TopSort.
    """
    size = len(arc_starts) - 1
    order = np.empty(size, dtype=np.int32)
    num_ordered = _top_order(start, arc_starts, next_states, np.empty(size, dtype=np.int64),
                             np.zeros(size, dtype=np.uint8), np.empty(size + 1, dtype=np.int32), order)
    return order if num_ordered == size else None


def useful_states(start: int, arc_starts: np.ndarray, next_states: np.ndarray, is_final: np.ndarray) -> np.ndarray:
    """bool (states,): states that are on a path from the start to a final state (``is_final`` bool)."""
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
    """Some of the states, in another order, and the arcs between them.

    Attributes
    ----------
    states : int64, the old numbers by the new ones
    numbers : int32 (old states,), the new numbers by the old ones; -1 for states that are left out
    arcs : int64, the old numbers of the remaining arcs, state by state
    arc_starts : int64 (new states + 1,)
    """

    states: np.ndarray
    numbers: np.ndarray
    arcs: np.ndarray
    arc_starts: np.ndarray

    @classmethod
    def of(cls, arc_starts: np.ndarray, next_states: np.ndarray, states: np.ndarray,
           keep: np.ndarray | None = None) -> Selection:
        """Select ``states``, in their order, and of the arcs between them those for which ``keep`` (bool) is true."""
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
        """The new number of the start."""
        return int(self.numbers[start]) if start >= 0 else -1


def selected(fst: Fst, states: np.ndarray, keep: np.ndarray | None = None) -> Fst:
    """An FST of some of the states, in another order, and of the arcs between them for which ``keep`` is true."""
    chosen = Selection.of(fst.arc_starts, fst.next_states, states, keep)
    arcs = chosen.arcs
    return dataclasses.replace(
        fst, start=chosen.start(fst.start), final_weights=fst.final_weights[chosen.states],
        arc_starts=chosen.arc_starts, input_labels=fst.input_labels[arcs], output_labels=fst.output_labels[arcs],
        weights=fst.weights[arcs], next_states=chosen.numbers[fst.next_states[arcs]], stored=None)
