"""OpenFst's properties of FSTs as bits, orders of states, and operations whose arcs come in OpenFst's order.

Files state properties (sorted, deterministic, acyclic), and OpenFst trusts them. Results equal Kaldi's byte for byte.
OpenFst: ``ComputeProperties``, ``TopSort``, ``Concat``, ``RmEpsilon``. Kaldi: ``SortBreadthFirstSearch``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.transducers.fst import NO_STATE, NO_WEIGHT, Fst
from nnet3py.transducers.state_graphs import starts_by, useful_states

EXPANDED, MUTABLE = 1 << 0, 1 << 1
# for each pair of properties the bit of the first one; the next bit says that it does not hold
ACCEPTOR, INPUT_DETERMINISTIC, OUTPUT_DETERMINISTIC, EPSILONS, INPUT_EPSILONS, OUTPUT_EPSILONS = range(16, 28, 2)
INPUT_SORTED, OUTPUT_SORTED, WEIGHTED, CYCLIC, INITIAL_CYCLIC, TOP_SORTED = range(28, 40, 2)
ACCESSIBLE, COACCESSIBLE, STRING, WEIGHTED_CYCLES = range(40, 48, 2)
_MANY_ARCS = 100_000           # from here on not all properties are computed
_FEW_ARCS = 2000               # up to here plain lists are quicker for finding what can be reached


def known_properties(fst: Fst) -> int:
    """Return OpenFst's properties for a file's header; of a large FST only those that are quickly computed.

    Programs that read the file compute missing properties themselves.
    """
    if fst.num_arcs <= _MANY_ARCS:
        return fst_properties(fst)
    inputs, outputs = fst.input_labels, fst.output_labels
    has_input_epsilon, has_output_epsilon = inputs == 0, outputs == 0
    holds = {
        ACCEPTOR: fst.is_acceptor,
        EPSILONS: bool((has_input_epsilon & has_output_epsilon).any()),
        INPUT_EPSILONS: bool(has_input_epsilon.any()),
        OUTPUT_EPSILONS: bool(has_output_epsilon.any()),
        INPUT_SORTED: _is_sorted(fst.sources, inputs),
        OUTPUT_SORTED: _is_sorted(fst.sources, outputs),
    }
    return EXPANDED | sum(1 << (bit if value else bit + 1) for bit, value in holds.items())


def fst_properties(fst: Fst) -> int:
    """Return all of OpenFst's properties: for each, the bit that it holds or the bit that it does not.

    EXPANDED is set, MUTABLE is not.
    """
    sources, targets = fst.sources, fst.next_states
    inputs, outputs = fst.input_labels, fst.output_labels
    has_cost = ~_is_zero(fst.weights) & ~_is_infinite(fst.weights)
    top_sorted = bool((targets > sources).all())
    cyclic, initial_cyclic, weighted_cycles = False, False, False
    if not top_sorted:
        parts = strong_parts(fst)
        inside = parts[sources] == parts[targets]
        cyclic, weighted_cycles = bool(inside.any()), bool((inside & has_cost).any())
        initial_cyclic = fst.start >= 0 and bool((inside & (parts[sources] == parts[fst.start])).any())
    holds = {
        ACCEPTOR: fst.is_acceptor,
        INPUT_DETERMINISTIC: _is_deterministic(sources, inputs),
        OUTPUT_DETERMINISTIC: _is_deterministic(sources, outputs),
        EPSILONS: bool(((inputs == 0) & (outputs == 0)).any()),
        INPUT_EPSILONS: bool((inputs == 0).any()),
        OUTPUT_EPSILONS: bool((outputs == 0).any()),
        INPUT_SORTED: _is_sorted(sources, inputs),
        OUTPUT_SORTED: _is_sorted(sources, outputs),
        WEIGHTED: bool(has_cost.any() or (fst.is_final & ~_is_zero(fst.final_weights)).any()),
        CYCLIC: cyclic, INITIAL_CYCLIC: initial_cyclic, TOP_SORTED: top_sorted,
        ACCESSIBLE: bool(reached(fst, np.array([fst.start] if fst.start >= 0 else [], dtype=np.int64), False).all()),
        COACCESSIBLE: bool(reached(fst, np.flatnonzero(fst.is_final), True).all()),
        STRING: _is_string(fst), WEIGHTED_CYCLES: weighted_cycles,
    }
    return EXPANDED | sum(1 << (bit if value else bit + 1) for bit, value in holds.items())


def _is_zero(weights: np.ndarray) -> np.ndarray:
    return np.all(weights == 0.0, axis=1) if weights.ndim == 2 else weights == 0.0


def _is_infinite(weights: np.ndarray) -> np.ndarray:
    infinite: np.ndarray = np.isposinf(weights)
    return np.all(infinite, axis=1) if infinite.ndim == 2 else infinite


def _is_deterministic(sources: np.ndarray, labels: np.ndarray) -> bool:
    pairs = np.sort((sources.astype(np.int64) << 32) + labels)
    return bool((pairs[1:] != pairs[:-1]).all())


def _is_sorted(sources: np.ndarray, labels: np.ndarray) -> bool:
    return bool(((labels[1:] >= labels[:-1]) | (sources[1:] != sources[:-1])).all())


def _is_string(fst: Fst) -> bool:
    """Return whether an FST is one path through the states in their order, of which only the last is final."""
    counts = np.diff(fst.arc_starts)
    return fst.start in (-1, 0) and bool(
        not fst.is_final[:-1].any() and (counts[~fst.is_final] == 1).all()
        and (fst.next_states == fst.sources + 1).all())


def arc_matrix(fst: Fst) -> Any:
    """Return the number of arcs between states as a scipy sparse matrix (states, states)."""
    from scipy.sparse import csr_matrix

    ones = np.ones(fst.num_arcs, dtype=np.int32)
    matrix = csr_matrix((ones, fst.next_states, fst.arc_starts), (fst.num_states, fst.num_states), copy=True)
    matrix.sum_duplicates()          # with duplicates, scipy 1.10's connected_components does not terminate
    return matrix


def strong_parts(fst: Fst) -> np.ndarray:
    """Return the number of each state's strongly connected component, int32 (states,)."""
    if fst.num_arcs <= _FEW_ARCS:
        return _strong_parts_in_lists(fst)
    from scipy.sparse.csgraph import connected_components

    return connected_components(arc_matrix(fst), directed=True, connection="strong")[1]


