"""Functions that most lattice algorithms begin with: order of states, trimming, costs, times.

They take a CompactLattice or an Fst of arc type ``lattice4``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar, cast

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import Nnet3Error
from nnet3py.transducers.compact_lattice import CompactLattice, taken
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.state_graphs import top_order

Lattice = TypeVar("Lattice", Fst, CompactLattice)

_state_times = Loop("nnet3py.lattices.path_loops", "state_times", "i8 i8[] i4[] i8[] i4[]")
MOST_FRAMES = 10_000_000          # of a lattice; more than a day


class LatticeError(Nnet3Error):
    """A lattice that cannot be used: cyclic, empty, inconsistent or too large."""


def with_weights(lattice: Lattice, weights: np.ndarray, final_weights: np.ndarray) -> Lattice:
    """Return the lattice with other weights, float32 (arcs, 2) and (states, 2)."""
    if isinstance(lattice, Fst):
        return dataclasses.replace(lattice, weights=weights, final_weights=final_weights, stored=None)
    return dataclasses.replace(lattice, weights=weights, final_weights=final_weights)


def trimmed(lattice: Lattice) -> Lattice:
    """Return the lattice without the states that are on no path; the others keep their order. OpenFst: Connect."""
    useful = lattice.useful_states()
    return lattice if useful.all() else lattice.selected(np.flatnonzero(useful))


def top_sorted(lattice: Lattice) -> Lattice:
    """Return the lattice with states numbered so that every arc leads to a higher number; unchanged if it is sorted.

    LatticeError for a lattice with a cycle. Kaldi: TopSortLatticeIfNeeded.
    """
    return lattice if lattice.is_top_sorted else newly_sorted(lattice)


def newly_sorted(lattice: Lattice) -> Lattice:
    """Sort states topologically like :func:`top_sorted`, but renumber them even if they are sorted. OpenFst: TopSort.
    """
    order = top_order(lattice.start, lattice.arc_starts, lattice.next_states)
    if order is None:
        raise LatticeError("the lattice has a cycle", "lattices have none; was it made by a decoder?")
    return lattice.selected(order)


def from_start(lattice: Lattice) -> Lattice:
    """Return the lattice, topologically sorted, with its start as state 0; unreachable states are left out."""
    lattice = top_sorted(lattice)
    if lattice.start > 0:
        lattice = lattice.selected(np.arange(lattice.start, lattice.num_states))
    return lattice


def arc_costs(lattice: Fst | CompactLattice) -> np.ndarray:
    """Return the sums of graph and acoustic costs of arcs, float64 (arcs,). Kaldi: ConvertToCost."""
    with np.errstate(invalid="ignore"):
        return cast("np.ndarray", lattice.weights.astype(np.float64).sum(axis=1))


def final_costs(lattice: Fst | CompactLattice) -> np.ndarray:
    """Return the sums of graph and acoustic final costs, float64 (states,); infinity where a state is not final."""
    with np.errstate(invalid="ignore"):
        return np.where(lattice.is_final, lattice.final_weights.astype(np.float64).sum(axis=1), np.inf)


def arc_lengths(lattice: Fst | CompactLattice) -> np.ndarray:
    """Return the number of frames of each arc, int64 (arcs,)."""
    if isinstance(lattice, CompactLattice):
        return lattice.lengths
    return (lattice.input_labels != 0).astype(np.int64)


def state_times(lattice: Fst | CompactLattice) -> np.ndarray:
    """Return the frame in which each state of a topologically sorted lattice is reached, int32 (states,).

    -1 for a state that is not reached. LatticeError if paths of different length lead to a state. Kaldi:
    LatticeStateTimes, CompactLatticeStateTimes.
    """
    times = np.empty(lattice.num_states, dtype=np.int32)
    lengths = arc_lengths(lattice)
    if int(lengths.sum()) > np.iinfo(np.int32).max:
        raise LatticeError(f"the lattice has {int(lengths.sum())} transition-ids; more than {np.iinfo(np.int32).max} "
                           "are not possible", "prune it with lattice-prune")
    wrong = _state_times(lattice.start, lattice.arc_starts, lattice.next_states, lengths, times)
    if wrong >= 0:
        raise LatticeError(f"paths of different length lead to state {wrong} of the lattice")
    if len(times) and int(times.max()) > MOST_FRAMES:
        raise LatticeError(f"the lattice has {int(times.max())} frames; more than {MOST_FRAMES} are not possible")
    return times


def num_frames(lattice: Fst | CompactLattice, times: np.ndarray) -> int:
    """Return the number of frames of a lattice with state times ``times``; that of the longest path if they differ."""
    if not isinstance(lattice, CompactLattice):
        return int(times.max(initial=0))
    final = lattice.is_final & (times >= 0)
    return int((times + lattice.final_lengths)[final].max(initial=0))


def infinite_weights(num_states: int) -> np.ndarray:
    """Return final weights, float32 (states, 2), that make no state final."""
    return np.full((num_states, 2), NO_WEIGHT, dtype=np.float32)


def side_by_side(lattices: Sequence[CompactLattice]) -> CompactLattice:
    """Return a lattice with the states and arcs of several, one after the other; its start is that of the first."""
    offsets = np.cumsum([0, *(lattice.num_states for lattice in lattices)]).tolist()
    sources, targets = ([getattr(lattice, name) + offset for lattice, offset in zip(lattices, offsets, strict=False)]
                        for name in ("sources", "next_states"))
    joined = {name: np.concatenate([getattr(lattice, name) for lattice in lattices])
              for name in ("final_weights", "labels", "weights", "lengths", "ids", "final_lengths", "final_ids")}
    return CompactLattice.from_arcs(lattices[0].start, sources=np.concatenate(sources),
                                    next_states=np.concatenate(targets), **joined)


def leading_on(lattice: CompactLattice, ends: np.ndarray, targets: np.ndarray | int) -> CompactLattice:
    """Return the lattice with an arc instead of the final weight of each state in ``ends`` (int): to ``targets``.

    These arcs have no words; they come after the other arcs of their states.
    """
    stays = np.ones(lattice.num_states, dtype=bool)
    stays[ends] = False
    (_, ids), (_, final_ids) = (taken(lattice.final_string_starts, lattice.final_ids, states)
                                for states in (ends, np.flatnonzero(stays)))
    return CompactLattice.from_arcs(
        lattice.start, np.where(stays[:, None], lattice.final_weights, NO_WEIGHT),
        np.concatenate((lattice.sources, ends)), np.concatenate((lattice.labels, np.zeros_like(ends))),
        np.concatenate((lattice.weights, lattice.final_weights[ends])),
        np.concatenate((lattice.lengths, lattice.final_lengths[ends])), np.concatenate((lattice.ids, ids)),
        np.concatenate((lattice.next_states, np.broadcast_to(targets, len(ends)))),
        np.where(stays, lattice.final_lengths, 0), final_ids)


def with_super_final(lattice: CompactLattice) -> tuple[CompactLattice, int]:
    """Return the lattice with a single final state, without arcs and of weight 0, and that state's number.

    If there is no such state, one is added, and epsilon arcs with the final weights lead to it. The number is -1 for a
    lattice without final states.
    """
    final = np.flatnonzero(lattice.is_final)
    if not len(final):
        return lattice, -1
    if len(final) == 1:
        state = int(final[0])
        if (lattice.arc_starts[state] == lattice.arc_starts[state + 1] and not lattice.final_lengths[state]
                and not lattice.final_weights[state].any()):
            return lattice, state
    end = CompactLattice.from_arcs(0, np.zeros((1, 2)), [], [], [], [], [], [])
    return leading_on(side_by_side([lattice, end]), final, lattice.num_states), lattice.num_states
