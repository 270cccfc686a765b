"""The computation: a list of commands, the lists that their arguments refer to, and Kaldi's text for them. Data only.

``COMMANDS`` declares each command type once, with the role of every argument; printing, analysis, checking and binding
derive from it. One type is not Kaldi's: FUSED, for several commands that one call runs (compiler/fuse/).

Kaldi: ``NnetComputation``, ``CommandType`` (nnet-computation.h).
"""
from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from nnet3py.components.base import Precomputed
from nnet3py.index import format_cindexes, format_integers, shorten
from nnet3py.provided import Shown

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet


# -- command types -----------------------------------------------------------------------------------------------------


NUM_ARGS = 7


class CommandType(IntEnum):
    """The types of commands; the numbers are those of Kaldi's files, which never hold the last type."""

    ALLOC_MATRIX = 0
    DEALLOC_MATRIX = 1
    SWAP_MATRIX = 2
    SET_CONST = 3
    PROPAGATE = 4
    BACKPROP = 5
    BACKPROP_NO_MODEL_UPDATE = 6
    MATRIX_COPY = 7
    MATRIX_ADD = 8
    COPY_ROWS = 9
    ADD_ROWS = 10
    COPY_ROWS_MULTI = 11
    COPY_TO_ROWS_MULTI = 12
    ADD_ROWS_MULTI = 13
    ADD_TO_ROWS_MULTI = 14
    ADD_ROW_RANGES = 15
    COMPRESS_MATRIX = 16
    DECOMPRESS_MATRIX = 17
    ACCEPT_INPUT = 18
    PROVIDE_OUTPUT = 19
    NO_OPERATION = 20
    NO_OPERATION_PERMANENT = 21
    NO_OPERATION_MARKER = 22
    NO_OPERATION_LABEL = 23
    GOTO_LABEL = 24
    FUSED = 25


class Role(IntEnum):
    """The meaning of a command's argument."""

    SIZE = 0             # sub-matrix covering a whole matrix, which is allocated, freed or swapped
    READ = 1             # sub-matrix that is read
    WRITE = 2            # sub-matrix of which every element is set
    READ_WRITE = 3       # sub-matrix that is changed
    PROPAGATED = 4       # sub-matrix written by a component: changed if the component adds (PROPAGATE_ADDS)
    BACKPROPAGATED = 5   # sub-matrix written by a component: changed if the component adds (BACKPROP_ADDS)
    COMPONENT = 6        # number of a component
    PRECOMPUTED = 7      # entry of precomputed_indexes, 0 for none
    MEMO = 8             # number of a memo, 0 for none
    FLAG = 9             # 0 or 1
    NODE = 10            # number of a node
    ROWS = 11            # entry of indexes
    READ_PAIRS = 12      # entry of indexes_multi whose (sub-matrix, row) are read
    CHANGED_PAIRS = 13   # entry of indexes_multi whose (sub-matrix, row) are changed
    RANGES = 14          # entry of indexes_ranges
    COMPRESSION = 15     # 1 int8, 2 uint8, 3 int16, 4 uint16
    COMMAND = 16         # number of a command
    PARTS = 17           # entry of parts: the commands that a fused one stands for


SUBMATRIX_ROLES = frozenset((Role.SIZE, Role.READ, Role.WRITE, Role.READ_WRITE, Role.PROPAGATED, Role.BACKPROPAGATED))
PAIR_ROLES = (Role.READ_PAIRS, Role.CHANGED_PAIRS)


class CommandInfo(NamedTuple):
    """A command type.

    Attributes
    ----------
    name : Kaldi's name
    roles : the role of each argument
    whole : whether the sub-matrices must be whole matrices
    """

    name: str
    roles: tuple[Role, ...]
    whole: bool = False


_BACKPROP = (Role.COMPONENT, Role.PRECOMPUTED, Role.READ, Role.READ, Role.READ, Role.BACKPROPAGATED, Role.MEMO)

