"""The words of an RNN language model: their numbers, and the features that their vectors are sums of.

Features are a word's letters, its length and its frequency, as sparse rows of numbers. Kaldi: rnnlm/choose_features.py,
rnnlm/get_word_features.py, rnnlm/get_unigram_probs.py.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from nnet3py.decoding.symbols import SENTENCE_END, SENTENCE_START, SymbolTable
from nnet3py.errors import FormatError, UsageError
from nnet3py.rnnlm.training.options import FeatureOptions

CONSTANT, SPECIAL, UNIGRAM, LENGTH, WORD = "constant", "special", "unigram", "length", "word"
INITIAL, FINAL, MATCH = "initial", "final", "match"
_FORMAT = "%.4g"                 # of values in word_feats.txt; training uses the rounded values, too
BREAK = "<brk>"                  # precedes a piece of a sentence that is not its beginning
SMOOTHING = 1.0                  # added to the count of each word that can be predicted. Kaldi: get_unigram_probs.py
NEVER = 0.1                      # the count of words that are never predicted, such as <s>


class Vocabulary:
    """Words and their numbers, with their counts in the training text.

    ``table``: words with numbers 0, 1, 2, …; has ``<s>``, ``</s>`` and ``<brk>``. ``unknown``: the word that replaces
    words outside the table; empty or not in the table: there is none.

    Attributes
    ----------
    bos, eos, brk : the numbers of ``<s>``, ``</s>`` and ``<brk>``
    unk : the number of the unknown word; -1 if there is none
    counts : int64 (words,), occurrences of each word in the training text, ends of sentences included
    """

    def __init__(self, table: SymbolTable, unknown: str) -> None:
        """Raise FormatError for a table whose numbers have gaps."""
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
        """Make a vocabulary of the special words, followed by the words of a text, the most frequent first.

        Parameters
        ----------
        counts : occurrences of each word
        unknown : the unknown word; empty: none
        min_count : least number of occurrences of a word
        max_words : largest number of words besides the special ones; 0: no limit
        """
        special = [SENTENCE_START, SENTENCE_END, BREAK, *([unknown] if unknown else [])]
        frequent = sorted((word for word, count in counts.items() if count >= min_count and word not in special),
                          key=lambda word: (-counts[word], word))
        if not frequent:
            raise UsageError(f"no word of the text occurs {min_count} times", "give more text, or a lower --min-count")
        return cls(SymbolTable.of([*special, *frequent[:max_words or None]]), unknown)

    @classmethod
    def of_table(cls, table: SymbolTable, unknown: str) -> Vocabulary:
        """Make a vocabulary of a lang folder's words, followed by ``<brk>``, as Kaldi's rescoring scripts need."""
        return cls(table.extended([SENTENCE_START, SENTENCE_END, BREAK]), unknown)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def word_list(self) -> list[str]:
        """Words in the order of their numbers."""
        return [self.table.names[number] for number in range(len(self))]

    @property
    def never_predicted(self) -> list[int]:
        """Numbers of epsilon, ``<s>``, ``<brk>`` and disambiguation symbols such as ``#0``."""
        return sorted({0, self.bos, self.brk, *self.table.disambiguation})

    def probs(self) -> np.ndarray:
        """Compute smoothed relative frequencies, float64 (words,); 0 for epsilon only."""
        smoothed = self.counts + SMOOTHING
        smoothed[self.never_predicted] = NEVER
        smoothed[0] = 0.0
        return smoothed / smoothed.sum()

    def option_lines(self) -> list[str]:
        """Return the lines of special_symbol_opts.txt. Kaldi: rnnlm/get_special_symbol_opts.py."""
        return [f"--bos-symbol={self.bos}", f"--eos-symbol={self.eos}", f"--brk-symbol={self.brk}"]


class Feature(NamedTuple):
    """A feature of words: a column of the feature matrix."""

    # CONSTANT; SPECIAL or WORD, a feature of one word; UNIGRAM, the log-probability; LENGTH, in letters; or INITIAL,
    # FINAL, MATCH: letters at the beginning, at the end, anywhere inside
    kind: str
    text: str  # the word or the letters; empty for other kinds
    scale: float  # factor of the log-probability, the length or the number of matches; the value of other features
    offset: float = 0.0  # added to the value

    def line(self) -> str:
        """Return the feature's line in Kaldi's features.txt, without its number."""
        offset = [f"{self.offset:.6g}"] if self.kind == UNIGRAM else []
        return "\t".join([self.kind, *([self.text] if self.text else []), *offset, f"{self.scale:.6g}"])


def pieces(word: str, min_order: int, max_order: int) -> Iterator[tuple[str, str]]:
    """Yield (kind, letters) of all letter n-grams of a word; its beginning and its end count as letters.

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


def _scale(mean_square: float, max_rms: float) -> float:
    """Return the factor, at most 1, that makes the root mean square of a feature at most ``max_rms``."""
    rms = math.sqrt(mean_square)
    return max_rms / rms if rms > max_rms else 1.0


def choose_features(vocabulary: Vocabulary, options: FeatureOptions) -> list[Feature]:
    """Choose the features of a vocabulary's words by their frequencies. Kaldi: rnnlm/choose_features.py."""
    probs, words = vocabulary.probs(), vocabulary.word_list
    scale = partial(_scale, max_rms=options.max_rms)
    special = [number for number in (vocabulary.bos, vocabulary.eos, vocabulary.brk, vocabulary.unk) if number >= 0]
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


def _unigram_feature(probs: np.ndarray, max_rms: float) -> Feature:
    """Return the feature of log-probabilities, scaled to mean 0 and a standard deviation of at most ``max_rms``.

    ``probs`` : probabilities of the words that have this feature, by which mean and deviation are weighted
    """
    logs, total = np.log(probs), probs.sum()
    mean = float((probs * logs).sum() / total)
    deviation = math.sqrt(float((probs * (logs - mean) ** 2).sum()))
    factor = max_rms / deviation if deviation > max_rms else 1.0
    return Feature(UNIGRAM, "", factor, -mean * factor)


def word_features(vocabulary: Vocabulary, features: list[Feature]) -> csr_matrix:
    """Compute the features of each word, float32 (words, features); a row of zeros for epsilon.

    Disambiguation symbols, which are never predicted, get the features of ``<s>``.
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
    """Return the unscaled values of a word's features: column -> value.

    ``column``: (kind, text) of a feature -> its column. ``bounds``: lengths of the shortest and longest letter n-grams
    among the features.
    """
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
    """Return the text of a word_feats.txt: a line for each word, with its number and pairs of feature and value."""
    lines = []
    for number in range(values.shape[0]):
        begin, end = values.indptr[number], values.indptr[number + 1]
        pairs = zip(values.indices[begin:end].tolist(), values.data[begin:end].tolist(), strict=True)
        lines.append(f"{number}\t" + " ".join(f"{k} {_FORMAT % value}" for k, value in pairs))
    return "\n".join(lines) + "\n"
