"""Pruning lattices by the costs of their best paths, and by the number of arcs per frame; depth."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.lattices.states import (
    Lattice,
    arc_costs,
    final_costs,
    num_frames,
    state_times,
    top_sorted,
    trimmed,
    with_states,
    with_weights,
)
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT
from nnet3py.transducers.state_graphs import ranges

_forward_costs = Loop("nnet3py.lattices.path_loops", "forward_costs", "i8 i8[] i4[] f8[] f8[] i8[]")
_backward_costs = Loop("nnet3py.lattices.path_loops", "backward_costs", "i8[] i4[] f8[] f8[] f8[]")


def _least_costs(lattice: Lattice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For a top-sorted lattice: costs of arcs and final weights, least costs from the start and to the end."""
    costs, finals = arc_costs(lattice), final_costs(lattice)
    forward, backward = np.empty(lattice.num_states), np.empty(lattice.num_states)
    _forward_costs(lattice.start, lattice.arc_starts, lattice.next_states, costs, forward,
                   np.empty(lattice.num_states, dtype=np.int64))
    _backward_costs(lattice.arc_starts, lattice.next_states, costs, finals, backward)
    return costs, finals, forward, backward


def pruned(lattice: Lattice, beam: float) -> Lattice:
    """A lattice without what is on no path near the best. Kaldi: PruneLattice.

    Parameters
    ----------
    lattice : compact or not, its costs scaled already
    beam : how much worse than the best a path may be

    Returns
    -------
    A lattice of the same kind; states and arcs keep their order.

    Raises
    ------
    LatticeError : a lattice with a cycle
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
    result = with_states(with_weights(lattice, lattice.weights, final_weights), np.arange(lattice.num_states), keep)
    return trimmed(result)


def depth(lattice: CompactLattice) -> tuple[float, int]:
    """How many arcs there are in a frame, on average. Kaldi: CompactLatticeDepth.

    Parameters
    ----------
    lattice : compact

    Returns
    -------
    The average number of arcs per frame, and the number of frames; 1 and 0 for an empty lattice.

    Raises
    ------
    LatticeError : paths to a state differ in length
    """
    if lattice.start < 0:
        return 1.0, 0
    lattice = top_sorted(lattice)
    frames = num_frames(lattice, state_times(lattice))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.divide(len(lattice.ids) + len(lattice.final_ids), np.float64(frames))), frames


def depth_per_frame(lattice: CompactLattice) -> np.ndarray:
    """How many arcs there are in each frame. Kaldi: CompactLatticeDepthPerFrame.

    Parameters
    ----------
    lattice : compact

    Returns
    -------
    int32 (frames,), the arcs and final weights with transition-ids that cross each frame

    Raises
    ------
    LatticeError : paths to a state differ in length
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
    """A lattice with few arcs in each frame: those on the best paths. Kaldi: CompactLatticeLimitDepth.

    Parameters
    ----------
    lattice : compact
    most_arcs : in a frame

    Returns
    -------
    The lattice, new.

    Raises
    ------
    LatticeError : a lattice with a cycle
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
    return trimmed(with_states(lattice, np.arange(lattice.num_states), keep))
