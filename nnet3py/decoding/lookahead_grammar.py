"""G as the loops read it that compose it with HCL: a table of states, arcs in one of two forms, running sums."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3py.decoding.decoding_graph import address, check_tables, mapped_tables, tables_of
from nnet3py.decoding.search_layout import (
    ARC_COST,
    ARC_INPUT,
    ARC_NEXT,
    ARC_OUTPUT,
    ARC_WORDS,
    FINAL,
    FIRST_ARC,
    NUM_ARCS,
    NUM_EPSILONS,
    PARENT,
    STATE_WORDS,
)
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.fst.operations import arc_sorted
from nnet3py.io.object_files import FileContent
from nnet3py.io.streams import failed_command, open_input
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst
from nnet3py.transducers.ngram_fst import NgramFst

_add_sums = Loop("nnet3py.decoding.lookahead_loops", "add_sums", "u4* i4* f4* i8 i8 i8 f8 f8*",
                 ["nnet3py.decoding.search_layout", "nnet3py.decoding.lookahead_layout",
                  "nnet3py.decoding.growing_loops", "nnet3py.engine.inline"])

_LARGEST_STATE = 1 << 30       # its number and a bit share a word


@dataclass(frozen=True, eq=False)
class GrammarTables:
    """G, its arcs sorted by label. Arrays are given by their addresses, with ``stride`` words from arc to arc.

    Attributes
    ----------
    start : the start state
    states : int32 (states, 5), as in ``search_layout.py``
    labels, outputs, costs, nexts : of arcs: HCL's label, the word, the cost, the next state
    stride : 4 where arcs lie in one table, with those without labels before the others; 1 for an n-gram model, which
        has an array for each, of arcs with labels only, and no next states: these are found by histories
    backoffs, context_words : of an n-gram model's states: the cost of backing off, the oldest word of the history
    children : int32 (states + 1,), where the histories begin that are a word longer; empty if it is no n-gram model
    sums : float64 (arcs,), running sums of ``exp(shift - cost)`` over each state's arcs with labels
    shift : the least cost of an arc
    arrays : what the addresses point to
    """

    start: int
    states: np.ndarray
    labels: int
    outputs: int
    costs: int
    nexts: int
    stride: int
    backoffs: int
    context_words: int
    children: np.ndarray
    sums: np.ndarray
    shift: float
    arrays: Any

    @classmethod
    def read(cls, rxfilename: str | os.PathLike[str]) -> GrammarTables:
        """Read a G of any type; ``const`` and ``ngram`` files are mapped into memory. FormatError, and as below."""
        with open_input(rxfilename) as stream:
            content = FileContent(stream)
            tables = mapped_tables(content)
            ngram = NgramFst.of_content(content) if tables is None else None
            if tables is not None:
                grammar = cls._of_tables(*tables[:3]) or cls.of_fst(_fst_of(*tables[:3]))
            else:
                grammar = cls.of_ngram(ngram) if ngram is not None else cls.of_fst(read_fst(content.reader()))
        if stream.status:
            raise failed_command(stream.path, stream.status)
        return grammar

    @classmethod
    def of_fst(cls, fst: Fst) -> GrammarTables:
        """Of any FST; a copy if its arcs are not sorted. ShapeError for one that no decoder can use."""
        tables = cls._of_tables(*tables_of(arc_sorted(fst)))
        assert tables is not None
        return tables

    @classmethod
    def _of_tables(cls, start: int, states: np.ndarray, arcs: np.ndarray) -> GrammarTables | None:
        """None if arcs are not sorted."""
        _check_size(start, len(states))
        check_tables(states, arcs, np.iinfo(np.int32).max)
        at = address(arcs)
        labels, outputs, costs, nexts = (at + 4 * word for word in (ARC_INPUT, ARC_OUTPUT, ARC_COST, ARC_NEXT))
        sums = _running_sums(states, labels, costs, ARC_WORDS, arcs[:, ARC_COST].view(np.float32))
        return sums and cls(start, states, labels, outputs, costs, nexts, ARC_WORDS, at, at,
                            np.zeros(0, dtype=np.int32), *sums, arcs)

    @classmethod
    def of_ngram(cls, ngram: NgramFst) -> GrammarTables:
        """Of an n-gram model, whose arcs are used where they are. ShapeError for one that no decoder can use."""
        _check_size(ngram.start, ngram.num_states)
        states = np.zeros((ngram.num_states, STATE_WORDS), dtype=np.int32)
        starts, parents = ngram.arc_starts, ngram.parents
        states[:, FINAL] = ngram.final_weights.view(np.int32)
        states[:, FIRST_ARC], states[:, NUM_ARCS] = starts[:-1], np.diff(starts)
        states[1:, NUM_EPSILONS], states[1:, PARENT] = 1, parents[1:]
        labels, costs = address(ngram.future_words), address(ngram.future_costs)
        sums = _running_sums(states, labels, costs, 1, ngram.future_costs)
        if sums is None:
            raise ShapeError("the words after a history are not in ascending order", "the file is damaged")
        return cls(ngram.start, states, labels, labels, costs, labels, 1, address(ngram.backoff),
                   address(ngram.context_words), ngram.children, *sums, ngram)

    @property
    def is_ngram(self) -> bool:
        """Whether it is an n-gram model, used in place: an acceptor whose only cycles have words."""
        return len(self.children) > 0

    def largest_word(self) -> int:
        """The largest word of an arc; 0 if there are none."""
        words = self.arrays.future_words if self.is_ngram else self.arrays[:, ARC_OUTPUT]
        return int(words.max(initial=0))

    def labels_without_word(self) -> np.ndarray:
        """int32: labels, not 0, that do not stand for words, such as that of #0, perhaps several times."""
        if self.is_ngram:
            return np.zeros(0, dtype=np.int32)
        labels: np.ndarray = self.arrays[self.arrays[:, ARC_OUTPUT] == 0, ARC_INPUT]
        return labels[labels != 0]

    def to_fst(self) -> Fst:
        """The same as arrays of arcs."""
        return self.arrays.to_fst() if self.is_ngram else _fst_of(self.start, self.states, self.arrays)

    def arguments(self) -> tuple[Any, ...]:
        """What the loops get of it."""
        return (address(self.states), address(self.states), self.labels, self.outputs, self.costs, self.nexts,
                self.stride, int(self.is_ngram), self.backoffs, self.context_words, address(self.children),
                address(self.sums), self.shift)


