"""The structural and normalizing operations against the reference."""
from __future__ import annotations

import numpy as np
import pytest
import reference_structural as reference
from ops_cases import SIZES, check, matrix, vector

from nnet3py.components import normalize
from nnet3py.engine import threads
from nnet3py.ops import get_ops

ops = get_ops("cpu")
NONEMPTY = [size for size in SIZES if min(size) > 0] + [(200, 5)]
NORM_ERROR = 2e-6        # float32 sums of squares, a root and a division


def uniform(rng, rows, cols):
    return rng.random((rows, cols)).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
def test_copy_cols(rng, size):
    rows, cols = size
    indexes = rng.integers(-1, cols, size=5).astype(np.int32)
    check(ops, "copy_cols", matrix(rng, rows, 5), matrix(rng, rows, cols), indexes)


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("size", [(0, 3), (5, 1), (7, 13)])
def test_blocks(rng, size, blocks):
    rows, width = size
    wide, narrow = matrix(rng, rows, blocks * width), matrix(rng, rows, width)
    if blocks > 1:
        wide[:1, :1] = 0            # no division: zeros stay exact
    check(ops, "multiply_blocks", narrow, wide)
    check(ops, "multiply_blocks_backprop", matrix(rng, rows, blocks * width), wide, matrix(rng, rows, width))
    check(ops, "add_sum_of_blocks", narrow, wide, -0.7, scale=blocks)
    check(ops, "add_to_blocks", wide, narrow, 0.3)


def test_column_groups(rng):
    groups = np.array([[0, 3], [3, 4], [4, 9]], np.int32)
    check(ops, "sum_column_groups", matrix(rng, 6, 3), matrix(rng, 6, 9), groups, scale=5)
    check(ops, "copy_to_column_groups", matrix(rng, 6, 9), matrix(rng, 6, 3), groups)


@pytest.mark.parametrize("width", [1, 5])
def test_pieces_of_rows(rng, width):
    places = np.array([[3, 2], [0, 0], [3, 2 + width], [1, width]], np.int32)
    check(ops, "copy_row_pieces", matrix(rng, 4, width), matrix(rng, 4, 2 + 2 * width), places)
    check(ops, "copy_to_row_pieces", matrix(rng, 4, 2 + 2 * width), matrix(rng, 4, width), places)


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_clipping(rng, size, store):
    check(ops, "clip_elements", matrix(rng, *size), rng.random(4), matrix(rng, *size), 0.5, store)
    limit = 0.8 * np.sqrt(size[1])
    check(ops, "clip_rows", matrix(rng, *size), rng.random(4), matrix(rng, *size), float(limit or 1), store,
          tolerance=NORM_ERROR)
    zeroing = -rng.integers(0, 2, size=size[0]).astype(np.float32)
    for clip, zero in ((limit, 1.1 * limit), (1e10, 1e10)):
        check(ops, "truncate_gradient", matrix(rng, *size), np.zeros(4), matrix(rng, *size), zeroing, 0.9,
              float(clip or 1), float(zero or 1), store, tolerance=NORM_ERROR)


def test_a_row_at_the_limit_counts_as_clipped():
    dx, dy, counters = np.empty((2, 2), np.float32), np.array([[3, 4], [0, 1]], np.float32), np.zeros(4)
    ops.clip_rows(dx, counters, dy, 5.0, True)
    np.testing.assert_array_equal(dx, dy)
    np.testing.assert_array_equal(counters, [1, 2, 0, 1])


@pytest.mark.parametrize("counters", [[0, 0, 0, 0], [1, 100, 2, 5], [9, 100, 0, 0]])
@pytest.mark.parametrize("draw", [0.4, 0.6])
def test_repair_of_clipped_gradients(rng, draw, counters):
    x, dx = matrix(rng, 7, 5), matrix(rng, 7, 5)
    x[0, 0] = 0.0
    given = np.array(counters, float)
    check(ops, "clip_gradient_repair", dx, np.zeros(4), x, given, 0.02, 0.1, 0.5, draw, tolerance=NORM_ERROR, scale=5)


