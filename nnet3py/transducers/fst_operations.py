"""Operations on FSTs that merging needs: concatenation, removal of epsilons, numbering breadth first.

Arcs come out in OpenFst's order, so that results equal Kaldi's byte for byte.
OpenFst: ``Concat``, ``RmEpsilon``. Kaldi: ``SortBreadthFirstSearch``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.transducers.arc_starts import starts_by
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_properties import reached, renumbered
from nnet3py.transducers.state_graphs import useful_states

_EPSILON = 0
_MANY_ARCS = 2000              # from here on compiled loops are worth loading
_FREE, _OPEN, _DONE = range(3)


def concatenated(fsts: Sequence[Fst]) -> Fst:
    """An FST that accepts what each of ``fsts`` accepts, one after the other.

    Each final state gets an epsilon arc to the start of the next FST, after its own arcs. States keep their order.
    Raises Nnet3Error for an FST without states, or of another arc type than the first.
    """
    if any(fst.start < 0 or fst.arc_type != fsts[0].arc_type for fst in fsts):
        raise Nnet3Error("an FST without states, or of another type than the others, cannot be concatenated")
    offsets = np.concatenate(([0], np.cumsum([fst.num_states for fst in fsts])))
    leaving = [np.flatnonzero(fst.is_final) for fst in fsts[:-1]]
    sources = np.concatenate([fst.sources + offset for fst, offset in zip(fsts, offsets, strict=False)]
                             + [final + offset for final, offset in zip(leaving, offsets, strict=False)])
    starts = [np.full(len(final), offset + fst.start)
              for final, offset, fst in zip(leaving, offsets[1:], fsts[1:], strict=False)]
    epsilons = [np.full(sum(map(len, leaving)), _EPSILON, dtype=np.int32)]
    weights = np.concatenate([fst.weights for fst in fsts]
                             + [fst.final_weights[final] for fst, final in zip(fsts, leaving, strict=False)])
    next_states = np.concatenate([fst.next_states + offset for fst, offset in zip(fsts, offsets, strict=False)]
                                 + starts).astype(np.int32)
    order = np.argsort(sources, kind="stable")
    finals = np.concatenate([fst.final_weights for fst in fsts])
    finals[:offsets[-2]] = NO_WEIGHT
    return Fst(fsts[0].start, finals, starts_by(sources, int(offsets[-1])),
               np.concatenate([fst.input_labels for fst in fsts] + epsilons)[order],
               np.concatenate([fst.output_labels for fst in fsts] + epsilons)[order],
               weights[order], next_states[order], fsts[0].arc_type)


_Arc = tuple[int, int, int]              # input label, output label, next state


def without_epsilons(fst: Fst) -> Fst:
    """An equivalent FST of costs without epsilon arcs; states that lead nowhere are left out.

    A state also gets the arcs of all states that epsilons lead to; of equal ones the cheapest is kept. They come in
    the reverse of the order in which they are met. Raises Nnet3Error for a cycle of epsilon arcs.
    """
    if fst.weights.ndim != 1:
        raise Nnet3Error(f"epsilons are removed from FSTs of costs, not from those of arc type {fst.arc_type}")
    is_epsilon = (fst.input_labels == _EPSILON) & (fst.output_labels == _EPSILON)
    entered = np.zeros(fst.num_states, dtype=bool)
    entered[fst.next_states[~is_epsilon]] = True
    if fst.start >= 0:
        entered[fst.start] = True
    has_epsilon = np.zeros(fst.num_states, dtype=bool)
    has_epsilon[fst.sources[is_epsilon]] = True
    graph = _Graph(fst)
    for state in np.flatnonzero(entered & ~has_epsilon).tolist():
        graph.expand(state)
    for state in graph.behind_first(np.flatnonzero(has_epsilon).tolist()):
        if entered[state]:
            graph.expand(state)
    for state in np.flatnonzero(~entered).tolist():
        graph.arcs[state] = []
    return connected(graph.fst(fst))


def _is_epsilon(arc: _Arc) -> bool:
    return arc[0] == _EPSILON and arc[1] == _EPSILON


class _Graph:
    """The arcs of each state as lists, while epsilons are removed from one state after the other."""

    def __init__(self, fst: Fst) -> None:
        labels = zip(fst.input_labels.tolist(), fst.output_labels.tolist(), fst.next_states.tolist(), strict=True)
        pairs = list(zip(labels, fst.weights, strict=True))
        starts = fst.arc_starts.tolist()
        self.arcs = [pairs[first:end] for first, end in zip(starts[:-1], starts[1:], strict=True)]
        self.finals = list(fst.final_weights)

    def behind_first(self, states: Sequence[int]) -> list[int]:
        """``states``, and those that epsilons lead to from them, each after those that its own epsilons lead to."""
        reached_states: list[int] = []
        marks: dict[int, int] = {}
        for root in states:
            stack = [root]
            while stack:
                state = stack[-1]
                mark = marks.get(state, _FREE)
                if mark != _FREE:
                    stack.pop()
                    if mark == _OPEN:
                        marks[state] = _DONE
                        reached_states.append(state)
                    continue
                marks[state] = _OPEN
                following = [arc[2] for arc, _ in self.arcs[state] if _is_epsilon(arc)]
                if any(marks.get(next_state, _FREE) == _OPEN for next_state in following):
                    raise Nnet3Error("an FST has a cycle of epsilon arcs, which cannot be removed")
                stack += following
        return reached_states

    def expand(self, source: int) -> None:
        """Replace the epsilons of ``source`` by the arcs and the final weight of the states that they lead to."""
        costs = {source: np.float32(0.0)}
        for state in self.behind_first([source])[::-1]:
            for arc, weight in self.arcs[state]:
                if _is_epsilon(arc):
                    costs[arc[2]] = min(costs.get(arc[2], NO_WEIGHT), costs[state] + weight)
        gathered: dict[_Arc, np.float32] = {}
        final = NO_WEIGHT
        stack, seen = [source], set()
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen.add(state)
            cost = costs[state]
            for arc, weight in self.arcs[state]:
                if _is_epsilon(arc):
                    stack.append(arc[2])
                else:
                    gathered[arc] = min(gathered.get(arc, NO_WEIGHT), cost + weight)
            final = min(final, cost + self.finals[state])
        self.arcs[source] = list(gathered.items())[::-1]
        self.finals[source] = final

    def fst(self, like: Fst) -> Fst:
        """The FST of these arcs, with the start and arc type of ``like``."""
        sources = np.repeat(np.arange(len(self.arcs)), [len(arcs) for arcs in self.arcs])
        arcs = [arc for of_state in self.arcs for arc, _ in of_state]
        numbers = np.array(arcs, dtype=np.int32).reshape(-1, 3)
        weights = np.array([weight for of_state in self.arcs for _, weight in of_state], dtype=np.float32)
        return Fst(like.start, np.array(self.finals, dtype=np.float32), starts_by(sources, len(self.arcs)),
                   numbers[:, 0].copy(), numbers[:, 1].copy(), weights, numbers[:, 2].copy(), like.arc_type)


def connected(fst: Fst) -> Fst:
    """The FST without the states that cannot be reached from its start, or from which no final state can."""
    useful = _useful(fst)
    if useful.all():
        return fst
    keep = useful[fst.sources] & useful[fst.next_states]
    counts = np.bincount(fst.sources[keep], minlength=fst.num_states)[useful]
    numbers = np.cumsum(useful, dtype=np.int32) - 1
    return dataclasses.replace(
        fst, start=int(numbers[fst.start]) if fst.start >= 0 and useful[fst.start] else -1,
        final_weights=fst.final_weights[useful], arc_starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        input_labels=fst.input_labels[keep], output_labels=fst.output_labels[keep], weights=fst.weights[keep],
        next_states=numbers[fst.next_states[keep]], stored=None)


def _useful(fst: Fst) -> np.ndarray:
    """bool (states,): states that are on a path from the start to a final state."""
    if fst.num_arcs > _MANY_ARCS:
        return useful_states(fst.start, fst.arc_starts, fst.next_states, fst.is_final)
    start = np.array([fst.start] if fst.start >= 0 else [], dtype=np.int64)
    return reached(fst, start, backward=False) & reached(fst, np.flatnonzero(fst.is_final), backward=True)


def breadth_first(fst: Fst) -> Fst:
    """The FST with its states numbered in the order in which a breadth-first search from the start meets them.

    States that it does not meet are left out.
    """
    if fst.start < 0:
        return fst
    starts, targets = fst.arc_starts.tolist(), fst.next_states.tolist()
    order, seen = [fst.start], [False] * fst.num_states
    seen[fst.start] = True
    for state in order:
        for target in targets[starts[state]:starts[state + 1]]:
            if not seen[target]:
                seen[target] = True
                order.append(target)
    return renumbered(fst, np.array(order, dtype=np.int64))
