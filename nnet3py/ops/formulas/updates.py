"""Formulas and constants of parameter updates: the natural gradient's small matrices, the orthonormal constraint.

``numbers`` (float64, in a device's memory, so that the host need not know them) describe a preconditioner: the sum of
squares of the rows, the same after preconditioning, whether the latter is still to be found, the trace that moments are
scaled by, and whether the directions have to be checked.
"""
from __future__ import annotations

import math

import numpy as np

# -- natural gradient --------------------------------------------------------------------------------------------------


SIZE, REST, WANTED, TRACE, SUSPECT = range(5)   # places in ``numbers``
EPSILON = np.float32(1.0e-10)           # floor of the eigenvalues
DELTA = np.float32(5.0e-4)              # floor of the eigenvalues, relative to the largest
LARGEST_CONDITION = np.float32(1.0e6)   # of the update's eigenvalues; above it orthogonality is checked
SMALLEST_REST = 0.01                    # of SIZE: a smaller REST cannot be found as a difference
LARGEST_SIZE = 1.0e38                   # of a sum of squares in float32
ORTHOGONALITY = np.float32(1.0e-3)      # tolerated deviation of Q Qᵀ from the unit matrix
LARGEST_INVERSE_FACTOR = 100.0          # limit for elements of an inverse Cholesky factor to be trusted
FINE, TOO_LARGE, TRACE_TOO_LARGE = range(3)     # faults of rows
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float64(0.5)
DOUBLE_ZERO, DOUBLE_ONE = np.float64(0), np.float64(1)


def fault(size: float, trace: float) -> int:
    """Return the fault of rows: FINE, TOO_LARGE or TRACE_TOO_LARGE."""
    return TOO_LARGE if not size < LARGEST_SIZE else FINE if math.isfinite(trace) else TRACE_TOO_LARGE


def smoothing(spectrum, rank, dim, alpha):
    """Return β, which with d decides how far each direction is shortened."""
    total = ZERO
    for i in range(rank):
        total += spectrum[i]
    return spectrum[rank] * (ONE + np.float32(alpha)) + np.float32(alpha) * total / np.float32(dim)


def direction_length(d, smoothing):
    """Return √e, the length of a row of W."""
    return np.float32(math.sqrt(ONE / (smoothing / d + ONE)))


def moment(i, j, inverse, square, cross, spectrum, num_rows, eta):
    """Return element (i, j) of Z in float64, to be rounded once, after scaling.

    ``inverse`` are the inverse lengths of W's rows.
    """
    keep, per_row = ONE - np.float32(eta), np.float32(eta) / np.float32(num_rows)
    rank = square.shape[0]
    scales = np.float64(inverse[i]) * np.float64(inverse[j])
    kept_i, kept_j = np.float64(spectrum[i] + spectrum[rank]), np.float64(spectrum[j] + spectrum[rank])
    value = HALF * per_row * np.float64(per_row) * (np.float64(square[i, j]) + np.float64(square[j, i])) * scales
    value += HALF * per_row * np.float64(keep) * (np.float64(cross[i, j]) + np.float64(cross[j, i])) * scales * (
        kept_i + kept_j)
    return value + np.float64(keep) * np.float64(keep) * kept_i * kept_i if i == j else value


def factor(numbers):
    """Return the factor that restores the rows' size; 0 for unusable rows, which must not be added to anything."""
    size, rest = numbers[SIZE], numbers[REST]
    if not size < LARGEST_SIZE or not math.isfinite(numbers[TRACE]):
        return DOUBLE_ZERO
    if size == DOUBLE_ZERO:
        return DOUBLE_ONE
    return np.float64(math.sqrt(size / rest)) if rest > DOUBLE_ZERO else np.float64(np.inf)


def put_difference(numbers, rest):
    """Set REST to ``rest``, a difference from the rows' size, if it has enough digits; else ask for it by WANTED."""
    trusted = rest > SMALLEST_REST * numbers[SIZE] or not numbers[SIZE] > DOUBLE_ZERO
    numbers[REST] = rest if trusted else DOUBLE_ZERO
    numbers[WANTED] = DOUBLE_ZERO if trusted else DOUBLE_ONE


# -- the orthonormal constraint ----------------------------------------------------------------------------------------


UPDATE_SPEED = np.float32(0.125)
SMALLEST_TRACE = np.float32(1.0e-15)     # below it a matrix counts as zero
LEAST_RATIO = np.float32(0.9)            # ratios are 1 or more but for rounding; below this, or NaN: unusable
TWO, FOUR = np.float32(2), np.float32(4)


def orthonormal_move(trace, trace_of_square, dim, constraint):
    """Return (f, s², ratio) of the step M -= f (P - s² I) M for P = M Mᵀ of ``dim`` rows; f is 0 for no step.

    ``ratio`` is the mean square of the squared singular values over their squared mean: 1 if all are equal, or where it
    is not used.
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
