"""Pooling over columns on the CPU: 2-norms of groups and maxima of boxes."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import row, span
from nnet3py.ops.cpu.operation import operation

ZERO = np.float32(0)
LOWEST = np.float32(-1e20)      # a maximum is never below this, as in Kaldi


@operation()
def pnorm(dst, src):
    size = src.shape[1] // dst.shape[1]
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            group, total = span(s, j * size, size), ZERO
            for k in range(size):
                total += group[k] * group[k]
            d[j] = math.sqrt(total)


@operation()
def pnorm_backprop(dx, x, y, dy):
    size = x.shape[1] // y.shape[1]
    for i in range(dx.shape[0]):
        d, s, norm, e = row(dx, i), row(x, i), row(y, i), row(dy, i)
        for j in range(norm.shape[0]):
            for k in range(j * size, (j + 1) * size):
                d[k] = s[k] / norm[j] * e[j] if norm[j] != ZERO else ZERO


@operation()
def max_pool(dst, src, shape):
    plane, line = shape[1] * shape[2], shape[2]
    for r in range(dst.shape[0]):
        d, s = row(dst, r), row(src, r)
        for p in range(d.shape[0]):
            i, j, k = p // (shape[10] * shape[11]), p // shape[11] % shape[10], p % shape[11]
            start = i * shape[6] * plane + j * shape[7] * line + k * shape[8]
            largest = LOWEST
            for x in range(shape[3]):
                for y in range(shape[4]):
                    for c in range(start + x * plane + y * line, start + x * plane + y * line + shape[5]):
                        largest = s[c] if s[c] > largest else largest
            d[p] = largest


@operation()
def max_pool_backprop(dx, x, y, dy, shape):
    plane, line = shape[1] * shape[2], shape[2]
    for r in range(dx.shape[0]):
        d, s, largest, e = row(dx, r), row(x, r), row(y, r), row(dy, r)
        for p in range(e.shape[0]):
            i, j, k = p // (shape[10] * shape[11]), p // shape[11] % shape[10], p % shape[11]
            start = i * shape[6] * plane + j * shape[7] * line + k * shape[8]
            for a in range(shape[3]):
                for b in range(shape[4]):
                    for c in range(start + a * plane + b * line, start + a * plane + b * line + shape[5]):
                        if s[c] == largest[p]:
                            d[c] += e[p]
