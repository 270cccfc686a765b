"""Trained scales and offsets on the CPU against the reference."""
from __future__ import annotations

import numpy as np
import pytest
from ops_cases import SIZES, check, matrix, vector

from nnet3py.ops import get_ops

LARGEST_INVERSE = 1e4     # of a scale that is kept away from 0 by 1e-4


def scales_near_zero(rng: np.random.Generator, dim: int) -> np.ndarray:
    scales = vector(rng, dim)
    special = np.array([0.0, 1e-5, -1e-5, -0.0], dtype=np.float32)[:dim]
    scales[:special.size] = special
    return scales


@pytest.mark.parametrize("rows, cols", SIZES)
def test_scale_and_offset(rows, cols):
    rng = np.random.default_rng([rows, cols])
    dst, src = matrix(rng, rows, cols), matrix(rng, rows, cols)
    scales, offsets = scales_near_zero(rng, cols), vector(rng, cols)
    check(get_ops("cpu"), "scale_and_offset", dst, src, scales, offsets, 1e-4)


def test_scales_near_zero_keep_their_sign():
    scales = np.array([0.0, -0.0, 1e-5, -1e-5, 0.5, -0.5], np.float32)
    dst, ones, zeros = (np.full((2, 6), value, np.float32) for value in (9.0, 1.0, 0.0))
    get_ops("cpu").scale_and_offset(dst, ones, scales, zeros[0], 0.25)
    np.testing.assert_array_equal(dst, [[0.25, 0.25, 0.25, -0.25, 0.5, -0.5]] * 2)
    get_ops("cpu").scale_gradient_from_output(dst, ones, ones, scales, zeros[0], 0.25)
    np.testing.assert_array_equal(dst, [[4.0, 4.0, 4.0, -4.0, 2.0, -2.0]] * 2)


def test_scale_and_offset_in_place():
    rng = np.random.default_rng(0)
    src, scales, offsets = matrix(rng, 5, 7), vector(rng, 7), vector(rng, 7)
    expected, ops = np.empty_like(src), get_ops("cpu")
    ops.scale_and_offset(expected, src, scales, offsets, 1e-4)
    ops.scale_and_offset(src, src, scales, offsets, 1e-4)
    np.testing.assert_array_equal(src, expected)


@pytest.mark.parametrize("rows, cols", SIZES)
def test_scale_gradient_from_output(rows, cols):
    rng = np.random.default_rng([rows, cols])
    dst, y, dy = (matrix(rng, rows, cols) for _ in range(3))
    check(get_ops("cpu"), "scale_gradient_from_output", dst, y, dy, scales_near_zero(rng, cols), vector(rng, cols),
          1e-4, scale=LARGEST_INVERSE)
