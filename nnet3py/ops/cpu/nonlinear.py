"""Sigmoid, tanh, rectifier and softmax on the CPU: values, derivatives, statistics and self-repair.

``ops/formulas/functions.py`` describes ``counters``. The kernels themselves decide, by counters and a random draw,
whether the statistics of a call are added: so a GPU need not wait for the host.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import CACHE_LINE, inline, row, segment, span
from nnet3py.engine.team_code import address_of, part_address, share
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.formulas import functions
from nnet3py.ops.formulas.functions import (
    COUNT,
    NUM_PROCESSED,
    NUM_REPAIRED,
    ODERIV_COUNT,
    REPAIR_PROBABILITY,
    repair_direction,
)

exp, sigmoid_slope, tanh_slope, relu_slope = map(formula, (
    functions.exp, functions.sigmoid_slope, functions.tanh_slope, functions.relu_slope))

_repair_direction = formula(repair_direction)
SOFTMAX_FLOOR = np.float32(1.0e-20)
ZERO, ONE = np.float32(0), np.float32(1)

# -- values ------------------------------------------------------------------------------------------------------------


@inline
def _maximum(vector):
    largest = vector[0]
    for j in range(1, vector.shape[0]):
        largest = vector[j] if vector[j] > largest else largest
    return largest


@operation(reassociate=True, rows_of="dst", cost=10)
def softmax(first, last, dst, src):
    for i in range(first, last):
        d, s = row(dst, i), row(src, i)
        largest = _maximum(s)
        total = ZERO
        for j in range(d.shape[0]):
            e = exp(s[j] - largest)
            d[j] = e
            total += e
        scale = ONE / total
        for j in range(d.shape[0]):
            value = d[j] * scale
            d[j] = SOFTMAX_FLOOR if value < SOFTMAX_FLOOR else value


@operation(reassociate=True, rows_of="dst", cost=10)
def log_softmax(first, last, dst, src):
    for i in range(first, last):
        d, s = row(dst, i), row(src, i)
        largest = _maximum(s)
        total = ZERO
        for j in range(d.shape[0]):
            shifted = s[j] - largest       # the largest first: added to the logarithm, it would lose small digits
            d[j] = shifted
            total += exp(shifted)
        shift = np.float32(math.log(total))
        for j in range(d.shape[0]):
            d[j] -= shift


# -- derivatives -------------------------------------------------------------------------------------------------------


@operation(reassociate=True, rows_of="dx", cost=2)
def softmax_backprop(first, last, dx, y, dy):
    for i in range(first, last):
        d, v, e = row(dx, i), row(y, i), row(dy, i)
        total = ZERO
        for j in range(d.shape[0]):
            total += v[j] * e[j]
        for j in range(d.shape[0]):
            d[j] = v[j] * (e[j] - total)


@operation(reassociate=True, rows_of="dx", cost=8)
def log_softmax_backprop(first, last, dx, y, dy):
    for i in range(first, last):
        d, v, e = row(dx, i), row(y, i), row(dy, i)
        total = ZERO
        for j in range(d.shape[0]):
            total += e[j]
        for j in range(d.shape[0]):
            d[j] = e[j] - exp(v[j]) * total


# -- statistics --------------------------------------------------------------------------------------------------------


@inline
def _is_refused(counters, place, draw):
    return draw == 0 and counters[place] != 0.0


def _sums_with(slope):
    """Make a function that adds the columns' sums of ``y`` to ``value_sum``, and of ``slope(y)`` to ``deriv_sum``."""
    @inline
    def add_sums(first, last, value_sum, deriv_sum, y):
        total, slopes = span(value_sum, first, last - first), span(deriv_sum, first, last - first)
        for i in range(y.shape[0]):
            v = segment(y, i, first, last)
            for j in range(v.shape[0]):
                total[j] += v[j]
                slopes[j] += slope(v[j])

    return add_sums


