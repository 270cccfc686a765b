"""Whether a computation that was read from a file is one for this network and request."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nnet3py.compiler.check import check_computation
from nnet3py.compiler.commands import CommandType
from nnet3py.compiler.computation import Computation, SubMatrix
from nnet3py.compiler.request import ComputationRequest
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet

_Exchange = tuple[CommandType, int, int, int]        # accepts or provides, node, rows, columns


def check_loaded(computation: Computation, nnet: Nnet, request: ComputationRequest) -> None:
    """Raise CheckError unless the computation can be run with this network and does what the request asks.

    Nothing that it refers to is taken on trust; but whether it computes the right function cannot be checked.
    """
    _check_sizes(computation, nnet)
    check_computation(computation, nnet, thorough=True)
    _check_exchanges(computation, nnet, request)
    if any(command.type == CommandType.GOTO_LABEL for command in computation.commands):
        raise CheckError("the computation is a loop, which is only for computing chunk by chunk")
    computation.invalidate_caches()


def check_loaded_loop(computation: Computation, nnet: Nnet, request_of: Callable[[int], ComputationRequest]) -> None:
    """The same for a looped computation; ``request_of`` gives the request for a chunk by its number."""
    _check_sizes(computation, nnet)
    check_computation(computation, nnet, thorough=True)
    if not computation.commands or computation.commands[-1].type != CommandType.GOTO_LABEL:
        raise CheckError("the computation comes to an end, where chunk after chunk is to be computed")
    chunks = _exchanges_of_chunks(computation)
    for number, exchanges in enumerate(chunks):
        request = request_of(number)
        wanted = [(kind, nnet.node_index(io.name), len(io.indexes), nnet.node_dim(nnet.node_index(io.name)))
                  for kind, ios in ((CommandType.ACCEPT_INPUT, request.inputs),
                                    (CommandType.PROVIDE_OUTPUT, request.outputs)) for io in ios]
        if number == len(chunks) - 1:           # takes the inputs, and then jumps to where another one has taken them
            wanted = [exchange for exchange in wanted if exchange[0] == CommandType.ACCEPT_INPUT]
        if sorted(exchanges) != sorted(wanted):
            raise CheckError(f"chunk {number} of the computation does not take or give what is asked for")
    computation.invalidate_caches()


def _exchanges_of_chunks(computation: Computation) -> list[list[_Exchange]]:
    """What each chunk takes, and then gives."""
    chunks: list[list[_Exchange]] = [[]]
    for kind, _, args in computation.commands:
        if kind in (CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT):
            window = computation.submatrices[args[0]]
            if kind == CommandType.ACCEPT_INPUT and chunks[-1] and chunks[-1][-1][0] == CommandType.PROVIDE_OUTPUT:
                chunks.append([])
            chunks[-1].append((kind, args[1], window.num_rows, window.num_cols))
    return chunks


def _check_sizes(computation: Computation, nnet: Nnet) -> None:
    """The first entries are empty, the others are not, and no matrix is wider than what the network computes."""
    matrices, submatrices = computation.matrices, computation.submatrices
    if not matrices or not submatrices or matrices[0][:2] != (0, 0) or submatrices[0] != SubMatrix(0, 0, 0, 0, 0):
        raise CheckError("the first matrix or sub-matrix of the computation is not empty")
    widest = max((nnet.node_dim(node) for node in range(len(nnet.nodes))), default=0)
    for number, (rows, cols, _) in enumerate(matrices[1:], 1):
        if rows < 1 or not 1 <= cols <= widest:
            raise CheckError(f"matrix m{number} has {rows} x {cols} elements; no node has more than {widest} columns")
    for info in computation.debug_info:
        if len(info.nodes) and not 0 <= int(info.nodes.min()) <= int(info.nodes.max()) < len(nnet.nodes):
            raise CheckError("the debug info refers to a node that does not exist")


def _check_exchanges(computation: Computation, nnet: Nnet, request: ComputationRequest) -> None:
    """The computation accepts and provides just what the request says."""
    exchanges: Counter[_Exchange] = Counter()
    for command in computation.commands:
        if command.type in (CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT):
            window = computation.submatrices[command.args[0]]
            exchanges[command.type, command.args[1], window.num_rows, window.num_cols] += 1
    wanted: Counter[_Exchange] = Counter()
    for ios, given, back in ((request.inputs, CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT),
                             (request.outputs, CommandType.PROVIDE_OUTPUT, CommandType.ACCEPT_INPUT)):
        for io in ios:
            if io.name not in nnet.node_names:
                raise CheckError(f"the network has no node '{io.name}'")
            node = nnet.node_index(io.name)
            rows, cols = len(io.indexes), nnet.node_dim(node)
            wanted[given, node, rows, cols] += 1
            if io.has_deriv:
                wanted[back, node, rows, cols] += 1
    if exchanges != wanted:
        kind, node, rows, cols = next(iter((exchanges - wanted) or (wanted - exchanges)))
        raise CheckError(f"the computation and its request differ: {kind.name.lower()} of {rows} x {cols} elements for "
                         f"node '{nnet.node_names[node]}' is in one of them only")
    order = [(command.type == CommandType.PROVIDE_OUTPUT) + 2 * (nnet.is_output(command.args[1]) != (
        command.type == CommandType.PROVIDE_OUTPUT)) for command in computation.commands
        if command.type in (CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT)]
    if order != sorted(order):
        raise CheckError("the computation does not first accept its inputs, then provide its outputs, then accept "
                         "their derivatives, then provide those of its inputs")
    if computation.need_model_derivative != request.need_model_derivative:
        raise CheckError("one of the computation and its request asks for model derivatives, the other does not")
