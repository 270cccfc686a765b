"""Elementwise operations on the CPU: matrices with matrices, and vectors along rows or columns.

Where a ``beta`` is 0 the old content of the destination does not count, not even NaN.
"""
from __future__ import annotations

from nnet3py.engine.jit import inline, kernel, row
from nnet3py.ops import formulas

keep = inline(formulas.keep)


@kernel("mat vec f32 f32", rows_of="dst")
def add_vec_to_rows(first, last, dst, vec, alpha, beta):
    """``dst[i] = alpha vec + beta dst[i]``. Kaldi: AddVecToRows, CopyRowsFromVec."""
    for i in range(first, last):
        d = row(dst, i)
        for j in range(d.shape[0]):
            d[j] = alpha * vec[j] + keep(beta, d[j])


@kernel("mat mat vec", rows_of="dst")
def mul_cols_vec(first, last, dst, src, vec):
    """``dst[i, j] = src[i, j] vec[j]``; ``dst`` may be ``src``. Kaldi: MulColsVec."""
    for i in range(first, last):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            d[j] = s[j] * vec[j]


@kernel("mat mat vec", rows_of="dst")
def mul_rows_vec(first, last, dst, src, vec):
    """``dst[i, j] = src[i, j] vec[i]``; ``dst`` may be ``src``. Kaldi: MulRowsVec."""
    for i in range(first, last):
        d, s, scale = row(dst, i), row(src, i), vec[i]
        for j in range(d.shape[0]):
            d[j] = s[j] * scale


@kernel("mat mat vec f32 f32", rows_of="dst")
def add_mat_diag_vec(first, last, dst, src, vec, alpha, beta):
    """``dst[i, j] = alpha src[i, j] vec[j] + beta dst[i, j]``. Kaldi: AddMatDiagVec."""
    for i in range(first, last):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            d[j] = alpha * s[j] * vec[j] + keep(beta, d[j])


@kernel("mat vec mat f32 f32", rows_of="dst")
def add_diag_vec_mat(first, last, dst, vec, src, alpha, beta):
    """``dst[i, j] = alpha vec[i] src[i, j] + beta dst[i, j]``. Kaldi: AddDiagVecMat."""
    for i in range(first, last):
        d, s, scale = row(dst, i), row(src, i), alpha * vec[i]
        for j in range(d.shape[0]):
            d[j] = scale * s[j] + keep(beta, d[j])


@kernel("mat mat mat", rows_of="dst")
def mul_elements(first, last, dst, a, b):
    """``dst = a * b``, element by element; ``dst`` may be ``a`` or ``b``. Kaldi: MulElements."""
    for i in range(first, last):
        d, x, y = row(dst, i), row(a, i), row(b, i)
        for j in range(d.shape[0]):
            d[j] = x[j] * y[j]


@kernel("mat mat mat f32 f32", rows_of="dst")
def add_mat_elements(first, last, dst, a, b, alpha, beta):
    """``dst = alpha a * b + beta dst``, element by element. Kaldi: AddMatMatElements."""
    for i in range(first, last):
        d, x, y = row(dst, i), row(a, i), row(b, i)
        for j in range(d.shape[0]):
            d[j] = alpha * x[j] * y[j] + keep(beta, d[j])


@kernel("vec f32")
def set_vec(dst, value):
    """Set every element of ``dst`` to ``value``. Kaldi: Set, SetZero."""
    for j in range(dst.shape[0]):
        dst[j] = value


@kernel("vec vec f32")
def copy_vec(dst, src, alpha):
    """``dst = alpha src``; ``dst`` may be ``src``. Kaldi: CopyFromVec, Scale."""
    for j in range(dst.shape[0]):
        dst[j] = alpha * src[j]


@kernel("vec vec f32 f32")
def add_vec(dst, src, alpha, beta):
    """``dst = alpha src + beta dst``. Kaldi: AddVec."""
    for j in range(dst.shape[0]):
        dst[j] = alpha * src[j] + keep(beta, dst[j])
