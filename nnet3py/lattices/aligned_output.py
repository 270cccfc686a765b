"""The output of aligning a lattice with words or phones: arcs made one by one, and finally no epsilons."""
from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

import numpy as np

from nnet3py.lattices.states import LatticeError, infinite_weights, newly_sorted, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice

Ids: TypeAlias = tuple[int, ...]
Weight: TypeAlias = tuple[np.float32, np.float32, Ids]       # graph cost, acoustic cost, transition-ids
Arc: TypeAlias = tuple[int, int, Weight]                     # label, next state, weight

_ZERO = np.float32(0.0)
ONE: Weight = (_ZERO, _ZERO, ())
NO_WORD = -1              # the label of arcs that have transition-ids but no word, while 0 stands for epsilons


class AlignedOutput:
    """The lattice being made. A state stands for what is pending where it is reached, any hashable value."""

    def __init__(self, most_states: int | None) -> None:
        self.arcs: list[list[Arc]] = []
        self.finals: dict[int, Weight] = {}
        self.waiting: list[tuple[Hashable, int]] = []
        self._states: dict[Hashable, int] = {}
        self._most_states = most_states

    def state_of(self, pending: Hashable) -> int:
        """The state that stands for ``pending``; a new one is queued."""
        state = self._states.get(pending)
        if state is None:
            state = len(self.arcs)
            self._states[pending] = state
            self.arcs.append([])
            self.waiting.append((pending, state))
        return state

    @property
    def is_too_large(self) -> bool:
        """Whether there are more states than allowed."""
        return self._most_states is not None and len(self.arcs) > self._most_states

    def lattice(self, remove_epsilons: bool) -> CompactLattice:
        """The lattice, trimmed and top sorted; ``NO_WORD`` becomes 0. LatticeError for a cycle of epsilons."""
        if remove_epsilons:
            self._remove_epsilons()
        rows = [(source, label, target, weight) for source, arcs in enumerate(self.arcs)
                for label, target, weight in arcs]
        finals = infinite_weights(len(self.arcs))
        final_lengths = np.zeros(len(self.arcs), dtype=np.int64)
        for state, weight in self.finals.items():
            finals[state], final_lengths[state] = weight[:2], len(weight[2])
        labels = np.array([row[1] for row in rows], dtype=np.int32)
        labels[labels == NO_WORD] = 0
        lattice = CompactLattice.from_arcs(
            0 if self.arcs else -1, finals, np.array([row[0] for row in rows], dtype=np.int64), labels,
            np.array([row[3][:2] for row in rows], dtype=np.float32).reshape(-1, 2),
            [len(row[3][2]) for row in rows], [transition_id for row in rows for transition_id in row[3][2]],
            np.array([row[2] for row in rows], dtype=np.int32), final_lengths,
            [transition_id for state in sorted(self.finals) for transition_id in self.finals[state][2]])
        return newly_sorted(trimmed(lattice))

    def _remove_epsilons(self) -> None:
        """Give each state the arcs of those that epsilons lead to; of arcs with one label and target, the best stays.

        Epsilons may have transition-ids: these come before those of the arcs that follow. OpenFst: RmEpsilon.
        """
        for state in self._after_what_epsilons_reach():
            gathered: dict[tuple[int, int], Weight] = {}
            final = self.finals.get(state)
            for label, target, weight in self.arcs[state]:
                if label != 0:
                    _keep_best(gathered, (label, target), weight)
                    continue
                for next_label, next_target, next_weight in self.arcs[target]:
                    _keep_best(gathered, (next_label, next_target), times(weight, next_weight))
                if target in self.finals:
                    through = times(weight, self.finals[target])
                    final = through if final is None or is_better(through, final) else final
            self.arcs[state] = [(label, target, weight) for (label, target), weight in gathered.items()]
            if final is not None:
                self.finals[state] = final

    def _after_what_epsilons_reach(self) -> list[int]:
        """All states, each after those that its epsilons lead to."""
        order: list[int] = []
        marks = [0] * len(self.arcs)
        for root in range(len(self.arcs)):
            stack = [root]
            while stack:
                state = stack[-1]
                if marks[state]:
                    stack.pop()
                    if marks[state] == 1:
                        marks[state] = 2
                        order.append(state)
                    continue
                marks[state] = 1
                following = [target for label, target, _ in self.arcs[state] if label == 0]
                if any(marks[target] == 1 for target in following):
                    raise LatticeError("the lattice has a cycle of arcs without words and transition-ids")
                stack += following
        return order


def _keep_best(gathered: dict[tuple[int, int], Weight], key: tuple[int, int], weight: Weight) -> None:
    old = gathered.get(key)
    if old is None or is_better(weight, old):
        gathered[key] = weight


def times(a: Weight, other: Weight) -> Weight:
    """The product of two weights: costs added, strings one after the other."""
    return a[0] + other[0], a[1] + other[1], a[2] + other[2]


def is_better(a: Weight, other: Weight) -> bool:
    """Whether ``a`` costs less; of equal costs the shorter string is better, then the smaller one."""
    key_of_one, key_of_other = a[0] + a[1], other[0] + other[1]
    if key_of_one != key_of_other:
        return bool(key_of_one < key_of_other)
    if a[0] != other[0]:
        return bool(a[0] < other[0])
    return (len(a[2]), a[2]) < (len(other[2]), other[2])


def most_states(max_expand: float, num_states: int) -> int | None:
    """How many states an aligned lattice may have; None for any number."""
    return int(1000 + max_expand * num_states) if max_expand > 0 else None
