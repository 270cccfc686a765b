"""Whether a command list is sound: one function per rule. A broken rule is a fault of the compiler, not of its user.

Kaldi: ``ComputationChecker`` (nnet-analyze.h).
"""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import READ, WRITE, Analysis, CommandTable
from nnet3py.compiler.check_arguments import check_arguments
from nnet3py.compiler.commands import CommandType
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.describe import CommandPrinter
from nnet3py.components.base import Properties
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet

TAIL = 0.8     # rows from this fraction on may be padding that extending a matrix has added, and that nobody uses


def check_computation(computation: Computation, nnet: Nnet, check_rewrite: bool = False, check_unused: bool = True,
                      thorough: bool = False) -> None:
    """Check the cheap rules, or all with ``thorough``.

    Parameters
    ----------
    check_rewrite : also that nothing is changed after it was read (true before optimisation only)
    check_unused : also that every part of every matrix is used
    thorough : also compression, memos and debug info

    Raises CheckError, naming the command or matrix, for the first rule that is broken.
    """
    table = CommandTable(computation)
    check_arguments(computation, nnet, table)
    analysis = Analysis(computation, nnet, table)
    check_matrix_accesses(analysis)
    check_undefined(analysis, nnet, check_unused)
    if thorough:
        check_memos(computation, nnet)
        check_compression(analysis, nnet)
        check_debug_info(computation)
    if check_rewrite:
        check_not_rewritten(analysis, nnet)


def _command_text(analysis: Analysis, nnet: Nnet, c: int) -> str:
    return CommandPrinter(analysis.computation, nnet).line(c).strip()


def check_matrix_accesses(analysis: Analysis) -> None:
    """Every matrix is made once, used, not used before that, nor after it is freed."""
    _check_once(analysis)
    everything = np.ones(len(analysis.matrix_accesses.commands), bool)
    first = analysis.matrix_accesses.first(everything, analysis.num_commands)
    last = analysis.matrix_accesses.last(everything)
    freed = np.where(analysis.freed < 0, analysis.num_commands, analysis.freed)
    loops = _is_looped(analysis)
    unused = np.zeros_like(last, dtype=bool) if loops else last < 0
    for broken, what in ((analysis.allocated < 0, "is not initialized"), (unused, "is never accessed"),
                         (first < analysis.allocated, "is accessed before it is initialized"),
                         (last >= freed, "is accessed after it is destroyed")):
        wrong = np.flatnonzero(broken[1:])
        if len(wrong):
            raise CheckError(f"Matrix m{wrong[0] + 1} {what}")


def _is_looped(analysis: Analysis) -> bool:
    commands = analysis.computation.commands
    return bool(commands) and commands[-1].type == CommandType.GOTO_LABEL


def _check_once(analysis: Analysis) -> None:
    args = analysis.table.args
    for kinds, what in ((((CommandType.ALLOC_MATRIX, 0), (CommandType.SWAP_MATRIX, 0)), "initialized"),
                        (((CommandType.DEALLOC_MATRIX, 0), (CommandType.SWAP_MATRIX, 1)), "destroyed")):
        matrices = np.concatenate([analysis.matrix_of[args[kind][:, place]] for kind, place in kinds])
        twice = np.flatnonzero(np.bincount(matrices, minlength=1) > 1)
        if len(twice):
            raise CheckError(f"Matrix m{twice[0]} {what} twice.")


def check_undefined(analysis: Analysis, nnet: Nnet, check_unused: bool) -> None:
    """The first access of everything writes it."""
    accesses, variables = analysis.accesses, analysis.variables
    counts = np.diff(accesses.starts)
    used = np.flatnonzero(counts)
    first = accesses.starts[used]
    compresses = analysis.table.types[accesses.commands[first]] == CommandType.COMPRESS_MATRIX
    wrong = np.flatnonzero((accesses.kinds[first] != WRITE) & ~compresses)
    if len(wrong):
        variable, c = int(used[wrong[0]]), int(accesses.commands[first[wrong[0]]])
        raise CheckError(f"Variable {variables.text(variable)} is undefined when it is first used, in command "
                         f"{_command_text(analysis, nnet, c)}")
    if check_unused and not _is_looped(analysis):
        for variable in np.flatnonzero(counts == 0).tolist():
            if not _is_extended_tail(analysis, variable):
                raise CheckError(f"Variable {variables.text(variable)} is never used.")


