"""Discriminative training: a network trained on lattices. Kaldi: ``NnetDiscriminativeTrainer``."""
from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from nnet3py.acoustic_model import AcousticModel
from nnet3py.compiler.request import ComputationRequest
from nnet3py.discriminative.objective import DiscriminativeObjective, DiscriminativeTotals
from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample
from nnet3py.egs.example import NnetIo
from nnet3py.log import kaldi_place
from nnet3py.runtime.computer import Computer
from nnet3py.training.discriminative_outputs import DiscriminativeOutputs, log_vectors
from nnet3py.training.example_request import XENT, chain_request
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import MinibatchTrainer, Part

logger = logging.getLogger(__name__)

_COUNTS, _L2, _TOTAL, _SCRIPTS = (kaldi_place("PrintTotalStats", "nnet-discriminative-training.cc", line)
                                  for line in (245, 250, 255, 257))


class DiscriminativeTrainer(MinibatchTrainer[NnetDiscriminativeExample]):
    """Trains the network of an acoustic model, in place, on discriminative examples.

    The options of backstitch, ``l2_regularize_factor`` and ``batchnorm_stats_scale`` have no effect, as in
    Kaldi; nor do the components' own ``max_change``, ``l2_regularize`` and orthonormal constraints. Batch
    normalization trains with the minibatch's statistics; dropout as the network's test mode says.

    Parameters
    ----------
    model : its ``nnet`` is trained; its priors stay
    options : of the training
    discriminative_options : of the objective
    apply_deriv_weights : multiply derivatives with the weights of the examples' frames
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

    def _parts(self, eg: NnetDiscriminativeExample) -> Iterable[Part]:
        return chain(eg.inputs, eg.outputs)

    def _process_outputs(self, computer: Computer, eg: NnetDiscriminativeExample, suffix: str) -> None:
        for name, totals in self._outputs.process(computer, eg, with_derivatives=True):
            self._count(name, totals.weight, totals.objective, totals.l2_term)
            self.totals.setdefault(name, DiscriminativeTotals()).add(totals)

    def log_totals(self) -> bool:
        """End the training: log the closing lines, and make sure that ``nnet`` has everything it has learned.

        Returns
        -------
        True if some output had any weight.
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
            # Kaldi subtracts what it takes for a denominator, also with cross-entropy, whose sign is then wrong.
            sign = -1.0 if criterion == "mmi" and name.endswith(XENT) else 1.0
            average = sign * totals.average()
            logger.info(f"Overall average objective function for '{name}' is {average:.6g} over "
                        f"{totals.weight:.6g} frames.", extra=_TOTAL)
            logger.info(f"[this line is to be parsed by a script:] {criterion}-per-frame={average:.6g}", extra=_SCRIPTS)
            log_vectors(name, totals)
        return any(totals.weight != 0.0 for totals in self.totals.values())
