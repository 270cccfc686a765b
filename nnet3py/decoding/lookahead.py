"""HCL with look-ahead data, and G, in the arrays that ``lookahead_loops.py`` needs.

Look-ahead data are, for each state of HCL, the output labels that can come next: read from OpenFst's files, or
computed.
"""
from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnet3py.decoding import layout
from nnet3py.decoding.decoding_graph import address, check_tables, mapped_tables, opened_content, tables_of
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.fst.operations import arc_sorted
from nnet3py.io.object_files import FileContent
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import NO_STATE, Fst, binary_header, read_header
from nnet3py.transducers.fst_binary import write_binary_fst
from nnet3py.transducers.fst_text import read_fst
from nnet3py.transducers.ngram_fst import NgramFst

_HERE = "nnet3py.decoding.graph_loops"
_USES = ["nnet3py.decoding.layout", "nnet3py.lattices.subset_loops"]
_find_components = Loop(_HERE, "find_components", "u4* i4* i8 i4[] i4[] i4[] i4[] i4[] i8[] i4[]", _USES)
_find_intervals = Loop(_HERE, "find_intervals",
                       "u4* f4* i4* i4[] i4[] i8[] i4[] i8 i8[] i8[] i8[] i8[] i4[,]", _USES)
_check_intervals = Loop(_HERE, "check_intervals", "i4* i8 i8 i4[,]", _USES)
_add_sums = Loop("nnet3py.decoding.lookahead_loops", "add_sums", "u4* i4* f4* i8 i8 i8 f8 f8*",
                 ["nnet3py.decoding.layout", _HERE, "nnet3py.engine.inline"])

_LARGEST_STATE = 1 << 30       # its number and a bit share a word
KIND = "olabel_lookahead"
_MAGIC = 446681434                      # of OpenFst's FSTs with additional data
_FILE_VERSION = 1
_OUTPUT_DATA = b"\1\0\1\0"              # flags: additional data exist; for output labels, not for input labels
_FIRST_ROOM = 1 << 12
MOST_WORDS = 1 << 26


