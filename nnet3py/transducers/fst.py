"""Finite-state transducers as arrays, and the headers and symbol tables of OpenFst's binary files.

Kaldi: ``ReadFstKaldi``, ``WriteFstKaldi``, ``WriteLattice``.
"""
from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nnet3py.cached_property import cached_property
from nnet3py.engine.loop import Loop
from nnet3py.io.tokens import TokenReader
from nnet3py.transducers.state_graphs import Selection, StateGraph, starts_by

NO_STATE = -1                  # the start of an FST without states
NO_WEIGHT = np.float32(np.inf)  # the final weight of a state that is not final; an infinite cost

MAGIC = struct.pack("<i", 2125659606)
INPUT_SYMBOLS, OUTPUT_SYMBOLS = 1, 2      # flags
FILE_VERSION = 2               # of all types but ngram
_HEADER = struct.Struct("<iiQqqq")        # version, flags, properties, start, number of states, of arcs
_LONGEST_NAME = 100            # bytes; of FST and arc types
_LARGEST_STATE = np.iinfo(np.int32).max


class ArcType(NamedTuple):
    """The weights of one arc type: their numpy type in files, and the number of values in a weight."""

    stored: str
    width: int = 1


ARC_TYPES = {"standard": ArcType("<f4"), "log": ArcType("<f4"), "lattice4": ArcType("<f4", 2),
             "lattice8": ArcType("<f8", 2)}


class Stored(NamedTuple):
    """Contents of a binary FST file besides states and arcs."""

    kind: str             # OpenFst's FST type, such as ``vector``
    properties: int       # OpenFst's bits
    num_arcs: int         # as the header says; 0 in vector FSTs
    flags: int = 0        # OpenFst's bits that tell which symbol tables there are
    symbols: bytes = b""  # bytes of the symbol tables


@dataclass(frozen=True, eq=False)
class Fst(StateGraph):
    """A transducer; an acceptor has the same labels on both sides. Weights are costs in nats.

    Attributes
    ----------
    start : int, the start state; -1 if there are no states
    final_weights : float32 (states,); infinity: not final. For a lattice (states, 2): graph and acoustic costs
    arc_starts : int64 (states + 1,), where the arcs of each state begin, and the end
    input_labels, output_labels : int32 (arcs,); 0 is epsilon
    weights : float32 (arcs,); for a lattice (arcs, 2)
    next_states : int32 (arcs,)
    arc_type : OpenFst's name: ``standard`` (costs), ``lattice4``, ...
    stored : Stored, for writing the file again unchanged; None for an FST that was made or changed
    """

    start: int
    final_weights: np.ndarray
    arc_starts: np.ndarray
    input_labels: np.ndarray
    output_labels: np.ndarray
    weights: np.ndarray
    next_states: np.ndarray
    arc_type: str = "standard"
    stored: Stored | None = None

    @classmethod
    def from_arcs(cls, start: int, final_weights: ArrayLike, sources: ArrayLike, input_labels: ArrayLike,
                  output_labels: ArrayLike, weights: ArrayLike, next_states: ArrayLike,
                  arc_type: str = "standard") -> Fst:
        """Make an FST from arcs in any order, with the source state of each arc; the arcs of a state keep their order.
        """
        dtype = np.float64 if arc_type == "lattice8" else np.float32
        finals, leaving = np.asarray(final_weights, dtype=dtype), np.asarray(sources, dtype=np.int64)
        order = np.argsort(leaving, kind="stable")
        ints = [np.asarray(values, dtype=np.int32)[order] for values in (input_labels, output_labels, next_states)]
        return cls(start, finals, starts_by(leaving, len(finals)), ints[0], ints[1],
                   np.asarray(weights, dtype=dtype)[order], ints[2], arc_type)

    def __repr__(self) -> str:
        return f"<Fst: {self.num_states} states, {self.num_arcs} arcs, {self.arc_type}>"

    @property
    def is_acceptor(self) -> bool:
        """True if input and output labels are the same."""
        return bool(np.array_equal(self.input_labels, self.output_labels))

    def selected(self, states: np.ndarray, keep: np.ndarray | None = None) -> Fst:
        """Return the FST of some states, renumbered in the given order, with the arcs between them.

        Parameters
        ----------
        states : int (chosen,), numbers of the states
        keep : bool (arcs,), False for arcs to remove; None keeps all
        """
        chosen = Selection.of(self.arc_starts, self.next_states, states, keep)
        arcs = chosen.arcs
        return replace(self, start=chosen.start(self.start), final_weights=self.final_weights[chosen.states],
                       arc_starts=chosen.arc_starts, input_labels=self.input_labels[arcs],
                       output_labels=self.output_labels[arcs], weights=self.weights[arcs],
                       next_states=chosen.numbers[self.next_states[arcs]], stored=None)


