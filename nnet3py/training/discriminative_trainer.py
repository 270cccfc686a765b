"""Training and diagnostics on discriminative examples, and the objectives of all their outputs.

Kaldi: ``NnetDiscriminativeTrainer``, ``NnetDiscriminativeComputeObjf``.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.acoustic_model import AcousticModel
from nnet3py.compiler.cache import CachingCompiler, CompilerOptions, OptimizeOptions
from nnet3py.compiler.request import ComputationRequest
from nnet3py.discriminative.objective import (
    FAILED_OBJECTIVE,
    DiscriminativeObjective,
    DiscriminativeTotals,
    output_rows,
)
from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample, NnetDiscriminativeSupervision
from nnet3py.egs.example import NnetIo
from nnet3py.errors import within
from nnet3py.log import kaldi_place
from nnet3py.runtime.computer import Computer, ComputerCache
from nnet3py.training.example_computation import XENT, chain_request, run_forward
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import MinibatchTrainer, NodeRows

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray

logger = logging.getLogger(__name__)


class DiscriminativeOutputs:
    """Computation of the objectives of all outputs of discriminative examples.

    ``objective`` : the computation of the objective of one output; ``apply_deriv_weights`` : whether to multiply
    derivatives by the weights of the examples' frames.
    """

    def __init__(self, objective: DiscriminativeObjective, apply_deriv_weights: bool = True) -> None:
        self._objective, self._apply_deriv_weights = objective, apply_deriv_weights

    def process(self, computer: Computer, eg: NnetDiscriminativeExample,
                with_derivatives: bool) -> Iterator[tuple[str, DiscriminativeTotals]]:
        """Compute the objectives of an example's outputs, and set their derivatives if ``with_derivatives``.

        ``computer`` must have run the forward pass. Yields name and sums of each output, NAME-xent before NAME.
        Raises what ``DiscriminativeObjective.compute`` raises.
        """
        for supervised in eg.outputs:
            with within(f"output '{supervised.name}'"):
                yield from self._process_output(computer, supervised, with_derivatives)

    def _process_output(self, computer: Computer, supervised: NnetDiscriminativeSupervision,
                        with_derivatives: bool) -> Iterator[tuple[str, DiscriminativeTotals]]:
        ops, regularize = self._objective.ops, self._objective.options.xent_regularize
        deriv = computer.input_view(supervised.name) if with_derivatives else None
        totals = self._objective.compute(supervised.supervision, computer.output_view(supervised.name), deriv)
        derivs = [deriv]
        if regularize:
            xent_name = supervised.name + XENT
            xent_deriv = computer.input_view(xent_name) if with_derivatives else None
            derivs.append(xent_deriv)
            yield xent_name, self._cross_entropy(computer.output_view(xent_name), xent_deriv, supervised)
        if with_derivatives and self._apply_deriv_weights and len(supervised.deriv_weights):
            with ops.staged(np.asarray(supervised.deriv_weights, np.float32)) as (weights,):
                for matrix in derivs:
                    if matrix is not None:
                        ops.mul_rows_vec(matrix, matrix, weights)
        yield supervised.name, totals

    def _cross_entropy(self, output: DeviceArray, deriv: DeviceArray | None,
                       supervised: NnetDiscriminativeSupervision) -> DiscriminativeTotals:
        """Return the cross-entropy sums for the reference's pdfs; ``deriv`` is set, times ``xent_regularize``."""
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
    """Log the sums of derivatives and of exp(output) of each pdf, if the options ask for them."""
    for what, vector in (("gradients", totals.gradients), ("exp(output)", totals.outputs)):
        if len(vector):
            values = " ".join(f"{value:.6g}" for value in vector)
            logger.info(f"Sum of {what} of each pdf of '{name}' is  [ {values} ]")


_COUNTS, _L2, _TOTAL, _SCRIPTS = (kaldi_place("PrintTotalStats", "nnet-discriminative-training.cc", line)
                                  for line in (245, 250, 255, 257))


