"""Online natural gradient: multiply rows by the inverse of a running low-rank estimate of their second moments.

The estimate is F = Qᵀ diag(d) Q + ρ I with R orthonormal rows Q. What is kept is W = diag(√e) Q, for then the rows are
preconditioned by X̂ = X - (X Wᵀ) W. The large products run on the device's ``ops``; the R x R algebra of an update runs
on the host. Kaldi: ``OnlineNaturalGradient``.

A layer never needs X̂ itself, only its product with the preconditioned output derivative (``layer_gradient.py``); so
``observe`` returns what preconditions the rows, and leaves them as they are.
"""
from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

import numpy as np

from nnet3py.errors import NumericError

logger = logging.getLogger(__name__)

EPSILON = np.float32(1.0e-10)         # floor of the eigenvalues
DELTA = np.float32(5.0e-4)            # floor of the eigenvalues, relative to the largest
MAX_FORGETTING = 0.9                  # most that one call replaces of the estimate
FIRST_UPDATES = 10                    # the estimate is updated in each of the calls up to this one
LARGEST_CONDITION = 1.0e6             # of the update's eigenvalues, beyond which orthogonality is checked
ORTHOGONALITY = 1.0e-3                # tolerated deviation of Q Qᵀ from the unit matrix
LARGEST_INVERSE_FACTOR = 100.0        # elements of an inverse Cholesky factor that can still be trusted
SMALLEST_REST = 0.01                  # of the squared size after preconditioning, to be found as a difference
LARGEST_SIZE = 1.0e38                 # of a sum of squares in float32
f32 = np.float32


class Rows(NamedTuple):
    """The rows that are preconditioned: matrices side by side, and a last column of ones if ``ones``; never joined.

    ``parts`` are float32 matrices of one number of rows, on the device.
    """

    parts: tuple[Any, ...]
    ones: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns of all parts together with the ones."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts) + self.ones

    def sum_sq(self, ops: Any) -> float:
        """Sum of the squares of all elements."""
        return sum(ops.sum_sq(part) for part in self.parts) + (self.parts[0].shape[0] if self.ones else 0)

    def project(self, ops: Any, w: Any, dst: Any) -> None:
        """dst = X wᵀ."""
        beta, start = 0.0, 0
        if self.ones:
            last = ops.scratch_vector(w.shape[0])
            ops.copy_mat(last.reshape(-1, 1), w[:, w.shape[1] - 1:], 1.0)
            ops.add_vec_to_rows(dst, last, 1.0, 0.0)
            beta = 1.0
        for part in self.parts:
            ops.add_mat_mat(dst, part, w[:, start:start + part.shape[1]], 1.0, beta, trans_b=True)
            beta, start = 1.0, start + part.shape[1]

    def moment(self, ops: Any, left: Any, dst: Any) -> None:
        """dst = leftᵀ X."""
        start = 0
        for part in self.parts:
            ops.add_mat_mat(dst[:, start:start + part.shape[1]], left, part, 1.0, 0.0, trans_a=True)
            start += part.shape[1]
        if self.ones:
            sums = ops.scratch_vector(left.shape[1])
            ops.add_row_sum(sums, left, 1.0, 0.0)
            ops.copy_mat(dst[:, start:], sums.reshape(-1, 1), 1.0)

    def joined(self, ops: Any) -> Any:
        """All columns in one scratch matrix."""
        matrix, start = ops.scratch(*self.shape), 0
        for part in self.parts:
            ops.copy_mat(matrix[:, start:start + part.shape[1]], part, 1.0)
            start += part.shape[1]
        if self.ones:
            ops.set_const(matrix[:, start:], 1.0)
        return matrix


