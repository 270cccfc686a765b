"""The words of a language model and their numbers, as Kaldi's RNN language models have them."""
from __future__ import annotations

from collections import Counter

import numpy as np

from nnet3py.decoding.lexicon import SENTENCE_END, SENTENCE_START
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, UsageError

BREAK = "<brk>"                  # stands before a piece of a sentence that is not its beginning
SMOOTHING = 1.0                  # added to the count of each word that can be predicted. Kaldi: get_unigram_probs.py
NEVER = 0.1                      # the count that words get which are never predicted, such as <s>


class Vocabulary:
    """Words numbered 1, 2, …, with how often each is predicted in the training text.

    Parameters
    ----------
    table : the words; ``<s>`` and ``</s>`` are among them, ``<brk>`` as well
    unknown : the word that stands for others; not in the table: there is none

    Attributes
    ----------
    bos, eos, brk : the numbers of ``<s>``, ``</s>`` and ``<brk>``
    unk : the number of the unknown word; -1 if there is none
    counts : int64 (size,), how often each word was in the training text, ends of sentences included
    """

    def __init__(self, table: SymbolTable, unknown: str) -> None:
        """FormatError for a table whose numbers have gaps."""
        missing = next((n for n in range(len(table)) if n not in table.names), None)
        if missing is not None:
            raise FormatError(f"no word has the number {missing} in {table.path or 'the table of words'}, which has "
                              f"{len(table)}", hint="words are numbered 0, 1, 2, … without gaps")
        self.table, self.unknown = table, unknown
        self.bos, self.eos, self.brk = table[SENTENCE_START], table[SENTENCE_END], table[BREAK]
        self.unk = table.ids.get(unknown, -1) if unknown else -1
        self.counts = np.zeros(len(table), dtype=np.int64)

    @classmethod
    def of_counts(cls, counts: Counter[str], unknown: str, min_count: int = 1, max_words: int = 0) -> Vocabulary:
        """The special words, then those of a text from the most frequent on.

        Parameters
        ----------
        counts : how often each word is in the text
        min_count : words that are rarer are left out
        max_words : at most so many words of the text; 0: all
        """
        special = [SENTENCE_START, SENTENCE_END, BREAK, *([unknown] if unknown else [])]
        frequent = sorted((word for word, count in counts.items() if count >= min_count and word not in special),
                          key=lambda word: (-counts[word], word))
        if not frequent:
            raise UsageError(f"no word of the text occurs {min_count} times", "give more text, or a lower --min-count")
        return cls(SymbolTable.of([*special, *frequent[:max_words or None]]), unknown)

    @classmethod
    def of_table(cls, table: SymbolTable, unknown: str) -> Vocabulary:
        """The words of a lang folder, with ``<brk>`` after them, as Kaldi's scripts for rescoring ask for."""
        return cls(table.extended([SENTENCE_START, SENTENCE_END, BREAK]), unknown)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def word_list(self) -> list[str]:
        """The words in the order of their numbers."""
        return [self.table.names[number] for number in range(len(self))]

    @property
    def never_predicted(self) -> list[int]:
        """The numbers of epsilon, ``<s>``, ``<brk>`` and disambiguation symbols such as ``#0``."""
        return sorted({0, self.bos, self.brk, *self.table.disambiguation})

    def probs(self) -> np.ndarray:
        """float64 (size,): smoothed frequencies; 0 for epsilon only. Kaldi: rnnlm/get_unigram_probs.py."""
        smoothed = self.counts + SMOOTHING
        smoothed[self.never_predicted] = NEVER
        smoothed[0] = 0.0
        return smoothed / smoothed.sum()

    def option_lines(self) -> list[str]:
        """The options that name special words to programs of Kaldi. Kaldi: rnnlm/get_special_symbol_opts.py."""
        return [f"--bos-symbol={self.bos}", f"--eos-symbol={self.eos}", f"--brk-symbol={self.brk}"]