def _is_extended_tail(analysis: Analysis, variable: int) -> bool:
    variables = analysis.variables
    m = int(variables.matrix[variable])
    band = (variable - int(variables.first_of_matrix[m])) // int(variables.col_bands[m])
    row = int(variables.row_cuts[0][variables.row_cuts[1][m] + band])
    return row >= TAIL * analysis.computation.matrices[m].num_rows and int(variables.col_bands[m]) > 1


def check_not_rewritten(analysis: Analysis, nnet: Nnet) -> None:
    """After the first command that only reads it, nothing is changed."""
    accesses = analysis.accesses
    first_read = accesses.first(accesses.kinds == READ, analysis.num_commands)
    changed = np.flatnonzero((accesses.kinds != READ) & (accesses.commands > first_read[accesses.owners]))
    if len(changed):
        c = int(accesses.commands[changed[0]])
        raise CheckError(f"Variable {analysis.variables.text(int(accesses.owners[changed[0]]))} is modified after "
                         f"being read (in command {_command_text(analysis, nnet, c)})")


def check_memos(computation: Computation, nnet: Nnet) -> None:
    """Each memo is made by one propagate command and used up by one backprop command of the same component."""
    made: dict[int, int] = {}       # memo -> component
    for c, one in enumerate(computation.commands):
        if one.type == CommandType.PROPAGATE and one.args[4] > 0:
            if one.args[4] in made:
                raise CheckError(f"command c{c}: memo {one.args[4]} is made twice")
            made[one.args[4]] = one.args[0]
        elif one.type in (CommandType.BACKPROP, CommandType.BACKPROP_NO_MODEL_UPDATE) and one.args[6] > 0:
            if made.pop(one.args[6], -1) != one.args[0] or not nnet.components[one.args[0]].has(Properties.USES_MEMO):
                raise CheckError(f"command c{c}: memo {one.args[6]} was not made by this component, or was used before")
    if made:
        raise CheckError(f"memo {min(made)} is made and never used")


def check_compression(analysis: Analysis, nnet: Nnet) -> None:
    """A compressed matrix is decompressed by the next command that touches it, with the marker in between."""
    commands = analysis.computation.commands
    markers = analysis.table.numbers[CommandType.NO_OPERATION_MARKER]
    for c in analysis.table.numbers[CommandType.COMPRESS_MATRIX].tolist():
        m = int(analysis.matrix_of[commands[c].args[0]])
        later = [int(other) for other in analysis.matrix_accesses.of(m)[0] if other > c]
        if not later or commands[later[0]].type != CommandType.DECOMPRESS_MATRIX:
            raise CheckError(f"Matrix m{m} is compressed in command c{c} but not decompressed before it is used")
        if not ((markers > c) & (markers < later[0])).any():
            raise CheckError(f"Matrix m{m} is compressed and decompressed in the same pass (command c{c})")
        if commands[c].alpha == 0.0:
            last = commands[later[-1]]
            is_backprop = last.type in (CommandType.BACKPROP, CommandType.BACKPROP_NO_MODEL_UPDATE)
            if len(later) != 2 or not is_backprop or type(
                    nnet.components[last.args[0]]).__name__ != "RectifiedLinearComponent":
                raise CheckError(f"Matrix m{m} keeps its sign only (command c{c}), but not just a "
                                 "RectifiedLinearComponent uses it afterwards")


def check_debug_info(computation: Computation) -> None:
    """There is debug info for every matrix and each of its rows."""
    if len(computation.debug_info) != len(computation.matrices):
        raise CheckError(f"{len(computation.matrices)} matrices but debug info for {len(computation.debug_info)}")
    for m, (matrix, info) in enumerate(zip(computation.matrices, computation.debug_info, strict=True)):
        if not len(info.nodes) == len(info.indexes) == matrix.num_rows:
            raise CheckError(f"Matrix m{m} has {matrix.num_rows} rows but debug info for {len(info.indexes)}")
