"""Compiled loops of online i-vectors: sums over frames, and conjugate gradients."""
from __future__ import annotations

from typing import Any

import numpy as np

_TINY = 2.2e-308
_RESIDUAL_CHANGE = float(np.float32(0.01)) ** 2       # of its square, after which the residual is computed anew


def conjugate_gradients(matrix: Any, right: Any, solution: Any, work: Any, most: int) -> int:
    """Improve the ``solution`` of matrix x = right by at most ``most`` conjugate gradients, in place. Kaldi: LinearCgd.

    The symmetric matrix is float64 (dim, dim), ``work`` float64 (3, dim), scratch. Returns 1 if the solution became
    worse, else 0.
    """
    size = len(right)
    direction, residual, product = work[0], work[1], work[2]
    squared = size_of_right = 0.0
    for i in range(size):
        residual[i] = -right[i]
    for j in range(size):
        for i in range(size):
            residual[i] += matrix[j, i] * solution[j]
    for i in range(size):
        direction[i] = -residual[i]
        squared += residual[i] * residual[i]
        size_of_right += right[i] * right[i]
    first = computed = squared
    for _ in range(most):
        if squared <= _TINY:
            break
        along = curvature = following = 0.0
        for i in range(size):
            product[i] = 0.0
        for j in range(size):
            for i in range(size):
                product[i] += matrix[j, i] * direction[j]
        for i in range(size):
            along -= direction[i] * residual[i]
            curvature += direction[i] * product[i]
        step = along / curvature
        for i in range(size):
            solution[i] += step * direction[i]
            residual[i] += step * product[i]
            following += residual[i] * residual[i]
        if following < _RESIDUAL_CHANGE * computed or following > computed / _RESIDUAL_CHANGE:
            following = 0.0
            for i in range(size):
                residual[i] = -right[i]
            for j in range(size):
                for i in range(size):
                    residual[i] += matrix[j, i] * solution[j]
            for i in range(size):
                following += residual[i] * residual[i]
            computed = following
        if following <= _TINY:
            squared = following
            break
        for i in range(size):
            direction[i] = direction[i] * (following / squared) - residual[i]
        squared = following
    return np.int64(squared > first and squared > first + 1.0e-10 * size_of_right)


def sum_terms(features: Any, starts: Any, ids: Any, weights: Any, projections: Any, quadratics: Any, sums: Any,
              gamma: Any, used: Any, linear: Any, quadratic: Any) -> float:
    """Add the terms of frames to ``linear`` and packed ``quadratic``; return the sum of their posteriors.

    ``features`` are float32 (frames, dim), their posteriors arrays of a :class:`~nnet3py.formats.posteriors.Posterior`.
    ``projections``, float64 (gaussians dim, ivector dim), and ``quadratics``, (gaussians, packed), are the extractor's
    ``precisions`` and ``quadratics``. ``sums`` (gaussians, dim), ``gamma`` and ``used`` are scratch filled with 0.
    """
    dim, size = features.shape[1], len(linear)
    count = 0.0
    for t in range(features.shape[0]):
        for k in range(starts[t], starts[t + 1]):
            g, weight = ids[k], np.float64(weights[k])
            used[g] = 1
            gamma[g] += weight
            count += weight
            for d in range(dim):
                sums[g, d] += features[t, d] * weight
    for g in range(len(used)):
        if used[g] == 0:
            continue
        for d in range(dim):
            value = sums[g, d]
            for i in range(size):
                linear[i] += value * projections[g * dim + d, i]
        for i in range(len(quadratic)):
            quadratic[i] += gamma[g] * quadratics[g, i]
    return count


def add_triangle(triangle: Any, matrix: Any) -> None:
    """Add a packed lower triangle to a symmetric ``matrix``, in place."""
    place = 0
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] += triangle[place]
            matrix[j, i] += triangle[place]
            place += 1
        matrix[i, i] += triangle[place]
        place += 1
