"""FSTs and their symbol tables as text: reading, printing, drawing for GraphViz, describing.

A line is an arc: state, next state, input label, output label (not in acceptors), cost; or a final state: state, cost.
A cost of 0 is left out. The first line begins with the start state; states are numbered in the order in which they
appear. Symbols are bytes; no encoding is assumed. OpenFst: ``fstcompile``, ``fstprint``, ``fstdraw``, ``fstinfo``.
"""
from __future__ import annotations

import dataclasses
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.fst.arpa import first_fields
from nnet3py.fst.operations import EPSILON
from nnet3py.io.streams import complete_input
from nnet3py.transducers import fst_operations as bits
from nnet3py.transducers.fst import NO_STATE, NO_WEIGHT, Fst, Stored
from nnet3py.transducers.state_graphs import reachable, starts_by, strong_parts

INPUT, OUTPUT = 1, 2                       # bits of a file's flags: which tables it has
_MAGIC = struct.pack("<i", 2125658996)
_KEY = re.compile(rb"-?[0-9]{1,18}")
_SHOWN = 60                                # characters of a line in a message

Symbols = dict[bytes, int]


def read_symbols(rxfilename: str | os.PathLike[str]) -> Symbols:
    """Read a symbol table, lines ``SYMBOL NUMBER``; FormatError for other lines, or a symbol with two numbers."""
    with complete_input(rxfilename) as stream:
        data = stream.without_mark().read()
    symbols: Symbols = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or not _KEY.fullmatch(fields[1]):
            shown = line.decode("utf-8", "backslashreplace")[:_SHOWN]
            raise FormatError(f"line {number} of a symbol table is not SYMBOL NUMBER: {shown!r}", path=str(rxfilename))
        symbol, key = fields[0], int(fields[1])
        if symbols.setdefault(symbol, key) != key:
            raise FormatError(f"the symbol '{symbol.decode('utf-8', 'backslashreplace')}' has two numbers in a symbol "
                              f"table, {symbols[symbol]} and {key}", path=str(rxfilename))
    return symbols


def symbols_text(symbols: Symbols) -> bytes:
    """Return the bytes of a symbol table's lines ``SYMBOL<tab>NUMBER``."""
    return b"".join(b"%b\t%d\n" % pair for pair in symbols.items())


def names_of(symbols: Symbols) -> dict[int, bytes]:
    """Return a dict from number to symbol; if a number has several symbols, the first one."""
    names: dict[int, bytes] = {}
    for symbol, key in symbols.items():
        names.setdefault(key, symbol)
    return names


def with_symbols(fst: Fst, inputs: Symbols | None, outputs: Symbols | None, name: str = "") -> Fst:
    """Return the FST with symbol tables that are written with it to a file; None for no table."""
    flags = (INPUT if inputs is not None else 0) | (OUTPUT if outputs is not None else 0)
    if not flags:
        return dataclasses.replace(fst, stored=None)
    from nnet3py.transducers.fst_operations import MUTABLE, known_properties

    tables = b"".join(_table_bytes(table, name) for table in (inputs, outputs) if table is not None)
    return dataclasses.replace(fst, stored=Stored("vector", known_properties(fst) | MUTABLE, 0, flags, tables))


def _table_bytes(symbols: Symbols, name: str) -> bytes:
    encoded = name.encode("utf-8", "surrogateescape")
    available = max(symbols.values(), default=-1) + 1
    parts = [_MAGIC, struct.pack("<i", len(encoded)), encoded, struct.pack("<qq", available, len(symbols))]
    for symbol, key in symbols.items():
        parts += [struct.pack("<i", len(symbol)), symbol, struct.pack("<q", key)]
    return b"".join(parts)


def symbols_of(fst: Fst) -> tuple[Symbols | None, Symbols | None]:
    """Return the input and output symbol tables of the file that an FST was read from; None for a missing table."""
    if fst.stored is None or not fst.stored.flags:
        return None, None
    at, data, flags = 0, fst.stored.symbols, fst.stored.flags
    tables: list[Symbols | None] = []
    for bit in (INPUT, OUTPUT):
        table = None
        if flags & bit:
            table, at = _table_at(data, at)
        tables.append(table)
    return tables[0], tables[1]


