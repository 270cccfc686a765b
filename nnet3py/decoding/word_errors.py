"""Word error rates: edit distances, alignments of references and hypotheses, confidence intervals.

Kaldi: ``edit-distance.h``, ``compute-wer``, ``compute-wer-bootci``.
"""
from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from nnet3py.advice import Advising, elsewhere
from nnet3py.engine.loop import Loop
from nnet3py.errors import UsageError
from nnet3py.random_sequence import CRandom

_LOOPS = "nnet3py.decoding.word_error_loops"
_count = Loop(_LOOPS, "count", "i4[] i4[] i4[] i4[,]")
_steps = Loop(_LOOPS, "steps", "i4[] i4[] i4[] u1[,]")
_resample = Loop(_LOOPS, "resample", "u4[] i8 i8[] i8[] i8 i8[,]")
_MATCH, _DELETE = 0, 1
_TWO_SIDED = 1.96                  # standard deviations on either side that 95 % of a normal distribution lie in


class Edits(NamedTuple):
    """The numbers of errors of a hypothesis, by kind."""

    insertions: int
    deletions: int
    substitutions: int

    @property
    def total(self) -> int:
        """Number of all errors."""
        return sum(self)


def _numbers(*sequences: Sequence[Hashable]) -> list[np.ndarray]:
    """Replace the elements of sequences by numbers, int32; equal elements get equal numbers."""
    number_of: dict[Hashable, int] = {}
    return [np.array([number_of.setdefault(symbol, len(number_of)) for symbol in sequence], dtype=np.int32)
            for sequence in sequences]


def edit_distance(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> Edits:
    """Count the errors of the cheapest alignment, by kind as in Kaldi. Kaldi: LevenshteinEditDistance."""
    if not reference or not hypothesis:
        return Edits(len(hypothesis), len(reference), 0)
    first, second = _numbers(reference, hypothesis)
    totals, edits = np.empty(len(first) + 1, dtype=np.int32), np.empty((len(first) + 1, 3), dtype=np.int32)
    _count(first, second, totals, edits)
    return Edits(*edits[-1].tolist())


def align(first: Sequence[str], second: Sequence[str], gap: str) -> list[tuple[str, str]]:
    """Return the pairs of the cheapest alignment; ``gap`` replaces missing elements. Kaldi: LevenshteinAlignment."""
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
    """A sampler of error rates of random samples of utterances (bootstrap), with the C library's random numbers."""

    def __init__(self, replications: int) -> None:
        self._replications = replications
        self._state = CRandom().state()
        self._place = 0

    def _samples(self, errors: Sequence[int], words: Sequence[int]) -> np.ndarray:
        """Return the sums of errors and of words of each sample, int64 (replications, 2)."""
        results = np.empty((self._replications, 2), dtype=np.int64)
        self._place = _resample(self._state, self._place, np.array(errors, dtype=np.int64),
                                np.array(words, dtype=np.int64), self._replications, results)
        return results

    def interval(self, errors: Sequence[int], words: Sequence[int]) -> tuple[float, float]:
        """Return the mean error rate, and half the width of its 95 % interval. Kaldi: GetBootstrapWERInterval."""
        results = self._samples(errors, words)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = results[:, 0] / results[:, 1]
            mean = float(rates.mean())
            return mean, _TWO_SIDED * float(np.sqrt(max(0.0, float(np.square(rates).mean()) - mean * mean)))

    def improvement(self, errors: Sequence[int], others: Sequence[int]) -> float:
        """Return the estimated probability that ``others`` has fewer errors than ``errors``, both counts by utterance.

        Kaldi: GetBootstrapWERTwoSystemComparison.
        """
        differences = np.array(errors, dtype=np.int64) - np.array(others, dtype=np.int64)
        return float((self._samples(differences.tolist(), [0] * len(differences))[:, 0] > 0).mean())


_GAP = "***"

Text = str | Sequence[str]     # words between white space, or one by one


@dataclass
class WordErrors(Advising):
    """Counts of errors, summed over utterances.

    Attributes
    ----------
    words : number of words of the references
    insertions, deletions, substitutions : numbers of errors of the cheapest alignments
    sentences, wrong_sentences : number of utterances, and of utterances with errors
    missing : number of utterances without a hypothesis
    """

    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{
        "update append count": "errors.add('one two', 'one too')",
        "per_utterance utterances details alignment": "add() returns the errors of each utterance: "
                                                      "[nnet3py.WordErrors().add(*pair) for pair in pairs]",
        "cer": "nnet3py.wer of lists of letters: wer([list('one')], [list('two')])",
        "rate value result compute": "errors.wer"})

    words: int = 0
    insertions: int = 0
    deletions: int = 0
    substitutions: int = 0
    sentences: int = 0
    wrong_sentences: int = 0
    missing: int = 0

    def __post_init__(self) -> None:
        """Raise UsageError if counts are strings: :func:`wer` takes texts."""
        if isinstance(self.words, str | list | tuple):
            raise UsageError(f"WordErrors are counts, found {self.words!r}",
                             "nnet3py.wer('one two', 'one too') counts; or WordErrors().add('one two', 'one too')")

    def __float__(self) -> float:
        return self.wer

    def __str__(self) -> str:
        return self.report().rstrip()

    def add(self, reference: Text, hypothesis: Text) -> int:
        """Count the errors of one utterance, and return their number.

        Parameters
        ----------
        reference, hypothesis : lists of words, or strings, which are split at white space

        Raises
        ------
        UsageError : other types
        """
        words = words_of(reference)
        edits = edit_distance(words, words_of(hypothesis))
        self.words += len(words)
        self.insertions += edits.insertions
        self.deletions += edits.deletions
        self.substitutions += edits.substitutions
        self.sentences += 1
        self.wrong_sentences += edits.total > 0
        return edits.total

    @property
    def errors(self) -> int:
        """Number of insertions, deletions and substitutions."""
        return self.insertions + self.deletions + self.substitutions

    @property
    def wer(self) -> float:
        """Word error rate in percent of the references' words; NaN without words."""
        return 100.0 * self.errors / self.words if self.words else float("nan")

    def report(self) -> str:
        """Return three lines, in the form of Kaldi's compute-wer."""
        return (f"%WER {_percent(self.errors, self.words)} [ {self.errors} / {self.words}, {self.insertions} ins, "
                f"{self.deletions} del, {self.substitutions} sub ]\n"
                f"%SER {_percent(self.wrong_sentences, self.sentences)} [ {self.wrong_sentences} / {self.sentences} ]\n"
                f"Scored {self.sentences} sentences, {self.missing} not present in hyp.\n")


