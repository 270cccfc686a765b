"""The checker's rules for the commands of components, and for the times at which matrices and variables are used.

Also those for compression and debug info. Kaldi: ``ComputationChecker``: the cases kPropagate and kBackprop of
CheckComputationIndexes; CheckComputationMatrixAccesses, -Compression, -Undefined, -DebugInfo, -Rewrite.
"""
from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import READ
from nnet3py.compiler.check_arguments import Subject
from nnet3py.compiler.computation import BACKPROPS, NO_OPERATIONS, SIZING, CommandType
from nnet3py.components.base import Component, Properties
from nnet3py.components.registry import PRECOMPUTED_MODULES, PRECOMPUTED_SUFFIX
from nnet3py.errors import ShapeError


class _ComponentCommands(NamedTuple):
    """The propagate or backprop commands of one type, as columns of their arguments, int64 (commands,) each.

    Sub-matrix 0 stands for a matrix that the command lacks.
    """

    kind: CommandType
    numbers: np.ndarray
    component: np.ndarray
    precomputed: np.ndarray
    x: np.ndarray
    y: np.ndarray
    dy: np.ndarray
    dx: np.ndarray
    memo: np.ndarray

    @property
    def is_backprop(self) -> bool:
        return self.kind in BACKPROPS

    def at_input(self) -> np.ndarray:
        """Return the sub-matrix of the input value, or where that is 0, of the input derivative."""
        return np.where(self.x > 0, self.x, self.dx)

    def at_output(self) -> np.ndarray:
        """Return the sub-matrix of the output (propagate commands), or of the output derivative (backprop commands)."""
        return self.dy if self.is_backprop else self.y


def _component_commands(subject: Subject) -> Iterator[_ComponentCommands]:
    for kind in (CommandType.PROPAGATE, *BACKPROPS):
        numbers, args = subject.table.numbers[kind], subject.table.args[kind]
        if len(numbers) and kind == CommandType.PROPAGATE:
            none = np.zeros_like(numbers)
            yield _ComponentCommands(kind, numbers, args[:, 0], args[:, 1], args[:, 2], args[:, 3], none, none,
                                     args[:, 4])
        elif len(numbers):
            yield _ComponentCommands(kind, numbers, *args[:, :7].T)


def components_have_output(subject: Subject) -> None:
    """Require an output or an output derivative for every component; and an input, if it reads one."""
    reads_input = _read_input(subject)
    for commands in _component_commands(subject):
        subject.require(commands.kind, commands.at_output() > 0, "the component has no output")
        if not commands.is_backprop:
            subject.require(commands.kind, (commands.x > 0) | ~reads_input[commands.component],
                            "the component has no input")


def columns_are_the_components(subject: Subject) -> None:
    """Require that values and derivatives have as many columns as the component's input or output."""
    for commands in _component_commands(subject):
        for matrices, dims in ((commands.x, subject.input_dim), (commands.dx, subject.input_dim),
                               (commands.y, subject.output_dim), (commands.dy, subject.output_dim)):
            fine = (matrices == 0) | (subject.cols[matrices] == dims[commands.component])
            subject.require(commands.kind, fine, "a matrix has other columns than the component")


def simple_components_keep_rows(subject: Subject) -> None:
    """Require that a simple component has as many rows of output as of input."""
    for commands in _component_commands(subject):
        x, y = commands.at_input(), commands.at_output()
        fine = (subject.rows[x] == subject.rows[y]) | (x == 0) | ~subject.has(commands.component, Properties.SIMPLE)
        subject.require(commands.kind, fine, "a simple component has other rows of input than of output")


def derivatives_have_the_rows_of_values(subject: Subject) -> None:
    """Require that a derivative has as many rows as its value."""
    for commands in _component_commands(subject):
        for value, deriv in ((commands.x, commands.dx), (commands.y, commands.dy)):
            fine = (value == 0) | (deriv == 0) | (subject.rows[value] == subject.rows[deriv])
            subject.require(commands.kind, fine, "a value and its derivative have different rows")


def precomputed_indexes_are_the_components(subject: Subject) -> None:
    """Require precomputed indexes of the component's own type, and none for components that precompute nothing."""
    wanted = [type(component).__name__ + PRECOMPUTED_SUFFIX if _precomputes(component) else "NoneType"
              for component in subject.nnet.components]
    types = [type(indexes).__name__ for indexes in subject.computation.precomputed_indexes]
    for commands in _component_commands(subject):
        fine = [wanted[component] == types[entry] for component, entry in
                zip(commands.component.tolist(), commands.precomputed.tolist(), strict=True)]
        subject.require(commands.kind, np.array(fine, bool), "the precomputed indexes are of another component type")


