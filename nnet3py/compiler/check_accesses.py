"""The checker's rules for when matrices and variables are used, for compression, and for debug info.

Kaldi: ``ComputationChecker``: CheckComputationMatrixAccesses, -Compression, -Undefined, -DebugInfo, -Rewrite.
"""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import READ
from nnet3py.compiler.check_subject import Subject
from nnet3py.compiler.commands import BACKPROPS, CommandType

TAIL = 0.8     # rows from this fraction on may be padding that extending a matrix has added, and that nobody uses


# -- matrices ----------------------------------------------------------------------------------------------------------


def matrices_are_initialized_once(subject: Subject) -> None:
    """Every matrix is allocated, taken over or accepted; and not twice, unless it is accepted again."""
    analysis, args = subject.analysis, subject.analysis.table.args
    _at_most_once(subject, np.concatenate((args[CommandType.ALLOC_MATRIX][:, 0], args[CommandType.SWAP_MATRIX][:, 0])),
                  "is initialized twice")
    _require(subject, analysis.allocated >= 0, "is not initialized")


def matrices_are_destroyed_once(subject: Subject) -> None:
    """No matrix is freed or given away twice, nor before it exists."""
    analysis, args = subject.analysis, subject.analysis.table.args
    _at_most_once(subject, np.concatenate((args[CommandType.DEALLOC_MATRIX][:, 0],
                                           args[CommandType.SWAP_MATRIX][:, 1])), "is destroyed twice")
    _require(subject, (analysis.freed < 0) | (analysis.freed > analysis.allocated), "is destroyed before it is there",
             analysis.freed)


def matrices_are_accessed(subject: Subject) -> None:
    """Every matrix is used, except in a looped computation."""
    if not subject.is_looped:
        _require(subject, subject.analysis.last_of_matrices() >= 0, "is never accessed", subject.analysis.allocated)


def matrices_are_accessed_while_they_are_there(subject: Subject) -> None:
    """No matrix is used before it is initialized, nor after it is destroyed."""
    analysis = subject.analysis
    first, last = analysis.first_of_matrices(), analysis.last_of_matrices()
    _require(subject, first >= analysis.allocated, "is accessed before it is initialized", first)
    freed = np.where(analysis.freed < 0, analysis.num_commands, analysis.freed)
    _require(subject, last < freed, "is accessed after it is destroyed", last)


def _at_most_once(subject: Subject, s: np.ndarray, what: str) -> None:
    twice = np.flatnonzero(np.bincount(subject.matrix_of[s], minlength=1) > 1)
    if len(twice):
        subject.fail(f"matrix m{twice[0]} {what}")


def _require(subject: Subject, fine: np.ndarray, what: str, commands: np.ndarray | None = None) -> None:
    """Fail for the first matrix whose place in ``fine`` is false; ``commands`` has one to name for each."""
    wrong = np.flatnonzero(~fine[1:])
    if len(wrong):
        m = int(wrong[0]) + 1
        subject.fail(f"matrix m{m} {what}", None if commands is None else int(commands[m]))


# -- the parts of a computation ----------------------------------------------------------------------------------------

_SIZING = (CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX, CommandType.SWAP_MATRIX, CommandType.NO_OPERATION,
           CommandType.NO_OPERATION_PERMANENT, CommandType.NO_OPERATION_LABEL)


def parts_are_in_order(subject: Subject) -> None:
    """A marker ends the forward commands of each segment, with inputs and outputs; then come backward ones only.

    Forward are propagation and the exchange of values; backward are backpropagation and the exchange of derivatives.
    The backward part begins with accepting a derivative, for all of it depends on that.
    """
    if subject.is_looped:
        return
    types, table = subject.table.types, subject.table
    markers = table.numbers[CommandType.NO_OPERATION_MARKER]
    if not len(markers):
        subject.fail("no marker ends the forward commands")
    accepts, of_values = _of_values(subject, CommandType.ACCEPT_INPUT)
    provides, of_derivs = _of_values(subject, CommandType.PROVIDE_OUTPUT)
    inputs, derivs, outputs = accepts[of_values], accepts[~of_values], provides[~of_derivs]
    begin = np.concatenate(([-1], markers[:-1]))
    for exchanged in (inputs, outputs):
        count = np.searchsorted(exchanged, markers) - np.searchsorted(exchanged, begin)
        if (count == 0).any():
            subject.fail("a marker ends a segment without inputs or outputs", int(markers[np.argmin(count)]))
    forward = np.concatenate((table.numbers[CommandType.PROPAGATE], inputs, outputs))
    backward = np.concatenate([derivs, provides[of_derivs], *(table.numbers[kind] for kind in BACKPROPS)])
    last = int(markers[-1])
    if (forward > last).any():
        subject.fail("a forward command comes after the last marker", int(forward[forward > last].min()))
    if (backward < last).any():
        subject.fail("a backward command comes before the last marker", int(backward.min()))
    is_sizing = np.isin(types, _SIZING) | ((types == CommandType.SET_CONST) & (table.alphas == 0.0))
    after = last + 1 + np.flatnonzero(~is_sizing[last + 1:])
    if len(after) and after[0] not in derivs:
        subject.fail("the commands after the last marker do not begin with a derivative", int(after[0]))


def _of_values(subject: Subject, kind: CommandType) -> tuple[np.ndarray, np.ndarray]:
    """The commands that accept or provide values, and for each whether its node is an input (a component's may be)."""
    nodes = subject.table.args[kind][:, 1].tolist()
    return subject.table.numbers[kind], np.array([not subject.nnet.is_output(node) for node in nodes], bool)


# -- compression -------------------------------------------------------------------------------------------------------