def _table_at(data: bytes, at: int) -> tuple[Symbols, int]:
    """Parse the symbol table at byte ``at``; return it and the position after it."""
    at += len(_MAGIC)
    at += 4 + struct.unpack_from("<i", data, at)[0]
    (size,) = struct.unpack_from("<q", data, at + 8)
    at += 16
    symbols: Symbols = {}
    for _ in range(size):
        (length,) = struct.unpack_from("<i", data, at)
        symbol = bytes(data[at + 4:at + 4 + length])
        (symbols[symbol],) = struct.unpack_from("<q", data, at + 4 + length)
        at += 12 + length
    return symbols, at


_LARGEST = np.iinfo(np.int32).max
_LINES = 100_000                           # lines that are made at a time


@dataclass(frozen=True)
class TextForm:
    """Options of FSTs in text."""

    acceptor: bool = False               # arcs have one label
    # inputs, outputs: symbol tables; None for numbers
    inputs: Symbols | None = None
    outputs: Symbols | None = None
    # keep the numbers of states, instead of numbering them in the order of their appearance
    keep_state_numbering: bool = False
    allow_negative_labels: bool = False  # labels may be below 0


def fst_of_text(data: bytes, form: TextForm, path: str = "") -> Fst:
    """Parse an FST in text; FormatError for invalid lines, or a symbol that a table lacks."""
    return _Compiler(data, form, path).fst()


class _Compiler:
    """A parser of an FST in text, which converts the fields of all lines to arrays, column by column."""

    def __init__(self, data: bytes, form: TextForm, path: str) -> None:
        self._data, self._form, self._path = data, form, path
        self._fields = data.split()
        self._first, self._counts, self._lines = first_fields(data, len(self._fields))

    def fst(self) -> Fst:
        """Return the FST; FormatError for a line that is neither an arc nor a final state."""
        labels = 1 if self._form.acceptor else 2
        is_arc = self._counts >= 2 + labels
        wrong = (self._counts > 3 + labels) | ~is_arc & (self._counts > 2)
        if wrong.any():
            raise self._error(int(wrong.argmax()), "the fields of an arc or a final state")
        if not len(self._first):
            empty = np.empty(0, dtype=np.int32)
            return Fst(NO_STATE, np.empty(0, np.float32), np.zeros(1, np.int64), empty, empty, np.empty(0, np.float32),
                       empty)
        arcs, finals = np.flatnonzero(is_arc), np.flatnonzero(~is_arc)
        states, sources, targets, ends = self._states(arcs, finals)
        weights = self._costs(arcs, 2 + labels)
        costs = np.full(states, NO_WEIGHT, dtype=np.float32)
        costs[ends] = self._costs(finals, 1)
        inputs = self._labels(arcs, 2, self._form.inputs)
        outputs = inputs if self._form.acceptor else self._labels(arcs, 3, self._form.outputs)
        start = int(sources[0] if is_arc[0] else ends[0])
        return Fst.from_arcs(start, costs, sources, inputs, outputs, weights, targets)

    def _error(self, row: int, expected: str) -> FormatError:
        line = int(self._lines[row])
        text = self._data.split(b"\n")[line].decode("utf-8", "backslashreplace")[:_SHOWN]
        return FormatError(f"expected {expected} in line {line + 1} of an FST, found {text!r}", path=self._path)

    def _column(self, rows: np.ndarray, place: int) -> list[bytes]:
        fields = self._fields
        return [fields[i] for i in (self._first[rows] + place).tolist()]

    def _numbers(self, rows: np.ndarray, place: int, least: int, what: str) -> np.ndarray:
        """Parse field ``place`` of the lines ``rows`` as integers of ``least`` or more, int64 (rows,)."""
        texts = self._column(rows, place)
        try:
            values = np.array(list(map(int, texts)), dtype=np.int64)
            right = (values >= least) & (values <= _LARGEST)
            right &= ~np.array([b"_" in text for text in texts], dtype=bool)
        except (ValueError, OverflowError):
            right = np.array([_is_integer(text) for text in texts])
        if not right.all():
            raise self._error(int(rows[right.argmin()]), f"{what}, a number of {least} or more,")
        return values

    def _states(self, arcs: np.ndarray, finals: np.ndarray) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """Return the number of states, the sources and targets of arcs, and the final states, in the FST's numbering.
        """
        sources, targets = (self._numbers(arcs, place, 0, "a state") for place in (0, 1))
        ends = self._numbers(finals, 0, 0, "a state")
        places = np.concatenate((2 * arcs, 2 * arcs + 1, 2 * finals))     # of each number, by lines
        numbers = np.concatenate((sources, targets, ends))
        if not self._form.keep_state_numbering:
            distinct, which = np.unique(numbers, return_inverse=True)
            first = np.full(len(distinct), np.iinfo(np.int64).max)
            np.minimum.at(first, which, places)
            rank = np.empty(len(distinct), dtype=np.int64)
            rank[np.argsort(first)] = np.arange(len(distinct))
            numbers = rank[which]
        states = int(numbers.max()) + 1
        if states > 2 * len(self._first) + 1000:
            raise FormatError(f"an FST of {len(self._first)} lines cannot have {states} states", path=self._path,
                              hint="without --keep_state_numbering states are numbered as they appear")
        return states, numbers[:len(arcs)], numbers[len(arcs):2 * len(arcs)], numbers[2 * len(arcs):]

    def _labels(self, rows: np.ndarray, place: int, symbols: Symbols | None) -> np.ndarray:
        if symbols is None:
            return self._numbers(rows, place, -_LARGEST if self._form.allow_negative_labels else 0, "a label")
        texts = self._column(rows, place)
        labels = [symbols.get(text) for text in texts]
        if None in labels:
            symbol = texts[labels.index(None)].decode("utf-8", "backslashreplace")
            raise self._error(int(rows[labels.index(None)]), f"a symbol of the table, which has no '{symbol}',")
        values = np.array(labels, dtype=np.int64)
        if (np.abs(values) > _LARGEST).any():
            raise self._error(int(rows[(np.abs(values) > _LARGEST).argmax()]), "a symbol of a number below 2147483648")
        return values

    def _costs(self, rows: np.ndarray, place: int) -> np.ndarray:
        """Parse field ``place`` of the lines ``rows`` as costs, float32 (rows,); 0 for lines without it."""
        costs = np.zeros(len(rows))
        given = np.flatnonzero(self._counts[rows] > place)
        texts = self._column(rows[given], place)
        try:
            costs[given] = list(map(float, texts))
            right = ~np.isnan(costs[given]) & ~np.array([b"_" in text for text in texts], dtype=bool)
        except ValueError:
            right = np.array([_is_cost(text) for text in texts])
        if not right.all():
            raise self._error(int(rows[given[right.argmin()]]), "a cost")
        with np.errstate(over="ignore"):
            return costs.astype(np.float32)


