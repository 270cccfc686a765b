"""Row operations on the GPU: the operations of ``ops/cpu/rows.py``.

Index arrays hold -1 for "no row": a copy then writes zeros, an addition does nothing.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.elementwise import (
    add_row,
    fill_row,
    first_row,
    launch_elements,
    row_distance,
    scale_row,
)
from nnet3py.ops.cuda.launch import operation
from nnet3py.ops.cuda.threads import own_columns, own_rows, row, span

ZERO, ONE = np.float32(0), np.float32(1)


@operation(shape=launch_elements)
def copy_rows(dst, src, indexes, alpha):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        r = indexes[i]
        if r >= 0:
            scale_row(row(dst, i), row(src, r), alpha)
        else:
            fill_row(row(dst, i), ZERO)
        i += step


@operation(shape=launch_elements)
def add_rows(dst, src, indexes, alpha):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        r = indexes[i]
        if r >= 0:
            add_row(row(dst, i), row(src, r), alpha)
        i += step


@operation(shape=launch_elements)
def copy_rows_multi(dst, arena, offsets, alpha):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        offset = offsets[i]
        if offset >= 0:
            scale_row(row(dst, i), span(arena, offset, dst.shape[1]), alpha)
        else:
            fill_row(row(dst, i), ZERO)
        i += step


@operation(shape=launch_elements)
def add_rows_multi(dst, arena, offsets, alpha):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        offset = offsets[i]
        if offset >= 0:
            add_row(row(dst, i), span(arena, offset, dst.shape[1]), alpha)
        i += step


@operation(over=2, shape=launch_elements)
def copy_to_rows_multi(arena, offsets, src):
    i, step = first_row(), row_distance()
    while i < src.shape[0]:
        offset = offsets[i]
        if offset >= 0:
            scale_row(span(arena, offset, src.shape[1]), row(src, i), ONE)
        i += step


@operation(over=2, shape=launch_elements)
def add_to_rows_multi(arena, offsets, src, alpha):
    i, step = first_row(), row_distance()
    while i < src.shape[0]:
        offset = offsets[i]
        if offset >= 0:
            add_row(span(arena, offset, src.shape[1]), row(src, i), alpha)
        i += step


@operation()
def add_row_ranges(dst, src, ranges, alpha):
    for i in own_rows(dst.shape[0]):
        d, first, last = row(dst, i), ranges[i, 0], ranges[i, 1]
        for j in own_columns(d.shape[0]):
            total = d[j]
            for r in range(first, last):
                total += alpha * row(src, r)[j]
            d[j] = total
