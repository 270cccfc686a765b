"""The checker: rules that every computation must follow. A broken rule is the compiler's fault, not the user's.

Each rule is a function whose name is the rule; they are in ``check_arguments.py`` and ``check_accesses.py``, those for
fused commands here. ``check_loaded`` also compares a computation from a file with the request. Kaldi:
``ComputationChecker`` (nnet-analyze.h).
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nnet3py.compiler.check_accesses import (
    COMPONENT_RULES,
    COMPRESSION_RULES,
    MATRIX_RULES,
    debug_info_fits,
    nothing_changes_after_it_was_read,
    variables_are_defined_before_use,
    variables_are_used,
)
from nnet3py.compiler.check_arguments import ARGUMENT_RULES, COPY_RULES, Subject
from nnet3py.compiler.computation import SIZING, CommandType, Computation, SubMatrix
from nnet3py.compiler.fuse.fusion import Scope
from nnet3py.compiler.fuse.passes import fusion_named
from nnet3py.compiler.request import ComputationRequest
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet


def fused_commands_have_parts(subject: Subject) -> None:
    """Require that every fused command has parts (Kaldi's commands that it replaces), and names an existing fusion."""
    computation = subject.computation
    entries = [command.args[0] for command in computation.commands if command.type == CommandType.FUSED]
    if sorted(entries) != list(range(len(computation.parts))):
        subject.fail("the fused commands do not refer to each entry of the list of parts once")
    for name, parts in computation.parts:
        if fusion_named(name) is None or not parts or any(part.type == CommandType.FUSED for part in parts):
            subject.fail(f"a fused command '{name}' of {len(parts)} parts: expected a known name, and one part or "
                         "more, none of them fused")


def fused_commands_are_what_their_passes_make(subject: Subject) -> None:
    """Require that the pass that made a fused command would make it again from its parts."""
    computation = subject.computation
    if not computation.parts:
        return
    scope, place = Scope(computation.unfused(), subject.nnet), 0
    for c, command in enumerate(computation.commands):
        count = len(computation.parts_of(command))
        if command.type == CommandType.FUSED:
            fusion = fusion_named(computation.parts[command.args[0]].fusion)
            working = [p for p in range(place, place + count) if scope.commands[p].type not in SIZING]
            if fusion is None or fusion.match(scope, working) != len(working):
                subject.fail("the pass named by the fused command does not fuse these parts", c)
        place += count


# All rules, in the order in which they are applied; each may trust those before it.
FUSED_RULES = (fused_commands_have_parts, fused_commands_are_what_their_passes_make)
RULES = (*FUSED_RULES, *ARGUMENT_RULES, *COMPONENT_RULES, *COPY_RULES, *MATRIX_RULES,
         *COMPRESSION_RULES, variables_are_defined_before_use, variables_are_used,
         debug_info_fits, nothing_changes_after_it_was_read)


def check_computation(computation: Computation, nnet: Nnet, check_rewrite: bool = False, check_unused: bool = True,
                      thorough: bool = False, after: str = "") -> None:
    """Check a computation by all rules; a fused command is checked as the commands that it replaces.

    Parameters
    ----------
    check_rewrite : whether to require that no variable changes after it was read, which holds before optimization only
    check_unused : whether to require that every part of every matrix is used
    thorough : whether to also check memory compression and debug info, which do not affect results
    after : the origin of the computation, such as the name of an optimizer's pass, for the error

    Raises
    ------
    CheckError : the first rule that is broken; names the rule, the command or matrix, and ``after``
    """
    left_out = {*(() if check_rewrite else (nothing_changes_after_it_was_read,)),
                *(() if check_unused else (variables_are_used,)),
                *(() if thorough else (*COMPRESSION_RULES, debug_info_fits))}
    for rule in FUSED_RULES:
        Subject(computation, nnet, after).apply(rule)
    subject = Subject(computation.unfused(), nnet, after)
    for rule in RULES[len(FUSED_RULES):]:
        if rule not in left_out:
            subject.apply(rule)


# -- computations from files -------------------------------------------------------------------------------------------


_Exchange = tuple[CommandType, int, int, int]        # ACCEPT_INPUT or PROVIDE_OUTPUT, node, rows, columns


def check_loaded(computation: Computation, nnet: Nnet, request: ComputationRequest) -> None:
    """Check that a computation from a file can be run with this network, and has the request's inputs and outputs.

    All arguments of its commands are checked; whether it computes the right function cannot be checked. Raises
    CheckError: the computation breaks a rule, or differs from the request.
    """
    _check_sizes(computation, nnet)
    check_computation(computation, nnet, thorough=True)
    _check_exchanges(computation, nnet, request)
    if any(command.type == CommandType.GOTO_LABEL for command in computation.commands):
        raise CheckError("the computation is a loop (it ends with a jump back), expected one without a jump")
    computation.invalidate_caches()


def check_loaded_loop(computation: Computation, nnet: Nnet, request_of: Callable[[int], ComputationRequest]) -> None:
    """Check a looped computation from a file; ``request_of`` returns the request for a chunk by its number.

    Raises CheckError: the computation breaks a rule, or differs from the request.
    """
    _check_sizes(computation, nnet)
    check_computation(computation, nnet, thorough=True)
    if not computation.commands or computation.commands[-1].type != CommandType.GOTO_LABEL:
        raise CheckError("the computation has no jump back at its end, which a computation for streams needs")
    chunks = _exchanges_of_chunks(computation)
    for number, exchanges in enumerate(chunks):
        request = request_of(number)
        wanted = [(kind, nnet.node_index(io.name), len(io.indexes), nnet.node_dim(nnet.node_index(io.name)))
                  for kind, ios in ((CommandType.ACCEPT_INPUT, request.inputs),
                                    (CommandType.PROVIDE_OUTPUT, request.outputs)) for io in ios]
        if number == len(chunks) - 1:           # takes its inputs, and then jumps to a chunk that has taken its own
            wanted = [exchange for exchange in wanted if exchange[0] == CommandType.ACCEPT_INPUT]
        if sorted(exchanges) != sorted(wanted):
            raise CheckError(f"chunk {number} of the computation has other input or output rows than its request")
    computation.invalidate_caches()


def _exchanges_of_chunks(computation: Computation) -> list[list[_Exchange]]:
    """Return for each chunk the inputs that it accepts and the outputs that it provides."""
    chunks: list[list[_Exchange]] = [[]]
    for kind, _, args in computation.commands:
        if kind in (CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT):
            window = computation.submatrices[args[0]]
            if kind == CommandType.ACCEPT_INPUT and chunks[-1] and chunks[-1][-1][0] == CommandType.PROVIDE_OUTPUT:
                chunks.append([])
            chunks[-1].append((kind, args[1], window.num_rows, window.num_cols))
    return chunks


def _check_sizes(computation: Computation, nnet: Nnet) -> None:
    """Check that entry 0 of both lists is empty, and that no matrix has more columns than the widest node."""
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
    """Check that the computation accepts and provides exactly the request's inputs, outputs and derivatives."""
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
        raise CheckError("expected a computation that accepts its inputs, provides its outputs, accepts the outputs' "
                         "derivatives and provides the inputs' derivatives, in this order")
    if computation.need_model_derivative != request.need_model_derivative:
        raise CheckError("one of the computation and its request asks for model derivatives, the other does not")
