"""Estimation of linear transforms of features: linear discriminant analysis and principal components.

Kaldi: ``LdaEstimate`` (lda-estimate_lda.h), ``FeatureTransformEstimate`` (nnet3's get-feature-transform.h), est-pca.
"""
from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.gaussians.symmetric import unpacked

logger = logging.getLogger(__name__)

_SMALLEST_EIGENVALUE = 1.0e-15
_RIDGE = 1.0e-3       # part of the mean variance, added if the within-class covariance is not positive definite


@dataclass
class LdaTransform:
    """An estimated transform, float64 (dim, features), or (dim, features + 1) with offsets in the last column.

    ``full`` has all rows; ``within`` is the within-class covariance, (features, features), and ``cholesky`` its lower
    triangular Cholesky factor.
    """

    matrix: np.ndarray
    full: np.ndarray
    cholesky: np.ndarray
    within: np.ndarray


def estimate_lda(stats: LdaStats, dim: int, within_class_factor: float = 1.0, remove_offset: bool = False,
             max_singular_value: float = -1.0) -> LdaTransform:
    """Estimate the transform that separates classes best: within-class variance 1, between-class variance descending.

    ``dim`` rows are kept. A ``within_class_factor`` below 1 scales down directions that do not tell classes apart;
    ``remove_offset`` appends a column that makes the mean of all vectors zero; ``max_singular_value`` is the ceiling of
    the transform's singular values, 0 or less for none. Raises NumericError for statistics of no vectors, with NaN or
    infinity, or without variation.
    """
    within, between, mean = _covariances(stats)
    cholesky = _cholesky(within)
    inverse = np.linalg.inv(cholesky)
    try:
        rotation, values, _ = np.linalg.svd(inverse @ between @ inverse.T)
    except np.linalg.LinAlgError as error:
        raise NumericError(f"LDA failed: {error}", "check the features that the statistics were made of") from error
    logger.info("Data count is %g", stats.counts.sum())
    logger.info("LDA singular values are  [ %s ]", " ".join(f"{value:g}" for value in values))
    logger.info("Sum of all singular values is %g", values.sum())
    logger.info("Sum of selected singular values is %g", values[:dim].sum())
    full = rotation.T @ inverse
    if within_class_factor != 1.0:
        full *= np.sqrt((within_class_factor + values) / (1.0 + values))[:, None]
    selected = full[:dim]
    if max_singular_value > 0.0:
        selected = _with_singular_values_below(selected, max_singular_value)
    if remove_offset:
        selected, full = (np.column_stack([matrix, -matrix @ mean]) for matrix in (selected, full))
    return LdaTransform(selected, full, cholesky, within)


def _covariances(stats: LdaStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the within-class and the between-class covariance, float64 (dim, dim), and the mean, float64 (dim,)."""
    with np.errstate(all="ignore"):
        count = stats.counts.sum()
        if not 0.0 < count < np.inf:
            raise NumericError(f"expected LDA statistics of one vector or more, found {count:g} vectors")
        mean = stats.sums.sum(axis=0) / count
        means = unpacked(stats.second_of_means()) / count
        between = means - np.outer(mean, mean)
        within = unpacked(stats.scatter) / count
    if not (np.isfinite(within).all() and np.isfinite(between).all()):
        raise NumericError("the LDA statistics have NaN or infinity",
                           "look for NaN or infinity in the features that they were accumulated from")
    return within, between, mean


def _cholesky(within: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(within)
    except np.linalg.LinAlgError:
        pass
    ridge = _RIDGE * np.trace(within) / len(within)
    logger.info("Cholesky failed (possibly not +ve definite), so adding %g to diagonal of within-class covariance "
                "matrix.", ridge)
    try:
        return np.linalg.cholesky(within + ridge * np.eye(len(within)))
    except np.linalg.LinAlgError:
        raise NumericError("the within-class covariance of the LDA statistics is not positive definite",
                           "a feature that never changes, or too few frames?") from None


def _with_singular_values_below(matrix: np.ndarray, ceiling: float) -> np.ndarray:
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    above = int((values > ceiling).sum())
    if not above:
        return matrix
    logger.info("Applied ceiling to %d out of %d singular values of transform using ceiling %g, max is %g", above,
                len(values), ceiling, values[0])
    return (left * np.minimum(values, ceiling)) @ right


# -- principal components ----------------------------------------------------------------------------------------------


class Pca(NamedTuple):
    """Principal components: float32 (dim, input dim), or (dim, input dim + 1) with offsets in the last column.

    ``full`` has all rows; the eigenvalues of the covariance descend.
    """

    transform: np.ndarray
    full: np.ndarray
    eigenvalues: np.ndarray


@dataclass
class PcaStats:
    """Statistics of vectors: their number, their sum (dim,), and the sum of their outer products (dim, dim), float64.
    """

    count: float = 0.0
    sums: np.ndarray = field(default_factory=lambda: np.zeros(0))
    products: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, rows: np.ndarray) -> None:
        """Add float32 (rows, dim). Raises ShapeError for another dimension than before."""
        dim = rows.shape[1]
        if not self.count:
            self.sums, self.products = np.zeros(dim), np.zeros((dim, dim))
        elif dim != len(self.sums):
            raise ShapeError(f"expected features of dimension {len(self.sums)}, found {dim}")
        double = rows.astype(np.float64)
        self.count += len(rows)
        self.sums += double.sum(axis=0)
        self.products += double.T @ double

    def estimate(self, dim: int, normalize_mean: bool, normalize_variance: bool) -> Pca:
        """Estimate the ``dim`` components of largest variance, or all if it is 0 or less.

        ``normalize_mean`` appends a column that makes the mean zero, ``normalize_variance`` scales the components to
        variance 1. Raises Nnet3Error for more components than dimensions, or no vectors.
        """
        if not self.count:
            raise Nnet3Error("expected features of one frame or more, found none")
        dim = dim if dim > 0 else len(self.sums)
        if dim > len(self.sums):
            raise Nnet3Error(f"--dim={dim} is more than the dimension of the features, {len(self.sums)}")
        mean = self.sums / self.count
        values, vectors = np.linalg.eigh(self.products / self.count - np.outer(mean, mean))
        order = np.argsort(-np.abs(values), kind="stable")
        values, rows = values[order], vectors.T[order]
        if normalize_variance:
            rows = rows / np.sqrt(np.maximum(values, _SMALLEST_EIGENVALUE))[:, None]
        if normalize_mean:
            rows = np.column_stack((rows, -rows @ mean))
        full = rows.astype(np.float32)
        return Pca(full[:dim], full, values)
