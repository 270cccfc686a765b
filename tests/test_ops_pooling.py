"""The pooling operations against the reference."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import check, matrix

from nnet3py.ops import get_ops

ops = get_ops("cpu")
# x, y, z of the tensor, the box and the steps: overlapping boxes, boxes apart, one box
SHAPES = [((4, 3, 2), (2, 2, 2), (1, 1, 1)), ((5, 1, 6), (3, 1, 2), (2, 1, 2)), ((2, 3, 2), (2, 3, 2), (1, 2, 1))]


@pytest.fixture
def rng():
    return np.random.default_rng(6)


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
