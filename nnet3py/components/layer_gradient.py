"""The step of a layer y = W x (+ b) along its gradient, with inputs and output derivatives preconditioned.

With X̂ = X (I - AᵀA) and Ê = E (I - BᵀB), for rows X = [x, 1] and output derivatives E, the step ÊᵀX̂ is
(I - BᵀB) (EᵀX) (I - AᵀA). So the plain gradient can be formed first and preconditioned afterwards: that saves copies of
X and E and passes over them, if they have many more rows than the gradient. Where preconditioning leaves little of X or
E, much cancels in either order, and the remainder has about as many correct digits; only its size must then be found
from the rows.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.components.natural_gradient import OnlineNaturalGradient, Projection, Rows

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

PASSES_OVER_ROWS = 60       # cost of the other operations on X or E, in multiply-adds per element
PASSES_OVER_GRADIENT = 72   # the same for the gradient


def natural_gradient_step(ops: Ops, weights: DeviceArray, bias: DeviceArray | None, learning_rate: float,
                          inner: OnlineNaturalGradient, outer: OnlineNaturalGradient, parts: tuple[DeviceArray, ...],
                          dy: DeviceArray) -> None:
    """Add to weights and bias the learning rate times the preconditioned gradient, in place.

    Parameters
    ----------
    weights : (output_dim, columns of all parts)
    bias : (output_dim,), or None; with a bias, ``inner`` sees a last column of ones
    inner, outer : the preconditioners of inputs and output derivatives, which learn from this call
    parts : the inputs of the blocks of columns of ``weights``, side by side; (rows, block's columns) each
    dy : derivative at the output, (rows, output_dim)
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
    """Whether preconditioning the gradient costs less than preconditioning inputs and derivatives."""
    (num_rows, dim_in), dim_out = inputs.shape, derivs.shape[1]
    by_rows = num_rows * (dim_in * (rank_in + PASSES_OVER_ROWS) + dim_out * (rank_out + PASSES_OVER_ROWS))
    return by_rows > dim_out * dim_in * (2 * (rank_in + rank_out) + PASSES_OVER_GRADIENT)


def _from_plain_gradient(
        ops: Ops, sides: tuple[tuple[OnlineNaturalGradient, Rows, Projection | None], ...]) -> DeviceArray:
    """The gradient, preconditioned from both sides, in scratch."""
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
    """The rows in one matrix, preconditioned; the rows themselves if nothing changes them."""
    if seen is None and len(rows.parts) == 1 and not rows.ones:
        return rows.parts[0]
    matrix = rows.joined(ops)
    if seen is not None:
        ops.add_mat_mat(matrix, seen.projected, preconditioner.w, -1.0, 1.0)
        ops.natural_gradient_rest(preconditioner.numbers, matrix)
    return matrix
