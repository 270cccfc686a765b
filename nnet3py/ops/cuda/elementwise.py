"""Elementwise operations on the GPU; the twins of ``ops/cpu/elementwise.py``.

Where a ``beta`` is 0 the old content of the destination does not count, not even NaN.
"""
from __future__ import annotations

from nnet3py.ops.cuda.each_element import each_element
from nnet3py.ops.cuda.element_formulas import keep


@each_element
def add_vec_to_rows(dst, vec, alpha, beta):
    return alpha * vec + keep(beta, dst)


@each_element
def mul_cols_vec(dst, src, vec):
    return src * vec


@each_element
def mul_rows_vec(dst, src, vec):
    return src * vec


@each_element
def add_mat_diag_vec(dst, src, vec, alpha, beta):
    return alpha * src * vec + keep(beta, dst)


@each_element
def add_diag_vec_mat(dst, vec, src, alpha, beta):
    return alpha * vec * src + keep(beta, dst)


@each_element
def mul_elements(dst, a, b):
    return a * b


@each_element
def add_mat_elements(dst, a, b, alpha, beta):
    return alpha * a * b + keep(beta, dst)


@each_element
def set_vec(dst, value):
    return value


@each_element
def copy_vec(dst, src, alpha):
    return alpha * src


@each_element
def add_vec(dst, src, alpha, beta):
    return alpha * src + keep(beta, dst)
