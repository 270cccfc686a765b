"""Convolution and attention on the CPU: copies of blocks of columns; products of each row with rows shifted in time."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import row, span
from nnet3py.ops.cpu.operation import operation

# -- convolution -------------------------------------------------------------------------------------------------------


ZERO = np.float32(0)
TILE = 32      # rows and columns of the tiles of a transposition: the cache lines of a tile fit in the cache


@operation()
def copy_col_blocks(dst, src, blocks):
    width = dst.shape[1] // max(blocks.shape[0], 1)
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        if width == 1:
            for j in range(blocks.shape[0]):
                b = blocks[j]
                d[j] = s[b] if b >= 0 else ZERO
            continue
        for j in range(blocks.shape[0]):
            target, b = span(d, j * width, width), blocks[j]
            if b < 0:
                for c in range(width):
                    target[c] = ZERO
            else:
                source = span(s, b * width, width)
                for c in range(width):
                    target[c] = source[c]


@operation()
def add_to_col_blocks(dst, src, blocks):
    width = src.shape[1] // max(blocks.shape[0], 1)
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in range(blocks.shape[0]):
            if blocks[j] >= 0:
                target, source = span(d, blocks[j] * width, width), span(s, j * width, width)
                for c in range(width):
                    target[c] += source[c]


@operation()
def copy_transposed(dst, src):
    rows, cols = dst.shape
    for first_row in range(0, rows, TILE):
        for first_col in range(0, cols, TILE):
            for i in range(first_row, min(first_row + TILE, rows)):
                d = row(dst, i)
                for j in range(first_col, min(first_col + TILE, cols)):
                    d[j] = src[j, i]


# -- attention over a fixed number of positions ------------------------------------------------------------------------

# ``scales`` (rows, positions) has as many rows as the shorter matrix of values. ``scales[i, o]`` belongs to row i of
# the shorter matrix and row ``i + o * shift`` of the longer one, which has ``(positions - 1) * shift`` rows more. Rows
# are visited in steps of ``shift``: two such rows need mostly the same rows of the longer matrix, still in the cache.

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
