"""Permutations, blocks and groups of columns, and the clipping of derivatives row by row, on the GPU.

The operations are those of ``ops/cpu/structural.py``. Counters are integers in float64, so that the order in which
blocks add to them makes no difference.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cuda.launch import kernel, operation
from nnet3py.ops.cuda.threads import (
    MOST_THREADS,
    cuda,
    device_function,
    formula,
    is_first_of_block,
    launch_block,
    launch_teams,
    of_loop,
    own_columns,
    own_rows,
    row,
    row_blocks,
    span,
    sum_along_team,
    sum_over_block,
    team_columns,
    team_row,
)
from nnet3py.ops.formulas import functions, loops
from nnet3py.ops.table import documented

_clip, excess = formula(functions.clip), formula(functions.excess)

ZERO, ONE, TWO, DOUBLE_ZERO = np.float32(0), np.float32(1), np.float32(2), np.float64(0)

# -- columns -----------------------------------------------------------------------------------------------------------

copy_cols, sum_column_groups, copy_row_pieces = (of_loop(loop, __file__, __name__) for loop in (
    loops.copy_cols, loops.sum_column_groups, loops.copy_row_pieces))
copy_to_column_groups, copy_to_row_pieces = (of_loop(loop, __file__, __name__, over=1) for loop in (
    loops.copy_to_column_groups, loops.copy_to_row_pieces))


@operation()
def multiply_blocks(dst, src):
    width = dst.shape[1]
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(width):
            product = s[j]
            for start in range(width, s.shape[0], width):
                product *= span(s, start, width)[j]
            d[j] = product


@operation(over=2)
def multiply_blocks_backprop(dx, x, dy):
    width = dy.shape[1]
    for i in own_rows(dx.shape[0]):
        d, s, e = row(dx, i), row(x, i), row(dy, i)
        for j in own_columns(width):
            for start in range(0, s.shape[0], width):
                product = e[j]
                for other in range(0, s.shape[0], width):
                    if other != start:
                        product *= span(s, other, width)[j]
                span(d, start, width)[j] = product


@operation()
def add_sum_of_blocks(dst, src, alpha):
    width = dst.shape[1]
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(width):
            total = d[j]
            for start in range(0, s.shape[0], width):
                total += alpha * span(s, start, width)[j]
            d[j] = total


@operation(over=1)
def add_to_blocks(dst, src, alpha):
    width = src.shape[1]
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(width):
            value = alpha * s[j]
            for start in range(0, d.shape[0], width):
                span(d, start, width)[j] += value


# -- derivatives in bounds ---------------------------------------------------------------------------------------------


@kernel("mat dvec mat f32 bool")
def _clip_elements(dx, counters, dy, limit, store):
    for i in own_rows(dx.shape[0]):
        d, e = row(dx, i), row(dy, i)
        for j in own_columns(d.shape[0]):
            d[j] = _clip(e[j], limit)


@kernel("dvec f64 f64", shape=launch_block)
def _count_rows(counters, num_rows, num_calls):
    """Add ``num_rows`` to ``counters[1]`` and ``num_calls`` to ``counters[3]``."""
    if is_first_of_block():
        counters[1] += num_rows
        counters[3] += num_calls


@documented
def clip_elements(dx, counters, dy, limit, store):  # type: ignore[no-untyped-def]
    _clip_elements(dx, counters, dy, limit, store)
    if store:
        _count_rows(counters, 0.0, 1.0)


@device_function
def _team_square(shared, vector):
    """Return the squared norm of ``vector``, the row that this thread's team works on."""
    part = ZERO
    for j in team_columns(vector.shape[0]):
        part += vector[j] * vector[j]
    return sum_along_team(shared, part)


@device_function
def _add_whole(counters, place, number):
    """Add an integer to a counter atomically; the sum is exact, so the order of additions does not matter."""
    cuda.atomic.add(counters, place, np.float64(number))


