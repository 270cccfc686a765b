"""Lattices in files: FSTs whose weights are pairs, a graph cost and an acoustic cost.

Input labels are transition-ids, output labels words. In compact lattices an arc has a word and the transition-ids of
all its frames. Each kind can be read as the other, to which it is converted. Kaldi: ``ReadLattice``, ``WriteLattice``,
``ReadCompactLattice``, ``WriteCompactLattice``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.io.holder import Holder
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.compact_lattice import (
    CompactLattice,
    fill_states,
    is_compact,
    lattice_properties,
    read_binary_compact,
    read_state_words,
    write_binary_compact,
)
from nnet3py.transducers.fst import Fst, Header, Stored, finished_fst, read_header, stored_facts
from nnet3py.transducers.fst_binary import write_binary_fst
from nnet3py.transducers.fst_text import write_text_fst
from nnet3py.transducers.lattice_conversion import LATTICE, expanded, factored
from nnet3py.transducers.lattice_text import DIGITS, read_text_lattice, write_text_compact

__all__ = ["COMPACT_LATTICES", "LATTICE", "LATTICES", "expanded", "factored", "read_compact_lattice", "read_lattice",
           "write_compact_lattice", "write_lattice"]

_STORED = {"lattice4": "<f4", "lattice8": "<f8"}
_EXAMPLE_DIGITS = 7         # of costs in the text of an object, such as an example


def read_lattice(reader: TokenReader) -> Fst:
    """Read a lattice, from text or any of Kaldi's four binary forms: an Fst of arc type ``lattice4``, float32.

    FormatError for anything else.
    """
    lattice = _read(reader)
    return lattice if isinstance(lattice, Fst) else expanded(lattice)


def read_compact_lattice(reader: TokenReader) -> CompactLattice:
    """Read a lattice in any form as a compact one; FormatError for anything else."""
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
    return finished_fst(reader, _read_plain(reader, header))


def _read_plain(reader: TokenReader, header: Header) -> Fst:
    stored = np.dtype(_STORED[header.arc_type])
    width = 2 * stored.itemsize // 4
    data, (num_arcs, _, _) = read_state_words(reader, header.num_states, width, False)
    finals, arc_starts, arcs = fill_states(data, header.num_states, width, num_arcs)
    weights = np.ascontiguousarray(arcs[:, 2:2 + width]).view(stored)
    with np.errstate(over="ignore", invalid="ignore"):
        return Fst(header.start, finals.view(stored).astype(np.float32), arc_starts, arcs[:, 0].copy(),
                   arcs[:, 1].copy(), weights.astype(np.float32), arcs[:, -1].copy(), LATTICE,
                   stored_facts(header) if header.arc_type == LATTICE else None)


def write_lattice(writer: TokenWriter, lattice: Fst) -> None:
    """Write a lattice that :func:`read_lattice` reads."""
    if writer.binary:
        stored = lattice.stored or Stored("vector", lattice_properties(lattice), 0)
        write_binary_fst(writer, Fst(lattice.start, lattice.final_weights, lattice.arc_starts, lattice.input_labels,
                                     lattice.output_labels, lattice.weights, lattice.next_states, LATTICE, stored))
    else:
        write_text_fst(writer, lattice, _EXAMPLE_DIGITS)


def write_compact_lattice(writer: TokenWriter, lattice: CompactLattice) -> None:
    """Write a compact lattice that :func:`read_compact_lattice` reads."""
    if writer.binary:
        write_binary_compact(writer, lattice)
    else:
        write_text_compact(writer, lattice)


def _look_at_first_byte(reader: TokenReader) -> None:
    """Lattices in tables have no header: text begins with a blank."""
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
