"""Small matrices on the CPU: eigenvectors, rows to be orthogonal, the orthonormal constraint.

Eigenvalues are LAPACK's, which numpy brings. LAPACK sums with the thread that calls it (``engine/threads.py``), so a
matrix has the same factors for any number of threads.
"""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.engine.jit import row
from nnet3py.log import warn_once
from nnet3py.ops.cpu import load
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.formulas.updates import LARGEST_INVERSE_FACTOR, ORTHOGONALITY, SUSPECT, TRACE, ZERO, orthonormal_move
from nnet3py.ops.table import documented

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


logger = logging.getLogger(__name__)
f32 = np.float32


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
    """Run Gram-Schmidt on rows of a float32 matrix in place; a row without a new direction becomes a random one."""
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


# -- the orthonormal constraint; ``network/whole_model.py`` has the products around it ---------------------------------


_move = formula(orthonormal_move)


@operation()
def orthonormal_step(p, ratio, constraint):
    trace, trace_of_square = 0.0, 0.0
    for i in range(p.shape[0]):
        r = row(p, i)
        trace += r[i]
        for j in range(r.shape[0]):
            trace_of_square += np.float64(r[j]) * np.float64(r[j])
    factor, square, ratio[0] = _move(trace, trace_of_square, p.shape[0], constraint)
    for i in range(p.shape[0]):
        r = row(p, i)
        r[i] -= square
        for j in range(r.shape[0]):
            r[j] = factor * r[j] if factor != ZERO else ZERO