def compressed_matrices_are_decompressed(subject: Subject) -> None:
    """The next command that touches a compressed matrix decompresses it, and the marker stands in between."""
    commands = subject.computation.commands
    markers = subject.table.numbers[CommandType.NO_OPERATION_MARKER]
    for c, m, later in _compressions(subject):
        if not len(later) or commands[later[0]].type != CommandType.DECOMPRESS_MATRIX:
            subject.fail(f"matrix m{m} is not decompressed before it is used", c)
        if not ((markers > c) & (markers < later[0])).any():
            subject.fail(f"matrix m{m} is compressed and decompressed in the same pass", c)


def decompressed_matrices_were_compressed(subject: Subject) -> None:
    """A command that decompresses a matrix comes right after one that compresses it."""
    accesses, commands = subject.analysis.matrix_accesses, subject.computation.commands
    for c in subject.table.numbers[CommandType.DECOMPRESS_MATRIX].tolist():
        m = int(subject.matrix_of[commands[c].args[0]])
        earlier = accesses.of(m)[0]
        earlier = earlier[earlier < c]
        if not len(earlier) or commands[earlier[-1]].type != CommandType.COMPRESS_MATRIX:
            subject.fail(f"matrix m{m} is decompressed without having been compressed", c)


def signs_are_kept_for_rectifiers_only(subject: Subject) -> None:
    """A matrix whose signs alone are kept is used only once more, by a RectifiedLinearComponent's backprop."""
    commands = subject.computation.commands
    for c, m, later in _compressions(subject):
        if commands[c].alpha == 0.0:
            last = commands[later[-1]]
            is_rectifier = last.type in BACKPROPS and type(
                subject.nnet.components[last.args[0]]).__name__ == "RectifiedLinearComponent"
            if len(later) != 2 or not is_rectifier:
                subject.fail(f"matrix m{m} keeps its signs, but not just a RectifiedLinearComponent uses it then", c)


def _compressions(subject: Subject) -> list[tuple[int, int, np.ndarray]]:
    """For every command that compresses: its number, the matrix, and the later commands that touch that."""
    compressed = []
    for c in subject.table.numbers[CommandType.COMPRESS_MATRIX].tolist():
        m = int(subject.matrix_of[subject.computation.commands[c].args[0]])
        touched = subject.analysis.matrix_accesses.of(m)[0]
        compressed.append((c, m, touched[touched > c]))
    return compressed


# -- variables ---------------------------------------------------------------------------------------------------------


def variables_are_defined_before_use(subject: Subject) -> None:
    """The first command that touches a variable sets it, whatever it was before."""
    first, just_writes = subject.analysis.first_of_all_variables
    types = np.append(subject.analysis.table.types, CommandType.COMPRESS_MATRIX)       # the last one is for no use
    wrong = np.flatnonzero(~just_writes & (types[first] != CommandType.COMPRESS_MATRIX))
    if len(wrong):
        variable = subject.analysis.variables.text(int(wrong[0]))
        subject.fail(f"variable {variable} is undefined when it is first used", int(first[wrong[0]]))


def variables_are_used(subject: Subject) -> None:
    """Every variable is used by some command, except in a loop and except for padding at a matrix's end."""
    if subject.is_looped:
        return
    variables = subject.analysis.variables
    first, _ = subject.analysis.first_of_all_variables
    unused = np.flatnonzero(first == subject.analysis.num_commands)
    matrix = variables.matrix[unused]
    band = (unused - variables.first_of_matrix[matrix]) // np.maximum(variables.col_bands[matrix], 1)
    row = variables.row_cuts[0][variables.row_cuts[1][matrix] + band]
    is_padding = (row >= TAIL * subject.sizes[matrix, 0]) & (variables.col_bands[matrix] > 1)
    if not is_padding.all():
        subject.fail(f"variable {variables.text(int(unused[np.argmin(is_padding)]))} is never used")


def nothing_changes_after_it_was_read(subject: Subject) -> None:
    """After the first command that only reads it, a variable stays as it is. True before optimization."""
    accesses = subject.analysis.accesses
    first_read = accesses.first(accesses.kinds == READ, subject.analysis.num_commands)
    changed = np.flatnonzero((accesses.kinds != READ) & (accesses.commands > first_read[accesses.owners]))
    if len(changed):
        variable = subject.analysis.variables.text(int(accesses.owners[changed[0]]))
        subject.fail(f"variable {variable} is modified after being read", int(accesses.commands[changed[0]]))


# -- debug info --------------------------------------------------------------------------------------------------------


def debug_info_fits(subject: Subject) -> None:
    """There is debug info for every matrix and each of its rows, with sequences from 0 on."""
    matrices, debug_info = subject.computation.matrices, subject.computation.debug_info
    if len(debug_info) != len(matrices):
        subject.fail(f"{len(matrices)} matrices but debug info for {len(debug_info)}")
    for m, (matrix, info) in enumerate(zip(matrices, debug_info, strict=True)):
        if not len(info.nodes) == len(info.indexes) == matrix.num_rows:
            subject.fail(f"matrix m{m} has {matrix.num_rows} rows but debug info for {len(info.indexes)}")
    lists = list({id(info.indexes): info.indexes for info in debug_info[1:]}.values())      # many matrices share one
    if lists and min(int(indexes[:, 0].min(initial=0)) for indexes in lists) < 0:
        subject.fail("the debug info has a sequence below 0")


MATRIX_RULES = (parts_are_in_order, matrices_are_initialized_once, matrices_are_destroyed_once, matrices_are_accessed,
                matrices_are_accessed_while_they_are_there)
COMPRESSION_RULES = (compressed_matrices_are_decompressed, decompressed_matrices_were_compressed,
                     signs_are_kept_for_rectifiers_only)
