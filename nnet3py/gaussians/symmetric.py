"""Symmetric matrices: lower triangles by rows, as files hold them; eigenvectors."""
from __future__ import annotations

import math
from functools import cache

import numpy as np

from nnet3py.errors import NumericError

_PRECISION = 2.0**-52
_MOST_STEPS = 30              # QR steps per eigenvalue; two or three are usual


@cache
def lower_triangle(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the packed elements, int64 (dim (dim + 1) / 2,) each."""
    rows, cols = np.tril_indices(dim)
    return rows, cols


def packed(matrices: np.ndarray) -> np.ndarray:
    """Return the lower triangles (…, dim (dim + 1) / 2) of matrices (…, dim, dim)."""
    rows, cols = lower_triangle(matrices.shape[-1])
    return matrices[..., rows, cols]


def unpacked(triangles: np.ndarray) -> np.ndarray:
    """Return the symmetric matrices (…, dim, dim) of lower triangles (…, dim (dim + 1) / 2)."""
    dim = packed_dim(triangles.shape[-1])
    rows, cols = lower_triangle(dim)
    matrices = np.empty((*triangles.shape[:-1], dim, dim), dtype=triangles.dtype)
    matrices[..., rows, cols] = triangles
    matrices[..., cols, rows] = triangles
    return matrices


def packed_dim(size: int) -> int:
    """Return the dimension of the matrix whose lower triangle has ``size`` elements."""
    return int((np.sqrt(8.0 * size + 1.0) - 1.0) / 2.0)


def descending_eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues of a symmetric matrix, descending, and its eigenvectors as columns."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


def symmetrized(matrix: np.ndarray) -> np.ndarray:
    """Return the mean of a matrix and its transpose, without the asymmetry of rounding."""
    mean: np.ndarray = 0.5 * (matrix + matrix.T)
    return mean


def outer_products(rows: np.ndarray) -> np.ndarray:
    """Return the lower triangle of x xᵀ for each row x: (rows, dim (dim + 1) / 2)."""
    first, second = lower_triangle(rows.shape[1])
    return rows[:, first] * rows[:, second]


def symmetric_eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues float64 (dim,) and eigenvectors as rows (dim, dim), ordered as by Kaldi's ``SpMatrix::Eig``.

    Order and signs of eigenvectors are arbitrary, but the axes of i-vectors follow from them (``ivector-extractor-est
    --diagonalize=false``), and LAPACK's differ from Kaldi's by more than signs. The method is the textbook one:
    Householder reflections to tridiagonal form, from the last row upwards, then QR steps with Wilkinson's shift (Golub
    and Van Loan, Matrix Computations, 8.3). Raises NumericError for NaN or infinity.
    """
    diagonal, beside, vectors = _tridiagonal(matrix.astype(np.float64))
    count = len(diagonal)
    for _ in range(_MOST_STEPS * count):
        sizes = np.abs(diagonal)
        beside[np.abs(beside) <= _PRECISION * (sizes[:-1] + sizes[1:])] = 0.0
        left = np.flatnonzero(beside)
        if not len(left):
            return diagonal, vectors
        last = int(left[-1]) + 1
        first = last - 1
        while first > 0 and beside[first - 1] != 0:
            first -= 1
        _qr_step(diagonal, beside, vectors, first, last)
    raise NumericError("the eigenvalues of a covariance were not found", "does it have NaN or infinity?")


def _tridiagonal(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reduce a symmetric matrix to Qᵀ T Q with a tridiagonal T; the matrix is overwritten.

    Returns the diagonal and the subdiagonal of T, and Q, whose rows are orthonormal.
    """
    count = len(matrix)
    diagonal, beside, vectors = np.empty(count), np.empty(max(count - 1, 0)), np.eye(count)
    for k in range(count - 1, 0, -1):
        factor, reflector, beside[k - 1] = _reflector(matrix[k, :k])
        diagonal[k] = matrix[k, k]
        if factor == 0:
            continue
        product = factor * (matrix[:k, :k] @ reflector)
        product -= 0.5 * factor * (product @ reflector) * reflector
        matrix[:k, :k] -= np.outer(reflector, product) + np.outer(product, reflector)
        vectors[:k] -= factor * np.outer(reflector, reflector @ vectors[:k])
    diagonal[0] = matrix[0, 0]
    return diagonal, beside, vectors


def _reflector(x: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Return b, v and |x| of the Householder reflection I - b v vᵀ, which maps ``x`` to (0, …, 0, |x|); v ends in 1."""
    largest = float(np.abs(x).max())
    v = x / largest if largest > 0 else x.copy()
    rest, end = float(v[:-1] @ v[:-1]), float(v[-1])
    v[-1] = 1.0
    if rest == 0:
        return 0.0, v, float(x[-1])
    size = math.sqrt(end * end + rest)
    pivot = end - size if end <= 0 else -rest / (end + size)
    v[:-1] /= pivot
    return 2.0 * pivot * pivot / (rest + pivot * pivot), v, size * largest


def _qr_step(diagonal: np.ndarray, beside: np.ndarray, vectors: np.ndarray, first: int, last: int) -> None:
    """Make one implicit QR step on rows ``first`` to ``last`` of a tridiagonal matrix; rotate ``vectors``, in place."""
    half, corner = 0.5 * (diagonal[last - 1] - diagonal[last]), beside[last - 1]
    root = math.hypot(half, corner)
    shift = diagonal[last] - corner * corner / (half + root if half >= 0 else half - root)
    x, z = diagonal[first] - shift, beside[first]
    for k in range(first, last):
        c, s = _rotation(x, z)
        p, q, r = diagonal[k], beside[k], diagonal[k + 1]
        if k > first:
            beside[k - 1] = c * x - s * z
        diagonal[k] = c * c * p - 2.0 * c * s * q + s * s * r
        diagonal[k + 1] = s * s * p + 2.0 * c * s * q + c * c * r
        beside[k] = c * s * (p - r) + (c * c - s * s) * q
        vectors[k:k + 2] = np.array([[c, -s], [s, c]]) @ vectors[k:k + 2]
        if k < last - 1:
            x, z = beside[k], -s * beside[k + 1]
            beside[k + 1] *= c


def _rotation(x: float, z: float) -> tuple[float, float]:
    """Return cosine and sine of the Givens rotation that maps (x, z) to (r, 0)."""
    if z == 0:
        return 1.0, 0.0
    if abs(z) > abs(x):
        ratio = -x / z
        sine = 1.0 / math.sqrt(1.0 + ratio * ratio)
        return sine * ratio, sine
    ratio = -z / x
    cosine = 1.0 / math.sqrt(1.0 + ratio * ratio)
    return cosine, cosine * ratio
