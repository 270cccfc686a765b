"""Eigenvalues of small symmetric matrices on the CPU. Kaldi: ``SpMatrix::Eig``.

Natural gradient takes its directions from them. How they are rounded decides in which direction training goes where
eigenvalues are close, and LAPACK, which is more exact, would go elsewhere than Kaldi; so this is the textbook's method
in float32: Householder's reflections to three diagonals, then QR steps with Wilkinson's shift (Golub and Van Loan,
Matrix Computations, 8.3).
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cpu.jit import inline, kernel, row

f32 = np.float32
PRECISION = f32(2.0**-23)       # an element beside the diagonal that is smaller than its neighbours by this is nothing
MOST_STEPS = 60                 # QR steps for each eigenvalue; two or three are usual


@inline
def _root(value):
    return f32(math.sqrt(value))


@inline
def _normalise(matrix):
    """Scale ``matrix`` by a power of two, to a largest value near 1, so that squares keep their digits."""
    n = matrix.shape[0]
    largest = f32(0.0)
    for i in range(n):
        source = row(matrix, i)
        for j in range(n):
            largest = max(largest, abs(source[j]))
    if largest == 0:
        return 0
    exponent = math.frexp(largest)[1]
    for i in range(n):
        target = row(matrix, i)
        for j in range(n):
            target[j] = math.ldexp(target[j], -exponent)
    return exponent


@inline
def _reflector(x, count, v):
    """v of I - b v vᵀ, which turns the first ``count`` values of ``x`` into (0, …, 0, |x|), with last 1; returns b."""
    last = count - 1
    rest = f32(0.0)
    for i in range(last):
        v[i] = x[i]
        rest += x[i] * x[i]
    v[last] = f32(1.0)
    if rest == 0:
        return f32(0.0)
    end = x[last]
    size = _root(end * end + rest)
    pivot = end - size if end <= 0 else -rest / (end + size)
    square = pivot * pivot
    scale = f32(1.0) / pivot
    for i in range(last):
        v[i] *= scale
    return f32(2.0) * square / (rest + square)


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
        b = _reflector(x, k, v)
        diagonal[k] = x[k]
        beside[k - 1] = x[k - 1]
        if b == 0:
            continue
        total = f32(0.0)
        for i in range(k):
            total += x[i] * x[i]
        beside[k - 1] = _root(total)
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
    below = beside[last - 1] * beside[last - 1]
    half = (diagonal[last - 1] - diagonal[last]) * f32(0.5)
    root = _root(half * half + below)
    shift = diagonal[last] - (below / (half + root if half >= 0 else half - root) if below > 0 else f32(0.0))
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


@kernel("vec mat mat mat", reassociate=True)
def symmetric_eigen(values, vectors, matrix, work):
    """Eigenvalues (in no order) and eigenvectors (rows of ``vectors``) of a symmetric matrix, which is destroyed.

    ``work`` has three rows of the matrix's size. Returns False if they were not found (NaN or infinity).
    """
    n = matrix.shape[0]
    exponent = _normalise(matrix)
    beside = row(work, 0)
    _tridiagonalise(matrix, vectors, values, beside, row(work, 1), row(work, 2))
    for _ in range(MOST_STEPS * n):
        for i in range(n - 1):
            if abs(beside[i]) <= PRECISION * (abs(values[i]) + abs(values[i + 1])):
                beside[i] = f32(0.0)
        last = n - 1
        while last > 0 and beside[last - 1] == 0:
            last -= 1
        if last == 0:
            for i in range(n):
                values[i] = math.ldexp(values[i], exponent)
            return True
        first = last - 1
        while first > 0 and beside[first - 1] != 0:
            first -= 1
        _qr_step(values, beside, first, last, vectors)
    return False
