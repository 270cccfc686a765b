"""The matrix that turns features of words into vectors, and how it is trained. Kaldi: ``RnnlmEmbeddingTrainer``."""
from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.ops import get_ops
from nnet3py.rnnlm.training.features import CONSTANT, SPECIAL, UNIGRAM, Feature
from nnet3py.rnnlm.training.options import EmbeddingOptions
from nnet3py.rnnlm.training.vocabulary import Vocabulary

_RANK, _ALPHA, _HISTORY = 30, 4.0, 10.0           # of natural gradient; the history counts minibatches
UNIT = 10.0                                       # of the network's first output, see initial_embedding


def initial_embedding(vocabulary: Vocabulary, features: list[Feature], dim: int, norm: float, per_word: float,
                      rng: np.random.Generator) -> np.ndarray:
    """float32 (features, dim): random vectors, but for the first column, which gives words their frequency.

    A feature contributes as much to a word's vector as any other, however it is scaled; ``norm`` is the length of the
    vector of a word that has ``per_word`` features, roughly.

    In the first column the embedding of each word is its log-probability over UNIT; so the words have their frequencies
    as probabilities where the network's first output is UNIT and the others are 0.
    """
    scales = np.array([feature.scale for feature in features], dtype=np.float32)
    embedding = rng.standard_normal((len(features), dim)).astype(np.float32)
    embedding *= (norm / np.sqrt(per_word * dim) / scales)[:, None]
    embedding[:, 0] = 0.0
    unigram = next(feature for feature in features if feature.kind == UNIGRAM)
    probs = vocabulary.probs()
    mean = -unigram.offset / unigram.scale
    for number, feature in enumerate(features):
        if feature.kind == CONSTANT:
            embedding[number, 0] = mean / feature.scale / UNIT
        elif feature.kind == UNIGRAM:
            embedding[number, 0] = 1.0 / feature.scale / UNIT
        elif feature.kind == SPECIAL:
            log_prob = float(np.log(probs[vocabulary.table[feature.text]]))
            embedding[number, 0] = (log_prob - mean) / feature.scale / UNIT
    return embedding


class TrainedEmbedding:
    """Vectors of words, as sums of those of their features.

    Parameters
    ----------
    features : float32 (words, features)
    matrix : float32 (features, dim), trained in place

    Attributes
    ----------
    num_limited : in how many minibatches ``max_change`` was active
    """

    def __init__(self, features: csr_matrix, matrix: np.ndarray, options: EmbeddingOptions | None = None) -> None:
        self.features, self.matrix = features, matrix
        self.options = options or EmbeddingOptions()
        self.num_limited = 0
        self._preconditioner = OnlineNaturalGradient(rank=_RANK, update_period=4, alpha=_ALPHA,
                                                     num_minibatches_history=_HISTORY)
        self._ops = get_ops("cpu")

    @property
    def num_words(self) -> int:
        """Words, epsilon included."""
        return int(self.features.shape[0])

    @property
    def dim(self) -> int:
        """Columns of a word's vector."""
        return self.matrix.shape[1]

    def vectors(self, words: np.ndarray | None = None) -> np.ndarray:
        """float32 (words, dim): of words by their numbers; of all words if none are given."""
        features = self.features if words is None else self.features[words]
        return np.ascontiguousarray(features @ self.matrix)

    def update(self, words: np.ndarray, gradient: np.ndarray, learning_rate: float) -> None:
        """Go a step along the derivative of the objective with respect to vectors of words.

        Parameters
        ----------
        words : int (words,), numbers, each at most once
        gradient : float32 (words, dim), of an objective that is to rise
        learning_rate : of the network
        """
        of_words = self.features[words]
        active = np.unique(of_words.indices)
        change = np.ascontiguousarray(of_words[:, active].T @ gradient, dtype=np.float32)
        rate = np.float32(learning_rate * self.options.rate_factor)
        if len(active):
            self._ops.reset_scratch()
            rate = self._preconditioner.precondition(self._ops, change, float(rate))[0]
            self._preconditioner.check(self._ops)
        size = abs(float(rate)) * float(np.linalg.norm(change))
        if self.options.max_change > 0.0 and size > self.options.max_change:
            rate *= np.float32(self.options.max_change / size)
            self.num_limited += 1
        if self.options.l2 > 0.0:
            self.matrix *= np.float32(1.0 - learning_rate * self.options.rate_factor * self.options.l2)
        self.matrix[active] += rate * change
