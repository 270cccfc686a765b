"""What a network outputs for training examples, in training mode. Kaldi: ``NnetComputerFromEg``."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.cache import CompilerOptions, OptimizeOptions
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample
from nnet3py.egs.example import NnetExample
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import to_dense
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import ComputerCache
from nnet3py.training.example_request import chain_request, example_request


class ExampleOutputs:
    """Computes outputs for the inputs and at the supervised frames of examples.

    Parameters
    ----------
    nnet : used as it is: no test mode is set, so that batch normalization sees each (merged) example for itself
    device : "cpu" or "cuda"
    compiler_options : options of the compiler
    """

    def __init__(self, nnet: Nnet, device: str = "cpu", compiler_options: CompilerOptions | None = None) -> None:
        self.nnet = nnet
        self.compiler = (compiler_options or CompilerOptions()).compiler(nnet, OptimizeOptions())
        self._computers = ComputerCache(nnet, self.compiler, device=device)

    def compute(self, eg: NnetExample | NnetDiscriminativeExample, output_name: str = "output") -> np.ndarray:
        """The output ``output_name``, float32 (rows, dim): a row for each of its indexes, in the example's order.

        Raises
        ------
        Nnet3Error : the example does not fit the network, or does not supervise that output
        """
        if isinstance(eg, NnetDiscriminativeExample):
            request, inputs = chain_request(self.nnet, eg, False, False, use_xent=False), eg.inputs
        else:
            request = example_request(self.nnet, eg, need_model_derivative=False, store_component_stats=False)
            inputs = [io for io in eg.io if self.nnet.is_input(self.nnet.node_index(io.name))]
        names = [io.name for io in request.outputs]
        if output_name not in names:
            raise Nnet3Error(f"the example does not supervise an output '{output_name}'; it has {', '.join(names)}",
                             "choose one with --output-name, where the command has it")
        computer = self._computers.next_example(request)
        for io in inputs:
            computer.accept_input(io.name, to_dense(io.features))
        computer.run()
        return computer.output(output_name)
