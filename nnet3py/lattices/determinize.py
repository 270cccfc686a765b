"""Lattices with one path for each word sequence, the best one, within a beam. Kaldi: ``DeterminizeLatticePruned``.

Determinization is on words; the transition-ids that go with them are strings. Compiled loops do the work, on arrays
that are enlarged here (``determinize_loops.py``).
"""
from __future__ import annotations

import logging
import math
from typing import NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import NumericError
from nnet3py.lattices import subset_layout as layout
from nnet3py.lattices.determinize_options import DeterminizeOptions
from nnet3py.lattices.growing import enlarged
from nnet3py.lattices.pruning import pruned
from nnet3py.lattices.states import top_sorted
from nnet3py.log import kaldi_place
from nnet3py.transducers.arc_starts import starts_of
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst

_log = logging.getLogger(__name__)
_HERE = "nnet3py.lattices."
_USES = [f"{_HERE}subset_layout", f"{_HERE}subsets", f"{_HERE}string_tree"]
_prepare = Loop(f"{_HERE}determinize_loops", "prepare", "i8[] i4[] f4[,] i4[] f4[,] i8[] u1[] f8[]", _USES)
_determinize = Loop(
    f"{_HERE}determinize_loops", "determinize",
    "i8[] i8[] i4[] i4[] f4[,] i4[] f4[,] u1[] f8[] "                               # the lattice
    "i4[,] i4[] "                                                                   # strings
    "i8[,] i4[] f8[] i4[] f4[,] i8[,] f4[,] i4[] i4[,] f4[,] i8[,] f8[] i4[] i4[,] f4[,] "       # the output
    "i4[,] f4[,] i4[,] f4[,] i4[] i4[] i8[] i8[] i4[] i8[] f8[] i8",                # scratch, counts, limits
    _USES)
_rebuild_table = Loop(f"{_HERE}determinize_loops", "rebuild_table", "i8[,] i8 i4[,] i4[]", _USES)
_drop_strings = Loop(f"{_HERE}determinize_loops", "drop_strings",
                     "i4[,] u1[] i8[,] i4[] i8[,] i4[,] i8[,] i4[] i4[,] i8[]", _USES)
_rebuild_heads = Loop(f"{_HERE}string_tree", "rebuild_heads", "i4[,] i4[] i8[]", _USES)
_write_strings = Loop(f"{_HERE}string_tree", "write_strings", "i4[,] i4[] i8[] i4[]", _USES)

_ENOUGH = 0.8                      # share of max-mem that may be in use after dropping strings
_MOST_TRIES = 10
_FIRST_ROOM = 1 << 10
_FILE = "determinize-lattice-pruned.cc"


class Determinized(NamedTuple):
    """A determinized lattice.

    Attributes
    ----------
    lattice : with one path for each sequence of words
    complete : whether no limit was reached
    effective_beam : how far from the best path it reaches
    """

    lattice: CompactLattice
    complete: bool
    effective_beam: float


def determinize_pruned(lattice: Fst, beam: float, options: DeterminizeOptions | None = None) -> Determinized:
    """Determinize a lattice on its words (output labels), for paths within a beam of the best.

    Parameters
    ----------
    lattice : state-level, scaled as paths are to be compared; its states may be in any order
    beam : infinity for all paths
    options : limits

    Returns
    -------
    The lattice, its states numbered as they were made (some near the beam may lead nowhere: trim it); and how far it
    reaches.

    Raises
    ------
    LatticeError : a lattice with a cycle
    NumericError : NaN costs

    Kaldi: DeterminizeLatticePruned with its retries.
    """
    options = options or DeterminizeOptions()
    lattice = top_sorted(lattice)
    for attempt in range(_MOST_TRIES):
        result = _Determinization(lattice, beam, options).run()
        short = math.isfinite(beam) and result.effective_beam < options.retry_cutoff * beam
        if not short or attempt == _MOST_TRIES - 1:
            break
        reached = max(result.effective_beam, 0.0)          # rounding may give less
        narrower = max(beam * math.sqrt(reached / beam), beam / 2.0)
        _log.warning("Effective beam %g was less than beam %g * cutoff %g, pruning raw lattice with new beam %g and "
                     "retrying.", reached, beam, options.retry_cutoff, narrower,
                     extra=kaldi_place("DeterminizeLatticePruned", _FILE, 1280))
        beam = narrower
        lattice = pruned(lattice, beam)
    return result


def determinize(lattice: Fst, options: DeterminizeOptions | None = None) -> CompactLattice:
    """Determinize a lattice on its words (output labels), all of it. Kaldi: DeterminizeLattice.

    Parameters
    ----------
    lattice : state-level, scaled as paths are to be compared
    options : limits

    Returns
    -------
    A lattice with one path for each sequence of words.

    Raises
    ------
    LatticeError : a lattice with a cycle
    NumericError : NaN costs
    """
    return determinize_pruned(lattice, math.inf, options).lattice


