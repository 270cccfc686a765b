"""The supervised outputs of discriminative examples: objectives and derivatives, also of a cross-entropy companion."""
from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.discriminative.lattice_graphs import output_rows
from nnet3py.discriminative.objective import FAILED_OBJECTIVE, DiscriminativeObjective, DiscriminativeTotals
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample, NnetDiscriminativeSupervision
from nnet3py.errors import within
from nnet3py.runtime.computer import Computer
from nnet3py.training.example_request import XENT

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray

logger = logging.getLogger(__name__)


class Counted(NamedTuple):
    """What is counted for an output: its name, and what a minibatch adds."""

    name: str
    totals: DiscriminativeTotals


class DiscriminativeOutputs:
    """Objectives of all outputs of discriminative examples.

    Parameters
    ----------
    objective : computes that of an output
    apply_deriv_weights : multiply derivatives with the examples' weights
    """

    def __init__(self, objective: DiscriminativeObjective, apply_deriv_weights: bool = True) -> None:
        self._objective, self._apply_deriv_weights = objective, apply_deriv_weights

    def process(self, computer: Computer, eg: NnetDiscriminativeExample, with_derivatives: bool) -> Iterator[Counted]:
        """Compute the objectives of an example's outputs; set their derivatives if asked to.

        ``computer`` has run forward. Yields what to count, of the companion (NAME-xent) before the output itself.
        Raises what ``DiscriminativeObjective.compute`` raises.
        """
        for supervised in eg.outputs:
            with within(f"output '{supervised.name}'"):
                yield from self._process_output(computer, supervised, with_derivatives)

    def _process_output(self, computer: Computer, supervised: NnetDiscriminativeSupervision,
                        with_derivatives: bool) -> Iterator[Counted]:
        ops, regularize = self._objective.ops, self._objective.options.xent_regularize
        deriv = computer.input_view(supervised.name) if with_derivatives else None
        totals = self._objective.compute(supervised.supervision, computer.output_view(supervised.name), deriv)
        derivs = [deriv]
        if regularize:
            xent_name = supervised.name + XENT
            xent_deriv = computer.input_view(xent_name) if with_derivatives else None
            derivs.append(xent_deriv)
            yield Counted(xent_name, self._cross_entropy(computer.output_view(xent_name), xent_deriv, supervised))
        if with_derivatives and self._apply_deriv_weights and len(supervised.deriv_weights):
            with ops.staged(np.asarray(supervised.deriv_weights, np.float32)) as (weights,):
                for matrix in derivs:
                    if matrix is not None:
                        ops.mul_rows_vec(matrix, matrix, weights)
        yield Counted(supervised.name, totals)

    def _cross_entropy(self, output: DeviceArray, deriv: DeviceArray | None,
                       supervised: NnetDiscriminativeSupervision) -> DiscriminativeTotals:
        """The log-probability of the reference's pdfs; ``deriv`` is set to its derivative times the factor."""
        ops, supervision, num_frames = self._objective.ops, supervised.supervision, output.shape[0]
        weight, columns = supervision.weight, np.empty(num_frames, np.int32)
        columns[output_rows(np.arange(num_frames), supervision)] = self._objective.pdfs(supervision.num_ali)
        with ops.staged(np.arange(num_frames + 1, dtype=np.int64), columns, np.full(num_frames, weight, np.float32),
                        np.full(num_frames, weight * self._objective.options.xent_regularize, np.float32)) as (
                            row_starts, pdfs, weights, scaled):
            value = ops.sum_product_sparse(output, row_starts, pdfs, weights)
            if deriv is not None:
                ops.copy_from_sparse(deriv, row_starts, pdfs, scaled)
        if not math.isfinite(value):
            value = FAILED_OBJECTIVE
        return DiscriminativeTotals(num_frames, num_frames * weight, objective=value)


def log_vectors(name: str, totals: DiscriminativeTotals) -> None:
    """Log what was accumulated for each pdf, if that was asked for: sums of derivatives, and of exp(output)."""
    for what, vector in (("gradients", totals.gradients), ("exp(output)", totals.outputs)):
        if len(vector):
            values = " ".join(f"{value:.6g}" for value in vector)
            logger.info(f"Sum of {what} of each pdf of '{name}' is  [ {values} ]")
