"""Which words can come next from each state of HCL: read from OpenFst's look-ahead files, or computed."""
from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace

import numpy as np

from nnet3py.decoding.decoding_graph import address, mapped_tables, table_words
from nnet3py.decoding.search_layout import (
    ARC_COST,
    ARC_INPUT,
    ARC_NEXT,
    ARC_OUTPUT,
    ARC_WORDS,
    FINAL,
    NUM_ARCS,
    STATE_WORDS,
)
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.fst.operations import arc_sorted
from nnet3py.io.object_files import FileContent
from nnet3py.io.streams import failed_command, open_input
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import NO_STATE, Fst, binary_header, read_header
from nnet3py.transducers.fst_binary import const_tables, write_binary_fst
from nnet3py.transducers.fst_text import read_fst

_HERE = "nnet3py.decoding.reach_loops"
_USES = ["nnet3py.decoding.search_layout", "nnet3py.lattices.subset_loops"]
_find_parts = Loop(_HERE, "find_parts", "u4* i4* i8 i4[] i4[] i4[] i4[] i4[] i8[] i4[]", _USES)
_find_intervals = Loop(_HERE, "find_intervals",
                       "u4* f4* i4* i4[] i4[] i8[] i4[] i8 i8[] i8[] i8[] i8[] i4[,]", _USES)
_check_intervals = Loop(_HERE, "check_intervals", "i4* i8 i8 i4[,]", _USES)

KIND = "olabel_lookahead"
_MAGIC = 446681434                      # of OpenFst's FSTs with additional data
_FILE_VERSION = 1
_OUTPUT_DATA = b"\1\0\1\0"              # there are data, none of input labels, some of output labels, which they are of
_FIRST_ROOM = 1 << 12
MOST_WORDS = 1 << 26


@dataclass(frozen=True, eq=False)
class Lookahead:
    """HCL, from transition-ids to labels that stand for words, and what can come next from its states.

    Attributes
    ----------
    start : the start state
    states, arcs : tables of 32-bit words, as in OpenFst's ``const`` files
    spans : int32 (states, 2), the labels that can come next if they are one half-open interval; else -1, and where in
        ``intervals`` they begin
    intervals : int32, intervals, sorted and apart, preceded by their number (two words), as in OpenFst's files
    final_label : the label that stands for ending
    label_of_word : int32, the label of each word; None if not known
    takes_words : whether G's input labels are words, since HCL's were
    """

    start: int
    states: np.ndarray
    arcs: np.ndarray
    spans: np.ndarray
    intervals: np.ndarray
    final_label: int
    label_of_word: np.ndarray | None = None
    takes_words: bool = False

    @classmethod
    def of_fst(cls, hcl: Fst) -> Lookahead:
        """Compute what can come next in a graph from transition-ids to words, and give the words labels."""
        states, arcs = (table_words(table, width) for table, width in
                        zip(const_tables(hcl), (STATE_WORDS, ARC_WORDS), strict=True))
        largest = int(hcl.output_labels.max(initial=0))
        if hcl.start < 0 or int(hcl.output_labels.min(initial=0)) < 0 or largest >= MOST_WORDS:
            raise ShapeError(f"a graph for decoding needs states, and output labels of 0 to {MOST_WORDS - 1}; found "
                             f"{hcl.num_states} states and the label {largest}")
        part, num_parts, labels = find_parts(states, arcs)
        final_label = int(labels[0]) + 1
        labels[0] = 0
        spans, intervals = _as_in_files(*_intervals(states, arcs, part, num_parts, labels, final_label))
        arcs = arcs.copy()
        arcs[:, ARC_OUTPUT] = labels[arcs[:, ARC_OUTPUT]]
        return cls(hcl.start, states, arcs, spans[part], intervals, final_label, labels, True)

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str]) -> Lookahead:
        """Read HCLr.fst, of type ``olabel_lookahead``; or HCL.fst of any other type, whose labels are words.

        FormatError for anything else.
        """
        with open_input(rxfilename) as stream:
            content = FileContent(stream)
            begin = bytes(content.reader().peek(4 + 4 + len(KIND)))
            if begin[:4 + 4 + len(KIND)].endswith(KIND.encode()):
                lookahead = _read_lookahead(content)
            else:
                lookahead = cls.of_fst(read_fst(content.reader()))
        if stream.status:
            raise failed_command(stream.path, stream.status)
        return lookahead

    def intervals_of(self, state: int) -> np.ndarray:
        """int32 (intervals, 2): the half-open ranges of labels that can come next from a state."""
        low, place = self.spans[state]
        size = 2 * self.intervals[place - 2] if low < 0 else 0
        return self.spans[state:state + 1] if low >= 0 else self.intervals[place:place + size].reshape(-1, 2)

    def interval_table(self) -> tuple[np.ndarray, np.ndarray]:
        """All intervals, int32 (intervals, 2), state by state; and int64 (states + 1,), where each state's begin."""
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
        """The same with other tables, and intervals as :meth:`interval_table` gives them."""
        spans, intervals = _as_in_files(starts, pairs)
        return replace(self, states=states, arcs=arcs, spans=spans, intervals=intervals)

    def write(self, writer: TokenWriter) -> None:
        """Write it as OpenFst's type ``olabel_lookahead``, the arcs of each state sorted by output label."""
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
        ends = np.cumsum(2 * counts + 3)                  # of each state: their number in two words, they, their sum
        begins = ends - (2 * counts + 3)
        words = np.zeros(int(ends[-1]), dtype="<i4")
        words[begins] = counts
        at = np.repeat(begins + 2 - 2 * starts[:-1], counts) + 2 * np.arange(len(pairs))
        words[at], words[at + 1] = pairs.T
        sums = np.concatenate(([0], np.cumsum(pairs[:, 1] - pairs[:, 0], dtype=np.int64)))
        words[ends - 1] = sums[starts[1:]] - sums[starts[:-1]]
        writer.raw(words.tobytes())

    def to_fst(self) -> Fst:
        """HCL as arrays of arcs, with its labels."""
        counts = self.states[:, NUM_ARCS].astype(np.int64)
        inputs, outputs, costs, targets = (np.ascontiguousarray(self.arcs[:, word]).view(np.int32) for word in (
            ARC_INPUT, ARC_OUTPUT, ARC_COST, ARC_NEXT))
        return Fst(self.start, np.ascontiguousarray(self.states[:, FINAL]).view(np.float32),
                   np.concatenate(([0], np.cumsum(counts))), inputs, outputs, costs.view(np.float32), targets)

    def labels_of_words(self) -> np.ndarray:
        """int32: the output labels that occur, each at its own place, and 0 at others: they stand for themselves."""
        outputs = self.arcs[:, ARC_OUTPUT]
        labels = np.zeros(int(outputs.max(initial=0)) + 1, dtype=np.int32)
        labels[outputs] = outputs
        return labels


