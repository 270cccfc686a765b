"""Eigenvalues of small symmetric matrices: the factors multiply to the matrix, degenerate and bad matrices included."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import symmetric_eigen

from nnet3py.ops import get_ops

ops = get_ops("cpu")

# float32 rotations, a few for each pair of rows, each rounded: the error grows with the size of the matrix.
ROUNDING_EACH_ROW = 1.5e-7


def decompose(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = len(matrix)
    values, work = np.empty(size, np.float32), np.empty((3, size), np.float32)
    vectors = np.empty((size, size), np.float32)
    ops.symmetric_eigen(values, vectors, matrix.astype(np.float32), work)
    return values, vectors


def check(matrix: np.ndarray) -> None:
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
    check(x @ x.T / size)
    check(x[:, :size] + x[:, :size].T)                       # negative eigenvalues
    check(np.diag(10.0 ** -rng.uniform(0, 6, size)).astype(np.float32))


@pytest.mark.parametrize("matrix", [np.zeros((4, 4)), np.eye(5), np.ones((6, 6)), np.diag([1.0, 1.0, 2.0, 2.0]),
                                    np.array([[0.0, 1.0], [1.0, 0.0]]), 1e-30 * np.ones((3, 3)),
                                    np.diag([1.0, 1e-12, 1.0]) + 1e-9])
def test_equal_and_vanishing_eigenvalues(matrix: np.ndarray) -> None:
    check(matrix.astype(np.float32))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_matrices_of_low_rank(size: int, rank: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((size, rank)).astype(np.float32)
    check(x @ x.T)


@pytest.mark.parametrize("seed", range(12))
def test_values_of_very_different_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 4 + seed
    x = rng.standard_normal((size, size)) * 10.0 ** rng.uniform(-9, 0, (size, 1))
    check((x @ x.T).astype(np.float32))


def test_where_rotations_vanish() -> None:
    """Values of so different sizes that steps change nothing any more."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((12, 12)) * 10.0 ** rng.uniform(-20, 0, (12, 1))
        check((x @ x.T).astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_told(value: float) -> None:
    matrix = np.eye(4, dtype=np.float32)
    matrix[1, 2] = matrix[2, 1] = value
    assert not np.isfinite(decompose(matrix)[0]).all()


def test_the_same_matrix_gives_the_same_bits() -> None:
    x = np.random.default_rng(3).standard_normal((30, 30)).astype(np.float32)
    first, second = decompose(x + x.T), decompose(x + x.T)
    assert np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])
