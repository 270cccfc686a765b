"""The vector of each word of an RNN language model, which goes into the network, and by which outputs are scored."""
from __future__ import annotations

import os

import numpy as np

from nnet3py.errors import ShapeError
from nnet3py.formats.general import SparseMatrix
from nnet3py.formats.holders import read_matrix_file
from nnet3py.rnnlm.word_features import read_word_features

_KEPT_ROWS = 20000
_WORDS_AT_ONCE = 1 << 14


class WordEmbedding:
    """A vector for each word: a matrix of them, or features of words and a matrix of vectors of features.

    From features, vectors are only made of words that are asked for: those of all words of a large model need much more
    memory than the features.

    Parameters
    ----------
    matrix : float32 (words, dim); or (features, dim)
    features : (words, features); None: ``matrix`` has the words themselves

    Attributes
    ----------
    num_words, dim : words are numbered from 0, which stands for no word

    Raises
    ------
    ShapeError : the features are not as many as the matrix has rows
    """

    def __init__(self, matrix: np.ndarray, features: SparseMatrix | None = None) -> None:
        if features is not None and features.num_rows and features.num_cols != len(matrix):
            raise ShapeError(f"words have features up to {features.num_cols - 1}, but the embedding of features has "
                             f"{len(matrix)} rows", "do the two files belong together?")
        self._matrix, self._features = np.ascontiguousarray(matrix, dtype=np.float32), features
        self.num_words = len(matrix) if features is None else features.num_rows
        self.dim = matrix.shape[1]
        self._kept: dict[int, np.ndarray] = {}

    @classmethod
    def read(cls, matrix: str | os.PathLike[str], features: str | os.PathLike[str] | None = None) -> WordEmbedding:
        """Read a matrix of words (word_embedding.mat); or one of features, and a file of the features of words."""
        vectors = read_matrix_file(os.fspath(matrix))
        return cls(vectors, None if features is None else read_word_features(features, len(vectors)))

    def __repr__(self) -> str:
        return f"<WordEmbedding: {self.num_words:,} words, {self.dim} dimensions>"

    def row(self, word: int) -> np.ndarray:
        """The vector of a word, float32 (dim,). ShapeError for a number that is no word's."""
        if self._features is None and 0 <= word < self.num_words:
            vector: np.ndarray = self._matrix[word]
            return vector
        kept = self._kept.get(word)
        return self.rows(np.array([word]))[0] if kept is None else kept

    def rows(self, words: np.ndarray) -> np.ndarray:
        """The vectors of words, float32 (n, dim). ShapeError for a number that is no word's."""
        self.check(words)
        if self._features is None:
            return self._matrix[words]
        kept, numbers = self._kept, words.tolist()
        new = [word for word in dict.fromkeys(numbers) if word not in kept]
        if len(kept) + len(new) > _KEPT_ROWS:
            kept = self._kept = {}
            new = list(dict.fromkeys(numbers))
        if new:
            kept.update(zip(new, self._made(np.array(new)), strict=True))
        return np.stack([kept[word] for word in numbers]) if numbers else np.empty((0, self.dim), np.float32)

    def _made(self, words: np.ndarray) -> np.ndarray:
        """The vectors of words from their features, float32 (n, dim)."""
        assert self._features is not None
        part = self._features.take_rows(words)
        vectors = np.zeros((len(words), self.dim), dtype=np.float32)
        filled = np.diff(part.row_starts) > 0
        if filled.any():
            vectors[filled] = np.add.reduceat(part.values[:, None] * self._matrix[part.columns],
                                              part.row_starts[:-1][filled], axis=0)
        return vectors

    def check(self, words: np.ndarray) -> None:
        """ShapeError that names a number among ``words`` that is no word's."""
        if len(words) and not (words.min() >= 0 and words.max() < self.num_words):
            wrong = int(words.max() if words.max() >= self.num_words else words.min())
            raise ShapeError(f"the language model has no word {wrong}: its words have numbers up to "
                             f"{self.num_words - 1}", "was it made with another words.txt?")

    def matrix(self) -> np.ndarray:
        """The vectors of all words, float32 (words, dim)."""
        if self._features is None:
            return self._matrix
        product: np.ndarray = self._sparse() @ self._matrix
        return product

    def log_sums(self, outputs: np.ndarray) -> np.ndarray:
        """What normalizes probabilities: log of the sum over all words but 0 of exp(output · vector of the word).

        ``outputs`` float32 (n, dim); returns float64 (n,).
        """
        if self._features is None:
            return self._log_sums(self._matrix, outputs.T)
        return self._log_sums(self._sparse(), np.ascontiguousarray(self._matrix @ outputs.T))

    def _log_sums(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Log of the sums over all rows but the first of exp(rows times columns), a block of rows at a time."""
        sums = np.full(columns.shape[1], -np.inf)
        for begin in range(1, self.num_words, _WORDS_AT_ONCE):
            scores = rows[begin:begin + _WORDS_AT_ONCE] @ columns
            largest = scores.max(axis=0)
            block = largest + np.log(np.exp(scores - largest).sum(axis=0, dtype=np.float64))
            sums = np.logaddexp(sums, block)
        return sums

    def _sparse(self) -> np.ndarray:
        """The features as a matrix of scipy's, which can be multiplied as an array is."""
        from scipy.sparse import csr_matrix

        assert self._features is not None
        features = self._features
        sparse: np.ndarray = csr_matrix((features.values, features.columns, features.row_starts), features.shape)
        return sparse
