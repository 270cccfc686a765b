"""The LF-MMI objective of a network's output: numerator minus denominator. Kaldi: ``ComputeChainObjfAndDeriv``."""
from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.chain.denominator import LIMIT, DenominatorComputation
from nnet3py.chain.numerator import check_supervision, queued_numerator
from nnet3py.chain.scratch import scratch_doubles
from nnet3py.egs.supervision import Supervision
from nnet3py.log import kaldi_place
from nnet3py.training.options import ChainOptions

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

FAILED_OBJECTIVE = -10.0     # per frame, for a minibatch whose computation failed
RANGE_CHECK_INTERVAL = 100   # on average, minibatches between two checks of the output's range

_PLACE = kaldi_place("ComputeChainObjfAndDeriv", "chain-training.cc", 278)
_RANGE = kaldi_place("DenominatorComputation", "chain-denominator.cc", 67)


class ChainObjective(NamedTuple):
    """Sums over a minibatch: the objective, the l2 term of the output, and the weight (frames, usually)."""

    value: float
    l2_term: float
    weight: float


class ChainObjectiveComputation:
    """Computes objectives for one denominator graph.

    Parameters
    ----------
    ops : the device's operations
    graph : the denominator graph, with as many pdfs as the output has columns
    options : see :class:`ChainOptions`
    seed : of the penalty on values out of range, which is applied in half of the minibatches
    """

    def __init__(self, ops: Ops, graph: DenominatorGraph, options: ChainOptions, seed: int = 0) -> None:
        options.check()
        self.ops, self.options = ops, options
        self._denominator = DenominatorComputation(ops, graph, options.leaky_hmm_coefficient)
        self._draws = np.random.Generator(np.random.Philox(key=seed & (2**64 - 1)))

    def compute(self, supervision: Supervision, output: DeviceArray, deriv: DeviceArray | None = None,
                numerator_deriv: DeviceArray | None = None) -> ChainObjective:
        """The objective of one output, and its derivative into ``deriv``.

        Parameters
        ----------
        supervision : of all sequences of the minibatch
        output : device matrix (rows, pdfs); row t S + s is frame t of sequence s of S
        deriv : device matrix (rows, pdfs) to set, or None where no derivative is wanted
        numerator_deriv : device matrix (rows, pdfs) to set to the numerator's part of the derivative, or None

        A computation that fails gets Kaldi's -10 for each frame, a warning, and derivatives of 0.

        Raises
        ------
        ShapeError : the supervision is for another output
        Nnet3Error : its FST does not belong to a normalized supervision
        """
        ops, options = self.ops, self.options
        check_supervision(supervision, tuple(output.shape))
        weight = supervision.weight * supervision.num_sequences * supervision.frames_per_sequence
        cyclic = supervision.is_end_to_end
        scale = -supervision.weight * (1.0 + options.lwf_den_scale if cyclic else 1.0)
        with queued_numerator(ops, supervision, output) as queued:
            for matrix in (deriv, numerator_deriv):
                if matrix is not None:
                    queued.set_posteriors(matrix)
            results = scratch_doubles(ops, 3, supervision.num_sequences)
            self._denominator.queue(results, output, supervision.num_sequences, deriv, scale)
            sums, results = ops.read_later(queued.sums), ops.read_later(results)
            log_prob, numerator_ok = queued.result(sums())
        denominator = self._denominator.result(results(), deriv is not None)
        value = log_prob - supervision.weight * denominator.log_prob
        if cyclic:
            logger.info(f"Numerator objf: {log_prob / weight if weight else math.nan:.6g}", extra=_PLACE)
        if self._draws.integers(0, RANGE_CHECK_INTERVAL) == 0:
            self._check_range(output)
        if deriv is not None and options.out_of_range_regularize and self._draws.integers(0, 2) == 0:
            ops.chain_out_of_range(deriv, output, LIMIT, 2.0 * options.out_of_range_regularize)
        if not (math.isfinite(value) and denominator.ok and numerator_ok):
            self._warn(value, denominator.ok, numerator_ok if cyclic else None)
            value = FAILED_OBJECTIVE * weight
            for matrix in (deriv, numerator_deriv):
                if matrix is not None:
                    ops.set_const(matrix, 0.0)
        l2_term = 0.0
        if options.l2_regularize and (numerator_ok or not cyclic):
            factor = supervision.weight * options.l2_regularize
            l2_term = -0.5 * factor * ops.sum_product(output, output)
            if deriv is not None:
                ops.add_mat(deriv, output, -factor)
        return ChainObjective(value, l2_term, weight)

    def _check_range(self, output: DeviceArray) -> None:
        values = self.ops.copy_out(output)
        lowest, highest = float(values.min()), float(values.max())
        if lowest < -LIMIT or highest > LIMIT:
            logger.warning(f"Nnet outputs {lowest:.6g}, {highest:.6g} outside the range [-30,30], derivs may be "
                           "inaccurate.", extra=_RANGE)

    @staticmethod
    def _warn(value: float, denominator_ok: bool, numerator_ok: bool | None) -> None:
        returned = f"denominator computation (if done) returned {str(denominator_ok).lower()}"
        if numerator_ok is not None:
            returned += f" and numerator computation returned {str(numerator_ok).lower()}"
        logger.warning(f"Objective function is {value:.6g} and {returned}, setting objective function to "
                       f"{FAILED_OBJECTIVE:g} per frame.", extra=_PLACE)
