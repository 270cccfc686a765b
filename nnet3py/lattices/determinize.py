"""Determinization of lattices: only the best path of each word sequence is kept, within a beam of the best path.

Determinization is on words; the transition-ids of a path become strings on its arcs. Decoders determinize on phones
and words first, which is faster. Kaldi: ``DeterminizeLatticePruned``, ``DeterminizeLatticePhonePruned``.
"""
from __future__ import annotations

import dataclasses
import logging
import math
from typing import NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import NumericError
from nnet3py.hmm.alignment import check_transition_ids
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices import determinize_layout as layout
from nnet3py.lattices.determinize_layout import Input, Output, Scratch, Tree
from nnet3py.lattices.determinize_options import DeterminizeOptions, PhoneDeterminizeOptions
from nnet3py.lattices.pruning import minimized, pruned, with_strings_pushed, with_weights_pushed
from nnet3py.lattices.states import LatticeError, top_sorted, trimmed
from nnet3py.lattices.structures import types_of
from nnet3py.log import kaldi_place
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.lattice import expanded, factored
from nnet3py.transducers.state_graphs import enlarged, starts_of

_log = logging.getLogger(__name__)
_LOOPS, _SUBSETS = "nnet3py.lattices.determinize_loops", "nnet3py.lattices.subset_loops"
_USES = [_SUBSETS, "nnet3py.lattices.determinize_layout", "nnet3py.lattices.structures"]
_prepare = Loop(_LOOPS, "prepare", types_of(Input), _USES)
_determinize = Loop(_LOOPS, "determinize", types_of(Input, Tree, Output, Scratch) + " i8", _USES)
_rebuild_table = Loop(_LOOPS, "rebuild_table", "i8[,] i8 i4[,] i4[]", _USES)
_drop_strings = Loop(_LOOPS, "drop_strings", types_of(Tree, Output) + " u1[]", _USES)
_rebuild_heads = Loop(_SUBSETS, "rebuild_heads", types_of(Tree), _USES[1:])
_write_strings = Loop(_SUBSETS, "write_strings", "i4[,] i4[] i8[] i4[]", _USES[1:])

_ENOUGH = 0.8                      # share of max-mem that may be in use after dropping strings
_MOST_TRIES = 10
_FIRST_ROOM = 1 << 10
_FILE = "determinize-lattice-pruned.cc"


class Determinized(NamedTuple):
    """A determinized lattice, and whether all paths within the beam are in it.

    Attributes
    ----------
    lattice : CompactLattice, with one path for each word sequence
    complete : bool, False if determinization stopped early because of a limit of size
    effective_beam : float, nats: all word sequences whose cost is within this of the best path's are in the lattice
    """

    lattice: CompactLattice
    complete: bool
    effective_beam: float


