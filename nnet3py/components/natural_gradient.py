"""Online natural gradient: multiply rows by the inverse of a running low-rank estimate of their second moments.

The estimate is F = Qᵀ diag(d) Q + ρ I with R orthonormal rows Q. What is kept is W = diag(√e) Q, for then the rows are
preconditioned by X̂ = X - (X Wᵀ) W. Kaldi: ``OnlineNaturalGradient``.

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

EPSILON = np.float32(1.0e-10)         # of the eigenvalues, to begin with
MAX_FORGETTING = 0.9                  # most that one call replaces of the estimate
FIRST_UPDATES = 10                    # the estimate is updated in each of the calls up to this one
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
    gram: Any        # w wᵀ, (R, R)
    cross: Any       # projectedᵀ projected, (R, R), scratch; None where nobody has needed it
    size: float      # the sum of squares of X

    def apply(self, ops: Any, x: Any) -> float:
        """Precondition ``x``, the rows joined, in place; returns the factor."""
        ops.add_mat_mat(x, self.projected, self.w, -1.0, 1.0)
        return self._factor(ops.sum_sq(x))

    def factor(self, ops: Any) -> float | None:
        """The factor, without forming X̂; None where rounding forbids that."""
        if not self.size > 0:
            return 1.0
        cross = self.cross
        if cross is None:
            cross = ops.scratch(*self.gram.shape)
            ops.add_mat_mat(cross, self.projected, self.projected, 1.0, 0.0, trans_a=True)
        new_size = ops.preconditioned_size(cross, self.gram, self.size)
        return self._factor(new_size) if new_size > SMALLEST_REST * self.size else None

    def _factor(self, new_size: float) -> float:
        if not self.size > 0:
            return 1.0
        return math.sqrt(self.size / new_size) if new_size > 0 else math.inf


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
        self.spectrum: Any = None                 # d and ρ, (R + 1,), on the device
        self._spare: tuple[Any, Any] = None, None  # what the next update writes: of the shapes of w and of spectrum
        self._gram: Any = None                    # w wᵀ, (R, R), on the device
        self._gram_is_known = False

    @property
    def d(self) -> np.ndarray:
        """What the estimate has in its directions beyond ρ, float32 (R,): a host copy; empty before the first call."""
        return np.zeros(0, dtype=f32) if self.spectrum is None else np.array(self.spectrum[:-1])

    @property
    def rho(self) -> float:
        """What the estimate has in every direction."""
        return 0.0 if self.spectrum is None else float(np.array(self.spectrum[-1:])[0])

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
        projected = ops.scratch(num_rows, self.rank)
        if self.t == 0:
            self._initialise(ops, rows, size, projected)
        rows.project(ops, self.w, projected)
        w, gram = self.w, self._gram_of_w(ops)
        cross = self._update(ops, rows, size, projected) if updating else None
        self.t += 1
        return Projection(projected, w, gram, cross, size)

    # -- the state ---------------------------------------------------------------------------------------------------

    def _lower_rank(self, dim: int) -> None:
        if self.rank >= dim:
            logger.warning("natural gradient: rank %d is not below the dimension %d; it becomes %d",
                           self.rank, dim, dim - 1)
            self.rank = dim - 1

    def _initialise(self, ops: Any, rows: Rows, size: float, projected: Any) -> None:
        """Start from a sparse orthogonal matrix and let it see the first rows: once, or thrice if there are enough."""
        (num_rows, dim), rank = rows.shape, self.rank
        columns = np.arange(dim)
        start = np.zeros((rank, dim), dtype=f32)
        start[columns % rank, columns] = 1.0
        start[np.arange(rank), np.arange(rank)] = 1.1   # unequal, to break the symmetry
        start /= np.sqrt((start * start).sum(axis=1, dtype=np.float64))[:, None]
        start *= math.sqrt(1.0 / (2.0 + (dim + rank) * self.alpha / dim))
        (self.w, self.spectrum), self._spare = (
            (ops.new_vector(rank * dim).reshape(rank, dim), ops.new_vector(rank + 1)) for _ in range(2))
        self._gram = ops.new_vector(rank * rank).reshape(rank, rank)
        ops.copy_in(self.w, start)
        ops.copy_in(self.spectrum, np.full(rank + 1, EPSILON, dtype=f32))
        for _ in range(1 if num_rows <= rank else 3):
            mark = ops.mark_scratch()
            rows.project(ops, self.w, projected)
            self._update(ops, rows, size, projected)
            ops.release_scratch(mark)

    def _gram_of_w(self, ops: Any) -> Any:
        """w wᵀ, (R, R); formed once after each update."""
        if not self._gram_is_known:
            ops.add_mat_mat(self._gram, self.w, self.w, 1.0, 0.0, trans_b=True)
            self._gram_is_known = True
        return self._gram

    def _forgetting(self, num_rows: int) -> np.float32:
        """η, the weight of one call's rows in the estimate."""
        if self.num_minibatches_history > 0.0:
            return f32(1.0 / self.num_minibatches_history)
        return f32(min(MAX_FORGETTING, 1.0 - math.exp(-f32(num_rows) / f32(self.num_samples_history))))

    # -- the update --------------------------------------------------------------------------------------------------

    def _update(self, ops: Any, rows: Rows, size: float, projected: Any) -> Any:
        """Learn from ``rows``, whose projection and sum of squares are given; returns projectedᵀ projected, scratch."""
        (num_rows, dim), rank = rows.shape, self.rank
        moment = ops.scratch(rank, dim)
        square, cross, z, vectors, mix = (ops.scratch(rank, rank) for _ in range(5))
        eigenvalues, lengths, kept, scale, verdict = (ops.scratch_vector(n) for n in (rank, rank, rank, 1, 1))
        rows.moment(ops, projected, moment)
        ops.add_mat_mat(square, moment, moment, 1.0, 0.0, trans_b=True)
        if num_rows > dim:
            ops.add_mat_mat(cross, self.w, moment, 1.0, 0.0, trans_b=True)
        else:
            ops.add_mat_mat(cross, projected, projected, 1.0, 0.0, trans_a=True)
        settings = ops.upload(np.array([num_rows, dim, self._forgetting(num_rows), size, self.alpha]))
        self._decompose(ops, eigenvalues, vectors, z, scale, (square, cross, self.spectrum, settings))
        new_w, new_spectrum = self._spare
        order = ops.upload(np.empty(rank, dtype=np.int32))
        ops.natural_gradient_directions(mix, kept, new_spectrum, lengths, verdict, eigenvalues, vectors, self.spectrum,
                                        scale, settings, order)
        ops.add_diag_vec_mat(moment, kept, self.w, 1.0, 1.0)
        ops.add_mat_mat(new_w, mix, moment, 1.0, 0.0)
        if ops.copy_out(verdict)[0]:
            self._orthogonalise(ops, new_w, ops.copy_out(lengths), mix, moment)
        self._spare = self.w, self.spectrum
        self.w, self.spectrum = new_w, new_spectrum
        self._gram_is_known = False
        return cross

    @staticmethod
    def _decompose(ops: Any, eigenvalues: Any, vectors: Any, z: Any, scale: Any, given: tuple[Any, ...]) -> None:
        """Eigenvalues and eigenvectors (rows) of the new estimate along the old directions, over ``scale``."""
        ops.natural_gradient_moments(z, scale, *given)
        if not np.isfinite(ops.copy_out(scale)[0]):
            raise NumericError("natural gradient was given numbers whose fourth powers are too large",
                               "training is diverging or the input is badly scaled; try a lower learning rate")
        if not ops.symmetric_eigen(eigenvalues, vectors, z, ops.scratch(3, z.shape[0])):
            ops.natural_gradient_moments(z, scale, *given)
            values, columns = np.linalg.eigh(ops.copy_out(z))
            ops.copy_in(eigenvalues, values)
            ops.copy_in(vectors, np.ascontiguousarray(columns.T))

    def _orthogonalise(self, ops: Any, w: Any, scales: np.ndarray, square: Any, moment: Any) -> None:
        """Make the rows of ``w``, divided by ``scales``, orthonormal again if rounding has spoiled that; in place.

        ``square`` (R, R) and ``moment`` (R, D) are work space.
        """
        ops.add_mat_mat(square, w, w, 1.0, 0.0, trans_b=True)
        gram = ops.copy_out(square) / np.outer(scales, scales)
        if np.abs(gram - np.eye(self.rank, dtype=f32)).max() <= ORTHOGONALITY:
            return
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(gram))
            trusted = inverse.max() < LARGEST_INVERSE_FACTOR
        except np.linalg.LinAlgError:
            trusted = False
        if trusted:
            ops.copy_in(square, np.tril(inverse) * scales[:, None] / scales)
            ops.add_mat_mat(moment, square, w, 1.0, 0.0)
            ops.copy_mat(w, moment, 1.0)
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
