"""Matrix products on the CPU. Kaldi: AddMatMat of ``cu-matrix.h``.

A large product is cut into blocks of rows or columns, which the threads share. One thread multiplies by tiles
(``tiles.py``), or on a processor for which those were not tuned with scipy's BLAS. Blocks are multiples of what these
compute at once, so that no number depends on how a product was cut.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.epilogue import affine_block, set_rows
from nnet3py.engine.jit import inline, row, span
from nnet3py.engine.partition import ROWS_OF_A_SUM
from nnet3py.engine.team_code import CHUNKS_PER_THREAD, address_of, part_address, share
from nnet3py.engine.tiles import KNOWN_PROCESSOR, PANEL, TILE_ROWS
from nnet3py.ops.cpu.operation import operation

if KNOWN_PROCESSOR:
    from nnet3py.engine.tiles import multiply

    ROWS_AT_ONCE, COLUMNS_AT_ONCE = TILE_ROWS, PANEL
else:
    from nnet3py.engine.blas import PIECE, multiply

    ROWS_AT_ONCE = COLUMNS_AT_ONCE = PIECE

ONE = np.float32(1)
PER_ADDITION = 20        # multiply-adds in the time in which a kernel adds one number to another in memory


@inline
def _by_rows(dst):
    """Whether a product is cut by rows, which lie in memory in long pieces, rather than by columns."""
    return dst.shape[1] <= dst.shape[0]


@inline
def _multiply_part(first, last, dst, a, b, alpha, beta, trans_a, trans_b):
    if _by_rows(dst):
        part, left, right = dst[first:last], a[:, first:last] if trans_a else a[first:last], b
    else:
        part, left, right = dst[:, first:last], a, b[first:last] if trans_b else b[:, first:last]
    multiply(part, left, right, alpha, beta, trans_a, trans_b)      # once: it is inlined, and large


@inline
def _affine_part(first, last, dst, src, weights, bias):
    if _by_rows(dst):
        part, rows, block, values = dst[first:last], src[first:last], weights, bias
    else:
        part, rows, block, values = dst[:, first:last], src, weights[first:last], span(bias, first, last - first)
    set_rows(part, values)
    multiply(part, rows, block, ONE, ONE, False, True)


@inline
def _share_product(function, place, dst, k, rows_at_once):
    """Have the threads share the rows or columns of ``dst``, each element of which takes ``k`` multiplications."""
    m, n = dst.shape
    if _by_rows(dst):
        share(function, place, m, n * k // PER_ADDITION, rows_at_once, CHUNKS_PER_THREAD)
    else:
        share(function, place, n, m * k // PER_ADDITION, COLUMNS_AT_ONCE, CHUNKS_PER_THREAD)


@operation()
def affine(dst, src, weights, bias):
    (m, n), k = dst.shape, src.shape[1]
    arguments = (dst, src, weights, bias)
    if m == 0 or n == 0:
        return
    if k == 0:
        set_rows(dst, bias)
        return
    _share_product(part_address(_affine_part, arguments), address_of(arguments), dst, k, ROWS_AT_ONCE)


@inline
def _spliced_affine_part(first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    first_row, last_row, first_column, last_column = 0, dst.shape[0], 0, dst.shape[1]
    if _by_rows(dst):
        first_row, last_row = first, last
    else:
        first_column, last_column = first, last
    affine_block(first_row, last_row, first_column, last_column, dst, sums, src, weights, bias, scale, offset, starts,
                 stride, floor)


@operation()
def spliced_affine(dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    arguments = (dst, sums, src, weights, bias, scale, offset, starts, stride, floor)
    if dst.shape[0] and dst.shape[1]:
        _share_product(part_address(_spliced_affine_part, arguments), address_of(arguments), dst, weights.shape[1],
                       max(ROWS_OF_A_SUM, ROWS_AT_ONCE))


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
    arguments = (dst, a, b, alpha, beta, trans_a, trans_b)
    _share_product(part_address(_multiply_part, arguments), address_of(arguments), dst, k, ROWS_AT_ONCE)
