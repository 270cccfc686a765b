"""Finite-state transducers in text, as in Kaldi's tables: a newline, lines of arcs and final states, an empty line.

The arcs of the start state come first; a cost of 0 is left out. Kaldi: ``ReadFstKaldi``, ``WriteFstKaldi``,
``LatticeReader``.
"""
from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence

import numpy as np

from nnet3py.io.holder import Holder
from nnet3py.io.streams import complete_input, open_output
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import NO_STATE, NO_WEIGHT, Fst, finished_fst
from nnet3py.transducers.fst_binary import read_binary_fst, write_binary_fst
from nnet3py.transducers.state_graphs import StateGraph

_BLANKS = re.compile(rb"[ \t\r]*")
_LABEL = re.compile(rb"-?[0-9]{1,10}")
_NUMBER = re.compile(rb"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = {b"Infinity": np.inf, b"-Infinity": -np.inf, b"BadNumber": np.nan}
_INT32 = np.iinfo(np.int32)


def read_fst(reader: TokenReader) -> Fst:
    """Read an FST from a table or file, binary or text, without Kaldi's binary header; text begins with a blank.

    FormatError for other bytes.
    """
    first = reader.peek(1)
    return read_text_fst(reader) if first and first in b" \t\r\n" else read_binary_fst(reader)


def write_fst(writer: TokenWriter, fst: Fst) -> None:
    """Write an FST in the form that :func:`read_fst` reads."""
    if writer.binary:
        write_binary_fst(writer, fst)
    else:
        write_text_fst(writer, fst)


def read_fst_file(rxfilename: str | os.PathLike[str]) -> Fst:
    """Read a graph from a file or pipe, binary or text; an empty name is standard input. Kaldi: ReadFstKaldiGeneric.

    FormatError for other bytes.
    """
    with complete_input(rxfilename or "-") as stream:
        reader = TokenReader(stream, path=stream.path, size=stream.size)
        if reader.at_end():
            raise reader.error("expected a graph, found nothing")
        fst = read_fst(reader)
    return fst


def write_fst_file(wxfilename: str | os.PathLike[str], fst: Fst) -> None:
    """Write an FST to a file, in OpenFst's binary form without Kaldi's header. Kaldi: WriteFstKaldi."""
    with open_output(wxfilename) as stream:
        write_binary_fst(TokenWriter(stream, binary=True), fst)


class Lines:
    """States and arcs of the lines of text read so far; ``width`` is the number of values in a weight."""

    def __init__(self, reader: TokenReader, width: int) -> None:
        self.reader, self.width = reader, width
        self.start = NO_STATE
        self.count = 0
        self.arcs: list[tuple[int, int, int, int]] = []      # state, next state, input label, output label
        self.weights: list[tuple[float, ...]] = []
        self.finals: dict[int, tuple[float, ...]] = {}

    def add(self, fields: list[bytes]) -> None:
        """Parse the fields of a line and add its arc or final state; FormatError for other fields."""
        if len(fields) not in (1, 2, 4, 5):
            raise self.reader.error(f"expected a line of 1, 2, 4 or 5 fields in an FST, found {len(fields)}")
        state = self._number(fields[0], "a state", 0)
        if not self.count:
            self.start = state
        self.count += 1
        if len(fields) <= 2:
            self.finals[state] = self._weight(fields[1:])
            return
        self.arcs.append((state, self._number(fields[1], "a state", 0), self._number(fields[2], "a label"),
                          self._number(fields[3], "a label")))
        self.weights.append(self._weight(fields[4:]))

    def _number(self, word: bytes, what: str, least: int = _INT32.min) -> int:
        number = int(word) if _LABEL.fullmatch(word) else _INT32.max + 1
        if not least <= number <= _INT32.max:
            raise self.reader.error(f"expected {what} in an FST, found {word[:40]!r}")
        return number

    def _weight(self, fields: list[bytes]) -> tuple[float, ...]:
        """Parse the weight in the last field of a line; 0 if there is none."""
        if not fields:
            return (0.0,) * self.width
        words = fields[0].split(b",")
        if len(words) == self.width and all(word in _SPECIAL or _NUMBER.fullmatch(word) for word in words):
            values = tuple(_SPECIAL[word] if word in _SPECIAL else float(word) for word in words)
            with np.errstate(over="ignore"):
                fits = [bool(np.isinf(np.float32(value))) == (word in _SPECIAL and bool(np.isinf(value)))
                        for value, word in zip(values, words, strict=True)]
            if all(fits):
                return values
        raise self.reader.error(f"expected {'a cost' if self.width == 1 else 'two costs'} in an FST, found "
                                f"{fields[0][:40]!r}")


    def arrays(self, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return final weights, arcs (int32 (arcs, 4)) and their weights; FormatError for far more states than lines.

        Weights are float32 (…, width).
        """
        arcs = np.array(self.arcs, dtype=np.int32).reshape(-1, 4)
        states = 1 + max(int(arcs[:, :2].max(initial=-1)), max(self.finals, default=-1))
        if states > 2 * self.count:
            raise self.reader.error(f"{what} of {self.count} lines cannot have {states} states")
        finals = np.full((states, self.width), NO_WEIGHT, dtype=np.float32)
        for state, weight in self.finals.items():
            finals[state] = weight
        return finals, arcs, np.array(self.weights, dtype=np.float32).reshape(-1, self.width)


def lines_of_text(reader: TokenReader, what: str) -> Iterator[list[bytes]]:
    """Read the newline before an FST in text, its lines as fields, and the empty line after it."""
    reader.take_while(_BLANKS)
    if reader.peek(1) != b"\n":
        raise reader.error(f"expected a newline before {what} in text, found {reader.peek(1)!r}")
    reader.raw(1)
    while fields := reader.read_line().split():
        yield fields


def read_text_fst(reader: TokenReader) -> Fst:
    """Read an FST in text, including the newline before it and the empty line after it; weights are float32."""
    lines = Lines(reader, 1)
    for fields in lines_of_text(reader, "an FST"):
        lines.add(fields)
    finals, arcs, weights = lines.arrays("an FST")
    return finished_fst(reader, Fst.from_arcs(lines.start, finals[:, 0], arcs[:, 0], arcs[:, 2], arcs[:, 3],
                                              weights[:, 0], arcs[:, 1]))


def write_text_fst(writer: TokenWriter, fst: Fst, digits: int = 7) -> None:
    """Write an FST in text; costs get ``digits`` digits."""
    write_states(writer, fst, [fst.input_labels, fst.output_labels], _texts(fst.weights, digits),
                 _texts(fst.final_weights, digits))


def write_states(writer: TokenWriter, graph: StateGraph, labels: Sequence[np.ndarray], weights: Sequence[bytes],
                 finals: Sequence[bytes]) -> None:
    """Write the lines of an FST or compact lattice; weights are in text, after a tab or empty."""
    form = b"\t".join([b"%d"] * (2 + len(labels))) + b"%b\n"
    columns = [values.tolist() for values in (graph.sources, graph.next_states, *labels)]
    arcs = [form % row for row in zip(*columns, weights, strict=True)]
    parts, starts, is_final = [b"\n"], graph.arc_starts.tolist(), graph.is_final.tolist()
    for state in sorted(range(graph.num_states), key=lambda state: state != graph.start):
        begin, end = starts[state], starts[state + 1]
        parts += arcs[begin:end]
        if is_final[state] or begin == end:
            parts.append(b"%d%b\n" % (state, finals[state]))
    writer.raw(b"".join(parts) + b"\n")


def _texts(weights: np.ndarray, digits: int) -> list[bytes]:
    """Return each weight as text after a tab; empty for a weight of 0."""
    rows = (weights if weights.ndim == 2 else weights[:, None]).tolist()
    return [b"\t" + b",".join(cost_text(value, digits) for value in row) if any(row) else b"" for row in rows]


def cost_text(value: float, digits: int) -> bytes:
    """Return a cost as text with ``digits`` significant digits, in OpenFst's format."""
    if math.isfinite(value):
        return b"%.*g" % (digits, value)
    return b"BadNumber" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"


FST: Holder[Fst] = Holder("FST", read_fst, write_fst, has_header=False)
