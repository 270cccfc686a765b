"""Eigenvalues of small symmetric matrices on the CPU. Kaldi: ``SpMatrix::Eig``.

Natural gradient takes its directions from them. How they are rounded decides in which direction training goes where
eigenvalues are close, and LAPACK, which is more exact, would go elsewhere than Kaldi; so this is the textbook's method
in float32: Householder's reflections to three diagonals, then QR steps with Wilkinson's shift (Golub and Van Loan,
Matrix Computations, 8.3).
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine import compiling, symbols
from nnet3py.engine.addresses import address, exponent_of, times_power_of_two
from nnet3py.engine.code_files import Code
from nnet3py.engine.jit import inline, row
from nnet3py.engine.kinds import kinds_of
from nnet3py.engine.team_code import address_of_eigen, put_aside, wait_for
from nnet3py.ops.cpu.operation import operation

f32 = np.float32
PRECISION = f32(2.0**-23)       # an element beside the diagonal that is smaller than its neighbours by this is nothing
NOTHING = f32(2.0**-100)        # and so is any that small, the matrix's largest value being near 1
SMALLEST_SQUARE = f32(1.0e-30)  # that still has all its digits
MOST_STEPS = 30                 # QR steps for each eigenvalue; two or three are usual
COARSE = f32(2.0**-24)          # what is nothing after half of them: no more than rounding, the largest value being 1


@inline
def _root(value):
    return f32(math.sqrt(value))


@inline
def _exponent(x, count):
    """Of the power of two that is just above the largest of ``count`` values; 0 if all are 0."""
    largest = f32(0.0)
    for i in range(count):
        largest = max(largest, abs(x[i]))
    return exponent_of(largest) if largest > 0 else 0


@inline
def _scale(x, count, exponent):
    """Multiply ``count`` values by a power of two, which changes no digits."""
    for i in range(count):
        x[i] = times_power_of_two(x[i], exponent)


@inline
def _reflector(x, count, v):
    """v of I - b v vᵀ, which turns the first ``count`` values of ``x`` into (0, …, 0, |x|), with last 1; b and |x|.

    Where only the last of them differs from 0, b is 0 and |x| is that value, whatever its sign.
    """
    last = count - 1
    exponent = _exponent(x, count)      # squares of values as they are could vanish
    rest, total = f32(0.0), f32(0.0)
    for i in range(count):
        v[i] = times_power_of_two(x[i], -exponent)
    for i in range(last):
        rest += v[i] * v[i]
    for i in range(count):
        total += v[i] * v[i]
    end = v[last]
    v[last] = f32(1.0)
    if rest == 0:
        return f32(0.0), x[last]
    size = _root(end * end + rest)
    pivot = end - size if end <= 0 else -rest / (end + size)
    square = pivot * pivot
    scale = f32(1.0) / pivot
    for i in range(last):
        v[i] *= scale
    if square > SMALLEST_SQUARE:
        b = f32(2.0) * square / (rest + square)
    else:
        b = f32(2.0) / (f32(1.0) + (end + size) * ((end + size) / rest))
    return b, f32(times_power_of_two(_root(total), exponent))


@inline
def _tridiagonalise(a, vectors, diagonal, beside, v, p):
    """a = vectorsᵀ T vectors with T of three diagonals; ``a`` is destroyed. From the last row upwards."""
    n = a.shape[0]
    for i in range(n):
        target = row(vectors, i)
        for j in range(n):
            target[j] = f32(0.0)
        target[i] = f32(1.0)
    for k in range(n - 1, 0, -1):
        x = row(a, k)
        b, beside[k - 1] = _reflector(x, k, v)
        diagonal[k] = x[k]
        if b == 0:
            continue
        inner = f32(0.0)
        for i in range(k):
            source = row(a, i)
            total = f32(0.0)
            for j in range(k):
                total += source[j] * v[j]
            p[i] = b * total
            inner += p[i] * v[i]
        half = f32(0.5) * b * inner
        for i in range(k):
            p[i] -= half * v[i]
        for i in range(k):
            target = row(a, i)
            for j in range(k):
                target[j] -= v[i] * p[j] + p[i] * v[j]
        for j in range(n):
            p[j] = f32(0.0)
        for i in range(k):
            source = row(vectors, i)
            for j in range(n):
                p[j] += v[i] * source[j]
        for i in range(k):
            target = row(vectors, i)
            factor = b * v[i]
            for j in range(n):
                target[j] -= factor * p[j]
    diagonal[0] = a[0, 0]


@inline
def _qr_step(diagonal, beside, first, last, vectors):
    """One step on the part ``first`` to ``last`` of the three diagonals; its rotations go into rows of ``vectors``."""
    n = vectors.shape[1]
    half, corner = (diagonal[last - 1] - diagonal[last]) * f32(0.5), beside[last - 1]
    exponent = exponent_of(max(abs(half), abs(corner)))
    half = f32(times_power_of_two(half, -exponent))         # as in _reflector
    corner = f32(times_power_of_two(corner, -exponent))
    root = _root(half * half + corner * corner)
    divided = corner * corner / (half + root if half >= 0 else half - root)
    shift = diagonal[last] - f32(times_power_of_two(divided, exponent))
    x, z = diagonal[first] - shift, beside[first]
    for k in range(first, last):
        if z == 0:
            c, s = f32(1.0), f32(0.0)
        elif abs(z) > abs(x):
            ratio = -x / z
            s = f32(1.0) / _root(f32(1.0) + ratio * ratio)
            c = s * ratio
        else:
            ratio = -z / x
            c = f32(1.0) / _root(f32(1.0) + ratio * ratio)
            s = c * ratio
        p, q, r = diagonal[k], beside[k], diagonal[k + 1]
        cc, ss, cs = c * c, s * s, c * s
        if k > first:
            beside[k - 1] = c * x - s * z
        diagonal[k] = cc * p - f32(2.0) * cs * q + ss * r
        diagonal[k + 1] = ss * p + f32(2.0) * cs * q + cc * r
        beside[k] = cs * (p - r) + (cc - ss) * q
        upper, lower = row(vectors, k), row(vectors, k + 1)
        for j in range(n):
            one, other = upper[j], lower[j]
            upper[j] = c * one - s * other
            lower[j] = s * one + c * other
        if k < last - 1:
            x, z = beside[k], -s * beside[k + 1]
            beside[k + 1] *= c


def decompose(values, vectors, matrix, work):
    """Eigenvalues and eigenvectors of a symmetric matrix; see :func:`symmetric_eigen` for the arguments."""
    n = matrix.shape[0]
    exponent = -1000
    for i in range(n):
        exponent = max(exponent, _exponent(row(matrix, i), n))
    for i in range(n):
        _scale(row(matrix, i), n, -exponent)
    beside = row(work, 0)
    _tridiagonalise(matrix, vectors, values, beside, row(work, 1), row(work, 2))
    nothing = NOTHING
    for step in range(MOST_STEPS * n):
        if 2 * step == MOST_STEPS * n:      # values of so different sizes that rotations vanish
            nothing = COARSE
        for i in range(n - 1):
            if abs(beside[i]) <= PRECISION * (abs(values[i]) + abs(values[i + 1])) or abs(beside[i]) <= nothing:
                beside[i] = f32(0.0)
        last = n - 1
        while last > 0 and beside[last - 1] == 0:
            last -= 1
        if last == 0:
            _scale(values, n, exponent)
            return
        first = last - 1
        while first > 0 and beside[first - 1] != 0:
            first -= 1
        _qr_step(values, beside, first, last, vectors)
    for i in range(n):
        values[i] = f32(np.nan)


def make_part() -> Code:
    """Machine code of :func:`decompose`, known as ``symbols.EIGEN``."""
    return compiling.make_part(decompose, kinds_of("vec mat mat mat"), symbols.PROVIDERS, {"reassoc", "nsz"})


@operation(needs=(symbols.EIGEN,))
def symmetric_eigen(values, vectors, matrix, work, job):
    put_aside(address(job), address_of_eigen(), (values, vectors, matrix, work))


@operation()
def finish_aside(job):
    wait_for(address(job))