COMMANDS: dict[CommandType, CommandInfo] = {
    CommandType.ALLOC_MATRIX: CommandInfo("kAllocMatrix", (Role.SIZE,), True),
    CommandType.DEALLOC_MATRIX: CommandInfo("kDeallocMatrix", (Role.SIZE,), True),
    CommandType.SWAP_MATRIX: CommandInfo("kSwapMatrix", (Role.SIZE, Role.SIZE), True),
    CommandType.SET_CONST: CommandInfo("kSetConst", (Role.WRITE,)),
    CommandType.PROPAGATE: CommandInfo("kPropagate", (
        Role.COMPONENT, Role.PRECOMPUTED, Role.READ, Role.PROPAGATED, Role.MEMO, Role.FLAG)),
    CommandType.BACKPROP: CommandInfo("kBackprop", _BACKPROP),
    CommandType.BACKPROP_NO_MODEL_UPDATE: CommandInfo("kBackpropNoModelUpdate", _BACKPROP),
    CommandType.MATRIX_COPY: CommandInfo("kMatrixCopy", (Role.WRITE, Role.READ)),
    CommandType.MATRIX_ADD: CommandInfo("kMatrixAdd", (Role.READ_WRITE, Role.READ)),
    CommandType.COPY_ROWS: CommandInfo("kCopyRows", (Role.WRITE, Role.READ, Role.ROWS)),
    CommandType.ADD_ROWS: CommandInfo("kAddRows", (Role.READ_WRITE, Role.READ, Role.ROWS)),
    CommandType.COPY_ROWS_MULTI: CommandInfo("kCopyRowsMulti", (Role.WRITE, Role.READ_PAIRS)),
    CommandType.ADD_ROWS_MULTI: CommandInfo("kAddRowsMulti", (Role.READ_WRITE, Role.READ_PAIRS)),
    CommandType.COPY_TO_ROWS_MULTI: CommandInfo("kCopyToRowsMulti", (Role.READ, Role.CHANGED_PAIRS)),
    CommandType.ADD_TO_ROWS_MULTI: CommandInfo("kAddToRowsMulti", (Role.READ, Role.CHANGED_PAIRS)),
    CommandType.ADD_ROW_RANGES: CommandInfo("kAddRowRanges", (Role.READ_WRITE, Role.READ, Role.RANGES)),
    CommandType.COMPRESS_MATRIX: CommandInfo("kCompressMatrix", (Role.READ_WRITE, Role.COMPRESSION, Role.FLAG), True),
    CommandType.DECOMPRESS_MATRIX: CommandInfo("kDecompressMatrix", (Role.WRITE,), True),
    CommandType.ACCEPT_INPUT: CommandInfo("kAcceptInput", (Role.WRITE, Role.NODE), True),
    CommandType.PROVIDE_OUTPUT: CommandInfo("kProvideOutput", (Role.READ, Role.NODE), True),
    CommandType.NO_OPERATION: CommandInfo("kNoOperation", ()),
    CommandType.NO_OPERATION_PERMANENT: CommandInfo("kNoOperationPermanent", ()),
    CommandType.NO_OPERATION_MARKER: CommandInfo("kNoOperationMarker", ()),
    CommandType.NO_OPERATION_LABEL: CommandInfo("kNoOperationLabel", ()),
    CommandType.GOTO_LABEL: CommandInfo("kGotoLabel", (Role.COMMAND,)),
    CommandType.FUSED: CommandInfo("kFused", (Role.PARTS,)),
}

# Commands that allocate, free or swap; that do nothing; that mark a place or a compression.
SIZING = frozenset((CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX, CommandType.SWAP_MATRIX))
NO_OPERATIONS = frozenset((CommandType.NO_OPERATION, CommandType.NO_OPERATION_PERMANENT))
MARKS = frozenset((CommandType.NO_OPERATION_MARKER, CommandType.NO_OPERATION_LABEL, CommandType.COMPRESS_MATRIX,
                   CommandType.DECOMPRESS_MATRIX))
