"""Rows that are to be orthogonal again."""
from __future__ import annotations

import logging

import numpy as np
import pytest
import reference

from nnet3py.log import count_repeats_anew
from nnet3py.ops import get_ops
from nnet3py.ops.cpu.orthogonal import orthonormalise_rows
from nnet3py.ops.formulas.natural_gradient import SUSPECT, TRACE

ORTHONORMAL = 1e-5    # float32 rounding of a small product
SAME = 2e-4           # of the same directions found by another method, where they were a tenth from orthogonal
LENGTHS = np.array([0.9, 0.5, 0.25], np.float32)
NUMBERS = np.zeros(5)
NUMBERS[SUSPECT] = 1.0


def rows() -> np.ndarray:
    """Orthogonal rows of the lengths above."""
    q = np.linalg.qr(np.random.default_rng(7).standard_normal((8, 3)))[0].T
    return (LENGTHS[:, None] * q).astype(np.float32)


def orthogonalized(operations, w: np.ndarray, numbers: np.ndarray = NUMBERS):
    """The rows as they become, and their products."""
    w, gram = w.copy(), w @ w.T
    operations.orthogonalize(w, gram, np.full((3, 3), np.nan, np.float32), np.full((3, 8), np.nan, np.float32), LENGTHS,
                             numbers)
    return w, gram


def check(w: np.ndarray, gram: np.ndarray) -> None:
    q = w / LENGTHS[:, None]
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=ORTHONORMAL)
    np.testing.assert_allclose(gram, w @ w.T, atol=ORTHONORMAL)


def test_spoiled_directions_are_repaired():
    w = rows()
    w[1] += 0.3 * w[0]
    w[2] -= 0.1 * w[1]
    found, gram = orthogonalized(get_ops("cpu"), w)
    check(found, gram)
    np.testing.assert_allclose(found, orthogonalized(reference, w)[0], atol=SAME)


@pytest.mark.parametrize("spoil", [0.0, 1.0])
def test_a_direction_that_is_lost_becomes_a_new_one(spoil, caplog):
    w = rows()
    w[2] = spoil * w[0]
    count_repeats_anew()
    with caplog.at_level(logging.WARNING):
        found, gram = orthogonalized(get_ops("cpu"), w)
    check(found, gram)
    np.testing.assert_allclose(found[:2], w[:2], atol=ORTHONORMAL)
    assert get_ops("cpu").device == "cuda" or "orthogonalizing row by row" in caplog.text


def test_what_is_not_suspect_or_good_enough_stays():
    w, ops = rows(), get_ops("cpu")
    w[1] += 1e-5 * w[0]
    assert np.array_equal(orthogonalized(ops, w)[0], w)
    w[1] += 0.3 * w[0]
    assert np.array_equal(orthogonalized(ops, w, np.zeros(5))[0], w)
    diverged = NUMBERS.copy()
    diverged[TRACE] = np.nan
    assert np.array_equal(orthogonalized(ops, w, diverged)[0], w)


def test_orthonormalise_rows_replaces_what_has_no_direction_of_its_own():
    rows = np.random.default_rng(6).standard_normal((5, 7)).astype(np.float32)
    rows[1], rows[3] = 2 * rows[0], np.nan
    rows[4] = 0.0
    first = rows[0] / np.linalg.norm(rows[0])
    orthonormalise_rows(rows)
    np.testing.assert_allclose(rows @ rows.T, np.eye(5), atol=1e-5)   # float32 after a second round
    np.testing.assert_allclose(rows[0], first, rtol=1e-6)