def precomputed_indexes_fit(subject: Subject) -> None:
    """Require that precomputed indexes refer to existing rows."""
    for commands in _component_commands(subject):
        at_input, at_output = commands.at_input(), commands.at_output()
        places = np.flatnonzero((commands.precomputed > 0) & (at_input > 0))
        uses = np.stack([column[places] for column in (
            commands.component, commands.precomputed, subject.rows[at_input], subject.cols[at_input],
            subject.rows[at_output], subject.cols[at_output])], axis=1)
        first: dict[tuple[int, ...], int] = {}      # the first command with each combination of component and sizes
        for use, i in zip(map(tuple, uses.tolist()), places.tolist(), strict=True):
            first.setdefault(use, i)
        for use, i in first.items():
            component, precomputed = subject.nnet.components[use[0]], subject.computation.precomputed_indexes[use[1]]
            x, y = SimpleNamespace(shape=use[2:4]), SimpleNamespace(shape=use[4:6])
            try:
                component.check_precomputed(precomputed, x, y, commands.is_backprop)
            except ShapeError as error:
                subject.fail(error.message, int(commands.numbers[i]))


def _read_input(subject: Subject) -> np.ndarray:
    """Return for each component whether it needs an input: not if it is general and precomputes nothing."""
    return np.array([_precomputes(component) or component.has(Properties.SIMPLE)
                     for component in subject.nnet.components], bool)


def _precomputes(component: Component) -> bool:
    return type(component).__name__ + PRECOMPUTED_SUFFIX in PRECOMPUTED_MODULES


def propagation_in_place_is_allowed(subject: Subject) -> None:
    """Require that input and output share no element, or are the same for a component that can work in place."""
    for commands in _component_commands(subject):
        if not commands.is_backprop:
            allowed = subject.has(commands.component, Properties.PROPAGATE_IN_PLACE)
            fine = ~subject.overlap(commands.x, commands.y) | allowed & subject.same_place(commands.x, commands.y)
            subject.require(commands.kind, fine, "this component cannot propagate in place")


def backprop_in_place_is_allowed(subject: Subject) -> None:
    """Require that the input derivative overlaps only the output derivative, for a component that can work in place."""
    for commands in _component_commands(subject):
        if commands.is_backprop:
            dx, dy = commands.dx, commands.dy
            allowed = subject.has(commands.component, Properties.BACKPROP_IN_PLACE)
            fine = ~subject.overlap(dx, dy) | allowed & subject.same_place(dx, dy)
            subject.require(commands.kind, fine, "this component cannot backpropagate in place")
            fine = ~subject.overlap(dx, commands.x) & ~subject.overlap(dx, commands.y)
            subject.require(commands.kind, fine, "the derivative is written over a value that is needed")


def backprop_has_the_values_it_needs(subject: Subject) -> None:
    """Require the values that the component's properties ask for in backprop."""
    reads_input = _read_input(subject)
    for commands in _component_commands(subject):
        if commands.is_backprop:
            needs_input = (subject.has(commands.component, Properties.BACKPROP_NEEDS_INPUT)
                           & reads_input[commands.component])
            needs_output = subject.has(commands.component, Properties.BACKPROP_NEEDS_OUTPUT)
            fine = (~needs_input | (commands.x > 0)) & (~needs_output | (commands.y > 0))
            subject.require(commands.kind, fine, "the component needs a value for its backprop that is not given")


def backprop_has_an_effect(subject: Subject) -> None:
    """Require that backprop sets an input derivative, or updates the component."""
    for commands in _component_commands(subject):
        if commands.is_backprop:
            fine = (commands.dx > 0) | subject.has(commands.component, Properties.UPDATABLE)
            subject.require(commands.kind, fine, "Backprop is done but has no effect.")


def contiguous_matrices_have_all_columns(subject: Subject) -> None:
    """Require whole rows of a matrix where a component treats the matrix as one contiguous vector."""
    for commands in _component_commands(subject):
        for flag, matrices in ((Properties.INPUT_CONTIGUOUS, (commands.x, commands.dx)),
                               (Properties.OUTPUT_CONTIGUOUS, (commands.y, commands.dy))):
            for s in matrices:
                whole = subject.cols[s] == subject.sizes[subject.matrix_of[s], 1]
                subject.require(commands.kind, whole | ~subject.has(commands.component, flag),
                                "the component wants rows that follow each other without gaps")


