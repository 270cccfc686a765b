"""Pooling over columns on the GPU: 2-norms of groups and maxima of boxes; the twins of ``ops/cpu/pooling.py``."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.formulas import formula
from nnet3py.ops.cuda.launch import operation
from nnet3py.ops.cuda.threads import device_function, own_columns, own_rows, row, span
from nnet3py.ops.formulas import pooling

_norm, _norm_derivative, _largest_of_box = map(formula, (
    pooling.norm, pooling.norm_derivative, pooling.largest_of_box))


@operation()
def pnorm(dst, src):
    size = src.shape[1] // dst.shape[1]
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            d[j] = _norm(span(s, np.int64(j) * size, size))


@operation(over=2)
def pnorm_backprop(dx, x, y, dy):
    size = x.shape[1] // y.shape[1]
    for i in own_rows(dx.shape[0]):
        d, s, norm, e = row(dx, i), row(x, i), row(y, i), row(dy, i)
        for j in own_columns(norm.shape[0]):
            first = np.int64(j) * size
            for k in range(first, first + size):
                d[k] = _norm_derivative(s[k], norm[j], e[j])


@operation()
def max_pool(dst, src, shape):
    for r in own_rows(dst.shape[0]):
        d, s = row(dst, r), row(src, r)
        for p in own_columns(d.shape[0]):
            d[p] = _largest_of_box(s, np.int64(p), shape)


@device_function
def _boxes_over(place, size, step, count):
    """The boxes along one axis that a place lies in: the first, and the one after the last."""
    first = (place - size) // step + 1 if place >= size else 0
    end = place // step + 1
    return first, (end if end < count else count)


# A thread looks for the boxes that its element is in, so that nobody else adds to it.
@operation()
def max_pool_backprop(dx, x, y, dy, shape):
    plane, line = shape[1] * shape[2], shape[2]
    for r in own_rows(dx.shape[0]):
        d, s, largest, e = row(dx, r), row(x, r), row(y, r), row(dy, r)
        for place in own_columns(d.shape[0]):
            c = np.int64(place)
            first_i, end_i = _boxes_over(c // plane, shape[3], shape[6], shape[9])
            first_j, end_j = _boxes_over(c % plane // line, shape[4], shape[7], shape[10])
            first_k, end_k = _boxes_over(c % line, shape[5], shape[8], shape[11])
            total = d[c]
            for i in range(first_i, end_i):
                for j in range(first_j, end_j):
                    for k in range(first_k, end_k):
                        p = (i * shape[10] + j) * shape[11] + k
                        if s[c] == largest[p]:
                            total += e[p]
            d[c] = total
