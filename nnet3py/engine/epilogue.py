"""Blocks of affine maps, finished while they are in the cache: floor, scale and offset, and sums of columns.

A block becomes ``max(floor, product + bias) scale + offset``. Sums, and sums of squares, are taken of the values after
the floor, each over ROWS_OF_A_SUM rows, so that they do not depend on how the work is shared.
"""
from __future__ import annotations

from typing import Any

from numba.core import types

from nnet3py.engine import blas, compiling, interface
from nnet3py.engine.inline import address, c_function, get_int, stack_floats
from nnet3py.engine.jit import inline, row, segment, span
from nnet3py.engine.kernel_code import Code
from nnet3py.engine.threads import ROWS_OF_A_SUM
from nnet3py.engine.tiles import (
    GROUP_SIZE,
    ITEM,
    LEAST_COLUMNS_TO_COPY_FOR,
    LEFT_SIZE,
    ONE,
    PANEL_SIZE,
    ROW_BLOCK,
    TILE_ROWS,
    VECTOR,
    ZERO,
    depth_of,
    last_tile,
    multiply,
    next_rows,
    panel_of_right,
    panel_width,
    tile,
    transpose_left,
)


@inline
def begin_sums(sums, first_row, last_row, first, last):
    """Set to 0 the sums of some rows, from a multiple of ROWS_OF_A_SUM on, and of columns ``first`` to ``last`` - 1."""
    count = sums.shape[0] // 2
    if count:
        for block in range(first_row // ROWS_OF_A_SUM, -(-last_row // ROWS_OF_A_SUM)):
            segment(sums, block, first, last)[:] = ZERO
            segment(sums, count + block, first, last)[:] = ZERO


@inline
def set_rows(part, vec):
    """Set every row of ``part`` to ``vec``."""
    for i in range(part.shape[0]):
        target = row(part, i)
        for j in range(target.shape[0]):
            target[j] = vec[j]


@inline
def _finish(part, first_row, first, floor, scale, offset, sums):
    """Finish ``part``, the product's rows from ``first_row`` and columns from ``first`` on."""
    count, width = sums.shape[0] // 2, part.shape[1]
    for i in range(part.shape[0]):
        d = row(part, i)
        for j in range(width):
            d[j] = floor if d[j] < floor else d[j]
        if count:
            block = (first_row + i) // ROWS_OF_A_SUM
            total, square = segment(sums, block, first, first + width), segment(sums, count + block, first,
                                                                                first + width)
            for j in range(width):
                total[j] += d[j]
                square[j] += d[j] * d[j]
        if scale.shape[0]:
            s, o = span(scale, first, width), span(offset, first, width)
            for j in range(width):
                d[j] = d[j] * s[j] + o[j]


@inline
def affine_block(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor,
                 by_blas):
    """Compute rows ``first_row`` to ``last_row`` - 1 and columns ``first`` to ``last`` - 1 of ``spliced_affine``.

    ``first_row`` is a multiple of ROWS_OF_A_SUM, and ``first`` of PANEL, unless they are 0.
    """
    begin_sums(sums, first_row, last_row, first, last)
    if by_blas:
        by_parts(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor)
    else:
        by_tiles(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor)


@inline
def by_parts(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    """Multiply the whole block by BLAS, one part of the input after the other, then finish it."""
    part = dst[first_row:last_row, first:last]
    set_rows(part, span(bias, first, last - first))
    dim = src.shape[1]
    for p in range(starts.shape[0]):
        top = starts[p] + first_row * stride
        rows = src[top:top + (last_row - first_row - 1) * stride + 1:stride]
        blas.multiply(part, rows, weights[first:last, p * dim:(p + 1) * dim], ONE, ONE, False, True)
    _finish(part, first_row, first, floor, scale, offset, sums)


@inline
def by_tiles(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    """Multiply and finish by tiles, a few rows at a time, each block of k with all columns while it is in the cache."""
    whole = first + (last - first) // VECTOR * VECTOR
    for begin in range(first_row, last_row, ROW_BLOCK):
        end = min(begin + ROW_BLOCK, last_row)
        if first < whole:
            _rows_by_tiles(begin, end, first, whole, dst, sums, src, weights, bias, scale, offset, starts, stride,
                           floor)
        if whole < last:
            _narrow_rest(begin, end, whole, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor)


@inline
def _narrow_rest(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    """Multiply columns that are less than a vector, one part of the input after the other, then finish them."""
    part, dim = dst[first_row:last_row, first:last], src.shape[1]
    set_rows(part, span(bias, first, last - first))
    for p in range(starts.shape[0]):
        top = starts[p] + first_row * stride
        rows = src[top:top + (last_row - first_row - 1) * stride + 1:stride]
        multiply(part, rows, weights[first:last, p * dim:(p + 1) * dim], ONE, ONE, False, True)
    _finish(part, first_row, first, floor, scale, offset, sums)


def _affine(first_row, last_row, first, last, dst, dst_step, sums, sums_step, num_sums, src, src_step, weights,
            weights_step, bias, scale, offset, starts, num_parts, dim, stride, floor):
    """Compute finished columns that are whole vectors.

    Matrices and vectors are given as addresses, and bytes from row to row. ``scale`` is 0 if there is none; ``starts``
    are int32.
    """
    panel, packed = stack_floats(PANEL_SIZE), stack_floats(LEFT_SIZE)
    num_rows, row_step, block_depth = last_row - first_row, src_step * stride, depth_of(dim)
    copies_left = last - first >= LEAST_COLUMNS_TO_COPY_FOR
    for p in range(num_parts):
        for k0 in range(0, dim, block_depth):
            depth = min(block_depth, dim - k0)
            is_first, is_last = p == 0 and k0 == 0, p == num_parts - 1 and k0 + depth == dim
            left = src + (get_int(starts + p * ITEM) + first_row * stride) * src_step + k0 * ITEM
            group_step, tile_row_step, tile_k_step = TILE_ROWS * row_step, row_step, ITEM
            if copies_left:
                transpose_left(packed, left, row_step, num_rows, depth)
                left, group_step, tile_row_step, tile_k_step = packed, GROUP_SIZE * ITEM, ITEM, TILE_ROWS * ITEM
            j0 = first
            while j0 < last:
                width = panel_width(last - j0)
                block = weights + j0 * weights_step + (p * dim + k0) * ITEM
                right, right_step = panel_of_right(panel, block, ITEM, weights_step, depth, width, width // VECTOR,
                                                   num_rows)
                at = j0 * ITEM
                _tiles_of_panel(first_row, num_rows, width // VECTOR, dst + first_row * dst_step + at, dst_step, left,
                                group_step, tile_row_step, tile_k_step, right, right_step, depth, is_first, is_last,
                                bias + at, floor, scale + at if scale else 0, offset + at, sums + at, sums_step,
                                num_sums)
                j0 += width


@inline
def _tiles_of_panel(first_row, num_rows, vectors, result, step, left, group_step, row_step, k_step, right, right_step,
                    depth, is_first, is_last, bias, floor, scale, offset, sums, sums_step, num_sums):
    i0 = sums_at = squares_at = 0
    while i0 < num_rows:
        left_over = min(num_rows - i0, TILE_ROWS - i0 % TILE_ROWS)
        if is_last and num_sums:        # a tile adds to one sum, so it ends where that does
            left_over = min(left_over, ROWS_OF_A_SUM - i0 % ROWS_OF_A_SUM)
        rows = next_rows(left_over)
        left_at, result_at = left + i0 // TILE_ROWS * group_step + i0 % TILE_ROWS * row_step, result + i0 * step
        addend, addend_step = (bias, 0) if is_first else (result_at, step)
        if is_last:
            if num_sums:
                sums_at = sums + (first_row + i0) // ROWS_OF_A_SUM * sums_step
                squares_at = sums_at + num_sums * sums_step
            last_tile(rows, vectors, depth, left_at, row_step, k_step, right, right_step, result_at, step, addend,
                      addend_step, floor, scale, offset, sums_at, squares_at)
        else:
            tile(rows, vectors, depth, left_at, row_step, k_step, right, right_step, result_at, step, addend,
                 addend_step, ONE, ONE)
        i0 += rows


_AFFINE_KINDS = (types.intp,) * 20 + (types.float32,)
_call_affine: Any = c_function(interface.AFFINE, _AFFINE_KINDS)


@inline
def _rows_by_tiles(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride,
                   floor):
    _call_affine(first_row, last_row, first, last, address(dst), dst.strides[0], address(sums), sums.strides[0],
                 sums.shape[0] // 2, address(src), src.strides[0], address(weights), weights.strides[0], address(bias),
                 address(scale) if scale.shape[0] else 0, address(offset), address(starts), starts.shape[0],
                 src.shape[1], stride, floor)


def make_affine() -> Code:
    """Compile the C function ``interface.AFFINE``."""
    return compiling.make_c_function(_affine, _AFFINE_KINDS)
