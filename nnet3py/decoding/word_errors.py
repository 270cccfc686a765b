"""Word error rates: edit distances between references and hypotheses. Kaldi: ``compute-wer``."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnet3py.decoding.edit_distance import align, edit_distance

_GAP = "***"


@dataclass
class WordErrors:
    """Counts over utterances.

    Attributes
    ----------
    words : of the references
    insertions, deletions, substitutions : of the cheapest alignments
    sentences, wrong_sentences : utterances, and those with an error
    missing : utterances without a hypothesis
    """

    words: int = 0
    insertions: int = 0
    deletions: int = 0
    substitutions: int = 0
    sentences: int = 0
    wrong_sentences: int = 0
    missing: int = 0

    def add(self, reference: Sequence[str], hypothesis: Sequence[str]) -> int:
        """Count one utterance; return its errors."""
        edits = edit_distance(reference, hypothesis)
        self.words += len(reference)
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

    def report(self) -> str:
        """Three lines, in the form of Kaldi's compute-wer."""
        return (f"%WER {_percent(self.errors, self.words)} [ {self.errors} / {self.words}, {self.insertions} ins, "
                f"{self.deletions} del, {self.substitutions} sub ]\n"
                f"%SER {_percent(self.wrong_sentences, self.sentences)} [ {self.wrong_sentences} / {self.sentences} ]\n"
                f"Scored {self.sentences} sentences, {self.missing} not present in hyp.\n")


def _percent(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.2f}" if whole else "nan"


def alignment_lines(key: str, reference: Sequence[str], hypothesis: Sequence[str]) -> str:
    """The words of both aligned, in four lines, as in Kaldi's ``wer_per_utt``.

    The last two say what each pair is (C, S, I or D), and how often each occurs.
    """
    pairs = align(reference, hypothesis, _GAP)
    kinds = ["C" if a == b else "I" if a == _GAP else "D" if b == _GAP else "S" for a, b in pairs]
    counts = " ".join(str(kinds.count(kind)) for kind in "CSID")
    rows = [("ref", [a for a, _ in pairs]), ("hyp", [b for _, b in pairs]), ("op", kinds)]
    widths = [max(map(len, column)) for column in zip(*(row for _, row in rows), strict=True)]
    lines = [f"{key} {name:5}" + " ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
             for name, row in rows]
    return "\n".join([line.rstrip() for line in lines] + [f"{key} #csid {counts}"]) + "\n"
