"""Convolutions on the CPU: blocks of columns gathered for the products with the filters, and given back."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import row, span
from nnet3py.ops.cpu.operation import operation

ZERO = np.float32(0)
TILE = 32      # rows and columns of a transposition's tiles: read and written cache lines stay near


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
