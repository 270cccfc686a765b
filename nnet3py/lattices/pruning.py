"""Smaller lattices: pruned by a beam, limited in depth, minimized after strings and weights were pushed."""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.lattices.determinize_options import DELTA
from nnet3py.lattices.states import (
    Lattice,
    arc_costs,
    final_costs,
    num_frames,
    state_times,
    top_sorted,
    trimmed,
    with_weights,
)
from nnet3py.lattices.structures import Compared, Strings, types_of
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT
from nnet3py.transducers.state_graphs import ranges, starts_of

_forward_costs = Loop("nnet3py.lattices.path_loops", "forward_costs", "i8 i8[] i4[] f8[] f8[] i8[]")
_backward_costs = Loop("nnet3py.lattices.path_loops", "backward_costs", "i8[] i4[] f8[] f8[] f8[]")


def _least_costs(lattice: Lattice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the costs of arcs and of final weights, and the least costs from the start and to the end, all float64.

    ``lattice`` must be topologically sorted.
    """
    costs, finals = arc_costs(lattice), final_costs(lattice)
    forward, backward = np.empty(lattice.num_states), np.empty(lattice.num_states)
    _forward_costs(lattice.start, lattice.arc_starts, lattice.next_states, costs, forward,
                   np.empty(lattice.num_states, dtype=np.int64))
    _backward_costs(lattice.arc_starts, lattice.next_states, costs, finals, backward)
    return costs, finals, forward, backward


def pruned(lattice: Lattice, beam: float) -> Lattice:
    """Return a lattice without states and arcs that are on no path near the best one. Kaldi: PruneLattice.

    Parameters
    ----------
    lattice : CompactLattice or Fst, costs scaled already; LatticeError if it has a cycle
    beam : float, nats by which a path may be worse than the best one

    Returns
    -------
    Lattice of the same class; states and arcs keep their order.
    """
    lattice = top_sorted(lattice)
    if lattice.start < 0:
        return lattice
    costs, finals, forward, backward = _least_costs(lattice)
    with np.errstate(invalid="ignore"):
        cutoff = np.nanmin(forward + finals, initial=np.inf) + beam
        keep = ~(forward[lattice.sources] + (costs + backward[lattice.next_states]) > cutoff)
        dropped = forward + finals > cutoff
    final_weights = lattice.final_weights.copy()
    final_weights[dropped] = NO_WEIGHT
    return trimmed(with_weights(lattice, lattice.weights, final_weights).selected(np.arange(lattice.num_states), keep))


def depth(lattice: CompactLattice) -> tuple[float, int]:
    """Return the average number of arcs per frame, and the number of frames. Kaldi: CompactLatticeDepth.

    Parameters
    ----------
    lattice : CompactLattice; LatticeError if paths to a state differ in length

    Returns
    -------
    float and int; 1 and 0 for an empty lattice.
    """
    if lattice.start < 0:
        return 1.0, 0
    lattice = top_sorted(lattice)
    frames = num_frames(lattice, state_times(lattice))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.divide(len(lattice.ids) + len(lattice.final_ids), np.float64(frames))), frames


def depth_per_frame(lattice: CompactLattice) -> np.ndarray:
    """Return the number of arcs in each frame. Kaldi: CompactLatticeDepthPerFrame.

    Parameters
    ----------
    lattice : CompactLattice; LatticeError if paths to a state differ in length

    Returns
    -------
    int32 (frames,), for each frame the number of arcs and final weights that have a transition-id for it
    """
    if lattice.start < 0:
        return np.zeros(0, dtype=np.int32)
    lattice = top_sorted(lattice)
    times = state_times(lattice)
    frames = num_frames(lattice, times)
    first = np.concatenate((times[lattice.sources], times))
    lengths = np.concatenate((lattice.lengths, lattice.final_lengths))
    reached = first >= 0
    changes = np.zeros(frames + 1, dtype=np.int64)
    np.add.at(changes, np.minimum(first, frames)[reached], 1)      # dead ends may lie beyond the end
    np.add.at(changes, np.minimum(first + lengths, frames)[reached], -1)
    return np.cumsum(changes)[:-1].astype(np.int32)


def limited_depth(lattice: CompactLattice, most_arcs: int) -> CompactLattice:
    """Return a lattice with the best ``most_arcs`` arcs of each frame. Kaldi: CompactLatticeLimitDepth.

    Parameters
    ----------
    lattice : CompactLattice; LatticeError if it has a cycle
    most_arcs : int, largest number of arcs in a frame

    Returns
    -------
    CompactLattice, a new one.
    """
    lattice = top_sorted(lattice)
    if lattice.start < 0:
        return lattice
    times = state_times(lattice)
    costs, _, forward, backward = _least_costs(lattice)
    sources, lengths = lattice.sources, lattice.lengths
    used = np.flatnonzero(times[sources] >= 0)
    through = (forward[sources] + costs + backward[lattice.next_states])[used]
    frames = ranges(times[sources[used]].astype(np.int64), lengths[used])
    arcs = np.repeat(np.arange(len(used)), lengths[used])
    order = np.lexsort((arcs, through[arcs], frames))
    in_order = frames[order]
    first_of_frame = np.searchsorted(in_order, in_order)
    too_many = np.arange(len(order)) - first_of_frame >= most_arcs
    keep = np.ones(lattice.num_arcs, dtype=bool)
    keep[used[arcs[order[too_many]]]] = False
    return trimmed(lattice.selected(np.arange(lattice.num_states), keep))


_HERE, _USES = "nnet3py.lattices.minimize_loops", ["nnet3py.lattices.structures"]
_find_shifts = Loop(_HERE, "find_shifts", f"{types_of(Strings)} i8 u1[] i8[]", _USES)
_write_pushed = Loop(_HERE, "write_pushed", f"{types_of(Strings)} i8[] i8[] i4[]", _USES)
_push_weights = Loop(_HERE, "push_weights", "i8 i8[] i4[] f4[,] f4[,] f4[,]", _USES)
_find_equal_states = Loop(_HERE, "find_equal_states", f"{types_of(Strings, Compared)} f4 f4 i4[] i4[]", _USES)


def _strings(lattice: CompactLattice) -> Strings:
    return Strings(*(getattr(lattice, name) for name in Strings._fields))


def with_strings_pushed(lattice: CompactLattice) -> CompactLattice:
    """Return a lattice with its transition-ids as near to the start as possible. Kaldi: PushCompactLatticeStrings.

    Parameters
    ----------
    lattice : CompactLattice, states in any order; LatticeError if it has a cycle

    Returns
    -------
    CompactLattice, a new one; nothing is pushed onto arcs into the start.
    """
    lattice = top_sorted(lattice)
    strings, shifts = _strings(lattice), np.empty(lattice.num_states, dtype=np.int64)
    _find_shifts(*strings, lattice.start, lattice.is_final.astype(np.uint8), shifts)
    starts = starts_of(lattice.lengths + shifts[lattice.next_states] - shifts[lattice.sources])
    ids = np.empty(int(starts[-1]), dtype=np.int32)
    _write_pushed(*strings, shifts, starts, ids)
    final_shifts = np.where(lattice.is_final, shifts, 0)
    ends = np.repeat(lattice.final_string_starts[:-1] + final_shifts, lattice.final_lengths)
    return dataclasses.replace(
        lattice, string_starts=starts, ids=ids, final_string_starts=starts_of(lattice.final_lengths - final_shifts),
        final_ids=lattice.final_ids[np.arange(len(lattice.final_ids)) >= ends])


def with_weights_pushed(lattice: CompactLattice) -> CompactLattice:
    """Return a lattice with its costs as near to the start as possible. Kaldi: PushCompactLatticeWeights.

    Parameters
    ----------
    lattice : CompactLattice, states in any order; LatticeError if it has a cycle

    Returns
    -------
    CompactLattice, a new one; costs that all paths share are on the first arcs.
    """
    lattice = top_sorted(lattice)
    weights, finals = lattice.weights.copy(), lattice.final_weights.copy()
    _push_weights(lattice.start, lattice.arc_starts, lattice.next_states, weights, finals,
                  np.empty((lattice.num_states, 2), dtype=np.float32))
    return with_weights(lattice, weights, finals)


def minimized(lattice: CompactLattice, delta: float = DELTA) -> CompactLattice:
    """Return a lattice with equal states merged: those with the same arcs and final weights.

    Kaldi: MinimizeCompactLattice.

    Parameters
    ----------
    lattice : CompactLattice, with strings and weights pushed before; LatticeError if it has a cycle
    delta : float, nats by which final costs of equal states may differ

    Returns
    -------
    CompactLattice, a new one, trimmed.
    """
    lattice = top_sorted(lattice)
    if lattice.start < 0:
        return lattice
    size = lattice.num_states
    mapped, chain = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
    heads = np.full(1 << int(size).bit_length(), -1, dtype=np.int32)
    compared = Compared(lattice.labels, lattice.weights, lattice.final_weights, mapped,
                        np.empty(lattice.num_arcs, dtype=np.int64))
    _find_equal_states(*_strings(lattice), *compared, delta, DELTA, heads, chain)
    return trimmed(dataclasses.replace(lattice, start=int(mapped[lattice.start]),
                                       next_states=mapped[lattice.next_states]))
