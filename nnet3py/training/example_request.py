"""What to compute for one example. Kaldi: ``GetComputationRequest``."""
from __future__ import annotations

from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.egs.example import NnetExample
from nnet3py.errors import Nnet3Error
from nnet3py.network.nnet import Nnet


def example_request(nnet: Nnet, eg: NnetExample, need_model_derivative: bool,
                    store_component_stats: bool) -> ComputationRequest:
    """The request that has the example's inputs as inputs and its supervised nodes as outputs.

    Raises
    ------
    Nnet3Error : the example names a node that the network has not, or lacks inputs or outputs
    """
    inputs, outputs = [], []
    for io in eg.io:
        node = nnet.node_names.index(io.name) if io.name in nnet.node_names else -1
        if node >= 0 and nnet.is_input(node):
            inputs.append(IoSpecification(io.name, io.indexes))
        elif node >= 0 and nnet.is_output(node):
            outputs.append(IoSpecification(io.name, io.indexes, has_deriv=need_model_derivative))
        else:
            raise Nnet3Error(f"Nnet example has input or output named '{io.name}', but no such input or output node is "
                             f"in the network.", f"the network has {', '.join(_io_names(nnet))}")
    if not inputs or not outputs:
        missing = "input" if not inputs else "output"
        raise Nnet3Error(f"an example has no {missing} (it holds {', '.join(io.name for io in eg.io) or 'nothing'})")
    return ComputationRequest(inputs, outputs, need_model_derivative, store_component_stats)


def _io_names(nnet: Nnet) -> list[str]:
    return [name for i, name in enumerate(nnet.node_names) if nnet.is_input(i) or nnet.is_output(i)]
