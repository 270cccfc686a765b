"""Blocks of affine maps, finished by tiles and, as on processors that these are not for, after their products."""
from __future__ import annotations

import numpy as np
import pytest
import reference
from ops_cases import matrix, vector

from nnet3py.engine import epilogue, product_rule
from nnet3py.engine.jit import Kernel

ROUNDING = 1e-5      # float32 sums of up to 300 products, and of 64 rows of them
ROWS, COLUMNS, DIM, STRIDE = 150, 101, 70, 2
STARTS = np.array([3, 0], np.int32)


def _by_tiles(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    epilogue.begin_sums(sums, first_row, last_row, first, last)
    epilogue.by_tiles(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride,
                       floor)


def _by_parts(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    epilogue.begin_sums(sums, first_row, last_row, first, last)
    epilogue.by_parts(first_row, last_row, first, last, dst, sums, src, weights, bias, scale, offset, starts, stride,
                       floor)


product_rule.load_blas()
WAYS = [Kernel(function, "int int int int mat mat mat mat vec vec vec ivec int f32", False, None)
        for function in (_by_tiles, _by_parts)]


# By tiles: compiled for ten seconds, and the operations of the tables are made of it where the processor has them.
@pytest.mark.parametrize("way", [pytest.param(WAYS[0], marks=pytest.mark.slow), WAYS[1]], ids=lambda way: way.__name__)
@pytest.mark.parametrize("blocks", [[(0, ROWS, 0, COLUMNS)], [(0, 128, 0, COLUMNS), (128, ROWS, 0, COLUMNS)],
                                    [(0, ROWS, 48, COLUMNS), (0, ROWS, 0, 48)]])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("summed", [False, True])
def test_blocks_make_the_whole(way: Kernel, blocks: list, scaled: bool, summed: bool) -> None:
    rng = np.random.default_rng(3)
    src, weights, bias = matrix(rng, 3 + STRIDE * ROWS, DIM), matrix(rng, COLUMNS, 2 * DIM), vector(rng, COLUMNS)
    scale, offset = (vector(rng, COLUMNS if scaled else 0) for _ in range(2))
    found, sums = matrix(rng, ROWS, COLUMNS), matrix(rng, 6 if summed else 0, COLUMNS)
    given = src, weights, bias, scale, offset
    wanted, wanted_sums = np.empty(found.shape), np.empty(sums.shape)
    reference.spliced_affine(wanted, wanted_sums, *(one.astype(np.float64) for one in given), STARTS, STRIDE, 0.5)
    for first_row, last_row, first, last in blocks:
        way(first_row, last_row, first, last, found, sums, *given, STARTS, STRIDE, 0.5)
    for one, other in ((found, wanted), (sums, wanted_sums)):
        np.testing.assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING * np.abs(wanted_sums).max(initial=50.0))
