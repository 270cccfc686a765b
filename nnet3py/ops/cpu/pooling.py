"""Pooling over columns on the CPU: 2-norms of groups and maxima of boxes."""
from __future__ import annotations

from nnet3py.engine.jit import row, span
from nnet3py.ops.cpu.formulas import formula
from nnet3py.ops.cpu.operation import operation
from nnet3py.ops.formulas import pooling

_norm, _norm_derivative, _box_start, _largest_of_box = map(formula, (
    pooling.norm, pooling.norm_derivative, pooling.box_start, pooling.largest_of_box))


@operation()
def pnorm(dst, src):
    size = src.shape[1] // dst.shape[1]
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            d[j] = _norm(span(s, j * size, size))


@operation()
def pnorm_backprop(dx, x, y, dy):
    size = x.shape[1] // y.shape[1]
    for i in range(dx.shape[0]):
        d, s, norm, e = row(dx, i), row(x, i), row(y, i), row(dy, i)
        for j in range(norm.shape[0]):
            for k in range(j * size, (j + 1) * size):
                d[k] = _norm_derivative(s[k], norm[j], e[j])


@operation()
def max_pool(dst, src, shape):
    for r in range(dst.shape[0]):
        d, s = row(dst, r), row(src, r)
        for p in range(d.shape[0]):
            d[p] = _largest_of_box(s, p, shape)


@operation()
def max_pool_backprop(dx, x, y, dy, shape):
    plane, line = shape[1] * shape[2], shape[2]
    for r in range(dx.shape[0]):
        d, s, largest, e = row(dx, r), row(x, r), row(y, r), row(dy, r)
        for p in range(e.shape[0]):
            start = _box_start(p, shape)
            for a in range(shape[3]):
                for b in range(shape[4]):
                    for c in range(start + a * plane + b * line, start + a * plane + b * line + shape[5]):
                        if s[c] == largest[p]:
                            d[c] += e[p]
