"""Rows that are to be orthogonal, on the CPU. Kaldi: ``OnlineNaturalGradient::ReorthogonalizeRt1``."""
from __future__ import annotations

import logging

import numpy as np

from nnet3py.log import warn_once
from nnet3py.ops.cpu import load
from nnet3py.ops.formulas.natural_gradient import LARGEST_INVERSE_FACTOR, ORTHOGONALITY, SUSPECT, TRACE
from nnet3py.ops.table import documented

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
        orthonormalise_rows(w)
        w *= lengths[:, None]
    add_mat_mat(gram, w, w, 1.0, 0.0, False, True)


def orthonormalise_rows(rows: np.ndarray) -> None:
    """Gram-Schmidt on the rows of a float32 matrix, in place; a row without a new direction becomes a random one."""
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
                if after > 0:   # much was cancelled: once more, for the digits that were lost
                    continue
            row[:] = noise.standard_normal(row.size, dtype=f32)
