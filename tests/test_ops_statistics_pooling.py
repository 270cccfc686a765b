"""The operations of statistics extraction and pooling against the reference."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import check, matrix

from nnet3py.ops import get_ops

ops = get_ops("cpu")
RANGES = [np.array([[0, 3], [3, 4], [4, 7]], np.int32), np.array([[0, 7]], np.int32), np.zeros((0, 2), np.int32),
          np.array([[0, 2], [0, 4], [1, 6], [3, 7], [5, 7]], np.int32)]
STDDEV_ERROR = 1e-5      # the root of a difference of float32 means


@pytest.fixture
def rng():
    return np.random.default_rng(6)


@pytest.mark.parametrize("ranges", RANGES)
@pytest.mark.parametrize("dim", [1, 4])
@pytest.mark.parametrize("squares", [0, 1])
def test_extract_statistics(rng, ranges, dim, squares):
    check(ops, "extract_statistics", matrix(rng, len(ranges), 1 + dim + squares * dim), matrix(rng, 7, dim), ranges,
          scale=7)


@pytest.mark.parametrize("dim", [1, 4])
def test_extract_statistics_backprop(rng, dim):
    rows = np.array([0, 0, 0, 1, 2, 2, 2], np.int32)
    check(ops, "extract_statistics_backprop", matrix(rng, 7, dim), matrix(rng, 7, dim), matrix(rng, 3, 1 + 2 * dim),
          rows)


@pytest.mark.parametrize("ranges", RANGES)
@pytest.mark.parametrize("num_log_counts", [0, 2])
@pytest.mark.parametrize("stddevs", [False, True])
def test_pool_statistics(rng, ranges, num_log_counts, stddevs):
    dim, rows = 6, len(ranges)
    src, y = matrix(rng, 7, 1 + dim), matrix(rng, rows, num_log_counts + dim)
    src[:, 0] = rng.integers(1, 5, 7)
    src[:, 1 + dim // 2:] = 4 + np.abs(src[:, 1 + dim // 2:])
    src[:, -1] = 0                       # below the floor
    check(ops, "pool_statistics", y, src, ranges, num_log_counts, stddevs, 0.01, tolerance=STDDEV_ERROR)
    assert not stddevs or (y[:, -1] == np.float32(0.1)).all()
    counts = y[:, :1] if num_log_counts else np.abs(matrix(rng, rows, 1)) + 1
    check(ops, "pool_statistics_backprop", matrix(rng, rows, dim), y, matrix(rng, rows, num_log_counts + dim), counts,
          num_log_counts, stddevs, tolerance=STDDEV_ERROR, scale=100)
