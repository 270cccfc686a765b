"""Symmetric matrices by their lower triangles, rows one after the other, as files hold them."""
from __future__ import annotations

from functools import cache

import numpy as np


@cache
def lower_triangle(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the packed elements, int64 (dim (dim + 1) / 2,)."""
    rows, cols = np.tril_indices(dim)
    return rows, cols


def packed(matrices: np.ndarray) -> np.ndarray:
    """The lower triangles (…, dim (dim + 1) / 2) of matrices (…, dim, dim)."""
    rows, cols = lower_triangle(matrices.shape[-1])
    return matrices[..., rows, cols]


def unpacked(triangles: np.ndarray) -> np.ndarray:
    """The symmetric matrices (…, dim, dim) of lower triangles (…, dim (dim + 1) / 2)."""
    dim = packed_dim(triangles.shape[-1])
    rows, cols = lower_triangle(dim)
    matrices = np.empty((*triangles.shape[:-1], dim, dim), dtype=triangles.dtype)
    matrices[..., rows, cols] = triangles
    matrices[..., cols, rows] = triangles
    return matrices


def packed_dim(size: int) -> int:
    """The dimension of the matrix whose lower triangle has ``size`` elements."""
    return int((np.sqrt(8.0 * size + 1.0) - 1.0) / 2.0)


def descending_eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of a symmetric matrix, descending, and eigenvectors as columns."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


def outer_products(rows: np.ndarray) -> np.ndarray:
    """The lower triangles of x xᵀ for each row x: (rows, dim (dim + 1) / 2)."""
    first, second = lower_triangle(rows.shape[1])
    return rows[:, first] * rows[:, second]
