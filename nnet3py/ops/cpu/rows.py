"""Row operations on the CPU: copying, scaling and adding rows. Kaldi: the row functions of ``cu-matrix.h``.

Index arrays hold -1 for "no row": a copy then writes zeros, an addition does nothing. No destination overlaps its
source, except where an operation says that it may be its source.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import inline, kernel, row, span

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


@kernel("mat f32", rows_of="dst")
def set_const(first, last, dst, value):
    """Set every element of ``dst`` to ``value``. Kaldi: Set, SetZero."""
    for i in range(first, last):
        _fill(row(dst, i), value)


@kernel("mat mat f32", rows_of="dst")
def copy_mat(first, last, dst, src, alpha):
    """``dst = alpha src``; ``dst`` may be ``src``. Kaldi: CopyFromMat, then Scale."""
    for i in range(first, last):
        _copy(row(dst, i), row(src, i), alpha)


@kernel("mat mat f32", rows_of="dst")
def add_mat(first, last, dst, src, alpha):
    """``dst += alpha src``. Kaldi: AddMat."""
    for i in range(first, last):
        _add(row(dst, i), row(src, i), alpha)


@kernel("mat mat mat f32 f32", rows_of="dst")
def sum_mats(first, last, dst, a, b, alpha, beta):
    """``dst = alpha a + beta b``; ``dst`` may be ``a`` or ``b``. Kaldi: CopyFromMat, Scale, then AddMat."""
    for i in range(first, last):
        d, x, y = row(dst, i), row(a, i), row(b, i)
        for j in range(d.shape[0]):
            d[j] = alpha * x[j] + beta * y[j]


@kernel("mat mat ivec f32", rows_of="dst")
def copy_rows(first, last, dst, src, indexes, alpha):
    """``dst[i] = alpha src[indexes[i]]``, a zero row where the index is -1. Kaldi: CopyRows."""
    for i in range(first, last):
        r = indexes[i]
        if r >= 0:
            _copy(row(dst, i), row(src, r), alpha)
        else:
            _fill(row(dst, i), ZERO)


@kernel("mat mat ivec f32", rows_of="dst")
def add_rows(first, last, dst, src, indexes, alpha):
    """``dst[i] += alpha src[indexes[i]]``, nothing where the index is -1. Kaldi: AddRows."""
    for i in range(first, last):
        r = indexes[i]
        if r >= 0:
            _add(row(dst, i), row(src, r), alpha)


@kernel("mat vec lvec f32", rows_of="dst")
def copy_rows_multi(first, last, dst, arena, offsets, alpha):
    """``dst[i] = alpha`` (the row at ``arena[offsets[i]]``), a zero row where it is -1. Kaldi: CopyRows of pointers."""
    dim = dst.shape[1]
    for i in range(first, last):
        offset = offsets[i]
        if offset >= 0:
            _copy(row(dst, i), span(arena, offset, dim), alpha)
        else:
            _fill(row(dst, i), ZERO)


@kernel("mat vec lvec f32", rows_of="dst")
def add_rows_multi(first, last, dst, arena, offsets, alpha):
    """``dst[i] += alpha`` (the row at ``arena[offsets[i]]``), nothing where it is -1. Kaldi: AddRows of pointers."""
    dim = dst.shape[1]
    for i in range(first, last):
        offset = offsets[i]
        if offset >= 0:
            _add(row(dst, i), span(arena, offset, dim), alpha)


@kernel("vec lvec mat", rows_of="src")
def copy_to_rows_multi(first, last, arena, offsets, src):
    """The row at ``arena[offsets[i]]`` becomes ``src[i]``, nothing where it is -1. Kaldi: CopyToRows."""
    dim = src.shape[1]
    for i in range(first, last):
        offset = offsets[i]
        if offset >= 0:
            target, source = span(arena, offset, dim), row(src, i)
            for j in range(dim):
                target[j] = source[j]


@kernel("vec lvec mat f32", rows_of="src")
def add_to_rows_multi(first, last, arena, offsets, src, alpha):
    """``alpha src[i]`` is added to the row at ``arena[offsets[i]]``; the rows are distinct. Kaldi: AddToRows."""
    dim = src.shape[1]
    for i in range(first, last):
        offset = offsets[i]
        if offset >= 0:
            _add(span(arena, offset, dim), row(src, i), alpha)


@kernel("mat mat imat f32", rows_of="dst", cost=2)
def add_row_ranges(first, last, dst, src, ranges, alpha):
    """``dst[i] += alpha`` (sum of ``src[r]``, ``ranges[i, 0] <= r < ranges[i, 1]``), r rising. Kaldi: AddRowRanges."""
    for i in range(first, last):
        target = row(dst, i)
        for r in range(ranges[i, 0], ranges[i, 1]):
            _add(target, row(src, r), alpha)
