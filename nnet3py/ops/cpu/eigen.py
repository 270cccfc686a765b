"""Eigenvalues of small symmetric matrices on the CPU: LAPACK's, which numpy brings and loads. Kaldi: ``SpMatrix::Eig``.

LAPACK sums with the thread that calls it (``engine/threads.py``), so a matrix has the same factors for any number of
threads.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.table import documented


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