class Projection(NamedTuple):
    """What preconditions some rows X: X̂ = X - projected w, times the factor that restores X's Frobenius norm."""

    projected: Any   # X wᵀ, (rows, R), scratch
    w: Any           # (R, D)
    gram: np.ndarray  # w wᵀ, float32 (R, R), on the host
    size: float      # the sum of squares of X

    def apply(self, ops: Any, x: Any) -> float:
        """Precondition ``x``, the rows joined, in place; returns the factor."""
        ops.add_mat_mat(x, self.projected, self.w, -1.0, 1.0)
        return self._factor(ops.sum_sq(x))

    def factor(self, ops: Any) -> float | None:
        """The factor, without forming X̂; None where rounding forbids that."""
        if not self.size > 0:
            return 1.0
        cross = ops.scratch(*self.gram.shape)
        ops.add_mat_mat(cross, self.projected, self.projected, 1.0, 0.0, trans_a=True)
        cross = np.asarray(ops.copy_out(cross), dtype=np.float64)
        new_size = self.size - 2.0 * np.trace(cross) + float((cross * self.gram).sum())
        return self._factor(new_size) if new_size > SMALLEST_REST * self.size else None

    def _factor(self, new_size: float) -> float:
        if not self.size > 0:
            return 1.0
        return math.sqrt(self.size / new_size) if new_size > 0 else math.inf


class _Work(NamedTuple):
    """Scratch matrices of an update."""

    moment: Any   # (R, D)
    square: Any   # (R, R)
    cross: Any    # (R, R)


