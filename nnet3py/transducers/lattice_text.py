"""Lattices in text: a newline, a line per arc and per final state, an empty line.

An arc is ``source next ilabel olabel graph,acoustic`` or, in a compact lattice, ``source next word
graph,acoustic,id_id_…``. The arcs of the start state come first; a weight of 0 without transition-ids is left out.
"""
from __future__ import annotations

import re

import numpy as np

from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.compact_lattice import CompactLattice, checked
from nnet3py.transducers.fst import NO_WEIGHT, Fst, finished_fst
from nnet3py.transducers.fst_text import Lines, cost_text
from nnet3py.transducers.lattice_conversion import LATTICE

DIGITS = 6               # digits that Kaldi writes for each cost in tables of lattices
_BLANKS = re.compile(rb"[ \t\r]*")
_COMPACT_WEIGHT = re.compile(rb"([^,]+,[^,]+),((?:[0-9]{1,10}(?:_[0-9]{1,10})*)?)")
_LARGEST_ID = np.iinfo(np.int32).max


def read_text_lattice(reader: TokenReader) -> Fst | CompactLattice:
    """Read a lattice of either kind, including the newline before it and the empty line after it.

    The number of fields, and whether weights have transition-ids, show the kind; a lattice that could be either is
    compact. FormatError for anything else.
    """
    reader.take_while(_BLANKS)
    if reader.peek(1) != b"\n":
        raise reader.error(f"expected a newline before a lattice in text, found {reader.peek(1)!r}")
    reader.raw(1)
    lines = _LatticeLines(reader)
    while fields := reader.read_line().split():
        lines.read(fields)
    return lines.lattice()


class _LatticeLines:
    """The contents of a lattice's lines, and which kind of lattice it may still be."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader, self.lines = reader, Lines(reader, 2)
        self.may_be = {"compact": True, "plain": True}
        self.strings: list[list[int]] = []                    # of arcs
        self.final_strings: dict[int, list[int]] = {}

    def read(self, fields: list[bytes]) -> None:
        """Take the fields of a line."""
        match = _COMPACT_WEIGHT.fullmatch(fields[-1])
        if match or len(fields) == 3:
            self._rule_out("plain", fields)
        elif len(fields) > 3 or b"," in fields[-1]:
            self._rule_out("compact", fields)
        ids = [int(word) for word in match[2].split(b"_") if word] if match else []
        if ids and max(ids) > _LARGEST_ID:
            raise self.reader.error(f"expected transition-ids in a lattice, found {max(ids)}")
        body = [*fields[:-1], match[1]] if match else fields
        if len(fields) - bool(match) == 3:                  # an arc of a compact lattice: its label is both labels
            body = [*body[:3], body[2], *body[3:]]
        elif match and len(fields) != 2:
            raise self.reader.error(f"expected a line of 2 or 4 fields in a compact lattice, found {len(fields)}")
        is_final = len(body) <= 2
        self.lines.add(body)
        if is_final:
            self.final_strings[int(fields[0])] = ids
        else:
            self.strings.append(ids)

    def _rule_out(self, kind: str, fields: list[bytes]) -> None:
        self.may_be[kind] = False
        if not any(self.may_be.values()):
            raise self.reader.error("expected a lattice all of whose lines are those of a compact one, or all of one "
                                    f"that is not, found {b' '.join(fields)[:60]!r}")

    def lattice(self) -> Fst | CompactLattice:
        """The lattice."""
        lines = self.lines
        arcs = np.array(lines.arcs, dtype=np.int32).reshape(-1, 4)
        states = 1 + max(int(arcs[:, :2].max(initial=-1)), max(lines.finals, default=-1))
        if states > 2 * lines.count:
            raise self.reader.error(f"a lattice of {lines.count} lines cannot have {states} states")
        final = np.full((states, 2), NO_WEIGHT, dtype=np.float32)
        for state, weight in lines.finals.items():
            final[state] = weight
        weights = np.array(lines.weights, dtype=np.float32).reshape(-1, 2)
        if self.may_be["plain"] and not (self.may_be["compact"] and not len(arcs)):
            return finished_fst(self.reader, Fst.from_arcs(lines.start, final, arcs[:, 0], arcs[:, 2], arcs[:, 3],
                                                           weights, arcs[:, 1], LATTICE))
        final_lengths = np.zeros(states, dtype=np.int64)
        for state, ids in self.final_strings.items():
            final_lengths[state] = len(ids)
        return checked(self.reader, CompactLattice.from_arcs(
            lines.start, final, arcs[:, 0], arcs[:, 2], weights, [len(ids) for ids in self.strings],
            [id_ for ids in self.strings for id_ in ids], arcs[:, 1], final_lengths,
            [id_ for state in sorted(self.final_strings) for id_ in self.final_strings[state]]))


def write_text_compact(writer: TokenWriter, lattice: CompactLattice) -> None:
    """Write a compact lattice in text."""
    weights = _weight_texts(lattice.weights, lattice.string_starts, lattice.ids)
    finals = _weight_texts(lattice.final_weights, lattice.final_string_starts, lattice.final_ids)
    is_final, starts = lattice.is_final.tolist(), lattice.arc_starts.tolist()
    targets, labels = lattice.next_states.tolist(), lattice.labels.tolist()
    parts = [b"\n"]
    first = [lattice.start] if lattice.start >= 0 else []
    for state in first + [state for state in range(lattice.num_states) if state not in first]:
        parts += [b"%d\t%d\t%d%b\n" % (state, targets[arc], labels[arc], weights[arc])
                  for arc in range(starts[state], starts[state + 1])]
        if is_final[state] or starts[state] == starts[state + 1]:
            parts.append(b"%d%b\n" % (state, finals[state]))
    writer.raw(b"".join(parts) + b"\n")


def _weight_texts(weights: np.ndarray, starts: np.ndarray, ids: np.ndarray) -> list[bytes]:
    """Each weight with its transition-ids, after a tab; nothing for a weight of 0 without any."""
    numbers, bounds = ids.tolist(), starts.tolist()
    texts = []
    for (graph, acoustic), first, end in zip(weights.tolist(), bounds, bounds[1:], strict=False):
        string = "_".join(map(str, numbers[first:end])).encode()
        is_one = not (graph or acoustic or string)
        texts.append(b"" if is_one else b"\t%b,%b,%b" % (cost_text(graph, DIGITS), cost_text(acoustic, DIGITS), string))
    return texts
