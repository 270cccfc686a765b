"""Training and diagnostics on chain examples, and posteriors for learning without forgetting.

Kaldi: ``NnetChainTrainer``, ``NnetChainTrainer2``, ``NnetChainComputeProb``, ``nnet3-chain-add-post-to-egs``.
"""
from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from nnet3py.chain.denominator import DenominatorComputation
from nnet3py.compiler.cache import CachingCompiler, CompilerOptions, OptimizeOptions
from nnet3py.compiler.request import ComputationRequest
from nnet3py.egs.chain_example import NnetChainExample
from nnet3py.egs.example import NnetIo
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import check_finite
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer, ComputerCache
from nnet3py.training.chain_objective import LWF_POSTERIORS, ChainOutputs, Graphs, OutputSums
from nnet3py.training.example_computation import HIDDEN, chain_request, run_forward
from nnet3py.training.objectives import per_frame
from nnet3py.training.options import ChainOptions, TrainerOptions
from nnet3py.training.trainer import MinibatchTrainer, NodeRows

logger = logging.getLogger(__name__)


class ChainTrainer(MinibatchTrainer[NnetChainExample]):
    """Trainer of a network, in place, on chain examples.

    Parameters
    ----------
    nnet : the model; its statistics are zeroed first if the options say so
    graphs : a function from :func:`one_graph` or :func:`graph_folder`, which returns the denominator graph of an output
    options : options of the training
    chain_options : options of the objective
    apply_deriv_weights : whether to multiply derivatives by the weights of the examples' frames
    """

    def __init__(self, nnet: Nnet, graphs: Graphs, options: TrainerOptions, chain_options: ChainOptions,
                 apply_deriv_weights: bool = True) -> None:
        super().__init__(nnet, options)
        self.chain_options = chain_options
        self._chain = ChainOutputs(self._computers.ops, graphs, chain_options, apply_deriv_weights, self._seed)

    def _request(self, eg: NnetChainExample) -> ComputationRequest:
        return chain_request(self.nnet, eg, need_model_derivative=True,
                             store_component_stats=self.options.store_component_stats,
                             use_xent=bool(self.chain_options.xent_regularize))

    def _inputs(self, eg: NnetChainExample) -> Iterable[NnetIo]:
        return (io for io in eg.inputs if not io.name.startswith(HIDDEN))

    def _node_rows(self, eg: NnetChainExample) -> Iterable[NodeRows]:
        return chain(self._inputs(eg), eg.outputs)

    def _process_outputs(self, computer: Computer, eg: NnetChainExample, suffix: str) -> None:
        for sums in self._chain.process(computer, eg, with_derivatives=True):
            self._count(sums.name + suffix, *sums[1:])


_PLACE = kaldi_place("PrintTotalStats", "nnet-chain-diagnostics.cc", 239)


@dataclass
class ChainDiagnosticOptions:
    """Options of :class:`ChainDiagnostics`; names and defaults are those of ``nnet3-chain-compute-prob``."""

    chain: ChainOptions = field(default_factory=ChainOptions)
    store_component_stats: bool = False
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    debug: bool = False            # log every command as it runs
    device: str = "cpu"


