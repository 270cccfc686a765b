"""Phones in context for parts of grammars: windows of two phones, and nonterminals with the phone before them.

Kaldi: ``InverseLeftBiphoneContextFst``, ``ComposeContextLeftBiphone``.
"""
from __future__ import annotations

from collections.abc import Collection

from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.graphs.context import EPSILON, NO_PHONE, REFUSED, Window, composed
from nnet3py.graphs.nonterminals import Nonterminals
from nnet3py.transducers.fst import Fst

# Histories besides phones: after #nonterm_begin, #nonterm:X, #nonterm_end.
_ENTERED, _CALLED, _LEFT = -1, -2, -3


def expand_grammar_context(fst: Fst, nonterminals: Nonterminals, disambig: Collection[int] = (),
                           ) -> tuple[Fst, list[Window]]:
    """As :func:`nnet3py.graphs.context.expand_context` with left biphones as windows, and with nonterminals.

    The window of #nonterm_begin and the phone that follows it is ``(-begin, phone)``, that of #nonterm_end
    ``(-end, phone before)``; #nonterm:X and the phone that follows become ``(-X, phone before)`` and
    ``(-reenter, phone)``. Output labels are kept.

    Raises
    ------
    FormatError : a label below 0
    Nnet3Error : a graph without states
    """
    if fst.start < 0:
        raise Nnet3Error("a graph without states cannot be expanded to phones in context")
    if fst.num_arcs and int(fst.input_labels.min()) < 0:
        raise FormatError(f"expected a graph whose labels are phones, found the label {fst.input_labels.min()}")
    contexts = _LeftBiphones(nonterminals, disambig)
    return composed(fst, contexts, keep_outputs=True), contexts.windows


def check_left_biphones(width: int, central: int) -> None:
    """UsageError for windows of phones from which grammars in parts cannot be made."""
    if (width, central) != (2, 1):
        raise UsageError("grammars that are put together while decoding need windows of a phone and the one before it, "
                         f"but these have {width} phones, with place {central} for the phone itself",
                         "use a tree with --context-opts='--context-width=2 --central-position=1'")


class _LeftBiphones:
    """The transducer from phones to windows. A history is a phone, or whatever else came last."""

    def __init__(self, nonterminals: Nonterminals, disambig: Collection[int]) -> None:
        self._nonterminals, self._disambig = nonterminals, frozenset(disambig)
        self.windows: list[Window] = []
        self._ids: dict[Window, int] = {(): EPSILON}
        self._histories = [NO_PHONE]
        self._numbers = {NO_PHONE: 0}

    @property
    def num_histories(self) -> int:
        """Histories so far."""
        return len(self._histories)

    def is_final(self, history: int) -> bool:
        """Whether an utterance may end here."""
        return self._histories[history] not in (_ENTERED, _CALLED)

    def step(self, history: int, symbol: int) -> tuple[int, int]:
        """The window id that a symbol brings out, and the history after it; -1 for both if it must not come here."""
        if symbol in self._disambig:
            return self._id((-symbol,)), history
        names, before = self._nonterminals, self._histories[history]
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

    def _number(self, history: int) -> int:
        if history not in self._numbers:
            self._numbers[history] = len(self._histories)
            self._histories.append(history)
        return self._numbers[history]

    def _id(self, window: Window) -> int:
        if window not in self._ids:
            self.windows.append(window)
            self._ids[window] = len(self.windows)
        return self._ids[window]
