"""Elementwise operations on the CPU: matrices with matrices, and vectors along rows or columns.

Where a ``beta`` is 0 the old content of the destination does not count, not even NaN.
"""
from __future__ import annotations

from nnet3py.engine.jit import inline, row
from nnet3py.ops import formulas
from nnet3py.ops.cpu.operation import operation

keep = inline(formulas.keep)


@operation(rows_of="dst")
def add_vec_to_rows(first, last, dst, vec, alpha, beta):
    for i in range(first, last):
        d = row(dst, i)
        for j in range(d.shape[0]):
            d[j] = alpha * vec[j] + keep(beta, d[j])


@operation(rows_of="dst")
def mul_cols_vec(first, last, dst, src, vec):
    for i in range(first, last):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            d[j] = s[j] * vec[j]


@operation(rows_of="dst")
def mul_rows_vec(first, last, dst, src, vec):
    for i in range(first, last):
        d, s, scale = row(dst, i), row(src, i), vec[i]
        for j in range(d.shape[0]):
            d[j] = s[j] * scale


@operation(rows_of="dst")
def add_mat_diag_vec(first, last, dst, src, vec, alpha, beta):
    for i in range(first, last):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            d[j] = alpha * s[j] * vec[j] + keep(beta, d[j])


@operation(rows_of="dst")
def add_diag_vec_mat(first, last, dst, vec, src, alpha, beta):
    for i in range(first, last):
        d, s, scale = row(dst, i), row(src, i), alpha * vec[i]
        for j in range(d.shape[0]):
            d[j] = scale * s[j] + keep(beta, d[j])


@operation(rows_of="dst")
def mul_elements(first, last, dst, a, b):
    for i in range(first, last):
        d, x, y = row(dst, i), row(a, i), row(b, i)
        for j in range(d.shape[0]):
            d[j] = x[j] * y[j]


@operation(rows_of="dst")
def add_mat_elements(first, last, dst, a, b, alpha, beta):
    for i in range(first, last):
        d, x, y = row(dst, i), row(a, i), row(b, i)
        for j in range(d.shape[0]):
            d[j] = alpha * x[j] * y[j] + keep(beta, d[j])


@operation()
def set_vec(dst, value):
    for j in range(dst.shape[0]):
        dst[j] = value


@operation()
def copy_vec(dst, src, alpha):
    for j in range(dst.shape[0]):
        dst[j] = alpha * src[j]


@operation()
def add_vec(dst, src, alpha, beta):
    for j in range(dst.shape[0]):
        dst[j] = alpha * src[j] + keep(beta, dst[j])
