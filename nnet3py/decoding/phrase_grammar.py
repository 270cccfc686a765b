"""Grammars of a few phrases, for streams that are to recognize nothing else."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from nnet3py.transducers.fst import NO_WEIGHT, Fst

_DISCOUNT = 0.5                # of counts: the rest is for backing off
_END = 0                       # in place of a word


def phrase_grammar(phrases: Sequence[Sequence[int]]) -> Fst:
    """G of some phrases (numbers of words), which allows any number of them, all equally probable."""
    cost = float(np.log(len(phrases) + 1))
    sources: list[int] = []
    words: list[int] = []
    targets: list[int] = []
    costs: list[float] = []
    num_states = 1
    for phrase in phrases:
        state = 0
        for place, word in enumerate(phrase):
            last = place + 1 == len(phrase)
            sources.append(state)
            words.append(word)
            costs.append(0.0 if place else cost)
            state = 0 if last else num_states
            targets.append(state)
            num_states += not last
    final = np.full(num_states, NO_WEIGHT, dtype=np.float32)
    final[0] = cost
    return Fst.from_arcs(0, final, sources, words, words, costs, targets)


def bigram_grammar(phrases: Sequence[Sequence[int]]) -> Fst:
    """G of the pairs of words in some phrases (numbers of words), as vosk makes it of its phrase lists.

    A word is followed by those that follow it in a phrase, or by the end, with half of the probability that counts
    give them; otherwise by any word. A phrase may begin, and go over into another one, wherever a word may follow; a
    sentence may be empty. Backing off is an arc without label, before the words of a state, which are in ascending
    order. vosk: ``LanguageModelEstimator``.
    """
    counts: Counter[tuple[int, int]] = Counter()
    for phrase in phrases:
        counts.update(zip((0, *phrase), (*phrase, _END), strict=True))
    histories = sorted({history for history, _ in counts} | {0})
    state_of = {history: state for state, history in enumerate(histories)}
    following: dict[int, Counter[int]] = {history: Counter() for history in histories}
    for (history, word), count in counts.items():
        following[history][word] += count
        if history:
            following[0][word] += count        # backing off adds the counts of all histories
    final = np.full(len(histories), NO_WEIGHT, dtype=np.float32)
    arcs: list[tuple[int, int, float, int]] = []
    for history in histories:
        state, total = state_of[history], following[history].total()
        if history:
            arcs.append((state, 0, -np.log(1.0 - _DISCOUNT), 0))
        for word, count in sorted(following[history].items()):
            cost = -np.log(count * _DISCOUNT / total)
            if word == _END:
                final[state] = cost
            else:
                arcs.append((state, word, cost, state_of[word]))
    sources, words, costs, targets = zip(*arcs, strict=True) if arcs else ((), (), (), ())
    return Fst.from_arcs(0, final, sources, words, words, costs, targets)
