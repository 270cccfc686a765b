"""Lattices in files and tables: FSTs whose weights are pairs of a graph and an acoustic cost.

Input labels are transition-ids, output labels words. In compact lattices an arc has a word and the transition-ids of
all its frames. Each kind is converted where the other is wanted. In text a lattice is a newline, a line for each arc
and each final state, and an empty line: an arc is ``source next ilabel olabel graph,acoustic`` or, in a compact
lattice, ``source next word graph,acoustic,id_id_…``; the arcs of the start state come first; a weight of 0 without
transition-ids is left out. Kaldi: ``ReadLattice``, ``WriteLattice``, ``ReadCompactLattice``, ``WriteCompactLattice``,
``ConvertLattice``.
"""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.io.holder import Holder
from nnet3py.io.tables import Entries, write_table
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.compact_lattice import (
    CompactLattice,
    checked,
    is_compact,
    lattice_properties,
    read_binary_compact,
    read_vector,
    write_binary_compact,
)
from nnet3py.transducers.fst import NO_WEIGHT, Fst, Stored, finished_fst, read_header
from nnet3py.transducers.fst_binary import write_binary_fst
from nnet3py.transducers.fst_text import Lines, cost_text, lines_of_text, write_states, write_text_fst
from nnet3py.transducers.state_graphs import ranges, starts_by, starts_of, top_order

LATTICE = "lattice4"
_factor = Loop("nnet3py.transducers.lattice_loops", "factor",
               "i8[] i4[] i4[] i4[] f4[,] u1[] i8[] i4[] i4[] f4[,] i8[] i4[] i4[]")


def expanded(compact: CompactLattice) -> Fst:
    """Return a compact lattice with each arc as a chain of arcs, one for each transition-id. Kaldi: ConvertLattice.

    Word and costs are on the first arc. New states have the last numbers: state by state, first those of the final
    weight's transition-ids, then those of the arcs.
    """
    finals = np.flatnonzero(compact.is_final & (compact.final_lengths > 0))
    # Chains are made from final weights with transition-ids, and from arcs. They are sorted by state, finals first.
    sources = np.concatenate((finals, compact.sources))
    order = np.argsort(sources, kind="stable")
    is_arc = np.arange(len(order)) >= len(finals)
    lengths = np.concatenate((compact.final_lengths[finals], compact.lengths))[order]
    is_arc, sources = is_arc[order], sources[order]
    num_arcs = np.maximum(lengths, 1)
    new_states = np.where(is_arc, num_arcs - 1, num_arcs)
    first_new = compact.num_states + starts_of(new_states)[:-1]
    targets = np.concatenate((np.zeros(len(finals), dtype=np.int64), compact.next_states))[order]
    words = np.concatenate((np.zeros(len(finals), dtype=np.int32), compact.labels))[order]
    weights = np.concatenate((compact.final_weights[finals], compact.weights))[order]

    heads = starts_of(num_arcs)[:-1]
    total = int(num_arcs.sum())
    place = ranges(np.zeros_like(num_arcs), num_arcs)             # of each arc in its chain
    chain = np.repeat(np.arange(len(order)), num_arcs)
    following = first_new[chain] + place
    ends = is_arc[chain] & (place == num_arcs[chain] - 1)
    arc_targets = np.where(ends, targets[chain], following)
    arc_sources = np.where(place == 0, sources[chain], following - 1)
    input_labels, output_labels = np.zeros(total, dtype=np.int32), np.zeros(total, dtype=np.int32)
    all_ids, id_starts, id_counts = _in_order(compact, finals, order)
    input_labels[ranges(heads, id_counts)] = all_ids[ranges(id_starts, id_counts)]
    output_labels[heads] = words
    costs = np.zeros((total, 2), dtype=np.float32)
    costs[heads] = weights

    final_weights = np.full((compact.num_states + int(new_states.sum()), 2), NO_WEIGHT, dtype=np.float32)
    final_weights[:compact.num_states] = compact.final_weights
    final_weights[finals] = NO_WEIGHT
    final_weights[(first_new + num_arcs - 1)[~is_arc]] = 0.0
    return Fst.from_arcs(compact.start, final_weights, arc_sources, input_labels, output_labels, costs, arc_targets,
                         LATTICE)


