"""Pooling on the CPU: norms of groups of columns, maxima of boxes; sums over frames, means and standard deviations."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import row
from nnet3py.ops.cpu.operation import formula, of_loop, operation
from nnet3py.ops.formulas import loops

_box_start = formula(loops.box_start)
pnorm, pnorm_backprop, max_pool, extract_statistics_backprop = (of_loop(loop, __file__, __name__) for loop in (
    loops.pnorm, loops.pnorm_backprop, loops.max_pool, loops.extract_statistics_backprop))


@operation()
def max_pool_backprop(dx, x, y, dy, shape):
    plane, line = shape[1] * shape[2], shape[2]
    for r in range(dx.shape[0]):
        d, s, largest, e = row(dx, r), row(x, r), row(y, r), row(dy, r)
        for p in range(e.shape[0]):
            start = _box_start(p, shape)
            for a in range(shape[3]):
                for b in range(shape[4]):
                    for c in range(start + a * plane + b * line, start + a * plane + b * line + shape[5]):
                        if s[c] == largest[p]:
                            d[c] += e[p]


# -- statistics over ranges of rows ------------------------------------------------------------------------------------


ZERO, ONE = np.float32(0), np.float32(1)
_mean_derivative, _mean_square_derivative = map(formula, (loops.mean_derivative, loops.mean_square_derivative))


@operation()
def extract_statistics(dst, src, ranges):
    dim = src.shape[1]
    with_squares = dst.shape[1] > dim + 1
    for i in range(dst.shape[0]):
        d = row(dst, i)
        d[0] += np.float32(ranges[i, 1] - ranges[i, 0])
        for r in range(ranges[i, 0], ranges[i, 1]):
            s = row(src, r)
            for j in range(dim):
                d[1 + j] += s[j]
            if with_squares:
                for j in range(dim):
                    d[1 + dim + j] += s[j] * s[j]


@operation()
def pool_statistics(dst, src, ranges, num_log_counts, stddevs, variance_floor):
    num_means = dst.shape[1] - num_log_counts
    half = num_means // 2
    for i in range(dst.shape[0]):
        d = row(dst, i)
        d[:] = ZERO
        count = ZERO
        for r in range(ranges[i, 0], ranges[i, 1]):
            s = row(src, r)
            count += s[0]
            for j in range(num_means):
                d[num_log_counts + j] += s[1 + j]
        inverse = ONE / count
        for j in range(num_log_counts):
            d[j] = math.log(count)
        for j in range(num_means):
            d[num_log_counts + j] *= inverse
        if stddevs:
            for j in range(num_log_counts, num_log_counts + half):
                variance = d[half + j] - d[j] * d[j]
                d[half + j] = math.sqrt(max(variance, variance_floor))


@operation()
def pool_statistics_backprop(dst, y, dy, counts, num_log_counts, stddevs):
    half = dst.shape[1] // 2
    for i in range(dst.shape[0]):
        d, v, e = row(dst, i), row(y, i), row(dy, i)
        inverse = ONE / (np.float32(math.exp(counts[i, 0])) if num_log_counts > 0 else counts[i, 0])
        for j in range(d.shape[0]):
            d[j] = e[num_log_counts + j]
        if stddevs:
            for j in range(half):
                mean, stddev = v[num_log_counts + j], v[num_log_counts + half + j]
                d[half + j] = _mean_square_derivative(stddev, d[half + j])
                d[j] = _mean_derivative(mean, d[j], d[half + j])
        for j in range(d.shape[0]):
            d[j] *= inverse
