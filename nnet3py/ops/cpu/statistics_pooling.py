"""Sums of frames and their squares over ranges of rows, and means and standard deviations of such sums, on the CPU."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import kernel, row

ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)


@kernel("mat mat imat")
def extract_statistics(dst, src, ranges):
    """``dst[i]`` += the number of rows in ``ranges[i]``, their sum in ``src``, and the sum of their squares.

    The squares are left out where ``dst`` has no columns for them. Kaldi: StatisticsExtractionComponent::Propagate.
    """
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


@kernel("mat mat mat ivec")
def extract_statistics_backprop(dx, x, dy, rows):
    """``dx[r]`` = the derivative of the sums in ``dy[rows[r]]``, and 2 ``x`` times that of the squares."""
    dim = dx.shape[1]
    for r in range(dx.shape[0]):
        d, s, e = row(dx, r), row(x, r), row(dy, rows[r])
        for j in range(dim):
            d[j] = e[1 + j] + TWO * s[j] * e[1 + dim + j]


@kernel("mat mat imat int bool f32")
def pool_statistics(dst, src, ranges, num_log_counts, stddevs, variance_floor):
    """Means of sums: the rows of ``src`` in ``ranges[i]`` added up, and divided by their count, in column 0 of ``src``.

    The first ``num_log_counts`` columns of ``dst`` become the logarithm of the count. With ``stddevs`` the second half
    of the means, those of squares, becomes standard deviations; ``variance_floor`` is the smallest variance.
    Kaldi: StatisticsPoolingComponent::Propagate.
    """
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


@kernel("mat mat mat mat int bool")
def pool_statistics_backprop(dst, y, dy, counts, num_log_counts, stddevs):
    """``dst`` = derivative by the sums that ``pool_statistics`` divided, of its output ``y`` and derivative ``dy``.

    ``counts`` (rows, 1) holds the counts, or their logarithms if there are log-count columns. Nothing flows through the
    counts, and the floor of the variance has no effect. ``y`` is read only with ``stddevs``.
    """
    half = dst.shape[1] // 2
    for i in range(dst.shape[0]):
        d, v, e = row(dst, i), row(y, i), row(dy, i)
        inverse = ONE / (np.float32(math.exp(counts[i, 0])) if num_log_counts > 0 else counts[i, 0])
        for j in range(d.shape[0]):
            d[j] = e[num_log_counts + j]
        if stddevs:
            # Where the deviation is tiny, these two are huge and nearly cancel, once multiplied with the frames: what
            # is left depends on how each is rounded, and so on the order of these operations, which is Kaldi's.
            for j in range(half):
                mean, stddev = v[num_log_counts + j], v[num_log_counts + half + j]
                d[half + j] = HALF * d[half + j] / stddev
                d[j] -= TWO * mean * d[half + j]
        for j in range(d.shape[0]):
            d[j] *= inverse
