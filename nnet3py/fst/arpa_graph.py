"""Grammars: n-gram models with back-off as FSTs, one state per history. Kaldi: ``ArpaLmCompiler``."""
from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.fst.arpa import MISSING, Arpa, Histories, Section, Warner
from nnet3py.fst.operations import arc_sorted, changed, without_local_epsilons
from nnet3py.log import kaldi_place
from nnet3py.transducers.fst import NO_WEIGHT, Fst

logger = logging.getLogger(__name__)

EPSILON = 0


@dataclass(frozen=True)
class Sentence:
    """Numbers of the words at the limits of sentences, and of the back-off label."""

    # bos, eos: words that begin and end sentences
    bos: int
    eos: int
    # input label of back-off arcs; 0: they are epsilons, and ``bos`` and ``eos`` are on arcs like any word
    backoff: int = 0


def arpa_graph(arpa: Arpa, special: Sentence, warn: Warner | None = None, sort: bool = True) -> Fst:
    """Convert a model to the grammar FST G; its arcs are sorted by input label unless ``sort`` is False.

    With a back-off label, states whose only arc is the back-off arc are removed. These n-grams are left out with a
    warning: those whose history is not an n-gram, and those with the beginning of a sentence after their first word, or
    the end of a sentence before their last.

    Raises FormatError if the model has no unigram ``special.bos``.
    """
    grammar = _Grammar(arpa, special, warn or Warner())
    for order, section in enumerate(arpa.sections, 1):
        grammar.add(section, order)
    graph = grammar.fst()
    if special.backoff:
        graph = _without_redundant_states(graph, special.backoff)
    return arc_sorted(graph) if sort else graph


def _without_redundant_states(fst: Fst, backoff: int) -> Fst:
    """Remove states whose only exit is the back-off arc; arcs into them then lead to its target."""
    counts = np.diff(fst.arc_starts)
    only = (counts == 1) & ~fst.is_final
    arcs = fst.arc_starts[:-1][only]
    backs_off = arcs[fst.input_labels[arcs] == backoff]
    labels = fst.input_labels.copy()
    labels[backs_off] = EPSILON
    smaller = without_local_epsilons(changed(fst, input_labels=labels))
    logger.info("Reduced num-states from %d to %d", fst.num_states, smaller.num_states,
                extra=kaldi_place("RemoveRedundantStates", "arpa-lm-compiler.cc", 359))
    return smaller