def _check_size(start: int, num_states: int) -> None:
    if start < 0:
        raise ShapeError("a grammar for decoding needs states; this one has none")
    if num_states >= _LARGEST_STATE:
        raise ShapeError(f"a grammar of {num_states} states is too large")


def _fst_of(start: int, states: np.ndarray, arcs: np.ndarray) -> Fst:
    starts = np.append(states[:, FIRST_ARC], len(arcs)).astype(np.int64)
    if starts[0] != 0 or not np.array_equal(np.diff(starts), states[:, NUM_ARCS]):
        raise ShapeError("the arcs of the grammar's states do not follow each other", "the file is damaged")
    inputs, outputs, costs, nexts = (np.ascontiguousarray(arcs[:, word]) for word in (
        ARC_INPUT, ARC_OUTPUT, ARC_COST, ARC_NEXT))
    return Fst(start, np.ascontiguousarray(states[:, FINAL]).view(np.float32), starts, inputs, outputs,
               costs.view(np.float32), nexts)


def _running_sums(states: np.ndarray, labels: int, costs: int, stride: int,
                  weights: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Running sums, and the least cost; None if arcs are not sorted."""
    least = float(weights.min(initial=np.inf))
    shift = least if np.isfinite(least) else 0.0
    sums = np.zeros(len(weights), dtype=np.float64)
    is_sorted = _add_sums(address(states), labels, costs, stride, len(states), int(stride == 1), shift, address(sums))
    return (sums, shift) if is_sorted else None
