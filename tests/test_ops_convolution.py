"""The operations of convolutions and attention against the reference."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import SIZES, check, matrix

from nnet3py.ops import get_ops

ops = get_ops("cpu")


@pytest.mark.parametrize("width", [1, 2, 17])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_blocks_of_columns(rng, rows, width):
    wide, blocks = matrix(rng, rows, 4 * width), np.array([3, -1, 0, 0, 2, -1, 3], np.int32)
    check(ops, "copy_col_blocks", matrix(rng, rows, 7 * width), wide, blocks)
    check(ops, "add_to_col_blocks", wide, matrix(rng, rows, 7 * width), blocks, scale=2)


def test_no_blocks(rng):
    none = np.zeros(0, np.int32)
    check(ops, "copy_col_blocks", matrix(rng, 3, 0), matrix(rng, 3, 4), none)
    check(ops, "add_to_col_blocks", matrix(rng, 3, 4), matrix(rng, 3, 0), none)


@pytest.mark.parametrize("size", [*SIZES, (32, 64), (40, 31)])
def test_transposition(rng, size):
    rows, cols = size
    check(ops, "copy_transposed", matrix(rng, rows, cols), matrix(rng, cols, rows))


# -- attention ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 5, 40])
@pytest.mark.parametrize("shift", [1, 3, 20])
@pytest.mark.parametrize(("rows", "positions"), [(0, 2), (1, 1), (7, 4), (11, 9)])
def test_shifted_rows(rng, rows, positions, shift, dim):
    tall = rows + (positions - 1) * shift
    scales, narrow, wide = matrix(rng, rows, positions), matrix(rng, rows, dim), matrix(rng, tall, dim)
    check(ops, "add_shifted_dots", matrix(rng, rows, positions), narrow, wide, shift, 0.7, scale=dim)
    check(ops, "add_shifted_rows", matrix(rng, rows, dim), scales, wide, shift, -0.3, scale=positions)
    check(ops, "add_to_shifted_rows", matrix(rng, tall, dim), scales, narrow, shift, 1.3, scale=positions)


@pytest.mark.parametrize("rows", [0, 1, 30])
def test_attention_statistics(rng, rows):
    weights = rng.random((rows, 8)).astype(np.float32)
    weights[:1, 0] = 0             # 0 log 0 is 0
    weights[1:2, 4:] = 1e-30       # below the floor of the logarithm
    for draw in (0, 2):
        check(ops, "attention_store_stats", np.ones(1), np.ones(2), rng.random((2, 4)), weights, draw, scale=rows)
