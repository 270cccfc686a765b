"""Matrix products on the CPU. Kaldi: AddMatMat of ``cu-matrix.h``.

A large product is cut into blocks of rows or columns, which the threads share. One thread multiplies by tiles
(``tiles.py``), or on a processor for which those were not tuned with scipy's BLAS.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cpu.finishing import affine_block
from nnet3py.ops.cpu.jit import inline, kernel, row, span
from nnet3py.ops.cpu.team import CHUNKS_PER_THREAD, address_of, part_address, share
from nnet3py.ops.cpu.tiles import KNOWN_PROCESSOR, PANEL, TILE_ROWS
from nnet3py.ops.formulas import ROWS_OF_A_SUM

if KNOWN_PROCESSOR:
    from nnet3py.ops.cpu.tiles import multiply
else:
    from nnet3py.ops.cpu.blas import multiply

ONE = np.float32(1)
PER_ADDITION = 20        # multiply-adds in the time in which a kernel adds one number to another in memory


@inline
def _multiply_rows(first, last, dst, a, b, alpha, beta, trans_a, trans_b):
    part = a[:, first:last] if trans_a else a[first:last]
    multiply(dst[first:last], part, b, alpha, beta, trans_a, trans_b)


@inline
def _multiply_columns(first, last, dst, a, b, alpha, beta, trans_a, trans_b):
    part = b[first:last] if trans_b else b[:, first:last]
    multiply(dst[:, first:last], a, part, alpha, beta, trans_a, trans_b)


@inline
def _set_rows(dst, vec):
    for i in range(dst.shape[0]):
        row(dst, i)[:] = vec


@inline
def _affine_rows(first, last, dst, src, weights, bias):
    part = dst[first:last]
    _set_rows(part, bias)
    multiply(part, src[first:last], weights, ONE, ONE, False, True)


@inline
def _affine_columns(first, last, dst, src, weights, bias):
    part = dst[:, first:last]
    _set_rows(part, span(bias, first, last - first))
    multiply(part, src, weights[first:last], ONE, ONE, False, True)


@kernel("mat mat mat vec")
def affine(dst, src, weights, bias):
    """``dst[i] = weights src[i] + bias``; each block begins as the bias while it is in the cache."""
    (m, n), k = dst.shape, src.shape[1]
    arguments = (dst, src, weights, bias)
    if m == 0 or n == 0:
        return
    if k == 0:
        _set_rows(dst, bias)
        return
    place = address_of(arguments)
    if n > m:
        function = part_address(_affine_columns, arguments)
        share(function, place, n, m * k // PER_ADDITION, PANEL, CHUNKS_PER_THREAD)
    else:
        function = part_address(_affine_rows, arguments)
        share(function, place, m, n * k // PER_ADDITION, TILE_ROWS, CHUNKS_PER_THREAD)


@inline
def _spliced_affine_rows(first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    affine_block(first, last, 0, dst.shape[1], dst, sums, src, weights, bias, scale, offset, starts, stride, floor)


@inline
def _spliced_affine_columns(first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    affine_block(0, dst.shape[0], first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor)


@kernel("mat mat mat mat vec vec vec ivec int f32")
def spliced_affine(dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    """``dst[i] = max(floor, bias + sum over p of W_p src[starts[p] + stride i]) scale + offset``, in one pass.

    W_p are blocks of columns of ``weights``. ``scale`` and ``offset`` are empty, or have an element for each column.
    ``sums`` is empty, or gets sums of columns after the floor, as ``column_moments`` makes them. ``floor`` may be -inf.
    """
    (m, n), k = dst.shape, weights.shape[1]
    arguments = (dst, sums, src, weights, bias, scale, offset, starts, stride, floor)
    if m == 0 or n == 0:
        return
    place = address_of(arguments)
    if n > m:
        function = part_address(_spliced_affine_columns, arguments)
        share(function, place, n, m * k // PER_ADDITION, PANEL, CHUNKS_PER_THREAD)
    else:
        function = part_address(_spliced_affine_rows, arguments)
        share(function, place, m, n * k // PER_ADDITION, ROWS_OF_A_SUM, CHUNKS_PER_THREAD)


@kernel("mat mat mat f32 f32 bool bool")
def add_mat_mat(dst, a, b, alpha, beta, trans_a=False, trans_b=False):
    """``dst = alpha op(a) op(b) + beta dst``, where op transposes if asked to. Kaldi: AddMatMat.

    With beta 0 the old content of ``dst`` does not count, not even NaN. ``dst`` overlaps neither ``a`` nor ``b``.
    """
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
    place = address_of(arguments)
    if n > m:      # else by rows, which lie in memory in long pieces
        function = part_address(_multiply_columns, arguments)
        share(function, place, n, m * k // PER_ADDITION, PANEL, CHUNKS_PER_THREAD)
    else:
        function = part_address(_multiply_rows, arguments)
        share(function, place, m, n * k // PER_ADDITION, TILE_ROWS, CHUNKS_PER_THREAD)
