"""Converting compact lattices to ones with a transition-id on each arc, and back. Kaldi: ``ConvertLattice``."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.transducers.arc_starts import ranges, starts_by, starts_of
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.state_graphs import top_order

LATTICE = "lattice4"
_factor = Loop("nnet3py.transducers.lattice_loops", "factor",
               "i8[] i4[] i4[] i4[] f4[,] u1[] i8[] i4[] i4[] f4[,] i8[] i4[] i4[]")


def expanded(compact: CompactLattice) -> Fst:
    """Each arc as a chain of arcs, one for each of its transition-ids; word and costs are on the first.

    New states come last: state by state, those of its final weight's transition-ids, then those of its arcs.
    """
    finals = np.flatnonzero(compact.is_final & (compact.final_lengths > 0))
    # Chains are made from final weights with transition-ids, and from arcs. They are sorted by state, finals first.
    sources = np.concatenate((finals, compact.sources))
    order = np.argsort(sources, kind="stable")
    is_arc = np.arange(len(order)) >= len(finals)
    lengths = np.concatenate((compact.final_lengths[finals], compact.lengths))[order]
    is_arc, sources = is_arc[order], sources[order]
    num_arcs = np.maximum(lengths, 1)
    new_states = np.where(is_arc, num_arcs - 1, num_arcs)
    first_new = compact.num_states + starts_of(new_states)[:-1]
    targets = np.concatenate((np.zeros(len(finals), dtype=np.int64), compact.next_states))[order]
    words = np.concatenate((np.zeros(len(finals), dtype=np.int32), compact.labels))[order]
    weights = np.concatenate((compact.final_weights[finals], compact.weights))[order]

    heads = starts_of(num_arcs)[:-1]
    total = int(num_arcs.sum())
    place = ranges(np.zeros_like(num_arcs), num_arcs)             # of each arc in its chain
    chain = np.repeat(np.arange(len(order)), num_arcs)
    following = first_new[chain] + place
    ends = is_arc[chain] & (place == num_arcs[chain] - 1)
    arc_targets = np.where(ends, targets[chain], following)
    arc_sources = np.where(place == 0, sources[chain], following - 1)
    input_labels, output_labels = np.zeros(total, dtype=np.int32), np.zeros(total, dtype=np.int32)
    all_ids, id_starts, id_counts = _in_order(compact, finals, order)
    input_labels[ranges(heads, id_counts)] = all_ids[ranges(id_starts, id_counts)]
    output_labels[heads] = words
    costs = np.zeros((total, 2), dtype=np.float32)
    costs[heads] = weights

    final_weights = np.full((compact.num_states + int(new_states.sum()), 2), NO_WEIGHT, dtype=np.float32)
    final_weights[:compact.num_states] = compact.final_weights
    final_weights[finals] = NO_WEIGHT
    final_weights[(first_new + num_arcs - 1)[~is_arc]] = 0.0
    return Fst.from_arcs(compact.start, final_weights, arc_sources, input_labels, output_labels, costs, arc_targets,
                         LATTICE)


def _in_order(compact: CompactLattice, finals: np.ndarray, order: np.ndarray) -> tuple[
        np.ndarray, np.ndarray, np.ndarray]:
    """All transition-ids, and for each chain where its own begin and how many they are."""
    ids = np.concatenate((compact.final_ids, compact.ids))
    first = np.concatenate((compact.final_string_starts[finals], compact.string_starts[:-1] + len(compact.final_ids)))
    counts = np.concatenate((compact.final_lengths[finals], compact.lengths))
    return ids, first[order], counts[order]


def factored(lattice: Fst) -> CompactLattice:
    """A lattice as a compact one: successive arcs without a choice or a word between them become one.

    States are numbered topologically, if there is no cycle. OpenFst: ``Factor``.
    """
    if lattice.start < 0:
        return CompactLattice.empty()
    size = lattice.num_states
    only = np.minimum(lattice.arc_starts[:-1], max(lattice.num_arcs - 1, 0))      # the arc of a state that has just one
    is_inner = ((np.bincount(lattice.next_states, minlength=size) == 1) & (np.diff(lattice.arc_starts) == 1)
                & ~lattice.is_final)
    if lattice.num_arcs:
        is_inner &= lattice.output_labels[only] == 0
    is_inner[lattice.start] = False
    numbers = np.cumsum(~is_inner, dtype=np.int32) - np.int32(1)
    sources = lattice.sources
    heads = np.flatnonzero(~is_inner[sources])
    labels, targets = np.empty(len(heads), dtype=np.int32), np.empty(len(heads), dtype=np.int32)
    weights, string_starts = np.empty((len(heads), 2), dtype=np.float32), np.zeros(len(heads) + 1, dtype=np.int64)
    ids = np.empty(lattice.num_arcs, dtype=np.int32)
    num_ids = _factor(lattice.arc_starts, lattice.next_states, lattice.input_labels, lattice.output_labels,
                      lattice.weights, is_inner.astype(np.uint8), heads, numbers, labels, weights, string_starts, ids,
                      targets)
    kept = np.flatnonzero(~is_inner)
    compact = CompactLattice(
        int(numbers[lattice.start]), starts_by(numbers[sources[heads]], len(kept)), labels,
        targets, weights, string_starts, ids[:num_ids].copy(), lattice.final_weights[kept],
        np.zeros(len(kept) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    order = top_order(compact.start, compact.arc_starts, compact.next_states)
    return compact if order is None else compact.selected(_from_start(compact, order))


def _from_start(lattice: CompactLattice, order: np.ndarray) -> np.ndarray:
    """``order`` without the states that the start does not reach: they come before it."""
    return order[int(np.flatnonzero(order == lattice.start)[0]):]
