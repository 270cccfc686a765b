"""Compact lattices: acceptors of words or phones whose arcs carry the transition-ids of all their frames.

Kaldi: ``CompactLattice``. Files are read and written in ``lattice.py``.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import Fst, Header, binary_header, stored_facts
from nnet3py.transducers.fst_operations import ACCEPTOR, CYCLIC, EXPANDED, INITIAL_CYCLIC, MUTABLE, TOP_SORTED
from nnet3py.transducers.state_graphs import LightLoop, Selection, StateGraph, ranges, starts_by, starts_of

_MORE, _DONE = 0, 1                # return values of _walk; 2: damaged
_LEAST_ASKED = 1 << 14             # bytes; how much of a lattice is looked at first
_WORD = 4                          # bytes; everything in binary FSTs is one or two words long
_ARC_TYPE = re.compile(r"compactlattice([48])4")
ARC_TYPE = "compactlattice44"


class ReadingLoop(LightLoop):
    """A loop over bytes of files, which it takes as 4-byte words."""

    def plain(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(memoryview(args[0])[:len(args[0]) // _WORD * _WORD].cast("i"), *args[1:])


_walk = ReadingLoop("nnet3py.transducers.lattice_loops", "walk", "i4* i8 i8 i8 i8 i8[]")
_fill = ReadingLoop("nnet3py.transducers.lattice_loops", "fill",
                    "i4* i8 i8 i4[,] i8[] i4[] i8[] i4[] i4[,] i8[] i4[] i4[]")
_fill_plain = ReadingLoop("nnet3py.transducers.lattice_loops", "fill_plain", "i4* i8 i8 i4[,] i8[] i4[,]")


@dataclass(frozen=True, eq=False)
class CompactLattice(StateGraph):
    """A compact lattice.

    Attributes
    ----------
    start : int, the start state; -1 if there are no states
    arc_starts : int64 (states + 1,), where the arcs of each state begin, and the end
    labels, next_states : int32 (arcs,); labels are words or phones, 0 for none
    weights : float32 (arcs, 2), graph and acoustic costs
    string_starts : int64 (arcs + 1,), where the transition-ids of each arc begin
    ids : int32 (transition-ids,), transition-ids of all arcs, arc by arc
    final_weights : float32 (states, 2); infinity: not final
    final_string_starts : int64 (states + 1,), where the transition-ids of each final weight begin
    final_ids : int32 (transition-ids,), transition-ids of all final weights, state by state
    """

    start: int
    arc_starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    next_states: NDArray[np.int32]
    weights: NDArray[np.float32]
    string_starts: NDArray[np.int64]
    ids: NDArray[np.int32]
    final_weights: NDArray[np.float32]
    final_string_starts: NDArray[np.int64]
    final_ids: NDArray[np.int32]

    @classmethod
    def from_arcs(cls, start: int, final_weights: ArrayLike, sources: ArrayLike, labels: ArrayLike,
                  weights: ArrayLike, lengths: ArrayLike, ids: ArrayLike, next_states: ArrayLike,
                  final_lengths: ArrayLike | None = None, final_ids: ArrayLike = ()) -> CompactLattice:
        """Make a compact lattice from arcs in any order; the arcs of a state keep their order.

        Parameters
        ----------
        start : int, the start state; -1 if there are no states
        final_weights : float (states, 2), graph and acoustic costs; infinity: not final
        sources, labels, next_states : int (arcs,)
        weights : float (arcs, 2)
        lengths : int (arcs,), number of transition-ids of each arc
        ids : int (transition-ids,), transition-ids of all arcs, arc by arc
        final_lengths : int (states,), number of transition-ids of each final weight; None for none
        final_ids : int (transition-ids,), transition-ids of all final weights, state by state
        """
        finals = np.asarray(final_weights, dtype=np.float32).reshape(-1, 2)
        leaving = np.asarray(sources, dtype=np.int64)
        order = np.argsort(leaving, kind="stable")
        string_starts, string_ids = taken(starts_of(np.asarray(lengths, dtype=np.int64)),
                                          np.asarray(ids, dtype=np.int32), order)
        ends = np.zeros(len(finals), dtype=np.int64) if final_lengths is None else np.asarray(final_lengths)
        return cls(start, starts_by(leaving, len(finals)),
                   np.asarray(labels, dtype=np.int32)[order], np.asarray(next_states, dtype=np.int32)[order],
                   np.asarray(weights, dtype=np.float32).reshape(-1, 2)[order], string_starts, string_ids, finals,
                   starts_of(ends), np.asarray(final_ids, dtype=np.int32))

    @classmethod
    def empty(cls) -> CompactLattice:
        """Make a lattice without states."""
        return cls.from_arcs(-1, [], [], [], [], [], [], [])

    def __repr__(self) -> str:
        return f"<CompactLattice: {self.num_states} states, {self.num_arcs} arcs>"

    @property
    def lengths(self) -> np.ndarray:
        """The number of transition-ids of each arc, int64 (arcs,)."""
        return np.diff(self.string_starts)

    @property
    def final_lengths(self) -> np.ndarray:
        """The number of transition-ids of each final weight, int64 (states,)."""
        return np.diff(self.final_string_starts)

    def string(self, arc: int) -> np.ndarray:
        """Return the transition-ids of an arc, int32 (frames,)."""
        return self.ids[self.string_starts[arc]:self.string_starts[arc + 1]]

    def final_string(self, state: int) -> np.ndarray:
        """Return the transition-ids of the final weight of a state, int32 (frames,)."""
        return self.final_ids[self.final_string_starts[state]:self.final_string_starts[state + 1]]

    def selected(self, states: np.ndarray, keep: np.ndarray | None = None) -> CompactLattice:
        """Return the lattice of some states, renumbered in the given order, with the arcs between them.

        Parameters
        ----------
        states : int (chosen,), numbers of the states
        keep : bool (arcs,), False for arcs to remove; None keeps all
        """
        chosen = Selection.of(self.arc_starts, self.next_states, states, keep)
        arcs = chosen.arcs
        string_starts, ids = taken(self.string_starts, self.ids, arcs)
        final_string_starts, final_ids = taken(self.final_string_starts, self.final_ids, chosen.states)
        return CompactLattice(chosen.start(self.start), chosen.arc_starts, self.labels[arcs],
                              chosen.numbers[self.next_states[arcs]], self.weights[arcs], string_starts, ids,
                              self.final_weights[chosen.states], final_string_starts, final_ids)


def taken(starts: np.ndarray, ids: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the strings with the numbers ``order``: where each begins, int64 (chosen + 1,), and their transition-ids.

    String i of the input is ``ids[starts[i]:starts[i + 1]]``.
    """
    counts = np.diff(starts)[order]
    return starts_of(counts), ids[ranges(starts[:-1][order], counts)]


