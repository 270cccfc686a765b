"""Pooling over the columns of a row: norms of groups, and maxima of boxes of the tensor that the row is.

``shape`` (12,) is the tensor's x, y, z dimensions, the box's, its steps, and how many boxes there are, along each.
"""
from __future__ import annotations

import math

import numpy as np

ZERO = np.float32(0)
LOWEST = np.float32(-1e20)      # a maximum is never below this, as in Kaldi


def norm(group):
    """The 2-norm of a vector."""
    total = ZERO
    for k in range(group.shape[0]):
        total += group[k] * group[k]
    return math.sqrt(total)


def norm_derivative(x, y, dy):
    """The derivative at an element of a group whose norm is ``y``."""
    return x / y * dy if y != ZERO else ZERO


def box_start(p, shape):
    """The place in a row where box ``p`` starts."""
    i, j, k = p // (shape[10] * shape[11]), p // shape[11] % shape[10], p % shape[11]
    return i * shape[6] * (shape[1] * shape[2]) + j * shape[7] * shape[2] + k * shape[8]


def largest_of_box(row, p, shape):
    """The largest element of box ``p``."""
    plane, line, start, largest = shape[1] * shape[2], shape[2], box_start(p, shape), LOWEST
    for x in range(shape[3]):
        for y in range(shape[4]):
            first = start + x * plane + y * line
            for c in range(first, first + shape[5]):
                largest = row[c] if row[c] > largest else largest
    return largest
