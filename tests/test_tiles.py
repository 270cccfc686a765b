"""Products by tiles, and by BLAS where tiles are not tuned, against numpy: all shapes of edges, strides, scales."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.engine import blas, product_rule, tiles
from nnet3py.engine.jit import Kernel

ROUNDING = 3e-6      # float32 sums of up to 300 products, relative to the sum of their absolute values
SIZES = (1, 2, 3, tiles.TILE_ROWS, tiles.TILE_ROWS + 5, tiles.VECTOR - 1, tiles.PANEL, tiles.PANEL + tiles.VECTOR + 1)
DEPTHS = (1, tiles.BLOCK, 2 * tiles.BLOCK + 3)


def _by_tiles(dst, a, b, alpha, beta, trans_a, trans_b):
    tiles.multiply(dst, a, b, alpha, beta, trans_a, trans_b)


def _by_blas(dst, a, b, alpha, beta, trans_a, trans_b):
    blas.multiply(dst, a, b, alpha, beta, trans_a, trans_b)


product_rule.load_blas()
WAYS = {function.__name__: Kernel(function, "mat mat mat f32 f32 bool bool", False, None)
        for function in (_by_tiles, _by_blas)}


def strided(rng: np.random.Generator, rows: int, cols: int) -> np.ndarray:
    """A matrix inside a larger one."""
    return rng.standard_normal((rows + 1, cols + 3)).astype(np.float32)[1:, 2:cols + 2]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_products(way, trans_a, trans_b):
    rng = np.random.default_rng(0)
    for m in SIZES:
        for n in SIZES:
            for k in DEPTHS:
                a = strided(rng, *((k, m) if trans_a else (m, k)))
                b = strided(rng, *((n, k) if trans_b else (k, n)))
                left, right = a.T if trans_a else a, b.T if trans_b else b
                alpha, beta = (1.0, 0.0) if (m + n) % 2 else (-0.5, 2.0)
                whole = np.full((m + 2, n + 2), np.nan, np.float32)
                dst = whole[1:-1, 1:-1]
                if beta:
                    dst[...] = rng.standard_normal((m, n))
                wanted = alpha * left.astype(np.float64) @ right + (beta * dst if beta else 0.0)
                scale = np.abs(left.astype(np.float64)) @ np.abs(right) + 1.0
                WAYS[way](dst, a, b, alpha, beta, trans_a, trans_b)
                assert (np.abs(dst - wanted) <= 2 * ROUNDING * scale).all(), (m, n, k)
                assert np.isnan(whole).sum() == whole.size - dst.size, "nothing beside the result is written"


LARGE = [(tiles.ROW_BLOCK + 7, tiles.LEAST_COLUMNS_TO_COPY_FOR + 5, tiles.BLOCK + 5),       # the left one is copied
         (tiles.LEAST_ROWS_TO_COPY_FOR, (tiles.PANELS + 1) * tiles.PANEL + 2, 37),           # and the right one
         (tiles.LEAST_ROWS_TO_COPY_FOR - 1, 2 * tiles.PANEL, tiles.BLOCK)]                   # it is not


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("shape", LARGE)
def test_large_products_by_tiles(shape, trans_a, trans_b):
    rng, (m, n, k) = np.random.default_rng(2), shape
    a = strided(rng, *((k, m) if trans_a else (m, k)))
    b = strided(rng, *((n, k) if trans_b else (k, n)))
    left, right = a.T if trans_a else a, b.T if trans_b else b
    whole = np.full((m + 2, n + 2), np.nan, np.float32)
    WAYS["_by_tiles"](whole[1:-1, 1:-1], a, b, 0.5, 0.0, trans_a, trans_b)
    wanted, scale = 0.5 * left.astype(np.float64) @ right, np.abs(left.astype(np.float64)) @ np.abs(right)
    assert (np.abs(whole[1:-1, 1:-1] - wanted) <= ROUNDING * scale).all()
    assert np.isnan(whole).sum() == whole.size - m * n, "nothing beside the result is written"


@pytest.mark.parametrize("wide", [1, 2])
def test_a_product_by_tiles_does_not_depend_on_how_it_is_cut(wide):
    rng = np.random.default_rng(1)
    multiply = WAYS["_by_tiles"]
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((37, 300), (300, 101)))
    whole = np.empty((37, 101), np.float32)
    multiply(whole, a, b, 1.0, 0.0, False, False)
    for cut in (1, 7, 36):
        part = np.empty((37 - cut, 101 // wide), np.float32)
        multiply(part, a[cut:], b[:, :101 // wide], 1.0, 0.0, False, False)
        np.testing.assert_array_equal(part, whole[cut:, :101 // wide])


@pytest.mark.parametrize("shape", [(700, 90, 300), (300, 90, 700)])
def test_a_product_by_blas_is_made_of_the_same_pieces(shape):
    rng = np.random.default_rng(2)
    multiply = WAYS["_by_blas"]
    m, k, n = shape
    a, b = (rng.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n)))
    whole, parts = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    multiply(whole, a, b, 1.0, 0.0, False, False)
    for i in range(0, m, blas.PIECE):
        for j in range(0, n, blas.PIECE):
            multiply(parts[i:i + blas.PIECE, j:j + blas.PIECE], a[i:i + blas.PIECE], b[:, j:j + blas.PIECE], 1.0, 0.0,
                     False, False)
    np.testing.assert_array_equal(parts, whole)
