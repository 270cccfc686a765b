"""OpenFst's properties of FSTs as bits, orders of states, and operations whose arcs come in OpenFst's order.

Files state properties (sorted, deterministic, acyclic), and OpenFst trusts them. Results equal Kaldi's byte for byte.
OpenFst: ``ComputeProperties``, ``TopSort``, ``Concat``, ``RmEpsilon``. Kaldi: ``SortBreadthFirstSearch``.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.state_graphs import after_successors, reachable, starts_by, strong_parts, top_order

EXPANDED, MUTABLE = 1 << 0, 1 << 1
# for each pair of properties the bit of the first one; the next bit says that it does not hold
ACCEPTOR, INPUT_DETERMINISTIC, OUTPUT_DETERMINISTIC, EPSILONS, INPUT_EPSILONS, OUTPUT_EPSILONS = range(16, 28, 2)
INPUT_SORTED, OUTPUT_SORTED, WEIGHTED, CYCLIC, INITIAL_CYCLIC, TOP_SORTED = range(28, 40, 2)
ACCESSIBLE, COACCESSIBLE, STRING, WEIGHTED_CYCLES = range(40, 48, 2)
_MANY_ARCS = 100_000           # from here on not all properties are computed


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
    from_start, to_end = reachable(fst.start, fst.arc_starts, targets, fst.is_final)
    cyclic, initial_cyclic, weighted_cycles = False, False, False
    if not fst.is_top_sorted:
        parts = strong_parts(fst.arc_starts, targets)
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
        CYCLIC: cyclic, INITIAL_CYCLIC: initial_cyclic, TOP_SORTED: fst.is_top_sorted,
        ACCESSIBLE: bool(from_start.all()), COACCESSIBLE: bool(to_end.all()),
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


def top_sorted(fst: Fst) -> Fst | None:
    """Return the FST with states numbered so that every arc leads to a higher number; None if it has a cycle."""
    if fst.is_top_sorted:
        return fst
    order = top_order(fst.start, fst.arc_starts, fst.next_states)
    return None if order is None else fst.selected(order)


_EPSILON = 0


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
        order = after_successors(states, lambda state: [arc[2] for arc, _ in self.arcs[state] if _is_epsilon(arc)])
        if order is None:
            raise Nnet3Error("an FST has a cycle of epsilon arcs, which cannot be removed")
        return order

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
    useful = fst.useful_states()
    return fst if useful.all() else fst.selected(np.flatnonzero(useful))


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
    return fst.selected(np.array(order))