def _strong_parts_in_lists(fst: Fst) -> np.ndarray:
    """Return the same as :func:`strong_parts`, by Tarjan's algorithm on lists: faster for few arcs than loading scipy.
    """
    starts, targets = fst.arc_starts.tolist(), fst.next_states.tolist()
    position, depth, parts = list(starts[:-1]), [-1] * fst.num_states, [-1] * fst.num_states
    lowest, waiting, count = list(depth), [], 0
    for root in range(fst.num_states):
        stack = [] if depth[root] >= 0 else [root]
        while stack:
            state = stack[-1]
            if depth[state] < 0:
                depth[state] = lowest[state] = count
                count += 1
                waiting.append(state)
            if position[state] < starts[state + 1]:
                following = targets[position[state]]
                position[state] += 1
                if depth[following] < 0:
                    stack.append(following)
                elif parts[following] < 0:
                    lowest[state] = min(lowest[state], depth[following])
                continue
            stack.pop()
            if stack:
                lowest[stack[-1]] = min(lowest[stack[-1]], lowest[state])
            if lowest[state] == depth[state]:
                member = -1
                while member != state:
                    member = waiting.pop()
                    parts[member] = state
    return np.array(parts, dtype=np.int32)


def reached(fst: Fst, roots: np.ndarray, backward: bool) -> np.ndarray:
    """Return which states can be reached from ``roots``; if ``backward``, from which a root is reached; bool (states,).
    """
    sources, targets = (fst.next_states, fst.sources) if backward else (fst.sources, fst.next_states)
    if not fst.num_states:
        return np.zeros(0, dtype=bool)
    if fst.num_arcs <= _FEW_ARCS:
        return _reached_in_lists(sources, targets, roots, fst.num_states)
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    top = fst.num_states                                     # an additional state, which leads to all roots
    is_reached = np.zeros(top + 1, dtype=bool)
    if len(roots):
        rows, cols = np.concatenate((sources, np.full(len(roots), top))), np.concatenate((targets, roots))
        graph = csr_matrix((np.ones(len(rows), dtype=bool), (rows, cols)), shape=(top + 1, top + 1))
        is_reached[breadth_first_order(graph, top, return_predecessors=False)] = True
    return is_reached[:-1]


def _reached_in_lists(sources: np.ndarray, targets: np.ndarray, roots: np.ndarray, num_states: int) -> np.ndarray:
    """Return the same as :func:`reached` for arcs from ``sources`` to ``targets``, on lists: faster for few arcs."""
    following: list[list[int]] = [[] for _ in range(num_states)]
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        following[source].append(target)
    is_reached = [False] * num_states
    stack = roots.tolist()
    while stack:
        state = stack.pop()
        if not is_reached[state]:
            is_reached[state] = True
            stack += following[state]
    return np.array(is_reached, dtype=bool)


def is_top_sorted(fst: Fst) -> bool:
    """Return whether every arc leads to a state of a higher number."""
    return bool((fst.next_states > fst.sources).all())


