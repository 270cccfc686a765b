"""Composing a lattice with a language model, best paths first, and only for paths within a beam.

Models are looked up word by word: from each state a word leads to one state, at one cost. States are numbered in the
order in which they are reached, and lookups are cached. The cost from a composed state to the end is estimated as
that of its lattice state plus ``delta``, by which the estimate for the composed state before it was wrong. Kaldi:
ComposeCompactLatticePruned, DeterministicOnDemandFst.
"""
from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import FormatError
from nnet3py.fst.const_arpa import ConstArpa
from nnet3py.io.object_files import read_object
from nnet3py.lattices.composition import ComposedArcs, composed_lattice
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.states import arc_costs, final_costs, top_sorted
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst

State = TypeVar("State")
# Yields (state, words): words that may be looked up one after the other, from the state on.
Likely: TypeAlias = Callable[[], Iterator[tuple[int, list[int]]]]
_MOST_KEPT = 5_000_000         # cached lookups; beyond that the cache is emptied
_LONGEST_BACKOFF = 1000


class DeterministicLm(Protocol):
    """Interface of a language model that is looked up word by word."""

    start: int

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Return the state that a word leads to, and its cost in nats; None for a word that the model lacks."""

    def final_cost(self, state: int) -> float:
        """Return the cost of ending the sentence, in nats; infinity in a state that is not final."""

    def prepare(self, state: int, likely: Likely) -> None:
        """Announce lookups in ``state``, and likely later ones, so that a model can compute several together.

        ``likely()`` yields states with words that may be looked up in them. Results do not depend on it.
        """


class _Ready:
    """Base of models that need no preparation of lookups."""

    def prepare(self, state: int, likely: Likely) -> None:
        """Do nothing."""


class _Numbered(Generic[State]):
    """Numbers of model states, given in the order in which :meth:`number` is called."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}

    def number(self, state: State) -> int:
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number


class FstLm(_Ready):
    """A language model from an FST with back-off arcs: a word without an arc is looked up behind the epsilon arc.

    Kaldi: BackoffDeterministicOnDemandFst.
    """

    def __init__(self, fst: Fst) -> None:
        """Index the arcs of an FST; FormatError for an FST without a start, or with pairs of costs."""
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
        """Return the back-off arc of a state; -1 if there is none."""
        first = self._starts[state]
        return first if first < self._starts[state + 1] and self._words[first] == 0 else -1

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Return the state that a word leads to, and its cost; None for a word that the model lacks."""
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
        """Return the cost of ending the sentence; infinity in a state that is not final."""
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
    """A language model from a const-ARPA file. Its states are histories. Kaldi: ConstArpaLmDeterministicFst."""

    def __init__(self, model: ConstArpa) -> None:
        self._model, self._states = model, _Numbered[tuple[int, ...]]()
        self.start = self._states.number(model.state([model.bos]))

    @classmethod
    def read(cls, rxfilename: str) -> ConstArpaLm:
        """Read a const-ARPA file."""
        return cls(ConstArpa.read(rxfilename))

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Return the state that a word leads to, and its cost; None for a word that the model lacks."""
        history = self._states.states[state]
        log_prob = self._model.log_prob(history, word)
        if log_prob == float("-inf"):
            return None
        return self._states.number(self._model.state((*history, word))), -log_prob

    def final_cost(self, state: int) -> float:
        """Return the cost of ending the sentence; infinity in a state that is not final."""
        return -self._model.log_prob(self._states.states[state], self._model.eos)


