"""The chain objective of a network on examples. Kaldi: ``NnetChainComputeProb``."""
from __future__ import annotations

import logging
from dataclasses import dataclass, field

from nnet3py.compiler.cache import CachingCompiler, CompilerOptions, OptimizeOptions
from nnet3py.egs.chain_example import NnetChainExample
from nnet3py.formats.general import to_dense
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import ComputerCache
from nnet3py.training.chain_objective import ChainOptions
from nnet3py.training.chain_outputs import ChainOutputs, Counted, Graphs
from nnet3py.training.example_request import HIDDEN, chain_request
from nnet3py.training.objective_stats import per_frame

logger = logging.getLogger(__name__)

_PLACE = kaldi_place("PrintTotalStats", "nnet-chain-diagnostics.cc", 239)


@dataclass
class ChainDiagnosticOptions:
    """How to compute; names and defaults are those of ``nnet3-chain-compute-prob``."""

    chain: ChainOptions = field(default_factory=ChainOptions)
    store_component_stats: bool = False
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    debug: bool = False            # log every command as it runs
    device: str = "cpu"


class ChainDiagnostics:
    """Accumulates chain objectives of a network; the weights of the examples' frames do not count.

    Parameters
    ----------
    nnet : used as it is: set its test modes before
    graphs : the denominator graph of each output, see ``chain_outputs.py``
    options : see :class:`ChainDiagnosticOptions`
    compiler : of ``nnet`` or of a network that it was copied from, to share what is compiled; None for its own
    """

    def __init__(self, nnet: Nnet, graphs: Graphs, options: ChainDiagnosticOptions | None = None,
                 compiler: CachingCompiler | None = None) -> None:
        self.nnet, self.options = nnet, options or ChainDiagnosticOptions()
        self.compiler = compiler or self.options.compiler.compiler(nnet, self.options.optimize)
        self._computers = ComputerCache(nnet, self.compiler, stats=nnet, device=self.options.device,
                                        capacity=self.options.compiler.cache_capacity, debug=self.options.debug)
        self._chain = ChainOutputs(self._computers.ops, graphs, self.options.chain)
        self.outputs: dict[str, Counted] = {}

    def compute(self, eg: NnetChainExample) -> None:
        """Add one example.

        Raises
        ------
        Nnet3Error : the example does not fit the network
        """
        request = chain_request(self.nnet, eg, need_model_derivative=False,
                                store_component_stats=self.options.store_component_stats,
                                use_xent=bool(self.options.chain.xent_regularize))
        computer = self._computers.next_example(request)
        for io in eg.inputs:
            if not io.name.startswith(HIDDEN):
                computer.accept_input(io.name, to_dense(io.features))
        computer.run()
        for counted in self._chain.process(computer, eg, with_derivatives=False):
            before = self.outputs.get(counted.name, Counted(counted.name, 0.0, 0.0))
            self.outputs[counted.name] = Counted(counted.name, *(
                old + new for old, new in zip(before[1:], counted[1:], strict=True)))

    def totals(self) -> tuple[float, float]:
        """Objective (with l2 terms) and weight, each summed over all outputs. Kaldi: GetTotalObjective."""
        return (sum(part.objective + part.aux_objective for part in self.outputs.values()),
                sum(part.weight for part in self.outputs.values()))

    def log_totals(self) -> bool:
        """Log a line per output; True if some output had any weight."""
        for name, total in self.outputs.items():
            shown = per_frame(total.objective, total.aux_objective, total.weight)
            logger.info(f"Overall log-probability for '{name}' is {shown} per frame, over {total.weight:.6g} frames.",
                        extra=_PLACE)
        return any(total.weight > 0.0 for total in self.outputs.values())
