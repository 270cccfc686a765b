"""Online natural gradient: rows are multiplied by the inverse of a running low-rank estimate of their second moments.

The estimate is F = Qᵀ diag(d) Q + ρ I with R orthonormal rows Q. It is kept as W = diag(√e) Q, since then the rows are
preconditioned by X̂ = X - (X Wᵀ) W. Kaldi: ``OnlineNaturalGradient``.

A layer y = W x (+ b) never needs X̂ itself, only its product with the preconditioned output derivatives. With
X̂ = X (I - AᵀA) and Ê = E (I - BᵀB), for rows X = [x, 1] and output derivatives E, its step ÊᵀX̂ is
(I - BᵀB) (EᵀX) (I - AᵀA). So the plain gradient can be formed first and preconditioned afterwards
(:func:`natural_gradient_step`), which saves copies of X and E and passes over them if they have many more rows than the
gradient. Where preconditioning leaves little of X or E, much cancels in either order, and the remainder has about as
many correct digits; only its norm must then be computed from the rows.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3py.components.base import Component, Components, with_children
from nnet3py.errors import NumericError, within
from nnet3py.log import warn_once

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

EPSILON = np.float32(1.0e-10)         # initial value of the eigenvalues
MAX_FORGETTING = 0.9                  # largest fraction of the estimate that one call replaces
FIRST_UPDATES = 10                    # number of first calls that all update the estimate
NUM_NUMBERS = 5                       # numbers of a preconditioner on the device (ops/formulas/updates.py)
f32 = np.float32

# Reasons for the results of ops.natural_gradient_fault other than 0.
FAULTS = {1: "natural gradient was given NaN or infinity, or numbers too large to square",
          2: "natural gradient was given numbers whose fourth powers are too large"}


class Rows(NamedTuple):
    """Rows to be preconditioned, as matrices side by side that are never joined."""

    parts: tuple[DeviceArray, ...]    # float32 matrices with equally many rows, on the device
    ones: bool = False                # whether a last column of ones follows

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and number of columns of all parts, including the ones."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts) + self.ones

    def find_size(self, ops: Ops, numbers: DeviceArray) -> None:
        """Store the sum of squares of all elements in ``numbers``."""
        last = len(self.parts) - 1
        for k, part in enumerate(self.parts):
            ops.natural_gradient_size(numbers, part, float(part.shape[0]) if self.ones and k == last else 0.0, k > 0)

    def find_rest(self, ops: Ops, numbers: DeviceArray, projected: DeviceArray, w: DeviceArray) -> None:
        """Store the sum of squares of X - projected w in ``numbers``, if these ask for it."""
        start, last = 0, len(self.parts) - 1
        for k, part in enumerate(self.parts):
            ops.exact_size(numbers, part, projected, w, start, self.ones and k == last)
            start += part.shape[1]

    def project(self, ops: Ops, w: DeviceArray, dst: DeviceArray) -> None:
        """Set ``dst`` to X wᵀ."""
        beta, start = 0.0, 0
        if self.ones:
            last = ops.scratch_vector(w.shape[0])
            ops.copy_mat(last.reshape(-1, 1), w[:, w.shape[1] - 1:], 1.0)
            ops.add_vec_to_rows(dst, last, 1.0, 0.0)
            beta = 1.0
        for part in self.parts:
            ops.add_mat_mat(dst, part, w[:, start:start + part.shape[1]], 1.0, beta, trans_b=True)
            beta, start = 1.0, start + part.shape[1]

    def moment(self, ops: Ops, left: DeviceArray, dst: DeviceArray) -> None:
        """Set ``dst`` to leftᵀ X."""
        start = 0
        for part in self.parts:
            ops.add_mat_mat(dst[:, start:start + part.shape[1]], left, part, 1.0, 0.0, trans_a=True)
            start += part.shape[1]
        if self.ones:
            sums = ops.scratch_vector(left.shape[1])
            ops.add_row_sum(sums, left, 1.0, 0.0)
            ops.copy_mat(dst[:, start:], sums.reshape(-1, 1), 1.0)

    def joined(self, ops: Ops) -> DeviceArray:
        """Return all columns as one scratch matrix."""
        matrix, start = ops.scratch(*self.shape), 0
        for part in self.parts:
            ops.copy_mat(matrix[:, start:start + part.shape[1]], part, 1.0)
            start += part.shape[1]
        if self.ones:
            ops.set_const(matrix[:, start:], 1.0)
        return matrix


class Projection(NamedTuple):
    """Projection of rows X on the estimate's directions w, and its moments; all in scratch memory."""

    projected: DeviceArray   # X wᵀ, (rows, R)
    moment: DeviceArray | None      # projectedᵀ X, (R, D); None in calls that do not update the estimate
    cross: DeviceArray | None       # projectedᵀ projected, (R, R); None likewise