def memos_are_made_once_and_used_once(subject: Subject) -> None:
    """Require that each memo is made by one propagate command and used by one later backprop of the same component.

    Both commands have the same output rows and precomputed indexes, which determine the memo's size.
    """
    everything = list(_component_commands(subject))
    forward = [commands for commands in everything if not commands.is_backprop]
    waiting: dict[int, tuple[int, ...]] = {}        # memo -> its command, component, precomputed indexes, rows
    for c, memo, *same in _memos(subject, forward):
        if memo and memo in waiting:
            subject.fail(f"memo {memo} is made twice", c)
        waiting[memo] = (c, *same)
    uses_memo = subject.flags & int(Properties.USES_MEMO) != 0
    for c, memo, *same in sorted(_memos(subject, [access for access in everything if access.is_backprop])):
        if memo != 0 or uses_memo[same[0]]:
            maker = waiting.pop(memo, (c,)) if memo else (c,)
            if maker[0] >= c or list(maker[1:]) != same or not uses_memo[same[0]]:
                subject.fail(f"memo {memo} was not made by this component, not for these rows, or was used before", c)
    waiting.pop(0, None)
    if waiting:
        memo = min(waiting)
        subject.fail(f"memo {memo} is made and never used", waiting[memo][0])


def _memos(subject: Subject, everything: list[_ComponentCommands]) -> Iterator[tuple[int, ...]]:
    """Yield command, memo, component, precomputed indexes and output rows, for commands that have or need a memo."""
    for commands in everything:
        wants = subject.has(commands.component, Properties.USES_MEMO) | (commands.memo > 0)
        columns = (commands.numbers, commands.memo, commands.component, commands.precomputed,
                   subject.rows[commands.at_output()])
        yield from zip(*(column[wants].tolist() for column in columns), strict=True)


COMPONENT_RULES = (
    components_have_output, columns_are_the_components, simple_components_keep_rows,
    derivatives_have_the_rows_of_values, precomputed_indexes_are_the_components, precomputed_indexes_fit,
    propagation_in_place_is_allowed, backprop_has_the_values_it_needs, backprop_has_an_effect,
    backprop_in_place_is_allowed, contiguous_matrices_have_all_columns, memos_are_made_once_and_used_once)


TAIL = 0.8     # rows from this fraction of a matrix on may be padding of extend_matrices, which nobody uses


# -- matrices ----------------------------------------------------------------------------------------------------------


def matrices_are_initialized_once(subject: Subject) -> None:
    """Require that every matrix is allocated, swapped in or accepted once; inputs may be accepted again."""
    analysis, args = subject.analysis, subject.analysis.table.args
    _require_once(subject, np.concatenate((args[CommandType.ALLOC_MATRIX][:, 0], args[CommandType.SWAP_MATRIX][:, 0])),
                  "is initialized twice")
    _require_matrices(subject, analysis.allocated >= 0, "is not initialized")


def matrices_are_destroyed_once(subject: Subject) -> None:
    """Require that no matrix is freed or swapped away twice, nor before it is initialized."""
    analysis, args = subject.analysis, subject.analysis.table.args
    _require_once(subject, np.concatenate((args[CommandType.DEALLOC_MATRIX][:, 0],
                                           args[CommandType.SWAP_MATRIX][:, 1])), "is destroyed twice")
    _require_matrices(subject, (analysis.freed < 0) | (analysis.freed > analysis.allocated),
                      "is destroyed before it is there", analysis.freed)


def matrices_are_accessed(subject: Subject) -> None:
    """Require that every matrix is used, except in a looped computation."""
    if not subject.is_looped:
        _require_matrices(subject, subject.analysis.last_of_matrices() >= 0, "is never accessed",
                          subject.analysis.allocated)


def matrices_are_accessed_while_they_are_there(subject: Subject) -> None:
    """Require that no matrix is used before it is initialized, nor after it is destroyed."""
    analysis = subject.analysis
    first, last = analysis.first_of_matrices(), analysis.last_of_matrices()
    _require_matrices(subject, first >= analysis.allocated, "is accessed before it is initialized", first)
    freed = np.where(analysis.freed < 0, analysis.num_commands, analysis.freed)
    _require_matrices(subject, last < freed, "is accessed after it is destroyed", last)


def _require_once(subject: Subject, s: np.ndarray, what: str) -> None:
    twice = np.flatnonzero(np.bincount(subject.matrix_of[s], minlength=1) > 1)
    if len(twice):
        subject.fail(f"matrix m{twice[0]} {what}")


def _require_matrices(subject: Subject, fine: np.ndarray, what: str, commands: np.ndarray | None = None) -> None:
    """Fail for the first matrix where ``fine`` is false; the error names its command in ``commands``, if given."""
    wrong = np.flatnonzero(~fine[1:])
    if len(wrong):
        m = int(wrong[0]) + 1
        subject.fail(f"matrix m{m} {what}", None if commands is None else int(commands[m]))


# -- the parts of a computation ----------------------------------------------------------------------------------------

