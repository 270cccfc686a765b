"""The operations of pooling and of statistics over frames against the reference."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import check, matrix

from nnet3py.ops import get_ops

ops = get_ops("cpu")
# x, y, z of the tensor, the box and the steps: overlapping boxes, boxes apart, one box
SHAPES = [((4, 3, 2), (2, 2, 2), (1, 1, 1)), ((5, 1, 6), (3, 1, 2), (2, 1, 2)), ((2, 3, 2), (2, 3, 2), (1, 2, 1))]


def geometry(dims, sizes, steps):
    counts = [1 + (dim - size) // step for dim, size, step in zip(dims, sizes, steps, strict=True)]
    return np.array([*dims, *sizes, *steps, *counts], np.int32)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_pnorm(rng, rows, size):
    x, y = matrix(rng, rows, 5 * size), matrix(rng, rows, 5)
    x[:1, :size] = 0                     # a norm of zero has no direction
    check(ops, "pnorm", y, x)
    check(ops, "pnorm_backprop", matrix(rng, rows, 5 * size), x, y, matrix(rng, rows, 5))
    assert not rows or y[0, 0] == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_max_pool(rng, rows, shape):
    places = geometry(*shape)
    x, y = matrix(rng, rows, int(places[:3].prod())), matrix(rng, rows, int(places[9:].prod()))
    x[...] = x.round(0)                  # so that some boxes have their maximum twice
    check(ops, "max_pool", y, x, places)
    check(ops, "max_pool_backprop", matrix(rng, rows, x.shape[1]), x, y, matrix(rng, rows, y.shape[1]), places,
          scale=8)


def test_max_pool_has_a_floor():
    x, y = np.full((1, 2), -np.inf, np.float32), np.zeros((1, 1), np.float32)
    ops.max_pool(y, x, geometry((2, 1, 1), (2, 1, 1), (1, 1, 1)))
    assert y[0, 0] == np.float32(-1e20)


# -- statistics --------------------------------------------------------------------------------------------------------


RANGES = [np.array([[0, 3], [3, 4], [4, 7]], np.int32), np.array([[0, 7]], np.int32), np.zeros((0, 2), np.int32),
          np.array([[0, 2], [0, 4], [1, 6], [3, 7], [5, 7]], np.int32)]
STDDEV_ERROR = 1e-5      # the root of a difference of float32 means


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


@pytest.mark.parametrize("num_log_counts", [0, 2])
def test_small_deviations_are_rounded_as_in_float32(rng, num_log_counts):
    """What nearly cancels: the derivatives of a window of one frame, bit for bit as numpy's float32 gives them."""
    dim, deviation = 3, np.float32(1e-5)
    x, y, dy = matrix(rng, 2, dim), matrix(rng, 2, num_log_counts + 2 * dim), matrix(rng, 2, num_log_counts + 2 * dim)
    counts = y[:, :1] if num_log_counts else np.ones((2, 1), np.float32)
    y[:, :num_log_counts], y[:, num_log_counts:-dim], y[:, -dim:] = 0.0, x, deviation
    by_sums, by_frames = np.zeros((2, 1 + 2 * dim), np.float32), np.zeros((2, dim), np.float32)
    ops.pool_statistics_backprop(by_sums[:, 1:], y, dy, counts, num_log_counts, True)
    ops.extract_statistics_backprop(by_frames, x, by_sums, np.arange(2, dtype=np.int32))
    of_squares = np.float32(0.5) * dy[:, -dim:] / deviation
    of_means = dy[:, num_log_counts:-dim] - np.float32(2) * x * of_squares
    np.testing.assert_array_equal(by_sums[:, 1:], np.concatenate([of_means, of_squares], axis=1))
    np.testing.assert_array_equal(by_frames, of_means + np.float32(2) * x * of_squares)


def test_equal_frames_have_no_variance(rng):
    """The mean of their squares is the square of their mean, both rounded: what is left is the floor."""
    frames = np.repeat(matrix(rng, 1, 5), 4, axis=0)
    sums, pooled, floor = np.zeros((1, 11), np.float32), np.zeros((1, 10), np.float32), np.float32(1e-10)
    one = np.array([[0, 1]], np.int32)
    ops.extract_statistics(sums, frames, np.array([[0, 4]], np.int32))
    ops.pool_statistics(pooled, sums, one, 0, True, floor)
    np.testing.assert_array_equal(pooled[0, 5:], np.sqrt(floor))
