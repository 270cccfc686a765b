"""Phones in context: expansion of a graph of phones, or of a grammar's parts, to windows of phones; files of windows.

A window is a tuple of as many phones as the tree's context is wide; 0 stands for no phone, before the first or after
the last one. Windows have ids, numbered from 1 in the order in which they are met. Kaldi: ``InverseContextFst``,
``ComposeContext``, ``InverseLeftBiphoneContextFst``, ``ReadILabelInfo``.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.graphs.grammar_fst import Nonterminals
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_operations import connected

EPSILON = 0
NO_PHONE = 0          # in a window: before the first phone or after the last
REFUSED = -1          # the window and history for symbols that cannot follow

_FIRST_ROOM = 1 << 10 # of arrays that grow
_DONE, _NEW_STEP, _, _MORE_ARCS = range(4)      # what _expand returns
_expand = Loop("nnet3py.graphs.context_loops", "expand",
               "i8[] i8[] i4[] i4[] i8[] i4[,] i8[] i4[] i4[] i4[] i4[] i4[] i4[] i8[]")
_insert = Loop("nnet3py.graphs.context_loops", "insert", "i8[] i8[] i8[]")

Window = tuple[int, ...]


def expand_context(fst: Fst, width: int, central: int, disambig: Collection[int] = (), keep_outputs: bool = False,
                   ) -> tuple[Fst, list[Window]]:
    """Replace the phones on the arcs of a graph by windows of phones.

    If windows have context to the right, a window is output that many arcs after its central phone was read; until then
    the arcs have epsilons. States are numbered breadth first; a state's arcs keep their order. Raises FormatError for a
    label below 0; Nnet3Error for a central position outside the window, or a graph without states.

    Parameters
    ----------
    fst : Fst, input labels are phones, epsilons (0) and symbols in ``disambig``
    width : int, phones in a window
    central : int, position of the phone itself in the window, from 0
    disambig : disambiguation symbols, which are not phones; the window of such a label d is ``(-d,)``. If there are
        any, and windows have context to the right, ``(0,)`` is output instead of epsilon before the first window
    keep_outputs : bool, keep output labels; otherwise the result is an acceptor of windows

    Returns
    -------
    The graph, whose input labels are window ids; and the windows, with id i at index i - 1.
    """
    if not 0 <= central < width:
        raise Nnet3Error(f"expected a central position inside of a window of {width} phones, found {central}")
    _check(fst)
    end_symbol = int(fst.input_labels.max(initial=0)) + 1
    if central < width - 1:
        fst = _with_ends(fst, end_symbol)
    contexts = _Phones(width, central, end_symbol, disambig)
    return composed(fst, contexts, keep_outputs), contexts.windows


def _check(fst: Fst) -> None:
    if fst.start < 0:
        raise Nnet3Error("a graph without states cannot be expanded to phones in context")
    if fst.num_arcs and int(fst.input_labels.min()) < 0:
        raise FormatError(f"expected a graph whose labels are phones, found the label {fst.input_labels.min()}")


def _with_ends(fst: Fst, end_symbol: int) -> Fst:
    """Return the graph with arcs of the end symbol from all final states to a new one, which has a self-loop of it."""
    final = np.flatnonzero(fst.is_final)
    last = fst.num_states
    sources = np.concatenate((fst.sources, final, [last]))
    symbols = np.full(len(final) + 1, end_symbol)
    return Fst.from_arcs(fst.start, np.append(fst.final_weights, np.float32(0.0)), sources,
                         np.concatenate((fst.input_labels, symbols)),
                         np.concatenate((fst.output_labels, np.full(len(symbols), EPSILON))),
                         np.concatenate((fst.weights, fst.final_weights[final], [0.0])),
                         np.concatenate((fst.next_states, np.full(len(symbols), last))))


class Contexts(ABC):
    """A transducer from phones to windows, expanded on demand. Its states are numbered histories, 0 being the start."""

    def __init__(self, start: Any, disambig: Collection[int]) -> None:
        self.disambig = frozenset(disambig)
        self.windows: list[Window] = []
        self._ids: dict[Window, int] = {(): EPSILON}
        self.histories = [start]
        self._numbers = {start: 0}

    @abstractmethod
    def is_final(self, history: int) -> bool:
        """Return whether an utterance may end with the history."""

    @abstractmethod
    def step(self, history: int, symbol: int) -> tuple[int, int]:
        """Return the window id that ``symbol`` outputs, and the next history; both -1 if it cannot follow ``history``.
        """

    def _number(self, history: Any) -> int:
        if history not in self._numbers:
            self._numbers[history] = len(self.histories)
            self.histories.append(history)
        return self._numbers[history]

    def _id(self, window: Window) -> int:
        if window not in self._ids:
            self.windows.append(window)
            self._ids[window] = len(self.windows)
        return self._ids[window]


class _Phones(Contexts):
    """The transducer to windows of phones; a history is as many phones as a window has, without the last."""

    def __init__(self, width: int, central: int, end_symbol: int, disambig: Collection[int]) -> None:
        super().__init__((NO_PHONE,) * (width - 1), disambig)
        self.width, self.central, self.end_symbol = width, central, end_symbol
        # output before the first window, without which graphs with disambiguation symbols cannot be determinized
        self.marks_starts = bool(self.disambig) and central < width - 1
        if self.marks_starts:
            self._id((NO_PHONE,))

    def is_final(self, history: int) -> bool:
        return self.central == self.width - 1 or self.histories[history][self.central] == self.end_symbol

    def step(self, history: int, symbol: int) -> tuple[int, int]:
        if symbol in self.disambig:
            return self._id((-symbol,)), history
        phones, end = self.histories[history], self.end_symbol
        full = (*phones, symbol)
        if phones and symbol != end and phones[-1] == end or full[self.central] == end:
            return REFUSED, REFUSED
        window = tuple(NO_PHONE if place > self.central and phone == end else phone
                       for place, phone in enumerate(full))
        following = self._number(full[1:])
        if window[self.central] == NO_PHONE:
            window = (NO_PHONE,) if self.marks_starts else ()
        return self._id(window), following


class _Table:
    """A growing hash table from int64 keys, none of them -1, to int32 values, for compiled code."""

    def __init__(self, columns: int) -> None:
        self.keys = np.full(_FIRST_ROOM, -1, dtype=np.int64)
        self.values = np.zeros((_FIRST_ROOM, columns), dtype=np.int32)
        self.count = 0

    def add(self, key: int, values: tuple[int, ...]) -> None:
        """Add a new key."""
        self.count += 1
        if 2 * self.count > len(self.keys):
            self.grow()
        slot = np.empty(1, dtype=np.int64)
        _insert(self.keys, np.array([key], dtype=np.int64), slot)
        self.values[slot[0]] = values

    def grow(self) -> None:
        """Double the table's size."""
        used = np.flatnonzero(self.keys != -1)
        keys, values = self.keys[used], self.values[used]
        self.keys = np.full(2 * len(self.keys), -1, dtype=np.int64)
        self.values = np.zeros((len(self.keys), values.shape[1]), dtype=np.int32)
        slots = np.empty(len(keys), dtype=np.int64)
        _insert(self.keys, keys, slots)
        self.values[slots] = values