def check_fst(fst: Fst) -> str | None:
    """Describe a wrong start state or target of an arc as text; None if all are states of the FST."""
    if not NO_STATE <= fst.start < fst.num_states:
        return f"the start state is {fst.start}, but there are {fst.num_states} states"
    if fst.num_arcs and not 0 <= int(fst.next_states.min()) <= int(fst.next_states.max()) < fst.num_states:
        return f"an arc leads to a state that does not exist; there are {fst.num_states}"
    return None


class Header(NamedTuple):
    """The header of a binary FST."""

    kind: str
    arc_type: str
    version: int
    flags: int
    properties: int
    start: int
    num_states: int
    num_arcs: int
    symbols: bytes | memoryview


def read_header(reader: TokenReader) -> Header:
    """Read the header of a binary FST, with its symbol tables; FormatError for other bytes."""
    magic = reader.raw(len(MAGIC))
    if magic != MAGIC:
        raise reader.error(f"expected an FST, which begins with {MAGIC!r}, found {bytes(magic)!r}")
    kind, arc_type = (_string(reader, _LONGEST_NAME).decode("latin-1") for _ in range(2))
    version, flags, properties, start, num_states, num_arcs = _HEADER.unpack(reader.raw(_HEADER.size))
    if not 0 <= num_states <= _LARGEST_STATE:
        raise reader.error(f"expected an FST's number of states, found {num_states}")
    num_tables = bool(flags & INPUT_SYMBOLS) + bool(flags & OUTPUT_SYMBOLS)
    symbols = _symbols_in_memory(reader, num_tables) if reader.content is not None else b"".join(
        _symbol_table(reader) for _ in range(num_tables))
    return Header(kind, arc_type, version, flags, properties, start, num_states, num_arcs, symbols)


