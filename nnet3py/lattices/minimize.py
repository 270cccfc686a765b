"""Smaller compact lattices: strings and weights pushed towards the start, equal states merged."""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.lattices.determinize_options import DELTA
from nnet3py.lattices.states import top_sorted, trimmed
from nnet3py.transducers.arc_starts import starts_of
from nnet3py.transducers.compact_lattice import CompactLattice

_HERE = "nnet3py.lattices.minimize_loops"
_STRINGS = "i8[] i4[] i8[] i4[] i8[] i4[]"            # arc starts, next states, strings of arcs and of final weights
_find_shifts = Loop(_HERE, "find_shifts", f"i8 {_STRINGS} u1[] i8[]")
_write_pushed = Loop(_HERE, "write_pushed", f"{_STRINGS} i8[] i8[] i4[]")
_push_weights = Loop(_HERE, "push_weights", "i8 i8[] i4[] f4[,] f4[,] f4[,]")
_find_equal_states = Loop(_HERE, "find_equal_states",
                          "i8[] i4[] i4[] f4[,] i8[] i4[] f4[,] i8[] i4[] f4 f4 i8[] i4[] i4[] i4[]")


def with_strings_pushed(lattice: CompactLattice) -> CompactLattice:
    """A lattice with its transition-ids as near to the start as possible. Kaldi: PushCompactLatticeStrings.

    Parameters
    ----------
    lattice : compact; its states may be in any order

    Returns
    -------
    The lattice, new; those of the start's arcs stay there.

    Raises
    ------
    LatticeError : a lattice with a cycle
    """
    lattice = top_sorted(lattice)
    if lattice.start < 0:
        return lattice
    shifts = np.empty(lattice.num_states, dtype=np.int64)
    strings = (lattice.arc_starts, lattice.next_states, lattice.string_starts, lattice.ids,
               lattice.final_string_starts, lattice.final_ids)
    _find_shifts(lattice.start, *strings, lattice.is_final.astype(np.uint8), shifts)
    starts = starts_of(lattice.lengths + shifts[lattice.next_states] - shifts[lattice.sources])
    ids = np.empty(int(starts[-1]), dtype=np.int32)
    _write_pushed(*strings, shifts, starts, ids)
    final_shifts = np.where(lattice.is_final, shifts, 0)
    ends = np.repeat(lattice.final_string_starts[:-1] + final_shifts, lattice.final_lengths)
    return dataclasses.replace(
        lattice, string_starts=starts, ids=ids, final_string_starts=starts_of(lattice.final_lengths - final_shifts),
        final_ids=lattice.final_ids[np.arange(len(lattice.final_ids)) >= ends])


def with_weights_pushed(lattice: CompactLattice) -> CompactLattice:
    """A lattice with its costs as near to the start as possible. Kaldi: PushCompactLatticeWeights.

    Parameters
    ----------
    lattice : compact; its states may be in any order

    Returns
    -------
    The lattice, new; the first arcs have what all paths share.

    Raises
    ------
    LatticeError : a lattice with a cycle
    """
    lattice = top_sorted(lattice)
    if lattice.start < 0:
        return lattice
    weights, finals = lattice.weights.copy(), lattice.final_weights.copy()
    _push_weights(lattice.start, lattice.arc_starts, lattice.next_states, weights, finals,
                  np.empty((lattice.num_states, 2), dtype=np.float32))
    return dataclasses.replace(lattice, weights=weights, final_weights=finals)


def minimized(lattice: CompactLattice, delta: float = DELTA) -> CompactLattice:
    """A lattice with states merged that are followed by the same at about equal costs. Kaldi: MinimizeCompactLattice.

    Parameters
    ----------
    lattice : compact; strings and weights should have been pushed
    delta : how much costs may differ

    Returns
    -------
    The lattice, new, trimmed.

    Raises
    ------
    LatticeError : a lattice with a cycle
    """
    lattice = top_sorted(lattice)
    if lattice.start < 0:
        return lattice
    size = lattice.num_states
    mapped, chain = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
    heads = np.full(1 << int(size).bit_length(), -1, dtype=np.int32)
    _find_equal_states(lattice.arc_starts, lattice.labels, lattice.next_states, lattice.weights, lattice.string_starts,
                       lattice.ids, lattice.final_weights, lattice.final_string_starts, lattice.final_ids, delta,
                       DELTA, np.empty(lattice.num_arcs, dtype=np.int64), mapped, heads, chain)
    merged = dataclasses.replace(lattice, start=int(mapped[lattice.start]), next_states=mapped[lattice.next_states])
    return trimmed(merged)