def checked(reader: TokenReader, lattice: CompactLattice) -> CompactLattice:
    """Return ``lattice``; FormatError if its start or the target of an arc is no state."""
    if not -1 <= lattice.start < lattice.num_states:
        raise reader.error(f"expected a lattice: the start state is {lattice.start}, but there are "
                           f"{lattice.num_states} states")
    if lattice.num_arcs and not 0 <= lattice.next_states.min() <= lattice.next_states.max() < lattice.num_states:
        raise reader.error("expected a lattice: an arc leads to a state that does not exist; there are "
                           f"{lattice.num_states}")
    return lattice


def read_state_words(reader: TokenReader, num_states: int, weight_words: int, has_strings: bool) -> tuple[
        bytes, list[int]]:
    """Read the bytes of all states of a binary FST; FormatError for damaged counts, or the end of the file.

    A weight has ``weight_words`` 4-byte words; transition-ids follow it if ``has_strings``. Return the bytes; and a
    list of the numbers of arcs, of transition-ids of arcs, and of transition-ids of final weights.
    """
    reader.check_count(num_states, _WORD * (weight_words + 2 + has_strings), "states of an FST")
    place = np.zeros(6, dtype=np.int64)
    asked = 1 if num_states else 0
    status = _MORE if num_states else _DONE
    while status == _MORE:
        data = bytes(reader.peek(asked))
        status = _walk(data, len(data) // _WORD, weight_words, int(has_strings), num_states, place)
        if status == _MORE and len(data) < asked:
            raise reader.error(f"expected the {num_states} states of an FST, found the end of the file",
                               hint="the file is truncated or damaged")
        asked = max(2 * len(data), _LEAST_ASKED)
    if status != _DONE:
        raise reader.error(f"expected how many arcs or transition-ids follow in an FST, found damage "
                           f"{_WORD * int(place[0])} bytes after its head", hint="the file is damaged")
    return bytes(reader.raw(_WORD * int(place[0]))), place[3:].tolist()


def read_vector(reader: TokenReader, header: Header, stored: str, width: int) -> Fst:
    """Read the states of a ``vector`` FST whose weights are ``width`` numbers of the dtype ``stored``, without checks.

    Weights of the result are (…, width).
    """
    dtype = np.dtype(stored)
    words = width * dtype.itemsize // _WORD
    data, (num_arcs, _, _) = read_state_words(reader, header.num_states, words, False)
    finals = np.empty((header.num_states, words), dtype=np.int32)
    arc_starts = np.zeros(header.num_states + 1, dtype=np.int64)
    arcs = np.empty((num_arcs, words + 3), dtype=np.int32)
    _fill_plain(data, words, header.num_states, finals, arc_starts, arcs)
    native = dtype.newbyteorder("=")
    return Fst(header.start, finals.view(dtype).astype(native), arc_starts, arcs[:, 0].copy(), arcs[:, 1].copy(),
               np.ascontiguousarray(arcs[:, 2:2 + words]).view(dtype).astype(native), arcs[:, -1].copy(),
               header.arc_type, stored_facts(header))


def is_compact(arc_type: str) -> bool:
    """Return whether arcs of this type are those of compact lattices."""
    return _ARC_TYPE.fullmatch(arc_type) is not None


def read_binary_compact(reader: TokenReader, header: Header) -> CompactLattice:
    """Read a binary compact lattice after its header; FormatError for anything else."""
    match = _ARC_TYPE.fullmatch(header.arc_type)
    if header.kind != "vector" or match is None:
        raise reader.error(f"expected a compact lattice, found '{header.arc_type}' in an FST of type '{header.kind}'")
    stored = np.dtype("<f" + match[1])
    weight_words = 2 * stored.itemsize // _WORD
    data, (num_arcs, num_ids, num_final_ids) = read_state_words(reader, header.num_states, weight_words, True)
    size = header.num_states
    finals, weights = np.empty((size, weight_words), dtype=np.int32), np.empty((num_arcs, weight_words), dtype=np.int32)
    final_starts, arc_starts = np.zeros(size + 1, dtype=np.int64), np.zeros(size + 1, dtype=np.int64)
    string_starts = np.zeros(num_arcs + 1, dtype=np.int64)
    labels, next_states = np.empty(num_arcs, dtype=np.int32), np.empty(num_arcs, dtype=np.int32)
    ids, final_ids = np.empty(num_ids, dtype=np.int32), np.empty(num_final_ids, dtype=np.int32)
    differ = _fill(data, weight_words, size, finals, final_starts, final_ids, arc_starts, labels, weights,
                   string_starts, ids, next_states)
    if differ:
        raise reader.error("expected a compact lattice, found an arc with different input and output labels")
    with np.errstate(over="ignore", invalid="ignore"):
        return checked(reader, CompactLattice(
            header.start, arc_starts, labels, next_states, weights.view(stored).astype(np.float32), string_starts,
            ids, finals.view(stored).astype(np.float32), final_starts, final_ids))


def write_binary_compact(writer: TokenWriter, lattice: CompactLattice) -> None:
    """Write a compact lattice in OpenFst's binary form."""
    lengths, final_lengths = lattice.lengths, lattice.final_lengths
    arc_ends, state_ends = np.cumsum(lengths + 6), np.cumsum(final_lengths + 5)      # in words of 4 bytes
    before = starts_of(lengths + 6)
    arc_at = before[:-1] + state_ends[lattice.sources]
    state_at = state_ends - (final_lengths + 5) + before[lattice.arc_starts[:-1]]
    total = (int(arc_ends[-1]) if len(arc_ends) else 0) + (int(state_ends[-1]) if len(state_ends) else 0)
    words = np.zeros(total, dtype="<i4")
    for at, weights, counts, starts, ids in (
            (state_at, lattice.final_weights, final_lengths, lattice.final_string_starts, lattice.final_ids),
            (arc_at + 2, lattice.weights, lengths, lattice.string_starts, lattice.ids)):
        pairs = np.ascontiguousarray(weights, dtype="<f4").view("<i4")
        words[at], words[at + 1], words[at + 2] = pairs[:, 0], pairs[:, 1], counts
        words[ranges(at + 3, counts)] = ids[starts[0]:starts[-1]]
    words[state_at + 3 + final_lengths] = np.diff(lattice.arc_starts)
    words[arc_at], words[arc_at + 1] = lattice.labels, lattice.labels
    words[arc_at + 5 + lengths] = lattice.next_states
    writer.raw(binary_header("vector", ARC_TYPE, lattice_properties(lattice) | 1 << ACCEPTOR, lattice.start,
                             lattice.num_states))
    writer.raw(words.tobytes())


def lattice_properties(lattice: CompactLattice | Fst) -> int:
    """Return those of OpenFst's property bits that are quickly found: acyclic, for a lattice in topological order."""
    bits = EXPANDED | MUTABLE
    if lattice.is_top_sorted:
        bits |= 1 << TOP_SORTED | 1 << CYCLIC + 1 | 1 << INITIAL_CYCLIC + 1
    return bits
