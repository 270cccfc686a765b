"""Computation of networks on examples: the requests for examples, and outputs in training mode.

Kaldi: ``GetComputationRequest``, ``GetChainComputationRequest``, ``NnetComputerFromEg``.
"""
from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nnet3py.compiler.cache import CachingCompiler, CompilerOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.egs.chain_example import NnetChainExample
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import to_dense
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer, ComputerCache

HIDDEN = "__"        # prefix of the names of inputs that are not for the network
XENT = "-xent"       # suffix of an output that is trained with cross-entropy beside the output of the plain name


def example_request(nnet: Nnet, eg: NnetExample, need_model_derivative: bool,
                    store_component_stats: bool) -> ComputationRequest:
    """Return the request with the inputs of an example, and with its supervised nodes as outputs.

    Raises Nnet3Error if the example names a node that the network does not have, or lacks inputs or outputs.
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


def chain_request(nnet: Nnet, eg: NnetChainExample | NnetDiscriminativeExample, need_model_derivative: bool,
                  store_component_stats: bool, use_xent: bool) -> ComputationRequest:
    """Return the request for a chain or discriminative example.

    Kaldi: ``GetChainComputationRequest``, ``GetDiscriminativeComputationRequest``.

    With ``use_xent`` the output NAME-xent is computed in addition to each supervised output NAME. Inputs whose names
    begin with ``__`` are left out. Raises Nnet3Error if the example names a node that the network does not have, or
    lacks inputs.
    """
    inputs = [IoSpecification(io.name, io.indexes) for io in eg.inputs if not io.name.startswith(HIDDEN)]
    outputs = []
    for output in eg.outputs:
        outputs += [IoSpecification(name, output.indexes, has_deriv=need_model_derivative)
                    for name in (output.name, output.name + XENT)[:1 + use_xent]]
    for specifications, has_node, what in ((inputs, nnet.is_input, "input"), (outputs, nnet.is_output, "output")):
        for wanted in specifications:
            if wanted.name not in nnet.node_names or not has_node(nnet.node_index(wanted.name)):
                hint = "it is for --xent-regularize; " if wanted.name.endswith(XENT) and use_xent else ""
                raise Nnet3Error(f"Nnet example has {what} named '{wanted.name}', but no such {what} node is in the "
                                 f"network.", f"{hint}the network has {', '.join(_io_names(nnet))}")
    if not inputs:
        raise Nnet3Error("an example has no input for the network")
    return ComputationRequest(inputs, outputs, need_model_derivative, store_component_stats)


def run_forward(computers: ComputerCache, request: ComputationRequest, inputs: Iterable[NnetIo]) -> Computer:
    """Run the forward pass of a request, whose inputs are among those given; return the computer."""
    computer, names = computers.next_example(request), {wanted.name for wanted in request.inputs}
    for io in inputs:
        if io.name in names:
            computer.accept_input(io.name, to_dense(io.features))
    computer.run()
    return computer


def _io_names(nnet: Nnet) -> list[str]:
    return [name for i, name in enumerate(nnet.node_names) if nnet.is_input(i) or nnet.is_output(i)]


class ExampleOutputs:
    """Computation of a network's outputs at the supervised frames of examples.

    Parameters
    ----------
    nnet : the network; its test modes are not changed, so that batch normalization normally uses the statistics of each
        (merged) example
    device : "cpu" or "cuda"
    compiler_options : options of the compiler
    """

    def __init__(self, nnet: Nnet, device: str = "cpu", compiler_options: CompilerOptions | None = None) -> None:
        self.nnet = nnet
        self.compiler = CachingCompiler.with_options(nnet, options=compiler_options)
        self._computers = ComputerCache(nnet, self.compiler, device=device)

    def compute(self, eg: NnetExample | NnetDiscriminativeExample, output_name: str = "output") -> np.ndarray:
        """Return the output ``output_name``, float32 (rows, dim), with a row for each of its indexes in the example.

        Raises Nnet3Error if the example does not fit the network, or has no supervision of this output.
        """
        if isinstance(eg, NnetDiscriminativeExample):
            request, given = chain_request(self.nnet, eg, False, False, use_xent=False), eg.inputs
        else:
            request, given = example_request(self.nnet, eg, False, False), eg.io
        names = [io.name for io in request.outputs]
        if output_name not in names:
            raise Nnet3Error(f"the example does not supervise an output '{output_name}'; it has {', '.join(names)}",
                             "choose one with --output-name, where the command has it")
        return run_forward(self._computers, request, given).output(output_name)
