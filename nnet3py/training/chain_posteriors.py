"""Posteriors of pdfs from a network's chain output. Kaldi: ``nnet3-chain-compute-post``."""
from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.chain.denominator import DenominatorComputation
from nnet3py.compiler.cache import CompilerOptions, OptimizeOptions
from nnet3py.egs.chain_example import NnetChainExample
from nnet3py.egs.example import NnetIo
from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.io.general import check_finite, to_dense
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime.computer_cache import ComputerCache
from nnet3py.training.chain_outputs import LWF_POSTERIORS
from nnet3py.training.example_request import HIDDEN, chain_request


class PosteriorComputation:
    """Posteriors of pdfs from the forward-backward computation over a denominator graph.

    Parameters
    ----------
    graph : see :class:`DenominatorGraph`
    leaky : the leaky-HMM coefficient, between 0 and 1
    """

    def __init__(self, graph: DenominatorGraph, leaky: float) -> None:
        self._denominator = DenominatorComputation(get_ops("cpu"), graph, leaky)

    def compute(self, output: np.ndarray, num_sequences: int = 1) -> np.ndarray:
        """Posteriors, float32 (rows, pdfs), each row with the sum 1.

        ``output`` is float32 (rows, pdfs); row t S + s is frame t of sequence s of S.

        Raises
        ------
        ShapeError : the output is not of the graph's pdfs
        NumericError : NaN or infinity in the output, or the computation failed
        """
        check_finite(output, "the network's output")
        posteriors = np.zeros_like(output)
        found = self._denominator.compute(output, num_sequences, posteriors, 1.0)
        if not found.ok or not np.isfinite(posteriors).all():
            raise NumericError("the denominator computation failed", "is the network's output beyond +-30?")
        return posteriors


class PosteriorAdder:
    """Adds posteriors to chain examples, for learning without forgetting: an input ``__LWF-posteriors``.

    Parameters
    ----------
    nnet : in test mode
    posteriors : of the denominator graph; None for the network's output itself
    apply_exp : add exp(output), where it is the output that is added
    clip_threshold : what is below becomes 0
    compiler_options : what is asked of the compiler
    """

    def __init__(self, nnet: Nnet, posteriors: PosteriorComputation | None, apply_exp: bool = True,
                 clip_threshold: float = 0.0, compiler_options: CompilerOptions | None = None) -> None:
        self.nnet, self._posteriors, self._apply_exp, self._clip = nnet, posteriors, apply_exp, clip_threshold
        self.compiler = (compiler_options or CompilerOptions()).compiler(nnet, OptimizeOptions())
        self._computers = ComputerCache(nnet, self.compiler)

    def add(self, eg: NnetChainExample) -> NnetChainExample:
        """The example with one more input, its rows sequence after sequence.

        Raises
        ------
        Nnet3Error : the example does not fit the network, has several outputs, or has posteriors already
        """
        if len(eg.outputs) != 1:
            raise Nnet3Error(f"the example has {len(eg.outputs)} outputs, expected one")
        if any(io.name == LWF_POSTERIORS for io in eg.inputs):
            raise Nnet3Error(f"the example has an input {LWF_POSTERIORS} already")
        output = eg.outputs[0]
        request = chain_request(self.nnet, eg, need_model_derivative=False, store_component_stats=False,
                                use_xent=False)
        computer: Any = self._computers.computer(request)
        for io in eg.inputs:
            if not io.name.startswith(HIDDEN):
                computer.accept_input(io.name, to_dense(io.features))
        computer.run()
        values = computer.output(output.name)
        if self._posteriors is not None:
            values = self._posteriors.compute(values, output.supervision.num_sequences)
        elif self._apply_exp:
            values = np.exp(values)
        check_finite(values, "the network's output")
        values = np.where(values < self._clip, np.float32(0), values) if self._clip > 0.0 else values
        order = np.lexsort((output.indexes[:, 1], output.indexes[:, 0]))
        added = NnetIo(LWF_POSTERIORS, output.indexes[order], values[order])
        return dataclasses.replace(eg, inputs=[*eg.inputs, added])


def transformed(posteriors: np.ndarray, transform: np.ndarray | None) -> np.ndarray:
    """Posteriors of pdfs as those of what the rows of ``transform`` (rows, pdfs) stand for, such as phones.

    Raises
    ------
    ShapeError : the transform is for another number of pdfs
    """
    if transform is None:
        return posteriors
    if transform.shape[1] != posteriors.shape[1]:
        raise ShapeError(f"--transform-mat has {transform.shape[1]} columns for {posteriors.shape[1]} pdfs")
    return (posteriors @ transform.T).astype(np.float32)
