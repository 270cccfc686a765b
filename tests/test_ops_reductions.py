"""The sums against float64."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import SIZES, check, matrix, vector

from nnet3py.ops import get_ops

ops = get_ops("cpu")


@pytest.mark.parametrize("factors", [(1.0, 0.0), (1.0, 1.0), (-0.5, 0.25)])
@pytest.mark.parametrize("size", SIZES)
def test_sums_over_rows(rng, size, factors):
    a, b = matrix(rng, *size), matrix(rng, *size)
    scale = size[0] + 1
    check(ops, "add_row_sum", vector(rng, size[1]), a, *factors, scale=scale)
    check(ops, "add_row_sum_product", vector(rng, size[1]), a, b, *factors, scale=scale)


@pytest.mark.parametrize("size", SIZES)
def test_sums_of_everything(rng, size):
    a, b = matrix(rng, *size), matrix(rng, *size)
    assert isinstance(check(ops, "sum_product", a, b), float)


def test_beta_zero_forgets_nan(rng):
    a = matrix(rng, 6, 5)
    for name, sources in (("add_row_sum", (a,)), ("add_row_sum_product", (a, a))):
        dst = np.full(5, np.nan, np.float32)
        getattr(ops, name)(dst, *sources, 1.0, 0.0)
        assert np.isfinite(dst).all(), name


def test_a_nan_shows_in_every_sum():
    x = np.zeros((9, 3), np.float32)
    x[4, 1] = np.nan
    assert np.isnan(ops.sum_product(x, x))
    sums = np.zeros(3, np.float32)
    ops.add_row_sum(sums, x, 1.0, 0.0)
    np.testing.assert_array_equal(np.isnan(sums), [False, True, False])


def test_long_sums_stay_accurate():
    x = np.full((100_000, 2), 0.1, np.float32)
    sums = np.zeros(2, np.float32)
    ops.add_row_sum(sums, x, 1.0, 0.0)
    np.testing.assert_allclose(sums, 1e4, rtol=3e-4)      # a chain of 25000 float32 additions of one sign
    assert abs(ops.sum_product(x, x) - 2e3) < 1e-3
