"""Small weighted acceptors as lists: determinization, minimization and composition in the tropical semiring.

A supervision's FST has a few states a frame, so plain lists and hashing by state are quicker than arrays, and no
library is needed. Results are those of OpenFst for the same acceptors, including its rounding.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.transducers.fst import NO_STATE, Fst
from nnet3py.transducers.state_graphs import starts_of

Cost = np.float32                       # sums are rounded where OpenFst rounds them; else other states would be equal
Arc = tuple[int, Cost, int]             # label, cost, next state
ByLabel = Mapping[int, Sequence[tuple[Cost, int]]]       # cost and next state of the arcs of one state

MAX_STATES = 200_000                    # of a determinized acceptor. Kaldi: kSupervisionMaxStates
_RESIDUAL_STEPS = np.float32(1024)      # per unit of cost: how finely determinization tells states apart; kDelta
_COST_STEP = np.float32(1e-6)           # to which minimization rounds costs. OpenFst: kShortestDelta
_LARGEST_COST = 1e20                    # of an arc; larger sums could not be stored
_HALF, _ZERO, _INFINITY = np.float32(0.5), np.float32(0.0), np.float32(np.inf)
_FREE, _OPEN, _DONE = range(3)


class SupervisionError(Nnet3Error):
    """Failure to make the supervision of one utterance or of a piece of it; other utterances may succeed."""


@dataclass
class Acceptor:
    """An acceptor as lists."""

    arcs: list[list[Arc]]  # the arcs of each state, each with label, cost and next state
    finals: list[Cost]     # the final cost of each state; infinity: not final
    start: int = 0         # the start state; -1 if there are no states

    @property
    def num_states(self) -> int:
        """The number of states; they are numbered from 0."""
        return len(self.arcs)

    @classmethod
    def from_fst(cls, fst: Fst) -> Acceptor:
        """Return the input side of an FST whose weights are costs; raise SupervisionError for invalid costs."""
        finals = fst.final_weights[fst.is_final]
        if not ((np.abs(fst.weights) <= _LARGEST_COST).all() and (np.abs(finals) <= _LARGEST_COST).all()):
            costs = np.concatenate((fst.weights.ravel(), finals.ravel()))
            raise SupervisionError(f"an FST has the cost {costs[~(np.abs(costs) <= _LARGEST_COST)][0]:g}, expected "
                                   f"costs from {-_LARGEST_COST:g} to {_LARGEST_COST:g}")
        arcs = list(zip(fst.input_labels.tolist(), fst.weights, fst.next_states.tolist(), strict=True))
        starts = fst.arc_starts.tolist()
        return cls([arcs[first:end] for first, end in zip(starts, starts[1:], strict=False)],
                   list(fst.final_weights), fst.start)

    def fst(self) -> Fst:
        """Return the acceptor as an Fst, in arrays."""
        counts = np.array([len(arcs) for arcs in self.arcs], dtype=np.int64)
        arcs = [arc for of_state in self.arcs for arc in of_state]
        labels = np.array([arc[0] for arc in arcs], dtype=np.int32)
        return Fst(self.start, np.array(self.finals, dtype=np.float32), starts_of(counts),
                   labels, labels, np.array([arc[1] for arc in arcs], dtype=np.float32),
                   np.array([arc[2] for arc in arcs], dtype=np.int32))


_Subset = tuple[tuple[int, Cost], ...]    # old states that make up a new one, each with its residual cost


def determinized(acceptor: Acceptor, max_states: int = MAX_STATES) -> Acceptor:
    """Return an equivalent acceptor in which no state has two arcs with the same label; arcs are sorted by label.

    Of several paths with one sequence of labels the cheapest is kept. Epsilon is a label like any other. Raises
    SupervisionError if there would be ``max_states`` states. OpenFst: ``Determinize``.
    """
    if acceptor.num_states >= max_states:
        raise SupervisionError(f"Not attempting determinization as number of states is too large {acceptor.num_states}")
    if acceptor.start < 0:
        return Acceptor([], [], NO_STATE)
    subsets: list[_Subset] = [((acceptor.start, _ZERO),)]
    numbers = {subsets[0]: 0}
    arcs: list[list[Arc]] = []
    finals: list[Cost] = []
    for subset in subsets:
        finals.append(min(acceptor.finals[state] + extra for state, extra in subset))
        following = _following(acceptor, subset)
        arcs_of_subset = []
        for label in sorted(following):
            cost, target = _divided(following[label])
            number = numbers.setdefault(target, len(subsets))
            if number == len(subsets):
                subsets.append(target)
            arcs_of_subset.append((label, cost, number))
        arcs.append(arcs_of_subset)
        if len(subsets) >= max_states:
            raise SupervisionError(f"Determinization stopped early after reaching {len(subsets)} states. Likely this "
                                   "utterance has a very strange transcription.")
    return Acceptor(arcs, finals)


def _following(acceptor: Acceptor, subset: _Subset) -> dict[int, dict[int, Cost]]:
    """Return the states that a weighted set of states leads to, with the least cost of each: label -> state -> cost."""
    following: dict[int, dict[int, Cost]] = {}
    for state, extra in subset:
        for label, cost, target in acceptor.arcs[state]:
            costs = following.setdefault(label, {})
            cost = extra + cost
            if cost < costs.get(target, _INFINITY):
                costs[target] = cost
    return following


def _divided(costs: dict[int, Cost]) -> tuple[Cost, _Subset]:
    """Subtract the least cost from all costs; returns it and the weighted set of states, with rounded differences."""
    if len(costs) == 1:
        (state, least), = costs.items()
        return least, ((state, _ZERO),)
    least = min(costs.values())
    return least, tuple([(state, np.float32(floor((costs[state] - least) * _RESIDUAL_STEPS + _HALF)) / _RESIDUAL_STEPS)
                         for state in sorted(costs)])


def minimized(acceptor: Acceptor) -> Acceptor:
    """Return the smallest acceptor equivalent to a deterministic acceptor without cycles; arcs are sorted by label.

    Costs move to the earliest possible arcs, and are rounded to 1e-6. States are numbered breadth first.
    A final state must be reachable from every state. Raises SupervisionError for a cycle. OpenFst: ``Minimize``, which
    orders arcs differently: by the first appearance of their label and cost in the acceptor.
    """
    to_end = [_INFINITY] * acceptor.num_states
    classes: dict[tuple[Cost, tuple[Arc, ...]], int] = {}
    class_of = [NO_STATE] * acceptor.num_states
    for state in reverse_topological_order(acceptor):
        arcs, final = acceptor.arcs[state], acceptor.finals[state]
        sums = [cost + to_end[target] for _, cost, target in arcs]
        least = to_end[state] = min([final, *sums])
        paid, added = (least, least) if state == acceptor.start else (least, _ZERO)
        pushed = sorted([(label, _rounded(added + (cost - paid)), class_of[target])
                         for (label, _, target), cost in zip(arcs, sums, strict=True)])
        if final < _INFINITY:
            final = _rounded(added + (final - paid))
        class_of[state] = classes.setdefault((final, tuple(pushed)), len(classes))
    start = class_of[acceptor.start] if acceptor.start >= 0 else NO_STATE
    return breadth_first(Acceptor([list(arcs) for _, arcs in classes], [final for final, _ in classes], start))


def _rounded(cost: Cost) -> Cost:
    return np.float32(floor(cost / _COST_STEP + _HALF)) * _COST_STEP if cost else _ZERO


def pushed_to_start(acceptor: Acceptor) -> Acceptor:
    """Return the acceptor with costs moved to the earliest possible arcs, and the least cost of a path subtracted.

    Every state must lead to a final one. Raises SupervisionError for a cycle. OpenFst: ``Push`` with
    remove_total_weight.
    """
    to_end = [_INFINITY] * acceptor.num_states
    for state in reverse_topological_order(acceptor):
        to_end[state] = min([acceptor.finals[state], *(cost + to_end[target]
                                                       for _, cost, target in acceptor.arcs[state])])
    arcs = [[(label, (cost + to_end[target]) - before, target) for label, cost, target in of_state]
            for of_state, before in zip(acceptor.arcs, to_end, strict=True)]
    finals = [final - before if final < _INFINITY else final
              for final, before in zip(acceptor.finals, to_end, strict=True)]
    return Acceptor(arcs, finals, acceptor.start)


def reverse_topological_order(acceptor: Acceptor) -> list[int]:
    """Return the states reachable from the start, each after the states that its arcs lead to.

    Raises SupervisionError if there is a cycle.
    """
    marks = [_FREE] * acceptor.num_states
    reached: list[int] = []
    stack = [acceptor.start] if acceptor.start >= 0 else []
    while stack:
        state = stack[-1]
        if marks[state] != _FREE:
            stack.pop()
            if marks[state] == _OPEN:
                marks[state] = _DONE
                reached.append(state)
            continue
        marks[state] = _OPEN
        for _, _, target in acceptor.arcs[state]:
            if marks[target] == _FREE:
                stack.append(target)
            elif marks[target] == _OPEN:
                raise SupervisionError("an FST has a cycle of arcs, expected none: each state must belong to one frame")
    return reached


def composed(acceptor: Acceptor, other_arcs: Sequence[ByLabel], other_finals: Sequence[Cost],
             other_start: int) -> Acceptor:
    """Return the composition: an acceptor of the sequences that both accept, with the sums of their costs, trimmed.

    The second acceptor is given by the arcs of each state (label -> arc), final costs and start state. OpenFst:
    ``Compose``, without epsilons.
    """
    if acceptor.start < 0 or other_start < 0:
        return Acceptor([], [], NO_STATE)
    pairs = [(acceptor.start, other_start)]
    numbers = {pairs[0]: 0}
    arcs: list[list[Arc]] = []
    finals = []
    for state, other in pairs:
        finals.append(acceptor.finals[state] + other_finals[other])
        by_label = other_arcs[other]
        arcs_of_pair = []
        for label, cost, target in acceptor.arcs[state]:
            for other_cost, other_target in by_label.get(label, ()):
                pair = target, other_target
                number = numbers.setdefault(pair, len(pairs))
                if number == len(pairs):
                    pairs.append(pair)
                arcs_of_pair.append((label, cost + other_cost, number))
        arcs.append(arcs_of_pair)
    return connected(Acceptor(arcs, finals))


def connected(acceptor: Acceptor) -> Acceptor:
    """Return the acceptor without dead ends: states from which no final state can be reached."""
    entered_from: list[list[int]] = [[] for _ in acceptor.arcs]
    for state, arcs in enumerate(acceptor.arcs):
        for _, _, target in arcs:
            entered_from[target].append(state)
    useful = [bool(final < _INFINITY) for final in acceptor.finals]
    stack = [state for state, is_final in enumerate(useful) if is_final]
    while stack:
        for source in entered_from[stack.pop()]:
            if not useful[source]:
                useful[source] = True
                stack.append(source)
    if all(useful):
        return acceptor
    if acceptor.start < 0 or not useful[acceptor.start]:
        return Acceptor([], [], NO_STATE)
    return _renumbered(acceptor, [state for state, is_useful in enumerate(useful) if is_useful])


def breadth_first(acceptor: Acceptor) -> Acceptor:
    """Return the acceptor with its states in breadth-first order, without unreachable ones."""
    if acceptor.start < 0:
        return Acceptor([], [], NO_STATE)
    order, seen = [acceptor.start], [False] * acceptor.num_states
    seen[acceptor.start] = True
    for state in order:
        for _, _, target in acceptor.arcs[state]:
            if not seen[target]:
                seen[target] = True
                order.append(target)
    return _renumbered(acceptor, order)


def _renumbered(acceptor: Acceptor, order: Sequence[int]) -> Acceptor:
    """Return the acceptor whose state i is state ``order[i]`` of ``acceptor``; arcs to other states are removed."""
    numbers = [NO_STATE] * acceptor.num_states
    for number, state in enumerate(order):
        numbers[state] = number
    arcs = [[(label, cost, numbers[target]) for label, cost, target in acceptor.arcs[state] if numbers[target] >= 0]
            for state in order]
    return Acceptor(arcs, [acceptor.finals[state] for state in order], numbers[acceptor.start])