class ChainDiagnostics:
    """Accumulator of chain objectives of a network; weights of the examples' frames are ignored.

    Parameters
    ----------
    nnet : the network; its test modes are not changed
    graphs : a function from :func:`one_graph` or :func:`graph_folder`, which returns the denominator graph of an output
    options : see :class:`ChainDiagnosticOptions`
    compiler : the compiler of ``nnet`` or of a network that it was copied from, to share computations; None: a new one
    """

    def __init__(self, nnet: Nnet, graphs: Graphs, options: ChainDiagnosticOptions | None = None,
                 compiler: CachingCompiler | None = None) -> None:
        self.nnet, self.options = nnet, options or ChainDiagnosticOptions()
        self.compiler = compiler or CachingCompiler.with_options(nnet, self.options.optimize, self.options.compiler)
        self._computers = ComputerCache(nnet, self.compiler, stats=nnet, device=self.options.device,
                                        capacity=self.options.compiler.cache_capacity, debug=self.options.debug)
        self._chain = ChainOutputs(self._computers.ops, graphs, self.options.chain)
        self.outputs: dict[str, OutputSums] = {}

    def compute(self, eg: NnetChainExample) -> None:
        """Add one example. Raises Nnet3Error if it does not fit the network."""
        request = chain_request(self.nnet, eg, need_model_derivative=False,
                                store_component_stats=self.options.store_component_stats,
                                use_xent=bool(self.options.chain.xent_regularize))
        computer = run_forward(self._computers, request, eg.inputs)
        for sums in self._chain.process(computer, eg, with_derivatives=False):
            before = self.outputs.get(sums.name, OutputSums(sums.name, 0.0, 0.0))
            self.outputs[sums.name] = OutputSums(sums.name, *(
                old + new for old, new in zip(before[1:], sums[1:], strict=True)))

    def totals(self) -> tuple[float, float]:
        """Return objective (with l2 terms) and weight, summed over all outputs. Kaldi: GetTotalObjective."""
        return (sum(part.objective + part.aux_objective for part in self.outputs.values()),
                sum(part.weight for part in self.outputs.values()))

    def log_totals(self) -> bool:
        """Log a line for each output; return whether some output had weight above 0."""
        for name, total in self.outputs.items():
            shown = per_frame(total.objective, total.aux_objective, total.weight)
            logger.info(f"Overall log-probability for '{name}' is {shown} per frame, over {total.weight:.6g} frames.",
                        extra=_PLACE)
        return any(total.weight > 0.0 for total in self.outputs.values())


class PosteriorAdder:
    """Adder of posteriors to chain examples, as an input ``__LWF-posteriors``.

    Parameters
    ----------
    nnet : the network, usually in test mode
    denominator : the computation of the posteriors; None: the network's output is added instead
    apply_exp : without ``denominator``: whether exp(output) is added instead of the output
    clip_threshold : posteriors of ``denominator`` below this become 0
    compiler_options, optimize : options of the compiler and of its optimizer
    device : the device that computes the network, "cpu" or "cuda"
    """

    def __init__(self, nnet: Nnet, denominator: DenominatorComputation | None, apply_exp: bool = True,
                 clip_threshold: float = 0.0, compiler_options: CompilerOptions | None = None,
                 optimize: OptimizeOptions | None = None, device: str = "cpu") -> None:
        self.nnet, self._denominator, self._apply_exp, self._clip = nnet, denominator, apply_exp, clip_threshold
        self.compiler = CachingCompiler.with_options(nnet, optimize, compiler_options)
        self._computers = ComputerCache(nnet, self.compiler, device=device)

    def add(self, eg: NnetChainExample) -> NnetChainExample:
        """Return the example with the posteriors as a further input; its rows are sorted by sequence.

        Raises Nnet3Error if the example does not fit the network, has several outputs, or has posteriors already, and
        NumericError if the network's output or the posteriors are not finite.
        """
        if len(eg.outputs) != 1:
            raise Nnet3Error(f"the example has {len(eg.outputs)} outputs, expected one")
        if any(io.name == LWF_POSTERIORS for io in eg.inputs):
            raise Nnet3Error(f"the example has an input {LWF_POSTERIORS} already",
                             "add posteriors to examples that have none")
        output = eg.outputs[0]
        request = chain_request(self.nnet, eg, need_model_derivative=False, store_component_stats=False, use_xent=False)
        values = run_forward(self._computers, request, eg.inputs).output(output.name)
        check_finite(values, "the network's output")
        if self._denominator is not None:
            outputs, values = values, np.zeros_like(values)
            self._denominator.compute(outputs, output.supervision.num_sequences, values, 1.0)
            values[values < self._clip] = 0.0
        elif self._apply_exp:
            values = np.exp(values)
        check_finite(values, "posteriors to be added")
        order = np.lexsort((output.indexes[:, 1], output.indexes[:, 0]))
        added = NnetIo(LWF_POSTERIORS, output.indexes[order], values[order])
        return dataclasses.replace(eg, inputs=[*eg.inputs, added])
