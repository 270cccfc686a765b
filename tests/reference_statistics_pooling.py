"""Slow, obvious numpy forms of the operations of statistics extraction and pooling."""
from __future__ import annotations

import numpy as np


def extract_statistics(dst, src, ranges):
    dim = src.shape[1]
    for i, (begin, end) in enumerate(ranges):
        frames = src[begin:end]
        dst[i, 0] += end - begin
        dst[i, 1:1 + dim] += frames.sum(axis=0)
        if dst.shape[1] > 1 + dim:
            dst[i, 1 + dim:] += (frames ** 2).sum(axis=0)


def extract_statistics_backprop(dx, x, dy, rows):
    dim = x.shape[1]
    dx[...] = dy[rows, 1:1 + dim] + 2 * x * dy[rows, 1 + dim:]


def pool_statistics(dst, src, ranges, num_log_counts, stddevs, variance_floor):
    half = (src.shape[1] - 1) // 2
    for i, (begin, end) in enumerate(ranges):
        total = src[begin:end].sum(axis=0)
        means = total[1:] / total[0]
        if stddevs:
            means[half:] = np.sqrt(np.maximum(means[half:] - means[:half] ** 2, variance_floor))
        dst[i] = np.concatenate([[np.log(total[0])] * num_log_counts, means])


def pool_statistics_backprop(dst, y, dy, counts, num_log_counts, stddevs):
    half = dst.shape[1] // 2
    dst[...] = dy[:, num_log_counts:]
    if stddevs:
        mean, stddev = np.split(y[:, num_log_counts:], 2, axis=1)
        dst[:, half:] /= 2 * stddev
        dst[:, :half] -= 2 * mean * dst[:, half:]
    dst /= np.exp(counts) if num_log_counts else counts
