"""Pooling on the GPU: norms of groups of columns, maxima of boxes; sums over frames, means and standard deviations.

The operations are those of ``ops/cpu/pooling.py``.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cuda.launch import operation
from nnet3py.ops.cuda.threads import device_function, formula, of_loop, own_columns, own_rows, row
from nnet3py.ops.formulas import loops

pnorm, max_pool, extract_statistics_backprop = (of_loop(loop, __file__, __name__) for loop in (
    loops.pnorm, loops.max_pool, loops.extract_statistics_backprop))
pnorm_backprop = of_loop(loops.pnorm_backprop, __file__, __name__, over=2)


@device_function
def _boxes_over(place, size, step, count):
    """Return the range of boxes along an axis that contain the coordinate ``place``: (first, last + 1)."""
    first = (place - size) // step + 1 if place >= size else 0
    end = place // step + 1
    return first, (end if end < count else count)


# a thread goes through the boxes that contain its element, so that no other thread adds to the same element
@operation()
def max_pool_backprop(dx, x, y, dy, shape):
    plane, line = shape[1] * shape[2], shape[2]
    for r in own_rows(dx.shape[0]):
        d, s, largest, e = row(dx, r), row(x, r), row(y, r), row(dy, r)
        for place in own_columns(d.shape[0]):
            c = np.int64(place)
            first_i, end_i = _boxes_over(c // plane, shape[3], shape[6], shape[9])
            first_j, end_j = _boxes_over(c % plane // line, shape[4], shape[7], shape[10])
            first_k, end_k = _boxes_over(c % line, shape[5], shape[8], shape[11])
            total = d[c]
            for i in range(first_i, end_i):
                for j in range(first_j, end_j):
                    for k in range(first_k, end_k):
                        p = (i * shape[10] + j) * shape[11] + k
                        if s[c] == largest[p]:
                            total += e[p]
            d[c] = total


# -- statistics over ranges of rows ------------------------------------------------------------------------------------


ZERO, ONE = np.float32(0), np.float32(1)
_mean_derivative, _mean_square_derivative = map(formula, (loops.mean_derivative, loops.mean_square_derivative))
_product = formula(loops.rounded_product)


@operation()
def extract_statistics(dst, src, ranges):
    dim = src.shape[1]
    for i in own_rows(dst.shape[0]):
        d, first, last = row(dst, i), ranges[i, 0], ranges[i, 1]
        for place in own_columns(d.shape[0]):
            j = np.int64(place)
            total = d[j]
            if j == 0:
                total += np.float32(last - first)
            elif j <= dim:
                for r in range(first, last):
                    total += row(src, r)[j - 1]
            else:
                for r in range(first, last):
                    value = row(src, r)[j - 1 - dim]
                    total += _product(value, value)
            d[j] = total


@device_function
def _range_sum(src, first, last, column):
    total = ZERO
    for r in range(first, last):
        total += row(src, r)[column]
    return total


@operation()
def pool_statistics(dst, src, ranges, num_log_counts, stddevs, variance_floor):
    half = (dst.shape[1] - num_log_counts) // 2
    for i in own_rows(dst.shape[0]):
        d, first, last = row(dst, i), ranges[i, 0], ranges[i, 1]
        for place in own_columns(d.shape[0]):
            j = np.int64(place) - num_log_counts
            count = _range_sum(src, first, last, 0)
            if j < 0:
                d[place] = math.log(count)
            else:
                inverse = ONE / count
                value = _product(_range_sum(src, first, last, 1 + j), inverse)
                if stddevs and j >= half:
                    mean = _product(_range_sum(src, first, last, 1 + j - half), inverse)
                    variance = value - _product(mean, mean)
                    value = np.float32(math.sqrt(variance if variance > variance_floor else variance_floor))
                d[place] = value


@operation()
def pool_statistics_backprop(dst, y, dy, counts, num_log_counts, stddevs):
    half = dst.shape[1] // 2
    for i in own_rows(dst.shape[0]):
        d, v, e = row(dst, i), row(y, i), row(dy, i)
        inverse = ONE / (np.float32(math.exp(counts[i, 0])) if num_log_counts > 0 else counts[i, 0])
        for place in own_columns(d.shape[0]):
            j = np.int64(place)
            value = e[num_log_counts + j]
            if stddevs:
                mean = num_log_counts + (j - half if j >= half else j)
                of_square = _mean_square_derivative(v[mean + half], e[mean + half])
                value = of_square if j >= half else _mean_derivative(v[mean], value, of_square)
            d[j] = value * inverse