def write_lookahead(writer: TokenWriter, hcl: Fst) -> np.ndarray:
    """Write a graph as OpenFst's type ``olabel_lookahead``: its output labels numbered anew, and what can come next.

    Returns int32, the new label of each old one, 0 for none: a grammar needs the new ones. ShapeError for labels below
    0, or a graph without states.
    """
    lookahead = Lookahead.of_fst(hcl)
    lookahead.write(writer)
    assert lookahead.label_of_word is not None
    return lookahead.label_of_word


def find_parts(states: np.ndarray, arcs: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """int32 (states,), parts: states that lead to each other by arcs without output label; and the number of parts.

    Also int32, numbers from 1 for the output labels that occur, with their count at 0.
    """
    size = len(states)
    labels = np.zeros(int(arcs[:, ARC_OUTPUT].max(initial=0)) + 1, dtype=np.int32)
    part = np.full(size, -1, dtype=np.int32)
    count = _find_parts(address(states), address(arcs), size, part.copy(), part.copy(), part,
                        *(np.empty(size, dtype=np.int32) for _ in range(2)), np.empty(size, dtype=np.int64), labels)
    return part, count, labels


def _intervals(states: np.ndarray, arcs: np.ndarray, part: np.ndarray, num_parts: int, labels: np.ndarray,
               final_label: int) -> tuple[np.ndarray, np.ndarray]:
    members = np.argsort(part, kind="stable").astype(np.int32)
    member_starts = np.searchsorted(part[members], np.arange(num_parts + 1)).astype(np.int64)
    starts, progress = np.zeros(num_parts + 1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    intervals = np.empty((_FIRST_ROOM, 2), dtype=np.int32)
    room = _FIRST_ROOM
    while _find_intervals(address(states), address(states), address(arcs), part, members, member_starts, labels,
                          final_label, np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), progress, starts,
                          intervals):
        room *= 2
        intervals = np.concatenate((intervals, np.empty_like(intervals)))
    return starts, intervals[:int(starts[-1])].copy()


def _as_in_files(starts: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Spans of the parts, int32 (parts, 2); intervals with their numbers before them."""
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
    """Read what OpenFst writes: a header, a whole ``const`` FST, and what can come next. Tables stay where they are."""
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
        raise reader.error("the look-ahead data end too early, or are not sorted intervals")
    return Lookahead(start, states, arcs, spans, intervals, final_label, label_of_word)


def _read_pairs(reader: TokenReader) -> np.ndarray:
    """Words and their labels."""
    count = int(reader.array("<i8", 1)[0])
    pairs = reader.array("<i4", 2 * count, "pairs of labels").reshape(-1, 2)
    if count and not 0 <= int(pairs[:, 0].min()) <= int(pairs[:, 0].max()) < MOST_WORDS:
        raise reader.error(f"expected words and their labels, found the word {pairs[:, 0].max()}")
    label_of_word = np.zeros(int(pairs[:, 0].max(initial=0)) + 1, dtype=np.int32)
    label_of_word[pairs[:, 0]] = pairs[:, 1]
    return label_of_word
