"""Objectives of a network's outputs: their value, their weight and their derivative.

With Y the output and S the supervision (dense, compressed or sparse), rows being the output's indexes:

=============  ==================  ==========================  ============
``objective``  weight              value                       derivative
=============  ==================  ==========================  ============
``linear``     sum of S            sum of Y·S (elementwise)     S
``quadratic``  number of rows      -1/2 sum of (S - Y)²         S - Y
=============  ==================  ==========================  ============

Nothing is divided by the weight: derivatives are sums over the minibatch. Kaldi: ``ComputeObjectiveFunction``.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.errors import ShapeError
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, check_finite, to_dense

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


class Objective(NamedTuple):
    """The weight and the value of an objective, both summed over a minibatch."""

    weight: float
    value: float


def check_supervision(name: str, supervision: GeneralMatrix, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless ``supervision`` fits an output of ``shape`` (rows, dim)."""
    rows, cols = supervision.shape
    if cols != shape[1]:
        raise ShapeError(f"Nnet versus example output dimension (num-classes) mismatch for '{name}': {shape[1]} (nnet) "
                         f"vs. {cols} (egs)", "were the examples made for another network or another --num-pdfs?")
    if rows != shape[0]:
        raise ShapeError(f"supervision of '{name}' has {rows} rows for {shape[0]} output frames")


def queue_objective(ops: Ops, kind: str, supervision: GeneralMatrix, output: DeviceArray,
                    deriv: DeviceArray | None) -> Callable[[], Objective]:
    """Queue what computes the objective of one output, and its derivative into ``deriv``.

    Parameters
    ----------
    ops : the device's operations
    kind : "linear" or "quadratic"
    supervision : float32 array, CompressedMatrix or SparseMatrix, (rows, dim)
    output : device matrix (rows, dim)
    deriv : device matrix (rows, dim) to set, or None where no derivative is wanted

    Returns
    -------
    A function that waits for the device and gives the objective; to be called once.

    Raises
    ------
    NumericError : NaN or infinity in the supervision
    """
    if isinstance(supervision, SparseMatrix) and kind == "linear":
        check_finite(supervision, "the supervision")
        with ops.staged(supervision.row_starts, supervision.columns, supervision.values) as table:
            if deriv is not None:
                ops.copy_from_sparse(deriv, *table)
            value = ops.later("sum_product_sparse", output, *table)
        weight = float(supervision.values.sum(dtype=np.float64))
        return lambda: Objective(weight, value())
    dense = to_dense(supervision)
    check_finite(dense, "the supervision")
    target = deriv if deriv is not None else ops.scratch(*output.shape)
    ops.copy_in(target, dense)
    if kind == "linear":
        value, weight = ops.later("sum_product", output, target), float(dense.sum(dtype=np.float64))
        return lambda: Objective(weight, value())
    ops.add_mat(target, output, -1.0)
    square = ops.later("sum_product", target, target)
    return lambda: Objective(float(dense.shape[0]), -0.5 * square())


def compute_objective(ops: Ops, kind: str, supervision: GeneralMatrix, output: DeviceArray,
                      deriv: DeviceArray | None) -> Objective:
    """The same, and wait for it."""
    return queue_objective(ops, kind, supervision, output, deriv)()