class Learning(NamedTuple):
    """Begun update of the estimate: moments, eigenvalues and eigenvectors, in scratch memory.

    The memory must not be reused before :meth:`OnlineNaturalGradient.finish_learning`.
    """

    moment: DeviceArray
    square: DeviceArray
    inverse: DeviceArray
    eigenvalues: DeviceArray
    vectors: DeviceArray
    settings: tuple[float, float, float, float]


class OnlineNaturalGradient:
    """Preconditioner of rows. The first call lowers the rank to the dimension - 1 if it is larger.

    Parameters
    ----------
    rank : R, the rank of the estimate: its number of directions
    update_period : number of calls from one update of the estimate to the next, after the first calls
    num_samples_history : number of rows over which the estimate averages
    alpha : factor of smoothing with the unit matrix
    num_minibatches_history : number of calls over which the estimate averages instead; 0 for ``num_samples_history``
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
        self.t = 0                                # number of calls so far
        self.num_beginnings = 0                   # number of calls with t = 0
        self.w: Any = None                        # (R, D), on the device
        self.spectrum: Any = None                 # d and ρ, (R + 1,), on the device
        self.gram: Any = None                     # w wᵀ, (R, R), on the device
        self.numbers: Any = None                  # float64 (NUM_NUMBERS,), on the device: norms of the rows and so on

    @property
    def d(self) -> np.ndarray:
        """Eigenvalues of the estimate in its R directions minus ρ, a host copy, float32 (R,); at first (0,)."""
        return np.zeros(0, dtype=f32) if self.spectrum is None else np.array(self.spectrum[:-1])

    @property
    def rho(self) -> float:
        """Eigenvalue ρ of the estimate in all other directions."""
        return 0.0 if self.spectrum is None else float(np.array(self.spectrum[-1:])[0])

    def decisions(self, num_calls: int) -> tuple[int, ...]:
        """Return for each of the next calls whether it initializes and whether it updates the estimate.

        Before them comes the number of initializations so far. Equal tuples mean that the same kernels run on the same
        memory, so that recorded calls can be used again.
        """
        calls = range(self.t, self.t + num_calls)
        return self.num_beginnings, *(decision for t in calls for decision in (t == 0, self._learns_at(t)))

    def precondition(self, ops: Ops, x: DeviceArray, rate: float = 1.0,
                     after: OnlineNaturalGradient | None = None) -> DeviceArray:
        """Precondition the rows of ``x`` (rows, D), in place.

        Returns
        -------
        The factor that the caller must multiply the rows by, float32 (1,), scratch on the device: ``rate`` times the
        factor that restores the Frobenius norm of ``x``, times the factor of the previous call, which was one of the
        preconditioner ``after``, if given. 0 for NaN or infinity in ``x``, see :meth:`check`.
        """
        seen = self.observe(ops, Rows((x,)))
        if seen is not None:
            learning = self.begin_learning(ops, seen, x.shape[0])
            ops.add_mat_mat(x, seen.projected, self.w, -1.0, 1.0)
            ops.natural_gradient_rest(self.numbers, x)
            self.finish_learning(ops, learning)
        factor = ops.scratch_vector(1)
        ops.natural_gradient_factor(factor, self.numbers, (after or self).numbers, rate, after is not None)
        return factor

    def observe(self, ops: Ops, rows: Rows) -> Projection | None:
        """Count a call, and project ``rows`` on the estimate's directions.

        Returns
        -------
        The projection, with the moments for :meth:`begin_learning` if this call updates the estimate; None for rows of
        one column, which are never changed.
        """
        num_rows, dim = rows.shape
        if self.numbers is None:
            self.numbers = ops.new_vector(NUM_NUMBERS, np.float64)
            ops.copy_in(self.numbers, np.zeros(NUM_NUMBERS))
        if dim == 1:
            return None
        rows.find_size(ops, self.numbers)
        if self.t == 0:
            self._lower_rank(dim)
        projected = ops.scratch(num_rows, self.rank)
        if self.t == 0:
            self._initialize(ops, rows, projected)
        rows.project(ops, self.w, projected)
        seen = self._gather(ops, rows, projected) if self._learns_at(self.t) else Projection(projected, None, None)
        self.t += 1
        return seen

    def find_rest(self, ops: Ops, rows: Rows, seen: Projection) -> None:
        """Compute the norm of the preconditioned rows without forming them, and store it in ``numbers``.

        The norm is a difference, or, if that leaves too few digits, computed by a pass over the rows.
        """
        cross = seen.cross
        if cross is None:
            cross = ops.scratch(*self.gram.shape)
            ops.add_mat_mat(cross, seen.projected, seen.projected, 1.0, 0.0, trans_a=True)
        ops.preconditioned_size(self.numbers, cross, self.gram)
        rows.find_rest(ops, self.numbers, seen.projected, self.w)

    def check(self, ops: Ops) -> None:
        """Raise an error if the last rows could not be used; the next call then initializes. On a GPU, wait for it.

        Raises NumericError for NaN, infinity or too large numbers in the rows of the last call or in the estimate
        before it.
        """
        fault = 0 if self.numbers is None else ops.natural_gradient_fault(self.numbers)
        if fault:
            self.t, self.numbers = 0, None
            raise NumericError(FAULTS[fault], "training has diverged or the input is not finite or badly scaled; try a "
                                              "lower learning rate")

    def _lower_rank(self, dim: int) -> None:
        if self.rank >= dim:
            warn_once(logger, f"natural gradient: rank {self.rank} is not below the dimension {dim}; it becomes "
                              f"{dim - 1}")
            self.rank = dim - 1

    def _learns_at(self, t: int) -> bool:
        return not self.frozen and (t <= FIRST_UPDATES or (t - FIRST_UPDATES) % self.update_period == 0)

    def _initialize(self, ops: Ops, rows: Rows, projected: DeviceArray) -> None:
        """Set the estimate to a sparse orthogonal matrix, and update it from the first rows.

        It is updated three times if there are more rows than its rank, else once.
        """
        (num_rows, dim), rank = rows.shape, self.rank
        columns = np.arange(dim)
        start = np.zeros((rank, dim), dtype=f32)
        start[columns % rank, columns] = 1.0
        start[np.arange(rank), np.arange(rank)] = 1.1   # unequal, to break the symmetry
        start /= np.sqrt((start * start).sum(axis=1, dtype=np.float64))[:, None]
        start *= math.sqrt(1.0 / (2.0 + (dim + rank) * self.alpha / dim))
        self.w, self.spectrum = ops.new_vector(rank * dim).reshape(rank, dim), ops.new_vector(rank + 1)
        self.gram = ops.new_vector(rank * rank).reshape(rank, rank)
        self.num_beginnings += 1
        ops.copy_in(self.w, start)
        ops.copy_in(self.spectrum, np.full(rank + 1, EPSILON, dtype=f32))
        for _ in range(1 if num_rows <= rank else 3):
            mark = ops.mark_scratch()
            rows.project(ops, self.w, projected)
            self.finish_learning(ops, self.begin_learning(ops, self._gather(ops, rows, projected), num_rows))
            ops.release_scratch(mark)

    def _forgetting(self, num_rows: int) -> np.float32:
        """Return η, the weight of a call's rows in the update of the estimate."""
        if self.num_minibatches_history > 0.0:
            return f32(1.0 / self.num_minibatches_history)
        return f32(min(MAX_FORGETTING, 1.0 - math.exp(-f32(num_rows) / f32(self.num_samples_history))))

    def _gather(self, ops: Ops, rows: Rows, projected: DeviceArray) -> Projection:
        """Return the projection of ``rows`` with its moments."""
        (num_rows, dim), rank = rows.shape, self.rank
        moment, cross = ops.scratch(rank, dim), ops.scratch(rank, rank)
        rows.moment(ops, projected, moment)
        if num_rows > dim:
            ops.add_mat_mat(cross, self.w, moment, 1.0, 0.0, trans_b=True)
        else:
            ops.add_mat_mat(cross, projected, projected, 1.0, 0.0, trans_a=True)
        return Projection(projected, moment, cross)

    def begin_learning(self, ops: Ops, seen: Projection, num_rows: int) -> Learning | None:
        """Begin the update from the moments of the last call; None if it has none. The estimate does not change yet.

        The preconditioner's ``numbers`` then show whether the rows can be used; ``num_rows`` is how many these are.
        """
        moment = seen.moment
        if moment is None or seen.cross is None:
            return None
        rank, dim = moment.shape
        square, z, vectors = (ops.scratch(rank, rank) for _ in range(3))
        eigenvalues, inverse = (ops.scratch_vector(rank) for _ in range(2))
        settings = float(num_rows), float(dim), float(self._forgetting(num_rows)), self.alpha
        ops.add_mat_mat(square, moment, moment, 1.0, 0.0, trans_b=True)
        ops.natural_gradient_moments(z, self.numbers, inverse, square, seen.cross, self.spectrum, *settings)
        work = ops.scratch(3, rank)
        ops.symmetric_eigen(eigenvalues, vectors, z, work)
        return Learning(moment, square, inverse, eigenvalues, vectors, settings)

    def finish_learning(self, ops: Ops, learning: Learning | None) -> None:
        """Finish the update begun by :meth:`begin_learning`, if any: change the estimate, in place."""
        if learning is None:
            return
        moment, square, inverse, eigenvalues, vectors, settings = learning
        rank = moment.shape[0]
        mix = ops.scratch(rank, rank)
        lengths, kept, order = (ops.scratch_vector(rank) for _ in range(3))
        ops.natural_gradient_directions(mix, kept, lengths, self.spectrum, self.numbers, order, inverse, eigenvalues,
                                        vectors, *settings)
        ops.add_diag_vec_mat(moment, kept, self.w, 1.0, 1.0)
        ops.add_mat_mat(self.w, mix, moment, 1.0, 0.0)
        ops.add_mat_mat(self.gram, self.w, self.w, 1.0, 0.0, trans_b=True)
        ops.orthogonalize(self.w, self.gram, square, moment, lengths, self.numbers)


