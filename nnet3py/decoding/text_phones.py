"""Phones of transcripts, with random silences, from which end-to-end training makes its phone language model.

Kaldi: the script ``text_to_phones.py`` of end-to-end recipes.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.decoding.lexicon import Pronunciation
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error, UsageError


@dataclass(frozen=True)
class Silences:
    """The probabilities of silence at the edges of an utterance and between words; ``phone`` empty: no silence."""

    phone: str = ""
    at_edges: float = 0.8
    between: float = 0.1

    def check(self) -> None:
        """UsageError for numbers that are not probabilities."""
        if not (0.0 <= self.at_edges <= 1.0 and 0.0 <= self.between <= 1.0):
            raise UsageError(f"expected probabilities of silence from 0 to 1, found {self.at_edges:g} at the edges "
                             f"and {self.between:g} between words")


class UnknownWordError(Nnet3Error):
    """A word of a transcript that is not in the lexicon."""


class TextPhones:
    """Turns words into phones.

    Parameters
    ----------
    lexicon : a word's pronunciations are drawn by their probabilities
    phones : the phones' numbers
    silences : see :class:`Silences`
    unknown_word : stands for words that the lexicon lacks; empty: such words are errors
    seed : of all random choices

    Raises
    ------
    FormatError : a phone that the table lacks
    UsageError : invalid probabilities; an ``unknown_word`` that the lexicon lacks
    """

    def __init__(self, lexicon: Iterable[Pronunciation], phones: SymbolTable, silences: Silences = Silences(),
                 unknown_word: str = "", seed: int = 0) -> None:
        silences.check()
        self._pronunciations: dict[str, list[list[int]]] = {}
        weights: dict[str, list[float]] = {}
        for pronunciation in lexicon:
            self._pronunciations.setdefault(pronunciation.word,
                                            []).append([phones[phone] for phone in pronunciation.phones])
            weights.setdefault(pronunciation.word, []).append(pronunciation.probability)
        self._cumulative = {word: np.cumsum(of_word) / np.sum(of_word) for word, of_word in weights.items()}
        if unknown_word and unknown_word not in self._pronunciations:
            raise UsageError(f"the lexicon lacks the word '{unknown_word}' that stands for unknown ones")
        self._silence = phones[silences.phone] if silences.phone else 0
        self._silences, self._unknown = silences, unknown_word
        self._seed = seed

    @cached_property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng(self._seed)     # made when needed: numpy.random takes 10 ms to load

    def __call__(self, words: Sequence[str]) -> list[int]:
        """The phones of an utterance; UnknownWordError for a word that the lexicon lacks."""
        replaced = [word if word in self._pronunciations else self._unknown for word in words]
        if "" in replaced:
            raise UnknownWordError(f"the word '{words[replaced.index('')]}' is not in the lexicon")
        phones: list[int] = []
        for place, word in enumerate(replaced):
            self._add_silence(phones, self._silences.between if place else self._silences.at_edges)
            choice = int(np.searchsorted(self._cumulative[word], self._random.random(), side="right"))
            phones += self._pronunciations[word][choice]
        self._add_silence(phones, self._silences.at_edges)
        return phones

    def _add_silence(self, phones: list[int], probability: float) -> None:
        if self._silence and self._random.random() < probability:
            phones.append(self._silence)
