"""The operations on the CPU that are plain functions, which call numpy's LAPACK or other operations.

The file does not import numba, which takes half a second and is not needed where all kernels are on disk. LAPACK
computes with the calling thread alone (``engine/threads.py``), so its results do not depend on the number of threads.
"""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.log import warn_once
from nnet3py.ops.cpu import load
from nnet3py.ops.formulas.updates import LARGEST_INVERSE_FACTOR, ORTHOGONALITY, SUSPECT, TRACE
from nnet3py.ops.table import documented

logger = logging.getLogger(__name__)
f32 = np.float32


# -- additions with a factor in device memory --------------------------------------------------------------------------


@documented
def add_mat_by(dst: np.ndarray, src: np.ndarray, factor: np.ndarray) -> None:
    if factor[0]:
        load("add_mat")(dst, src, factor.item())


@documented
def add_mat_mat_by(dst: np.ndarray, a: np.ndarray, b: np.ndarray, factor: np.ndarray) -> None:
    if factor[0]:
        load("add_mat_mat")(dst, a, b, factor.item(), 1.0, True, False)


@documented
def add_row_sum_by(dst: np.ndarray, src: np.ndarray, factor: np.ndarray) -> None:
    if factor[0]:
        load("add_row_sum")(dst, src, factor.item(), 1.0)


# -- eigenvalues. Kaldi: ``SpMatrix::Eig`` -----------------------------------------------------------------------------


@documented
def symmetric_eigen(values: np.ndarray, vectors: np.ndarray, matrix: np.ndarray, work: np.ndarray) -> None:
    values[:] = np.nan
    if not np.isfinite(matrix).all():
        return
    try:
        values[:], columns = np.linalg.eigh(matrix)
    except np.linalg.LinAlgError:       # it did not converge
        return
    vectors[:] = columns.T


# -- orthogonal rows. Kaldi: ``OnlineNaturalGradient::ReorthogonalizeRt1`` ---------------------------------------------


@documented
def orthogonalize(w: np.ndarray, gram: np.ndarray, square: np.ndarray, moment: np.ndarray, lengths: np.ndarray,
                  numbers: np.ndarray) -> None:
    if numbers[SUSPECT] == 0.0 or not np.isfinite(numbers[TRACE]):
        return
    add_mat_mat = load("add_mat_mat")
    of_directions = gram / np.outer(lengths, lengths)
    if np.abs(of_directions - np.eye(len(w), dtype=f32)).max() <= ORTHOGONALITY:
        return
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(of_directions))
        trusted = inverse.max() < LARGEST_INVERSE_FACTOR
    except np.linalg.LinAlgError:
        trusted = False
    if trusted:
        square[...] = np.tril(inverse) * lengths[:, None] / lengths
        add_mat_mat(moment, square, w, 1.0, 0.0)
        w[...] = moment
    else:
        warn_once(logger, "natural gradient: the estimate has lost its rank; orthogonalizing row by row")
        orthonormalize_rows(w)
        w *= lengths[:, None]
    add_mat_mat(gram, w, w, 1.0, 0.0, False, True)


def orthonormalize_rows(rows: np.ndarray) -> None:
    """Orthonormalize the rows of a float32 matrix in place (Gram-Schmidt).

    A row that depends linearly on the rows before it is replaced by a random one.
    """
    noise = np.random.default_rng(0)
    for i in range(rows.shape[0]):
        row = rows[i]
        while True:
            before = row @ row
            if before > 0 and np.isfinite(before):
                for earlier in rows[:i]:
                    row -= (earlier @ row) * earlier
                after = row @ row
                if after > 0.01 * before:
                    row /= np.sqrt(after)
                    break
                if after > 0:   # most digits were cancelled: once more
                    continue
            row[:] = noise.standard_normal(row.size, dtype=f32)
