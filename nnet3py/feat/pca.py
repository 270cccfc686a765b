"""Principal components of features. Kaldi: est-pca."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error, ShapeError

_SMALLEST_EIGENVALUE = 1.0e-15


class Pca(NamedTuple):
    """``transform`` float32 (dim, input dim or one more), ``full`` of all components, float64 ``eigenvalues``."""

    transform: np.ndarray
    full: np.ndarray
    eigenvalues: np.ndarray


@dataclass
class PcaStats:
    """Sums of vectors and of their products, in double precision."""

    count: float = 0.0
    sums: np.ndarray = field(default_factory=lambda: np.zeros(0))
    products: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, rows: np.ndarray) -> None:
        """Add float32 (rows, dim). ShapeError for another dimension than before."""
        dim = rows.shape[1]
        if not self.count:
            self.sums, self.products = np.zeros(dim), np.zeros((dim, dim))
        elif dim != len(self.sums):
            raise ShapeError(f"expected features of dimension {len(self.sums)}, found {dim}")
        double = rows.astype(np.float64)
        self.count += len(rows)
        self.sums += double.sum(axis=0)
        self.products += double.T @ double

    def estimate(self, dim: int, normalize_mean: bool, normalize_variance: bool) -> Pca:
        """The components of largest variance; ``dim`` <= 0 for all.

        ``normalize_mean`` adds a column that makes the mean zero, ``normalize_variance`` makes variances one.
        Nnet3Error for too many dimensions, or no data.
        """
        if not self.count:
            raise Nnet3Error("there are no features")
        dim = dim if dim > 0 else len(self.sums)
        if dim > len(self.sums):
            raise Nnet3Error(f"--dim={dim} is more than the dimension of the features, {len(self.sums)}")
        mean = self.sums / self.count
        values, vectors = np.linalg.eigh(self.products / self.count - np.outer(mean, mean))
        order = np.argsort(-np.abs(values), kind="stable")
        values, rows = values[order], vectors.T[order]
        if normalize_variance:
            rows = rows / np.sqrt(np.maximum(values, _SMALLEST_EIGENVALUE))[:, None]
        if normalize_mean:
            rows = np.column_stack((rows, -rows @ mean))
        full = rows.astype(np.float32)
        return Pca(full[:dim], full, values)
