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
    parents, words : for each number the history, one word shorter, that stands for it, and the word that was added to
        that one; -1 and ``bos`` for history 0, the beginning
    """

    def __init__(self, bos: int, max_ngram_order: int) -> None:
        self._most = max_ngram_order - 1 if max_ngram_order > 0 else None
        self._sequences: list[tuple[int, ...]] = [(bos,)]
        self._numbers: dict[tuple[int, ...], int] = {(bos,): 0}
        self.parents, self.words = [-1], [bos]

    def __len__(self) -> int:
        return len(self.parents)

    def after(self, history: int, word: int) -> int:
        """The number of a history with one more word."""
        sequence = (*self._sequences[history], word)
        if self._most is not None:
            sequence = sequence[max(0, len(sequence) - self._most):]
        number = self._numbers.setdefault(sequence, len(self._sequences))
        if number == len(self._sequences):
            self._sequences.append(sequence)
            self.parents.append(history)
            self.words.append(word)
        return number
