"""Row operations on the GPU; the twins of ``ops/cpu/rows.py``.

Index arrays hold -1 for "no row": a copy then writes zeros, an addition does nothing.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.each_element import (
    add_row,
    each_element,
    fill_row,
    first_row,
    launch_elements,
    row_distance,
    scale_row,
)
from nnet3py.ops.cuda.launch import kernel
from nnet3py.ops.cuda.threads import own_columns, own_rows, row, span

ZERO, ONE = np.float32(0), np.float32(1)


@each_element("mat f32")
def set_const(dst, value):
    """Set every element of ``dst`` to ``value``. Kaldi: Set, SetZero."""
    return value


@each_element("mat mat f32")
def copy_mat(dst, src, alpha):
    """``dst = alpha src``; ``dst`` may be ``src``. Kaldi: CopyFromMat, then Scale."""
    return alpha * src


@each_element("mat mat f32")
def add_mat(dst, src, alpha):
    """``dst += alpha src``. Kaldi: AddMat."""
    return dst + alpha * src


@each_element("mat mat mat f32 f32")
def sum_mats(dst, a, b, alpha, beta):
    """``dst = alpha a + beta b``; ``dst`` may be ``a`` or ``b``. Kaldi: CopyFromMat, Scale, then AddMat."""
    return alpha * a + beta * b


@kernel("mat mat ivec f32", shape=launch_elements)
def copy_rows(dst, src, indexes, alpha):
    """``dst[i] = alpha src[indexes[i]]``, a zero row where the index is -1. Kaldi: CopyRows."""
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        r = indexes[i]
        if r >= 0:
            scale_row(row(dst, i), row(src, r), alpha)
        else:
            fill_row(row(dst, i), ZERO)
        i += step


@kernel("mat mat ivec f32", shape=launch_elements)
def add_rows(dst, src, indexes, alpha):
    """``dst[i] += alpha src[indexes[i]]``, nothing where the index is -1. Kaldi: AddRows."""
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        r = indexes[i]
        if r >= 0:
            add_row(row(dst, i), row(src, r), alpha)
        i += step


@kernel("mat vec lvec f32", shape=launch_elements)
def copy_rows_multi(dst, arena, offsets, alpha):
    """``dst[i] = alpha`` (the row at ``arena[offsets[i]]``), a zero row where it is -1. Kaldi: CopyRows of pointers."""
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        offset = offsets[i]
        if offset >= 0:
            scale_row(row(dst, i), span(arena, offset, dst.shape[1]), alpha)
        else:
            fill_row(row(dst, i), ZERO)
        i += step


@kernel("mat vec lvec f32", shape=launch_elements)
def add_rows_multi(dst, arena, offsets, alpha):
    """``dst[i] += alpha`` (the row at ``arena[offsets[i]]``), nothing where it is -1. Kaldi: AddRows of pointers."""
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        offset = offsets[i]
        if offset >= 0:
            add_row(row(dst, i), span(arena, offset, dst.shape[1]), alpha)
        i += step


@kernel("vec lvec mat", over=2, shape=launch_elements)
def copy_to_rows_multi(arena, offsets, src):
    """The row at ``arena[offsets[i]]`` becomes ``src[i]``, nothing where it is -1. Kaldi: CopyToRows."""
    i, step = first_row(), row_distance()
    while i < src.shape[0]:
        offset = offsets[i]
        if offset >= 0:
            scale_row(span(arena, offset, src.shape[1]), row(src, i), ONE)
        i += step


@kernel("vec lvec mat f32", over=2, shape=launch_elements)
def add_to_rows_multi(arena, offsets, src, alpha):
    """``alpha src[i]`` is added to the row at ``arena[offsets[i]]``; the rows are distinct. Kaldi: AddToRows."""
    i, step = first_row(), row_distance()
    while i < src.shape[0]:
        offset = offsets[i]
        if offset >= 0:
            add_row(span(arena, offset, src.shape[1]), row(src, i), alpha)
        i += step


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
