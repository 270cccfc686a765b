"""Sums of frames and their squares over ranges of rows, and means and standard deviations of such sums, on the GPU.

The twins of ``ops/cpu/statistics_pooling.py``.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.cuda.formulas import formula
from nnet3py.ops.cuda.launch import operation
from nnet3py.ops.cuda.threads import device_function, own_columns, own_rows, row
from nnet3py.ops.formulas import statistics

ZERO, ONE = np.float32(0), np.float32(1)
_extraction_derivative, _mean_derivative, _mean_square_derivative = map(formula, (
    statistics.extraction_derivative, statistics.mean_derivative, statistics.mean_square_derivative))
_product = formula(statistics.rounded_product)


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


@operation()
def extract_statistics_backprop(dx, x, dy, rows):
    dim = dx.shape[1]
    for r in own_rows(dx.shape[0]):
        d, s, e = row(dx, r), row(x, r), row(dy, rows[r])
        for place in own_columns(dim):
            j = np.int64(place)
            d[j] = _extraction_derivative(s[j], e[1 + j], e[1 + dim + j])


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
