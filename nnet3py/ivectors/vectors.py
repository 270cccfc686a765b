"""What is done with i-vectors, or other vectors of speakers: means, lengths, linear discriminants, error rates."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error, NumericError
from nnet3py.gaussians.symmetric import descending_eigen


class Lda(NamedTuple):
    """Linear discriminants of speakers.

    Attributes
    ----------
    transform : float32 (dim, input dim + 1), with an offset in the last column
    singular_values : float64 (input dim,), of the covariance between speakers, descending
    """

    transform: np.ndarray
    singular_values: np.ndarray


def linear_discriminants(vectors: np.ndarray, speakers: Sequence[str], dim: int, total_covariance_factor: float,
                         covariance_floor: float) -> Lda:
    """The directions that tell speakers apart. Kaldi: ivector-compute-lda.

    Parameters
    ----------
    vectors : float32 (utterances, input dim)
    speakers : of each
    dim : rows of the transform
    total_covariance_factor : how much the covariance of all counts beside that within speakers, from 0 to 1
    covariance_floor : of eigenvalues, a part of the largest

    Returns
    -------
    The transform, float32 (dim, input dim + 1).

    Raises
    ------
    Nnet3Error : too few vectors
    NumericError : vectors that are all alike
    """
    count, input_dim = vectors.shape
    if count < input_dim or not 0 < dim <= input_dim:
        raise Nnet3Error(f"{count} vectors are too few for dimension {input_dim}, or --dim={dim} is not between 1 and "
                         f"that")
    mean = vectors.astype(np.float64).mean(axis=0).astype(np.float32)
    centered = (vectors - mean).astype(np.float64)
    numbers = np.unique(np.asarray(speakers), return_inverse=True)[1].ravel()
    sizes = np.bincount(numbers).astype(np.float64)
    sums = np.zeros((len(sizes), input_dim))
    np.add.at(sums, numbers, centered)
    total = centered.T @ centered / count
    between = (sums / sizes[:, None]).T @ sums / count
    mixed = total_covariance_factor * total + (1.0 - total_covariance_factor) * (total - between)
    values, vectors_of = descending_eigen(mixed)
    if values[0] <= 0:
        raise NumericError("the covariance of the vectors is not positive", "are they all alike?")
    whitening = (vectors_of / np.sqrt(np.maximum(values, covariance_floor * values[0]))).T
    singular, rotation = descending_eigen(whitening @ between @ whitening.T)
    matrix = (rotation.T @ whitening)[:dim].astype(np.float32)
    return Lda(np.column_stack((matrix, -(matrix @ mean))).astype(np.float32), singular)


class EqualErrorRate(NamedTuple):
    """How well scores tell trials of one speaker from those of two.

    Attributes
    ----------
    per_cent : the rate
    threshold : the score at which as many targets are rejected as non-targets accepted
    """

    per_cent: float
    threshold: float


def equal_error_rate(targets: np.ndarray, nontargets: np.ndarray) -> EqualErrorRate:
    """The equal error rate of scores. Kaldi: compute-eer.

    Parameters
    ----------
    targets : float (trials,), of trials of one speaker
    nontargets : float (trials,), of trials of two

    Returns
    -------
    The rate in per cent, and its threshold.

    Raises
    ------
    Nnet3Error : either is empty
    """
    if not len(targets) or not len(nontargets):
        raise Nnet3Error(f"expected scores of target and of nontarget trials, found {len(targets)} and "
                         f"{len(nontargets)}")
    low, high = np.sort(targets), np.sort(nontargets)
    place = 0
    while place + 1 < len(low):
        other = max(0, len(high) - 1 - int(len(high) * place / len(low)))
        if high[other] < low[place]:
            break
        place += 1
    return EqualErrorRate(100.0 * place / len(low), float(low[place]))
