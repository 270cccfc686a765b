"""Derivatives of sums of frames and of their squares, and of means and standard deviations of such sums."""
from __future__ import annotations

import numpy as np

TWO, HALF = np.float32(2), np.float32(0.5)


def rounded_product(a, b):
    """``a b``, rounded: not to be multiplied and added in one operation, with one rounding, as GPUs do."""
    return a * b


def extraction_derivative(x, of_sum, of_square):
    """The derivative at ``x``, of the derivatives of a sum and a sum of squares that it is part of."""
    return of_sum + rounded_product(TWO * x, of_square)


def pooling_derivative(j, half, first, y, dy, stddevs):
    """The derivative at mean ``j`` of the output ``y``, whose means begin at column ``first``.

    With ``stddevs`` the second ``half`` of the means became standard deviations. Where such a one is tiny, two terms
    are huge and nearly cancel, once multiplied with the frames: what is left depends on how each is rounded, and so on
    the order of these operations, which is Kaldi's.
    """
    if not stddevs:
        return dy[first + j]
    mean = first + (j - half if j >= half else j)
    of_square = HALF * dy[mean + half] / y[mean + half]
    if j >= half:
        return of_square
    return dy[first + j] - rounded_product(TWO * y[mean], of_square)
