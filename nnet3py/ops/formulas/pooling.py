"""Formulas of pooling: norms of groups of columns, maxima of boxes of a tensor, and statistics over frames.

A row is a tensor whose elements have coordinates (x, y, z), z varying fastest. ``shape`` (12,) has four triples, each
along x, y and z: the sizes of the tensor, the sizes of a box, the steps from box to box, the numbers of boxes.
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
    """Return the derivative of an element ``x`` of a group, from the group's norm ``y`` and its derivative ``dy``."""
    return x / y * dy if y != ZERO else ZERO


def box_start(p, shape):
    """Return the index in a row of the first element of box ``p``."""
    i, j, k = p // (shape[10] * shape[11]), p // shape[11] % shape[10], p % shape[11]
    return i * shape[6] * (shape[1] * shape[2]) + j * shape[7] * shape[2] + k * shape[8]


def largest_of_box(row, p, shape):
    """Return the largest element of box ``p`` of a row."""
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
    """Return ``a * b``, rounded before it is added to anything: a GPU's fused multiply-add would not round it."""
    return a * b


def extraction_derivative(x, of_sum, of_square):
    """Return the derivative of ``x``, from the derivatives of a sum over x and of a sum over x^2."""
    return of_sum + rounded_product(TWO * x, of_square)


# For a tiny standard deviation the next two derivatives are huge, and their contributions to a frame nearly cancel: the
# result then depends on the rounding of each, so the order of these operations is Kaldi's.


def mean_square_derivative(stddev, dy):
    """Return the derivative of a mean of squares, from ``dy``, that of sqrt(mean of squares - mean^2) = ``stddev``."""
    return HALF * dy / stddev


def mean_derivative(mean, dy, of_square):
    """Return the derivative of a mean that is also used in a standard deviation.

    ``dy`` is the derivative of the output mean, ``of_square`` that of the mean of squares.
    """
    return dy - rounded_product(TWO * mean, of_square)
