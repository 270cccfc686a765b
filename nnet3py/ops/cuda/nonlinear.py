"""Sigmoid, tanh, rectifier and softmax on the GPU: values, derivatives, statistics and self-repair.

``ops/formulas/functions.py`` describes ``counters``. The kernels themselves decide, by counters and a random draw,
whether the statistics of a call are added: so the GPU need not wait for the host.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.arrays import DeviceArray, IntCell
from nnet3py.ops.cuda.launch import kernel, operation
from nnet3py.ops.cuda.reductions import column_sums, is_refused, total
from nnet3py.ops.cuda.threads import (
    MOST_THREADS,
    cuda,
    device_function,
    formula,
    is_first_of_block,
    launch_block,
    launch_teams,
    max_along_team,
    places_in_block,
    row,
    row_blocks,
    sum_along_team,
    sum_over_block,
    team_columns,
    team_row,
)
from nnet3py.ops.formulas import functions
from nnet3py.ops.formulas.functions import (
    COUNT,
    NUM_PROCESSED,
    NUM_REPAIRED,
    ODERIV_COUNT,
    REPAIR_PROBABILITY,
    repair_direction,
)
from nnet3py.ops.table import documented

exp, sigmoid_slope, tanh_slope, relu_slope = map(formula, (
    functions.exp, functions.sigmoid_slope, functions.tanh_slope, functions.relu_slope))

_repair_direction = formula(repair_direction)
SOFTMAX_FLOOR = np.float32(1.0e-20)
ZERO, ONE, DOUBLE_ZERO = np.float32(0), np.float32(1), np.float64(0)
LOWEST = np.float32(-np.inf)

# -- values ------------------------------------------------------------------------------------------------------------


@device_function
def _team_maximum(shared, vector):
    largest = LOWEST
    for j in team_columns(vector.shape[0]):
        largest = vector[j] if vector[j] > largest else largest
    return max_along_team(shared, largest)


@operation(shape=launch_teams)
def softmax(dst, src):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for first in row_blocks(dst.shape[0]):
        i, mine = team_row(first, dst.shape[0])
        d, s = row(dst, i), row(src, i)
        largest = _team_maximum(shared, s)
        part = ZERO
        for j in team_columns(d.shape[0]):
            e = exp(s[j] - largest)
            part += e
            if mine:
                d[j] = e
        total = sum_along_team(shared, part)
        if mine:
            scale = ONE / total
            for j in team_columns(d.shape[0]):
                value = d[j] * scale
                d[j] = SOFTMAX_FLOOR if value < SOFTMAX_FLOOR else value


@operation(shape=launch_teams)
def log_softmax(dst, src):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for first in row_blocks(dst.shape[0]):
        i, mine = team_row(first, dst.shape[0])
        d, s = row(dst, i), row(src, i)
        largest = _team_maximum(shared, s)
        part = ZERO
        for j in team_columns(d.shape[0]):
            part += exp(s[j] - largest)
        total = sum_along_team(shared, part)
        if mine:
            shift = np.float32(math.log(total))
            for j in team_columns(d.shape[0]):      # the largest first: added to the shift, it would lose small digits
                d[j] = s[j] - largest - shift


# -- derivatives -------------------------------------------------------------------------------------------------------


@operation(shape=launch_teams)
def softmax_backprop(dx, y, dy):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for first in row_blocks(dx.shape[0]):
        i, mine = team_row(first, dx.shape[0])
        d, v, e, part = row(dx, i), row(y, i), row(dy, i), ZERO
        for j in team_columns(d.shape[0]):
            part += v[j] * e[j]
        total = sum_along_team(shared, part)
        if mine:
            for j in team_columns(d.shape[0]):
                d[j] = v[j] * (e[j] - total)


@operation(shape=launch_teams)
def log_softmax_backprop(dx, y, dy):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for first in row_blocks(dx.shape[0]):
        i, mine = team_row(first, dx.shape[0])
        d, v, e, part = row(dx, i), row(y, i), row(dy, i), ZERO
        for j in team_columns(d.shape[0]):
            part += e[j]
        total = sum_along_team(shared, part)
        if mine:
            for j in team_columns(d.shape[0]):
                d[j] = e[j] - exp(v[j]) * total


# -- statistics --------------------------------------------------------------------------------------------------------


@column_sums("mat", terms=2, double=True, unless_refused=COUNT)
def _sigmoid_sums(y):
    return y, sigmoid_slope(y)


@column_sums("mat", terms=2, double=True, unless_refused=COUNT)
def _tanh_sums(y):
    return y, tanh_slope(y)


@column_sums("mat", terms=2, double=True, unless_refused=COUNT)
def _relu_sums(y):
    return y, relu_slope(y)


@column_sums("mat", double=True)
def _value_sums(y):
    return y


@column_sums("mat", double=True, unless_refused=ODERIV_COUNT)
def _square_sums(dy):
    return dy * dy


@kernel("dvec dvec dvec dmat int intcell", shape=launch_block)
def _add_two(value_sum, deriv_sum, counters, parts, num_rows, draw):
    """Add the blocks' partial sums: of values to ``value_sum``, of derivatives to ``deriv_sum``; count ``num_rows``.

    ``parts`` has those of values in its first half, those of derivatives in the second.

    A single block does it, so that all threads read the counter before it is changed.
    """
    if is_refused(counters, COUNT, draw):
        return
    count = parts.shape[0] // 2
    for j in places_in_block(value_sum.shape[0]):
        value_sum[j] += total(parts, 0, count, j)
        deriv_sum[j] += total(parts, count, 2 * count, j)
    cuda.syncthreads()
    if is_first_of_block():
        counters[COUNT] += num_rows


@kernel("dvec dvec int dmat int intcell", shape=launch_block)
def _add_one(sums, counters, place, parts, num_rows, draw):
    """Add parts of one kind of sums, and ``num_rows`` to ``counters[place]``, as :func:`_add_two`."""
    if is_refused(counters, place, draw):
        return
    for j in places_in_block(sums.shape[0]):
        sums[j] += total(parts, 0, parts.shape[0], j)
    cuda.syncthreads()
    if is_first_of_block():
        counters[place] += num_rows


@documented
def sigmoid_stats(value_sum: DeviceArray, deriv_sum: DeviceArray, counters: DeviceArray, y: DeviceArray,
                  draw: IntCell) -> None:
    _add_two(value_sum, deriv_sum, counters, _sigmoid_sums.of(y, counters, draw), y.shape[0], draw)


@documented
def tanh_stats(value_sum: DeviceArray, deriv_sum: DeviceArray, counters: DeviceArray, y: DeviceArray,
               draw: IntCell) -> None:
    _add_two(value_sum, deriv_sum, counters, _tanh_sums.of(y, counters, draw), y.shape[0], draw)


@documented
def relu_stats(value_sum: DeviceArray, deriv_sum: DeviceArray, counters: DeviceArray, y: DeviceArray,
               draw: IntCell) -> None:
    _add_two(value_sum, deriv_sum, counters, _relu_sums.of(y, counters, draw), y.shape[0], draw)


@documented
def value_stats(value_sum: DeviceArray, counters: DeviceArray, y: DeviceArray) -> None:
    _add_one(value_sum, counters, COUNT, _value_sums.of(y), y.shape[0], 1)


@documented
def output_deriv_stats(oderiv_sumsq: DeviceArray, counters: DeviceArray, dy: DeviceArray, draw: IntCell) -> None:
    _add_one(oderiv_sumsq, counters, ODERIV_COUNT, _square_sums.of(dy, counters, draw), dy.shape[0], draw)


@operation(shape=launch_block)
def output_deriv_stats_of_parts(oderiv_sumsq, counters, squares, num_rows, draw):
    if is_refused(counters, ODERIV_COUNT, draw):
        return
    for j in places_in_block(oderiv_sumsq.shape[0]):
        for p in range(squares.shape[0]):
            oderiv_sumsq[j] += squares[p, j]
    cuda.syncthreads()
    if is_first_of_block():
        counters[ODERIV_COUNT] += num_rows


# -- self-repair -------------------------------------------------------------------------------------------------------


@operation(shape=launch_block)
def low_slope_repair(repair, updated_counters, deriv_sum, counters, threshold, scale, draw):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    count = counters[COUNT]
    limit = threshold * np.float32(count)
    active = scale != ZERO and count != 0.0 and draw[0] <= REPAIR_PROBABILITY
    part = ZERO
    for j in places_in_block(repair.shape[0]):
        low = active and limit > np.float32(deriv_sum[j])
        repair[j] = scale / REPAIR_PROBABILITY if low else ZERO
        part += ONE if low else ZERO
    num_repaired = sum_over_block(shared, part)
    if is_first_of_block():
        updated_counters[NUM_PROCESSED] += repair.shape[0]
        updated_counters[NUM_REPAIRED] += num_repaired


@operation(shape=launch_block)
def relu_repair(repair, updated_counters, deriv_sum, counters, block_dim, lower, upper, scale, draw):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    count = counters[COUNT]
    active_now = count != 0.0 and draw[0] <= REPAIR_PROBABILITY
    num_blocks = repair.shape[0] // block_dim
    low, high = lower * np.float32(count), upper * np.float32(count)
    part = ZERO
    for place in places_in_block(block_dim):
        c = np.int64(place)
        direction = ZERO
        if active_now:
            direction = _repair_direction(deriv_sum, c, block_dim, low, high)
        part += ONE if direction != ZERO else ZERO
        for b in range(num_blocks):
            repair[b * block_dim + c] = direction * (scale / REPAIR_PROBABILITY)
    num_repaired = sum_over_block(shared, part)
    if is_first_of_block() and active_now:
        updated_counters[NUM_PROCESSED] += block_dim
        updated_counters[NUM_REPAIRED] += num_repaired