_SIZING = (*SIZING, *NO_OPERATIONS, CommandType.NO_OPERATION_LABEL)


def parts_are_in_order(subject: Subject) -> None:
    """Require that forward commands come first, a marker ends those of each segment, and backward ones follow.

    Every segment has inputs and outputs. Forward commands are propagation, and accepting and providing
    values; backward commands are backpropagation, and accepting and providing derivatives. The backward part begins
    with accepting an output derivative.
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
    """Return the accept or provide commands (``kind``), and for each whether its matrix holds input values, bool."""
    nodes = subject.table.args[kind][:, 1].tolist()
    return subject.table.numbers[kind], np.array([not subject.nnet.is_output(node) for node in nodes], bool)


# -- compression -------------------------------------------------------------------------------------------------------


def compressed_matrices_are_decompressed(subject: Subject) -> None:
    """Require that a compressed matrix is next used by a decompress command, after the marker."""
    commands = subject.computation.commands
    markers = subject.table.numbers[CommandType.NO_OPERATION_MARKER]
    for c, m, later in _compressions(subject):
        if not len(later) or commands[later[0]].type != CommandType.DECOMPRESS_MATRIX:
            subject.fail(f"matrix m{m} is not decompressed before it is used", c)
        if not ((markers > c) & (markers < later[0])).any():
            subject.fail(f"matrix m{m} is compressed and decompressed in the same pass", c)


def decompressed_matrices_were_compressed(subject: Subject) -> None:
    """Require that a decompressed matrix was last used by a compress command."""
    accesses, commands = subject.analysis.matrix_accesses, subject.computation.commands
    for c in subject.table.numbers[CommandType.DECOMPRESS_MATRIX].tolist():
        m = int(subject.matrix_of[commands[c].args[0]])
        earlier = accesses.of(m)[0]
        earlier = earlier[earlier < c]
        if not len(earlier) or commands[earlier[-1]].type != CommandType.COMPRESS_MATRIX:
            subject.fail(f"matrix m{m} is decompressed without having been compressed", c)


def signs_are_kept_for_rectifiers_only(subject: Subject) -> None:
    """Require that a matrix compressed to signs is used by a RectifiedLinearComponent's backprop only."""
    commands = subject.computation.commands
    for c, m, later in _compressions(subject):
        if commands[c].alpha == 0.0:
            last = commands[later[-1]]
            is_rectifier = last.type in BACKPROPS and type(
                subject.nnet.components[last.args[0]]).__name__ == "RectifiedLinearComponent"
            if len(later) != 2 or not is_rectifier:
                subject.fail(f"matrix m{m} is compressed to signs, but not only a RectifiedLinearComponent uses it", c)


def _compressions(subject: Subject) -> list[tuple[int, int, np.ndarray]]:
    """Return for every compress command its number, its matrix, and the later commands on the matrix."""
    compressed = []
    for c in subject.table.numbers[CommandType.COMPRESS_MATRIX].tolist():
        m = int(subject.matrix_of[subject.computation.commands[c].args[0]])
        touched = subject.analysis.matrix_accesses.of(m)[0]
        compressed.append((c, m, touched[touched > c]))
    return compressed


# -- variables ---------------------------------------------------------------------------------------------------------


def variables_are_defined_before_use(subject: Subject) -> None:
    """Require that the first command on a variable writes it."""
    first, just_writes = subject.analysis.first_of_all_variables
    types = np.append(subject.analysis.table.types, CommandType.COMPRESS_MATRIX)       # the last one stands for no use
    wrong = np.flatnonzero(~just_writes & (types[first] != CommandType.COMPRESS_MATRIX))
    if len(wrong):
        variable = subject.analysis.variables.text(int(wrong[0]))
        subject.fail(f"variable {variable} is undefined when it is first used", int(first[wrong[0]]))


def variables_are_used(subject: Subject) -> None:
    """Require that some command uses every variable, except in a loop and except for padding at a matrix's end."""
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
    """Require that a variable is not changed after a command that only reads it. True before optimization."""
    accesses = subject.analysis.accesses
    first_read = accesses.first(accesses.kinds == READ, subject.analysis.num_commands)
    changed = np.flatnonzero((accesses.kinds != READ) & (accesses.commands > first_read[accesses.owners]))
    if len(changed):
        variable = subject.analysis.variables.text(int(accesses.owners[changed[0]]))
        subject.fail(f"variable {variable} is modified after being read", int(accesses.commands[changed[0]]))


# -- debug info --------------------------------------------------------------------------------------------------------


def debug_info_fits(subject: Subject) -> None:
    """Require debug info for every matrix and each of its rows, with sequences numbered from 0."""
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
