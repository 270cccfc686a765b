"""Chain training: a network trained on chain examples. Kaldi: ``NnetChainTrainer``, ``NnetChainTrainer2``."""
from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from nnet3py.compiler.request import ComputationRequest
from nnet3py.egs.chain_example import NnetChainExample
from nnet3py.egs.example import NnetIo
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer
from nnet3py.training.chain_outputs import ChainOutputs, Graphs
from nnet3py.training.example_request import HIDDEN, chain_request
from nnet3py.training.options import ChainOptions, TrainerOptions
from nnet3py.training.trainer import MinibatchTrainer, Part


class ChainTrainer(MinibatchTrainer[NnetChainExample]):
    """Trains ``nnet`` in place on chain examples.

    Parameters
    ----------
    nnet : the model; its statistics are zeroed first if the options say so
    graphs : the denominator graph of each output, see ``chain_outputs.py``
    options : of the training
    chain_options : of the objective
    apply_deriv_weights : multiply derivatives with the weights of the examples' frames
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

    def _parts(self, eg: NnetChainExample) -> Iterable[Part]:
        return chain(self._inputs(eg), eg.outputs)

    def _process_outputs(self, computer: Computer, eg: NnetChainExample, suffix: str) -> None:
        for counted in self._chain.process(computer, eg, with_derivatives=True):
            self._count(counted.name + suffix, *counted[1:])
