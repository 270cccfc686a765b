"""FSTs as lines of text, with symbols or numbers. OpenFst: ``fstcompile``, ``fstprint``.

A line is an arc: state, next state, input label, output label (not in acceptors), cost; or a final state: state, cost.
A cost of 0 is left out. The first line begins with the start state; states are numbered as they appear.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.fst.arpa import first_fields
from nnet3py.fst.symbols import Symbols, names_of
from nnet3py.transducers.fst import NO_STATE, NO_WEIGHT, Fst

_LARGEST = np.iinfo(np.int32).max
_SHOWN = 60                                # characters of a line in a message
_LINES = 100_000                           # lines that are made at a time


@dataclass(frozen=True)
class TextForm:
    """The form of lines: acceptors have one label; symbol tables, None for numbers; states may keep their numbers."""

    acceptor: bool = False
    inputs: Symbols | None = None
    outputs: Symbols | None = None
    keep_state_numbering: bool = False
    allow_negative_labels: bool = False


def fst_of_text(data: bytes, form: TextForm, path: str = "") -> Fst:
    """The FST of lines of text. FormatError for any other line, or a symbol that a table lacks."""
    return _Compiler(data, form, path).fst()


class _Compiler:
    """The fields of all lines, being turned into arrays."""

    def __init__(self, data: bytes, form: TextForm, path: str) -> None:
        self._data, self._form, self._path = data, form, path
        self._fields = data.split()
        self._first, self._counts, self._lines = first_fields(data, len(self._fields))

    def fst(self) -> Fst:
        """The FST of all lines; FormatError for a line that is neither an arc nor a final state."""
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
        """int64 (rows,): the integers in a column."""
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
        """How many states there are; sources and targets of arcs, and final states, numbered as they appear."""
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
        """float32 (rows,): the costs in a column, 0 for lines that end before it."""
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
    """Lines of an FST in pieces: the start state's first, then the others' by number.

    Raises FormatError for a label that a table lacks, or for a transducer to be printed as an acceptor.
    """
    if fst.start < 0:
        return
    if form.acceptor and not fst.is_acceptor:
        raise FormatError("an FST has other output than input labels, and cannot be printed as acceptor")
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
    """The lines of some states with their arcs."""
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
                          hint="are FST and symbol table of one system?") from None


def _cost_texts(costs: np.ndarray, show_zero: bool, digits: int) -> list[bytes]:
    """Each cost after a tab; nothing for a cost of 0."""
    return [b"" if cost == 0.0 and not show_zero else b"\t%.*g" % (digits, cost) if abs(cost) < np.inf
            else b"\tInfinity" if cost > 0 else b"\t-Infinity" if cost < 0 else b"\tBadNumber"
            for cost in costs.tolist()]
