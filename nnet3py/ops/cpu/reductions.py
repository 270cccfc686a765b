"""Sums on the CPU: over the rows of a matrix, along its rows, or over everything.

Sums over rows add four rows as a tree before they touch the destination: fewer passes over it, and less rounding than
one long chain. Sums to one number run in float64. The order depends on the sizes alone.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cpu.elementwise import keep
from nnet3py.ops.cpu.jit import inline, kernel, row, segment, span


@inline
def _four_rows(matrix, i, first, last):
    """Columns ``first`` to ``last`` - 1 of four rows."""
    return (segment(matrix, i, first, last), segment(matrix, i + 1, first, last),
            segment(matrix, i + 2, first, last), segment(matrix, i + 3, first, last))


@inline
def _prepare(dst, beta):
    for j in range(dst.shape[0]):
        dst[j] = keep(beta, dst[j])


@kernel("vec mat f32 f32", columns_of="src")
def add_row_sum(first, last, dst, src, alpha, beta):
    """``dst[j] = alpha (sum over i of src[i, j]) + beta dst[j]``. Kaldi: AddRowSumMat."""
    total = span(dst, first, last - first)
    _prepare(total, beta)
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = _four_rows(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * ((a[j] + b[j]) + (c[j] + d[j]))
    for i in range(blocked, num_rows):
        a = segment(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * a[j]


@kernel("vec mat f32 f32", columns_of="src")
def add_row_sum_sq(first, last, dst, src, alpha, beta):
    """``dst[j] = alpha (sum over i of src[i, j]^2) + beta dst[j]``. Kaldi: AddDiagMat2 of the transpose."""
    total = span(dst, first, last - first)
    _prepare(total, beta)
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = _four_rows(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * ((a[j] * a[j] + b[j] * b[j]) + (c[j] * c[j] + d[j] * d[j]))
    for i in range(blocked, num_rows):
        a = segment(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * (a[j] * a[j])


@kernel("vec mat mat f32 f32", columns_of="a")
def add_row_sum_product(first, last, dst, a, b, alpha, beta):
    """``dst[j] = alpha (sum over i of a[i, j] b[i, j]) + beta dst[j]``. Kaldi: AddDiagMatMat of the transposes."""
    total = span(dst, first, last - first)
    _prepare(total, beta)
    num_rows = a.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a0, a1, a2, a3 = _four_rows(a, i, first, last)
        b0, b1, b2, b3 = _four_rows(b, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * ((a0[j] * b0[j] + a1[j] * b1[j]) + (a2[j] * b2[j] + a3[j] * b3[j]))
    for i in range(blocked, num_rows):
        a0, b0 = segment(a, i, first, last), segment(b, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * (a0[j] * b0[j])


@kernel("dvec mat f64", columns_of="src")
def add_row_sum_double(first, last, dst, src, alpha):
    """``dst[j] += alpha (sum over i of src[i, j])`` in float64. Kaldi: AddRowSumMat, then an addition in double."""
    total = span(dst, first, last - first)
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = _four_rows(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * ((np.float64(a[j]) + np.float64(b[j])) + (np.float64(c[j]) + np.float64(d[j])))
    for i in range(blocked, num_rows):
        a = segment(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * np.float64(a[j])


@inline
def _square(value):
    wide = np.float64(value)
    return wide * wide


@kernel("dvec mat f64", columns_of="src")
def add_row_sum_sq_double(first, last, dst, src, alpha):
    """``dst[j] += alpha (sum over i of src[i, j]^2)`` in float64. Kaldi: AddDiagMat2, then an addition in double."""
    total = span(dst, first, last - first)
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = _four_rows(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * ((_square(a[j]) + _square(b[j])) + (_square(c[j]) + _square(d[j])))
    for i in range(blocked, num_rows):
        a = segment(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * _square(a[j])


@inline
def _dot(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


@kernel("vec mat mat f32 f32", reassociate=True, rows_of="a", cost=2)
def add_col_sum_product(first, last, dst, a, b, alpha, beta):
    """``dst[i] = alpha (sum over j of a[i, j] b[i, j]) + beta dst[i]``, summed in float64. Kaldi: AddDiagMatMat."""
    for i in range(first, last):
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
