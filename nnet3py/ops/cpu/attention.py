"""Attention over a fixed number of positions on the CPU: products and sums of rows that lie a fixed number apart.

In all of these ``scales`` (rows, positions) has the rows of the narrow matrix of values; position o of row i belongs to
row ``i + o * shift`` of the tall matrix, which has ``(positions - 1) * shift`` rows more. Rows are visited in steps of
``shift``, so that the tall matrix's rows are still near the processor when the next row needs them again.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import row, span
from nnet3py.ops.cpu.operation import operation

ZERO = np.float32(0)
LOG_FLOOR = np.float32(1.0e-20)


@operation(reassociate=True)
def add_shifted_dots(dst, a, b, shift, alpha):
    for first in range(min(shift, a.shape[0])):
        for i in range(first, a.shape[0], shift):
            d, s = row(dst, i), row(a, i)
            for o in range(d.shape[0]):
                other = row(b, i + o * shift)
                total = ZERO
                for j in range(s.shape[0]):
                    total += s[j] * other[j]
                d[o] += alpha * total


@operation()
def add_shifted_rows(dst, scales, src, shift, alpha):
    for first in range(min(shift, dst.shape[0])):
        for i in range(first, dst.shape[0], shift):
            d, c = row(dst, i), row(scales, i)
            for o in range(c.shape[0]):
                s, scale = row(src, i + o * shift), alpha * c[o]
                for j in range(d.shape[0]):
                    d[j] += scale * s[j]


@operation()
def add_to_shifted_rows(dst, scales, src, shift, alpha):
    for first in range(min(shift, src.shape[0])):
        for i in range(first, src.shape[0], shift):
            s, c = row(src, i), row(scales, i)
            for o in range(c.shape[0]):
                d, scale = row(dst, i + o * shift), alpha * c[o]
                for j in range(s.shape[0]):
                    d[j] += scale * s[j]


@operation()
def attention_store_stats(count, entropy, posterior, weights, draw):
    if draw == 0:
        return
    num_heads, positions = posterior.shape
    count[0] += weights.shape[0]
    for i in range(weights.shape[0]):
        for h in range(num_heads):
            w = span(row(weights, i), h * positions, positions)
            for o in range(positions):
                posterior[h, o] += w[o]
                entropy[h] -= np.float64(w[o]) * math.log(np.float64(max(w[o], LOG_FLOOR)))
