"""Lattices as FSTs of their words or of their transition-ids."""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import without_epsilons
from nnet3py.transducers.lattice import LATTICE


def on_words(lattice: CompactLattice) -> Fst:
    """A lattice with words on both sides, and no transition-ids. Kaldi: RemoveAlignmentsFromCompactLattice."""
    return Fst(lattice.start, lattice.final_weights, lattice.arc_starts, lattice.labels, lattice.labels,
               lattice.weights, lattice.next_states, LATTICE)


def on_transitions(lattice: Fst) -> Fst:
    """A lattice with transition-ids on both sides."""
    return dataclasses.replace(lattice, output_labels=lattice.input_labels, stored=None)


def costs_of(weights: np.ndarray) -> np.ndarray:
    """float32: the sums of pairs of costs; infinity for two infinities. Kaldi: ConvertLatticeWeight."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isposinf(weights).all(axis=1), NO_WEIGHT,
                        (weights[:, 0].astype(np.float64) + weights[:, 1])).astype(np.float32)


def as_fst(lattice: Fst) -> Fst:
    """A lattice as an FST with one cost per arc."""
    return dataclasses.replace(lattice, weights=costs_of(lattice.weights), arc_type="standard", stored=None,
                               final_weights=costs_of(lattice.final_weights))


def word_fst(lattice: CompactLattice, remove_epsilons: bool) -> Fst:
    """An acceptor of the lattice's words, with the sums of their costs."""
    fst = as_fst(on_words(lattice))
    return without_epsilons(fst) if remove_epsilons and (fst.input_labels == 0).any() else fst