# Commands that become no call: the memory plan of the runtime places matrices, and nothing is compressed.
WITHOUT_CALL = SIZING | NO_OPERATIONS | MARKS
KALDI_TYPES = tuple(kind for kind in CommandType if kind != CommandType.FUSED)
BACKPROPS = (CommandType.BACKPROP, CommandType.BACKPROP_NO_MODEL_UPDATE)
MATRIX_COPIES = (CommandType.MATRIX_COPY, CommandType.MATRIX_ADD)
ROW_COPIES = (CommandType.COPY_ROWS, CommandType.ADD_ROWS)
PAIR_COPIES = (CommandType.COPY_ROWS_MULTI, CommandType.ADD_ROWS_MULTI, CommandType.COPY_TO_ROWS_MULTI,
               CommandType.ADD_TO_ROWS_MULTI)


class Command(NamedTuple):
    """A command: its type, the factor of copies and additions, and Kaldi's seven arguments in order (-1: none)."""

    type: CommandType
    alpha: float = 1.0
    args: tuple[int, ...] = (-1,) * NUM_ARGS


_PADDING = [(-1,) * (NUM_ARGS - size) for size in range(NUM_ARGS + 1)]


def command(kind: CommandType, *args: int, alpha: float = 1.0) -> Command:
    """Return a command of type ``kind``; its arguments are ``args``, padded with -1 to seven."""
    return Command(kind, alpha, args + _PADDING[len(args)])


# -- the lists that commands refer to ----------------------------------------------------------------------------------


_Derived = TypeVar("_Derived")


class MatrixInfo(NamedTuple):
    """The size of a matrix; ``contiguous`` if its rows must be adjacent in memory."""

    num_rows: int
    num_cols: int
    contiguous: bool = False


class SubMatrix(NamedTuple):
    """A rectangle of a matrix."""

    matrix: int
    row_offset: int
    num_rows: int
    col_offset: int
    num_cols: int


class Fused(NamedTuple):
    """The name of the fusion that made a fused command, and the commands that it runs as one."""

    fusion: str
    commands: tuple[Command, ...]


class MatrixDebugInfo(NamedTuple):
    """The rows of a matrix: nodes int32 (rows,), indexes int32 (rows, 3), and whether it holds derivatives."""

    nodes: np.ndarray
    indexes: np.ndarray
    is_deriv: bool


