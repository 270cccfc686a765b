"""Phones in context: a graph of phones as a graph of windows. Kaldi: ``InverseContextFst``, ``ComposeContext``.

A window is a tuple of as many phones as the tree looks at; 0 stands for what lies before the first or behind the last
phone. Windows are known by their ids, which count from 1 in the order in which they are met.
"""
from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.io.fst import NO_WEIGHT, Fst
from nnet3py.io.fst_operations import connected

EPSILON = 0
NO_PHONE = 0          # in a window: before the first phone or behind the last
_REFUSED = -1         # what leads nowhere

Window = tuple[int, ...]


def expand_context(fst: Fst, width: int, central: int, disambig: Collection[int] = (), keep_outputs: bool = False,
                   ) -> tuple[Fst, list[Window]]:
    """Replace the phones on the arcs of a graph by windows of phones.

    If windows look at phones to the right, a window comes out as many arcs after its central phone went in; until then
    the arcs have epsilons. States are numbered breadth first; a state's arcs keep their order.

    Parameters
    ----------
    fst : input labels are phones, epsilons (0) and symbols in ``disambig``
    width : phones in a window
    central : position of the phone itself in it, from 0
    disambig : labels that are no phones and come through; the window of such a label d is ``(-d,)``
    keep_outputs : output labels stay; otherwise the result is an acceptor of windows

    Returns
    -------
    the graph, whose input labels are window ids; the windows, that of id i at place i - 1

    Raises
    ------
    FormatError : a label below 0
    Nnet3Error : a central position outside of the window, a graph without states
    """
    if not 0 <= central < width:
        raise Nnet3Error(f"expected a central position inside of a window of {width} phones, found {central}")
    if fst.start < 0:
        raise Nnet3Error("a graph without states cannot be expanded to phones in context")
    if fst.num_arcs and int(fst.input_labels.min()) < 0:
        raise FormatError(f"expected a graph whose labels are phones, found the label {fst.input_labels.min()}")
    end_symbol = int(fst.input_labels.max(initial=0)) + 1
    if central < width - 1:
        fst = _with_ends(fst, end_symbol)
    contexts = _Contexts(width, central, end_symbol, disambig)
    return _composed(fst, contexts, keep_outputs), contexts.windows


def _with_ends(fst: Fst, end_symbol: int) -> Fst:
    """The graph with arcs of the end symbol from all final states to a state with a loop of it."""
    final = np.flatnonzero(fst.is_final)
    last = fst.num_states
    sources = np.concatenate((fst.sources, final, [last]))
    symbols = np.full(len(final) + 1, end_symbol)
    return Fst.from_arcs(fst.start, np.append(fst.final_weights, np.float32(0.0)), sources,
                         np.concatenate((fst.input_labels, symbols)),
                         np.concatenate((fst.output_labels, np.full(len(symbols), EPSILON))),
                         np.concatenate((fst.weights, fst.final_weights[final], [0.0])),
                         np.concatenate((fst.next_states, np.full(len(symbols), last))))


class _Contexts:
    """The transducer from phones to windows, made as it is used. Its states are numbered histories of phones."""

    def __init__(self, width: int, central: int, end_symbol: int, disambig: Collection[int]) -> None:
        self.width, self.central, self.end_symbol = width, central, end_symbol
        self.disambig = frozenset(disambig)
        self.windows: list[Window] = []
        self._ids: dict[Window, int] = {(): EPSILON}
        self._histories: list[Window] = [(NO_PHONE,) * (width - 1)]
        self._numbers = {self._histories[0]: 0}
        self._steps: dict[tuple[int, int], tuple[int, int]] = {}

    def is_final(self, history: int) -> bool:
        """Whether an utterance may end here."""
        return self.central == self.width - 1 or self._histories[history][self.central] == self.end_symbol

    def step(self, history: int, symbol: int) -> tuple[int, int]:
        """The window id that a symbol brings out, and the history after it; -1 for both if it must not come here."""
        key = history, symbol
        if key not in self._steps:
            self._steps[key] = self._step(history, symbol)
        return self._steps[key]

    def _step(self, history: int, symbol: int) -> tuple[int, int]:
        if symbol == EPSILON:
            return EPSILON, history
        if symbol in self.disambig:
            return self._id((-symbol,)), history
        phones, end = self._histories[history], self.end_symbol
        full = (*phones, symbol)
        if phones and symbol != end and phones[-1] == end or full[self.central] == end:
            return _REFUSED, _REFUSED
        window = tuple(NO_PHONE if place > self.central and phone == end else phone
                       for place, phone in enumerate(full))
        following = full[1:]
        if following not in self._numbers:
            self._numbers[following] = len(self._histories)
            self._histories.append(following)
        return self._id(window if window[self.central] != NO_PHONE else ()), self._numbers[following]

    def _id(self, window: Window) -> int:
        if window not in self._ids:
            self.windows.append(window)
            self._ids[window] = len(self.windows)
        return self._ids[window]


def _composed(fst: Fst, contexts: _Contexts, keep_outputs: bool) -> Fst:
    starts, labels, targets = fst.arc_starts.tolist(), fst.input_labels.tolist(), fst.next_states.tolist()
    states = [(0, fst.start)]                      # history, state of the graph
    numbers = {states[0]: 0}
    sources, window_ids, next_states, taken = [], [], [], []
    for source, (history, state) in enumerate(states):
        for arc in range(starts[state], starts[state + 1]):
            window_id, following = contexts.step(history, labels[arc])
            if following == _REFUSED:
                continue
            target = following, targets[arc]
            number = numbers.setdefault(target, len(states))
            if number == len(states):
                states.append(target)
            sources.append(source)
            window_ids.append(window_id)
            next_states.append(number)
            taken.append(arc)
    finals = np.array([fst.final_weights[state] if contexts.is_final(history) else NO_WEIGHT
                       for history, state in states], dtype=np.float32)
    arcs = np.array(taken, dtype=np.int64)
    return connected(Fst.from_arcs(0, finals, sources, window_ids,
                                   fst.output_labels[arcs] if keep_outputs else window_ids, fst.weights[arcs],
                                   next_states))
