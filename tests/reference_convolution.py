"""Slow, obvious numpy forms of the operations of convolutions."""
from __future__ import annotations


def _block(matrix, block, num_blocks_of, count):
    width = num_blocks_of.shape[1] // count
    return matrix[:, block * width:(block + 1) * width]


def copy_col_blocks(dst, src, blocks):
    for j, block in enumerate(blocks):
        _block(dst, j, dst, len(blocks))[...] = _block(src, block, dst, len(blocks)) if block >= 0 else 0


def add_to_col_blocks(dst, src, blocks):
    for j, block in enumerate(blocks):
        if block >= 0:
            _block(dst, block, src, len(blocks))[...] += _block(src, j, src, len(blocks))


def copy_transposed(dst, src):
    dst[...] = src.T
