"""Elementwise operations on the GPU; the twins of ``ops/cpu/elementwise.py``.

Where a ``beta`` is 0 the old content of the destination does not count, not even NaN.
"""
from __future__ import annotations

from nnet3py.ops.cuda.each_element import each_element
from nnet3py.ops.cuda.element_formulas import keep


@each_element("mat vec f32 f32")
def add_vec_to_rows(dst, vec, alpha, beta):
    """``dst[i] = alpha vec + beta dst[i]``. Kaldi: AddVecToRows, CopyRowsFromVec."""
    return alpha * vec + keep(beta, dst)


@each_element("mat mat vec")
def mul_cols_vec(dst, src, vec):
    """``dst[i, j] = src[i, j] vec[j]``; ``dst`` may be ``src``. Kaldi: MulColsVec."""
    return src * vec


@each_element("mat mat vec", by_row=("vec",))
def mul_rows_vec(dst, src, vec):
    """``dst[i, j] = src[i, j] vec[i]``; ``dst`` may be ``src``. Kaldi: MulRowsVec."""
    return src * vec


@each_element("mat mat vec f32 f32")
def add_mat_diag_vec(dst, src, vec, alpha, beta):
    """``dst[i, j] = alpha src[i, j] vec[j] + beta dst[i, j]``. Kaldi: AddMatDiagVec."""
    return alpha * src * vec + keep(beta, dst)


@each_element("mat vec mat f32 f32", by_row=("vec",))
def add_diag_vec_mat(dst, vec, src, alpha, beta):
    """``dst[i, j] = alpha vec[i] src[i, j] + beta dst[i, j]``. Kaldi: AddDiagVecMat."""
    return alpha * vec * src + keep(beta, dst)


@each_element("mat mat mat")
def mul_elements(dst, a, b):
    """``dst = a * b``, element by element; ``dst`` may be ``a`` or ``b``. Kaldi: MulElements."""
    return a * b


@each_element("mat mat mat f32 f32")
def add_mat_elements(dst, a, b, alpha, beta):
    """``dst = alpha a * b + beta dst``, element by element. Kaldi: AddMatMatElements."""
    return alpha * a * b + keep(beta, dst)


@each_element("vec f32")
def set_vec(dst, value):
    """Set every element of ``dst`` to ``value``. Kaldi: Set, SetZero."""
    return value


@each_element("vec vec f32")
def copy_vec(dst, src, alpha):
    """``dst = alpha src``; ``dst`` may be ``src``. Kaldi: CopyFromVec, Scale."""
    return alpha * src


@each_element("vec vec f32 f32")
def add_vec(dst, src, alpha, beta):
    """``dst = alpha src + beta dst``. Kaldi: AddVec."""
    return alpha * src + keep(beta, dst)