def composed(fst: Fst, contexts: Contexts, keep_outputs: bool) -> Fst:
    """Compose a graph of phones with a transducer to windows; return a graph whose input labels are window ids.

    States are numbered breadth first.
    """
    steps, numbers = _Table(2), _Table(1)
    numbers.add(fst.start, (0,))                   # history 0 and the start
    pairs = np.zeros((2, _FIRST_ROOM), dtype=np.int32)        # history and state of each new state
    pairs[1, 0] = fst.start
    new_arcs = [np.empty(_FIRST_ROOM, dtype=dtype) for dtype in (np.int32, np.int32, np.int32, np.int64)]
    place = np.array([0, -1, 1, 0, 0, 0], dtype=np.int64)
    while (status := _expand(place, fst.arc_starts, fst.input_labels, fst.next_states, steps.keys, steps.values,
                             numbers.keys, numbers.values[:, 0], *pairs, *new_arcs)) != _DONE:
        if status == _NEW_STEP:
            history, symbol = place[4:].tolist()
            steps.add((history << 32) | symbol, contexts.step(history, symbol))
        elif status == _MORE_ARCS:
            new_arcs = [np.concatenate((values, np.empty_like(values))) for values in new_arcs]
        else:
            numbers.grow()
            pairs = np.concatenate((pairs, np.zeros_like(pairs)), axis=1)
    num_states, num_arcs = place[2:4].tolist()
    sources, window_ids, next_states, arcs = (values[:num_arcs] for values in new_arcs)
    is_final = np.array([contexts.is_final(history) for history in range(len(contexts.histories))])
    finals = np.where(is_final[pairs[0, :num_states]], fst.final_weights[pairs[1, :num_states]], NO_WEIGHT)
    return connected(Fst.from_arcs(0, finals, sources, window_ids,
                                   fst.output_labels[arcs] if keep_outputs else window_ids, fst.weights[arcs],
                                   next_states))