def top_sorted(fst: Fst) -> Fst | None:
    """Return the FST with states numbered so that every arc leads to a higher number; None if it has a cycle."""
    if is_top_sorted(fst):
        return fst
    starts, targets = fst.arc_starts.tolist(), fst.next_states.tolist()
    finished: list[int] = []
    position, seen, open_states = list(starts[:-1]), [False] * fst.num_states, [False] * fst.num_states
    roots = ([fst.start] if fst.start >= 0 else []) + list(range(fst.num_states))
    for root in roots:
        stack = [] if seen[root] else [root]
        while stack:
            state = stack[-1]
            seen[state] = open_states[state] = True
            if position[state] == starts[state + 1]:
                finished.append(stack.pop())
                open_states[state] = False
                continue
            following = targets[position[state]]
            position[state] += 1
            if open_states[following]:
                return None
            if not seen[following]:
                stack.append(following)
    return renumbered(fst, np.array(finished[::-1], dtype=np.int64))


def renumbered(fst: Fst, order: np.ndarray) -> Fst:
    """Return the FST whose state i is state ``order[i]`` of ``fst``.

    States that are not in ``order`` are left out; no arc of the others may lead to them.
    """
    new_number = np.full(fst.num_states, NO_STATE, dtype=np.int32)
    new_number[order] = np.arange(len(order), dtype=np.int32)
    counts = np.diff(fst.arc_starts)[order]
    sources = new_number[fst.sources]
    arcs = np.argsort(sources, kind="stable")[np.count_nonzero(sources == NO_STATE):]
    return dataclasses.replace(
        fst, start=int(new_number[fst.start]) if fst.start >= 0 else fst.start, final_weights=fst.final_weights[order],
        arc_starts=np.concatenate(([0], np.cumsum(counts))), input_labels=fst.input_labels[arcs],
        output_labels=fst.output_labels[arcs], weights=fst.weights[arcs],
        next_states=new_number[fst.next_states[arcs]], stored=None)


_EPSILON = 0
_FREE, _OPEN, _DONE = range(3)


def concatenated(fsts: Sequence[Fst]) -> Fst:
    """Return the concatenation of FSTs. OpenFst: Concat.

    Each final state gets an epsilon arc to the start of the next FST, after its own arcs. States keep their order.
    Nnet3Error for an FST without states, or of another arc type than the first.
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
    """Return an equivalent FST of costs without epsilon arcs and useless states. OpenFst: RmEpsilon.

    A state also gets the arcs of all states that epsilons lead to; of equal arcs the cheapest is kept. New arcs are in
    the reverse of the order of the search, as in OpenFst. Raises Nnet3Error for a cycle of epsilon arcs.
    """
    if fst.weights.ndim != 1:
        raise Nnet3Error("epsilons can be removed only from FSTs whose arcs have one cost, found arc type "
                         f"{fst.arc_type}")
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
    """An FST as lists of arcs, from whose states epsilons are removed one after the other."""

    def __init__(self, fst: Fst) -> None:
        labels = zip(fst.input_labels.tolist(), fst.output_labels.tolist(), fst.next_states.tolist(), strict=True)
        pairs = list(zip(labels, fst.weights, strict=True))
        starts = fst.arc_starts.tolist()
        self.arcs = [pairs[first:end] for first, end in zip(starts[:-1], starts[1:], strict=True)]
        self.finals = list(fst.final_weights)

    def behind_first(self, states: Sequence[int]) -> list[int]:
        """Return ``states`` and all states that their epsilons lead to, each after those that its own epsilons lead to.

        Nnet3Error for a cycle of epsilons.
        """
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
        """Replace the epsilons of ``source`` by the arcs and final costs of the states that they lead to."""
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
        """Return the lists as an FST with the start and arc type of ``like``."""
        sources = np.repeat(np.arange(len(self.arcs)), [len(arcs) for arcs in self.arcs])
        arcs = [arc for of_state in self.arcs for arc, _ in of_state]
        numbers = np.array(arcs, dtype=np.int32).reshape(-1, 3)
        weights = np.array([weight for of_state in self.arcs for _, weight in of_state], dtype=np.float32)
        return Fst(like.start, np.array(self.finals, dtype=np.float32), starts_by(sources, len(self.arcs)),
                   numbers[:, 0].copy(), numbers[:, 1].copy(), weights, numbers[:, 2].copy(), like.arc_type)


def connected(fst: Fst) -> Fst:
    """Return the FST without states that the start does not reach or that reach no final state. OpenFst: Connect."""
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
    """Return which states are on a path from the start to a final state, bool (states,)."""
    if fst.num_arcs > _FEW_ARCS:
        return useful_states(fst.start, fst.arc_starts, fst.next_states, fst.is_final)
    start = np.array([fst.start] if fst.start >= 0 else [], dtype=np.int64)
    return reached(fst, start, backward=False) & reached(fst, np.flatnonzero(fst.is_final), backward=True)


def breadth_first(fst: Fst) -> Fst:
    """Return the FST with states numbered in breadth-first order from the start; unreachable states are left out."""
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
