"""Pooling over columns on the CPU: 2-norms of groups and maxima of boxes."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import kernel, row, span

ZERO = np.float32(0)
LOWEST = np.float32(-1e20)      # a maximum is never below this, as in Kaldi


@kernel("mat mat")
def pnorm(dst, src):
    """``dst[i, j]`` = the 2-norm of the j-th group of consecutive columns of ``src[i]``. Kaldi: GroupPnorm."""
    size = src.shape[1] // dst.shape[1]
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            group, total = span(s, j * size, size), ZERO
            for k in range(size):
                total += group[k] * group[k]
            d[j] = math.sqrt(total)


@kernel("mat mat mat mat")
def pnorm_backprop(dx, x, y, dy):
    """Derivative of ``pnorm``: ``dx = dy x / y`` with y and dy of the group, 0 where ``y`` is 0."""
    size = x.shape[1] // y.shape[1]
    for i in range(dx.shape[0]):
        d, s, norm, e = row(dx, i), row(x, i), row(y, i), row(dy, i)
        for j in range(norm.shape[0]):
            for k in range(j * size, (j + 1) * size):
                d[k] = s[k] / norm[j] * e[j] if norm[j] != ZERO else ZERO


@kernel("mat mat ivec")
def max_pool(dst, src, shape):
    """``dst`` = the maxima of boxes of the tensors that the rows of ``src`` are.

    ``shape`` (12,) is the tensor's x, y, z dimensions, the box's, its steps, and how many boxes there are, along each.
    """
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


@kernel("mat mat mat mat ivec")
def max_pool_backprop(dx, x, y, dy, shape):
    """Add the derivative of ``max_pool`` to ``dx``: every member of a box equal to its maximum gets all of ``dy``."""
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
