"""Row operations on the CPU: copying, scaling and adding rows. Kaldi: the row functions of ``cu-matrix.h``.

Index arrays hold -1 for "no row": a copy then writes zeros, an addition does nothing. No destination overlaps its
source.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import inline, row, span
from nnet3py.ops.cpu.operation import operation

ZERO = np.float32(0)


@inline
def _copy(dst, src, alpha):
    for j in range(dst.shape[0]):
        dst[j] = alpha * src[j]


@inline
def _add(dst, src, alpha):
    for j in range(dst.shape[0]):
        dst[j] += alpha * src[j]


@inline
def _fill(dst, value):
    for j in range(dst.shape[0]):
        dst[j] = value


@operation(rows_of="dst")
def copy_rows(first, last, dst, src, indexes, alpha):
    for i in range(first, last):
        r = indexes[i]
        if r >= 0:
            _copy(row(dst, i), row(src, r), alpha)
        else:
            _fill(row(dst, i), ZERO)


@operation(rows_of="dst")
def add_rows(first, last, dst, src, indexes, alpha):
    for i in range(first, last):
        r = indexes[i]
        if r >= 0:
            _add(row(dst, i), row(src, r), alpha)


@operation(rows_of="dst")
def copy_rows_multi(first, last, dst, arena, offsets, alpha):
    dim = dst.shape[1]
    for i in range(first, last):
        offset = offsets[i]
        if offset >= 0:
            _copy(row(dst, i), span(arena, offset, dim), alpha)
        else:
            _fill(row(dst, i), ZERO)


@operation(rows_of="dst")
def add_rows_multi(first, last, dst, arena, offsets, alpha):
    dim = dst.shape[1]
    for i in range(first, last):
        offset = offsets[i]
        if offset >= 0:
            _add(row(dst, i), span(arena, offset, dim), alpha)


@operation(rows_of="src")
def copy_to_rows_multi(first, last, arena, offsets, src):
    dim = src.shape[1]
    for i in range(first, last):
        offset = offsets[i]
        if offset >= 0:
            target, source = span(arena, offset, dim), row(src, i)
            for j in range(dim):
                target[j] = source[j]


@operation(rows_of="src")
def add_to_rows_multi(first, last, arena, offsets, src, alpha):
    dim = src.shape[1]
    for i in range(first, last):
        offset = offsets[i]
        if offset >= 0:
            _add(span(arena, offset, dim), row(src, i), alpha)


@operation(rows_of="dst", cost=2)
def add_row_ranges(first, last, dst, src, ranges, alpha):
    for i in range(first, last):
        target = row(dst, i)
        for r in range(ranges[i, 0], ranges[i, 1]):
            _add(target, row(src, r), alpha)