def _is_integer(text: bytes) -> bool:
    digits = text[1:] if text[:1] in b"+-" else text
    return digits.isdigit() and int(text) <= _LARGEST


def _is_cost(text: bytes) -> bool:
    try:
        return float(text) == float(text) and b"_" not in text
    except ValueError:
        return False


# -- printing ----------------------------------------------------------------------------------------------------------


def text_of_fst(fst: Fst, form: TextForm, show_zero: bool = False, digits: int = 9) -> Iterator[bytes]:
    """Yield the text of an FST in pieces of many lines: first the start state's, then the others' by number.

    Raises FormatError for a label that a table lacks, or for a transducer to be printed as an acceptor.
    """
    if fst.start < 0:
        return
    if form.acceptor and not fst.is_acceptor:
        raise FormatError("an FST whose output labels differ from its input labels cannot be printed as acceptor",
                          hint="leave out --acceptor")
    order = np.argsort(np.arange(fst.num_states) != fst.start, kind="stable")
    begins, counts = fst.arc_starts[:-1][order], np.diff(fst.arc_starts)[order]
    names = [None if table is None else names_of(table) for table in (form.inputs, form.outputs)]
    done = 0
    while done < len(order):
        ends = np.cumsum(counts[done:])
        size = max(1, int(np.searchsorted(ends, _LINES, side="right")))
        states = slice(done, done + size)
        arcs = np.repeat(begins[states] - np.concatenate(([0], ends[:size - 1])), counts[states]) + np.arange(
            int(ends[size - 1]))
        yield _lines_of(fst, order[states], arcs, names, form.acceptor, show_zero, digits)
        done += size