class DiscriminativeTrainer(MinibatchTrainer[NnetDiscriminativeExample]):
    """Trainer of the network of an acoustic model, in place, on discriminative examples.

    The options of backstitch, ``l2_regularize_factor`` and ``batchnorm_stats_scale`` have no effect, as in
    Kaldi; nor do the components' own ``max_change``, ``l2_regularize`` and orthonormal constraints. Batch
    normalization uses the minibatch's statistics; dropout depends on the network's test mode.

    Parameters
    ----------
    model : the model, whose ``nnet`` is trained and whose priors are not changed
    options : options of the training
    discriminative_options : options of the objective
    apply_deriv_weights : whether to multiply derivatives by the weights of the examples' frames
    """

    _is_plain = True

    def __init__(self, model: AcousticModel, options: TrainerOptions, discriminative_options: DiscriminativeOptions,
                 apply_deriv_weights: bool = True) -> None:
        super().__init__(model.nnet, replace(options, backstitch_training_scale=0.0))
        self.discriminative_options = discriminative_options
        self._outputs = DiscriminativeOutputs(
            DiscriminativeObjective(self._computers.ops, model.transition_model, model.priors, discriminative_options),
            apply_deriv_weights)
        self.totals: dict[str, DiscriminativeTotals] = {}

    def _request(self, eg: NnetDiscriminativeExample) -> ComputationRequest:
        return chain_request(self.nnet, eg, need_model_derivative=True,
                             store_component_stats=self.options.store_component_stats,
                             use_xent=bool(self.discriminative_options.xent_regularize))

    def _inputs(self, eg: NnetDiscriminativeExample) -> Iterable[NnetIo]:
        return eg.inputs

    def _node_rows(self, eg: NnetDiscriminativeExample) -> Iterable[NodeRows]:
        return chain(eg.inputs, eg.outputs)

    def _process_outputs(self, computer: Computer, eg: NnetDiscriminativeExample, suffix: str) -> None:
        for name, totals in self._outputs.process(computer, eg, with_derivatives=True):
            self._count(name, totals.weight, totals.objective, totals.l2_term)
            self.totals.setdefault(name, DiscriminativeTotals()).add(totals)

    def log_totals(self) -> bool:
        """End the training: log the final lines, and copy the trained parameters to ``nnet``.

        Returns
        -------
        True if some output had weight above 0.
        """
        self.synchronize()
        criterion = self.discriminative_options.criterion
        for name in sorted(self.totals, reverse=True):
            totals = self.totals[name]
            weight = totals.weight or float("nan")
            logger.info(f"Average num+den count of stats is {(totals.num_count + totals.den_count) / weight:.6g} per "
                        f"frame, over {totals.weight:.6g} frames.", extra=_COUNTS)
            if totals.l2_term:
                logger.info(f"Average l2 norm of output per frame is {totals.l2_term / weight:.6g} over "
                            f"{totals.weight:.6g} frames.", extra=_L2)
            # Kaldi takes the objective for a denominator and subtracts it, also that of cross-entropy: a wrong sign.
            sign = -1.0 if criterion == "mmi" and name.endswith(XENT) else 1.0
            average = sign * totals.average()
            logger.info(f"Overall average objective function for '{name}' is {average:.6g} over "
                        f"{totals.weight:.6g} frames.", extra=_TOTAL)
            logger.info(f"[this line is to be parsed by a script:] {criterion}-per-frame={average:.6g}", extra=_SCRIPTS)
            log_vectors(name, totals)
        return any(totals.weight != 0.0 for totals in self.totals.values())


_LINES = {"mmi": (588, 592), "mpfe": (598, 601), "smbr": (606, 609)}


