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


# Where a standard deviation is tiny, the following two are huge and nearly cancel, once multiplied with the frames:
# what is left depends on how each is rounded, and so on the order of these operations, which is Kaldi's.


def mean_square_derivative(stddev, dy):
    """The derivative at a mean of squares, of that at the standard deviation which it became."""
    return HALF * dy / stddev


def mean_derivative(mean, dy, of_square):
    """The derivative at a mean, with what comes through the standard deviation."""
    return dy - rounded_product(TWO * mean, of_square)
