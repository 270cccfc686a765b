"""The arithmetic of the natural gradient's small matrices that every device has in common, and its constants.

A preconditioner's numbers are a float64 vector in its device's memory, so that the host need not know them: the sum
of squares of the rows, that of the rows when preconditioned (and whether it is still to be found), the trace that the
moments are scaled by, and whether the directions have to be looked at.
"""
from __future__ import annotations

import math

import numpy as np

SIZE, REST, WANTED, TRACE, SUSPECT = range(5)   # places in a preconditioner's numbers
EPSILON = np.float32(1.0e-10)           # floor of the eigenvalues
DELTA = np.float32(5.0e-4)              # floor of the eigenvalues, relative to the largest
LARGEST_CONDITION = np.float32(1.0e6)   # of the update's eigenvalues, beyond which orthogonality is to be checked
SMALLEST_REST = 0.01                    # of the squared size after preconditioning, to be found as a difference
LARGEST_SIZE = 1.0e38                   # of a sum of squares in float32
ORTHOGONALITY = np.float32(1.0e-3)      # tolerated deviation of Q Qᵀ from the unit matrix
LARGEST_INVERSE_FACTOR = 100.0          # elements of an inverse Cholesky factor that can still be trusted
FINE, TOO_LARGE, TRACE_TOO_LARGE = range(3)     # what may have gone wrong
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float64(0.5)
DOUBLE_ZERO, DOUBLE_ONE = np.float64(0), np.float64(1)


def fault(size: float, trace: float) -> int:
    """Which of the constants above two of a preconditioner's numbers show."""
    return TOO_LARGE if not size < LARGEST_SIZE else FINE if math.isfinite(trace) else TRACE_TOO_LARGE


def smoothing(spectrum, rank, dim, alpha):
    """β, which with d decides how far each direction is shortened."""
    total = ZERO
    for i in range(rank):
        total += spectrum[i]
    return spectrum[rank] * (ONE + np.float32(alpha)) + np.float32(alpha) * total / np.float32(dim)


def direction_length(d, smoothing):
    """√e, the length of a row of W."""
    return np.float32(math.sqrt(ONE / (smoothing / d + ONE)))


def moment(i, j, inverse, square, cross, spectrum, num_rows, eta):
    """Element (i, j) of Z, in float64: it is to be rounded once, when it has been scaled.

    ``inverse`` are those of the lengths of W's rows.
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
    """What restores the rows' size; 0 for rows that cannot be used, which are then not to be added to anything."""
    size, rest = numbers[SIZE], numbers[REST]
    if not size < LARGEST_SIZE or not math.isfinite(numbers[TRACE]):
        return DOUBLE_ZERO
    if size == DOUBLE_ZERO:
        return DOUBLE_ONE
    return np.float64(math.sqrt(size / rest)) if rest > DOUBLE_ZERO else np.float64(np.inf)


def put_difference(numbers, rest):
    """Take ``rest``, a difference from the rows' size, if that leaves it enough digits."""
    trusted = rest > SMALLEST_REST * numbers[SIZE] or not numbers[SIZE] > DOUBLE_ZERO
    numbers[REST] = rest if trusted else DOUBLE_ZERO
    numbers[WANTED] = DOUBLE_ZERO if trusted else DOUBLE_ONE
