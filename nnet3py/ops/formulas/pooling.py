"""Formulas of pooling: norms of groups of columns, maxima of boxes of a tensor, and statistics over frames.

``shape`` (12,) is the x, y, z dimensions of the tensor in a row, those of the box, the steps from box to box, and the
numbers of boxes, along each axis.
"""
from __future__ import annotations

import math

import numpy as np

ZERO = np.float32(0)
LOWEST = np.float32(-1e20)      # a maximum is never below this, as in Kaldi


def norm(group):
    """Return the 2-norm of a vector."""
    total = ZERO
    for k in range(group.shape[0]):
        total += group[k] * group[k]
    return math.sqrt(total)


def norm_derivative(x, y, dy):
    """Return the derivative at an element of a group whose norm is ``y``."""
    return x / y * dy if y != ZERO else ZERO


def box_start(p, shape):
    """Return the place in a row where box ``p`` starts."""
    i, j, k = p // (shape[10] * shape[11]), p // shape[11] % shape[10], p % shape[11]
    return i * shape[6] * (shape[1] * shape[2]) + j * shape[7] * shape[2] + k * shape[8]


def largest_of_box(row, p, shape):
    """Return the largest element of box ``p``."""
    plane, line, start, largest = shape[1] * shape[2], shape[2], box_start(p, shape), LOWEST
    for x in range(shape[3]):
        for y in range(shape[4]):
            first = start + x * plane + y * line
            for c in range(first, first + shape[5]):
                largest = row[c] if row[c] > largest else largest
    return largest


# -- derivatives of sums of frames and of their squares, of means and standard deviations ------------------------------


TWO, HALF = np.float32(2), np.float32(0.5)


def rounded_product(a, b):
    """Return ``a b``, rounded: never multiplied and added in one operation with one rounding, as GPUs do."""
    return a * b


def extraction_derivative(x, of_sum, of_square):
    """Return the derivative at ``x``, from the derivatives at a sum and a sum of squares that contain it."""
    return of_sum + rounded_product(TWO * x, of_square)


# Where a standard deviation is tiny, the following two derivatives are huge and nearly cancel, once multiplied with the
# frames: the rest depends on how each is rounded, and so on the order of these operations, which is Kaldi's.


def mean_square_derivative(stddev, dy):
    """Return the derivative at a mean of squares, from that at the standard deviation made of it."""
    return HALF * dy / stddev


def mean_derivative(mean, dy, of_square):
    """Return the derivative at a mean, including the part through the standard deviation."""
    return dy - rounded_product(TWO * mean, of_square)
