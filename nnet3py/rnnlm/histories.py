"""Numbers of histories that are cut to their last words, as lattices are composed with RNN language models."""
from __future__ import annotations


class CutHistories:
    """Words since the beginning of a sentence, cut to the last ``max_ngram_order - 1``, and numbered as they are met.

    The first history that is met with a cut sequence stands for all of them. Kaldi: KaldiRnnlmDeterministicFst.

    Parameters
    ----------
    bos : the word at the beginning, which counts
    max_ngram_order : 0 or less: histories are never cut

    Attributes
    ----------
    sequences : for each number the words, cut
    parents, words : for each number the history, one word shorter, that stands for it, and the word that was added to
        that one; -1 and ``bos`` for history 0, the beginning
    """

    def __init__(self, bos: int, max_ngram_order: int) -> None:
        self._most = max_ngram_order - 1 if max_ngram_order > 0 else None
        self.sequences: list[tuple[int, ...]] = [(bos,)]
        self._numbers: dict[tuple[int, ...], int] = {(bos,): 0}
        self.parents, self.words = [-1], [bos]

    def __len__(self) -> int:
        return len(self.parents)

    def longer(self, sequence: tuple[int, ...], word: int) -> tuple[int, ...]:
        """A sequence with one more word, cut."""
        whole = (*sequence, word)
        return whole if self._most is None else whole[max(0, len(whole) - self._most):]

    def number_of(self, sequence: tuple[int, ...]) -> int | None:
        """The number of a cut sequence; None if it was not met."""
        return self._numbers.get(sequence)

    def after(self, history: int, word: int) -> int:
        """The number of a history with one more word."""
        sequence = self.longer(self.sequences[history], word)
        number = self._numbers.setdefault(sequence, len(self.sequences))
        if number == len(self.sequences):
            self.sequences.append(sequence)
            self.parents.append(history)
            self.words.append(word)
        return number