@dataclass(frozen=True, eq=False)
class Lookahead:
    """HCL, a graph from transition-ids to labels of words, with look-ahead data.

    Labels are numbered so that those that can come next from a state form few intervals.
    """

    start: int                               # the start state
    # states, arcs: int32 (states, 5) and (arcs, 4), tables as in OpenFst's ``const`` files
    states: np.ndarray
    arcs: np.ndarray
    # int32 (states, 2), the half-open interval of labels that can come next; if there are several, -1 and the index in
    # ``intervals`` of the first
    spans: np.ndarray
    # int32, for each state the number of intervals (two words) and its intervals, sorted and disjoint, as in OpenFst's
    # files
    intervals: np.ndarray
    final_label: int                         # the label in intervals for the end of a path
    label_of_word: np.ndarray | None = None  # int32, the label of each word; None: unknown
    takes_words: bool = False  # whether the output labels were words before; then the input labels of G must be words

    @classmethod
    def of_fst(cls, hcl: Fst) -> Lookahead:
        """Compute the look-ahead data of a graph from transition-ids to words; words are replaced by new labels."""
        _, states, arcs = tables_of(hcl)
        largest = int(hcl.output_labels.max(initial=0))
        if hcl.start < 0 or int(hcl.output_labels.min(initial=0)) < 0 or largest >= MOST_WORDS:
            raise ShapeError(f"a graph for decoding needs states, and output labels of 0 to {MOST_WORDS - 1}; found "
                             f"{hcl.num_states} states and the label {largest}")
        component, num_components, labels = find_components(states, arcs)
        final_label = int(labels[0]) + 1
        labels[0] = 0
        spans, intervals = _as_in_files(*_intervals(states, arcs, component, num_components, labels, final_label))
        arcs = arcs.copy()
        arcs[:, layout.ARC_OUTPUT] = labels[arcs[:, layout.ARC_OUTPUT]]
        return cls(hcl.start, states, arcs, spans[component], intervals, final_label, labels, True)

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str]) -> Lookahead:
        """Read HCLr.fst, of type ``olabel_lookahead``, or HCL.fst, of another type, from transition-ids to words.

        Raises FormatError for other files.
        """
        with opened_content(rxfilename) as content:
            begin = bytes(content.reader().peek(4 + 4 + len(KIND)))
            if begin[:4 + 4 + len(KIND)].endswith(KIND.encode()):
                return _read_lookahead(content)
            return cls.of_fst(read_fst(content.reader()))

    def intervals_of(self, state: int) -> np.ndarray:
        """Return the half-open intervals of labels that can come next from a state, int32 (intervals, 2)."""
        low, place = self.spans[state]
        size = 2 * self.intervals[place - 2] if low < 0 else 0
        return self.spans[state:state + 1] if low >= 0 else self.intervals[place:place + size].reshape(-1, 2)

    def interval_table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return where each state's intervals begin, int64 (states + 1,), and all intervals, int32 (intervals, 2)."""
        low, place = self.spans.T.astype(np.int64)
        counts = np.where(low >= 0, 1, self.intervals[place - 2] if len(self.intervals) else 1)
        starts = np.concatenate(([0], np.cumsum(counts)))
        rank = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        pairs = np.repeat(self.spans, counts, axis=0)
        several = np.repeat(low < 0, counts)
        at = (np.repeat(place, counts) + 2 * rank)[several]
        pairs[several] = self.intervals[at[:, None] + np.arange(2)]
        return starts, pairs

    def with_graph(self, states: np.ndarray, arcs: np.ndarray, starts: np.ndarray, pairs: np.ndarray) -> Lookahead:
        """Return a copy with other states and arcs, and other intervals in the form of :meth:`interval_table`."""
        spans, intervals = _as_in_files(starts, pairs)
        return replace(self, states=states, arcs=arcs, spans=spans, intervals=intervals)

    def write(self, writer: TokenWriter) -> None:
        """Write an FST of OpenFst's type ``olabel_lookahead``, the arcs of each state sorted by output label."""
        graph = arc_sorted(self.to_fst(), by_output=True)
        writer.raw(binary_header(KIND, graph.arc_type, 0, NO_STATE, 0, version=_FILE_VERSION))
        writer.raw(_MAGIC.to_bytes(4, "little"))
        write_binary_fst(writer, graph, "const")
        writer.raw(_OUTPUT_DATA)
        if self.label_of_word is None or self.takes_words:
            writer.raw(b"\0")                 # the old labels are not kept
        else:
            pairs = np.stack((np.arange(len(self.label_of_word)), self.label_of_word), axis=1)[self.label_of_word > 0]
            writer.raw(b"\1" + struct.pack("<q", len(pairs)) + pairs.astype("<i4").tobytes())
        writer.raw(struct.pack("<iq", self.final_label, graph.num_states))
        starts, pairs = self.interval_table()
        counts = np.diff(starts)
        ends = np.cumsum(2 * counts + 3)       # words of a state: number of intervals (2), intervals, number of labels
        begins = ends - (2 * counts + 3)
        words = np.zeros(int(ends[-1]), dtype="<i4")
        words[begins] = counts
        at = np.repeat(begins + 2 - 2 * starts[:-1], counts) + 2 * np.arange(len(pairs))
        words[at], words[at + 1] = pairs.T
        sums = np.concatenate(([0], np.cumsum(pairs[:, 1] - pairs[:, 0], dtype=np.int64)))
        words[ends - 1] = sums[starts[1:]] - sums[starts[:-1]]
        writer.raw(words.tobytes())

    def to_fst(self) -> Fst:
        """Return HCL as an FST."""
        return _fst_of(self.start, self.states, self.arcs)

    def labels_of_words(self) -> np.ndarray:
        """Return an array from word to label, int32, for a graph whose labels are words; 0: no arc has the word."""
        outputs = self.arcs[:, layout.ARC_OUTPUT]
        labels = np.zeros(int(outputs.max(initial=0)) + 1, dtype=np.int32)
        labels[outputs] = outputs
        return labels


