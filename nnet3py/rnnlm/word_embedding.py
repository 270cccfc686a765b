"""Vectors of an RNN language model's words, and the features that they are sums of.

A word's vector is the network's input after the word; its product with the network's output is the word's score.
``read_word_features`` reads ``word_feats.txt`` (Kaldi: ReadSparseWordFeatures).
"""
from __future__ import annotations

import os

import numpy as np

from nnet3py.errors import FormatError, NumericError, ShapeError, within
from nnet3py.formats.general import SparseMatrix
from nnet3py.formats.holders import read_matrix_file
from nnet3py.io.streams import read_text

_CACHED_ROWS = 20000
_WORDS_AT_ONCE = 1 << 14
_LARGEST = 2 ** 31 - 1
_SHOWN = 80            # characters of a line in a message


def read_word_features(path: str | os.PathLike[str], num_features: int | None = None) -> SparseMatrix:
    """Read the features of words: a row for each word, a column for each feature.

    Each line has the number of a word (0, 1, 2, … in order), then pairs of a feature's number and its value, with
    increasing numbers of features.

    ``path``: a file, or any rxfilename. ``num_features``: number of features, which is the number of rows of their
    embedding; None: up to the largest in the file.

    Raises FormatError, which names the first wrong line.
    """
    rxfilename = os.fspath(path)
    lines = read_text(rxfilename).splitlines()
    if not lines:
        raise FormatError("expected lines with a word's number and its features, found nothing", path=rxfilename)
    counts = np.array([len(line.split()) for line in lines], dtype=np.int64)
    try:
        numbers = np.fromiter(map(float, " ".join(lines).split()), np.float64, int(counts.sum()))
    except ValueError:
        raise _first_wrong(lines, num_features, rxfilename) from None
    firsts = np.cumsum(counts) - counts
    starts = np.concatenate(([0], np.cumsum((counts - 1) // 2)))
    if np.any(counts % 2 == 0) or not np.array_equal(numbers[firsts], np.arange(len(lines))):
        raise _first_wrong(lines, num_features, rxfilename)
    pairs = np.delete(numbers, firsts).reshape(-1, 2)
    features = pairs[:, 0]
    with np.errstate(over="ignore"):
        values = pairs[:, 1].astype(np.float32)
    limit = _LARGEST if num_features is None else num_features
    is_first = np.zeros(len(features) + 1, dtype=bool)
    is_first[starts] = True
    if len(features) and (features.min() < 0 or features.max() >= limit or np.any(features != np.floor(features))
                          or np.any((np.diff(features) <= 0) & ~is_first[1:-1]) or not np.isfinite(values).all()):
        raise _first_wrong(lines, num_features, rxfilename)
    num_columns = int(features.max(initial=-1)) + 1 if num_features is None else num_features
    return SparseMatrix(starts, features.astype(np.int32), values, num_columns)


def _first_wrong(lines: list[str], num_features: int | None, path: str) -> FormatError:
    """Return the error of the first wrong line."""
    limit = _LARGEST if num_features is None else num_features
    for number, line in enumerate(lines):
        problem = _line_problem(line.split(), number, limit)
        if problem:
            return FormatError(f"line {number + 1} of a file of word features: {problem}: {line[:_SHOWN]!r}", path=path)
    raise AssertionError("a line is wrong, but none was found")


def _line_problem(parts: list[str], number: int, limit: int) -> str:
    """Return an error message; empty for a line without faults."""
    if not parts or not (parts[0].isascii() and parts[0].isdigit()) or int(parts[0]) != number:
        return f"expected it to begin with the number of the word, {number}: words are in order 0, 1, 2, …"
    if len(parts) % 2 == 0:
        return "the last feature has no value"
    last = -1
    for feature, value in zip(parts[1::2], parts[2::2], strict=True):
        try:
            column, is_number = float(feature), abs(float(value)) <= float(np.finfo(np.float32).max)
        except ValueError:
            return f"expected a feature and its value, found {feature} {value}"
        if not 0 <= column < limit or column != int(column):
            return f"expected a feature from 0 to {limit - 1}, found {feature}"
        if column <= last:
            return f"expected increasing features, found {feature} after {int(last)}"
        if not is_number:
            return f"expected a number for feature {feature}, found {value}"
        last = int(column)
    return ""


class WordEmbedding:
    """Vectors of words: a matrix of them, or features of words and a matrix with a row for each feature.

    Vectors are computed from features when they are needed: all vectors of a large model take much more memory than the
    features.

    ``matrix``: float32 (words, dim); or (features, dim). ``features``: (words, features); None: ``matrix`` has a row
    for each word.

    Attributes
    ----------
    num_words : number of words, epsilon (number 0) included
    dim : length of a word's vector

    Raises ShapeError if the number of features is not the matrix's number of rows; NumericError for NaN or infinite
    values in the matrix.
    """

    def __init__(self, matrix: np.ndarray, features: SparseMatrix | None = None) -> None:
        if features is not None and features.num_rows and features.num_cols != len(matrix):
            raise ShapeError(f"words have features up to {features.num_cols - 1}, but the embedding of features has "
                             f"{len(matrix)} rows", "are the two files of one model?")
        self._matrix, self._features = np.ascontiguousarray(matrix, dtype=np.float32), features
        if not np.isfinite(self._matrix).all():
            raise NumericError("the embedding of words has NaN or infinite values", "has its training diverged?")
        self.num_words = len(matrix) if features is None else features.num_rows
        self.dim = matrix.shape[1]
        self._cached: dict[int, np.ndarray] = {}

    @classmethod
    def read(cls, matrix: str | os.PathLike[str], features: str | os.PathLike[str] | None = None) -> WordEmbedding:
        """Read word_embedding.mat, or feat_embedding.mat and word_feats.txt."""
        vectors = read_matrix_file(os.fspath(matrix))
        values = None if features is None else read_word_features(features, len(vectors))
        with within(os.fspath(matrix)):
            return cls(vectors, values)

    def __repr__(self) -> str:
        return f"<WordEmbedding: {self.num_words:,} words, {self.dim} dimensions>"

    def row(self, word: int) -> np.ndarray:
        """Return the vector of a word, float32 (dim,); raise ShapeError for a number that no word has."""
        if self._features is None and 0 <= word < self.num_words:
            vector: np.ndarray = self._matrix[word]
            return vector
        cached = self._cached.get(word)
        return self.rows(np.array([word]))[0] if cached is None else cached

    def rows(self, words: np.ndarray) -> np.ndarray:
        """Return the vectors of words, float32 (n, dim); raise ShapeError for a number that no word has."""
        self.check(words)
        if self._features is None:
            return self._matrix[words]
        cached, numbers = self._cached, words.tolist()
        new = [word for word in dict.fromkeys(numbers) if word not in cached]
        if len(cached) + len(new) > _CACHED_ROWS:
            cached = self._cached = {}
            new = list(dict.fromkeys(numbers))
        if new:
            cached.update(zip(new, self._rows_of_features(np.array(new)), strict=True))
        return np.stack([cached[word] for word in numbers]) if numbers else np.empty((0, self.dim), np.float32)

    def _rows_of_features(self, words: np.ndarray) -> np.ndarray:
        """Compute the vectors of words from their features, float32 (n, dim)."""
        assert self._features is not None
        part = self._features.take_rows(words)
        vectors = np.zeros((len(words), self.dim), dtype=np.float32)
        filled = np.diff(part.row_starts) > 0
        if filled.any():
            vectors[filled] = np.add.reduceat(part.values[:, None] * self._matrix[part.columns],
                                              part.row_starts[:-1][filled], axis=0)
        return vectors

    def check(self, words: np.ndarray) -> None:
        """Raise ShapeError if ``words`` contains a number that no word has."""
        if len(words) and not (words.min() >= 0 and words.max() < self.num_words):
            wrong = int(words.max() if words.max() >= self.num_words else words.min())
            raise ShapeError(f"the language model has no word {wrong}: its words have numbers up to "
                             f"{self.num_words - 1}", "was it made with another words.txt?")

    def matrix(self) -> np.ndarray:
        """Compute the vectors of all words, float32 (words, dim)."""
        if self._features is None:
            return self._matrix
        product: np.ndarray = self._sparse() @ self._matrix
        return product

    def log_sums(self, outputs: np.ndarray) -> np.ndarray:
        """Compute the log of the sum of exp(output · vector) over all words but 0, the normalizer of probabilities.

        ``outputs`` is float32 (n, dim), the result float64 (n,).
        """
        if self._features is None:
            return self._log_sums(self._matrix, outputs.T)
        return self._log_sums(self._sparse(), np.ascontiguousarray(self._matrix @ outputs.T))

    def _log_sums(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Compute log of the sum of exp(rows[i] · columns[:, j]) over i > 0, for each j: float64 (n,).

        The product is computed for a block of rows at a time.
        """
        sums = np.full(columns.shape[1], -np.inf)
        for begin in range(1, self.num_words, _WORDS_AT_ONCE):
            scores = rows[begin:begin + _WORDS_AT_ONCE] @ columns
            largest = scores.max(axis=0)
            block = largest + np.log(np.exp(scores - largest).sum(axis=0, dtype=np.float64))
            sums = np.logaddexp(sums, block)
        return sums

    def _sparse(self) -> np.ndarray:
        """Return the features as a scipy sparse matrix."""
        from scipy.sparse import csr_matrix

        assert self._features is not None
        features = self._features
        sparse: np.ndarray = csr_matrix((features.values, features.columns, features.row_starts), features.shape)
        return sparse
