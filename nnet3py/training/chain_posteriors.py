"""Posteriors of pdfs that come with chain examples, for learning without forgetting."""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.chain.denominator import DenominatorComputation
from nnet3py.compiler.cache import CompilerOptions, OptimizeOptions
from nnet3py.egs.chain_example import NnetChainExample
from nnet3py.egs.example import NnetIo
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import check_finite, to_dense
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import ComputerCache
from nnet3py.training.chain_outputs import LWF_POSTERIORS
from nnet3py.training.example_request import HIDDEN, chain_request


class PosteriorAdder:
    """Adds posteriors to chain examples: an input ``__LWF-posteriors``.

    Parameters
    ----------
    nnet : in test mode, unless posteriors of training are wanted
    denominator : computes the posteriors that are added; None for the network's output itself
    apply_exp : add exp(output), where it is the output that is added
    clip_threshold : lower values become 0, where ``denominator`` computes them
    compiler_options, optimize : options of the compiler and of its optimizer
    device : computes the network
    """

    def __init__(self, nnet: Nnet, denominator: DenominatorComputation | None, apply_exp: bool = True,
                 clip_threshold: float = 0.0, compiler_options: CompilerOptions | None = None,
                 optimize: OptimizeOptions | None = None, device: str = "cpu") -> None:
        self.nnet, self._denominator, self._apply_exp, self._clip = nnet, denominator, apply_exp, clip_threshold
        self.compiler = (compiler_options or CompilerOptions()).compiler(nnet, optimize or OptimizeOptions())
        self._computers = ComputerCache(nnet, self.compiler, device=device)

    def add(self, eg: NnetChainExample) -> NnetChainExample:
        """The example with one more input, its rows sequence after sequence.

        Raises
        ------
        Nnet3Error : the example does not fit the network, has several outputs, or has posteriors already
        NumericError : the network's output or the posteriors are not finite
        """
        if len(eg.outputs) != 1:
            raise Nnet3Error(f"the example has {len(eg.outputs)} outputs, expected one")
        if any(io.name == LWF_POSTERIORS for io in eg.inputs):
            raise Nnet3Error(f"the example has an input {LWF_POSTERIORS} already")
        output = eg.outputs[0]
        request = chain_request(self.nnet, eg, need_model_derivative=False, store_component_stats=False,
                                use_xent=False)
        computer = self._computers.next_example(request)
        for io in eg.inputs:
            if not io.name.startswith(HIDDEN):
                computer.accept_input(io.name, to_dense(io.features))
        computer.run()
        values = computer.output(output.name)
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
