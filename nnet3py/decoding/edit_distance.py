"""Edit distances between sequences, alignments, and confidence intervals of error rates.

Kaldi: ``edit-distance.h``, ``compute-wer-bootci``.
"""
from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.random_sequence import CRandom

_LOOPS = "nnet3py.decoding.edit_distance_loops"
_count = Loop(_LOOPS, "count", "i4[] i4[] i4[] i4[,]")
_steps = Loop(_LOOPS, "steps", "i4[] i4[] i4[] u1[,]")
_resample = Loop(_LOOPS, "resample", "u4[] i8 i8[] i8[] i8 i8[,]")
_MATCH, _DELETE = 0, 1
_TWO_SIDED = 1.96                  # standard deviations on either side that 95 % of a normal distribution lie in


class Edits(NamedTuple):
    """The errors of a hypothesis, by kind."""

    insertions: int
    deletions: int
    substitutions: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


def _numbers(*sequences: Sequence[Hashable]) -> list[np.ndarray]:
    """int32: numbers for the elements of sequences, equal for equal elements."""
    number_of: dict[Hashable, int] = {}
    return [np.array([number_of.setdefault(symbol, len(number_of)) for symbol in sequence], dtype=np.int32)
            for sequence in sequences]


def edit_distance(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> Edits:
    """The errors of the cheapest alignment, divided into kinds as in Kaldi. Kaldi: LevenshteinEditDistance."""
    if not reference or not hypothesis:
        return Edits(len(hypothesis), len(reference), 0)
    first, second = _numbers(reference, hypothesis)
    totals, edits = np.empty(len(first) + 1, dtype=np.int32), np.empty((len(first) + 1, 3), dtype=np.int32)
    _count(first, second, totals, edits)
    return Edits(*edits[-1].tolist())


def align(first: Sequence[str], second: Sequence[str], gap: str) -> list[tuple[str, str]]:
    """Pairs of elements of the cheapest alignment, with ``gap`` for what is not there. Kaldi: LevenshteinAlignment."""
    if not first or not second:
        return [(symbol, gap) for symbol in first] + [(gap, symbol) for symbol in second]
    table = np.empty((len(first) + 1, len(second) + 1), dtype=np.uint8)
    _steps(*_numbers(first, second), np.empty(len(second) + 1, dtype=np.int32), table)
    i, j, pairs = len(first), len(second), []
    while i or j:
        step = table[i, j]
        i, j = i - (step <= _DELETE), j - (step != _DELETE)
        pairs.append((first[i] if step <= _DELETE else gap, second[j] if step != _DELETE else gap))
    return pairs[::-1]


class Resampler:
    """Error rates of random samples of utterances, drawn with the C library's random numbers."""

    def __init__(self, replications: int) -> None:
        self._replications = replications
        self._state = CRandom().state()
        self._place = 0

    def _samples(self, errors: Sequence[int], words: Sequence[int]) -> np.ndarray:
        """int64 (replications, 2): errors and words of each sample."""
        results = np.empty((self._replications, 2), dtype=np.int64)
        self._place = _resample(self._state, self._place, np.array(errors, dtype=np.int64),
                                np.array(words, dtype=np.int64), self._replications, results)
        return results

    def interval(self, errors: Sequence[int], words: Sequence[int]) -> tuple[float, float]:
        """The mean error rate, and the half-width of its 95 % interval. Kaldi: GetBootstrapWERInterval."""
        results = self._samples(errors, words)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = results[:, 0] / results[:, 1]
            mean = float(rates.mean())
            return mean, _TWO_SIDED * float(np.sqrt(max(0.0, float(np.square(rates).mean()) - mean * mean)))

    def improvement(self, errors: Sequence[int], others: Sequence[int]) -> float:
        """The probability that the second of two systems has fewer errors.

        Kaldi: GetBootstrapWERTwoSystemComparison.
        """
        differences = np.array(errors, dtype=np.int64) - np.array(others, dtype=np.int64)
        return float((self._samples(differences.tolist(), [0] * len(differences))[:, 0] > 0).mean())
