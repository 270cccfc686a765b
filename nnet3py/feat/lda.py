"""Linear discriminant analysis: transforms from statistics.

Kaldi: ``LdaEstimate`` (lda-estimate.h) and ``FeatureTransformEstimate`` (nnet3's get-feature-transform.h).
"""
from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import NumericError
from nnet3py.formats.lda_stats import LdaStats

logger = logging.getLogger(__name__)

_RIDGE = 1.0e-3       # of the average variance, added where the within-class covariance is not positive definite


@dataclass
class LdaTransform:
    """An estimated transform and what it was made from.

    Attributes
    ----------
    matrix : float64 (dim, features), or (dim, features + 1) with an offset in the last column
    full : like ``matrix``, with all rows
    cholesky : float64 (features, features), lower triangle, of the within-class covariance
    within : float64 (features, features), the within-class covariance
    """

    matrix: np.ndarray
    full: np.ndarray
    cholesky: np.ndarray
    within: np.ndarray


def estimate(stats: LdaStats, dim: int, within_class_factor: float = 1.0, remove_offset: bool = False,
             max_singular_value: float = -1.0) -> LdaTransform:
    """The transform that separates classes best: within-class variance 1, between-class variance sorted.

    Parameters
    ----------
    dim : rows to keep
    within_class_factor : 1 for LDA proper; less, and directions that do not tell classes apart are scaled down
    remove_offset : append a column that makes the mean of all vectors zero
    max_singular_value : ceiling for the singular values of the transform; 0 or less for none

    Raises NumericError for statistics of nothing, or that are not finite.
    """
    within, between, mean = _covariances(stats)
    cholesky = _cholesky(within)
    inverse = np.linalg.inv(cholesky)
    try:
        rotation, values, _ = np.linalg.svd(inverse @ between @ inverse.T)
    except np.linalg.LinAlgError as error:
        raise NumericError(f"LDA failed: {error}", "check the features that the statistics were made of") from error
    shown = " ".join(f"{value:g}" for value in values)
    logger.info("Data count is %g", stats.counts.sum())
    logger.info("LDA singular values are  [ %s ]", shown)
    logger.info("Sum of all singular values is %g", values.sum())
    logger.info("Sum of selected singular values is %g", values[:dim].sum())
    full = rotation.T @ inverse
    if within_class_factor != 1.0:
        full *= np.sqrt((within_class_factor + values) / (1.0 + values))[:, None]
    selected = full[:dim]
    if max_singular_value > 0.0:
        selected = _with_ceiling(selected, max_singular_value)
    if remove_offset:
        selected, full = (np.column_stack([matrix, -matrix @ mean]) for matrix in (selected, full))
    return LdaTransform(selected, full, cholesky, within)


def _covariances(stats: LdaStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Within-class and between-class covariance, float64 (dim, dim), and the mean of all vectors."""
    with np.errstate(all="ignore"):
        count = stats.counts.sum()
        if not 0.0 < count < np.inf:
            raise NumericError(f"LDA statistics of {count:g} vectors; expected some")
        mean = stats.sums.sum(axis=0) / count
        means = _symmetric(stats.second_of_means(), stats.dim) / count
        between = means - np.outer(mean, mean)
        within = _symmetric(stats.scatter, stats.dim) / count
    if not (np.isfinite(within).all() and np.isfinite(between).all()):
        raise NumericError("LDA statistics that are not finite", "check the features that they were made of")
    return within, between, mean


def _symmetric(packed: np.ndarray, dim: int) -> np.ndarray:
    """float64 (dim, dim) from its lower triangle by rows."""
    matrix = np.zeros((dim, dim))
    matrix[np.tril_indices(dim)] = packed
    return matrix + np.tril(matrix, -1).T


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


def _with_ceiling(matrix: np.ndarray, ceiling: float) -> np.ndarray:
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    above = int((values > ceiling).sum())
    if not above:
        return matrix
    logger.info("Applied ceiling to %d out of %d singular values of transform using ceiling %g, max is %g", above,
                len(values), ceiling, values[0])
    return (left * np.minimum(values, ceiling)) @ right
