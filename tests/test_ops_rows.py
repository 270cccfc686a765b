"""The row operations against the reference, on awkward sizes and strided matrices."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import SIZES, check, matrix

from nnet3py.ops import get_ops

ops = get_ops("cpu")


def row_indexes(rng, rows, num_source_rows):
    """Indexes of source rows with some -1 among them."""
    indexes = rng.integers(-1, num_source_rows, rows).astype(np.int32)
    indexes[::3] = -1
    return indexes


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_whole_matrices(rng, size, strided):
    check(ops, "set_const", matrix(rng, *size, strided), 0.25)
    for alpha in (1.0, -0.5, 0.0):
        check(ops, "copy_mat", matrix(rng, *size, strided), matrix(rng, *size, strided), alpha)
        check(ops, "add_mat", matrix(rng, *size, strided), matrix(rng, *size, strided), alpha)
        one, other = matrix(rng, *size, strided), matrix(rng, *size)
        check(ops, "sum_mats", matrix(rng, *size, strided), one, other, alpha, -0.5)


def test_copy_mat_scales_in_place(rng):
    x = matrix(rng, 5, 7)
    expected = 3 * x
    ops.copy_mat(x, x, 3.0)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("name", ["copy_rows", "add_rows"])
@pytest.mark.parametrize("size", SIZES)
def test_rows_by_index(rng, size, name):
    for num_source_rows in (1, 4):
        indexes = row_indexes(rng, size[0], num_source_rows)
        check(ops, name, matrix(rng, *size), matrix(rng, num_source_rows, size[1]), indexes, -1.5)
        check(ops, name, matrix(rng, *size), matrix(rng, num_source_rows, size[1]), np.full_like(indexes, -1), 2.0)


def test_copy_rows_replaces_nan(rng):
    x = np.full((2, 3), np.nan, np.float32)
    ops.copy_rows(x, matrix(rng, 1, 3), np.array([-1, -1], np.int32), 1.0)
    np.testing.assert_array_equal(x, np.zeros((2, 3)))


@pytest.mark.parametrize("name", ["copy_rows_multi", "add_rows_multi"])
@pytest.mark.parametrize("size", SIZES)
def test_rows_from_arena(rng, size, name):
    arena = rng.standard_normal(500).astype(np.float32)
    offsets = rng.integers(0, 500 - size[1], size[0])
    offsets[::3] = -1
    check(ops, name, matrix(rng, *size), arena, offsets, 0.75)


@pytest.mark.parametrize("size", SIZES)
def test_rows_to_arena(rng, size):
    arena = rng.standard_normal((size[0] + 1) * (size[1] + 2)).astype(np.float32)
    offsets = rng.permutation(size[0]) * (size[1] + 2) + 1      # distinct rows, with gaps
    offsets[::4] = -1
    check(ops, "copy_to_rows_multi", arena, offsets, matrix(rng, *size))
    check(ops, "add_to_rows_multi", arena, offsets, matrix(rng, *size), -2.0)


@pytest.mark.parametrize("size", SIZES)
def test_add_row_ranges(rng, size):
    src = matrix(rng, 11, size[1])
    ranges = np.sort(rng.integers(0, 12, (size[0], 2)), axis=1).astype(np.int32)
    ranges[::3] = -1
    check(ops, "add_row_ranges", matrix(rng, *size), src, ranges, 0.5, scale=11)


def test_empty_range_adds_nothing(rng):
    x = matrix(rng, 1, 4)
    before = x.copy()
    ops.add_row_ranges(x, matrix(rng, 3, 4), np.array([[2, 2]], np.int32), 1.0)
    np.testing.assert_array_equal(x, before)