# Histories besides phones: after #nonterm_begin, #nonterm:X, #nonterm_end.
_ENTERED, _CALLED, _LEFT = -1, -2, -3


def expand_grammar_context(fst: Fst, nonterminals: Nonterminals, disambig: Collection[int] = (),
                           ) -> tuple[Fst, list[Window]]:
    """Replace the phones of a grammar's graph by left biphones, and its nonterminals by windows with a phone.

    #nonterm_begin and the phone that follows it become ``(-begin, phone)``, #nonterm_end becomes ``(-end, phone
    before)``; #nonterm:X becomes ``(-X, phone before)`` and the phone that follows it ``(-reenter, phone)``. Output
    labels are kept. Raises the errors of :func:`expand_context`, and returns the same. Kaldi:
    ``ComposeContextLeftBiphone``.
    """
    _check(fst)
    contexts = _LeftBiphones(nonterminals, disambig)
    return composed(fst, contexts, keep_outputs=True), contexts.windows


def check_left_biphones(width: int, central: int) -> None:
    """Raise UsageError unless windows are left biphones, which grammars with nonterminals need."""
    if (width, central) != (2, 1):
        raise UsageError("grammars that are put together while decoding need windows of a phone and the one before it, "
                         f"but these have {width} phones, with place {central} for the phone itself",
                         "use a tree with --context-opts='--context-width=2 --central-position=1'")


class _LeftBiphones(Contexts):
    """The transducer to left biphones. A history is the last phone, or the kind of the last nonterminal."""

    def __init__(self, nonterminals: Nonterminals, disambig: Collection[int]) -> None:
        super().__init__(NO_PHONE, disambig)
        self._nonterminals = nonterminals

    def is_final(self, history: int) -> bool:
        return self.histories[history] not in (_ENTERED, _CALLED)

    def step(self, history: int, symbol: int) -> tuple[int, int]:
        if symbol in self.disambig:
            return self._id((-symbol,)), history
        names, before = self._nonterminals, self.histories[history]
        if before in (_ENTERED, _CALLED):                    # only a phone that may have come before can follow
            if symbol > names.bos:
                return REFUSED, REFUSED
            window = (-(names.begin if before == _ENTERED else names.reenter), symbol)
            return self._id(window), self._number(NO_PHONE if symbol == names.bos else symbol)
        if before == _LEFT or symbol in (names.bos, names.reenter):
            return REFUSED, REFUSED
        if symbol < names.bos:
            return self._id((before, symbol)), self._number(symbol)
        if symbol == names.begin:
            return (EPSILON, self._number(_ENTERED)) if before == NO_PHONE else (REFUSED, REFUSED)
        window = (-symbol, names.bos if before == NO_PHONE else before)
        return self._id(window), self._number(_LEFT if symbol == names.end else _CALLED)


_LEAST_BYTES = 2        # of a window in a file


def read_windows(rxfilename: str) -> list[Window]:
    """Read a file of windows (Kaldi: ilabel_info), without the empty one of label 0; FormatError for other files."""
    return read_object(rxfilename, _read)


def _read(reader: TokenReader) -> list[Window]:
    count = reader.integer()
    reader.check_count(count, _LEAST_BYTES, "windows of phones")
    if count < 1:
        raise reader.error(f"expected windows of phones, the first for label 0, found {count} of them")
    windows = [tuple(reader.integer_vector().tolist()) for _ in range(count)]
    if windows[0]:
        raise reader.error(f"expected an empty window for label 0, found {windows[0]}")
    wrong = next((number for number, window in enumerate(windows[1:], 1) if not window), 0)
    if wrong:
        raise reader.error(f"expected a window of phones for label {wrong}, found an empty one")
    return windows[1:]


def write_windows(wxfilename: str, windows: Sequence[Window], binary: bool = True) -> None:
    """Write a file of windows (Kaldi: ilabel_info), with an empty window for label 0 first."""
    def write(writer: TokenWriter) -> None:
        writer.integer(len(windows) + 1)
        for window in ((), *windows):
            writer.integer_vector(np.array(window, dtype=np.int32))

    write_object(wxfilename, write, binary)
