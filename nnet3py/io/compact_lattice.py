"""Compact lattices: acceptors of words or phones whose arcs bear the transition-ids of all their frames.

Of those ids only the number is kept, the length of the word or phone. Kaldi: ``CompactLattice``.
"""
from __future__ import annotations

import re
from array import array
from dataclasses import dataclass

import numpy as np

from nnet3py.io.fst import NO_WEIGHT, Fst, check_fst, read_header
from nnet3py.io.fst_text import Lines
from nnet3py.io.holders import Holder
from nnet3py.io.lattice import is_compact, read_compact_arcs, read_lattice
from nnet3py.io.tokens import TokenReader, TokenWriter

_BLANKS = b" \t\r\n"
_WEIGHT = re.compile(rb"([^,]+,[^,]+),((?:[0-9]{1,10}(?:_[0-9]{1,10})*)?)")


@dataclass(frozen=True)
class CompactLattice:
    """A compact lattice.

    Attributes
    ----------
    start : the start state; -1 if there are no states
    final_weights : float32 (states, 2), graph and acoustic costs; infinity: not final
    final_lengths : int32 (states,), transition-ids that come with the final weights
    sources, labels, next_states : int32 (arcs,); those of a state together, in the file's order
    weights : float32 (arcs, 2), graph and acoustic costs
    lengths : int32 (arcs,), transition-ids of each arc
    """

    start: int
    final_weights: np.ndarray
    final_lengths: np.ndarray
    sources: np.ndarray
    labels: np.ndarray
    next_states: np.ndarray
    weights: np.ndarray
    lengths: np.ndarray


def read_compact_lattice(reader: TokenReader) -> CompactLattice:
    """Read a compact lattice, in text or binary, or make one of a lattice; FormatError for anything else."""
    first = reader.peek(1)
    found = _Arcs()
    if first and first in _BLANKS:
        start = _read_text(reader, found)
    elif is_compact(reader):
        header = read_header(reader)
        read_compact_arcs(reader, header, found)
        start = header.start
    else:
        return joined(read_lattice(reader))
    lattice = found.lattice(start)
    problem = check_fst(Fst(start, lattice.final_weights, np.zeros(0), lattice.labels, lattice.labels, lattice.weights,
                            lattice.next_states))
    if problem:
        raise reader.error(f"expected a lattice: {problem}")
    return lattice


class _Arcs:
    """Collects arcs and final weights."""

    def __init__(self) -> None:
        self.numbers = array("i")         # of each arc: source, label, length, next state
        self.weights = array("d")
        self.finals: dict[int, tuple[tuple[float, float], int]] = {}
        self.num_states = 0

    def add_final(self, state: int, weight: tuple[float, float], ids: list[int]) -> None:
        self.finals[state] = weight, len(ids)
        self.num_states = max(self.num_states, state + 1)

    def add(self, source: int, word: int, weight: tuple[float, float], ids: list[int], target: int) -> None:
        self.numbers.extend((source, word, len(ids), target))
        self.weights.extend(weight)
        self.num_states = max(self.num_states, source + 1, target + 1)

    def lattice(self, start: int) -> CompactLattice:
        numbers = np.array(self.numbers, dtype=np.int32).reshape(-1, 4)
        final_weights = np.full((self.num_states, 2), NO_WEIGHT, dtype=np.float32)
        final_lengths = np.zeros(self.num_states, dtype=np.int32)
        with np.errstate(over="ignore"):
            for state, (weight, length) in self.finals.items():
                final_weights[state], final_lengths[state] = weight, length
            weights = np.array(self.weights).astype(np.float32).reshape(-1, 2)
        return _sorted(CompactLattice(start, final_weights, final_lengths, numbers[:, 0], numbers[:, 1], numbers[:, 3],
                                      weights, numbers[:, 2]))


def _sorted(lattice: CompactLattice) -> CompactLattice:
    """The lattice with the arcs of each state together."""
    order = np.argsort(lattice.sources, kind="stable")
    return CompactLattice(lattice.start, lattice.final_weights, lattice.final_lengths, lattice.sources[order],
                          lattice.labels[order], lattice.next_states[order], lattice.weights[order],
                          lattice.lengths[order])


def _read_text(reader: TokenReader, found: _Arcs) -> int:
    """Read lines up to an empty one: arcs of 3 or 4 fields, or of 4 or 5 in a lattice that is not compact."""
    reader.take_while(re.compile(rb"[ \t\r]*"))
    reader.raw(1)
    lines = Lines(reader, 2)
    while fields := reader.read_line().split():
        compact = _WEIGHT.fullmatch(fields[-1])
        weight = [compact[1]] if compact else []
        ids = [int(word) for word in compact[2].split(b"_") if word] if compact else []
        body = fields[:-1] if compact else fields
        if len(body) == 1:
            lines.add([*body, *weight])
            state = int(body[0])
            found.add_final(state, _pair(lines.finals[state]), ids)
        elif len(body) == 3:
            lines.add([*body, body[2], *weight])
            source, target, label, _ = lines.arcs[-1]
            found.add(source, label, _pair(lines.weights[-1]), ids, target)
        else:
            raise reader.error(f"expected a line of 1 to 4 fields in a compact lattice, found {len(fields)}",
                               hint="lattices in text must be compact here; lattice-copy --write-compact=true")
    if found.num_states > 2 * lines.count:
        raise reader.error(f"a lattice of {lines.count} lines cannot have {found.num_states} states")
    return lines.start


def _pair(weight: tuple[float, ...]) -> tuple[float, float]:
    return weight[0], weight[1]


def joined(lattice: Fst) -> CompactLattice:
    """A lattice whose arcs have a transition-id each as a compact one.

    Arcs that follow each other without a choice or a label between them become one. OpenFst: ``Factor``.
    """
    entered = np.bincount(lattice.next_states, minlength=lattice.num_states)
    leaving = np.diff(lattice.arc_starts)
    only = np.minimum(lattice.arc_starts[:-1], max(lattice.num_arcs - 1, 0))      # the arc of a state that has one
    inner = (entered == 1) & (leaving == 1) & ~lattice.is_final
    if lattice.num_arcs:
        inner &= lattice.output_labels[only] == 0
    if lattice.start >= 0:
        inner[lattice.start] = False
    numbers = np.cumsum(~inner) - 1
    found = _Arcs()
    labels, targets = lattice.output_labels.tolist(), lattice.next_states.tolist()
    emits, weights, sources = (lattice.input_labels != 0).tolist(), lattice.weights.tolist(), lattice.sources.tolist()
    for first in np.flatnonzero(~inner[lattice.sources]).tolist():
        arc, length = first, int(emits[first])
        graph, acoustic = weights[first]
        while inner[targets[arc]]:
            arc = int(only[targets[arc]])
            length += emits[arc]
            graph, acoustic = graph + weights[arc][0], acoustic + weights[arc][1]
        found.add(int(numbers[sources[first]]), labels[first], (graph, acoustic), [0] * length,
                  int(numbers[targets[arc]]))
    for state in np.flatnonzero(lattice.is_final).tolist():
        graph, acoustic = lattice.final_weights[state].tolist()
        found.add_final(int(numbers[state]), (graph, acoustic), [])
    found.num_states = int(np.count_nonzero(~inner))
    return found.lattice(int(numbers[lattice.start]) if lattice.start >= 0 else -1)


def _not_written(writer: TokenWriter, lattice: CompactLattice) -> None:
    raise NotImplementedError("compact lattices are read only: the transition-ids are not kept")


COMPACT_LATTICE: Holder[CompactLattice] = Holder("lattice", read_compact_lattice, _not_written, has_header=False)