class LmDifference:
    """A language model whose costs are ``scale`` * (costs of ``new`` - costs of ``old``). Lookups are cached."""

    def __init__(self, old: DeterministicLm, new: DeterministicLm, scale: float) -> None:
        self._old, self._new, self._scale = old, new, scale
        self._states = _Numbered[tuple[int, int]]()
        self.start = self._states.number((old.start, new.start))
        self._arcs: dict[tuple[int, int], tuple[int, float] | None] = {}

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Return the state that a word leads to, and its cost; None for a word that either model lacks."""
        key = state, word
        if key not in self._arcs:
            if len(self._arcs) >= _MOST_KEPT:
                self._arcs.clear()
            self._arcs[key] = self._find(*self._states.states[state], word)
        return self._arcs[key]

    def prepare(self, state: int, likely: Likely) -> None:
        """Announce lookups to both models."""
        pairs = self._states.states
        self._old.prepare(pairs[state][0], lambda: ((pairs[other][0], words) for other, words in likely()))
        self._new.prepare(pairs[state][1], lambda: ((pairs[other][1], words) for other, words in likely()))

    def _find(self, old_state: int, new_state: int, word: int) -> tuple[int, float] | None:
        old, new = self._old.arc(old_state, word), self._new.arc(new_state, word)
        if old is None or new is None:
            return None
        return self._states.number((old[0], new[0])), self._scale * (new[1] - old[1])

    def final_cost(self, state: int) -> float:
        """Return the cost of ending the sentence; infinity where it is infinite in either model."""
        old_state, new_state = self._states.states[state]
        old, new = self._old.final_cost(old_state), self._new.final_cost(new_state)
        if old == float("inf") or new == float("inf"):
            return float("inf")
        return self._scale * (new - old)


_backward_costs = Loop("nnet3py.lattices.path_loops", "backward_costs", "i8[] i4[] f8[] f8[] f8[]")
_END = -1                        # in place of an arc: the path ends in the state
_LOOK_AHEAD, _WORDS_AHEAD = 64, 3       # numbers of arcs, and of words after each, announced to a model
_DEPTH_REWARD = 1000.0           # nats per arc of a path until an end is found: long paths come first


class _Composed:
    """A pair of a state of the lattice and a state of the model."""

    __slots__ = ("arcs", "backward", "delta", "depth", "final", "forward", "lattice_state", "model_state", "previous",
                 "turn")

    def __init__(self, lattice_state: int, model_state: int, depth: int, forward: float, delta: float,
                 previous: int) -> None:
        self.lattice_state, self.model_state, self.depth = lattice_state, model_state, depth
        self.forward, self.backward, self.delta, self.previous = forward, math.inf, delta, previous
        self.turn = 0                                            # which of the sorted arcs comes next
        self.arcs: list[tuple[int, int, float, float]] = []      # arc, next state, cost of the model, whole cost
        self.final = math.inf                                    # the model's cost of ending, once it is known


class PrunedComposition:
    """The pruned composition of one lattice with a model."""

    def __init__(self, lattice: CompactLattice, model: DeterministicLm, options: PrunedCompositionOptions) -> None:
        """Prepare the composition; LatticeError for a lattice with a cycle."""
        self._lattice, self._model, self._options = top_sorted(lattice), model, options
        self._num_arcs, self._found_end = 0, False
        self._queue: list[tuple[float, int]] = []
        self._states: list[_Composed] = []
        self._numbers: dict[tuple[int, int], int] = {}

    def compose(self) -> CompactLattice:
        """Return the composed lattice, trimmed and topologically sorted."""
        if self._lattice.start < 0:
            return self._lattice
        self._prepare()
        if not self._turns[self._lattice.start] or self._rest[self._lattice.start] == math.inf:
            return CompactLattice.empty()
        self._number(self._lattice.start, self._model.start, 0, 0.0, 0.0, -1)
        while not self._found_end or self._num_arcs < self._options.max_arcs:
            self._recompute()
            limit = self._arc_limit()
            while self._queue and self._num_arcs < limit:
                had_end = self._found_end
                self._expand(heapq.heappop(self._queue)[1])
                if self._found_end and not had_end:
                    self._recompute()
            if not self._queue:
                break
        return self._result()

    def _prepare(self) -> None:
        """Compute the costs of the lattice, and sort the arcs of each state and its end by the cost of the best path.
        """
        lattice = self._lattice
        costs, finals, rest = arc_costs(lattice), final_costs(lattice), np.empty(lattice.num_states)
        _backward_costs(lattice.arc_starts, lattice.next_states, costs, finals, rest)
        self._costs, self._finals, self._rest = costs.tolist(), finals.tolist(), rest.tolist()
        self._labels, self._targets = lattice.labels.tolist(), lattice.next_states.tolist()
        starts = lattice.arc_starts.tolist()
        self._turns: list[list[tuple[float, int]]] = []
        for state, whole in enumerate(self._rest):
            turns = [(self._finals[state] - whole, _END)] if self._finals[state] < math.inf else []
            turns += [(self._costs[arc] + self._rest[self._targets[arc]] - whole, arc)
                      for arc in range(starts[state], starts[state + 1]) if self._rest[self._targets[arc]] < math.inf]
            self._turns.append(sorted(turns))
        self._best = self._rest[lattice.start]
        self._cutoff = math.inf

    def _arc_limit(self) -> int:
        if not self._num_arcs:
            return self._options.initial_num_arcs
        limit = max(self._num_arcs + 1, int(self._num_arcs * self._options.growth_ratio))
        return min(limit, self._options.max_arcs) if self._found_end else limit

    def _key(self, state: _Composed) -> float:
        """Estimate the cost of the best path through the state's next arc, minus that of the lattice's best path.

        Until a complete path is found, deeper states are preferred.
        """
        turns = self._turns[state.lattice_state]
        if state.turn >= len(turns):
            return math.inf
        key = state.forward + self._rest[state.lattice_state] + state.delta + turns[state.turn][0] - self._best
        return key if self._found_end else key - _DEPTH_REWARD * state.depth

    def _enqueue(self, number: int) -> None:
        key = self._key(self._states[number])
        if key < self._cutoff:
            heapq.heappush(self._queue, (key, number))

    def _number(self, lattice_state: int, model_state: int, depth: int, forward: float, delta: float,
                previous: int) -> int:
        """Return the number of a composed state; a new one is added with the given cost from the start, and queued.

        A state that exists keeps its cost until :meth:`_recompute`, as in Kaldi: the order decides which histories of
        an RNN language model are computed first.
        """
        number = self._numbers.setdefault((lattice_state, model_state), len(self._states))
        if number == len(self._states):
            self._states.append(_Composed(lattice_state, model_state, depth, forward, delta, previous))
            self._enqueue(number)
        return number

    def _expand(self, number: int) -> None:
        """Compose the next arc of a state."""
        state = self._states[number]
        _, arc = self._turns[state.lattice_state][state.turn]
        state.turn += 1
        self._enqueue(number)
        if arc == _END or self._labels[arc]:
            self._model.prepare(state.model_state, lambda: self._likely_lookups(state, arc))
        if arc == _END:
            state.final = self._model.final_cost(state.model_state)
            if state.final < math.inf:
                state.backward = min(state.backward, self._finals[state.lattice_state] + state.final)
                self._found_end = True
            return
        following: tuple[int, float] | None = (state.model_state, 0.0)
        if self._labels[arc]:
            following = self._model.arc(state.model_state, self._labels[arc])
        if following is None:
            return
        model_state, model_cost = following
        cost = self._costs[arc] + model_cost
        target = self._number(self._targets[arc], model_state, state.depth + 1, state.forward + cost, state.delta,
                              number)
        state.arcs.append((arc, target, model_cost, cost))
        self._num_arcs += 1

    def _likely_lookups(self, state: _Composed, arc: int) -> Iterator[tuple[int, list[int]]]:
        """Yield model states with the words that are likely to be looked up in them soon.

        First the state itself with the words after ``arc``, then queued states with the words after arcs within the
        beam.
        """
        yield state.model_state, self._best_words(arc)
        if self._found_end:
            nexts = []
            for key, number in heapq.nsmallest(_LOOK_AHEAD, self._queue):
                other = self._states[number]
                turns = self._turns[other.lattice_state]
                before = key - turns[other.turn][0]
                for turn in range(other.turn, len(turns)):
                    delta, following = turns[turn]
                    if before + delta >= self._cutoff:
                        break
                    nexts.append((before + delta, other.model_state, following))
            for _, model_state, following in sorted(nexts)[:_LOOK_AHEAD]:
                yield model_state, self._best_words(following)

    def _best_words(self, arc: int) -> list[int]:
        """Return the words of an arc and of the arcs on the best path after it."""
        words: list[int] = []
        while arc != _END and len(words) < _WORDS_AHEAD:
            words += [self._labels[arc]] if self._labels[arc] else []
            arc = self._turns[self._targets[arc]][0][1]
        return words

    def _recompute(self) -> None:
        """Recompute the costs of composed states from the start and to the end, and queue the states again."""
        states = self._states
        order = sorted(range(len(states)), key=lambda number: states[number].lattice_state)
        for number in order[1:]:
            states[number].forward = math.inf
        for number in order:
            for _, target, _, cost in states[number].arcs:
                if states[number].forward + cost < states[target].forward:
                    states[target].forward, states[target].previous = states[number].forward + cost, number
        for number in reversed(order):
            state = states[number]
            state.backward = min([self._finals[state.lattice_state] + state.final,
                                  *(cost + states[target].backward for _, target, _, cost in state.arcs)])
        for number in order:
            state = states[number]
            if state.backward < math.inf:
                state.delta = state.backward - self._rest[state.lattice_state]
            else:
                state.delta = states[state.previous].delta if state.previous >= 0 else 0.0
        self._cutoff = states[0].backward - self._best + self._options.beam
        self._queue = []
        for number in order:
            self._enqueue(number)

    def _result(self) -> CompactLattice:
        rows = [(number, *row) for number, state in enumerate(self._states) for row in state.arcs]
        arcs, targets = (np.array([row[column] for row in rows], dtype=np.int64) for column in (1, 2))
        return top_sorted(composed_lattice(
            self._lattice, np.array([state.lattice_state for state in self._states]),
            np.array([state.final for state in self._states], dtype=np.float32),
            ComposedArcs(np.array([row[0] for row in rows], dtype=np.int64), targets, arcs,
                         np.array([row[3] for row in rows], dtype=np.float32))))
