"""Blocks of affine maps, finished while they are in the cache: floor, scale and offset, and sums of columns.

What is finished is ``max(floor, product + bias) scale + offset``. The sums, and sums of squares, are those of the
values after the floor; each is over ROWS_OF_A_SUM rows, so that it does not depend on how the work is shared.
"""
from __future__ import annotations

from nnet3py.engine.addresses import address, stack_floats
from nnet3py.engine.jit import inline, row, segment, span
from nnet3py.engine.partition import ROWS_OF_A_SUM
from nnet3py.engine.tiles import (
    BLOCK,
    ITEM,
    KNOWN_PROCESSOR,
    ONE,
    PANEL,
    PANEL_SIZE,
    VECTOR,
    ZERO,
    last_tile,
    multiply,
    next_rows,
    panel_of_right,
    tile,
)

if not KNOWN_PROCESSOR:
    from nnet3py.engine.blas import multiply  # noqa: F811


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
    """Every row of ``part`` becomes ``vec``."""
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
def affine_block(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    """Rows ``first_row`` to ``last_row`` - 1 and columns ``first`` to ``last`` - 1 of ``spliced_affine``.

    ``first_row`` is a multiple of ROWS_OF_A_SUM, and ``first`` of PANEL, unless they are 0.
    """
    begin_sums(sums, first_row, last_row, first, last)
    if KNOWN_PROCESSOR:
        by_tiles(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor)
    else:
        by_parts(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor)


@inline
def by_parts(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    """The whole block's product with one part of the input after the other, then the rest; for any processor."""
    part = dst[first_row:last_row, first:last]
    set_rows(part, span(bias, first, last - first))
    dim = src.shape[1]
    for p in range(starts.shape[0]):
        top = starts[p] + first_row * stride
        rows = src[top:top + (last_row - first_row - 1) * stride + 1:stride]
        multiply(part, rows, weights[first:last, p * dim:(p + 1) * dim], ONE, ONE, False, True)
    _finish(part, first_row, first, floor, scale, offset, sums)


@inline
def by_tiles(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    """A panel of columns after the other, each through all parts of the input while it is in the first-level cache."""
    panel = stack_floats(PANEL_SIZE)
    dim, num_parts, count = src.shape[1], starts.shape[0], sums.shape[0] // 2
    for j0 in range(first, last, PANEL):
        width = min(PANEL, last - j0)
        vectors = -(-width // VECTOR)
        whole = width == vectors * VECTOR
        part = dst[first_row:last_row, j0:j0 + width]
        if not whole:
            set_rows(part, span(bias, j0, width))
        for p in range(num_parts):
            left = src[starts[p] + first_row * stride:]
            block = weights[j0:j0 + width, p * dim:(p + 1) * dim]
            if not whole:
                multiply(part, left[:(part.shape[0] - 1) * stride + 1:stride], block, ONE, ONE, False, True)
                continue
            for k0 in range(0, dim, BLOCK):
                depth = min(BLOCK, dim - k0)
                right, right_step = panel_of_right(panel, address(block) + k0 * ITEM, ITEM, weights.strides[0], depth,
                                                   width, vectors)
                is_first, is_last = p == 0 and k0 == 0, p == num_parts - 1 and k0 + depth == dim
                _tiles_of_panel(part, vectors, address(left) + k0 * ITEM, src.strides[0] * stride, right, right_step,
                                depth, is_first, is_last, first_row, j0, bias, floor, scale, offset, sums, count)
        if not whole:
            _finish(part, first_row, j0, floor, scale, offset, sums)


@inline
def _tiles_of_panel(part, vectors, left, row_step, right, right_step, depth, is_first, is_last, first_row, j0, bias,
                    floor, scale, offset, sums, count):
    result, i0, step = address(part), 0, part.strides[0]
    scale_at = offset_at = sums_at = squares_at = 0
    if scale.shape[0]:
        scale_at, offset_at = address(scale) + j0 * ITEM, address(offset) + j0 * ITEM
    while i0 < part.shape[0]:
        left_over = part.shape[0] - i0
        if is_last and count:           # a tile adds to one sum, so it ends where that does
            left_over = min(left_over, ROWS_OF_A_SUM - i0 % ROWS_OF_A_SUM)
        rows = next_rows(left_over)
        left_at, result_at = left + i0 * row_step, result + i0 * step
        addend, addend_step = (address(bias) + j0 * ITEM, 0) if is_first else (result_at, step)
        if is_last:
            if count:
                block = (first_row + i0) // ROWS_OF_A_SUM
                sums_at = address(sums) + block * sums.strides[0] + j0 * ITEM
                squares_at = sums_at + count * sums.strides[0]
            last_tile(rows, vectors, depth, left_at, row_step, ITEM, right, right_step, result_at, step, addend,
                      addend_step, floor, scale_at, offset_at, sums_at, squares_at)
        else:
            tile(rows, vectors, depth, left_at, row_step, ITEM, right, right_step, result_at, step, addend, addend_step,
                 ONE, ONE)
        i0 += rows
