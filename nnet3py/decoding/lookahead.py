"""Which words can come next from each state of HCL: read from OpenFst's look-ahead files, or computed."""
from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from nnet3py.decoding.decoding_graph import address, table_words
from nnet3py.decoding.search_layout import ARC_OUTPUT, ARC_WORDS, STATE_WORDS
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.io.object_files import token_reader
from nnet3py.io.streams import failed_command, open_input
from nnet3py.io.tokens import TokenReader
from nnet3py.transducers.fst import Fst, read_header
from nnet3py.transducers.fst_binary import const_tables, read_binary_fst
from nnet3py.transducers.fst_text import read_fst

_HERE = "nnet3py.decoding.reach_loops"
_USES = ["nnet3py.decoding.search_layout", "nnet3py.lattices.subsets"]
_find_parts = Loop(_HERE, "find_parts", "u4* i4* i8 i4[] i4[] i4[] i4[] i4[] i8[] i4[]", _USES)
_find_intervals = Loop(_HERE, "find_intervals",
                       "u4* f4* i4* i4[] i4[] i8[] i4[] i8 i8[] i8[] i8[] i8[] i4[,]", _USES)
_read_intervals = Loop(_HERE, "read_intervals", "i4[] i8 i8[] i4[,]", _USES)

KIND = "olabel_lookahead"
_MAGIC = 446681434                      # of OpenFst's FSTs with additional data
_FIRST_ROOM = 1 << 12
MOST_WORDS = 1 << 26


@dataclass(frozen=True, eq=False)
class Lookahead:
    """HCL, from transition-ids to labels that stand for words, and what can come next from its states.

    Attributes
    ----------
    start : the start state
    states, arcs : tables of 32-bit words, as in OpenFst's ``const`` files
    part_of_state : int32 (states,), the part whose intervals a state has
    starts : int64 (parts + 1,), where the intervals of each part begin
    intervals : int32 (intervals, 2), half-open ranges of labels, sorted
    final_label : the label that stands for ending
    label_of_word : int32, the label of each word; None if not known
    takes_words : whether G's input labels are words, since HCL's were
    """

    start: int
    states: np.ndarray
    arcs: np.ndarray
    part_of_state: np.ndarray
    starts: np.ndarray
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
        starts, intervals = _intervals(states, arcs, part, num_parts, labels, final_label)
        arcs = arcs.copy()
        arcs[:, ARC_OUTPUT] = labels[arcs[:, ARC_OUTPUT]]
        return cls(hcl.start, states, arcs, part, starts, intervals, final_label, labels, True)

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str]) -> Lookahead:
        """Read HCLr.fst, of type ``olabel_lookahead``; or HCL.fst of any other type, whose labels are words.

        FormatError for anything else.
        """
        with open_input(rxfilename) as stream:
            reader = token_reader(stream)
            begin = bytes(reader.peek(4 + 4 + len(KIND)))
            if begin.endswith(KIND.encode()):
                lookahead = _read_lookahead(reader)
            else:
                lookahead = cls.of_fst(read_fst(reader))
        if stream.status:
            raise failed_command(stream.path, stream.status)
        return lookahead


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


def _read_lookahead(reader: TokenReader) -> Lookahead:
    """Read what OpenFst writes: a header, a whole ``const`` FST, and what can come next."""
    header = read_header(reader)
    magic = int(reader.array("<i4", 1)[0])
    if header.arc_type != "standard" or magic != _MAGIC:
        raise reader.error(f"expected look-ahead data of an FST of arcs of type 'standard', found {magic} for arcs of "
                           f"type '{header.arc_type}'")
    hcl = read_binary_fst(reader)
    flags = reader.raw(4)           # there are two sets of data, for input and output labels, each perhaps missing
    if flags != b"\1\0\1\0":
        raise reader.error(f"expected look-ahead data of output labels, found {bytes(flags).hex()}",
                           hint="fstconvert --fst_type=olabel_lookahead makes them")
    label_of_word = _read_pairs(reader) if reader.raw(1) != b"\0" else None
    final_label = int(reader.array("<i4", 1)[0])
    num_states = int(reader.array("<i8", 1)[0])
    if not 0 < num_states <= hcl.num_states + 1 or num_states < hcl.num_states:
        raise reader.error(f"expected look-ahead data of {hcl.num_states} states, found them of {num_states}")
    words = np.frombuffer(bytearray(_rest(reader)), dtype=np.int32)
    starts = np.zeros(num_states + 1, dtype=np.int64)
    intervals = np.empty((len(words) // 2 + 1, 2), dtype=np.int32)
    if _read_intervals(words, num_states, starts, intervals) < 0:
        raise reader.error("the look-ahead data end too early, or are not sorted intervals")
    states, arcs = (table_words(table, width) for table, width in
                    zip(const_tables(hcl), (STATE_WORDS, ARC_WORDS), strict=True))
    return Lookahead(hcl.start, states, arcs, np.arange(hcl.num_states, dtype=np.int32), starts,
                     intervals[:int(starts[-1])].copy(), final_label, label_of_word)


def _read_pairs(reader: TokenReader) -> np.ndarray:
    """Words and their labels."""
    count = int(reader.array("<i8", 1)[0])
    pairs = reader.array("<i4", 2 * count, "pairs of labels").reshape(-1, 2)
    if count and not 0 <= int(pairs[:, 0].min()) <= int(pairs[:, 0].max()) < MOST_WORDS:
        raise reader.error(f"expected words and their labels, found the word {pairs[:, 0].max()}")
    label_of_word = np.zeros(int(pairs[:, 0].max(initial=0)) + 1, dtype=np.int32)
    label_of_word[pairs[:, 0]] = pairs[:, 1]
    return label_of_word


def _rest(reader: TokenReader) -> bytes:
    """The rest of a file, in whole 32-bit words."""
    parts = []
    while not reader.at_end():
        parts.append(bytes(reader.raw(len(reader.peek(1 << 20)))))
    content = b"".join(parts)
    return content[:len(content) // 4 * 4]
