"""[vocabulary] The words of a language model and their numbers, as Kaldi's RNN language models have them.

[features] What is known of a word before training: its letters, its length, how frequent it is; as sparse rows of numbers.

A word's embedding is the sum of its features' vectors. Kaldi: rnnlm/choose_features.py, rnnlm/get_word_features.py.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from nnet3py.decoding.lexicon import SENTENCE_END, SENTENCE_START
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, UsageError
from nnet3py.rnnlm.training.options import FeatureOptions

CONSTANT, SPECIAL, UNIGRAM, LENGTH, WORD = "constant", "special", "unigram", "length", "word"
INITIAL, FINAL, MATCH = "initial", "final", "match"
_FORMAT = "%.4g"                 # of values in files; training uses the same digits
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


class Feature(NamedTuple):
    """One column of the features.

    Attributes
    ----------
    kind : CONSTANT, SPECIAL, UNIGRAM, LENGTH, WORD, or INITIAL, FINAL, MATCH: a piece at the beginning, at the end,
        or inside of a word
    text : the word or the piece; empty for the others
    scale : its value, or what is multiplied by the log-probability, the length, or the number of matches
    offset : added to that
    """

    kind: str
    text: str
    scale: float
    offset: float = 0.0

    def line(self) -> str:
        """What stands in Kaldi's features.txt after the number of the feature."""
        offset = [f"{self.offset:.6g}"] if self.kind == UNIGRAM else []
        return "\t".join([self.kind, *([self.text] if self.text else []), *offset, f"{self.scale:.6g}"])


def pieces(word: str, min_order: int, max_order: int) -> Iterator[tuple[str, str]]:
    """(kind, letters) of all pieces of a word that have so many letters; its beginning and its end count as letters.

    >>> sorted(pieces("ab", 2, 3))
    [('final', 'ab'), ('final', 'b'), ('initial', 'a'), ('initial', 'ab'), ('match', 'ab')]
    """
    size = len(word)
    for order in range(min_order, max_order + 1):
        for begin in range(-1, size + 2 - order):
            end = begin + order
            letters = word[max(begin, 0):end]
            if begin < 0 and end > size:
                continue                    # the whole word, which is a feature of another kind
            if letters:
                yield INITIAL if begin < 0 else FINAL if end > size else MATCH, letters


class _Scale:
    """Scales that limit a feature's root mean square."""

    def __init__(self, max_rms: float) -> None:
        self._max_rms = max_rms

    def __call__(self, mean_square: float) -> float:
        rms = math.sqrt(mean_square)
        return self._max_rms / rms if rms > self._max_rms else 1.0


def choose_features(vocabulary: Vocabulary, options: FeatureOptions) -> list[Feature]:
    """The features that words of a vocabulary have, given how frequent they are."""
    probs, words = vocabulary.probs(), vocabulary.word_list
    scale = _Scale(options.max_rms)
    special = _special_words(vocabulary)
    others = np.setdiff1d(np.arange(len(words)), [*vocabulary.never_predicted, *special])
    features = [Feature(CONSTANT, "", options.max_rms)]
    features += [Feature(SPECIAL, words[number], scale(probs[number])) for number in special]
    features.append(_unigram_feature(probs[others], options.max_rms))
    features.append(Feature(LENGTH, "", scale(sum(probs[n] * len(words[n]) ** 2 for n in others))))
    frequent = others[np.argsort(-probs[others], kind="stable")][:options.top_words]
    features += [Feature(WORD, words[number], scale(probs[number])) for number in frequent]
    frequencies: Counter[tuple[str, str]] = Counter()
    squares: Counter[tuple[str, str]] = Counter()
    for number in others:
        for piece, count in Counter(pieces(words[number], options.min_order, options.max_order)).items():
            frequencies[piece] += probs[number]
            squares[piece] += probs[number] * count ** 2
    for kind in (INITIAL, FINAL, MATCH):
        features += [Feature(kind, letters, scale(squares[kind, letters]))
                     for its_kind, letters in sorted(frequencies)
                     if its_kind == kind and frequencies[kind, letters] >= options.min_frequency]
    return features


def _special_words(vocabulary: Vocabulary) -> list[int]:
    """Words that are described by a feature of their own and nothing else."""
    return [number for number in (vocabulary.bos, vocabulary.eos, vocabulary.brk, vocabulary.unk) if number >= 0]


def _unigram_feature(probs: np.ndarray, max_rms: float) -> Feature:
    """The log-probability, with mean 0 and a root mean square of at most ``max_rms`` over the text."""
    logs, total = np.log(probs), probs.sum()
    mean = float((probs * logs).sum() / total)
    deviation = math.sqrt(float((probs * (logs - mean) ** 2).sum()))
    factor = max_rms / deviation if deviation > max_rms else 1.0
    return Feature(UNIGRAM, "", factor, -mean * factor)


def word_features(vocabulary: Vocabulary, features: list[Feature]) -> csr_matrix:
    """The values of features for each word, float32 (words, features); a row of zeros for epsilon.

    Disambiguation symbols, which are never predicted, look like ``<s>``.
    """
    column = {(feature.kind, feature.text): number for number, feature in enumerate(features)}
    orders = [len(feature.text) + (feature.kind != MATCH) for feature in features
              if feature.kind in (INITIAL, FINAL, MATCH)] or [0]
    bounds = min(orders), max(orders)
    like_bos = set(vocabulary.table.disambiguation)
    probs, rows = vocabulary.probs(), []
    for number, word in enumerate(vocabulary.word_list):
        written = vocabulary.table.names[vocabulary.bos] if number in like_bos else word
        counts = _counts(written, math.log(probs[number]) if number else 0.0, column, bounds)
        rows.append({k: features[k].offset + features[k].scale * count for k, count in counts.items()}
                    if number else {})
    starts = np.cumsum([0, *map(len, rows)])
    columns = np.array([k for row in rows for k in sorted(row)], dtype=np.int32)
    values = np.array([float(_FORMAT % row[k]) for row in rows for k in sorted(row)], dtype=np.float32)
    return csr_matrix((values, columns, starts), shape=(len(rows), len(features)))


def _counts(word: str, log_prob: float, column: dict[tuple[str, str], int],
            bounds: tuple[int, int]) -> dict[int, float]:
    """What the features of a word are multiplied by, by column."""
    counts = {column[CONSTANT, ""]: 1.0}
    if (SPECIAL, word) in column:
        return {**counts, column[SPECIAL, word]: 1.0}
    counts[column[UNIGRAM, ""]] = log_prob
    counts[column[LENGTH, ""]] = float(len(word))
    whole = [(WORD, word)] if (WORD, word) in column else []
    for piece in [*whole, *pieces(word, *bounds)]:
        if piece in column:
            counts[column[piece]] = counts.get(column[piece], 0.0) + 1.0
    return counts


def word_feature_lines(values: csr_matrix) -> str:
    """The text of a word_feats.txt: a line for each word, with its number and pairs of feature and value."""
    lines = []
    for number in range(values.shape[0]):
        begin, end = values.indptr[number], values.indptr[number + 1]
        pairs = zip(values.indices[begin:end].tolist(), values.data[begin:end].tolist(), strict=True)
        lines.append(f"{number}\t" + " ".join(f"{k} {_FORMAT % value}" for k, value in pairs))
    return "\n".join(lines) + "\n"