@pytest.mark.parametrize("log_column", [0, 1])
@pytest.mark.parametrize("size", NONEMPTY)
def test_normalize_rows(rng, size, log_column):
    rows, dim = size
    x = matrix(rng, rows, dim)
    x[0] = 0.0                      # below the floor
    check(ops, "normalize_rows", matrix(rng, rows, dim + log_column), x, 0.5, tolerance=NORM_ERROR, scale=50)
    x = matrix(rng, rows, dim)      # a zero row's derivative is of the order 2^66
    for beta in (0.0, 1.0):
        check(ops, "normalize_rows_backprop", matrix(rng, rows, dim), x, matrix(rng, rows, dim + log_column), 0.5,
              beta, tolerance=NORM_ERROR, scale=10 + 10 / float(np.abs(x).max(axis=1).min()))


def test_normalize_rows_of_zeros(rng):
    x, dy, dx = np.zeros((2, 3), np.float32), matrix(rng, 2, 3), np.zeros((2, 3), np.float32)
    ops.normalize_rows_backprop(dx, x, dy, 1.0, 1.0)
    np.testing.assert_array_equal(dx, np.float32(2.0 ** 33) * dy)


def sums_for(ops_or_reference, name, *matrices, terms=2):
    parts = -(-matrices[0].shape[0] // reference.ROWS_OF_A_SUM)
    sums = np.zeros((terms * parts, matrices[0].shape[1]), np.float32)
    getattr(ops_or_reference, name)(sums, *matrices)
    return sums


@pytest.mark.parametrize("size", NONEMPTY)
def test_sums_of_columns(rng, size):
    parts = -(-size[0] // reference.ROWS_OF_A_SUM)
    check(ops, "column_moments", matrix(rng, 2 * parts, size[1]), matrix(rng, *size), scale=9)
    check(ops, "column_products", matrix(rng, 2 * parts, size[1]), matrix(rng, *size), matrix(rng, *size), scale=9)


def test_components_and_operations_agree_on_the_parts_of_sums():
    assert reference.ROWS_OF_A_SUM == normalize.ROWS_OF_A_SUM == threads.ROWS_OF_A_SUM


@pytest.mark.parametrize("size", NONEMPTY)
def test_batch_norm(rng, size):
    x, memo = 2 * matrix(rng, *size) + 0.5, matrix(rng, 5, size[1])
    y, dy = matrix(rng, *size), matrix(rng, *size)
    epsilon = 1e-3 if size[0] > 1 else 1.0      # without a variance, what is rounded off the sums is compared with it
    check(ops, "batch_norm_propagate", y, memo, x, sums_for(reference, "column_moments", x), epsilon, 0.7,
          tolerance=2e-5, scale=3)
    memo[2] = np.abs(memo[2])
    sums, scale = sums_for(reference, "column_products", y, dy), 1 + float(np.abs(memo[2]).max())
    check(ops, "batch_norm_backprop", matrix(rng, *size), memo, y, dy, sums, 0.7, tolerance=1e-5, scale=scale)
    squares = matrix(rng, len(sums) // 2, size[1])
    check(ops, "batch_norm_relu_backprop", matrix(rng, *size), squares, memo, y, dy, sums, matrix(rng, *size),
          vector(rng, size[1]), vector(rng, size[1]), 0.7, tolerance=1e-5, scale=3 * scale)
    check(ops, "batch_norm_store_stats", np.ones(1), rng.random(size[1]), rng.random(size[1]), memo, size[0])


def test_normalization_in_place(rng):
    x, dy = matrix(rng, 6, 5), matrix(rng, 6, 5)
    memo = np.zeros((5, 5), np.float32)
    apart, together = np.zeros((6, 5), np.float32), x.copy()
    sums = sums_for(ops, "column_moments", x)
    ops.batch_norm_propagate(apart, memo, x, sums, 1e-3, 1.0)
    ops.batch_norm_propagate(together, memo, together, sums, 1e-3, 1.0)
    np.testing.assert_array_equal(apart, together)
    y = apart.copy()
    sums = sums_for(ops, "column_products", y, dy)
    for name, before, after in (("batch_norm_backprop", (memo, y), (sums, 1.0)),
                                ("normalize_rows_backprop", (x,), (1.0, 0.0))):
        together = dy.copy()
        getattr(ops, name)(apart, *before, dy, *after)
        getattr(ops, name)(together, *before, together, *after)
        np.testing.assert_array_equal(apart, together)
