"""The path of a lattice whose words are nearest to the reference. Kaldi: lattice-oracle."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.lattices.best_path import linear
from nnet3py.lattices.states import LatticeError, from_start, trimmed
from nnet3py.transducers.compact_lattice import CompactLattice

_distances = Loop("nnet3py.lattices.oracle_loops", "distances",
                  "i8[] i4[] i4[] i4[] i4[] i4[,] i8[,] i4[,]")
_INSERTED, _MATCHED, _DELETED = 0, 1, 2        # how a place is reached
_MOST_NUMBERS = 1 << 28                        # in the table of states by words


class Oracle(NamedTuple):
    """The path nearest to the reference.

    Attributes
    ----------
    path : a linear lattice
    words : int32 (words,), its words
    insertions, deletions, substitutions : its errors
    """

    path: CompactLattice
    words: np.ndarray
    insertions: int
    deletions: int
    substitutions: int

    @property
    def errors(self) -> int:
        """All errors."""
        return self.insertions + self.deletions + self.substitutions


def oracle(lattice: CompactLattice, reference: np.ndarray, wildcards: np.ndarray) -> Oracle:
    """The path of a lattice with the fewest errors against a reference. Kaldi: lattice-oracle.

    Parameters
    ----------
    lattice : its states may be in any order
    reference : int (words,), what was said
    wildcards : int (count,), words that do not count, in either

    Returns
    -------
    The path, its words and their errors.

    Raises
    ------
    LatticeError : a lattice without paths, or too large to be compared
    """
    lattice = from_start(trimmed(lattice))
    if lattice.start < 0:
        raise LatticeError("the lattice is empty")
    words = np.where(np.isin(lattice.labels, wildcards), 0, lattice.labels).astype(np.int32)
    spoken = reference[(reference != 0) & ~np.isin(reference, wildcards)].astype(np.int32)
    shape = (lattice.num_states, len(spoken) + 1)
    if shape[0] * shape[1] > _MOST_NUMBERS:
        raise LatticeError(f"a lattice of {shape[0]} states is too large to be compared with {len(spoken)} words",
                           "prune it with lattice-prune")
    costs, arcs, how = (np.zeros(shape, dtype=kind) for kind in (np.int32, np.int64, np.int32))
    sources = lattice.sources
    _distances(lattice.arc_starts, lattice.next_states, words, sources, spoken, costs, arcs, how)
    ends = np.flatnonzero(lattice.is_final)
    state = end = int(ends[costs[ends, -1].argmin()])
    place, way, counts = len(spoken), list[int](), [0, 0, 0]
    while state or place:
        kind, arc = int(how[state, place]), int(arcs[state, place])
        if kind == _MATCHED:
            counts[kind] += words[arc] != spoken[place - 1]
        elif kind in (_INSERTED, _DELETED):
            counts[kind] += 1
        if kind != _DELETED:
            way.append(arc)
            state = int(sources[arc])
        place -= kind in (_MATCHED, _DELETED)
    order = np.array(way[::-1], dtype=np.int64)
    words_in_order = words[order]
    return Oracle(linear(lattice, order, end), words_in_order[words_in_order != 0], counts[_INSERTED], counts[_DELETED],
                  int(counts[_MATCHED]))
