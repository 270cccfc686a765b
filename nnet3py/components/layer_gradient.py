"""The step of a layer y = W x (+ b) along its gradient, with inputs and output derivatives preconditioned.

With X̂ = X (I - AᵀA) and Ê = E (I - BᵀB), for rows X = [x, 1] and output derivatives E, the step ÊᵀX̂ is
(I - BᵀB) (EᵀX) (I - AᵀA). So the plain gradient can be formed first and preconditioned afterwards: that saves copies of
X and E and passes over them, where there are many more rows than the gradient has.
"""
from __future__ import annotations

from typing import Any

from nnet3py.components.natural_gradient import OnlineNaturalGradient, Projection, Rows

PASSES_OVER_ROWS = 60       # what the other operations on X or E cost, in multiply-adds per element
PASSES_OVER_GRADIENT = 72   # the same for the gradient


def natural_gradient_step(ops: Any, weights: Any, bias: Any, learning_rate: float, inner: OnlineNaturalGradient,
                          outer: OnlineNaturalGradient, parts: tuple[Any, ...], dy: Any) -> None:
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
    gradient = None
    if _gradient_is_smaller(inputs, derivs, inner.rank, outer.rank):
        gradient = _from_plain_gradient(ops, inputs, dy, seen_in, seen_out)
    if gradient is not None:
        matrix, factor = gradient
        num_cols = weights.shape[1]
        ops.add_mat(weights, matrix[:, :num_cols], factor * learning_rate)
        if bias is not None:
            ops.add_mat(bias.reshape(-1, 1), matrix[:, num_cols:], factor * learning_rate)
    else:
        _from_rows(ops, weights, bias, learning_rate, inputs, dy, seen_in, seen_out)


def _gradient_is_smaller(inputs: Rows, derivs: Rows, rank_in: int, rank_out: int) -> bool:
    """Whether preconditioning the gradient costs less than preconditioning inputs and derivatives."""
    (num_rows, dim_in), dim_out = inputs.shape, derivs.shape[1]
    by_rows = num_rows * (dim_in * (rank_in + PASSES_OVER_ROWS) + dim_out * (rank_out + PASSES_OVER_ROWS))
    return by_rows > dim_out * dim_in * (2 * (rank_in + rank_out) + PASSES_OVER_GRADIENT)


def _from_plain_gradient(ops: Any, inputs: Rows, dy: Any, seen_in: Projection | None,
                         seen_out: Projection | None) -> tuple[Any, float] | None:
    """The preconditioned gradient (scratch) and its factor; None where cancellation would spoil them."""
    total = 1.0
    for seen in (seen_in, seen_out):
        factor = 1.0 if seen is None else seen.factor(ops)
        if factor is None:
            return None
        total *= factor
    gradient = ops.scratch(dy.shape[1], inputs.shape[1])
    inputs.moment(ops, dy, gradient)
    if seen_in is not None:
        along = ops.scratch(gradient.shape[0], seen_in.w.shape[0])
        ops.add_mat_mat(along, gradient, seen_in.w, 1.0, 0.0, trans_b=True)
        ops.add_mat_mat(gradient, along, seen_in.w, -1.0, 1.0)
    if seen_out is not None:
        along = ops.scratch(seen_out.w.shape[0], gradient.shape[1])
        ops.add_mat_mat(along, seen_out.w, gradient, 1.0, 0.0)
        ops.add_mat_mat(gradient, seen_out.w, along, -1.0, 1.0, trans_a=True)
    return gradient, total


def _from_rows(ops: Any, weights: Any, bias: Any, learning_rate: float, inputs: Rows, dy: Any,
               seen_in: Projection | None, seen_out: Projection | None) -> None:
    rate, num_cols = learning_rate, weights.shape[1]
    if seen_in is not None:
        x = inputs.joined(ops)
        rate *= seen_in.apply(ops, x)
        inputs = Rows((x,))
    if seen_out is not None:
        dy = Rows((dy,)).joined(ops)
        rate *= seen_out.apply(ops, dy)
    x = inputs.parts[0]
    ops.add_mat_mat(weights, dy, x[:, :num_cols], rate, 1.0, trans_a=True)
    if bias is not None:
        ops.add_mat_mat(bias.reshape(-1, 1), dy, x[:, num_cols:], rate, 1.0, trans_a=True)
