"""Sums on the CPU: over the rows of a matrix, along its rows, or over everything.

Sums over rows add four rows as a tree before they touch the destination: fewer passes over it, and less rounding than
one long chain. Sums to one number run in float64. The order depends on the sizes alone.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cpu.elementwise import keep
from nnet3py.ops.cpu.jit import inline, kernel, row


@inline
def _prepare(dst, beta):
    for j in range(dst.shape[0]):
        dst[j] = keep(beta, dst[j])


@kernel("vec mat f32 f32")
def add_row_sum(dst, src, alpha, beta):
    """``dst[j] = alpha (sum over i of src[i, j]) + beta dst[j]``. Kaldi: AddRowSumMat."""
    _prepare(dst, beta)
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = row(src, i), row(src, i + 1), row(src, i + 2), row(src, i + 3)
        for j in range(dst.shape[0]):
            dst[j] += alpha * ((a[j] + b[j]) + (c[j] + d[j]))
    for i in range(blocked, num_rows):
        a = row(src, i)
        for j in range(dst.shape[0]):
            dst[j] += alpha * a[j]


@kernel("vec mat f32 f32")
def add_row_sum_sq(dst, src, alpha, beta):
    """``dst[j] = alpha (sum over i of src[i, j]^2) + beta dst[j]``. Kaldi: AddDiagMat2 of the transpose."""
    _prepare(dst, beta)
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = row(src, i), row(src, i + 1), row(src, i + 2), row(src, i + 3)
        for j in range(dst.shape[0]):
            dst[j] += alpha * ((a[j] * a[j] + b[j] * b[j]) + (c[j] * c[j] + d[j] * d[j]))
    for i in range(blocked, num_rows):
        a = row(src, i)
        for j in range(dst.shape[0]):
            dst[j] += alpha * (a[j] * a[j])


@kernel("vec mat mat f32 f32")
def add_row_sum_product(dst, a, b, alpha, beta):
    """``dst[j] = alpha (sum over i of a[i, j] b[i, j]) + beta dst[j]``. Kaldi: AddDiagMatMat of the transposes."""
    _prepare(dst, beta)
    num_rows = a.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a0, a1, a2, a3 = row(a, i), row(a, i + 1), row(a, i + 2), row(a, i + 3)
        b0, b1, b2, b3 = row(b, i), row(b, i + 1), row(b, i + 2), row(b, i + 3)
        for j in range(dst.shape[0]):
            dst[j] += alpha * ((a0[j] * b0[j] + a1[j] * b1[j]) + (a2[j] * b2[j] + a3[j] * b3[j]))
    for i in range(blocked, num_rows):
        a0, b0 = row(a, i), row(b, i)
        for j in range(dst.shape[0]):
            dst[j] += alpha * (a0[j] * b0[j])


@kernel("dvec mat f64")
def add_row_sum_double(dst, src, alpha):
    """``dst[j] += alpha (sum over i of src[i, j])`` in float64. Kaldi: AddRowSumMat, then an addition in double."""
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = row(src, i), row(src, i + 1), row(src, i + 2), row(src, i + 3)
        for j in range(dst.shape[0]):
            dst[j] += alpha * ((np.float64(a[j]) + np.float64(b[j])) + (np.float64(c[j]) + np.float64(d[j])))
    for i in range(blocked, num_rows):
        a = row(src, i)
        for j in range(dst.shape[0]):
            dst[j] += alpha * np.float64(a[j])


@inline
def _square(value):
    wide = np.float64(value)
    return wide * wide


@kernel("dvec mat f64")
def add_row_sum_sq_double(dst, src, alpha):
    """``dst[j] += alpha (sum over i of src[i, j]^2)`` in float64. Kaldi: AddDiagMat2, then an addition in double."""
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = row(src, i), row(src, i + 1), row(src, i + 2), row(src, i + 3)
        for j in range(dst.shape[0]):
            dst[j] += alpha * ((_square(a[j]) + _square(b[j])) + (_square(c[j]) + _square(d[j])))
    for i in range(blocked, num_rows):
        a = row(src, i)
        for j in range(dst.shape[0]):
            dst[j] += alpha * _square(a[j])


@inline
def _dot(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


@kernel("vec mat mat f32 f32", reassociate=True)
def add_col_sum_product(dst, a, b, alpha, beta):
    """``dst[i] = alpha (sum over j of a[i, j] b[i, j]) + beta dst[i]``, summed in float64. Kaldi: AddDiagMatMat."""
    for i in range(dst.shape[0]):
        dst[i] = alpha * np.float32(_dot(row(a, i), row(b, i))) + keep(beta, dst[i])


@kernel("mat", reassociate=True)
def sum_sq(src):
    """The sum of all ``src[i, j]^2``, in float64. Kaldi: TraceMatMat(src, src, trans)."""
    total = 0.0
    for i in range(src.shape[0]):
        total += _dot(row(src, i), row(src, i))
    return total


@kernel("mat mat", reassociate=True)
def sum_product(a, b):
    """The sum of all ``a[i, j] b[i, j]``, in float64. Kaldi: TraceMatMat(a, b, trans)."""
    total = 0.0
    for i in range(a.shape[0]):
        total += _dot(row(a, i), row(b, i))
    return total


@kernel("vec vec", reassociate=True)
def dot(a, b):
    """The sum of all ``a[i] b[i]``, in float64. Kaldi: VecVec."""
    return _dot(a, b)
