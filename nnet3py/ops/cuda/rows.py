"""Row operations on the GPU; the twins of ``ops/cpu/rows.py``.

Index arrays hold -1 for "no row": a copy then writes zeros, an addition does nothing.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.launch import kernel
from nnet3py.ops.cuda.threads import own_columns, own_rows, row, span

ZERO = np.float32(0)


@kernel("mat f32")
def set_const(dst, value):
    """Set every element of ``dst`` to ``value``. Kaldi: Set, SetZero."""
    for i in own_rows(dst.shape[0]):
        d = row(dst, i)
        for j in own_columns(d.shape[0]):
            d[j] = value


@kernel("mat mat f32")
def copy_mat(dst, src, alpha):
    """``dst = alpha src``; ``dst`` may be ``src``. Kaldi: CopyFromMat, then Scale."""
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            d[j] = alpha * s[j]


@kernel("mat mat f32")
def add_mat(dst, src, alpha):
    """``dst += alpha src``. Kaldi: AddMat."""
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            d[j] += alpha * s[j]


@kernel("mat mat ivec f32")
def copy_rows(dst, src, indexes, alpha):
    """``dst[i] = alpha src[indexes[i]]``, a zero row where the index is -1. Kaldi: CopyRows."""
    for i in own_rows(dst.shape[0]):
        d, r = row(dst, i), indexes[i]
        if r >= 0:
            s = row(src, r)
            for j in own_columns(d.shape[0]):
                d[j] = alpha * s[j]
        else:
            for j in own_columns(d.shape[0]):
                d[j] = ZERO


@kernel("mat mat ivec f32")
def add_rows(dst, src, indexes, alpha):
    """``dst[i] += alpha src[indexes[i]]``, nothing where the index is -1. Kaldi: AddRows."""
    for i in own_rows(dst.shape[0]):
        r = indexes[i]
        if r >= 0:
            d, s = row(dst, i), row(src, r)
            for j in own_columns(d.shape[0]):
                d[j] += alpha * s[j]


@kernel("mat vec lvec f32")
def copy_rows_multi(dst, arena, offsets, alpha):
    """``dst[i] = alpha`` (the row at ``arena[offsets[i]]``), a zero row where it is -1. Kaldi: CopyRows of pointers."""
    for i in own_rows(dst.shape[0]):
        d, offset = row(dst, i), offsets[i]
        if offset >= 0:
            s = span(arena, offset, d.shape[0])
            for j in own_columns(d.shape[0]):
                d[j] = alpha * s[j]
        else:
            for j in own_columns(d.shape[0]):
                d[j] = ZERO


@kernel("mat vec lvec f32")
def add_rows_multi(dst, arena, offsets, alpha):
    """``dst[i] += alpha`` (the row at ``arena[offsets[i]]``), nothing where it is -1. Kaldi: AddRows of pointers."""
    for i in own_rows(dst.shape[0]):
        offset = offsets[i]
        if offset >= 0:
            d = row(dst, i)
            s = span(arena, offset, d.shape[0])
            for j in own_columns(d.shape[0]):
                d[j] += alpha * s[j]


@kernel("vec lvec mat", over=2)
def copy_to_rows_multi(arena, offsets, src):
    """The row at ``arena[offsets[i]]`` becomes ``src[i]``, nothing where it is -1. Kaldi: CopyToRows."""
    for i in own_rows(src.shape[0]):
        offset = offsets[i]
        if offset >= 0:
            s = row(src, i)
            d = span(arena, offset, s.shape[0])
            for j in own_columns(s.shape[0]):
                d[j] = s[j]


@kernel("vec lvec mat f32", over=2)
def add_to_rows_multi(arena, offsets, src, alpha):
    """``alpha src[i]`` is added to the row at ``arena[offsets[i]]``; the rows are distinct. Kaldi: AddToRows."""
    for i in own_rows(src.shape[0]):
        offset = offsets[i]
        if offset >= 0:
            s = row(src, i)
            d = span(arena, offset, s.shape[0])
            for j in own_columns(s.shape[0]):
                d[j] += alpha * s[j]


@kernel("mat mat imat f32")
def add_row_ranges(dst, src, ranges, alpha):
    """``dst[i] += alpha`` (sum of ``src[r]``, ``ranges[i, 0] <= r < ranges[i, 1]``), r rising. Kaldi: AddRowRanges."""
    for i in own_rows(dst.shape[0]):
        d, first, last = row(dst, i), ranges[i, 0], ranges[i, 1]
        for j in own_columns(d.shape[0]):
            total = d[j]
            for r in range(first, last):
                total += alpha * row(src, r)[j]
            d[j] = total
