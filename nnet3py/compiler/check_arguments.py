"""The checker's first rules: everything that a command refers to exists, and its arguments fit each other.

Kaldi: ``ComputationChecker::CheckComputationIndexes``, and some rules of our own for computations from files.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import (
    BACKPROPS,
    COMMANDS,
    MATRIX_COPIES,
    NUM_ARGS,
    PAIR_COPIES,
    ROW_COPIES,
    SUBMATRIX_ROLES,
    CommandPrinter,
    CommandType,
    Computation,
    Role,
    command,
)
from nnet3py.compiler.tables import (
    CommandTable,
    command_table,
    greatest,
    least,
    matrix_sizes,
    submatrix_table,
    whole_submatrices,
)
from nnet3py.components.base import Properties
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet


class Subject:
    """A computation and its network, with the arrays that several rules use, each made at its first use.

    Attributes
    ----------
    rows, cols : int64 (sub-matrices,), number of rows and columns
    flags : int64 (components,), the properties of each component
    input_dim, output_dim : int64 (components,)
    after : the name of the pass that made the computation, for error messages
    """

    def __init__(self, computation: Computation, nnet: Nnet, after: str = "") -> None:
        self.computation, self.nnet, self.after = computation, nnet, after
        self.rule = ""
        self.is_looped = any(last.type == CommandType.GOTO_LABEL for last in computation.commands[-1:])
        self.flags = np.array([int(component.properties) for component in nnet.components], np.int64)
        self.input_dim = np.array([component.input_dim for component in nnet.components], np.int64)
        self.output_dim = np.array([component.output_dim for component in nnet.components], np.int64)

    def apply(self, rule: Callable[[Subject], None]) -> None:
        """Raise CheckError if a rule is broken; the error names the rule by its function's name, with hyphens."""
        self.rule = rule.__name__.replace("_", "-")
        rule(self)

    # -- arrays ----------------------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> CommandTable:
        return command_table(self.computation)

    @cached_property
    def submatrices(self) -> np.ndarray:
        """The sub-matrices, int64 (sub-matrices, 5), in the order of SubMatrix's fields."""
        return submatrix_table(self.computation)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows and columns of the matrices, int64 (matrices, 2)."""
        return matrix_sizes(self.computation)

    @cached_property
    def matrix_of(self) -> np.ndarray:
        return self.submatrices[:, 0]

    @cached_property
    def rows(self) -> np.ndarray:
        return self.submatrices[:, 2]

    @cached_property
    def cols(self) -> np.ndarray:
        return self.submatrices[:, 4]

    @cached_property
    def is_whole(self) -> np.ndarray:
        """For each sub-matrix whether it is all of its matrix, bool (sub-matrices,)."""
        return whole_submatrices(self.computation)

    @cached_property
    def analysis(self) -> Analysis:
        """The uses of matrices; in a looped computation, the swaps at its end are treated as in one round of the loop.

        Such a swap moves the contents of a matrix, which is then free, to a matrix that the next round uses.
        """
        if not self.is_looped:
            return Analysis(self.computation, self.nnet)
        straight = self.computation.copy()
        for c in range(len(straight.commands) - 2, -1, -1):
            swap = straight.commands[c]
            if swap.type != CommandType.SWAP_MATRIX:
                break
            straight.commands[c] = command(CommandType.DEALLOC_MATRIX, swap.args[1])
        return Analysis(straight, self.nnet)

    def has(self, components: np.ndarray, flag: Properties) -> np.ndarray:
        """Return for each of the components (int) whether it has this property, bool."""
        return np.asarray(self.flags[components] & int(flag) != 0)

    # -- comparing sub-matrices ------------------------------------------------------------------------------------

    def same_place(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return for each pair of sub-matrices whether they are the same elements, bool."""
        return np.asarray((self.submatrices[a] == self.submatrices[b]).all(axis=1) & (a > 0))

    def overlap(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return for each pair of sub-matrices whether they have elements in common, bool."""
        first, second = self.submatrices[a], self.submatrices[b]
        common = (first[:, 0] == second[:, 0]) & (a > 0) & (b > 0)
        for offset in (1, 3):
            end = np.minimum(first[:, offset] + first[:, offset + 1], second[:, offset] + second[:, offset + 1])
            common &= np.maximum(first[:, offset], second[:, offset]) < end
        return np.asarray(common)

    # -- errors ----------------------------------------------------------------------------------------------------

    def require(self, kind: CommandType, fine: np.ndarray, what: str) -> None:
        """Fail for the first command of a type where ``fine``, bool (commands of the type,), is false."""
        if not fine.all():
            self.fail(what, int(self.table.numbers[kind][np.argmin(fine)]))

    def fail(self, what: str, c: int | None = None) -> NoReturn:
        """Raise CheckError with the fault ``what``, command ``c``, the rule, and the pass that made the computation."""
        where = "" if c is None else f" in command {self._text(c)}"
        after_pass = f" after {self.after}" if self.after else ""
        raise CheckError(f"{what}{where} [rule {self.rule}{after_pass}]", rule=self.rule, command=c, after=self.after)

    def _text(self, c: int) -> str:
        """Return command ``c`` as text: as in a listing, or if that fails, its number, name and arguments."""
        shown = self.computation.commands[c]
        try:
            return CommandPrinter(self.computation, self.nnet).line(c).strip()
        except (IndexError, KeyError, ValueError, TypeError, AttributeError):      # its arguments make no sense
            return f"c{c}: {shown.type!r}{tuple(shown.args)}"


# -- rules -------------------------------------------------------------------------------------------------------------


LARGEST_RANGE = 1000.0      # of values in a compressed matrix
UINT8 = 2                   # the form of compression that may keep signs only
INT32 = np.iinfo(np.int32)


# -- existence ---------------------------------------------------------------------------------------------------------


def commands_have_seven_arguments(subject: Subject) -> None:
    """Require that every command is of a known type, with seven integers and a finite factor."""
    commands = subject.computation.commands
    if not ({type(command[0]) for command in commands} <= {CommandType}
            and {len(command[2]) for command in commands} <= {NUM_ARGS}):
        c = next(c for c, command in enumerate(commands)
                 if (type(command.type), len(command.args)) != (CommandType, NUM_ARGS))
        subject.fail(f"command c{c} is {tuple(commands[c])}, expected a type, a factor and {NUM_ARGS} arguments")
    rows = subject.table.rows
    if rows.min(initial=0) < INT32.min or rows.max(initial=0) > INT32.max:
        wrong = ((rows < INT32.min) | (rows > INT32.max)).any(axis=1)
        subject.fail("an argument is no 32-bit integer", int(np.argmax(wrong)))
    if not np.isfinite(subject.table.alphas).all():
        subject.fail("the factor by which rows are multiplied is not finite",
                     int(np.argmin(np.isfinite(subject.table.alphas))))


def submatrices_lie_in_their_matrices(subject: Subject) -> None:
    """Require that every sub-matrix but the first has elements, all of them in its matrix."""
    sizes, subs = subject.sizes, subject.submatrices
    if not len(sizes) or not len(subs) or sizes[0].any() or subs[0].any():
        subject.fail("expected a first matrix and a first sub-matrix that are empty")
    if not subject.computation.precomputed_indexes or subject.computation.precomputed_indexes[0] is not None:
        subject.fail("entry 0 of the precomputed indexes is not empty")
    if (sizes[1:] < 1).any():
        subject.fail(f"matrix m{1 + int(np.argmax((sizes[1:] < 1).any(axis=1)))} has no elements")
    exists = (subs >= 0).all(axis=1) & (subs[:, 0] < len(sizes))
    matrix = np.where(exists, subs[:, 0], 0)
    inside = exists & (subs[:, 1] + subs[:, 2] <= sizes[matrix, 0]) & (subs[:, 3] + subs[:, 4] <= sizes[matrix, 1])
    inside[1:] &= (subs[1:, 0] > 0) & (subs[1:, 2] > 0) & (subs[1:, 4] > 0)
    if not inside.all():
        s = int(np.argmin(inside))
        subject.fail(f"{subject.computation.submatrices[s]}, number {s}, is empty or reaches beyond its matrix")


def index_lists_are_lists_of_rows(subject: Subject) -> None:
    """Require that the index lists have one or two columns, and no numbers below -1."""
    computation = subject.computation
    for name, entries, dims in (("indexes", computation.indexes, 1), ("indexes_multi", computation.indexes_multi, 2),
                                ("indexes_ranges", computation.indexes_ranges, 2)):
        for number, entry in enumerate(entries):
            if entry.ndim != dims or entry.dtype.kind != "i" or (dims == 2 and entry.shape[1] != 2):
                subject.fail(f"entry {number} of {name} has shape {entry.shape} and type {entry.dtype}, expected "
                             f"integers of shape {'(rows,)' if dims == 1 else '(rows, 2)'}")
        too_small = least(entries) < -1
        if too_small.any():
            subject.fail(f"entry {int(np.argmax(too_small))} of {name} has a number below -1")


def arguments_exist(subject: Subject) -> None:
    """Require that every argument is the number of an existing matrix, component, list of rows and so on."""
    computation = subject.computation
    limits = {Role.COMPONENT: len(subject.nnet.components), Role.PRECOMPUTED: len(computation.precomputed_indexes),
              Role.NODE: len(subject.nnet.nodes), Role.ROWS: len(computation.indexes), Role.FLAG: 2,
              Role.READ_PAIRS: len(computation.indexes_multi), Role.CHANGED_PAIRS: len(computation.indexes_multi),
              Role.RANGES: len(computation.indexes_ranges), Role.COMMAND: len(computation.commands),
              Role.COMPRESSION: 5, Role.MEMO: INT32.max}
    for kind, args in _arguments(subject):
        optional = kind == CommandType.PROPAGATE or kind in BACKPROPS      # 0: no matrix
        for place, role in enumerate(COMMANDS[kind].roles):
            column = args[:, place]
            if role in SUBMATRIX_ROLES:
                fine = (column >= (0 if optional else 1)) & (column < len(subject.submatrices))
                subject.require(kind, fine, f"argument {place + 1} is not a sub-matrix")
            else:
                subject.require(kind, (column >= 0) & (column < limits[role]),
                                f"argument {place + 1} is out of range")


def _arguments(subject: Subject, *kinds: CommandType) -> Iterator[tuple[CommandType, np.ndarray]]:
    """Yield the types of which there are commands, and these commands' arguments, int64 (commands, 7)."""
    for kind in kinds or COMMANDS:
        if len(subject.table.numbers[kind]):
            yield kind, subject.table.args[kind]


# -- whole matrices and exchange ---------------------------------------------------------------------------------------


def whole_matrices_are_sized_and_exchanged(subject: Subject) -> None:
    """Require whole matrices in commands that allocate, free, swap, accept, provide and compress."""
    for kind, args in _arguments(subject):
        if COMMANDS[kind].whole:
            for place, role in enumerate(COMMANDS[kind].roles):
                if role in SUBMATRIX_ROLES:
                    subject.require(kind, subject.is_whole[args[:, place]],
                                    f"argument {place + 1} is not a whole matrix")


def swapped_matrices_have_one_size(subject: Subject) -> None:
    """Require that a matrix is swapped with another one of its size."""
    for kind, args in _arguments(subject, CommandType.SWAP_MATRIX):
        first, second = args[:, 0], args[:, 1]
        fine = (subject.rows[first] == subject.rows[second]) & (subject.cols[first] == subject.cols[second])
        subject.require(kind, fine & (subject.matrix_of[first] != subject.matrix_of[second]),
                        "the two matrices have different sizes, or are the same")


def exchange_is_of_inputs_and_outputs(subject: Subject) -> None:
    """Require that a node whose matrix is accepted or provided is of a suitable kind, and has the matrix's columns."""
    nnet = subject.nnet
    for kind, args in _arguments(subject, CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT):
        nodes = args[:, 1].tolist()
        subject.require(kind, np.array([nnet.is_input(node) or nnet.is_component(node) or nnet.is_output(node)
                                        for node in nodes], bool),
                        "the node is neither an input nor an output, nor a component's")
        dims = np.array([nnet.node_dim(node) for node in nodes], np.int64)
        subject.require(kind, dims == subject.cols[args[:, 0]], "the node has another number of columns")


def compression_has_a_form(subject: Subject) -> None:
    """Require that compress commands have a valid type, and a range from 0 to 1000; 0 only for uint8."""
    for kind, args in _arguments(subject, CommandType.COMPRESS_MATRIX):
        alpha, form = subject.table.alphas[subject.table.numbers[kind]], args[:, 1]
        fine = (form >= 1) & (alpha >= 0.0) & (alpha <= LARGEST_RANGE) & ((alpha > 0.0) | (form == UINT8))
        subject.require(kind, fine, "wrong form or range of compression")


def jump_comes_last(subject: Subject) -> None:
    """Require that a jump is the last command, and leads to a label."""
    commands = subject.computation.commands
    for kind, args in _arguments(subject, CommandType.GOTO_LABEL):
        labels = [commands[target].type == CommandType.NO_OPERATION_LABEL for target in args[:, 0].tolist()]
        subject.require(kind, (subject.table.numbers[kind] == len(commands) - 1) & np.array(labels),
                        "a jump must be the last command and lead to a label")


# -- copies and sums ---------------------------------------------------------------------------------------------------


def copied_matrices_have_one_size(subject: Subject) -> None:
    """Require that a matrix is copied or added to one of its size; rows to a matrix with as many columns."""
    for kind, args in _arguments(subject, *MATRIX_COPIES, *ROW_COPIES, CommandType.ADD_ROW_RANGES):
        target, source = args[:, 0], args[:, 1]
        fine = subject.cols[target] == subject.cols[source]
        if kind in MATRIX_COPIES:
            fine &= subject.rows[target] == subject.rows[source]
        subject.require(kind, fine, "the sizes of the matrices differ")


def nothing_is_copied_to_itself(subject: Subject) -> None:
    """Require that the source of a copy or addition shares no element with its target, except when scaling in place."""
    for kind, args in _arguments(subject, *MATRIX_COPIES, *ROW_COPIES, CommandType.ADD_ROW_RANGES):
        target, source = args[:, 0], args[:, 1]
        fine = ~subject.overlap(target, source)
        if kind == CommandType.MATRIX_COPY:
            fine |= subject.same_place(target, source) & (subject.table.alphas[subject.table.numbers[kind]] != 1.0)
        subject.require(kind, fine, "a matrix is copied or added to itself")


def row_numbers_fit(subject: Subject) -> None:
    """Require for each row the number of a row of the source, or -1."""
    lengths = np.array([len(entry) for entry in subject.computation.indexes], np.int64)
    last = greatest(subject.computation.indexes)
    for kind, args in _arguments(subject, *ROW_COPIES):
        target, source, entry = args[:, :3].T
        subject.require(kind, lengths[entry] == subject.rows[target], "the number of rows differs")
        subject.require(kind, last[entry] < subject.rows[source], "a row number is beyond the source")


def row_ranges_fit(subject: Subject) -> None:
    """Require for each row a range of rows of the source, or (-1, -1)."""
    for kind, args in _arguments(subject, CommandType.ADD_ROW_RANGES):
        for c, (target, source, entry) in zip(subject.table.numbers[kind].tolist(), args[:, :3].tolist(), strict=True):
            begin, end = subject.computation.indexes_ranges[entry].T
            if len(begin) != subject.rows[target]:
                subject.fail("the number of rows differs", c)
            if not (((begin == -1) & (end == -1))
                    | ((begin >= 0) & (begin < end) & (end <= subject.rows[source]))).all():
                subject.fail("a range lies outside of the source", c)


def pairs_fit(subject: Subject) -> None:
    """Require for each row a pair that refers to a row of another sub-matrix with as many columns, or (-1, -1)."""
    for _, s, c, pairs, row in _pairs(subject):
        partner, number = np.where(pairs[:, 0] < 0, 0, pairs[:, 0]), pairs[:, 1]
        none = (pairs == -1).all(axis=1)
        exists = none | ((pairs[:, 0] > 0) & (pairs[:, 0] < len(subject.submatrices)) & (number >= 0))
        _require_pairs(subject, exists, c, "a pair refers to no sub-matrix")
        fits = none | (number < subject.rows[partner]) & (subject.cols[partner] == subject.cols[s])
        _require_pairs(subject, fits, c, "a pair refers to a row that does not exist or has other columns")
        own, others = subject.submatrices[s], subject.submatrices[partner]
        itself = (own[:, 0] == others[:, 0]) & (own[:, 1] + row == others[:, 1] + number)
        itself |= subject.overlap(s, partner) & (others[:, 1] + number >= own[:, 1]) & (
            others[:, 1] + number < own[:, 1] + own[:, 2])
        _require_pairs(subject, none | ~itself | ~subject.overlap(s, partner), c, "a row is copied or added to itself")


def changed_rows_are_distinct(subject: Subject) -> None:
    """Require that a command that writes rows of other matrices writes no row twice, and copies without a factor."""
    for kind, _, c, pairs, _ in _pairs(subject):
        if COMMANDS[kind].roles[1] != Role.CHANGED_PAIRS:
            continue
        real = pairs[:, 0] > 0
        place = subject.submatrices[pairs[real, 0]]
        keys = np.stack((c[real], place[:, 0], place[:, 1] + pairs[real, 1], place[:, 3]))
        order = np.lexsort(keys)
        again = np.flatnonzero((np.diff(keys[:, order]) == 0).all(axis=0))
        if len(again):
            subject.fail("the same row is changed twice", int(keys[0, order[again[0]]]))
        if kind == CommandType.COPY_TO_ROWS_MULTI:
            alphas = subject.table.alphas[subject.table.numbers[kind]]
            subject.require(kind, alphas == 1.0, "this command has no factor")


def _pairs(subject: Subject) -> Iterator[tuple[CommandType, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield for each type of commands with pairs: the type, and four arrays with an element for each pair.

    The arrays: the command's own sub-matrix, the number of the command, the pair (pairs, 2), and the row of the
    command's sub-matrix that the pair belongs to.
    """
    for kind, args in _arguments(subject, *PAIR_COPIES):
        numbers = subject.table.numbers[kind]
        entries = [subject.computation.indexes_multi[entry] for entry in args[:, 1].tolist()]
        lengths = np.array([len(entry) for entry in entries], np.int64)
        subject.require(kind, lengths == subject.rows[args[:, 0]], "the number of rows differs")
        row = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        yield (kind, np.repeat(args[:, 0], lengths), np.repeat(numbers, lengths),
               np.concatenate(entries).astype(np.int64), row)


def _require_pairs(subject: Subject, fine: np.ndarray, c: np.ndarray, what: str) -> None:
    if not fine.all():
        subject.fail(what, int(c[np.argmin(fine)]))


ARGUMENT_RULES = (
    commands_have_seven_arguments, submatrices_lie_in_their_matrices, index_lists_are_lists_of_rows, arguments_exist,
    whole_matrices_are_sized_and_exchanged, swapped_matrices_have_one_size)
COPY_RULES = (
    copied_matrices_have_one_size, nothing_is_copied_to_itself, row_numbers_fit, pairs_fit, changed_rows_are_distinct,
    row_ranges_fit, compression_has_a_form, exchange_is_of_inputs_and_outputs, jump_comes_last)
