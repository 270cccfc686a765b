"""The step of the orthonormal constraint, which all devices have in common, and its constants."""
from __future__ import annotations

import math

import numpy as np

UPDATE_SPEED = np.float32(0.125)
SMALLEST_TRACE = np.float32(1.0e-15)     # below it a matrix counts as zero
LEAST_RATIO = np.float32(0.9)            # it is 1 or more but for rounding: with less, or NaN, the matrix is unusable
ZERO, ONE, TWO, FOUR = np.float32(0), np.float32(1), np.float32(2), np.float32(4)


def orthonormal_move(trace, trace_of_square, dim, constraint):
    """What to do with P = M Mᵀ of ``dim`` rows: (f, s², ratio) of the step M -= f (P - s² I) M; f is 0 for none.

    ``ratio`` is the mean square of the squared singular values over their squared mean, 1 if all are equal; 1 also
    where it does not matter.
    """
    if constraint >= ZERO:
        square = constraint * constraint
        return FOUR * UPDATE_SPEED / square, square, ONE
    if trace < SMALLEST_TRACE:
        return ZERO, ZERO, ONE
    scale = np.float32(math.sqrt(trace_of_square / trace))
    ratio = np.float32(trace_of_square * dim / (trace * trace))
    if not ratio > LEAST_RATIO:
        return ZERO, ZERO, ratio
    speed = UPDATE_SPEED
    if ratio > np.float32(1.1):
        speed /= FOUR
    elif ratio > np.float32(1.02):
        speed /= TWO
    return FOUR * speed / (scale * scale), scale * scale, ratio