def named_preconditioners(nnet: Components) -> list[tuple[str, OnlineNaturalGradient]]:
    """List the preconditioners of all components and their children, each with the component's name."""
    return [(name, preconditioner) for name, component in zip(nnet.component_names, nnet.components, strict=True)
            for preconditioner in preconditioners_in(component)]


def preconditioners_in(component: Component) -> list[OnlineNaturalGradient]:
    """List the preconditioners of a component and its children, including those that are never frozen."""
    return [value for part in with_children([component]) for value in vars(part).values()
            if isinstance(value, OnlineNaturalGradient)]


def check_preconditioners(ops: Ops, named: list[tuple[str, OnlineNaturalGradient]]) -> Callable[[], None]:
    """Start a check whether all preconditioners could use the last rows.

    Returns
    -------
    A function to call when the device has finished: it raises NumericError for the first component with rows that could
    not be used.
    """
    failed = ops.natural_gradient_failed()

    def check() -> None:
        if failed():
            for name, preconditioner in named:
                with within(f"component {name}"):
                    preconditioner.check(ops)

    return check


PASSES_OVER_ROWS = 60       # cost of the operations on X or E besides products, in multiply-adds per element
PASSES_OVER_GRADIENT = 72   # cost of those on the gradient


def natural_gradient_step(ops: Ops, weights: DeviceArray, bias: DeviceArray | None, learning_rate: float,
                          inner: OnlineNaturalGradient, outer: OnlineNaturalGradient, parts: tuple[DeviceArray, ...],
                          dy: DeviceArray) -> None:
    """Add to weights and bias the learning rate times the preconditioned gradient, in place.

    Parameters
    ----------
    weights : (output_dim, columns of all parts)
    bias : (output_dim,), or None; with a bias, the inputs get a last column of ones
    inner, outer : preconditioners of inputs and output derivatives, which this call updates
    parts : inputs of the blocks of columns of ``weights``, (rows, block's columns) each
    dy : derivative of the output, (rows, output_dim)
    """
    inputs, derivs = Rows(parts, ones=bias is not None), Rows((dy,))
    seen_in, seen_out = inner.observe(ops, inputs), outer.observe(ops, derivs)
    sides = (inner, inputs, seen_in), (outer, derivs, seen_out)
    learning = [None if seen is None else preconditioner.begin_learning(ops, seen, rows.shape[0])
                for preconditioner, rows, seen in sides]        # before the factor, which is 0 if rows cannot be used
    mark = ops.mark_scratch()
    factor, num_cols = ops.scratch_vector(1), weights.shape[1]
    if _gradient_is_smaller(inputs, derivs, inner.rank, outer.rank):
        gradient = _from_plain_gradient(ops, sides)
        ops.natural_gradient_factor(factor, inner.numbers, outer.numbers, learning_rate, True)
        ops.add_mat_by(weights, gradient[:, :num_cols], factor)
        if bias is not None:
            ops.add_mat_by(bias.reshape(-1, 1), gradient[:, num_cols:], factor)
    else:
        x, dy = (_preconditioned(ops, *side) for side in sides)
        ops.natural_gradient_factor(factor, inner.numbers, outer.numbers, learning_rate, True)
        ops.add_mat_mat_by(weights, dy, x[:, :num_cols], factor)
        if bias is not None:
            ops.add_mat_mat_by(bias.reshape(-1, 1), dy, x[:, num_cols:], factor)
    ops.release_scratch(mark)
    for preconditioner, begun in zip((inner, outer), learning, strict=True):
        preconditioner.finish_learning(ops, begun)


