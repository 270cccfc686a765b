"""Matrix products on the CPU. Kaldi: AddMatMat of ``cu-matrix.h``.

A large product is cut into blocks of rows or columns, which the threads share. One thread multiplies by tiles
(``engine/tiles.py``) or with scipy's BLAS, as ``engine/product_rule.py`` decides. Blocks are multiples of the sizes
that these compute at once, so that no number depends on how a product was cut.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.blas import PIECE, is_for_blas
from nnet3py.engine.blas import multiply as multiply_by_blas
from nnet3py.engine.inline import multiply_add
from nnet3py.engine.jit import inline, row, segment, span
from nnet3py.engine.team_code import CHUNKS_PER_THREAD, address_of, part_address, share
from nnet3py.engine.threads import ROWS_OF_A_SUM
from nnet3py.engine.tiles import ONE, PANEL, ROW_BLOCK, TILE_ROWS, VECTOR, ZERO
from nnet3py.engine.tiles import multiply as multiply_by_tiles
from nnet3py.ops.cpu.operation import operation

ONE_PART, NO_FLOOR = np.zeros(1, np.int32), np.float32(-np.inf)
PER_ADDITION = 20        # multiply-adds in the time of an addition of two numbers in memory


@inline
def _by_rows(dst):
    """Return whether threads share the rows of a product (contiguous memory) rather than its columns."""
    return dst.shape[1] <= dst.shape[0]


@inline
def _multiply(part, left, right, alpha, beta, trans_a, trans_b, by_blas):
    if by_blas:
        multiply_by_blas(part, left, right, alpha, beta, trans_a, trans_b)
    else:
        multiply_by_tiles(part, left, right, alpha, beta, trans_a, trans_b)


@inline
def _multiply_part(first, last, dst, a, b, alpha, beta, trans_a, trans_b, by_blas):
    if _by_rows(dst):
        part, left, right = dst[first:last], a[:, first:last] if trans_a else a[first:last], b
    else:
        part, left, right = dst[:, first:last], a, b[first:last] if trans_b else b[:, first:last]
    _multiply(part, left, right, alpha, beta, trans_a, trans_b, by_blas)      # a single call: it is inlined, and large


@inline
def _share_product(function, place, dst, k, by_blas, least_rows):
    """Run ``function`` on chunks of the rows or columns of ``dst``, which the threads share.

    ``place`` is the address of its arguments; an element of ``dst`` takes ``k`` multiplications.
    """
    m, n = dst.shape
    rows_at_once, columns_at_once = (PIECE, PIECE) if by_blas else (max(least_rows, TILE_ROWS), PANEL)
    if _by_rows(dst):
        share(function, place, m, n * k // PER_ADDITION, rows_at_once, CHUNKS_PER_THREAD)
    else:
        share(function, place, n, m * k // PER_ADDITION, columns_at_once, CHUNKS_PER_THREAD)


# -- affine maps: a block of rows becomes max(floor, product + bias) scale + offset while it is in the cache -----------


@inline
def _set_rows(part, vec):
    for i in range(part.shape[0]):
        target = row(part, i)
        for j in range(target.shape[0]):
            target[j] = vec[j]


@inline
def _begin_sums(sums, first_row, last_row, first, last):
    """Set to 0 the sums over rows ``first_row`` to ``last_row`` - 1 in columns ``first`` to ``last`` - 1.

    ``first_row`` is a multiple of ROWS_OF_A_SUM.
    """
    count = sums.shape[0] // 2
    if count:
        for block in range(first_row // ROWS_OF_A_SUM, -(-last_row // ROWS_OF_A_SUM)):
            segment(sums, block, first, last)[:] = ZERO
            segment(sums, count + block, first, last)[:] = ZERO


@inline
def _add_product(a, b, c, fused):
    """Return a b + c, rounded only once (fused multiply-add) if ``fused``."""
    return multiply_add(a, b, c) if fused else a * b + c


@inline
def _finish(part, first_row, first, floor, scale, offset, sums, fused):
    """Apply floor, scale and offset to ``part``, a product's rows from ``first_row`` and columns from ``first`` on.

    Between floor and scale, values and their squares are added to ``sums``: a row of sums for each ROWS_OF_A_SUM rows,
    so that sums do not depend on how threads share the work. Products are fused with additions if ``fused``.
    """
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
                square[j] = _add_product(d[j], d[j], square[j], fused)
        if scale.shape[0]:
            s, o = span(scale, first, width), span(offset, first, width)
            for j in range(width):
                d[j] = _add_product(d[j], s[j], o[j], fused)


@inline
def _spliced_affine_part(first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor, by_blas):
    first_row, last_row, first_column, last_column = 0, dst.shape[0], 0, dst.shape[1]
    if _by_rows(dst):
        first_row, last_row = first, last
    else:
        first_column, last_column = first, last
    _begin_sums(sums, first_row, last_row, first_column, last_column)
    dim, width = src.shape[1], last_column - first_column
    num_fused = 0 if by_blas else width - width % VECTOR      # as tiles round; not every processor can
    rows_at_once = PIECE if by_blas else ROW_BLOCK
    for begin in range(first_row, last_row, rows_at_once):
        end = min(begin + rows_at_once, last_row)
        part = dst[begin:end, first_column:last_column]
        _set_rows(part, span(bias, first_column, width))
        for p in range(starts.shape[0]):
            top = starts[p] + begin * stride
            rows = src[top:top + (end - begin - 1) * stride + 1:stride]
            _multiply(part, rows, weights[first_column:last_column, p * dim:(p + 1) * dim], ONE, ONE, False, True,
                      by_blas)
        _finish(part[:, :num_fused], begin, first_column, floor, scale, offset, sums, True)
        _finish(part[:, num_fused:], begin, first_column + num_fused, floor, scale, offset, sums, False)


@inline
def _spliced_affine(dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    (m, n), k = dst.shape, weights.shape[1]
    by_blas = is_for_blas(m, n, src.shape[1], False, True)
    arguments = (dst, sums, src, weights, bias, scale, offset, starts, stride, floor, by_blas)
    if m and n:
        _share_product(part_address(_spliced_affine_part, arguments), address_of(arguments), dst, k, by_blas,
                       ROWS_OF_A_SUM)


@operation()
def spliced_affine(dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    _spliced_affine(dst, sums, src, weights, bias, scale, offset, starts, stride, floor)


@operation()
def affine(dst, src, weights, bias):
    if src.shape[1] == 0:
        _set_rows(dst, bias)
        return
    _spliced_affine(dst, dst[:0], src, weights, bias, bias[:0], bias[:0], ONE_PART, 1, NO_FLOOR)


@operation()
def add_mat_mat(dst, a, b, alpha, beta, trans_a=False, trans_b=False):
    m, n = dst.shape
    k = a.shape[0] if trans_a else a.shape[1]
    if m == 0 or n == 0:
        return
    if k == 0:
        for i in range(m):
            target = row(dst, i)
            for j in range(n):
                target[j] = beta * target[j] if beta != 0 else beta
        return
    by_blas = is_for_blas(m, n, k, trans_a, trans_b)
    arguments = (dst, a, b, alpha, beta, trans_a, trans_b, by_blas)
    _share_product(part_address(_multiply_part, arguments), address_of(arguments), dst, k, by_blas, 1)