def _in_order(compact: CompactLattice, finals: np.ndarray, order: np.ndarray) -> tuple[
        np.ndarray, np.ndarray, np.ndarray]:
    """Return all transition-ids, those of final weights first; and for each chain its first index there and its length.

    Chains are in the order ``order``.
    """
    ids = np.concatenate((compact.final_ids, compact.ids))
    first = np.concatenate((compact.final_string_starts[finals], compact.string_starts[:-1] + len(compact.final_ids)))
    counts = np.concatenate((compact.final_lengths[finals], compact.lengths))
    return ids, first[order], counts[order]


def factored(lattice: Fst) -> CompactLattice:
    """Return a lattice as a compact one: chains of arcs through states with one arc in and one out become single arcs.

    A chain ends before an arc with a word. States are numbered topologically if there is no cycle. OpenFst: ``Factor``.
    """
    if lattice.start < 0:
        return CompactLattice.empty()
    size = lattice.num_states
    only = np.minimum(lattice.arc_starts[:-1], max(lattice.num_arcs - 1, 0))      # the arc of a state that has just one
    is_inner = ((np.bincount(lattice.next_states, minlength=size) == 1) & (np.diff(lattice.arc_starts) == 1)
                & ~lattice.is_final)
    if lattice.num_arcs:
        is_inner &= lattice.output_labels[only] == 0
    is_inner[lattice.start] = False
    numbers = np.cumsum(~is_inner, dtype=np.int32) - np.int32(1)
    sources = lattice.sources
    heads = np.flatnonzero(~is_inner[sources])
    labels, targets = np.empty(len(heads), dtype=np.int32), np.empty(len(heads), dtype=np.int32)
    weights, string_starts = np.empty((len(heads), 2), dtype=np.float32), np.zeros(len(heads) + 1, dtype=np.int64)
    ids = np.empty(lattice.num_arcs, dtype=np.int32)
    num_ids = _factor(lattice.arc_starts, lattice.next_states, lattice.input_labels, lattice.output_labels,
                      lattice.weights, is_inner.astype(np.uint8), heads, numbers, labels, weights, string_starts, ids,
                      targets)
    kept = np.flatnonzero(~is_inner)
    compact = CompactLattice(
        int(numbers[lattice.start]), starts_by(numbers[sources[heads]], len(kept)), labels,
        targets, weights, string_starts, ids[:num_ids].copy(), lattice.final_weights[kept],
        np.zeros(len(kept) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    order = top_order(compact.start, compact.arc_starts, compact.next_states)
    return compact if order is None else compact.selected(_from_start(compact, order))


def _from_start(lattice: CompactLattice, order: np.ndarray) -> np.ndarray:
    """Return ``order`` from the start state on; states before it are unreachable."""
    return order[int(np.flatnonzero(order == lattice.start)[0]):]


DIGITS = 6               # digits that Kaldi writes for each cost in tables of lattices
_COMPACT_WEIGHT = re.compile(rb"([^,]+,[^,]+),((?:[0-9]{1,10}(?:_[0-9]{1,10})*)?)")
_LARGEST_ID = np.iinfo(np.int32).max


def read_text_lattice(reader: TokenReader) -> Fst | CompactLattice:
    """Read a lattice of either kind in text, with the newline before it and the empty line after it.

    The number of fields, and whether weights have transition-ids, show the kind; a lattice that could be either is
    compact. FormatError for other text.
    """
    lines = _LatticeLines(reader)
    for fields in lines_of_text(reader, "a lattice"):
        lines.read(fields)
    return lines.lattice()


class _LatticeLines:
    """The lines of a lattice read so far, and which kinds of lattice they are valid for."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader, self.lines = reader, Lines(reader, 2)
        self.may_be = {"compact": True, "plain": True}
        self.strings: list[list[int]] = []                    # of arcs
        self.final_strings: dict[int, list[int]] = {}

    def read(self, fields: list[bytes]) -> None:
        """Parse the fields of a line; FormatError if the lines so far are valid for neither kind of lattice."""
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
        """Return the lattice of all lines."""
        lines = self.lines
        final, arcs, weights = lines.arrays("a lattice")
        if self.may_be["plain"] and not (self.may_be["compact"] and not len(arcs)):
            return finished_fst(self.reader, Fst.from_arcs(lines.start, final, arcs[:, 0], arcs[:, 2], arcs[:, 3],
                                                           weights, arcs[:, 1], LATTICE))
        final_lengths = np.zeros(len(final), dtype=np.int64)
        for state, ids in self.final_strings.items():
            final_lengths[state] = len(ids)
        return checked(self.reader, CompactLattice.from_arcs(
            lines.start, final, arcs[:, 0], arcs[:, 2], weights, [len(ids) for ids in self.strings],
            [id_ for ids in self.strings for id_ in ids], arcs[:, 1], final_lengths,
            [id_ for state in sorted(self.final_strings) for id_ in self.final_strings[state]]))


def write_text_compact(writer: TokenWriter, lattice: CompactLattice) -> None:
    """Write a compact lattice in text."""
    write_states(writer, lattice, [lattice.labels],
                 _weight_texts(lattice.weights, lattice.string_starts, lattice.ids),
                 _weight_texts(lattice.final_weights, lattice.final_string_starts, lattice.final_ids))


def _weight_texts(weights: np.ndarray, starts: np.ndarray, ids: np.ndarray) -> list[bytes]:
    """Return each weight with its transition-ids as text after a tab; empty for a weight of 0 without transition-ids.
    """
    numbers, bounds = ids.tolist(), starts.tolist()
    texts = []
    for (graph, acoustic), first, end in zip(weights.tolist(), bounds, bounds[1:], strict=False):
        string = "_".join(map(str, numbers[first:end])).encode()
        is_one = not (graph or acoustic or string)
        texts.append(b"" if is_one else b"\t%b,%b,%b" % (cost_text(graph, DIGITS), cost_text(acoustic, DIGITS), string))
    return texts


__all__ = ["COMPACT_LATTICES", "LATTICE", "LATTICES", "expanded", "factored", "read_compact_lattice", "read_lattice",
           "write_compact_lattice", "write_lattice"]

_STORED = {"lattice4": "<f4", "lattice8": "<f8"}
_EXAMPLE_DIGITS = 7         # of costs in the text of an object, such as an example


def read_lattice(reader: TokenReader) -> Fst:
    """Read a lattice from text or any of Kaldi's four binary forms, as an Fst of arc type ``lattice4``, float32.

    FormatError for other bytes.
    """
    lattice = _read(reader)
    return lattice if isinstance(lattice, Fst) else expanded(lattice)


def read_compact_lattice(reader: TokenReader) -> CompactLattice:
    """Read a lattice in any form as a compact one; FormatError for other bytes."""
    lattice = _read(reader)
    return lattice if isinstance(lattice, CompactLattice) else factored(lattice)


def _read(reader: TokenReader) -> Fst | CompactLattice:
    lattice = read_text_lattice(reader) if not reader.binary else _read_binary(reader)
    if not all((values > -np.inf).all() for values in (lattice.weights, lattice.final_weights)):
        raise reader.error("expected costs in a lattice, found what is not a number (NaN), or minus infinity",
                           hint="the model that it was decoded with may have diverged")
    labels = ((lattice.input_labels, lattice.output_labels) if isinstance(lattice, Fst)
              else (lattice.labels, lattice.ids, lattice.final_ids))
    least = min(int(values.min(initial=0)) for values in labels)
    if least < 0:
        raise reader.error(f"expected words and transition-ids in a lattice, which are 0 or more, found {least}")
    return lattice


def _read_binary(reader: TokenReader) -> Fst | CompactLattice:
    header = read_header(reader)
    if is_compact(header.arc_type):
        return read_binary_compact(reader, header)
    if header.kind != "vector" or header.arc_type not in _STORED:
        raise reader.error(f"expected a lattice, found an FST of type '{header.kind}' of arcs of type "
                           f"'{header.arc_type}'")
    lattice = read_vector(reader, header, _STORED[header.arc_type], 2)
    if header.arc_type == LATTICE:
        return finished_fst(reader, lattice)
    with np.errstate(over="ignore", invalid="ignore"):
        return finished_fst(reader, dataclasses.replace(
            lattice, weights=lattice.weights.astype(np.float32), arc_type=LATTICE, stored=None,
            final_weights=lattice.final_weights.astype(np.float32)))


def write_lattice(writer: TokenWriter, lattice: Fst) -> None:
    """Write a lattice in the form that :func:`read_lattice` reads."""
    if writer.binary:
        stored = lattice.stored or Stored("vector", lattice_properties(lattice), 0)
        write_binary_fst(writer, Fst(lattice.start, lattice.final_weights, lattice.arc_starts, lattice.input_labels,
                                     lattice.output_labels, lattice.weights, lattice.next_states, LATTICE, stored))
    else:
        write_text_fst(writer, lattice, _EXAMPLE_DIGITS)


def write_compact_lattice(writer: TokenWriter, lattice: CompactLattice) -> None:
    """Write a compact lattice in the form that :func:`read_compact_lattice` reads."""
    if writer.binary:
        write_binary_compact(writer, lattice)
    else:
        write_text_compact(writer, lattice)


def _look_at_first_byte(reader: TokenReader) -> None:
    """Set ``reader.binary`` from the first byte: lattices in tables have no header, and text begins with a blank."""
    first = reader.peek(1)[:1]
    reader.binary = not (first and first in b" \t\r\n")


def _read_entry(reader: TokenReader) -> Fst:
    _look_at_first_byte(reader)
    return read_lattice(reader)


def _read_compact_entry(reader: TokenReader) -> CompactLattice:
    _look_at_first_byte(reader)
    return read_compact_lattice(reader)


def _write_entry(writer: TokenWriter, lattice: Fst) -> None:
    if writer.binary:
        write_lattice(writer, lattice)
    else:
        write_text_fst(writer, lattice, DIGITS)


LATTICES: Holder[Fst] = Holder("lattice", _read_entry, _write_entry, has_header=False)
COMPACT_LATTICES: Holder[CompactLattice] = Holder("lattice", _read_compact_entry, write_compact_lattice,
                                                  has_header=False)


def read_lattices(rspecifier: str) -> Iterator[tuple[str, CompactLattice]]:
    """Iterate over the lattices of a table; lattices that are not compact are converted.

    >>> for key, lattice in nnet3py.read_lattices("ark:gunzip -c lat.1.gz |"):
    ...     print(key, lattice.num_states)

    Parameters
    ----------
    rspecifier : str, rspecifier of the table

    Yields
    ------
    (key, CompactLattice) : one after the other

    Raises
    ------
    SpecifierError : an invalid rspecifier
    FormatError : bytes that are no lattices
    Nnet3Error : a file that cannot be read

    Kaldi: SequentialCompactLatticeReader.
    """
    return Entries(rspecifier, COMPACT_LATTICES, "read_lattices")


def write_lattices(wspecifier: str,
                   lattices: Mapping[str, CompactLattice] | Iterable[tuple[str, CompactLattice]]) -> int:
    """Write a table of lattices, which Kaldi's programs read.

    >>> nnet3py.write_lattices("ark:lat.ark", {"utt1": recognizer.transcribe("a.wav").lattice})
    1

    Parameters
    ----------
    wspecifier : str, wspecifier of the table
    lattices : dict, or pairs of a key and a CompactLattice

    Returns
    -------
    int, the number of lattices.

    Raises
    ------
    SpecifierError : an invalid wspecifier
    Nnet3Error : a file that cannot be written, an invalid key
    """
    return write_table(wspecifier, COMPACT_LATTICES, lattices)