def _lines_of(fst: Fst, states: np.ndarray, arcs: np.ndarray, names: list[dict[int, bytes] | None], acceptor: bool,
              show_zero: bool, digits: int) -> bytes:
    """Return the text of some states and their arcs."""
    inputs = _label_texts(fst.input_labels[arcs], names[0])
    columns = [fst.sources[arcs].tolist(), fst.next_states[arcs].tolist(), inputs]
    if not acceptor:
        columns.append(_label_texts(fst.output_labels[arcs], names[1]))
    columns.append(_cost_texts(fst.weights[arcs], show_zero, digits))
    form = b"%d\t%d\t%b%b\n" if acceptor else b"%d\t%d\t%b\t%b%b\n"
    lines = [form % row for row in zip(*columns, strict=True)]
    counts = (fst.arc_starts[states + 1] - fst.arc_starts[states]).tolist()
    finals = _cost_texts(fst.final_weights[states], show_zero, digits)
    is_final = fst.is_final[states].tolist()
    parts: list[bytes] = []
    at = 0
    for state, count, ends, cost in zip(states.tolist(), counts, is_final, finals, strict=True):
        parts += lines[at:at + count]
        at += count
        if ends or not count:
            parts.append(b"%d%b\n" % (state, cost))
    return b"".join(parts)


def _label_texts(labels: np.ndarray, names: dict[int, bytes] | None) -> list[bytes]:
    numbers = labels.tolist()
    if names is None:
        return [b"%d" % label for label in numbers]
    try:
        return [names[label] for label in numbers]
    except KeyError as error:
        raise FormatError(f"an FST has the label {error.args[0]}, for which the table has no symbol",
                          hint="use the symbol table that the FST was made with") from None


def _cost_texts(costs: np.ndarray, show_zero: bool, digits: int) -> list[bytes]:
    """Return each cost as text after a tab; empty for a cost of 0."""
    return [b"" if cost == 0.0 and not show_zero else b"\t%.*g" % (digits, cost) if abs(cost) < np.inf
            else b"\tInfinity" if cost > 0 else b"\t-Infinity" if cost < 0 else b"\tBadNumber"
            for cost in costs.tolist()]


_FONT = "fontsize = 14"


def drawing_text(fst: Fst, form: TextForm, portrait: bool = False, title: str = "", digits: int = 5,
                 show_zero: bool = False) -> bytes:
    """Return the FST as source text for GraphViz. OpenFst: ``fstdraw``.

    States go from left to right, the start is bold, final states are double circles with their costs.
    """
    orientation = b"" if portrait else b"orientation = Landscape;\n"
    parts = [b"digraph FST {\nrankdir = LR;\nsize = \"8.5,11\";\nlabel = \"", title.encode("utf-8", "surrogateescape"),
             b"\";\ncenter = 1;\n", orientation, b"ranksep = \"0.4\";\nnodesep = \"0.25\";\n"]
    tables = [None if table is None else names_of(table) for table in (form.inputs, form.outputs)]

    def label(number: int, side: int) -> bytes:
        table = tables[side]
        name = b"%d" % number if table is None else table.get(number, b"%d" % number)
        return name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')

    def cost(value: float) -> bytes:
        return b"" if value == 0.0 and not show_zero else b"/%.*g" % (digits, value)

    others = [state for state in range(fst.num_states) if state != fst.start]
    for state in ([fst.start] if fst.start >= 0 else []) + others:
        ends = bool(fst.is_final[state])
        text = b"%d%b" % (state, cost(float(fst.final_weights[state])) if ends else b"")
        parts.append(b'%d [label = "%b", shape = %b, style = %b, %b]\n' % (
            state, text, b"doublecircle" if ends else b"circle", b"bold" if state == fst.start else b"solid",
            _FONT.encode()))
        for arc in range(int(fst.arc_starts[state]), int(fst.arc_starts[state + 1])):
            words = label(int(fst.input_labels[arc]), 0)
            if not form.acceptor:
                words += b":" + label(int(fst.output_labels[arc]), 1)
            parts.append(b'\t%d -> %d [label = "%b%b", %b];\n' % (
                state, int(fst.next_states[arc]), words, cost(float(fst.weights[arc])), _FONT.encode()))
    return b"".join(parts) + b"}\n"


