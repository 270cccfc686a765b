"""The loop that solves for an i-vector."""
from __future__ import annotations

from typing import Any

import numpy as np

_TINY = 2.2e-308
_RESIDUAL_CHANGE = float(np.float32(0.01)) ** 2       # when residuals are computed anew


def conjugate_gradients(matrix: Any, right: Any, solution: Any, work: Any, most: int) -> int:
    """Improve the ``solution`` of matrix x = right in at most ``most`` steps, in place; 1 if it became worse, else 0.

    ``matrix`` is symmetric; ``work`` (3, dim) is scratch. All float64. Kaldi: LinearCgd.
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
