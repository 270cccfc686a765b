"""Sums on the CPU: over the rows of a matrix, or over everything.

Sums over rows add four rows as a tree before they touch the destination: fewer passes over it, and less rounding than
one long chain. Sums to one number run in float64. The order depends on the sizes alone.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import get_double, set_double, stack_doubles
from nnet3py.engine.jit import inline, row, segment, span
from nnet3py.engine.numba_target import njit
from nnet3py.engine.team_code import CHUNKS_PER_THREAD, address_of, part_address, share
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.formulas import functions

keep = formula(functions.keep)
BLOCKS = 64     # of rows, whose sums make the sum of a whole matrix


@inline
def _four_rows(matrix, i, first, last):
    """Return views of columns ``first`` to ``last`` - 1 of rows ``i`` to ``i`` + 3."""
    return (segment(matrix, i, first, last), segment(matrix, i + 1, first, last),
            segment(matrix, i + 2, first, last), segment(matrix, i + 3, first, last))


@inline
def _prepare(dst, beta):
    for j in range(dst.shape[0]):
        dst[j] = keep(beta, dst[j])


@operation(columns_of="src")
def add_row_sum(first, last, dst, src, alpha, beta):
    total = span(dst, first, last - first)
    _prepare(total, beta)
    num_rows = src.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a, b, c, d = _four_rows(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * ((a[j] + b[j]) + (c[j] + d[j]))
    for i in range(blocked, num_rows):
        a = segment(src, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * a[j]


@operation(columns_of="a")
def add_row_sum_product(first, last, dst, a, b, alpha, beta):
    total = span(dst, first, last - first)
    _prepare(total, beta)
    num_rows = a.shape[0]
    blocked = num_rows - num_rows % 4
    for i in range(0, blocked, 4):
        a0, a1, a2, a3 = _four_rows(a, i, first, last)
        b0, b1, b2, b3 = _four_rows(b, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * ((a0[j] * b0[j] + a1[j] * b1[j]) + (a2[j] * b2[j] + a3[j] * b3[j]))
    for i in range(blocked, num_rows):
        a0, b0 = segment(a, i, first, last), segment(b, i, first, last)
        for j in range(total.shape[0]):
            total[j] += alpha * (a0[j] * b0[j])


@inline
def _dot(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


@njit(fastmath={"reassoc", "nsz"})
def _sum_block_products(first, last, sums, a, b):
    for block in range(first, last):
        total = 0.0
        for i in range(block * a.shape[0] // BLOCKS, (block + 1) * a.shape[0] // BLOCKS):
            total += _dot(row(a, i), row(b, i))
        set_double(sums + block * 8, total)


@inline
def sum_all_products(a, b):
    """Return the sum of all ``a[i, j] b[i, j]`` in float64.

    The rows are cut into a fixed number of blocks: the result does not depend on the number of threads.
    """
    sums = stack_doubles(BLOCKS)
    arguments = (sums, a, b)
    share(part_address(_sum_block_products, arguments), address_of(arguments), BLOCKS, a.size // BLOCKS + 1, 1,
          CHUNKS_PER_THREAD)
    total = 0.0
    for block in range(BLOCKS):
        total += get_double(sums + block * 8)
    return total


@operation(reassociate=True)
def sum_product(a, b):
    return sum_all_products(a, b)
