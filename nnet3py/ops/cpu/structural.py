"""Permutations, blocks and groups of columns, and the clipping of derivatives row by row, on the CPU."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import inline, row, span
from nnet3py.ops.cpu.operation import formula, of_loop, operation
from nnet3py.ops.formulas import functions, loops

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
_clip, _excess = formula(functions.clip), formula(functions.excess)

# -- columns -----------------------------------------------------------------------------------------------------------

copy_cols, sum_column_groups, copy_to_column_groups, copy_row_pieces, copy_to_row_pieces = (
    of_loop(loop, __file__, __name__) for loop in (
        loops.copy_cols, loops.sum_column_groups, loops.copy_to_column_groups, loops.copy_row_pieces,
        loops.copy_to_row_pieces))


@operation()
def multiply_blocks(dst, src):
    width = dst.shape[1]
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in range(width):
            d[j] = s[j]
        for start in range(width, src.shape[1], width):
            factor = span(s, start, width)
            for j in range(width):
                d[j] *= factor[j]


@operation()
def multiply_blocks_backprop(dx, x, dy):
    width = dy.shape[1]
    for i in range(dx.shape[0]):
        s, e = row(x, i), row(dy, i)
        for start in range(0, x.shape[1], width):
            d = span(row(dx, i), start, width)
            for j in range(width):
                d[j] = e[j]
            for other in range(0, x.shape[1], width):
                if other != start:
                    factor = span(s, other, width)
                    for j in range(width):
                        d[j] *= factor[j]


@operation()
def add_sum_of_blocks(dst, src, alpha):
    width = dst.shape[1]
    for i in range(dst.shape[0]):
        d = row(dst, i)
        for start in range(0, src.shape[1], width):
            s = span(row(src, i), start, width)
            for j in range(width):
                d[j] += alpha * s[j]


@operation()
def add_to_blocks(dst, src, alpha):
    width = src.shape[1]
    for i in range(dst.shape[0]):
        s = row(src, i)
        for start in range(0, dst.shape[1], width):
            d = span(row(dst, i), start, width)
            for j in range(width):
                d[j] += alpha * s[j]


# -- derivatives in bounds ---------------------------------------------------------------------------------------------


@operation()
def clip_elements(dx, counters, dy, limit, store):
    for i in range(dx.shape[0]):
        d, e = row(dx, i), row(dy, i)
        for j in range(d.shape[0]):
            d[j] = _clip(e[j], limit)
    if store:
        counters[3] += 1.0


@inline
def _square(vector):
    """Return the squared norm of a vector, as four interleaved sums: faster, and in a fixed order."""
    a, b, c, d = ZERO, ZERO, ZERO, ZERO
    blocked = vector.shape[0] - vector.shape[0] % 4
    for j in range(0, blocked, 4):
        a += vector[j] * vector[j]
        b += vector[j + 1] * vector[j + 1]
        c += vector[j + 2] * vector[j + 2]
        d += vector[j + 3] * vector[j + 3]
    for j in range(blocked, vector.shape[0]):
        a += vector[j] * vector[j]
    return (a + b) + (c + d)


@operation()
def clip_rows(dx, counters, dy, limit, store):
    inverse = ONE / (limit * limit)
    num_clipped = 0
    for i in range(dx.shape[0]):
        d, e = row(dx, i), row(dy, i)
        ratio = _square(e) * inverse
        factor = ONE
        if not ratio < ONE:
            num_clipped += 1
            factor = ONE / np.float32(math.sqrt(ratio))
        for j in range(d.shape[0]):
            d[j] = factor * e[j]
    if store:
        counters[0] += num_clipped
        counters[1] += dx.shape[0]
        counters[3] += 1.0


@inline
def _sum_of_norms(matrix):
    total = 0.0
    for i in range(matrix.shape[0]):
        total += math.sqrt(_square(row(matrix, i)))
    return total


@operation()
def clip_gradient_repair(dx, updated_counters, x, counters, proportion_threshold, target, scale, draw):
    if counters[1] == 0.0 or draw > 0.5:
        return
    proportion = np.float32(counters[0] / counters[1])
    if proportion <= proportion_threshold:
        return
    updated_counters[2] += 1.0
    norms_before = _sum_of_norms(dx)
    repair_norms = 0.0
    for i in range(x.shape[0]):
        s = row(x, i)
        square = ZERO
        for j in range(s.shape[0]):
            value = _excess(s[j], target)
            square += value * value
        repair_norms += math.sqrt(square)
    if repair_norms != 0.0:
        factor = TWO * np.float32(scale * proportion * norms_before / repair_norms)
        for i in range(dx.shape[0]):
            d, s = row(dx, i), row(x, i)
            for j in range(d.shape[0]):
                d[j] -= factor * _excess(s[j], target)
    norms_after = _sum_of_norms(dx)
    if norms_after != 0.0:
        factor = np.float32(norms_before / norms_after)
        for i in range(dx.shape[0]):
            d = row(dx, i)
            for j in range(d.shape[0]):
                d[j] *= factor


@operation()
def truncate_gradient(dx, counters, dy, zeroing, scale, clipping_threshold, zeroing_threshold, store):
    inverse = ONE / (clipping_threshold * clipping_threshold)
    num_clipped, num_zeroed, num_boundaries = 0, 0, ZERO
    for i in range(dx.shape[0]):
        d, e = row(dx, i), row(dy, i)
        for j in range(d.shape[0]):
            d[j] = scale * e[j]
        square = _square(d)
        ratio = square * inverse
        factor = ONE
        if not ratio < ONE:
            num_clipped += 1
            factor = ONE / np.float32(math.sqrt(ratio))
        num_boundaries -= zeroing[i]
        if square > zeroing_threshold * zeroing_threshold and zeroing[i] != ZERO:
            num_zeroed += 1
            factor = ZERO
        if factor != ONE:
            for j in range(d.shape[0]):
                d[j] *= factor
    if store:
        counters[0] += num_clipped
        counters[1] += num_zeroed
        counters[2] += dx.shape[0]
        counters[3] += num_boundaries
