"""Lattices: FSTs whose weights are pairs, a graph cost and an acoustic cost. Kaldi: ``ReadLattice``, ``WriteLattice``.

Input labels are transition-ids, output labels words. Compact lattices, whose arcs bear a word and the transition-ids of
all its frames, are read too and become such lattices.
"""
from __future__ import annotations

import dataclasses
import re
from array import array
from typing import Protocol

import numpy as np

from nnet3py.io.fst import NO_WEIGHT, Fst, Header, finished_fst, read_binary_fst, read_header
from nnet3py.io.fst_text import read_text_fst, write_fst
from nnet3py.io.tokens import TokenReader, TokenWriter

LATTICE = "lattice4"
_COMPACT = re.compile(r"compactlattice([48])4")


def read_lattice(reader: TokenReader) -> Fst:
    """Read a lattice, from text or any of Kaldi's four binary forms: an Fst of arc type ``lattice4``, float32.

    FormatError for anything else.
    """
    if not reader.binary:
        return read_text_fst(reader, LATTICE)
    if is_compact(reader):
        return _read_compact_lattice(reader, read_header(reader))
    fst = read_binary_fst(reader)
    if not fst.arc_type.startswith("lattice"):
        raise reader.error(f"expected a lattice, found an FST of arcs of type '{fst.arc_type}'")
    if fst.arc_type == LATTICE:
        return fst
    with np.errstate(over="ignore"):
        return dataclasses.replace(fst, weights=fst.weights.astype(np.float32), arc_type=LATTICE, stored=None,
                                   final_weights=fst.final_weights.astype(np.float32))


def write_lattice(writer: TokenWriter, lattice: Fst) -> None:
    """Write a lattice that :func:`read_lattice` reads."""
    write_fst(writer, lattice)


class _Expanded:
    """The arcs of a compact lattice, made into chains of arcs with a transition-id each; new states come last."""

    def __init__(self, num_states: int) -> None:
        self.num_states = num_states
        self.numbers = array("i")         # of each arc: source, input label, output label, next state
        self.weights = array("d")         # of each arc: graph cost, acoustic cost
        self.finals: dict[int, tuple[float, float]] = {}

    def add(self, source: int, word: int, weight: tuple[float, float], ids: list[int], target: int | None) -> int:
        """A chain with ``word`` and ``weight`` on its first arc; where it ends (``target``, or a new state)."""
        for place, transition_id in enumerate(ids):
            last = place + 1 == len(ids)
            following = target if last and target is not None else self._new_state()
            self._add_arc(source, transition_id, word, weight, following)
            source, word, weight = following, 0, (0.0, 0.0)
        if not ids and target is not None:
            self._add_arc(source, 0, word, weight, target)
        return source

    def _add_arc(self, source: int, transition_id: int, word: int, weight: tuple[float, float], target: int) -> None:
        self.numbers.extend((source, transition_id, word, target))
        self.weights.extend(weight)

    def add_final(self, state: int, weight: tuple[float, float], ids: list[int]) -> None:
        """The final weight of a state, with transition-ids of its own."""
        if weight != (float(NO_WEIGHT), float(NO_WEIGHT)):
            end = self.add(state, 0, weight, ids, None)
            self.finals[end] = (0.0, 0.0) if ids else weight

    def _new_state(self) -> int:
        self.num_states += 1
        return self.num_states - 1

    def fst(self, start: int) -> Fst:
        """The lattice."""
        numbers = np.array(self.numbers, dtype=np.int32).reshape(-1, 4)
        order = np.argsort(numbers[:, 0], kind="stable")
        numbers = numbers[order]
        with np.errstate(over="ignore"):
            weights = np.array(self.weights).astype(np.float32).reshape(-1, 2)[order]
            final = np.full((self.num_states, 2), NO_WEIGHT, dtype=np.float32)
            for state, weight in self.finals.items():
                final[state] = weight
        starts = np.concatenate(([0], np.cumsum(np.bincount(numbers[:, 0], minlength=self.num_states))))
        return Fst(start, final, starts, numbers[:, 1].copy(), numbers[:, 2].copy(), weights, numbers[:, 3].copy(),
                   LATTICE)


def _read_compact_lattice(reader: TokenReader, header: Header) -> Fst:
    expanded = _Expanded(header.num_states)
    read_compact_arcs(reader, header, expanded)
    return finished_fst(reader, expanded.fst(header.start))


class CompactArcs(Protocol):
    """What the arcs and final weights of a compact lattice are handed to, in the file's order."""

    def add_final(self, state: int, weight: tuple[float, float], ids: list[int]) -> None:
        """The final weight of a state (two infinities: it is not final), and its transition-ids."""

    def add(self, source: int, word: int, weight: tuple[float, float], ids: list[int], target: int) -> object:
        """An arc, with its word, weight and transition-ids."""


def is_compact(reader: TokenReader) -> bool:
    """Whether a binary compact lattice comes next."""
    return _COMPACT.search(reader.peek(50).decode("latin-1")) is not None


def read_compact_arcs(reader: TokenReader, header: Header, into: CompactArcs) -> None:
    """Read the states of a binary compact lattice; FormatError for what is none."""
    match = _COMPACT.fullmatch(header.arc_type)
    if header.kind != "vector" or match is None:
        raise reader.error(f"expected a compact lattice, found '{header.arc_type}' in an FST of type '{header.kind}'")
    stored = np.dtype("<f" + match[1])
    reader.check_count(header.num_states, 2 * stored.itemsize + 12, "states of a lattice")
    for state in range(header.num_states):
        into.add_final(state, *_compact_weight(reader, stored))
        count = int(reader.array("<i8", 1)[0])
        reader.check_count(count, 2 * stored.itemsize + 16, "arcs of a lattice")
        for _ in range(count):
            word, _ = reader.array("<i4", 2).tolist()
            weight, ids = _compact_weight(reader, stored)
            target = int(reader.array("<i4", 1)[0])
            if not 0 <= target < header.num_states:
                raise reader.error(f"an arc leads to state {target}; there are {header.num_states}")
            into.add(state, word, weight, ids, target)


def _compact_weight(reader: TokenReader, stored: np.dtype) -> tuple[tuple[float, float], list[int]]:
    """Two costs and transition-ids."""
    graph, acoustic = reader.array(stored, 2).tolist()
    count = int(reader.array("<i4", 1)[0])
    return (graph, acoustic), reader.array("<i4", count, "transition-ids").tolist()