@dataclass(repr=False)
class Computation(Shown):
    """A list of commands and the lists that their arguments refer to. Kaldi: ``NnetComputation``.

    Entry 0 of matrices, sub-matrices and debug info is empty. What is derived from the lists (:meth:`derived`) is kept
    until one of them changes.

    Attributes
    ----------
    indexes : int32 arrays, one row number for each row (-1: none)
    indexes_multi : int32 arrays (rows, 2), pairs (sub-matrix, row), (-1, -1) for none
    indexes_ranges : int32 arrays (rows, 2), pairs (begin, end), (-1, -1) for none
    precomputed_indexes : results of :meth:`Component.precompute_indexes`; entry 0 is None
    precomputed_rows : for each entry of ``precomputed_indexes`` the indexes of input and output rows, int32 (rows, 3)
        each
    parts : the commands that each fused command replaces
    copying : components that only copied their input when the computation was made, whose commands were left out
    places : matrices without memory of their own: number of the matrix -> sub-matrix whose memory it uses
    """

    matrices: list[MatrixInfo] = field(default_factory=lambda: [MatrixInfo(0, 0)])
    submatrices: list[SubMatrix] = field(default_factory=lambda: [SubMatrix(0, 0, 0, 0, 0)])
    commands: list[Command] = field(default_factory=list)
    indexes: list[np.ndarray] = field(default_factory=list)
    indexes_multi: list[np.ndarray] = field(default_factory=list)
    indexes_ranges: list[np.ndarray] = field(default_factory=list)
    precomputed_indexes: list[Precomputed] = field(default_factory=lambda: [None])
    precomputed_rows: list[tuple[np.ndarray, np.ndarray]] = field(
        default_factory=lambda: [(np.zeros((0, 3), np.int32), np.zeros((0, 3), np.int32))])
    debug_info: list[MatrixDebugInfo] = field(
        default_factory=lambda: [MatrixDebugInfo(np.zeros(0, np.int32), np.zeros((0, 3), np.int32), False)])
    need_model_derivative: bool = False
    parts: list[Fused] = field(default_factory=list)
    copying: frozenset[int] = frozenset()
    places: dict[int, int] = field(default_factory=dict)
    _derived: dict[Callable[..., Any], tuple[list[list[Any]], Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False)

    def new_matrix(self, num_rows: int, num_cols: int, contiguous: bool = False) -> int:
        """Add a matrix; returns the sub-matrix that covers it."""
        self.matrices.append(MatrixInfo(num_rows, num_cols, contiguous))
        self.submatrices.append(SubMatrix(len(self.matrices) - 1, 0, num_rows, 0, num_cols))
        return len(self.submatrices) - 1

    def new_submatrix(self, base: int, row_offset: int, num_rows: int, col_offset: int, num_cols: int) -> int:
        """Add a rectangle of sub-matrix ``base``, with offsets inside it; -1 rows or columns: up to ``base``'s end."""
        inside = self.submatrices[base]
        num_rows = inside.num_rows - row_offset if num_rows < 0 else num_rows
        num_cols = inside.num_cols - col_offset if num_cols < 0 else num_cols
        self.submatrices.append(SubMatrix(inside.matrix, inside.row_offset + row_offset, num_rows,
                                          inside.col_offset + col_offset, num_cols))
        return len(self.submatrices) - 1

    def is_whole(self, s: int) -> bool:
        """Return whether sub-matrix ``s`` covers its matrix; false for the empty one."""
        sub = self.submatrices[s]
        info = self.matrices[sub.matrix]
        return s > 0 and sub.num_rows == info.num_rows and sub.num_cols == info.num_cols

    def whole_submatrices(self) -> list[int]:
        """Return for each matrix a sub-matrix that covers it; adds those that are missing."""
        whole = [0] * len(self.matrices)
        sizes = [info[:2] for info in self.matrices]
        for s in range(len(self.submatrices) - 1, 0, -1):
            m, _, num_rows, _, num_cols = self.submatrices[s]
            if (num_rows, num_cols) == sizes[m]:
                whole[m] = s
        for m in range(1, len(self.matrices)):
            if not whole[m]:
                self.submatrices.append(SubMatrix(m, 0, sizes[m][0], 0, sizes[m][1]))
                whole[m] = len(self.submatrices) - 1
        return whole

    def loop_swaps(self) -> range:
        """Return the numbers of the swaps before the jump of a looped computation; an empty range without a jump."""
        end = len(self.commands) - 1
        begin = end
        if self.commands and self.commands[end].type == CommandType.GOTO_LABEL:
            while self.commands[begin - 1].type == CommandType.SWAP_MATRIX:
                begin -= 1
        return range(begin, end)

    def parts_of(self, command: Command) -> tuple[Command, ...]:
        """Return the commands that a fused command replaces; for another command, the command itself."""
        return self.parts[command.args[0]].commands if command.type == CommandType.FUSED else (command,)

    def copy(self) -> Computation:
        """Return a copy with new lists; the arrays in the lists are shared, since they are never changed."""
        other = copy.copy(self)
        for name in ("matrices", "submatrices", "commands", "indexes", "indexes_multi", "indexes_ranges",
                     "precomputed_indexes", "precomputed_rows", "debug_info", "parts"):
            setattr(other, name, list(getattr(self, name)))
        other._derived = dict(self._derived)
        return other

    # -- fused commands --------------------------------------------------------------------------------------------

    def fits(self, nnet: Nnet) -> bool:
        """Return whether the components in ``copying`` still do nothing but copy."""
        return all(nnet.components[c].copies_its_input for c in self.copying)

    def unfused(self) -> Computation:
        """Return the computation with fused commands replaced by their parts, so that all commands are Kaldi's."""
        if not self.parts:
            return self
        out = self.copy()
        out.parts, out.places = [], {}
        out.set_commands([part for command in self.commands for part in self.parts_of(command)])
        return out

    def set_commands(self, commands: list[Command]) -> None:
        """Replace the list of commands; a jump at the end is changed to lead to the new position of the label."""
        if commands and commands[-1].type == CommandType.GOTO_LABEL:
            label = next(c for c, each in enumerate(commands) if each.type == CommandType.NO_OPERATION_LABEL)
            commands[-1] = command(CommandType.GOTO_LABEL, label)
        self.commands = commands

    # -- derived from the lists, and kept --------------------------------------------------------------------------

    def derived(self, make: Callable[[Computation], _Derived], *names: str) -> _Derived:
        """Return ``make(self)``, cached until one of the lists with these names changes.

        The named lists must not hold arrays: they are compared with ``!=``, element by element.
        """
        lists_before, kept = self._derived.get(make, ([], None))
        result: _Derived = kept
        if not lists_before or any(old != getattr(self, name) for old, name in zip(lists_before, names, strict=True)):
            result = make(self)
            self.keep_derived(make, result, *names)
        return result

    def keep_derived(self, make: Callable[[Computation], _Derived], result: _Derived, *names: str) -> None:
        """Store ``result`` as the result of ``make``, for :meth:`derived`."""
        self._derived[make] = [list(getattr(self, name)) for name in names], result

    def invalidate_caches(self) -> None:
        """Free the memory of everything that :meth:`derived` keeps."""
        self._derived.clear()

    def __repr__(self) -> str:
        size = 4 * sum(matrix.num_rows * matrix.num_cols for matrix in self.matrices)
        return (f"<Computation: {len(self.commands)} commands, {len(self.matrices) - 1} matrices of {size:,} bytes "
                f"together{', with a backward pass' if self.need_model_derivative else ''}; "
                "print(computation.describe(nnet)) lists them>")

    def describe(self, nnet: Nnet) -> str:
        """Return the text that Kaldi prints for a computation."""
        return describe_computation(self, nnet)


# -- Kaldi's text ------------------------------------------------------------------------------------------------------


_DEBUG_HEADING = """\
# The following show how matrices correspond to network-nodes and
# cindex-ids.  Format is: matrix = <node-id>.[value|deriv][ <list-of-cindex-ids> ]
# where a cindex-id is written as (n,t[,x]) but ranges of t values are compressed
# so we write (n, tfirst:tlast).
"""
_COMPRESSION = {1: "int8", 2: "uint8", 3: "int16", 4: "uint16"}


def describe_computation(computation: Computation, nnet: Nnet) -> str:
    """Return Kaldi's listing of a computation: matrices, their rows, and the commands.

    Kaldi: ``NnetComputation::Print``.
    """
    names = nnet.node_names
    sizes = ", ".join(f"m{m}({info.num_rows}, {info.num_cols})" for m, info in enumerate(computation.matrices) if m)
    text = [f"matrix {sizes}\n"]
    if len(computation.debug_info) > 1:
        text.append(_DEBUG_HEADING)
        text += [f"m{m} == {'deriv' if info.is_deriv else 'value'}: "
                 f"{format_cindexes(info.nodes, info.indexes, names)}\n"
                 for m, info in enumerate(computation.debug_info) if m]
    text.append("# begin forward commands\n")
    printer = CommandPrinter(computation, nnet)
    text += [printer.line(c) for c in range(len(computation.commands))]
    return "".join(text)


def number(value: float) -> str:
    """Return a float as a C++ stream prints it, with 6 digits."""
    return f"{value:.6g}"


class CommandPrinter:
    """Formatter of single commands, as Kaldi prints them."""

    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation, self.nnet = computation, nnet
        self._s = [submatrix_text(computation, sub) for sub in computation.submatrices]

    def line(self, c: int) -> str:
        """Return the line of command ``c``, with its line feed; long lines are shortened in the middle."""
        command = self.computation.commands[c]
        if command.type == CommandType.FUSED:      # not shortened: its parts are the commands that run
            return f"c{c}: {self.fused(command)}\n"
        return shorten(f"c{c}: {self.text(command)}\n")

    def text(self, command: Command) -> str:
        """Return the text of a command."""
        return _TEXTS[command.type](self, command)

    # -- parts of texts --------------------------------------------------------------------------------------------

    def _size(self, s: int) -> str:
        sub = self.computation.submatrices[s]
        return f"[dim = {sub.num_rows} x {sub.num_cols}]"

    def _precomputed(self, entry: int) -> str:
        return f"precomputed_indexes[{entry}]" if entry > 0 else "NULL"

    def _pairs(self, entry: int) -> str:
        """Return the text of an entry of ``indexes_multi``: ``[m1(3,:),m2(0,:),NULL]``."""
        items = []
        submatrices, matrices = self.computation.submatrices, self.computation.matrices
        pairs = self.computation.indexes_multi[entry]
        if len(pairs) > 100:      # a shortened line shows the ends only; every item has 4 characters or more
            pairs = np.concatenate((pairs[:50], pairs[-50:]))
        for s, row in pairs.tolist():
            if s < 0:
                items.append("NULL")
                continue
            sub = submatrices[s]
            whole = sub.num_cols == matrices[sub.matrix].num_cols
            columns = ":" if whole else f"{sub.col_offset}:{sub.col_offset + sub.num_cols - 1}"
            items.append(f"m{sub.matrix}({row + sub.row_offset},{columns})")
        return f"[{','.join(items)}]"

    def _ranges(self, entry: int) -> str:
        items = ("null" if begin < 0 else f"{begin}:{end - 1}"
                 for begin, end in self.computation.indexes_ranges[entry].tolist())
        return f"[{','.join(items)}]"

    # -- one method per form of text -------------------------------------------------------------------------------

    def alloc(self, command: Command) -> str:
        sub = self.computation.submatrices[command.args[0]]
        return f"{self._s[command.args[0]]} = undefined({sub.num_rows},{sub.num_cols})"

    def swap(self, command: Command) -> str:
        first, second = command.args[:2]
        return f"{self._s[first]}.swap({self._s[second]}) {self._size(first)}"

    def set_const(self, command: Command) -> str:
        return f"{self._s[command.args[0]]}.set({number(command.alpha)}) {self._size(command.args[0])};"

    def propagate(self, command: Command) -> str:
        c, precomputed, x, y = command.args[:4]
        name = self.nnet.component_names[c]
        return f"{name}.Propagate({self._precomputed(precomputed)}, {self._s[x]}, &{self._s[y]})"

    def backprop(self, command: Command) -> str:
        """Return ``name.Backprop(…)``, with the component-pointer only where parameters are updated."""
        c, precomputed, x, y, dy, dx = command.args[:6]
        updates = command.type == CommandType.BACKPROP and self.computation.need_model_derivative
        pointer = "[component-pointer]" if updates else "NULL"
        derivative = f"&{self._s[dx]}" if dx > 0 else "NULL"
        name = self.nnet.component_names[c]
        return (f"{name}.Backprop({self._precomputed(precomputed)}, {self._s[x]}, {self._s[y]}, {self._s[dy]}, "
                f"{pointer}, {derivative})")

    def whole_matrices(self, command: Command) -> str:
        sign = "=" if command.type == CommandType.MATRIX_COPY else "+="
        factor = "" if command.alpha == 1.0 else f"{number(command.alpha)} * "
        return f"{self._s[command.args[0]]} {sign} {factor}{self._s[command.args[1]]}"

    def rows(self, command: Command) -> str:
        dst, src, entry = command.args[:3]
        name = "CopyRows" if command.type == CommandType.COPY_ROWS else "AddRows"
        rows = format_integers(self.computation.indexes[entry])
        return f"{self._s[dst]}.{name}({number(command.alpha)}, {self._s[src]}{rows})"

    def rows_multi(self, command: Command) -> str:
        name = _MULTI_NAMES[command.type]
        return f"{self._s[command.args[0]]}.{name}({number(command.alpha)}, {self._pairs(command.args[1])})"

    def row_ranges(self, command: Command) -> str:
        dst, src, entry = command.args[:3]
        return f"{self._s[dst]}.AddRowRanges({number(command.alpha)}, {self._s[src]}, {self._ranges(entry)})"

    def compress(self, command: Command) -> str:
        s, kind, truncate = command.args[:3]
        return (f"CompressMatrix({self._s[s]}, {number(command.alpha)}, {_COMPRESSION[kind]}, "
                f"{'true' if truncate else 'false'})")

    def fused(self, command: Command) -> str:
        fusion, parts = self.computation.parts[command.args[0]]
        return f"{fusion} {{ {'; '.join(shorten(self.text(part)) for part in parts)} }}"

    def accept(self, command: Command) -> str:
        return f"{self._s[command.args[0]]} = user input [for node: '{self.nnet.node_names[command.args[1]]}']"

    def provide(self, command: Command) -> str:
        return f"output {self._s[command.args[0]]} to user [for node: '{self.nnet.node_names[command.args[1]]}']"


def submatrix_text(computation: Computation, sub: SubMatrix) -> str:
    """Return ``mK``, or ``mK(r0:r1, c0:c1)`` with inclusive ends; ``[]`` for the empty sub-matrix."""
    if sub.matrix == 0:
        return "[]"
    info = computation.matrices[sub.matrix]
    if sub.num_rows == info.num_rows and sub.num_cols == info.num_cols:
        return f"m{sub.matrix}"
    return (f"m{sub.matrix}({sub.row_offset}:{sub.row_offset + sub.num_rows - 1}, "
            f"{sub.col_offset}:{sub.col_offset + sub.num_cols - 1})")


_MULTI_NAMES = {CommandType.COPY_ROWS_MULTI: "CopyRowsMulti", CommandType.ADD_ROWS_MULTI: "AddRowsMulti",
                CommandType.COPY_TO_ROWS_MULTI: "CopyToRowsMulti", CommandType.ADD_TO_ROWS_MULTI: "AddToRowsMulti"}

_TEXTS: dict[CommandType, Callable[[CommandPrinter, Command], str]] = {
    CommandType.ALLOC_MATRIX: CommandPrinter.alloc,
    CommandType.DEALLOC_MATRIX: lambda printer, command: f"{printer._s[command.args[0]]} = []",
    CommandType.SWAP_MATRIX: CommandPrinter.swap,
    CommandType.SET_CONST: CommandPrinter.set_const,
    CommandType.PROPAGATE: CommandPrinter.propagate,
    CommandType.BACKPROP: CommandPrinter.backprop,
    CommandType.BACKPROP_NO_MODEL_UPDATE: CommandPrinter.backprop,
    CommandType.MATRIX_COPY: CommandPrinter.whole_matrices,
    CommandType.MATRIX_ADD: CommandPrinter.whole_matrices,
    CommandType.COPY_ROWS: CommandPrinter.rows,
    CommandType.ADD_ROWS: CommandPrinter.rows,
    **dict.fromkeys(_MULTI_NAMES, CommandPrinter.rows_multi),
    CommandType.ADD_ROW_RANGES: CommandPrinter.row_ranges,
    CommandType.COMPRESS_MATRIX: CommandPrinter.compress,
    CommandType.DECOMPRESS_MATRIX: lambda printer, command: f"DecompressMatrix({printer._s[command.args[0]]})",
    CommandType.ACCEPT_INPUT: CommandPrinter.accept,
    CommandType.PROVIDE_OUTPUT: CommandPrinter.provide,
    CommandType.NO_OPERATION: lambda printer, command: "[no-op]",
    CommandType.NO_OPERATION_PERMANENT: lambda printer, command: "[no-op-permanent]",
    CommandType.NO_OPERATION_MARKER: lambda printer, command:
        "# computation segment separator [e.g., begin backward commands]",
    CommandType.NO_OPERATION_LABEL: lambda printer, command: "[label for goto statement]",
    CommandType.GOTO_LABEL: lambda printer, command: f"goto c{command.args[0]}",
    CommandType.FUSED: CommandPrinter.fused,
}


# -- garbage collection ------------------------------------------------------------------------------------------------


_P = ParamSpec("_P")
_R = TypeVar("_R")


def gc_paused(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function to run with garbage collection paused.

    A compilation makes tens of thousands of small objects, none of them garbage in cycles; the collector would scan all
    of them, and everything else in memory, again and again.
    """

    @wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return wrapper
