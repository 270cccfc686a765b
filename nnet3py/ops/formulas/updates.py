"""Formulas and constants of parameter updates: the natural gradient's small matrices, the orthonormal constraint.

``numbers`` (5,) is the state of a preconditioner in device memory, float64, so that the host need not read it:

- SIZE: the sum of squares of the rows to precondition
- REST: the sum of squares of the preconditioned rows
- WANTED: 1 if REST must still be computed from the rows (``exact_size``), else 0
- TRACE: the trace of Z, at least 1, by which Z is divided; NaN after an update that failed
- SUSPECT: 1 if ``orthogonalize`` must check whether the directions are still orthogonal, else 0

X, Q, W, e, d and ρ are those of ``components/natural_gradient.py``. J = (X Wᵀ)ᵀ X, and Z = Q T² Qᵀ with T the new
estimate. ``spectrum`` (R + 1,) holds d, then ρ. Kaldi: natural-gradient-online.h, where Q is called R.
"""
from __future__ import annotations

import math

import numpy as np

# -- natural gradient --------------------------------------------------------------------------------------------------


SIZE, REST, WANTED, TRACE, SUSPECT = range(5)   # indexes into ``numbers``
EPSILON = np.float32(1.0e-10)           # floor of the eigenvalues
DELTA = np.float32(5.0e-4)              # floor of the eigenvalues, relative to the largest
LARGEST_CONDITION = np.float32(1.0e6)   # of the update's eigenvalues; above it orthogonality is checked
SMALLEST_REST = 0.01                    # relative to SIZE; below it, REST as a difference has too few digits
LARGEST_SIZE = 1.0e38                   # limit of a sum of squares in float32
ORTHOGONALITY = np.float32(1.0e-3)      # tolerated deviation of Q Qᵀ from the unit matrix
LARGEST_INVERSE_FACTOR = 100.0          # a larger element of an inverse Cholesky factor is inaccurate
FINE, TOO_LARGE, TRACE_TOO_LARGE = range(3)     # results of :func:`fault`
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float64(0.5)
DOUBLE_ZERO, DOUBLE_ONE = np.float64(0), np.float64(1)


def fault(size: float, trace: float) -> int:
    """Return whether rows can be preconditioned (FINE), or why not, from SIZE and TRACE.

    TOO_LARGE: ``size`` is not finite or too large. TRACE_TOO_LARGE: ``trace`` is not finite.
    """
    return TOO_LARGE if not size < LARGEST_SIZE else FINE if math.isfinite(trace) else TRACE_TOO_LARGE


def smoothing(spectrum, rank, dim, alpha):
    """Return β = (1 + alpha) ρ + alpha sum(d) / dim, the smoothed variance in each direction."""
    total = ZERO
    for i in range(rank):
        total += spectrum[i]
    return spectrum[rank] * (ONE + np.float32(alpha)) + np.float32(alpha) * total / np.float32(dim)


def direction_length(d, smoothing):
    """Return √e, the length of the row of W for ``d``: e = 1 / (smoothing / d + 1), where ``smoothing`` is β."""
    return np.float32(math.sqrt(ONE / (smoothing / d + ONE)))


def moment(i, j, inverse, square, cross, spectrum, num_rows, eta):
    """Return element (i, j) of Z in float64, before it is divided by the trace and rounded.

    ``inverse`` has the inverse lengths of W's rows, ``square`` is J Jᵀ, ``cross`` W Jᵀ, ``eta`` the forgetting factor.
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
    """Return the factor sqrt(SIZE / REST), by which preconditioned rows get back their norm.

    It is 0 for rows that cannot be preconditioned (see :func:`fault`), whose gradient is not used then.
    """
    size, rest = numbers[SIZE], numbers[REST]
    if not size < LARGEST_SIZE or not math.isfinite(numbers[TRACE]):
        return DOUBLE_ZERO
    if size == DOUBLE_ZERO:
        return DOUBLE_ONE
    return np.float64(math.sqrt(size / rest)) if rest > DOUBLE_ZERO else np.float64(np.inf)


def put_difference(numbers, rest):
    """Set REST to ``rest``, which was computed as a difference, if it has enough digits; else set REST 0, WANTED 1."""
    trusted = rest > SMALLEST_REST * numbers[SIZE] or not numbers[SIZE] > DOUBLE_ZERO
    numbers[REST] = rest if trusted else DOUBLE_ZERO
    numbers[WANTED] = DOUBLE_ZERO if trusted else DOUBLE_ONE


# -- the orthonormal constraint ----------------------------------------------------------------------------------------


UPDATE_SPEED = np.float32(0.125)
SMALLEST_TRACE = np.float32(1.0e-15)     # for a smaller trace no step is made
LEAST_RATIO = np.float32(0.9)            # ratios are 1 or more but for rounding; for a smaller one, or NaN, no step
TWO, FOUR = np.float32(2), np.float32(4)


def orthonormal_move(trace, trace_of_square, dim, constraint):
    """Return (f, s², ratio) of the step M -= f (P - s² I) M for P = M Mᵀ of ``dim`` rows; f is 0 for no step.

    ``ratio`` = mean(e²) / mean(e)² of the eigenvalues e of P: 1 if all are equal, also 1 for a fixed ``constraint``.
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