@dataclass
class DiscriminativeDiagnosticOptions:
    """Options of the diagnostics; names and defaults are those of ``nnet3-discriminative-compute-objf``."""

    discriminative: DiscriminativeOptions = field(default_factory=DiscriminativeOptions)
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    debug: bool = False            # log every command as it runs
    device: str = "cpu"


class DiscriminativeDiagnostics:
    """Accumulator of objectives of a model; weights of the examples' frames are ignored.

    Parameters
    ----------
    model : the model; the test modes of its network are not changed
    options : see :class:`DiscriminativeDiagnosticOptions`
    """

    def __init__(self, model: AcousticModel, options: DiscriminativeDiagnosticOptions | None = None) -> None:
        self.nnet, self.options = model.nnet, options or DiscriminativeDiagnosticOptions()
        self.compiler = CachingCompiler.with_options(model.nnet, self.options.optimize, self.options.compiler)
        self._computers = ComputerCache(model.nnet, self.compiler, device=self.options.device,
                                        capacity=self.options.compiler.cache_capacity, debug=self.options.debug)
        self._outputs = DiscriminativeOutputs(DiscriminativeObjective(
            self._computers.ops, model.transition_model, model.priors, self.options.discriminative))
        self.totals: dict[str, DiscriminativeTotals] = {}
        self._xent_weights: dict[str, float] = {}

    def compute(self, eg: NnetDiscriminativeExample) -> None:
        """Add one example; raise Nnet3Error if the example does not fit the network, or is damaged."""
        request = chain_request(self.nnet, eg, need_model_derivative=False, store_component_stats=False,
                                use_xent=bool(self.options.discriminative.xent_regularize))
        computer = run_forward(self._computers, request, eg.inputs)
        for name, totals in self._outputs.process(computer, eg, with_derivatives=False):
            if name.endswith(XENT):
                # Kaldi adds its running total of frames again with each minibatch: the average comes out far too small.
                self._xent_weights[name] = self._xent_weights.get(name, 0.0) + totals.weight
                totals = replace(totals, weight=self._xent_weights[name], frames=self._xent_weights[name])
            self.totals.setdefault(name, DiscriminativeTotals()).add(totals)

    def log_totals(self) -> bool:
        """Log the lines of each output; return whether the last one had weight above 0."""
        criterion = self.options.discriminative.criterion
        for name, totals in self.totals.items():
            # With MMI Kaldi takes cross-entropy's objective, too, for a denominator: a wrong sign.
            sign = -1.0 if criterion == "mmi" and name.endswith(XENT) else 1.0
            weight = totals.weight or float("nan")
            objective = sign * totals.average()
            numerator = totals.numerator / weight
            both, frames = (totals.num_count + totals.den_count) / weight, f"over {totals.weight:.6g} frames"
            what = criterion.upper()
            counts, value = (kaldi_place("Print", "discriminative-training.cc", line) for line in _LINES[criterion])
            if criterion == "mmi":
                logger.info(f"Number of frames is {totals.frames:.6g} (weighted: {totals.weight:.6g}), average (num or "
                            f"den) posterior per frame is {both / 2:.6g}", extra=counts)
                logger.info(f"MMI objective function is {numerator:.6g} - {numerator - objective:.6g} = "
                            f"{objective:.6g} per frame, {frames}.", extra=value)
            else:
                logger.info(f"Average num+den count of {what} stats is {both:.6g} per frame, {frames}", extra=counts)
                logger.info(f"{what} objective function is {objective:.6g} per frame, {frames}.", extra=value)
            shown = f"{objective:.6g} + {totals.l2_term / weight:.6g}" if totals.l2_term else f"{objective:.6g}"
            logger.info(f"Overall {criterion} objective for '{name}' is {shown} per frame, {frames}.",
                        extra=kaldi_place("PrintTotalStats", "nnet-discriminative-diagnostics.cc",
                                          182 if totals.l2_term else 175))
            log_vectors(name, totals)
        return bool(self.totals) and list(self.totals.values())[-1].weight > 0.0