def wer(references: Text | Iterable[Text] | Mapping[str, Text],
        hypotheses: Text | Iterable[Text] | Mapping[str, Text]) -> WordErrors:
    """Compute the word error rate of hypotheses, with its counts.

    >>> nnet3py.wer(["one two", "three"], ["one too", "three"]).wer
    33.333...

    Parameters
    ----------
    references, hypotheses : lists of utterances, or dicts of them by name; or a string each, for one utterance. An
        utterance is a string, whose words stand between white space, or a list of words

    Returns
    -------
    WordErrors, with ``.wer`` in percent, ``.errors``, ``.words``, ``.insertions``, ``.deletions``, ``.substitutions``;
    printed, the lines of Kaldi's compute-wer

    Raises
    ------
    UsageError : other types, or other utterances among references than among hypotheses
    """
    counts = WordErrors()
    for reference, hypothesis in _pairs(references, hypotheses):
        counts.add(reference, hypothesis)
    return counts


def _pairs(references: Text | Iterable[Text] | Mapping[str, Text],
           hypotheses: Text | Iterable[Text] | Mapping[str, Text]) -> list[tuple[Text, Text]]:
    kinds = [str if isinstance(each, str) else dict if isinstance(each, Mapping) else
             list if isinstance(each, Iterable) else None for each in (references, hypotheses)]
    if None in kinds or kinds[0] != kinds[1]:
        raise UsageError("expected references and hypotheses of the same kind, lists or dicts of utterances, found "
                         f"{type(references).__name__} and {type(hypotheses).__name__}", _WANTED)
    if isinstance(references, str) and isinstance(hypotheses, str):
        return [(references, hypotheses)]
    if isinstance(references, Mapping) and isinstance(hypotheses, Mapping):
        lonely = sorted(map(str, references.keys() ^ hypotheses.keys()))
        if lonely:
            raise UsageError(f"expected references and hypotheses of the same names, found {lonely[0]!r} in one of "
                             "them only" + (f", and {len(lonely) - 1} more" if len(lonely) > 1 else ""),
                             "{name: hypotheses.get(name, '') for name in references} counts those as empty")
        return [(references[name], hypotheses[name]) for name in references]
    both = list(references), list(hypotheses)
    if len(both[0]) != len(both[1]):
        raise UsageError(f"expected as many hypotheses as references, found {len(both[1])} for {len(both[0])}",
                         "the hypothesis of an utterance in which nothing was recognized is ''")
    return list(zip(*both, strict=True))


def words_of(text: Text) -> list[str]:
    """Return the words of an utterance, a list of words or a string, which is split at white space.

    Raises UsageError for other types.
    """
    if isinstance(text, str):
        return text.split()
    words = list(text) if isinstance(text, Iterable) and not isinstance(text, Mapping | bytes) else None
    if words is None or not all(isinstance(word, str) for word in words):
        wrong = type(text).__name__ if words is None else (
            f"{next(type(word).__name__ for word in words if not isinstance(word, str))} among its words")
        raise UsageError(f"expected an utterance, a string or a list of words, found {wrong}", _WANTED)
    return words


_WANTED = "such as wer(['one two', 'three'], ['one too', 'three']), or dicts {'utt1': 'one two'}"


def _percent(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.2f}" if whole else "nan"


def alignment_lines(key: str, reference: Text, hypothesis: Text) -> str:
    """Return the aligned words of reference and hypothesis, in four lines, as in Kaldi's ``wer_per_utt``.

    The last two lines are the kind of each pair (C, S, I or D), and the number of pairs of each kind.
    """
    pairs = align(words_of(reference), words_of(hypothesis), _GAP)
    kinds = ["C" if a == b else "I" if a == _GAP else "D" if b == _GAP else "S" for a, b in pairs]
    counts = " ".join(str(kinds.count(kind)) for kind in "CSID")
    rows = [("ref", [a for a, _ in pairs]), ("hyp", [b for _, b in pairs]), ("op", kinds)]
    widths = [max(map(len, column)) for column in zip(*(row for _, row in rows), strict=True)]
    lines = [f"{key} {name:5}" + " ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
             for name, row in rows]
    return "\n".join([line.rstrip() for line in lines] + [f"{key} #csid {counts}"]) + "\n"
