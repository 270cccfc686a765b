"""Pronunciations of words that a lexicon lacks, by a joint n-gram model of letters and phones.

Words are cut into pairs of one or two letters with none to two phones, at first in all ways, which expectation
maximization reduces to few; the sequences of pairs have an n-gram model, and a word is pronounced by the likeliest
sequence of pairs with its letters. Bisani and Ney, Joint-sequence models for grapheme-to-phoneme conversion, 2008.
"""
from __future__ import annotations

import math
import random
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nnet3py.decoding.lexicon import SENTENCE_END, SENTENCE_START
from nnet3py.decoding.ngram import Ngram
from nnet3py.errors import UsageError

Phones = tuple[str, ...]
Pair = tuple[str, Phones]                # letters, phones

ORDER = 5
_MOVES = ((1, 1), (1, 0), (2, 1), (1, 2), (2, 0))      # letters, phones
_PRIOR = {(1, 1): 1.0, (1, 0): 0.2, (2, 1): 0.2, (1, 2): 0.1, (2, 0): 0.02}
_ITERATIONS = 8
_MOST_FOR_PAIRS, _MOST = 4000, 60000     # entries, for estimating pairs and for the n-grams
_LEAST_COUNT = 1e-3                      # a pair with a lower one is dropped
_BEAM = 60                               # hypotheses after each letter
_LARGE = 1e30


class Pronounced(NamedTuple):
    """A pronunciation, and its probability among those of the word that were looked at."""

    phones: Phones
    probability: float


class GraphemeModel:
    """A joint n-gram model.

    Attributes
    ----------
    ngram : of pairs, each a word ``LETTERS}PHONE PHONE``
    pairs : by letters, the pairs with them
    """

    def __init__(self, ngram: Ngram, pairs: Mapping[str, Sequence[Pair]]) -> None:
        self.ngram, self.pairs = ngram, pairs

    @classmethod
    def estimate(cls, entries: Iterable[tuple[str, Sequence[str]]], order: int = ORDER, seed: int = 0) -> GraphemeModel:
        """A model of the words and phones of a lexicon; of very many, some are taken at random.

        Raises UsageError if no word can be cut into pairs.
        """
        usable = [(letters_of(word), tuple(phones)) for word, phones in entries if word and phones]
        random.Random(seed).shuffle(usable)
        chances = _pair_chances(usable[:_MOST_FOR_PAIRS])
        sequences = [sequence for word, phones in usable[:_MOST] if (sequence := _best_pairs(word, phones, chances))]
        if not sequences:
            raise UsageError("the lexicon is too small, or its words have nothing to do with their phones",
                             "give the pronunciations of new words with --lexicon")
        pairs: dict[str, set[Pair]] = {}
        for sequence in sequences:
            for pair in sequence:
                pairs.setdefault(pair[0], set()).add(pair)
        ngram = Ngram.estimate(([_name(pair) for pair in sequence] for sequence in sequences), order)
        return cls(ngram, {letters: sorted(its_pairs) for letters, its_pairs in pairs.items()})

    def pronounce(self, word: str, count: int = 1) -> list[Pronounced]:
        """The ``count`` likeliest pronunciations; none for a word with letters that no known word has."""
        word = letters_of(word)
        start = (SENTENCE_START,)
        beams: list[dict[tuple[tuple[str, ...], Phones], float]] = [{} for _ in range(len(word) + 1)]
        beams[0][start, ()] = 0.0
        for place in range(len(word)):
            best = sorted(beams[place].items(), key=lambda entry: -entry[1])[:_BEAM]
            for (history, phones), log_prob in best:
                for length in (1, 2):
                    for pair in self.pairs.get(word[place:place + length], ()) if place + length <= len(word) else ():
                        name = _name(pair)
                        key = (*history, name)[-(self.ngram.order - 1):], phones + pair[1]
                        value = log_prob + self.ngram.log10_prob(history, name)
                        if value > beams[place + length].get(key, -_LARGE):
                            beams[place + length][key] = value
        total: Counter[Phones] = Counter()
        for (history, phones), log_prob in beams[-1].items():
            if phones:
                total[phones] += 10.0 ** (log_prob + self.ngram.log10_prob(history, SENTENCE_END))    # type: ignore[assignment]
        together = sum(total.values())
        return [Pronounced(phones, value / together) for phones, value in total.most_common(count)] if together else []


def letters_of(word: str) -> str:
    """The letters of a word, small ones; those of the syllables of Hangul, where a sign is a syllable."""
    return "".join(unicodedata.normalize("NFD", sign) if "가" <= sign <= "힣" else sign for sign in word.casefold())


def _name(pair: Pair) -> str:
    return f"{pair[0]}}}{' '.join(pair[1])}"


def _steps(word: str, phones: Phones) -> Iterator[tuple[int, int, Pair, tuple[int, int]]]:
    """All ways on from all places, in order: letters and phones after it, the pair, and its move."""
    for i in range(len(word) + 1):
        for j in range(len(phones) + 1):
            for move in _MOVES:
                if i + move[0] <= len(word) and j + move[1] <= len(phones):
                    yield i, j, (word[i:i + move[0]], phones[j:j + move[1]]), move


def _pair_chances(entries: Sequence[tuple[str, Phones]]) -> dict[Pair, float]:
    """The probability of each pair, by expectation maximization."""
    steps = [(len(word), len(phones), list(_steps(word, phones))) for word, phones in entries]
    chances: dict[Pair, float] = {pair: _PRIOR[move] for _, _, its in steps for _, _, pair, move in its}
    for _ in range(_ITERATIONS):
        counts: Counter[Pair] = Counter()
        for letters, phones, its in steps:
            _add_expected(counts, letters, phones, its, chances)
        total = sum(counts.values())
        chances = {pair: count / total for pair, count in counts.items() if count > _LEAST_COUNT} if total else {}
    return chances


def _add_expected(counts: Counter[Pair], letters: int, phones: int,
                  steps: Sequence[tuple[int, int, Pair, tuple[int, int]]], chances: Mapping[Pair, float]) -> None:
    """Add how often a word has each pair, by the chances so far: forward, then backward through its places."""
    forward = [[0.0] * (phones + 1) for _ in range(letters + 1)]
    backward = [[0.0] * (phones + 1) for _ in range(letters + 1)]
    forward[0][0] = backward[letters][phones] = 1.0
    for i, j, pair, (di, dj) in steps:
        forward[i + di][j + dj] += forward[i][j] * chances.get(pair, 0.0)
    total = forward[letters][phones]
    if total <= 0.0:
        return
    for i, j, pair, (di, dj) in reversed(steps):
        chance = chances.get(pair, 0.0) * backward[i + di][j + dj]
        backward[i][j] += chance
        if chance and forward[i][j]:
            counts[pair] += forward[i][j] * chance / total      # type: ignore[assignment]


def _best_pairs(word: str, phones: Phones, chances: Mapping[Pair, float]) -> list[Pair]:
    """The likeliest way of cutting a word; empty if there is none."""
    best: dict[tuple[int, int], tuple[float, list[Pair]]] = {(0, 0): (0.0, [])}
    for i, j, pair, (di, dj) in _steps(word, phones):
        if (i, j) in best and pair in chances:
            value = best[i, j][0] + math.log(chances[pair])
            target = i + di, j + dj
            if target not in best or value > best[target][0]:
                best[target] = value, [*best[i, j][1], pair]
    return best.get((len(word), len(phones)), (0.0, []))[1]