def determinize_pruned(lattice: Fst, beam: float, options: DeterminizeOptions | None = None) -> Determinized:
    """Determinize a lattice on its words (output labels), for paths within a beam of the best.

    Raises LatticeError for a lattice with a cycle; NumericError for NaN costs.

    Parameters
    ----------
    lattice : Fst with a transition-id on each arc, costs scaled already; states in any order
    beam : float, nats; infinity for all paths
    options : DeterminizeOptions, limits of size; None for no limits

    Returns
    -------
    Determinized. Its states are numbered in the order in which they were made; some near the beam may lead to no final
    state (:func:`~nnet3py.lattices.states.trimmed` removes them).

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
    """Determinize a whole lattice on its words (output labels). Kaldi: DeterminizeLattice.

    Raises LatticeError for a lattice with a cycle; NumericError for NaN costs.

    Parameters
    ----------
    lattice : Fst with a transition-id on each arc, costs scaled already
    options : DeterminizeOptions, limits of size; None for no limits

    Returns
    -------
    CompactLattice with one path for each word sequence.
    """
    return determinize_pruned(lattice, math.inf, options).lattice


class _Determinization:
    """The arrays that the loops of determinization fill, enlarged when one is full."""

    def __init__(self, lattice: Fst, beam: float, options: DeterminizeOptions) -> None:
        self._beam, self._options, self._start = beam, options, lattice.start
        self._input = _prepared(lattice)
        num_arcs, num_states = len(self._input.labels), lattice.num_states
        counts = np.zeros(layout.NUM_COUNTS, dtype=np.int64)
        counts[[layout.FREE_NODE, layout.FREE_TASK]] = -1
        counts[[layout.MAX_MEMORY, layout.MAX_STATES, layout.MAX_ARCS]] = (
            options.max_mem, options.max_states, options.max_arcs)
        counts[layout.NUM_NODES] = 1                             # the empty string
        limits = np.zeros(layout.NUM_LIMITS)
        best = float(self._input.backward[lattice.start]) if lattice.start >= 0 else math.inf
        limits[[layout.BEST, layout.CUTOFF, layout.DELTA]] = best, best + beam, options.delta
        most = num_arcs + num_states
        nodes = np.empty((max(_FIRST_ROOM, 4 * most), layout.NODE_WORDS), dtype=np.int32)
        nodes[0] = -1, 0, 0, -1
        self._counts, self._limits = counts, limits
        self._tree = Tree(nodes, np.full(_FIRST_ROOM, -1, dtype=np.int32), counts)
        num_tasks = max(_FIRST_ROOM, 2 * num_arcs)
        elements = np.empty((max(_FIRST_ROOM, 2 * most), layout.ELEMENT_WORDS), dtype=np.int32)
        self._output = Output(
            states=np.empty((_FIRST_ROOM, layout.ENTRY_WORDS), dtype=np.int64),
            state_heads=np.full(_FIRST_ROOM, -1, dtype=np.int32), forward=np.empty(_FIRST_ROOM),
            final_strings=np.empty(_FIRST_ROOM, dtype=np.int32),
            final_costs=np.empty((_FIRST_ROOM, 2), dtype=np.float32),
            subsets=np.empty((_FIRST_ROOM, layout.ENTRY_WORDS), dtype=np.int64),
            subset_costs=np.empty((_FIRST_ROOM, 2), dtype=np.float32),
            subset_heads=np.full(_FIRST_ROOM, -1, dtype=np.int32),
            arcs=np.empty((_FIRST_ROOM, layout.ARC_WORDS), dtype=np.int32),
            arc_costs=np.empty((_FIRST_ROOM, 2), dtype=np.float32),
            tasks=np.empty((num_tasks, layout.TASK_WORDS), dtype=np.int64), priorities=np.empty(num_tasks),
            queue=np.empty(num_tasks, dtype=np.int32), elements=elements, element_costs=elements.view(np.float32),
            counts=counts, limits=limits)
        closure = np.empty((num_states + 1, layout.ELEMENT_WORDS), dtype=np.int32)
        moves = np.empty((2 * most + 2, layout.ELEMENT_WORDS), dtype=np.int32)
        self._scratch = Scratch(
            closure, closure.view(np.float32), moves, moves.view(np.float32),
            slots=np.full(num_states, -1, dtype=np.int32), heap=np.empty(num_states + 1, dtype=np.int32),
            keys=np.empty(most + 1, dtype=np.int64), order=np.empty(most + 1, dtype=np.int64),
            symbols=np.empty(num_states + 1, dtype=np.int32))

    def run(self) -> Determinized:
        """Call the loop until it is done or a limit of size is reached; return the result."""
        if not self._limits[layout.BEST] < math.inf:             # no path, or no states
            return Determinized(CompactLattice.empty(), True, self._beam)
        while True:
            status = _determinize(*self._input, *self._tree, *self._output, *self._scratch, self._start)
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
        return float(self._output.priorities[self._output.queue[0]] - self._limits[layout.BEST])

    def _make_room(self, status: int) -> None:
        """Enlarge the array that the loop's return value ``status`` names."""
        old, counts = self._output, self._counts
        if status == layout.MORE_NODES:
            self._tree = self._tree._replace(nodes=enlarged(self._tree.nodes))
        elif status == layout.MORE_HEADS:
            self._tree = self._tree._replace(heads=np.empty(4 * len(self._tree.heads), dtype=np.int32))
            _rebuild_heads(*self._tree)
        elif status == layout.MORE_ELEMENTS:
            elements = enlarged(old.elements)
            self._output = old._replace(elements=elements, element_costs=elements.view(np.float32))
        elif status == layout.MORE_STATES:
            states = enlarged(old.states)
            self._output = old._replace(
                states=states, state_heads=np.empty(len(states), dtype=np.int32), forward=enlarged(old.forward),
                final_strings=enlarged(old.final_strings), final_costs=enlarged(old.final_costs))
            _rebuild_table(states, counts[layout.NUM_STATES], old.elements, self._output.state_heads)
        elif status == layout.MORE_SUBSETS:
            subsets = enlarged(old.subsets)
            self._output = old._replace(subsets=subsets, subset_costs=enlarged(old.subset_costs),
                                        subset_heads=np.empty(len(subsets), dtype=np.int32))
            _rebuild_table(subsets, counts[layout.NUM_SUBSETS], old.elements, self._output.subset_heads)
        elif status == layout.MORE_ARCS:
            self._output = old._replace(arcs=enlarged(old.arcs), arc_costs=enlarged(old.arc_costs))
        else:
            self._output = old._replace(tasks=enlarged(old.tasks), priorities=enlarged(old.priorities),
                                        queue=enlarged(old.queue))

    def _drop_strings(self) -> bool:
        """Drop unused strings; return whether memory is now below the limit. Kaldi: CheckMemoryUsage."""
        before = self._sizes()
        _log.info("Rebuilding repository.", extra=kaldi_place("RebuildRepository", _FILE, 283))
        _drop_strings(*self._tree, *self._output, np.zeros(len(self._tree.nodes), dtype=np.uint8))
        _rebuild_heads(*self._tree)
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
        """Return the sizes of strings, arcs and elements of subsets, in bytes as Kaldi counts them."""
        counts = self._counts
        return (layout.NODE_BYTES * int(counts[layout.NUM_LIVE_NODES]),
                layout.ARC_BYTES * int(counts[layout.NUM_ARCS] + counts[layout.NUM_FINALS]),
                layout.ELEMENT_BYTES * int(counts[layout.NUM_STORED]))

    def _lattice(self) -> CompactLattice:
        """Return the lattice made so far."""
        output = self._output
        num_states, num_arcs = int(self._counts[layout.NUM_STATES]), int(self._counts[layout.NUM_ARCS])
        arcs = output.arcs[:num_arcs]
        order = np.argsort(arcs[:, layout.ARC_SOURCE], kind="stable")
        arcs, weights = arcs[order], output.arc_costs[:num_arcs][order]
        string_starts, ids = self._strings(arcs[:, layout.ARC_STRING])
        final_strings = np.maximum(output.final_strings[:num_states], 0)
        final_string_starts, final_ids = self._strings(final_strings)
        counts = np.bincount(arcs[:, layout.ARC_SOURCE], minlength=num_states)
        return CompactLattice(0, starts_of(counts), arcs[:, layout.ARC_LABEL].copy(),
                              arcs[:, layout.ARC_TARGET].copy(), weights, string_starts, ids,
                              output.final_costs[:num_states].copy(), final_string_starts, final_ids)

    def _strings(self, strings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where the transition-ids of each string begin, int64 (strings + 1,), and those of all strings, int32.
        """
        strings = np.ascontiguousarray(strings)
        starts = starts_of(self._tree.nodes[strings, layout.LENGTH].astype(np.int64))
        ids = np.empty(int(starts[-1]), dtype=np.int32)
        _write_strings(self._tree.nodes, strings, starts, ids)
        return starts, ids


def _prepared(lattice: Fst) -> Input:
    """Return the lattice as the input of the loops, its arcs sorted by word; NumericError for NaN or minus infinity.

    Arcs of infinite cost are left out.
    """
    costs = lattice.weights
    if np.isnan(costs).any() or np.isneginf(costs).any() or np.isnan(lattice.final_weights).any():
        raise NumericError("expected the costs of a lattice, found NaN or minus infinity")
    sources, arcs = lattice.sources, np.flatnonzero(np.isfinite(costs).all(axis=1))
    arcs = arcs[np.lexsort((lattice.output_labels[arcs], sources[arcs]))]
    prepared = Input(
        arc_starts=starts_of(np.bincount(sources[arcs], minlength=lattice.num_states)),
        epsilon_ends=np.empty(lattice.num_states, dtype=np.int64), labels=lattice.output_labels[arcs],
        symbols=lattice.input_labels[arcs], costs=np.ascontiguousarray(costs[arcs], dtype=np.float32),
        next_states=lattice.next_states[arcs],
        final_costs=np.require(lattice.final_weights, np.float32, ["C", "W"]),
        kept=np.empty(lattice.num_states, dtype=np.uint8), backward=np.empty(lattice.num_states))
    _prepare(*prepared)
    return prepared


def determinize_phone_pruned(model: TransitionModel, lattice: Fst, beam: float,
                             options: PhoneDeterminizeOptions | None = None) -> Determinized:
    """Determinize a lattice as decoders do: first on phones and words, then on words.

    Raises LatticeError for a lattice with a cycle; ShapeError for a transition-id that the model does not have.

    Parameters
    ----------
    model : TransitionModel, which maps transition-ids to phones
    lattice : Fst with a transition-id on each arc, costs scaled already
    beam : float, nats by which a path may be worse than the best one
    options : PhoneDeterminizeOptions, limits and steps to do; None for Kaldi's defaults

    Returns
    -------
    Determinized, its lattice trimmed.

    Kaldi: DeterminizeLatticePhonePrunedWrapper.
    """
    options = options or PhoneDeterminizeOptions()
    limits = DeterminizeOptions(options.delta, options.max_mem)
    lattice = top_sorted(lattice)
    complete, effective_beam = True, beam
    if options.phone_determinize:
        phones = determinize_pruned(with_phones(model, lattice), beam, limits)
        first_phone = _first_phone(lattice)
        lattice = expanded(phones.lattice)
        words = np.where(lattice.output_labels >= first_phone, 0, lattice.output_labels)
        lattice = dataclasses.replace(lattice, output_labels=words.astype(np.int32))
        complete, effective_beam = phones.complete, phones.effective_beam
    if options.word_determinize:
        determinized = determinize_pruned(lattice, beam, limits)
        compact = determinized.lattice
        complete, effective_beam = complete and determinized.complete, min(effective_beam, determinized.effective_beam)
    else:
        if not options.phone_determinize:
            _log.warning("Both --phone-determinize and --word-determinize are set to false, copying lattice without "
                         "determinization.")
        compact = factored(lattice)
    if options.minimize:
        compact = minimized(with_weights_pushed(with_strings_pushed(compact)))
    return Determinized(trimmed(compact), complete, effective_beam)


def _first_phone(lattice: Fst) -> int:
    """Return the offset of phone labels, which follow those of words: phone p has the label offset + p."""
    return int(lattice.output_labels.max(initial=0)) + 1


def with_phones(model: TransitionModel, lattice: Fst) -> Fst:
    """Return the lattice with labels where phones begin, topologically sorted. These labels follow those of words.

    The label is on the arc with the phone's first transition-id or, if that arc has a word, on an arc of its own after
    it. Arcs that leave the start state get no phone label. ShapeError for transition-ids that the model does not have.
    Kaldi: DeterminizeLatticeInsertPhones.
    """
    ids = lattice.input_labels
    check_transition_ids(model, ids[ids != 0])
    begins = (ids != 0) & (model.transition_id_to_hmm_state[ids] == 0) & ~model.is_self_loop[ids]
    begins &= lattice.sources != lattice.start
    phones = model.transition_id_to_phone[ids]
    if _first_phone(lattice) + int(phones.max(initial=0)) > np.iinfo(np.int32).max:
        raise LatticeError(f"the lattice has word {_first_phone(lattice) - 1}, too large for adding labels of phones")
    labels = _first_phone(lattice) + phones
    has_word = lattice.output_labels != 0
    words = np.where(begins & ~has_word, labels, lattice.output_labels)
    split = np.flatnonzero(begins & has_word)
    new_states = lattice.num_states + np.arange(len(split))
    targets = lattice.next_states.astype(np.int64)
    targets[split] = new_states
    none = np.full((len(split), 2), NO_WEIGHT, dtype=np.float32)
    return top_sorted(Fst.from_arcs(
        lattice.start, np.concatenate((lattice.final_weights, none)), np.concatenate((lattice.sources, new_states)),
        np.concatenate((ids, np.zeros(len(split)))), np.concatenate((words, labels[split])),
        np.concatenate((lattice.weights, np.zeros((len(split), 2)))),
        np.concatenate((targets, lattice.next_states[split])), lattice.arc_type))