@kernel("mat dvec mat f32 bool", shape=launch_teams)
def _clip_rows(dx, counters, dy, limit, store):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    inverse = ONE / (limit * limit)
    num_clipped = 0
    for first in row_blocks(dx.shape[0]):
        i, mine = team_row(first, dx.shape[0])
        d, e = row(dx, i), row(dy, i)
        ratio = _team_square(shared, e) * inverse
        if mine:
            factor = ONE
            if not ratio < ONE:
                num_clipped += 1
                factor = ONE / np.float32(math.sqrt(ratio))
            for j in team_columns(d.shape[0]):
                d[j] = factor * e[j]
    if store and num_clipped and cuda.threadIdx.x == 0:
        _add_whole(counters, 0, num_clipped)


@documented
def clip_rows(dx, counters, dy, limit, store):  # type: ignore[no-untyped-def]
    _clip_rows(dx, counters, dy, limit, store)
    if store:
        _count_rows(counters, dx.shape[0], 1.0)


@device_function
def _sum_of_norms(shared, matrix, of_excess, target):
    """Return the sum of the norms of a matrix's rows, or of rows with the excess of elements over ``target``.

    ``of_excess`` selects the latter. A single block of threads calls it.
    """
    total = ZERO
    for first in row_blocks(matrix.shape[0]):
        i, mine = team_row(first, matrix.shape[0])
        values, part = row(matrix, i), ZERO
        for j in team_columns(values.shape[0]):
            value = excess(values[j], target) if of_excess else values[j]
            part += value * value
        square = sum_along_team(shared, part)
        if mine and cuda.threadIdx.x == 0:
            total += np.float32(math.sqrt(square))
    return sum_over_block(shared, total)


# by a single block, since repairs are rare
@operation(shape=launch_block)
def clip_gradient_repair(dx, updated_counters, x, counters, proportion_threshold, target, scale, draw):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    if counters[1] == 0.0 or draw[0] > np.float32(0.5):
        return
    proportion = np.float32(counters[0] / counters[1])
    if proportion <= proportion_threshold:
        return
    norms_before = _sum_of_norms(shared, dx, False, ZERO)
    repair_norms = _sum_of_norms(shared, x, True, target)
    if is_first_of_block():
        updated_counters[2] += 1.0
    if repair_norms != ZERO:
        factor = TWO * (scale * proportion * norms_before / repair_norms)
        for i in own_rows(dx.shape[0]):
            d, s = row(dx, i), row(x, i)
            for j in own_columns(d.shape[0]):
                d[j] -= factor * excess(s[j], target)
    cuda.syncthreads()
    norms_after = _sum_of_norms(shared, dx, False, ZERO)
    if norms_after != ZERO:
        factor = norms_before / norms_after
        for i in own_rows(dx.shape[0]):
            d = row(dx, i)
            for j in own_columns(d.shape[0]):
                d[j] *= factor


@kernel("mat dvec mat vec f32 f32 f32 bool", shape=launch_teams)
def _truncate(dx, counters, dy, zeroing, scale, clipping_threshold, zeroing_threshold, store):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    inverse = ONE / (clipping_threshold * clipping_threshold)
    num_clipped, num_zeroed, num_boundaries = 0, 0, 0
    for first in row_blocks(dx.shape[0]):
        i, mine = team_row(first, dx.shape[0])
        d, e = row(dx, i), row(dy, i)
        square = scale * scale * _team_square(shared, e)
        if mine:
            ratio = square * inverse
            factor = scale
            if not ratio < ONE:
                num_clipped += 1
                factor = scale / np.float32(math.sqrt(ratio))
            if zeroing[i] != ZERO:
                num_boundaries += 1
                if square > zeroing_threshold * zeroing_threshold:
                    num_zeroed += 1
                    factor = ZERO
            for j in team_columns(d.shape[0]):
                d[j] = factor * e[j]
    if store and cuda.threadIdx.x == 0:
        _add_whole(counters, 0, num_clipped)
        _add_whole(counters, 1, num_zeroed)
        _add_whole(counters, 3, num_boundaries)


@kernel("dvec int", shape=launch_block)
def _count_truncated(counters, num_rows):
    if is_first_of_block():
        counters[2] += num_rows


@documented
def truncate_gradient(dx, counters, dy, zeroing, scale, clipping_threshold,  # type: ignore[no-untyped-def]
                      zeroing_threshold, store):
    _truncate(dx, counters, dy, zeroing, scale, clipping_threshold, zeroing_threshold, store)
    if store:
        _count_truncated(counters, dx.shape[0])
