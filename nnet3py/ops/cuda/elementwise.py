"""Elementwise operations on the GPU; the twins of ``ops/cpu/elementwise.py``.

Where a ``beta`` is 0 the old content of the destination does not count, not even NaN.
"""
from __future__ import annotations

from nnet3py.ops.cuda.element_formulas import keep
from nnet3py.ops.cuda.launch import kernel
from nnet3py.ops.cuda.threads import own_columns, own_rows, row


@kernel("mat vec f32 f32")
def add_vec_to_rows(dst, vec, alpha, beta):
    """``dst[i] = alpha vec + beta dst[i]``. Kaldi: AddVecToRows, CopyRowsFromVec."""
    for i in own_rows(dst.shape[0]):
        d = row(dst, i)
        for j in own_columns(d.shape[0]):
            d[j] = alpha * vec[j] + keep(beta, d[j])


@kernel("mat mat vec")
def mul_cols_vec(dst, src, vec):
    """``dst[i, j] = src[i, j] vec[j]``; ``dst`` may be ``src``. Kaldi: MulColsVec."""
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            d[j] = s[j] * vec[j]


@kernel("mat mat vec")
def mul_rows_vec(dst, src, vec):
    """``dst[i, j] = src[i, j] vec[i]``; ``dst`` may be ``src``. Kaldi: MulRowsVec."""
    for i in own_rows(dst.shape[0]):
        d, s, scale = row(dst, i), row(src, i), vec[i]
        for j in own_columns(d.shape[0]):
            d[j] = s[j] * scale


@kernel("mat mat vec f32 f32")
def add_mat_diag_vec(dst, src, vec, alpha, beta):
    """``dst[i, j] = alpha src[i, j] vec[j] + beta dst[i, j]``. Kaldi: AddMatDiagVec."""
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            d[j] = alpha * s[j] * vec[j] + keep(beta, d[j])


@kernel("mat vec mat f32 f32")
def add_diag_vec_mat(dst, vec, src, alpha, beta):
    """``dst[i, j] = alpha vec[i] src[i, j] + beta dst[i, j]``. Kaldi: AddDiagVecMat."""
    for i in own_rows(dst.shape[0]):
        d, s, scale = row(dst, i), row(src, i), alpha * vec[i]
        for j in own_columns(d.shape[0]):
            d[j] = scale * s[j] + keep(beta, d[j])


@kernel("mat mat mat")
def mul_elements(dst, a, b):
    """``dst = a * b``, element by element; ``dst`` may be ``a`` or ``b``. Kaldi: MulElements."""
    for i in own_rows(dst.shape[0]):
        d, x, y = row(dst, i), row(a, i), row(b, i)
        for j in own_columns(d.shape[0]):
            d[j] = x[j] * y[j]


@kernel("mat mat mat f32 f32")
def add_mat_elements(dst, a, b, alpha, beta):
    """``dst = alpha a * b + beta dst``, element by element. Kaldi: AddMatMatElements."""
    for i in own_rows(dst.shape[0]):
        d, x, y = row(dst, i), row(a, i), row(b, i)
        for j in own_columns(d.shape[0]):
            d[j] = alpha * x[j] * y[j] + keep(beta, d[j])


@kernel("vec f32")
def set_vec(dst, value):
    """Set every element of ``dst`` to ``value``. Kaldi: Set, SetZero."""
    for _ in own_rows(1):
        for j in own_columns(dst.shape[0]):
            dst[j] = value


@kernel("vec vec f32")
def copy_vec(dst, src, alpha):
    """``dst = alpha src``; ``dst`` may be ``src``. Kaldi: CopyFromVec, Scale."""
    for _ in own_rows(1):
        for j in own_columns(dst.shape[0]):
            dst[j] = alpha * src[j]


@kernel("vec vec f32 f32")
def add_vec(dst, src, alpha, beta):
    """``dst = alpha src + beta dst``. Kaldi: AddVec."""
    for _ in own_rows(1):
        for j in own_columns(dst.shape[0]):
            dst[j] = alpha * src[j] + keep(beta, dst[j])
