"""Language models that are looked up word by word: from each state a word leads to one state, at one cost.

States are numbered as they are met; lookups are cached. Kaldi: DeterministicOnDemandFst.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.fst.const_arpa import ConstArpa
from nnet3py.io.object_files import read_object
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst

State = TypeVar("State")
# Gives states, each with words that are likely to be looked up in it and in those that they lead to, one after another.
Likely: TypeAlias = Callable[[], Iterator[tuple[int, list[int]]]]
_MOST_KEPT = 5_000_000         # cached lookups; beyond that the cache is emptied
_LONGEST_BACKOFF = 1000


class DeterministicLm(Protocol):
    """The methods that a model must have."""

    start: int

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Where a word leads, and its cost; None if it cannot come."""

    def final_cost(self, state: int) -> float:
        """The cost of ending; infinity where the words cannot end."""

    def prepare(self, state: int, likely: Likely) -> None:
        """Prepare for lookups in ``state``, and for those that will soon be likely: ``likely()``.

        So a model may compute what it needs for several lookups together. They give the same without it.
        """


class _Ready:
    """Models that have nothing to prepare."""

    def prepare(self, state: int, likely: Likely) -> None:
        """Do nothing."""


class _Numbered(Generic[State]):
    """Numbers of states, in the order in which they are met."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}

    def number(self, state: State) -> int:
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number


class FstLm(_Ready):
    """An FST with back-off arcs as a model: a word without an arc in a state is looked up where its epsilon leads.

    Kaldi: BackoffDeterministicOnDemandFst.
    """

    def __init__(self, fst: Fst) -> None:
        """FormatError for an FST without a start, or with other weights."""
        if fst.start < 0 or fst.weights.ndim != 1:
            raise FormatError("expected a language model, an FST with a start and costs")
        order = np.lexsort((fst.output_labels, fst.sources))
        self.start = fst.start
        self._starts = fst.arc_starts.tolist()
        self._words, self._costs = fst.output_labels[order], fst.weights[order].astype(np.float64)
        self._nexts, self._finals = fst.next_states[order], fst.final_weights.astype(np.float64)

    @classmethod
    def read(cls, rxfilename: str) -> FstLm:
        """Read an FST from a file or pipe."""
        return cls(read_object(rxfilename, read_fst))

    def _backoff(self, state: int) -> int:
        """The back-off arc of a state; -1 if there is none."""
        first = self._starts[state]
        return first if first < self._starts[state + 1] and self._words[first] == 0 else -1

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Where a word leads, and its cost; None if it cannot come."""
        cost = 0.0
        for _ in range(_LONGEST_BACKOFF):
            first, end = self._starts[state], self._starts[state + 1]
            place = first + int(np.searchsorted(self._words[first:end], word))
            if place < end and self._words[place] == word:
                return int(self._nexts[place]), cost + float(self._costs[place])
            place = self._backoff(state)
            if place < 0:
                return None
            cost, state = cost + float(self._costs[place]), int(self._nexts[place])
        raise FormatError("the back-off arcs of a language model form a cycle")

    def final_cost(self, state: int) -> float:
        """The cost of ending; infinity where the words cannot end."""
        cost = 0.0
        for _ in range(_LONGEST_BACKOFF):
            if np.isfinite(self._finals[state]):
                return cost + float(self._finals[state])
            place = self._backoff(state)
            if place < 0:
                return float("inf")
            cost, state = cost + float(self._costs[place]), int(self._nexts[place])
        raise FormatError("the back-off arcs of a language model form a cycle")


class ConstArpaLm(_Ready):
    """A const-ARPA model; its states are histories. Kaldi: ConstArpaLmDeterministicFst."""

    def __init__(self, model: ConstArpa) -> None:
        self._model, self._states = model, _Numbered[tuple[int, ...]]()
        self.start = self._states.number(model.state([model.bos]))

    @classmethod
    def read(cls, rxfilename: str) -> ConstArpaLm:
        """Read a const-ARPA file."""
        return cls(ConstArpa.read(rxfilename))

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Where a word leads, and its cost; None if it cannot come."""
        history = self._states.states[state]
        log_prob = self._model.log_prob(history, word)
        if log_prob == float("-inf"):
            return None
        return self._states.number(self._model.state((*history, word))), -log_prob

    def final_cost(self, state: int) -> float:
        """The cost of ending; infinity where the words cannot end."""
        return -self._model.log_prob(self._states.states[state], self._model.eos)


class LmDifference:
    """How much more a new model costs than an old one, times a scale; lookups are cached."""

    def __init__(self, old: DeterministicLm, new: DeterministicLm, scale: float) -> None:
        self._old, self._new, self._scale = old, new, scale
        self._states = _Numbered[tuple[int, int]]()
        self.start = self._states.number((old.start, new.start))
        self._arcs: dict[tuple[int, int], tuple[int, float] | None] = {}

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Where a word leads, and its cost; None if it cannot come in both models."""
        key = state, word
        if key not in self._arcs:
            if len(self._arcs) >= _MOST_KEPT:
                self._arcs.clear()
            self._arcs[key] = self._find(*self._states.states[state], word)
        return self._arcs[key]

    def prepare(self, state: int, likely: Likely) -> None:
        """Let both models prepare."""
        pairs = self._states.states
        self._old.prepare(pairs[state][0], lambda: ((pairs[other][0], words) for other, words in likely()))
        self._new.prepare(pairs[state][1], lambda: ((pairs[other][1], words) for other, words in likely()))

    def _find(self, old_state: int, new_state: int, word: int) -> tuple[int, float] | None:
        old, new = self._old.arc(old_state, word), self._new.arc(new_state, word)
        if old is None or new is None:
            return None
        return self._states.number((old[0], new[0])), self._scale * (new[1] - old[1])

    def final_cost(self, state: int) -> float:
        """The cost of ending; infinity where the words cannot end in one of the models."""
        old_state, new_state = self._states.states[state]
        old, new = self._old.final_cost(old_state), self._new.final_cost(new_state)
        if old == float("inf") or new == float("inf"):
            return float("inf")
        return self._scale * (new - old)
