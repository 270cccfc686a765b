"""Small matrices: eigenvectors, rows that are orthogonal again, and the step of the orthonormal constraint.

Factors of eigenvectors multiply to the matrix, degenerate and bad matrices included.
"""
from __future__ import annotations

import logging

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_cases import check
from reference import symmetric_eigen

from nnet3py.log import count_repeats_anew
from nnet3py.ops import get_ops
from nnet3py.ops.cpu.plain import orthonormalize_rows
from nnet3py.ops.formulas.updates import SUSPECT, TRACE

ops = get_ops("cpu")

# float32 rotations, a few for each pair of rows, each rounded: the error grows with the size of the matrix.
ROUNDING_EACH_ROW = 1.5e-7


def decompose(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = len(matrix)
    values, work = np.empty(size, np.float32), np.empty((3, size), np.float32)
    vectors = np.empty((size, size), np.float32)
    ops.symmetric_eigen(values, vectors, matrix.astype(np.float32), work)
    return values, vectors


def check_factors(matrix: np.ndarray) -> None:
    values, vectors = decompose(matrix)
    size = len(matrix)
    limit = ROUNDING_EACH_ROW * (size + 4)
    largest = max(float(np.abs(matrix).max()), 1e-30)
    assert np.abs(vectors @ vectors.T - np.eye(size)).max() < limit
    assert np.abs(vectors.T @ np.diag(values.astype(np.float64)) @ vectors - matrix).max() < limit * largest * size
    expected = np.empty(size, np.float32)
    symmetric_eigen(expected, np.empty((size, size)), matrix.astype(np.float64), None)
    assert np.abs(np.sort(values) - np.sort(expected)).max() < limit * largest * size


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 20, 41, 80])
def test_factors_multiply_to_the_matrix(size: int) -> None:
    rng = np.random.default_rng(size)
    x = rng.standard_normal((size, size + 3)).astype(np.float32)
    check_factors(x @ x.T / size)
    check_factors(x[:, :size] + x[:, :size].T)                       # negative eigenvalues
    check_factors(np.diag(10.0 ** -rng.uniform(0, 6, size)).astype(np.float32))


@pytest.mark.parametrize("matrix", [np.zeros((4, 4)), np.eye(5), np.ones((6, 6)), np.diag([1.0, 1.0, 2.0, 2.0]),
                                    np.array([[0.0, 1.0], [1.0, 0.0]]), 1e-30 * np.ones((3, 3)),
                                    np.diag([1.0, 1e-12, 1.0]) + 1e-9])
def test_equal_and_vanishing_eigenvalues(matrix: np.ndarray) -> None:
    check_factors(matrix.astype(np.float32))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_matrices_of_low_rank(size: int, rank: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((size, rank)).astype(np.float32)
    check_factors(x @ x.T)


@pytest.mark.parametrize("seed", range(12))
def test_values_of_very_different_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 4 + seed
    x = rng.standard_normal((size, size)) * 10.0 ** rng.uniform(-9, 0, (size, 1))
    check_factors((x @ x.T).astype(np.float32))


def test_where_rotations_vanish() -> None:
    """Values of so different sizes that steps change nothing any more."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((12, 12)) * 10.0 ** rng.uniform(-20, 0, (12, 1))
        check_factors((x @ x.T).astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_told(value: float) -> None:
    matrix = np.eye(4, dtype=np.float32)
    matrix[1, 2] = matrix[2, 1] = value
    assert not np.isfinite(decompose(matrix)[0]).all()


def test_the_same_matrix_gives_the_same_bits() -> None:
    x = np.random.default_rng(3).standard_normal((30, 30)).astype(np.float32)
    first, second = decompose(x + x.T), decompose(x + x.T)
    assert np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])


# -- orthogonal rows ---------------------------------------------------------------------------------------------------


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


def check_rows(w: np.ndarray, gram: np.ndarray) -> None:
    q = w / LENGTHS[:, None]
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=ORTHONORMAL)
    np.testing.assert_allclose(gram, w @ w.T, atol=ORTHONORMAL)


def test_spoiled_directions_are_repaired():
    w = rows()
    w[1] += 0.3 * w[0]
    w[2] -= 0.1 * w[1]
    found, gram = orthogonalized(get_ops("cpu"), w)
    check_rows(found, gram)
    np.testing.assert_allclose(found, orthogonalized(reference, w)[0], atol=SAME)


@pytest.mark.parametrize("spoil", [0.0, 1.0])
def test_a_direction_that_is_lost_becomes_a_new_one(spoil, caplog):
    w = rows()
    w[2] = spoil * w[0]
    count_repeats_anew()
    with caplog.at_level(logging.WARNING):
        found, gram = orthogonalized(get_ops("cpu"), w)
    check_rows(found, gram)
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
    orthonormalize_rows(rows)
    np.testing.assert_allclose(rows @ rows.T, np.eye(5), atol=1e-5)   # float32 after a second round
    np.testing.assert_allclose(rows[0], first, rtol=1e-6)


# -- the orthonormal constraint ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.01, 0.2, 0.6])
@pytest.mark.parametrize("constraint", [0.7, -1.0])
@pytest.mark.parametrize("dim", [1, 4, 9])
def test_orthonormal_step(dim, constraint, spread):
    basis = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
    p = (basis * np.linspace(1 - spread, 1 + spread, dim) ** 2) @ basis.T
    check(ops, "orthonormal_step", p.astype(np.float32), np.zeros(1, np.float32), constraint, scale=100)


@pytest.mark.parametrize(("value", "wanted"), [(0.0, 1.0), (np.nan, np.nan), (np.inf, np.nan)])
def test_no_orthonormal_step(value, wanted):
    p, ratio = np.full((3, 3), value, np.float32), np.zeros(1, np.float32)
    with np.errstate(invalid="ignore"):
        ops.orthonormal_step(p, ratio, -1.0)
    np.testing.assert_array_equal(ratio, [wanted])
    assert not p.any()