class OnlineNaturalGradient:
    """One preconditioner. Its rank falls to one less than the dimension if that is needed, at the first call.

    Parameters
    ----------
    rank : R, the number of directions that are kept
    update_period : after the first calls, the estimate is updated in every ``update_period``-th call
    num_samples_history : rows after which the estimate has mostly forgotten
    alpha : smoothing with the unit matrix
    num_minibatches_history : if not 0, counts calls instead of rows
    """

    def __init__(self, rank: int = 40, update_period: int = 1, num_samples_history: float = 2000.0,
                 alpha: float = 4.0, num_minibatches_history: float = 0.0) -> None:
        if rank <= 0 or update_period <= 0 or not 0.0 < num_samples_history < 1.0e6 or not alpha >= 0.0 \
                or not (num_minibatches_history == 0.0 or 1.0 < num_minibatches_history < 1.0e6):
            raise ValueError(f"natural gradient with rank {rank}, update-period {update_period}, "
                             f"num-samples-history {num_samples_history:g}, alpha {alpha:g}, num-minibatches-history "
                             f"{num_minibatches_history:g}: expected rank and period above 0, a history of samples "
                             "above 0 and below 1e6, alpha of at least 0, a history of minibatches of 0 or above 1")
        self.rank, self.update_period = rank, update_period
        self.num_samples_history, self.alpha = num_samples_history, alpha
        self.num_minibatches_history = num_minibatches_history
        self.frozen = False
        self.t = 0                                # calls so far
        self.w: Any = None                        # (R, D), on the device
        self._spare: Any = None                   # the matrix that the next update writes, of w's shape
        self._gram: np.ndarray | None = None      # W Wᵀ
        self.d = np.zeros(0, dtype=f32)           # (R,)
        self.rho = f32(0.0)

    def precondition(self, ops: Any, x: Any) -> float:
        """Precondition the rows of ``x`` (rows, D), in place.

        Returns
        -------
        The factor that gives the result the Frobenius norm of what was given; the caller applies it.

        Raises
        ------
        NumericError : NaN or infinity in ``x``
        """
        projection = self.observe(ops, Rows((x,)))
        return 1.0 if projection is None else projection.apply(ops, x)

    def observe(self, ops: Any, rows: Rows) -> Projection | None:
        """Count a call, learn from ``rows`` if it is time to, and return what preconditions them.

        Returns
        -------
        The projection by the estimate as it was before, valid until the next call; None for rows of one column, which
        are never changed.
        """
        num_rows, dim = rows.shape
        if dim == 1:
            return None
        updating = not self.frozen and (
            self.t <= FIRST_UPDATES or (self.t - FIRST_UPDATES) % self.update_period == 0)
        size = rows.sum_sq(ops)
        if not size < LARGEST_SIZE:
            raise NumericError("natural gradient was given NaN or infinity, or numbers too large to square",
                               "training has diverged or the input is not finite; try a lower learning rate")
        if self.t == 0:
            self._lower_rank(dim)
        rank = self.rank
        projected = ops.scratch(num_rows, rank)
        work = (_Work(ops.scratch(rank, dim), ops.scratch(rank, rank), ops.scratch(rank, rank))
                if updating or self.t == 0 else None)
        if self.t == 0:
            assert work is not None
            self._initialise(ops, rows, f32(size), projected, work)
        rows.project(ops, self.w, projected)
        projection = Projection(projected, self.w, self._gram_of_w(ops), size)
        if updating:
            assert work is not None
            self._accept(*self._next_state(ops, rows, f32(size), projected, work))
        self.t += 1
        return projection

    # -- the state ---------------------------------------------------------------------------------------------------

    def _lower_rank(self, dim: int) -> None:
        if self.rank >= dim:
            logger.warning("natural gradient: rank %d is not below the dimension %d; it becomes %d",
                           self.rank, dim, dim - 1)
            self.rank = dim - 1

    def _initialise(self, ops: Any, rows: Rows, size: np.float32, projected: Any, work: _Work) -> None:
        """Start from a sparse orthogonal matrix and let it see the first rows: once, or thrice if there are enough."""
        num_rows, dim = rows.shape
        columns = np.arange(dim)
        start = np.zeros((self.rank, dim), dtype=f32)
        start[columns % self.rank, columns] = 1.0
        start[np.arange(self.rank), np.arange(self.rank)] = 1.1   # unequal, to break the symmetry
        start /= np.sqrt((start * start).sum(axis=1, dtype=np.float64))[:, None]
        start *= math.sqrt(1.0 / (2.0 + (dim + self.rank) * self.alpha / dim))
        self.w, self._spare = (ops.new_vector(self.rank * dim).reshape(self.rank, dim) for _ in range(2))
        ops.copy_in(self.w, start)
        self.rho = EPSILON
        self.d = np.full(self.rank, EPSILON, dtype=f32)
        for _ in range(1 if num_rows <= self.rank else 3):
            rows.project(ops, self.w, projected)
            self._accept(*self._next_state(ops, rows, size, projected, work))

    def _accept(self, w: Any, d: np.ndarray, rho: np.float32) -> None:
        self.w, self._spare = w, self.w
        self.d, self.rho = d, rho
        self._gram = None

    def _gram_of_w(self, ops: Any) -> np.ndarray:
        """W Wᵀ, float32 (R, R), on the host; formed once after each update."""
        if self._gram is None:
            gram = ops.scratch(self.rank, self.rank)
            ops.add_mat_mat(gram, self.w, self.w, 1.0, 0.0, trans_b=True)
            self._gram = np.array(ops.copy_out(gram))
        return self._gram

    def _scales(self, d: np.ndarray, rho: np.float32, dim: int) -> np.ndarray:
        """√e of the estimate (d, ρ): the lengths of the rows of W, float32 (R,)."""
        beta = rho * f32(1.0 + self.alpha) + f32(self.alpha) * d.sum() / f32(dim)
        return np.sqrt(f32(1.0) / (beta / d + f32(1.0)))

    def _forgetting(self, num_rows: int) -> np.float32:
        """η, the weight of one call's rows in the estimate."""
        if self.num_minibatches_history > 0.0:
            return f32(1.0 / self.num_minibatches_history)
        return f32(min(MAX_FORGETTING, 1.0 - math.exp(-f32(num_rows) / f32(self.num_samples_history))))

    # -- the update --------------------------------------------------------------------------------------------------

    def _next_state(self, ops: Any, rows: Rows, size: np.float32, projected: Any,
                    work: _Work) -> tuple[Any, np.ndarray, np.float32]:
        """W, d and ρ after seeing ``rows``, whose projection and squared size are given; W lies in the spare matrix."""
        num_rows, dim = rows.shape
        eta = self._forgetting(num_rows)
        keep, per_row = f32(1.0) - eta, eta / f32(num_rows)
        inverse_scales = f32(1.0) / self._scales(self.d, self.rho, dim)
        rows.moment(ops, projected, work.moment)
        ops.add_mat_mat(work.square, work.moment, work.moment, 1.0, 0.0, trans_b=True)
        if num_rows > dim:
            ops.add_mat_mat(work.cross, self.w, work.moment, 1.0, 0.0, trans_b=True)
        else:
            ops.add_mat_mat(work.cross, projected, projected, 1.0, 0.0, trans_a=True)
        eigenvalues, vectors = self._decompose(ops, work, inverse_scales, float(per_row), float(keep))
        floor = f32(self.rho * keep) ** 2
        suspect = bool(eigenvalues[0] > LARGEST_CONDITION * eigenvalues[-1] or (eigenvalues < floor).any())
        roots = np.sqrt(np.maximum(eigenvalues, floor))
        d, rho = self._floored(roots, per_row * size, keep, dim)
        new_scales = self._scales(d, rho, dim)
        mix = (per_row * new_scales / roots)[:, None] * vectors * inverse_scales
        coefficients = ops.scratch_vector(self.rank)
        ops.copy_in(coefficients, keep / per_row * (self.d + self.rho))
        ops.copy_in(work.square, mix)
        ops.add_diag_vec_mat(work.moment, coefficients, self.w, 1.0, 1.0)
        ops.add_mat_mat(self._spare, work.square, work.moment, 1.0, 0.0)
        if suspect:
            self._orthogonalise(ops, self._spare, new_scales, work)
        return self._spare, d, rho

    def _decompose(self, ops: Any, work: _Work, inverse_scales: np.ndarray, per_row: float,
                   keep: float) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (falling absolute value) and eigenvectors (rows) of the projected new estimate, float32."""
        square, cross = (np.asarray(ops.copy_out(matrix), dtype=np.float64) for matrix in (work.square, work.cross))
        v = inverse_scales.astype(np.float64)
        a = (self.d + self.rho).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            z = (0.5 * per_row * per_row) * (square + square.T) * np.outer(v, v)
            z += (0.5 * per_row * keep) * (cross + cross.T) * np.outer(v, v) * np.add.outer(a, a)
            z[np.diag_indices_from(z)] += keep * keep * a * a
            scale = f32(max(1.0, np.trace(z)))
            z = (z / np.float64(scale)).astype(f32)
        if not np.isfinite(z).all():
            raise NumericError("natural gradient was given numbers whose fourth powers are too large",
                               "training is diverging or the input is badly scaled; try a lower learning rate")
        ops.copy_in(work.square, z)
        found = ops.scratch_vector(self.rank), work.cross
        if ops.symmetric_eigen(*found, work.square, ops.scratch(3, self.rank)):
            eigenvalues, vectors = (ops.copy_out(array) for array in found)
        else:
            eigenvalues, columns = np.linalg.eigh(z)
            vectors = columns.T
        order = np.argsort(-np.abs(eigenvalues), kind="stable")
        return eigenvalues[order] * scale, vectors[order]

    def _floored(self, roots: np.ndarray, seen: np.float32, keep: np.float32,
                 dim: int) -> tuple[np.ndarray, np.float32]:
        """d and ρ from the roots of the eigenvalues, so that the estimate keeps its trace; floored."""
        trace = seen + keep * (f32(dim) * self.rho + self.d.sum())
        rho = f32(1.0) / f32(dim - self.rank) * (trace - roots.sum())
        floor = max(EPSILON, DELTA * roots.max())
        return np.maximum(roots - rho, floor), max(rho, floor)

    def _orthogonalise(self, ops: Any, w: Any, scales: np.ndarray, work: _Work) -> None:
        """Make the rows of ``w``, divided by ``scales``, orthonormal again if rounding has spoiled that; in place."""
        ops.add_mat_mat(work.square, w, w, 1.0, 0.0, trans_b=True)
        gram = np.array(ops.copy_out(work.square)) / np.outer(scales, scales)
        if np.abs(gram - np.eye(self.rank, dtype=f32)).max() <= ORTHOGONALITY:
            return
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(gram))
            trusted = inverse.max() < LARGEST_INVERSE_FACTOR
        except np.linalg.LinAlgError:
            trusted = False
        if trusted:
            ops.copy_in(work.square, np.tril(inverse) * scales[:, None] / scales)
            ops.add_mat_mat(work.moment, work.square, w, 1.0, 0.0)
            ops.copy_mat(w, work.moment, 1.0)
        else:
            logger.warning("natural gradient: the estimate has lost its rank; orthogonalising row by row")
            rows = np.array(ops.copy_out(w), dtype=f32)
            orthonormalise_rows(rows)
            ops.copy_in(w, rows * scales[:, None])


def orthonormalise_rows(rows: np.ndarray) -> None:
    """Gram-Schmidt on the rows of a float32 matrix, in place; a row of no new direction becomes a random one."""
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