def _gradient_is_smaller(inputs: Rows, derivs: Rows, rank_in: int, rank_out: int) -> bool:
    """Return whether preconditioning the gradient costs less than preconditioning inputs and output derivatives."""
    (num_rows, dim_in), dim_out = inputs.shape, derivs.shape[1]
    by_rows = num_rows * (dim_in * (rank_in + PASSES_OVER_ROWS) + dim_out * (rank_out + PASSES_OVER_ROWS))
    return by_rows > dim_out * dim_in * (2 * (rank_in + rank_out) + PASSES_OVER_GRADIENT)


def _from_plain_gradient(
        ops: Ops, sides: tuple[tuple[OnlineNaturalGradient, Rows, Projection | None], ...]) -> DeviceArray:
    """Return the plain gradient, preconditioned by inputs and by output derivatives, in scratch memory."""
    for preconditioner, rows, seen in sides:
        if seen is not None:
            preconditioner.find_rest(ops, rows, seen)
    (inner, inputs, seen_in), (outer, derivs, seen_out) = sides
    gradient = ops.scratch(derivs.shape[1], inputs.shape[1])
    inputs.moment(ops, derivs.parts[0], gradient)
    if seen_in is not None:
        along = ops.scratch(gradient.shape[0], inner.rank)
        ops.add_mat_mat(along, gradient, inner.w, 1.0, 0.0, trans_b=True)
        ops.add_mat_mat(gradient, along, inner.w, -1.0, 1.0)
    if seen_out is not None:
        along = ops.scratch(outer.rank, gradient.shape[1])
        ops.add_mat_mat(along, outer.w, gradient, 1.0, 0.0)
        ops.add_mat_mat(gradient, outer.w, along, -1.0, 1.0, trans_a=True)
    return gradient


def _preconditioned(ops: Ops, preconditioner: OnlineNaturalGradient, rows: Rows,
                    seen: Projection | None) -> DeviceArray:
    """Return the preconditioned rows as one matrix: scratch, or the rows themselves if preconditioning changes nothing.
    """
    if seen is None and len(rows.parts) == 1 and not rows.ones:
        return rows.parts[0]
    matrix = rows.joined(ops)
    if seen is not None:
        ops.add_mat_mat(matrix, seen.projected, preconditioner.w, -1.0, 1.0)
        ops.natural_gradient_rest(preconditioner.numbers, matrix)
    return matrix
