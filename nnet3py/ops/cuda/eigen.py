"""Eigenvalues of small symmetric matrices on the GPU, by one block; the CPU's are LAPACK's (``ops/cpu/eigen.py``).

The method is the textbook one: Householder reflections to three diagonals, then QR steps with Wilkinson's shift (Golub
and Van Loan, Matrix Computations, 8.3). The threads share what is as large as the matrix; the rotations of a QR step,
which follow from each other, are found by one of them, and then carried out by all.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cuda.launch import operation
from nnet3py.ops.cuda.reduce import MOST_THREADS, launch_square, max_over_block, sum_down_column, sum_over_block
from nnet3py.ops.cuda.threads import (
    block_rows,
    cuda,
    device_function,
    is_first_of_block,
    places_in_block,
    row,
    team_columns,
)

PRECISION = np.float32(2.0**-23)       # an element beside the diagonal that is smaller than its neighbors by this is 0
NEGLIGIBLE = np.float32(2.0**-100)     # and so is any that small, the matrix's largest value being near 1
SMALLEST_SQUARE = np.float32(1.0e-30)  # that still has all its digits
MOST_STEPS = 30                        # QR steps for each eigenvalue; two or three are usual
COARSE = np.float32(2.0**-24)          # what counts as 0 after half of them: rounding at most, if the largest is 1
FIRST, LAST = range(2)                 # of the part that a QR step works on
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
NOT_A_NUMBER = np.float32(np.nan)


@device_function
def _root(value):
    return np.float32(math.sqrt(value))


@device_function
def _scaled(value, exponent):
    """``value`` times a power of two, which changes no digits."""
    return np.float32(math.ldexp(value, exponent))


@device_function
def _exponent(value):
    """The exponent of the power of two just above ``value``; 0 for 0."""
    return math.frexp(value)[1] if value > ZERO else 0


@device_function
def _reflector(shared, x, count, v):
    """v of I - b v vᵀ, which turns the first ``count`` values of ``x`` into (0, …, 0, |x|), with last 1; b and |x|.

    Where only the last value differs from 0, b is 0 and |x| is that value, whatever its sign.
    """
    last, largest = count - 1, ZERO
    for i in places_in_block(count):
        largest = abs(x[i]) if abs(x[i]) > largest else largest
    exponent = _exponent(max_over_block(shared, largest))      # squares of values as they are could vanish
    part = ZERO
    for i in places_in_block(last):
        value = _scaled(x[i], -exponent)
        part += value * value
    rest = sum_over_block(shared, part)
    if rest == ZERO:
        return ZERO, x[last]
    end = _scaled(x[last], -exponent)
    size = _root(end * end + rest)
    pivot = end - size if end <= ZERO else -rest / (end + size)
    square = pivot * pivot
    if square > SMALLEST_SQUARE:
        b = TWO * square / (rest + square)
    else:
        b = TWO / (ONE + (end + size) * ((end + size) / rest))
    scale = ONE / pivot
    for i in places_in_block(last):
        v[i] = _scaled(x[i], -exponent) * scale
    if is_first_of_block():
        v[last] = ONE
    cuda.syncthreads()
    return b, _scaled(size, exponent)


@device_function
def _weighted_row_sum(shared, matrix, weights, count, dst, cols):
    """``dst[j]`` = sum over i below ``count`` of ``weights[i] matrix[i, j]``."""
    for first in range(0, cols, cuda.blockDim.x):
        j, part = first + cuda.threadIdx.x, ZERO
        if j < cols:
            for i in block_rows(count):
                part += weights[i] * row(matrix, i)[j]
        total = sum_down_column(shared, part)
        if j < cols and cuda.threadIdx.y == 0:
            dst[j] = total
    cuda.syncthreads()


@device_function
def _tridiagonalize(shared, a, vectors, diagonal, beside, v, p):
    """a = vectorsᵀ T vectors with T of three diagonals; ``a`` is destroyed. From the last row upwards."""
    n = a.shape[0]
    for i in block_rows(n):
        target = row(vectors, i)
        for j in team_columns(n):
            target[j] = ONE if np.int64(j) == i else ZERO
    for k in range(n - 1, 0, -1):
        b, norm = _reflector(shared, row(a, k), k, v)
        if is_first_of_block():
            beside[k - 1] = norm
            diagonal[k] = a[k, k]
        if b == ZERO:
            continue
        _weighted_row_sum(shared, a, v, k, p, k)      # the matrix is symmetric
        part = ZERO
        for i in places_in_block(k):
            part += b * p[i] * v[i]
        half = HALF * b * sum_over_block(shared, part)
        for i in places_in_block(k):
            p[i] = b * p[i] - half * v[i]
        cuda.syncthreads()
        for i in block_rows(k):
            target = row(a, i)
            for j in team_columns(k):
                target[j] -= v[i] * p[j] + p[i] * v[j]
        cuda.syncthreads()
        _weighted_row_sum(shared, vectors, v, k, p, n)
        for i in block_rows(k):
            target, factor = row(vectors, i), b * v[i]
            for j in team_columns(n):
                target[j] -= factor * p[j]
        cuda.syncthreads()
    if is_first_of_block():
        diagonal[0] = a[0, 0]
    cuda.syncthreads()


@device_function
def _rotation(x, z):
    """Cosine and sine of the rotation that turns (x, z) into (r, 0)."""
    if z == ZERO:
        return ONE, ZERO
    if abs(z) > abs(x):
        ratio = -x / z
        s = ONE / _root(ONE + ratio * ratio)
        return s * ratio, s
    ratio = -z / x
    c = ONE / _root(ONE + ratio * ratio)
    return c, c * ratio


@device_function
def _find_rotations(diagonal, beside, first, last, cosines, sines):
    """One QR step on the part ``first`` to ``last`` of the three diagonals; by a single thread."""
    half, corner = (diagonal[last - 1] - diagonal[last]) * HALF, beside[last - 1]
    exponent = _exponent(abs(half) if abs(half) > abs(corner) else abs(corner))
    half, corner = _scaled(half, -exponent), _scaled(corner, -exponent)      # as in _reflector
    root = _root(half * half + corner * corner)
    shift = diagonal[last] - _scaled(corner * corner / (half + root if half >= ZERO else half - root), exponent)
    x, z = diagonal[first] - shift, beside[first]
    for k in range(first, last):
        c, s = _rotation(x, z)
        p, q, r = diagonal[k], beside[k], diagonal[k + 1]
        cc, ss, cs = c * c, s * s, c * s
        if k > first:
            beside[k - 1] = c * x - s * z
        diagonal[k] = cc * p - TWO * cs * q + ss * r
        diagonal[k + 1] = ss * p + TWO * cs * q + cc * r
        beside[k] = cs * (p - r) + (cc - ss) * q
        cosines[k], sines[k] = c, s
        if k < last - 1:
            x, z = beside[k], -s * beside[k + 1]
            beside[k + 1] *= c


@device_function
def _find_part(control, diagonal, beside):
    """The part of the three diagonals that is to be worked on next; its last place is 0 if there is none."""
    last = control[LAST]
    while last > 0 and beside[last - 1] == ZERO:
        last -= 1
    first = last - 1
    while first > 0 and beside[first - 1] != ZERO:
        first -= 1
    control[FIRST], control[LAST] = first, last


@operation(over=2, shape=launch_square)
def symmetric_eigen(values, vectors, matrix, work):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    control = cuda.shared.array(2, np.int64)
    n = matrix.shape[0]
    beside, v, p = row(work, 0), row(work, 1), row(work, 2)
    largest = ZERO
    for i in block_rows(n):
        for j in team_columns(n):
            value = abs(row(matrix, i)[j])
            largest = value if value > largest else largest
    exponent = _exponent(max_over_block(shared, largest))
    for i in block_rows(n):
        source = row(matrix, i)
        for j in team_columns(n):
            source[j] = _scaled(source[j], -exponent)
    if is_first_of_block():
        control[FIRST], control[LAST] = 0, n - 1
    cuda.syncthreads()
    _tridiagonalize(shared, matrix, vectors, values, beside, v, p)
    nothing = NEGLIGIBLE
    for step in range(MOST_STEPS * n):
        if 2 * step == MOST_STEPS * n:      # values of so different sizes that rotations vanish
            nothing = COARSE
        for i in places_in_block(n - 1):
            size = abs(beside[i])
            if size <= PRECISION * (abs(values[i]) + abs(values[np.int64(i) + 1])) or size <= nothing:
                beside[i] = ZERO
        cuda.syncthreads()
        if is_first_of_block():
            _find_part(control, values, beside)
            if control[LAST] > 0:
                _find_rotations(values, beside, control[FIRST], control[LAST], v, p)
        cuda.syncthreads()
        first, last = control[FIRST], control[LAST]
        if last == 0:
            break
        for j in places_in_block(n):
            upper = row(vectors, first)[j]
            for k in range(first, last):
                lower = row(vectors, k + 1)[j]
                row(vectors, k)[j] = v[k] * upper - p[k] * lower
                upper = p[k] * upper + v[k] * lower
            row(vectors, last)[j] = upper
        cuda.syncthreads()
    has_converged = control[LAST] == 0
    for i in places_in_block(n):
        values[i] = _scaled(values[i], exponent) if has_converged else NOT_A_NUMBER
