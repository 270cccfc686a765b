"""The training objective: how probable the words are that follow.

The score of word v after an output h is h · W[v], and its probability is e to that power, divided by Z, the sum of
those of all words. Recognition takes scores as they are, without dividing by Z, so log Z has to be nearly 0: the
objective of a word is its log-probability minus half the square of log Z. Kaldi's, with Z - 1 in place of log Z, is
the same up to terms of third order, but grows without limit where training begins. Kaldi: rnnlm-core-training.h.

Z may be estimated from a sample of words, each of which stands for as many as its probability of being drawn says.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.ops import get_ops


class Comparison(NamedTuple):
    """What became of comparing outputs with words.

    Attributes
    ----------
    log_prob : the sum of the words' log-probabilities, times the rows' weights
    penalty : the sum of what was added for log Z, at most 0; the objective is the sum of both
    output_deriv : float32 (rows, dim), the objective's derivative with respect to the outputs
    vector_deriv : float32 (words, dim), its derivative with respect to the words' vectors
    """

    log_prob: float
    penalty: float
    output_deriv: np.ndarray
    vector_deriv: np.ndarray


def word_scores(outputs: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """float32 (rows, words): the score of each word after each output; of float32 (rows, dim) and (words, dim)."""
    scores = np.empty((len(outputs), len(vectors)), dtype=np.float32)
    get_ops("cpu").add_mat_mat(scores, outputs, vectors, 1.0, 0.0, trans_b=True)
    return scores


def exponentials(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turn scores into e to their power over that of the row's largest, in place.

    Returns
    -------
    float32 (rows,) the sums of the rows then; and log Z of each row
    """
    largest = scores.max(axis=1)
    scores -= largest[:, None]
    np.exp(scores, out=scores)
    sums = scores.sum(axis=1)
    return sums, np.log(sums) + largest


def compare(outputs: np.ndarray, vectors: np.ndarray, targets: np.ndarray, weights: np.ndarray,
            self_normalize: float = 1.0, log_counts: np.ndarray | None = None) -> Comparison:
    """The objective and its derivatives.

    Parameters
    ----------
    outputs : float32 (rows, dim)
    vectors : float32 (words, dim), of all words that may follow, or of a sample
    targets : int (rows,), places of the words that do follow among ``vectors``
    weights : float32 (rows,), factors of the rows' objectives
    self_normalize : factor of half the square of log Z
    log_counts : float32 (words,), the logarithm of how many words each of a sample stands for; None: for itself only
    """
    ops, rows = get_ops("cpu"), np.arange(len(outputs))
    scores = word_scores(outputs, vectors)
    target_scores = scores[rows, targets]
    if log_counts is not None:
        scores += log_counts
    sums, log_z = exponentials(scores)
    log_prob = float(np.dot(weights, target_scores - log_z))
    penalty = -0.5 * self_normalize * float(np.dot(weights, log_z ** 2))
    scores *= (-weights * (1.0 + self_normalize * log_z) / sums)[:, None]      # the derivative by the scores
    scores[rows, targets] += weights
    output_deriv, vector_deriv = np.empty_like(outputs), np.empty_like(vectors)
    ops.add_mat_mat(output_deriv, scores, vectors, 1.0, 0.0)
    ops.add_mat_mat(vector_deriv, scores, outputs, 1.0, 0.0, trans_a=True)
    return Comparison(log_prob, penalty, output_deriv, vector_deriv)
