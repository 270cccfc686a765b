"""Kaldi's text for a computation. Kaldi: ``NnetComputation::Print``."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.command_list import CommandList, SubMatrix
from nnet3py.compiler.commands import Command, CommandType
from nnet3py.index import format_cindexes, format_integers, shorten

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

_DEBUG_HEADING = """\
# The following show how matrices correspond to network-nodes and
# cindex-ids.  Format is: matrix = <node-id>.[value|deriv][ <list-of-cindex-ids> ]
# where a cindex-id is written as (n,t[,x]) but ranges of t values are compressed
# so we write (n, tfirst:tlast).
"""
_COMPRESSION = {1: "int8", 2: "uint8", 3: "int16", 4: "uint16"}


def describe_computation(computation: CommandList, nnet: Nnet) -> str:
    """The whole listing: matrices, what their rows are, and the commands."""
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
    """A float as a C++ stream prints it, with 6 digits."""
    return f"{value:.6g}"


class CommandPrinter:
    """Texts of single commands."""

    def __init__(self, computation: CommandList, nnet: Nnet) -> None:
        self.computation, self.nnet = computation, nnet
        self._s = [submatrix_text(computation, sub) for sub in computation.submatrices]

    def line(self, c: int) -> str:
        """The line of command ``c``, with its line feed; long lines are shortened in the middle."""
        command = self.computation.commands[c]
        if command.type == CommandType.FUSED:      # as long as it has to be: its parts are what runs
            return f"c{c}: {self.fused(command)}\n"
        return shorten(f"c{c}: {self.text(command)}\n")

    def text(self, command: Command) -> str:
        """The text of a command."""
        return _TEXTS[command.type](self, command)

    # -- parts of texts --------------------------------------------------------------------------------------------

    def _size(self, s: int) -> str:
        sub = self.computation.submatrices[s]
        return f"[dim = {sub.num_rows} x {sub.num_cols}]"

    def _precomputed(self, entry: int) -> str:
        return f"precomputed_indexes[{entry}]" if entry > 0 else "NULL"

    def _pairs(self, entry: int) -> str:
        """The rows of many sub-matrices, by their numbers in the matrices."""
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
        """``name.Backprop(…)``: the component-pointer only where parameters are updated."""
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


def submatrix_text(computation: CommandList, sub: SubMatrix) -> str:
    """``mK``, or ``mK(r0:r1, c0:c1)`` with inclusive ends; ``[]`` for the empty one."""
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
