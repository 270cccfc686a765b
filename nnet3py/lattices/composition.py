"""Composing lattices with FSTs, with const-ARPA language models and with each other; unions; rescoring.

Kaldi: ``ComposeCompactLatticeDeterministic``, ``lattice-compose``, ``lattice-lmrescore*``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import Nnet3Error
from nnet3py.fst.const_arpa import ConstArpa
from nnet3py.lattices.determinize import determinize
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.lattices.states import LatticeError, infinite_weights, leading_on, side_by_side, top_sorted, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice, taken
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.lattice import expanded
from nnet3py.transducers.state_graphs import enlarged


class ComposedArcs(NamedTuple):
    """The arcs of a composed lattice, in any order. Each is a copy of an arc of the lattice that was composed."""

    # sources, targets: int64 (arcs,), numbers of composed states
    sources: np.ndarray
    targets: np.ndarray
    arcs: np.ndarray   # int64 (arcs,), number of the copied arc
    costs: np.ndarray  # float32 (arcs,), nats to add to the graph cost of the copy


def composed_lattice(lattice: CompactLattice, states: np.ndarray, end_costs: np.ndarray,
                     arcs: ComposedArcs) -> CompactLattice:
    """Make a composed lattice from copies of the states and arcs of ``lattice``; return it trimmed.

    Parameters
    ----------
    lattice : CompactLattice that was composed
    states : int64 (composed states,), the state of ``lattice`` that each composed state is a copy of; the first is the
        start
    end_costs : float32 (composed states,), nats to add to the graph costs of final weights; a composed state is not
        final where the value is not finite
    arcs : ComposedArcs
    """
    weights = lattice.weights[arcs.arcs]
    weights[:, 0] += arcs.costs
    finals = lattice.final_weights[states]
    finals[:, 0] += end_costs
    finals[~np.isfinite(end_costs)] = NO_WEIGHT
    _, ids = taken(lattice.string_starts, lattice.ids, arcs.arcs)
    _, final_ids = taken(lattice.final_string_starts, lattice.final_ids, states)
    return trimmed(CompactLattice.from_arcs(
        0, finals, arcs.sources, lattice.labels[arcs.arcs], weights, lattice.lengths[arcs.arcs], ids, arcs.targets,
        lattice.final_lengths[states], final_ids))


_LOOPS = "nnet3py.lattices.composition_loops"
_USES = ["nnet3py.fst.const_arpa_loops"]
_CONST_ARPA = "i8[] i4[] f4[] i8[] i8"         # the model's arrays, and its unknown word
_compose = Loop(_LOOPS, "compose", "i8[] i4[] i4[] u1[] i8[] i4[] i4[] f4[,] i4[] i8 i8 i4[] i8[] i8[] i4[,] f4[,]",
                _USES)
_compose_with_const_arpa = Loop(
    _LOOPS, "compose_with_const_arpa",
    f"i8[] i4[] i4[] {_CONST_ARPA} i8 i4[,] i4[] i4[] i4[] i8[] i8[] i8[,] f4[]", _USES)
_rehash = Loop(_LOOPS, "rehash", "i8[] i8 i4[]", _USES)
_rehash_histories = Loop(_LOOPS, "rehash_histories", "i4[,] i4[] i8 i4[]", _USES)
_end_costs = Loop(_LOOPS, "end_costs", f"{_CONST_ARPA} i8 i4[,] i4[] f4[]", _USES)
_NO_END = 3                                    # result of a loop: failure arcs form a cycle
_STATES, _ARCS, _MODEL_STATES = 1, 2, 3        # places of the counts; 0 is the next state to be expanded
_FIRST_ROOM = 1 << 10                          # states and arcs
_MOST_STATES = 1 << 28


class Composer:
    """An FST prepared for composition with any number of lattices.

    Parameters
    ----------
    fst : Fst with words as input labels; its weights are costs, or pairs of a graph and an acoustic cost
    phi : label of failure arcs: one is followed if no other arc matches a word, which is then looked up again; -1 for
        none
    rho : label of arcs that match every word that no other arc of the state matches; -1 for none
    """

    def __init__(self, fst: Fst, phi: int = -1, rho: int = -1) -> None:
        order = np.lexsort((fst.input_labels, fst.sources))
        self.start, self.phi, self.rho = fst.start, phi, rho
        self._starts = np.ascontiguousarray(fst.arc_starts, dtype=np.int64)
        self._inputs, self._outputs, self._nexts = (
            np.ascontiguousarray(values[order], dtype=np.int32)
            for values in (fst.input_labels, fst.output_labels, fst.next_states))
        self._costs = _pairs(fst.weights)[order]
        self._finals = _pairs(fst.final_weights)
        if phi > 0:
            self._propagate_finals()

    def _propagate_finals(self) -> None:
        """Make states final from which failure arcs lead to a final state; their cost includes those arcs.

        Kaldi: PropagateFinal.
        """
        at_phi = np.flatnonzero(self._inputs == self.phi)
        sources = np.searchsorted(self._starts, at_phi, side="right") - 1
        failure = dict(zip(sources.tolist(), at_phi.tolist(), strict=True))
        none = np.asarray(np.isposinf(self._finals).all(axis=1))
        for state in np.flatnonzero(none).tolist():
            cost, here, seen = np.zeros(2, dtype=np.float32), state, set[int]()
            while here in failure and none[here] and here not in seen:
                seen.add(here)
                cost = cost + self._costs[failure[here]]
                here = int(self._nexts[failure[here]])
            if not none[here]:
                self._finals[state] = cost + self._finals[here]

    def compose(self, lattice: CompactLattice) -> CompactLattice:
        """Compose a lattice with the FST: its words are matched with input labels and replaced by output labels.

        Raises LatticeError if failure arcs or epsilons form a cycle, or there are too many states.

        Parameters
        ----------
        lattice : CompactLattice, states in any order

        Returns
        -------
        CompactLattice, trimmed and topologically sorted; empty if no path is accepted.
        """
        if lattice.start < 0 or self.start < 0:
            return CompactLattice.empty()
        lattice = top_sorted(lattice)
        size = len(self._starts) - 1
        keys, table = np.empty(_FIRST_ROOM, dtype=np.int64), np.full(2 * _FIRST_ROOM, -1, dtype=np.int32)
        new_arcs, costs = np.empty((_FIRST_ROOM, 4), dtype=np.int32), np.empty((_FIRST_ROOM, 2), dtype=np.float32)
        counts = np.array([0, 1, 0], dtype=np.int64)
        keys[0] = lattice.start * 2 * size + self.start
        _rehash(keys, 1, table)
        finals = lattice.is_final
        while status := _compose(lattice.arc_starts, lattice.labels, lattice.next_states, finals.astype(np.uint8),
                                 self._starts, self._inputs, self._outputs, self._costs, self._nexts, self.phi,
                                 self.rho, table, keys, counts, new_arcs, costs):
            if status == _NO_END or len(keys) > _MOST_STATES:
                raise LatticeError("a lattice cannot be composed with an FST: failure arcs or epsilons form a cycle, "
                                   "or there are too many states")
            new_arcs, costs = enlarged(new_arcs), enlarged(costs)
            if 2 * counts[_STATES] + 4 > len(table) // 2:
                keys, table = enlarged(keys), np.full(2 * len(table), -1, dtype=np.int32)
                _rehash(keys, counts[_STATES], table)
        return self._result(lattice, keys[:counts[_STATES]], new_arcs[:counts[_ARCS]], costs[:counts[_ARCS]])

    def _result(self, lattice: CompactLattice, keys: np.ndarray, new_arcs: np.ndarray,
                costs: np.ndarray) -> CompactLattice:
        size = len(self._starts) - 1
        states, others = keys // size // 2, keys % size
        with np.errstate(over="ignore", invalid="ignore"):
            finals = np.where((lattice.is_final[states] & ~np.isposinf(self._finals[others]).all(axis=1))[:, None],
                              lattice.final_weights[states] + self._finals[others], NO_WEIGHT)
        arcs = new_arcs[:, 1]
        with_arc = arcs >= 0
        weights = costs.copy()
        weights[with_arc] += lattice.weights[arcs[with_arc]]
        lengths = np.where(with_arc, lattice.lengths[arcs], 0) if lattice.num_arcs else np.zeros(len(arcs), np.int64)
        _, ids = taken(lattice.string_starts, lattice.ids, arcs[with_arc])
        _, final_ids = taken(lattice.final_string_starts, lattice.final_ids, states)
        return top_sorted(trimmed(CompactLattice.from_arcs(
            0, finals, new_arcs[:, 0], new_arcs[:, 2], weights, lengths, ids, new_arcs[:, 3],
            lattice.final_lengths[states], final_ids)))


def _pairs(weights: np.ndarray) -> np.ndarray:
    """Return costs as float32 (n, 2) pairs of a graph and an acoustic cost; infinite costs become pairs of infinities.
    """
    if weights.ndim == 2:
        return np.array(weights, dtype=np.float32, order="C")
    pairs = np.zeros((len(weights), 2), dtype=np.float32)
    pairs[:, 0] = weights
    pairs[np.isposinf(weights)] = NO_WEIGHT
    return pairs


def union(lattices: list[CompactLattice]) -> CompactLattice:
    """Return a lattice with all paths of several lattices. OpenFst: Union.

    Parameters
    ----------
    lattices : list of CompactLattice

    Returns
    -------
    CompactLattice; without states if no lattice has any.
    """
    lattices = [lattice for lattice in lattices if lattice.start >= 0]
    count = len(lattices)
    if count < 2:
        return lattices[0] if lattices else CompactLattice.empty()
    starts = np.cumsum([1, *(lattice.num_states for lattice in lattices[:-1])]) + [part.start for part in lattices]
    start = CompactLattice.from_arcs(0, infinite_weights(1), np.zeros(count), np.zeros(count), np.zeros((count, 2)),
                                     np.zeros(count), [], starts)
    return side_by_side([start, *lattices])


def concatenation(lattices: list[CompactLattice]) -> CompactLattice:
    """Return a lattice whose paths are those of several lattices, one lattice after the other. OpenFst: Concat.

    Parameters
    ----------
    lattices : list of CompactLattice, in order; lattices without states are skipped

    Returns
    -------
    CompactLattice.
    """
    lattices = [lattice for lattice in lattices if lattice.start >= 0]
    if len(lattices) < 2:
        return lattices[0] if lattices else CompactLattice.empty()
    whole, offsets = side_by_side(lattices), np.cumsum([lattice.num_states for lattice in lattices])
    # From each end of a lattice an arc without a word, with the final cost, leads to the next lattice's start.
    ends = np.flatnonzero(whole.is_final[:offsets[-2]])
    starts = offsets[:-1] + [lattice.start for lattice in lattices[1:]]
    return leading_on(whole, ends, starts[np.searchsorted(offsets, ends, side="right")])


def with_final_cost(lattice: CompactLattice, cost: float) -> CompactLattice:
    """Return the lattice with a cost (nats) added to the graph costs of all final weights."""
    finals = lattice.final_weights.copy()
    finals[lattice.is_final, 0] += np.float32(cost)
    return dataclasses.replace(lattice, final_weights=finals)


def difference(lattice: CompactLattice, other: CompactLattice) -> CompactLattice:
    """Return the paths of a lattice whose word sequences are on no path of another lattice.

    Parameters
    ----------
    lattice, other : CompactLattice

    Returns
    -------
    CompactLattice, trimmed, topologically sorted.
    """
    if lattice.start < 0 or other.start < 0:
        return lattice
    lattice, words = top_sorted(lattice), _WordSets(other)
    pairs: dict[tuple[int, frozenset[int]], int] = {(lattice.start, words.start): 0}
    waiting, rows = [(lattice.start, words.start)], []
    starts, labels, targets = lattice.arc_starts.tolist(), lattice.labels.tolist(), lattice.next_states.tolist()
    for state, others in waiting:                            # grows
        for arc in range(starts[state], starts[state + 1]):
            following = (targets[arc], words.after(others, labels[arc]) if labels[arc] else others)
            if following not in pairs:
                pairs[following] = len(pairs)
                waiting.append(following)
            rows.append((pairs[state, others], arc, pairs[following]))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    end_costs = np.array([np.inf if words.has_final(others) else 0.0 for _, others in waiting], dtype=np.float32)
    return top_sorted(composed_lattice(
        lattice, np.array([state for state, _ in waiting]), end_costs,
        ComposedArcs(table[:, 0], table[:, 2], table[:, 1], np.zeros(len(table), dtype=np.float32))))


class _WordSets:
    """A lattice whose words are looked up one by one, each leading from a set of states to a set of states."""

    def __init__(self, lattice: CompactLattice) -> None:
        lattice = trimmed(top_sorted(lattice))
        self._starts, self._labels = lattice.arc_starts.tolist(), lattice.labels.tolist()
        self._targets, self._final = lattice.next_states.tolist(), lattice.is_final.tolist()
        self.start = self._closed({lattice.start} if lattice.start >= 0 else set())

    def _arcs(self, state: int) -> range:
        return range(self._starts[state], self._starts[state + 1])

    def _closed(self, states: set[int]) -> frozenset[int]:
        """Return a set of states together with all states that arcs without words lead to from them."""
        closed, stack = set(states), list(states)
        while stack:
            for arc in self._arcs(stack.pop()):
                if self._labels[arc] == 0 and self._targets[arc] not in closed:
                    closed.add(self._targets[arc])
                    stack.append(self._targets[arc])
        return frozenset(closed)

    def after(self, states: frozenset[int], word: int) -> frozenset[int]:
        """Return the states that arcs with the word lead to from a set of states."""
        return self._closed({self._targets[arc] for state in states for arc in self._arcs(state)
                             if self._labels[arc] == word})

    def has_final(self, states: frozenset[int]) -> bool:
        """Return whether a set of states has a final state."""
        return any(self._final[state] for state in states)


def composed_with_const_arpa(lattice: CompactLattice, model: ConstArpa) -> CompactLattice:
    """Return the lattice with a model's costs added to its graph costs, trimmed.

    Paths with words that the model lacks are left out.

    Kaldi: ComposeCompactLatticeDeterministic with ConstArpaLmDeterministicFst.
    """
    if lattice.start < 0:
        return lattice
    lattice = top_sorted(lattice)
    arrays = _CompositionArrays(lattice, model)
    while _compose_with_const_arpa(
            lattice.arc_starts, lattice.labels, lattice.next_states, *model.arrays, model.unk, model.order,
            arrays.histories, arrays.lengths, arrays.model_table, arrays.table, arrays.keys, arrays.counts, arrays.made,
            arrays.costs):
        arrays.enlarge(int(np.diff(lattice.arc_starts).max()))
    return arrays.result(lattice, model)


class _CompositionArrays:
    """The growing arrays that :func:`~nnet3py.lattices.composition_loops.compose_with_const_arpa` fills."""

    def __init__(self, lattice: CompactLattice, model: ConstArpa) -> None:
        self.histories = np.zeros((_FIRST_ROOM, max(model.order - 1, 1)), dtype=np.int32)
        self.lengths = np.zeros(_FIRST_ROOM, dtype=np.int32)
        self.keys, self.counts = np.empty(_FIRST_ROOM, dtype=np.int64), np.array([0, 1, 0, 1], dtype=np.int64)
        self.made, self.costs = np.empty((_FIRST_ROOM, 3), dtype=np.int64), np.empty(_FIRST_ROOM, dtype=np.float32)
        start = model.state([model.bos])
        self.histories[0, :len(start)], self.lengths[0] = start, len(start)
        self.keys[0] = lattice.start << 32
        self._fill_tables()

    def _fill_tables(self) -> None:
        self.table = np.full(2 * len(self.keys), -1, dtype=np.int32)
        self.model_table = np.full(2 * len(self.lengths), -1, dtype=np.int32)
        _rehash(self.keys, self.counts[_STATES], self.table)
        _rehash_histories(self.histories, self.lengths, self.counts[_MODEL_STATES], self.model_table)

    def enlarge(self, most_arcs: int) -> None:
        """Enlarge all arrays so that a state with ``most_arcs`` arcs can be composed.

        LatticeError if the composed lattice has too many states.
        """
        states, arcs, model_states = (int(self.counts[place]) + most_arcs + 2
                                      for place in (_STATES, _ARCS, _MODEL_STATES))
        if max(states, arcs, model_states) > _MOST_STATES:
            raise LatticeError(f"a lattice composed with a language model has more than {_MOST_STATES} states",
                               "prune it with lattice-prune, or use lattice-lmrescore-pruned")
        self.keys = enlarged(self.keys, states)
        self.made, self.costs = enlarged(self.made, arcs), enlarged(self.costs, arcs)
        self.histories, self.lengths = enlarged(self.histories, model_states), enlarged(self.lengths, model_states)
        self._fill_tables()

    def result(self, lattice: CompactLattice, model: ConstArpa) -> CompactLattice:
        """Return the composed lattice when all states are done."""
        keys = self.keys[:self.counts[_STATES]]
        made, costs = self.made[:self.counts[_ARCS]], self.costs[:self.counts[_ARCS]]
        ends = np.empty(int(self.counts[_MODEL_STATES]), dtype=np.float32)
        _end_costs(*model.arrays, model.unk, model.eos, self.histories, self.lengths, ends)
        return composed_lattice(lattice, keys >> 32, ends[keys & 0xFFFFFFFF],
                                ComposedArcs(made[:, 0], made[:, 2], made[:, 1], costs))


def _rescored(lattice: CompactLattice, scale: float,
              compose: Callable[[CompactLattice], CompactLattice]) -> CompactLattice:
    """Return a lattice with ``scale`` times the costs that ``compose`` adds, determinized; unchanged for a scale of 0.
    """
    if scale == 0.0:
        return lattice
    return scaled(determinize(expanded(compose(scaled(lattice, Scales(1.0 / scale))))), Scales(scale))


def rescored_with_const_arpa(lattice: CompactLattice, model: ConstArpa, scale: float) -> CompactLattice:
    """Return a lattice with the costs of a const-ARPA model added. Kaldi: lattice-lmrescore-const-arpa.

    Parameters
    ----------
    lattice : CompactLattice
    model : ConstArpa, as ``nnet3py.fst.const_arpa.ConstArpa.read`` returns it
    scale : float, factor of the model's costs; -1 subtracts them

    Returns
    -------
    CompactLattice, determinized; empty if the model accepts no path.
    """
    return _rescored(lattice, scale, lambda graph: top_sorted(composed_with_const_arpa(graph, model)))


def rescored_with_fst(lattice: CompactLattice, model: Composer, scale: float) -> CompactLattice:
    """Add the costs of a language model, an FST, to a lattice: for each path, of the best path through the model.

    Kaldi: lattice-lmrescore.

    Parameters
    ----------
    lattice : CompactLattice
    model : Composer of an acceptor of words; its back-off arcs are epsilons, which may be followed even if the word
        has an arc of its own
    scale : float, factor of the model's costs; -1 subtracts them

    Returns
    -------
    CompactLattice, determinized; empty if the model accepts no path.
    """
    return _rescored(lattice, scale, model.compose)


def as_acceptor_of_words(fst: Fst) -> Fst:
    """Return an FST with its input labels replaced by its output labels; Nnet3Error for an FST with pairs of costs."""
    if fst.weights.ndim != 1:
        raise Nnet3Error("expected a language model whose arcs have one cost, found a lattice")
    return dataclasses.replace(fst, input_labels=fst.output_labels, stored=None)
