"""The operations of convolutions against the reference."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import SIZES, check, matrix

from nnet3py.ops import get_ops

ops = get_ops("cpu")


@pytest.fixture
def rng():
    return np.random.default_rng(7)


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