def write_lookahead(writer: TokenWriter, hcl: Fst) -> np.ndarray:
    """Write a graph as OpenFst's type ``olabel_lookahead``, with look-ahead data and renumbered output labels.

    Returns the new label of each old one, int32, 0 for labels that no arc has; G must be relabeled so. Raises
    ShapeError for negative labels, or a graph without states.
    """
    lookahead = Lookahead.of_fst(hcl)
    lookahead.write(writer)
    assert lookahead.label_of_word is not None
    return lookahead.label_of_word


def find_components(states: np.ndarray, arcs: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """Find the strongly connected components of a graph without its arcs with output labels; renumber output labels.

    Return int32 (states,), the component of each state; the number of components; int32, new numbers from 1 for the
    output labels that occur, with their count at index 0.
    """
    size = len(states)
    labels = np.zeros(int(arcs[:, layout.ARC_OUTPUT].max(initial=0)) + 1, dtype=np.int32)
    component = np.full(size, -1, dtype=np.int32)
    count = _find_components(address(states), address(arcs), size, component.copy(), component.copy(), component,
                             *(np.empty(size, dtype=np.int32) for _ in range(2)), np.empty(size, dtype=np.int64),
                             labels)
    return component, count, labels


def _intervals(states: np.ndarray, arcs: np.ndarray, component: np.ndarray, num_components: int, labels: np.ndarray,
               final_label: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where each component's intervals begin, int64 (components + 1,), and all intervals, int32 (intervals, 2).
    """
    members = np.argsort(component, kind="stable").astype(np.int32)
    member_starts = np.searchsorted(component[members], np.arange(num_components + 1)).astype(np.int64)
    starts, progress = np.zeros(num_components + 1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    intervals = np.empty((_FIRST_ROOM, 2), dtype=np.int32)
    room = _FIRST_ROOM
    while _find_intervals(address(states), address(states), address(arcs), component, members, member_starts, labels,
                          final_label, np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), progress, starts,
                          intervals):
        room *= 2
        intervals = np.concatenate((intervals, np.empty_like(intervals)))
    return starts, intervals[:int(starts[-1])].copy()


def _as_in_files(starts: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Convert intervals to the attributes ``spans`` and ``intervals`` of :class:`Lookahead`."""
    sizes = np.diff(starts)
    places = 2 * starts[:-1] + 2 * np.arange(1, len(starts))
    words = np.zeros(2 * len(intervals) + 2 * len(sizes), dtype=np.int32)
    words[places - 2] = sizes
    is_number = np.zeros(len(words), dtype=bool)
    is_number[places - 2] = is_number[places - 1] = True
    words[~is_number] = intervals.reshape(-1)
    spans = np.stack((np.full(len(sizes), -1), places), axis=1).astype(np.int32)
    single = sizes == 1
    spans[single] = intervals[starts[:-1][single]]
    return spans, words


def _read_lookahead(content: FileContent) -> Lookahead:
    """Read a file of type ``olabel_lookahead``: a header, a ``const`` FST, and look-ahead data. Tables are mapped."""
    reader = content.reader()
    header = read_header(reader)
    magic = int(reader.array("<i4", 1)[0])
    if header.arc_type != "standard" or magic != _MAGIC:
        raise reader.error(f"expected look-ahead data of an FST of arcs of type 'standard', found {magic} for arcs of "
                           f"type '{header.arc_type}'")
    tables = mapped_tables(content, reader.offset)
    if tables is None:
        raise reader.error("expected an FST of type 'const' with look-ahead data")
    start, states, arcs, end = tables
    reader = content.reader(end)
    flags = reader.raw(4)           # there are two sets of data, for input and output labels, each perhaps missing
    if flags != _OUTPUT_DATA:
        raise reader.error(f"expected look-ahead data of output labels, found {bytes(flags).hex()}",
                           hint="fstconvert --fst_type=olabel_lookahead makes them")
    label_of_word = _read_pairs(reader) if reader.raw(1) != b"\0" else None
    final_label = int(reader.array("<i4", 1)[0])
    num_states = int(reader.array("<i8", 1)[0])
    if start == NO_STATE or not len(states) <= num_states <= len(states) + 1:
        raise reader.error(f"expected look-ahead data of {len(states)} states, found them of {num_states}, the start "
                           f"state being {start}")
    intervals = content.array(np.int32, reader.offset, content.size)
    spans = np.empty((num_states, 2), dtype=np.int32)
    if _check_intervals(address(intervals), len(intervals), num_states, spans) < 0:
        raise reader.error("the look-ahead data end too early, or their intervals are not sorted")
    return Lookahead(start, states, arcs, spans, intervals, final_label, label_of_word)


def _read_pairs(reader: TokenReader) -> np.ndarray:
    """Read pairs of a word and its label; return the label of each word, int32, 0 for none."""
    count = int(reader.array("<i8", 1)[0])
    pairs = reader.array("<i4", 2 * count, "pairs of labels").reshape(-1, 2)
    if count and not 0 <= int(pairs[:, 0].min()) <= int(pairs[:, 0].max()) < MOST_WORDS:
        raise reader.error(f"expected words and their labels, found the word {pairs[:, 0].max()}")
    label_of_word = np.zeros(int(pairs[:, 0].max(initial=0)) + 1, dtype=np.int32)
    label_of_word[pairs[:, 0]] = pairs[:, 1]
    return label_of_word



@dataclass(frozen=True, eq=False)
class GrammarTables:
    """G with the arcs of each state sorted by label, as memory addresses of arrays for the loops."""

    start: int          # the start state
    states: np.ndarray  # int32 (states, 5), columns as in ``layout.py``
    # labels, outputs, costs, nexts: addresses of the arcs' labels (of HCL), words, costs and next states
    labels: int
    outputs: int
    costs: int
    nexts: int
    # distance of successive arcs in 32-bit words. 4: a table of arcs, those without labels first; 1: an n-gram model,
    # with an array for each property of arcs that have labels, whose next states are found by histories
    stride: int
    # backoffs, context_words: for an n-gram model, addresses of the states' back-off costs and of the oldest words of
    # their histories
    backoffs: int
    context_words: int
    # for an n-gram model, int32 (states + 1,), the first state whose history is one word longer; else empty
    children: np.ndarray
    sums: np.ndarray    # float64 (arcs,), running sums of ``exp(shift - cost)`` over each state's arcs with labels
    shift: float        # the least cost of an arc, so that sums do not underflow
    arrays: Any         # the owner of the memory at the addresses: the table of arcs, or the n-gram model

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str]) -> GrammarTables:
        """Read a G of any FST type; ``const`` and ``ngram`` files are mapped into memory.

        Raises FormatError for other files, ShapeError for invalid labels or costs.
        """
        with opened_content(rxfilename) as content:
            tables = mapped_tables(content)
            if tables is not None:
                return cls._of_tables(*tables[:3]) or cls.of_fst(_fst_of(*tables[:3]))
            ngram = NgramFst.of_content(content)
            return cls.of_ngram(ngram) if ngram is not None else cls.of_fst(read_fst(content.reader()))

    @classmethod
    def of_fst(cls, fst: Fst) -> GrammarTables:
        """Convert an FST, sorting its arcs. Raises ShapeError for invalid labels or costs."""
        tables = cls._of_tables(*tables_of(arc_sorted(fst)))
        assert tables is not None
        return tables

    @classmethod
    def _of_tables(cls, start: int, states: np.ndarray, arcs: np.ndarray) -> GrammarTables | None:
        """Use tables of an FST without copying them; None if arcs are not sorted by label."""
        _check_size(start, len(states))
        check_tables(states, arcs, np.iinfo(np.int32).max)
        at = address(arcs)
        labels, outputs, costs, nexts = (at + 4 * word for word in (
            layout.ARC_INPUT, layout.ARC_OUTPUT, layout.ARC_COST, layout.ARC_NEXT))
        sums = _running_sums(states, labels, costs, layout.ARC_WORDS, arcs[:, layout.ARC_COST].view(np.float32))
        return sums and cls(start, states, labels, outputs, costs, nexts, layout.ARC_WORDS, at, at,
                            np.zeros(0, dtype=np.int32), *sums, arcs)

    @classmethod
    def of_ngram(cls, ngram: NgramFst) -> GrammarTables:
        """Use the arrays of an n-gram model without copying them. Raises ShapeError for words that are not sorted."""
        _check_size(ngram.start, ngram.num_states)
        states = np.zeros((ngram.num_states, layout.STATE_WORDS), dtype=np.int32)
        starts, parents = ngram.arc_starts, ngram.parents
        states[:, layout.FINAL] = ngram.final_weights.view(np.int32)
        states[:, layout.FIRST_ARC], states[:, layout.NUM_ARCS] = starts[:-1], np.diff(starts)
        states[1:, layout.NUM_EPSILONS], states[1:, layout.PARENT] = 1, parents[1:]
        labels, costs = address(ngram.future_words), address(ngram.future_costs)
        sums = _running_sums(states, labels, costs, 1, ngram.future_costs)
        if sums is None:
            raise ShapeError("the words after a history are not in ascending order", "the file is damaged")
        return cls(ngram.start, states, labels, labels, costs, labels, 1, address(ngram.backoff),
                   address(ngram.context_words), ngram.children, *sums, ngram)

    @property
    def is_ngram(self) -> bool:
        """True if G is an n-gram model in OpenFst's type ``ngram``."""
        return len(self.children) > 0

    def largest_word(self) -> int:
        """Return the largest output label; 0 if there are no words."""
        words = self.arrays.future_words if self.is_ngram else self.arrays[:, layout.ARC_OUTPUT]
        return int(words.max(initial=0))

    def labels_without_word(self) -> np.ndarray:
        """Return the nonzero input labels of arcs without output label, such as that of #0, int32, with repetitions."""
        if self.is_ngram:
            return np.zeros(0, dtype=np.int32)
        labels: np.ndarray = self.arrays[self.arrays[:, layout.ARC_OUTPUT] == 0, layout.ARC_INPUT]
        return labels[labels != 0]

    def to_fst(self) -> Fst:
        """Return G as an FST."""
        return self.arrays.to_fst() if self.is_ngram else _fst_of(self.start, self.states, self.arrays)

    def for_loops(self) -> layout.Grammar:
        """Return the tables as an argument of compiled functions."""
        states = address(self.states)
        return layout.Grammar(states, states, self.labels, self.outputs, self.costs, self.nexts, self.stride,
                              int(self.is_ngram), self.backoffs, self.context_words, address(self.children),
                              address(self.sums), self.shift)


