"""The elementwise operations against the reference."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import SIZES, check, matrix, vector

from nnet3py.ops import get_ops

ops = get_ops("cpu")
FACTORS = [(1.0, 0.0), (1.0, 1.0), (-0.5, 0.25)]


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_products_without_sums(rng, size, strided):
    dst, a, b = (matrix(rng, *size, strided) for _ in range(3))
    check(ops, "mul_cols_vec", dst, a, vector(rng, size[1]))
    check(ops, "mul_rows_vec", dst, a, vector(rng, size[0]))
    check(ops, "mul_elements", dst, a, b)


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("size", SIZES)
def test_accumulating(rng, size, factors):
    dst, a, b = (matrix(rng, *size) for _ in range(3))
    check(ops, "add_vec_to_rows", dst, vector(rng, size[1]), *factors)
    check(ops, "add_mat_diag_vec", dst, a, vector(rng, size[1]), *factors, scale=4)
    check(ops, "add_diag_vec_mat", dst, vector(rng, size[0]), a, *factors, scale=4)
    check(ops, "add_mat_elements", dst, a, b, *factors, scale=4)


def test_beta_zero_forgets_nan(rng):
    nan = np.full((3, 4), np.nan, np.float32)
    a, b, v, w = matrix(rng, 3, 4), matrix(rng, 3, 4), vector(rng, 4), vector(rng, 3)
    for name, sources in (("add_vec_to_rows", (v,)), ("add_mat_diag_vec", (a, v)), ("add_diag_vec_mat", (w, a)),
                          ("add_mat_elements", (a, b))):
        dst = nan.copy()
        getattr(ops, name)(dst, *sources, 1.0, 0.0)
        assert np.isfinite(dst).all(), name


def test_destination_may_be_a_source(rng):
    a, b, v, w = matrix(rng, 5, 7), matrix(rng, 5, 7), vector(rng, 7), vector(rng, 5)
    for name, sources, expected in (("mul_cols_vec", (v,), a * v), ("mul_rows_vec", (w,), a * w[:, None]),
                                    ("mul_elements", (b,), a * b)):
        x = a.copy()
        getattr(ops, name)(x, x, *sources)
        np.testing.assert_array_equal(x, expected)