class _Determinization:
    """The arrays of one determinization."""

    def __init__(self, lattice: Fst, beam: float, options: DeterminizeOptions) -> None:
        self._beam, self._options, self._start = beam, options, lattice.start
        self._input = _prepared(lattice)
        num_arcs, num_states = len(self._input[2]), lattice.num_states
        self._counts = np.zeros(layout.NUM_COUNTS, dtype=np.int64)
        self._counts[[layout.FREE_NODE, layout.FREE_TASK]] = -1
        self._counts[[layout.MAX_MEMORY, layout.MAX_STATES, layout.MAX_ARCS]] = (
            options.max_mem, options.max_states, options.max_arcs)
        self._counts[layout.NUM_NODES] = 1                       # the empty string
        self._limits = np.zeros(layout.NUM_COSTS)
        best = float(self._input[-1][lattice.start]) if lattice.start >= 0 else math.inf
        self._limits[[layout.BEST, layout.CUTOFF, layout.DELTA]] = best, best + beam, options.delta
        most = num_arcs + num_states
        self._nodes = np.empty((max(_FIRST_ROOM, 4 * most), layout.NODE_WORDS), dtype=np.int32)
        self._nodes[0] = -1, 0, 0, -1
        self._heads = np.full(_FIRST_ROOM, -1, dtype=np.int32)
        self._elements = np.empty((max(_FIRST_ROOM, 2 * most), layout.ELEMENT_WORDS), dtype=np.int32)
        self._make_output(_FIRST_ROOM)
        self._tasks = np.empty((max(_FIRST_ROOM, 2 * num_arcs), layout.TASK_WORDS), dtype=np.int64)
        self._priorities = np.empty(len(self._tasks))
        self._queue = np.empty(len(self._tasks), dtype=np.int32)
        closure = np.empty((num_states + 1, layout.ELEMENT_WORDS), dtype=np.int32)
        moves = np.empty((2 * most + 2, layout.ELEMENT_WORDS), dtype=np.int32)
        self._scratch = (closure, closure.view(np.float32), moves, moves.view(np.float32),
                         np.full(num_states, -1, dtype=np.int32), np.empty(num_states + 1, dtype=np.int32),
                         np.empty(most + 1, dtype=np.int64), np.empty(most + 1, dtype=np.int64),
                         np.empty(num_states + 1, dtype=np.int32))

    def _make_output(self, room: int) -> None:
        self._states = np.empty((room, layout.ENTRY_WORDS), dtype=np.int64)
        self._forward, self._final_strings = np.empty(room), np.empty(room, dtype=np.int32)
        self._final_costs = np.empty((room, 2), dtype=np.float32)
        self._subsets = np.empty((room, layout.ENTRY_WORDS), dtype=np.int64)
        self._subset_costs = np.empty((room, 2), dtype=np.float32)
        self._arcs = np.empty((room, layout.ARC_WORDS), dtype=np.int32)
        self._arc_costs = np.empty((room, 2), dtype=np.float32)
        self._state_heads, self._subset_heads = (np.full(room, -1, dtype=np.int32) for _ in range(2))

    def run(self) -> Determinized:
        """Determinize."""
        if not self._limits[layout.BEST] < math.inf:             # no path, or no states
            return Determinized(CompactLattice.empty(), True, self._beam)
        while True:
            status = _determinize(
                *self._input, self._nodes, self._heads, self._states, self._state_heads, self._forward,
                self._final_strings, self._final_costs, self._subsets, self._subset_costs, self._subset_heads,
                self._arcs, self._arc_costs, self._tasks, self._priorities, self._queue, self._elements,
                self._elements.view(np.float32), *self._scratch, self._counts, self._limits, self._start)
            if status == layout.TOO_LARGE:
                if not self._drop_strings():
                    break
            elif status in (layout.DONE, layout.STOPPED):
                break
            else:
                self._make_room(status)
        return Determinized(self._lattice(), not self._counts[layout.NUM_QUEUED], self._effective_beam())

    def _effective_beam(self) -> float:
        if not self._counts[layout.NUM_QUEUED]:
            return self._beam
        return float(self._priorities[self._queue[0]] - self._limits[layout.BEST])

    def _make_room(self, status: int) -> None:
        """Give the loop the room that it needs to continue."""
        if status == layout.MORE_NODES:
            self._nodes = enlarged(self._nodes)
        elif status == layout.MORE_HEADS:
            self._heads = np.empty(4 * len(self._heads), dtype=np.int32)
            _rebuild_heads(self._nodes, self._heads, self._counts)
        elif status == layout.MORE_ELEMENTS:
            self._elements = enlarged(self._elements)
        elif status == layout.MORE_STATES:
            self._states, self._forward = enlarged(self._states), enlarged(self._forward)
            self._final_strings, self._final_costs = enlarged(self._final_strings), enlarged(self._final_costs)
            self._state_heads = np.empty(len(self._states), dtype=np.int32)
            _rebuild_table(self._states, self._counts[layout.NUM_STATES], self._elements, self._state_heads)
        elif status == layout.MORE_SUBSETS:
            self._subsets, self._subset_costs = enlarged(self._subsets), enlarged(self._subset_costs)
            self._subset_heads = np.empty(len(self._subsets), dtype=np.int32)
            _rebuild_table(self._subsets, self._counts[layout.NUM_SUBSETS], self._elements, self._subset_heads)
        elif status == layout.MORE_ARCS:
            self._arcs, self._arc_costs = enlarged(self._arcs), enlarged(self._arc_costs)
        else:
            self._tasks, self._priorities = enlarged(self._tasks), enlarged(self._priorities)
            self._queue = enlarged(self._queue)

    def _drop_strings(self) -> bool:
        """Drop strings that nothing needs; returns whether memory is small enough then. Kaldi: CheckMemoryUsage."""
        before = self._sizes()
        _log.info("Rebuilding repository.", extra=kaldi_place("RebuildRepository", _FILE, 283))
        _drop_strings(self._nodes, np.zeros(len(self._nodes), dtype=np.uint8), self._states, self._final_strings,
                      self._subsets, self._arcs, self._tasks, self._queue, self._elements, self._counts)
        _rebuild_heads(self._nodes, self._heads, self._counts)
        after = self._sizes()
        self._counts[layout.CHECKED] = 1
        if sum(after) <= int(self._options.max_mem * _ENOUGH):
            return True
        _log.warning("Did not reach requested beam in determinize-lattice: size exceeds maximum %d bytes; "
                     "(repo,arcs,elems) = (%d,%d,%d), after rebuilding, repo size was %d, effective beam was %g vs. "
                     "requested beam %g", self._options.max_mem, *before, after[0], self._effective_beam(), self._beam,
                     extra=kaldi_place("CheckMemoryUsage", _FILE, 316))
        return False

    def _sizes(self) -> tuple[int, int, int]:
        """Bytes of strings, arcs and elements, as Kaldi counts them."""
        counts = self._counts
        return (layout.NODE_BYTES * int(counts[layout.NUM_LIVE_NODES]),
                layout.ARC_BYTES * int(counts[layout.NUM_ARCS] + counts[layout.NUM_FINALS]),
                layout.ELEMENT_BYTES * int(counts[layout.NUM_STORED]))

    def _lattice(self) -> CompactLattice:
        """What has been made so far."""
        num_states, num_arcs = int(self._counts[layout.NUM_STATES]), int(self._counts[layout.NUM_ARCS])
        arcs = self._arcs[:num_arcs]
        order = np.argsort(arcs[:, layout.ARC_SOURCE], kind="stable")
        arcs, weights = arcs[order], self._arc_costs[:num_arcs][order]
        string_starts, ids = self._strings(arcs[:, layout.ARC_STRING])
        final_strings = np.maximum(self._final_strings[:num_states], 0)
        final_string_starts, final_ids = self._strings(final_strings)
        counts = np.bincount(arcs[:, layout.ARC_SOURCE], minlength=num_states)
        return CompactLattice(0, starts_of(counts), arcs[:, layout.ARC_LABEL].copy(),
                              arcs[:, layout.ARC_TARGET].copy(), weights, string_starts, ids,
                              self._final_costs[:num_states].copy(), final_string_starts, final_ids)

    def _strings(self, strings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        strings = np.ascontiguousarray(strings)
        starts = starts_of(self._nodes[strings, layout.LENGTH].astype(np.int64))
        ids = np.empty(int(starts[-1]), dtype=np.int32)
        _write_strings(self._nodes, strings, starts, ids)
        return starts, ids


def _prepared(lattice: Fst) -> tuple[np.ndarray, ...]:
    """The arrays of a lattice that the loop takes, its arcs sorted by word; NumericError for invalid costs.

    Arcs of infinite cost are left out: no useful path has them.
    """
    costs = lattice.weights
    if np.isnan(costs).any() or np.isneginf(costs).any() or np.isnan(lattice.final_weights).any():
        raise NumericError("expected the costs of a lattice, found NaN or minus infinity")
    sources, arcs = lattice.sources, np.flatnonzero(np.isfinite(costs).all(axis=1))
    arcs = arcs[np.lexsort((lattice.output_labels[arcs], sources[arcs]))]
    arc_starts = starts_of(np.bincount(sources[arcs], minlength=lattice.num_states))
    labels, next_states = lattice.output_labels[arcs], lattice.next_states[arcs]
    weights = np.ascontiguousarray(costs[arcs], dtype=np.float32)
    finals = np.require(lattice.final_weights, np.float32, ["C", "W"])
    epsilon_ends, kept = np.empty(lattice.num_states, dtype=np.int64), np.empty(lattice.num_states, dtype=np.uint8)
    backward = np.empty(lattice.num_states)
    _prepare(arc_starts, labels, weights, next_states, finals, epsilon_ends, kept, backward)
    return (arc_starts, epsilon_ends, labels, lattice.input_labels[arcs], weights, next_states, finals, kept,
            backward)
