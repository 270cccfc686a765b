"""The discriminative objective of a model on examples. Kaldi: ``NnetDiscriminativeComputeObjf``."""
from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from nnet3py.acoustic_model import AcousticModel
from nnet3py.compiler.cache import CompilerOptions, OptimizeOptions
from nnet3py.discriminative.objective import DiscriminativeObjective, DiscriminativeTotals
from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample
from nnet3py.formats.general import to_dense
from nnet3py.log import kaldi_place
from nnet3py.runtime.computer import ComputerCache
from nnet3py.training.discriminative_outputs import DiscriminativeOutputs, log_vectors
from nnet3py.training.example_request import XENT, chain_request

logger = logging.getLogger(__name__)

_LINES = {"mmi": (588, 592), "mpfe": (598, 601), "smbr": (606, 609)}


@dataclass
class DiscriminativeDiagnosticOptions:
    """How to compute; names and defaults are those of ``nnet3-discriminative-compute-objf``."""

    discriminative: DiscriminativeOptions = field(default_factory=DiscriminativeOptions)
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    debug: bool = False            # log every command as it runs
    device: str = "cpu"


class DiscriminativeDiagnostics:
    """Accumulates objectives of a model; the weights of the examples' frames do not count.

    Parameters
    ----------
    model : its network is used as it is: set its test modes before
    options : see :class:`DiscriminativeDiagnosticOptions`
    """

    def __init__(self, model: AcousticModel, options: DiscriminativeDiagnosticOptions | None = None) -> None:
        self.nnet, self.options = model.nnet, options or DiscriminativeDiagnosticOptions()
        self.compiler = self.options.compiler.compiler(model.nnet, self.options.optimize)
        self._computers = ComputerCache(model.nnet, self.compiler, device=self.options.device,
                                        capacity=self.options.compiler.cache_capacity, debug=self.options.debug)
        self._outputs = DiscriminativeOutputs(DiscriminativeObjective(
            self._computers.ops, model.transition_model, model.priors, self.options.discriminative))
        self.totals: dict[str, DiscriminativeTotals] = {}
        self._xent_weights: dict[str, float] = {}

    def compute(self, eg: NnetDiscriminativeExample) -> None:
        """Add one example; raises Nnet3Error if it does not fit the network, or is damaged."""
        request = chain_request(self.nnet, eg, need_model_derivative=False, store_component_stats=False,
                                use_xent=bool(self.options.discriminative.xent_regularize))
        computer = self._computers.next_example(request)
        for io in eg.inputs:
            computer.accept_input(io.name, to_dense(io.features))
        computer.run()
        for name, totals in self._outputs.process(computer, eg, with_derivatives=False):
            if name.endswith(XENT):
                # Kaldi adds its running total of frames again with each minibatch: the average comes out far too small.
                self._xent_weights[name] = self._xent_weights.get(name, 0.0) + totals.weight
                totals = replace(totals, weight=self._xent_weights[name], frames=self._xent_weights[name])
            self.totals.setdefault(name, DiscriminativeTotals()).add(totals)

    def log_totals(self) -> bool:
        """Log the lines of each output; True if the last one had any weight."""
        criterion = self.options.discriminative.criterion
        for name, totals in self.totals.items():
            # MMI takes cross-entropy's objective for a denominator's, too, so that its sign is wrong.
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
