"""Word error rates: edit distances between references and hypotheses. Kaldi: ``compute-wer``."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from nnet3py.advice import Advising, elsewhere
from nnet3py.decoding.edit_distance import align, edit_distance
from nnet3py.errors import UsageError

_GAP = "***"

Text = str | Sequence[str]     # words between white space, or one by one


@dataclass
class WordErrors(Advising):
    """Counts over utterances.

    Attributes
    ----------
    words : of the references
    insertions, deletions, substitutions : of the cheapest alignments
    sentences, wrong_sentences : utterances, and those with an error
    missing : utterances without a hypothesis
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
        """UsageError for texts in place of counts."""
        if isinstance(self.words, str | list | tuple):
            raise UsageError(f"WordErrors are counts, found {self.words!r}",
                             "nnet3py.wer('one two', 'one too') counts; or WordErrors().add('one two', 'one too')")

    def __float__(self) -> float:
        return self.wer

    def __str__(self) -> str:
        return self.report().rstrip()

    def add(self, reference: Text, hypothesis: Text) -> int:
        """Count one utterance, given as a list of words or as a string, which is split at white space.

        Returns
        -------
        Its errors.

        Raises
        ------
        UsageError : something else
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
        """Insertions, deletions and substitutions."""
        return self.insertions + self.deletions + self.substitutions

    @property
    def wer(self) -> float:
        """The word error rate in percent of the references' words; NaN if these have none."""
        return 100.0 * self.errors / self.words if self.words else float("nan")

    def report(self) -> str:
        """Three lines, in the form of Kaldi's compute-wer."""
        return (f"%WER {_percent(self.errors, self.words)} [ {self.errors} / {self.words}, {self.insertions} ins, "
                f"{self.deletions} del, {self.substitutions} sub ]\n"
                f"%SER {_percent(self.wrong_sentences, self.sentences)} [ {self.wrong_sentences} / {self.sentences} ]\n"
                f"Scored {self.sentences} sentences, {self.missing} not present in hyp.\n")


def wer(references: Text | Iterable[Text] | Mapping[str, Text],
        hypotheses: Text | Iterable[Text] | Mapping[str, Text]) -> WordErrors:
    """The word error rate of hypotheses, with the counts that it is made of.

    >>> nnet3py.wer(["one two", "three"], ["one too", "three"]).wer
    33.333...

    Parameters
    ----------
    references, hypotheses : lists of utterances, or dicts of them by name; or a string each, for one utterance. An
        utterance is a string, whose words stand between white space, or a list of words

    Returns
    -------
    ``.wer`` in percent, ``.errors``, ``.words``, ``.insertions``, ``.deletions``, ``.substitutions``, and
    ``print(found.report())`` for the lines of Kaldi's compute-wer

    Raises
    ------
    UsageError : other things, or utterances of one without a partner in the other
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
    """The words of an utterance: a string split at white space, or the words themselves.

    Raises
    ------
    UsageError : something else
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
    """The words of both aligned, in four lines, as in Kaldi's ``wer_per_utt``.

    The last two say what each pair is (C, S, I or D), and how often each occurs.
    """
    pairs = align(words_of(reference), words_of(hypothesis), _GAP)
    kinds = ["C" if a == b else "I" if a == _GAP else "D" if b == _GAP else "S" for a, b in pairs]
    counts = " ".join(str(kinds.count(kind)) for kind in "CSID")
    rows = [("ref", [a for a, _ in pairs]), ("hyp", [b for _, b in pairs]), ("op", kinds)]
    widths = [max(map(len, column)) for column in zip(*(row for _, row in rows), strict=True)]
    lines = [f"{key} {name:5}" + " ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
             for name, row in rows]
    return "\n".join([line.rstrip() for line in lines] + [f"{key} #csid {counts}"]) + "\n"