_WIDTH = 50
_PROPERTIES = (
    ("acceptor", bits.ACCEPTOR), ("input deterministic", bits.INPUT_DETERMINISTIC),
    ("output deterministic", bits.OUTPUT_DETERMINISTIC), ("input/output epsilons", bits.EPSILONS),
    ("input epsilons", bits.INPUT_EPSILONS), ("output epsilons", bits.OUTPUT_EPSILONS),
    ("input label sorted", bits.INPUT_SORTED), ("output label sorted", bits.OUTPUT_SORTED), ("weighted", bits.WEIGHTED),
    ("cyclic", bits.CYCLIC), ("cyclic at initial state", bits.INITIAL_CYCLIC), ("top sorted", bits.TOP_SORTED),
    ("accessible", bits.ACCESSIBLE), ("coaccessible", bits.COACCESSIBLE), ("string", bits.STRING),
    ("weighted cycles", bits.WEIGHTED_CYCLES))


def info_text(fst: Fst) -> str:
    """Return a table of an FST's sizes and properties (``y`` or ``n``), a line each. OpenFst: ``fstinfo``."""
    properties = bits.fst_properties(fst)
    kind = fst.stored.kind if fst.stored else "vector"
    rows: list[tuple[str, object]] = [("fst type", kind), ("arc type", fst.arc_type)]
    flags = fst.stored.flags if fst.stored else 0
    rows += [("input symbol table", _table(flags & 1)), ("output symbol table", _table(flags & 2))]
    rows += _sizes(fst)
    sorted_sides = (properties >> bits.INPUT_SORTED & 1, properties >> bits.OUTPUT_SORTED & 1)
    rows += [("input matcher", _yes(sorted_sides[0])), ("output matcher", _yes(sorted_sides[1])),
             ("input lookahead", "n"), ("output lookahead", "n"), ("expanded", "y"),
             ("mutable", _yes(kind == "vector")), ("error", "n")]
    rows += [(name, _yes(properties >> bit & 1)) for name, bit in _PROPERTIES]
    return "".join(f"{name:<{_WIDTH}}{value}\n" for name, value in rows)


def _table(present: int) -> str:
    return "present" if present else "none"


def _yes(value: object) -> str:
    return "y" if value else "n"


def _sizes(fst: Fst) -> list[tuple[str, object]]:
    inputs, outputs = fst.input_labels == EPSILON, fst.output_labels == EPSILON
    accessible, coaccessible = reachable(fst.start, fst.arc_starts, fst.next_states, fst.is_final)
    sources, targets = np.concatenate([(fst.sources, fst.next_states), (fst.next_states, fst.sources)], axis=1)
    both_ways = strong_parts(starts_by(sources, fst.num_states), targets[np.argsort(sources, kind="stable")])
    return [
        ("# of states", fst.num_states), ("# of arcs", fst.num_arcs), ("initial state", fst.start),
        ("# of final states", int(fst.is_final.sum())), ("# of input/output epsilons", int((inputs & outputs).sum())),
        ("# of input epsilons", int(inputs.sum())), ("# of output epsilons", int(outputs.sum())),
        ("input label multiplicity", f"{_multiplicity(fst, fst.input_labels):g}"),
        ("output label multiplicity", f"{_multiplicity(fst, fst.output_labels):g}"),
        ("# of accessible states", int(accessible.sum())), ("# of coaccessible states", int(coaccessible.sum())),
        ("# of connected states", int((accessible & coaccessible).sum())),
        ("# of connected components", len(np.unique(both_ways))),
        ("# of strongly conn components", len(np.unique(strong_parts(fst.arc_starts, fst.next_states))))]


def _multiplicity(fst: Fst, labels: np.ndarray) -> float:
    """Return the average over arcs of the number of arcs that leave the same state with the same label."""
    if not fst.num_arcs:
        return 0.0
    _, counts = np.unique((fst.sources.astype(np.int64) << 32) + labels, return_counts=True)
    return float(np.square(counts.astype(np.float64)).sum() / fst.num_arcs)
