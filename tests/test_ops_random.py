"""Dropout masks, made from uniform random numbers, against the reference; test_resources.py has the random stream."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import SIZES, check, matrix

from nnet3py.ops import get_ops

ops = get_ops("cpu")


def uniform(rng, rows, cols):
    return rng.random((rows, cols)).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
def test_dropout(rng, size):
    x, dst = matrix(rng, *size), matrix(rng, *size)
    x[:, :1] = 0
    check(ops, "dropout_elements", dst, x, uniform(rng, *size), 0.4)
    check(ops, "dropout_backprop", matrix(rng, *size), x, dst, matrix(rng, *size))
    check(ops, "dropout_rows", dst, x, uniform(rng, size[0], 1), 0.4)
    check(ops, "binary_mask", uniform(rng, *size), 0.25, 4 / 3)
    check(ops, "complementary_masks", matrix(rng, size[0], 3), uniform(rng, size[0], 1), 0.25)
    check(ops, "continuous_mask", uniform(rng, *size), 0.25)
    mask, indexes = matrix(rng, 4, size[1]), rng.integers(0, 4, size=size[0]).astype(np.int32)
    check(ops, "mul_mask_rows", dst, x, mask, indexes)


@pytest.mark.parametrize("lengths", [[], [1], [9], [4, 1, 0, 30]])
@pytest.mark.parametrize("longest", [(1, 1), (3, 7), (5, 1 << 30)])
def test_time_mask(rng, lengths, longest):
    rows, starts = rng.permutation(sum(lengths)).astype(np.int32), np.cumsum([0, *lengths]).astype(np.int32)
    draws = uniform(rng, 1, len(rows) + len(lengths))
    mask = np.full(len(rows), np.nan, np.float32)
    check(ops, "time_mask", mask, draws, rows, starts, 0.5, *longest)
    assert set(mask) <= {0.0, 1.0}


@pytest.mark.parametrize("regions", [1, 2, 4])
@pytest.mark.parametrize("width", [1, 2, 9, 40])
def test_specaugment_mask(rng, width, regions):
    mask, most = matrix(rng, 50, width), (width + 1) // 2
    check(ops, "specaugment_mask", mask, uniform(rng, 50, regions + 1), most)
    zeros = (mask == 0).sum(axis=1)
    assert ((mask == 0) | (mask == 1)).all() and zeros.max() <= most and zeros.min() == 0