_sigmoid_sums, _tanh_sums, _relu_sums = map(_sums_with, (sigmoid_slope, tanh_slope, relu_slope))


@inline
def _square_sums(first, last, oderiv_sumsq, dy):
    total = span(oderiv_sumsq, first, last - first)
    for i in range(dy.shape[0]):
        e = segment(dy, i, first, last)
        for j in range(e.shape[0]):
            total[j] += e[j] * e[j]


@inline
def _add_stats(add_sums, value_sum, deriv_sum, counters, y, draw):
    if not _is_refused(counters, COUNT, draw):
        counters[COUNT] += y.shape[0]
        arguments = (value_sum, deriv_sum, y)
        share(part_address(add_sums, arguments), address_of(arguments), y.shape[1], 2 * y.shape[0], CACHE_LINE, 1)


@operation()
def sigmoid_stats(value_sum, deriv_sum, counters, y, draw):
    _add_stats(_sigmoid_sums, value_sum, deriv_sum, counters, y, draw)


@operation()
def tanh_stats(value_sum, deriv_sum, counters, y, draw):
    _add_stats(_tanh_sums, value_sum, deriv_sum, counters, y, draw)


@operation()
def relu_stats(value_sum, deriv_sum, counters, y, draw):
    _add_stats(_relu_sums, value_sum, deriv_sum, counters, y, draw)


@operation()
def value_stats(value_sum, counters, y):
    counters[COUNT] += y.shape[0]
    for i in range(y.shape[0]):
        v = row(y, i)
        for j in range(v.shape[0]):
            value_sum[j] += v[j]


@operation()
def output_deriv_stats(oderiv_sumsq, counters, dy, draw):
    if not _is_refused(counters, ODERIV_COUNT, draw):
        counters[ODERIV_COUNT] += dy.shape[0]
        arguments = (oderiv_sumsq, dy)
        share(part_address(_square_sums, arguments), address_of(arguments), dy.shape[1], dy.shape[0], CACHE_LINE, 1)


@operation()
def output_deriv_stats_of_parts(oderiv_sumsq, counters, squares, num_rows, draw):
    if not _is_refused(counters, ODERIV_COUNT, draw):
        counters[ODERIV_COUNT] += num_rows
        for p in range(squares.shape[0]):
            part = row(squares, p)
            for j in range(part.shape[0]):
                oderiv_sumsq[j] += part[j]


# -- self-repair -------------------------------------------------------------------------------------------------------


@operation()
def low_slope_repair(repair, updated_counters, deriv_sum, counters, threshold, scale, draw):
    count = counters[COUNT]
    limit = threshold * np.float32(count)
    active = scale != ZERO and count != 0.0 and draw <= REPAIR_PROBABILITY
    num_repaired = 0
    for j in range(repair.shape[0]):
        low = active and limit > np.float32(deriv_sum[j])
        repair[j] = scale / REPAIR_PROBABILITY if low else ZERO
        num_repaired += low
    updated_counters[NUM_PROCESSED] += repair.shape[0]
    updated_counters[NUM_REPAIRED] += num_repaired


@operation()
def relu_repair(repair, updated_counters, deriv_sum, counters, block_dim, lower, upper, scale, draw):
    count = counters[COUNT]
    repair[:] = ZERO
    if count == 0.0 or draw > REPAIR_PROBABILITY:
        return
    num_blocks = repair.shape[0] // block_dim
    low, high = lower * np.float32(count), upper * np.float32(count)
    num_repaired = 0
    for c in range(block_dim):
        direction = _repair_direction(deriv_sum, c, block_dim, low, high)
        if direction != ZERO:
            num_repaired += 1
            for b in range(num_blocks):
                repair[b * block_dim + c] = direction * (scale / REPAIR_PROBABILITY)
    updated_counters[NUM_PROCESSED] += block_dim
    updated_counters[NUM_REPAIRED] += num_repaired