class _Grammar:
    """States and arcs of a grammar, added order by order. States are nodes of a tree of histories."""

    def __init__(self, arpa: Arpa, special: Sentence, warn: Warner) -> None:
        self._order, self._special, self._warn = arpa.order, special, warn
        self._histories = Histories()
        self._is_state = np.ones(1, dtype=bool)            # by node; prefixes of histories need not be states
        self._start = MISSING
        self._arcs: list[tuple[np.ndarray, ...]] = []      # source, input label, output label, cost, target
        self._ends: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, section: Section, order: int) -> None:
        """Add the n-grams of one order, after those of lower orders."""
        words, costs, backoffs = section.words, -section.log_probs, -section.backoffs
        proper = self._proper(words)
        words, costs, backoffs = words[proper], costs[proper], backoffs[proper]
        pending = np.arange(len(words))
        while len(pending):                                # repeated only if n-grams of this order make histories
            sources = self._state_of(words[pending, :-1])
            there = pending[sources != MISSING]
            if not len(there):
                break
            self._add(words[there], costs[there], backoffs[there], sources[sources != MISSING], order)
            pending = pending[sources == MISSING] if order == self._order else pending[:0]
        missing = self._state_of(words[:, :-1]) == MISSING
        orphans = words[missing]
        self._warn(lambda i: f"n-gram of the words {orphans[i].tolist()} skipped: no parent (n-1)-gram exists",
                   len(orphans))

    def _proper(self, words: np.ndarray) -> np.ndarray:
        """Return which n-grams have ``bos`` only as the first word and ``eos`` only as the last, bool."""
        wrong = (words[:, 1:] == self._special.bos).any(axis=1) | (words[:, :-1] == self._special.eos).any(axis=1)
        bad = words[wrong]
        self._warn(lambda i: f"n-gram of the words {bad[i].tolist()} skipped: <s> is not its first word or </s> not "
                   "its last", len(bad))
        return ~wrong

    def _state_of(self, histories: np.ndarray) -> np.ndarray:
        """Return the state of each history, int64 (rows,); MISSING if it has none."""
        nodes = self._histories.find(histories)
        return np.where((nodes >= 0) & self._is_state[nodes], nodes, MISSING)

    def _add(self, words: np.ndarray, costs: np.ndarray, backoffs: np.ndarray, sources: np.ndarray, order: int) -> None:
        special, last = self._special, words[:, -1]
        is_end = last == special.eos
        self._ends.append((sources[is_end], costs[is_end]))
        goes_on = ~is_end
        highest = order == self._order
        targets = self._add_states(words[goes_on, 1:] if highest else words[goes_on],
                                   np.zeros(int(goes_on.sum()), dtype=np.float32) if highest else backoffs[goes_on])
        begins = last[goes_on] == special.bos
        if begins.any():
            self._start = int(targets[begins.argmax()])
        words_of = last[goes_on][~begins]
        self._arcs.append((sources[goes_on][~begins], words_of, words_of, costs[goes_on][~begins], targets[~begins]))

    def _add_states(self, histories: np.ndarray, backoffs: np.ndarray) -> np.ndarray:
        """Return the state of each history, int64 (rows,); new ones get a back-off arc to their longest suffix."""
        nodes = self._histories.add(histories)
        grown = np.zeros(self._histories.num_nodes, dtype=bool)
        grown[:len(self._is_state)] = self._is_state
        self._is_state = grown
        new, rows = np.unique(nodes, return_index=True)
        rows, new = rows[~grown[new]], new[~grown[new]]
        length = histories.shape[1]
        targets = np.full(len(new), MISSING, dtype=np.int64)
        for dropped in range(1, length + 1):
            open_ = np.flatnonzero(targets == MISSING)
            targets[open_] = self._state_of(histories[rows[open_], dropped:])
        self._is_state[new] = True
        self._arcs.append((new, np.full(len(new), self._special.backoff), np.full(len(new), EPSILON), backoffs[rows],
                           targets))
        return nodes

    def fst(self) -> Fst:
        """Return the grammar, its states numbered in the order of nodes; two more for ``bos`` and ``eos`` as words."""
        if self._start == MISSING:
            raise FormatError("an ARPA model has no unigram of the symbol for the beginning of sentences, word number "
                              f"{self._special.bos}", hint="is --bos-symbol right?")
        numbers = np.cumsum(self._is_state) - 1
        num_states = int(numbers[-1]) + 1
        sources, inputs, outputs, costs, targets = (np.concatenate(column) for column in zip(*self._arcs, strict=True))
        sources, targets = numbers[sources], numbers[targets]
        finals = np.full(num_states, NO_WEIGHT, dtype=np.float32)
        start = int(numbers[self._start])
        ending, end_costs = (np.concatenate(column) for column in zip(*self._ends, strict=True))
        if self._special.backoff:
            finals[numbers[ending]] = end_costs
        else:
            end, begin = num_states, num_states + 1
            finals = np.concatenate((finals, np.array([0.0, np.inf], dtype=np.float32)))
            eos, bos = np.full(len(ending), self._special.eos), np.array([self._special.bos])
            sources, targets = np.concatenate((sources, numbers[ending], [begin])), np.concatenate(
                (targets, np.full(len(ending), end), [start]))
            inputs, outputs = np.concatenate((inputs, eos, bos)), np.concatenate((outputs, eos, bos))
            costs, start = np.concatenate((costs, end_costs, np.zeros(1, dtype=np.float32))), begin
        return Fst.from_arcs(start, finals, sources, inputs, outputs, costs + np.float32(0.0), targets)