def _check_size(start: int, num_states: int) -> None:
    if start < 0:
        raise ShapeError("a grammar for decoding needs states; this grammar has none")
    if num_states >= _LARGEST_STATE:
        raise ShapeError(f"the grammar has {num_states} states, but must have fewer than {_LARGEST_STATE}")


def _fst_of(start: int, states: np.ndarray, arcs: np.ndarray) -> Fst:
    starts = np.append(states[:, layout.FIRST_ARC], len(arcs)).astype(np.int64)
    if starts[0] != 0 or not np.array_equal(np.diff(starts), states[:, layout.NUM_ARCS]):
        raise ShapeError("the arcs of the graph's states do not follow each other", "the file is damaged")
    inputs, outputs, costs, nexts = (np.ascontiguousarray(arcs[:, word]) for word in (
        layout.ARC_INPUT, layout.ARC_OUTPUT, layout.ARC_COST, layout.ARC_NEXT))
    return Fst(start, np.ascontiguousarray(states[:, layout.FINAL]).view(np.float32), starts, inputs, outputs,
               costs.view(np.float32), nexts)


def _running_sums(states: np.ndarray, labels: int, costs: int, stride: int,
                  weights: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Return the attributes ``sums`` and ``shift`` of :class:`GrammarTables`; None if arcs are not sorted by label."""
    least = float(weights.min(initial=np.inf))
    shift = least if np.isfinite(least) else 0.0
    sums = np.zeros(len(weights), dtype=np.float64)
    is_sorted = _add_sums(address(states), labels, costs, stride, len(states), int(stride == 1), shift, address(sums))
    return (sums, shift) if is_sorted else None