def has_output_symbols(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a binary FST with output symbols; only its beginning is read."""
    try:
        with open(path, "rb") as stream:
            begin = stream.read(2 * _LONGEST_NAME)
        at = len(MAGIC)
        for _ in range(2):
            at += 4 + struct.unpack_from("<i", begin, at)[0]
        return begin.startswith(MAGIC) and bool(_HEADER.unpack_from(begin, at)[1] & OUTPUT_SYMBOLS)
    except (OSError, struct.error):
        return False


def _string(reader: TokenReader, longest: int | None = None) -> bytes:
    length = int.from_bytes(reader.raw(4), "little", signed=True)
    if length < 0 or longest is not None and length > longest:
        raise reader.error(f"expected the length of a name in an FST, found {length}")
    return bytes(reader.raw(length))


def _symbols_in_memory(reader: TokenReader, num_tables: int) -> memoryview | bytes:
    """Return the bytes of the symbol tables of a file that is in memory, without a copy; empty for other files."""
    if not num_tables:
        return b""
    assert reader.content is not None
    first = end = reader.offset
    for _ in range(num_tables):
        place, end = end, end_of_table(reader.content, end)
        if end < 0:
            raise reader.error("expected a symbol table in an FST, found something else, or the file ends in it",
                               offset=place)
    reader.skip(end - first)
    return reader.content[first:end]


def _symbol_table(reader: TokenReader) -> bytes:
    """Read the bytes of a symbol table."""
    start = reader.raw(4)
    if int.from_bytes(start, "little", signed=True) != SYMBOLS_MAGIC:
        raise reader.error(f"expected a symbol table in an FST, found {bytes(start)!r}")
    name = _string(reader)
    counts = reader.raw(16)
    size = int.from_bytes(counts[8:], "little", signed=True)
    reader.check_count(size, 12, "symbols")
    parts = [bytes(start), struct.pack("<i", len(name)), name, bytes(counts)]
    for _ in range(size):
        symbol = _string(reader)
        parts += [struct.pack("<i", len(symbol)), symbol, bytes(reader.raw(8))]
    return b"".join(parts)


def finished_fst(reader: TokenReader, fst: Fst) -> Fst:
    """Return ``fst``; FormatError if its start or the target of an arc is no state."""
    problem = check_fst(fst)
    if problem:
        raise reader.error(f"expected an FST: {problem}")
    return fst


def stored_facts(header: Header) -> Stored:
    """Return the parts of a header that are needed to write the FST again unchanged."""
    return Stored(header.kind, header.properties, header.num_arcs, header.flags & (INPUT_SYMBOLS | OUTPUT_SYMBOLS),
                  bytes(header.symbols))


def binary_header(kind: str, arc_type: str, properties: int, start: int, num_states: int, num_arcs: int = 0,
                  flags: int = 0, symbols: bytes = b"", version: int = FILE_VERSION) -> bytes:
    """Return the bytes of the header of a binary FST; in vector FSTs ``num_arcs`` is 0."""
    names = b"".join(struct.pack("<i", len(name)) + name.encode("latin-1") for name in (kind, arc_type))
    return MAGIC + names + _HEADER.pack(version, flags, properties, start, num_states, num_arcs) + symbols


_find_symbols = Loop("nnet3py.transducers.symbol_loops", "find_symbols", "u1* i8 i8 i8[] i4[] i8[] i8")
_hash_symbols = Loop("nnet3py.transducers.symbol_loops", "hash_symbols", "u1* i8[] i4[] u8[]")

SYMBOLS_MAGIC = 2125658996
_NOTHING = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)


def end_of_table(data: Any, at: int) -> int:
    """Return the position after the symbol table at ``at``; -1 if there is no complete table.

    ``data`` is bytes, or an object of which numpy can make a view.
    """
    counted = _count(data, at)
    if counted is None:
        return -1
    at, count = counted
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    return int(_find_symbols(_address(bytes_), len(bytes_), at, *_NOTHING, count))


def tables_with(data: bytes, additions: Sequence[Mapping[str, int]]) -> bytes:
    """Return the bytes of successive symbol tables with symbols (name to number) appended to each."""
    parts, at = [], 0
    for names in additions:
        counted, end = _count(data, at), end_of_table(data, at)
        assert counted is not None
        first, count = counted
        (available,) = struct.unpack_from("<q", data, first - 16)
        parts += [data[at:first - 16], struct.pack("<qq", max([available, *(n + 1 for n in names.values())]),
                                                   count + len(names)), data[first:end]]
        for name, number in names.items():
            encoded = name.encode()
            parts.append(struct.pack("<i", len(encoded)) + encoded + struct.pack("<q", number))
        at = end
    return b"".join(parts)


def _count(data: Any, at: int) -> tuple[int, int] | None:
    """Return the position of a table's first symbol, and the number of symbols; None if there is no table at ``at``."""
    size = len(data)
    if at + 8 > size or struct.unpack_from("<i", data, at)[0] != SYMBOLS_MAGIC:
        return None
    (length,) = struct.unpack_from("<i", data, at + 4)
    first = at + 8 + length
    if length < 0 or first + 16 > size:
        return None
    (count,) = struct.unpack_from("<q", data, first + 8)
    return (first + 16, count) if 0 <= count <= (size - first - 16) // 12 else None


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


class SymbolBytes:
    """A symbol table in a file's bytes, whose symbols are decoded only when they are looked up.

    ``keys`` (int64 (symbols,)) has the number of each symbol, in the table's order.
    """

    def __init__(self, data: Any, at: int = 0) -> None:
        """Find the symbols of the table at ``at`` in ``data``, which must be complete (:func:`end_of_table`).

        ``data`` is kept, not copied.
        """
        counted = _count(data, at)
        assert counted is not None
        first, count = counted
        self._data = np.frombuffer(data, dtype=np.uint8)
        self._places, self.keys = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        self._lengths = np.empty(count, dtype=np.int32)
        _find_symbols(_address(self._data), len(self._data), first, self._places, self._lengths, self.keys, count)

    def __len__(self) -> int:
        return len(self.keys)

    def symbol(self, place: int) -> bytes:
        """Return the symbol at an index of the table."""
        first = int(self._places[place])
        return self._data[first:first + int(self._lengths[place])].tobytes()

    def place_of_key(self, key: int) -> int:
        """Return the index of the symbol with a number; -1 if there is none."""
        if 0 <= key < len(self) and self.keys[key] == key:
            return key
        order, keys = self._by_key
        at = int(np.searchsorted(keys, key))
        return int(order[at]) if at < len(keys) and keys[at] == key else -1

    def place_of_symbol(self, symbol: bytes) -> int:
        """Return the first index of a symbol; -1 if the table lacks it."""
        order, hashes = self._by_hash
        wanted = np.empty(1, dtype=np.uint64)
        own = np.frombuffer(symbol, dtype=np.uint8)
        _hash_symbols(_address(own), np.zeros(1, dtype=np.int64), np.array([len(own)], dtype=np.int32), wanted)
        at = int(np.searchsorted(hashes, wanted[0]))
        while at < len(hashes) and hashes[at] == wanted[0]:
            if self.symbol(int(order[at])) == symbol:
                return int(order[at])
            at += 1
        return -1

    @cached_property
    def _by_key(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.keys, kind="stable")
        return order, self.keys[order]

    @cached_property
    def _by_hash(self) -> tuple[np.ndarray, np.ndarray]:
        hashes = np.empty(len(self), dtype=np.uint64)
        _hash_symbols(_address(self._data), self._places, self._lengths, hashes)
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        return order, hashes[order]
