"""The command list: what the compiler makes, the optimiser changes and the runtime binds. Data only.

Kaldi: ``NnetComputation`` (nnet-computation.h).
"""
from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from nnet3py.compiler.commands import COMMANDS, Command, CommandType, Role, command
from nnet3py.compiler.describe import describe_computation

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

__all__ = ["COMMANDS", "Command", "CommandType", "Computation", "Fused", "MatrixDebugInfo", "MatrixInfo", "Role",
           "SubMatrix", "command"]


_Made = TypeVar("_Made")


class MatrixInfo(NamedTuple):
    """A matrix's size; ``contiguous`` if its rows must follow each other without gaps."""

    num_rows: int
    num_cols: int
    contiguous: bool = False


class SubMatrix(NamedTuple):
    """A window of a matrix."""

    matrix: int
    row_offset: int
    num_rows: int
    col_offset: int
    num_cols: int


class Fused(NamedTuple):
    """What a fused command stands for: the name of the fusion, and the commands that it runs as one."""

    fusion: str
    commands: tuple[Command, ...]


class MatrixDebugInfo(NamedTuple):
    """What the rows of a matrix are: nodes int32 (rows,), indexes int32 (rows, 3), and whether it holds derivatives."""

    nodes: np.ndarray
    indexes: np.ndarray
    is_deriv: bool


def _no_rows() -> MatrixDebugInfo:
    return MatrixDebugInfo(np.zeros(0, np.int32), np.zeros((0, 3), np.int32), False)


@dataclass
class Computation:
    """A list of commands and what their arguments refer to. Entry 0 of matrices, sub-matrices and debug info is empty.

    Attributes
    ----------
    indexes : int32 arrays, one row number per row (-1: none)
    indexes_multi : int32 arrays (rows, 2), pairs (sub-matrix, row) (-1, -1: none)
    indexes_ranges : int32 arrays (rows, 2), pairs (begin, end) (-1, -1: none)
    precomputed_indexes : what components made of their row indexes; entry 0 is None
    precomputed_rows : of what, for each entry: indexes of input and output rows, int32 (rows, 3) each
    parts : what fused commands stand for
    copying : components that are taken to copy their input, whose commands have been left out
    """

    matrices: list[MatrixInfo] = field(default_factory=lambda: [MatrixInfo(0, 0)])
    submatrices: list[SubMatrix] = field(default_factory=lambda: [SubMatrix(0, 0, 0, 0, 0)])
    commands: list[Command] = field(default_factory=list)
    indexes: list[np.ndarray] = field(default_factory=list)
    indexes_multi: list[np.ndarray] = field(default_factory=list)
    indexes_ranges: list[np.ndarray] = field(default_factory=list)
    precomputed_indexes: list[Any] = field(default_factory=lambda: [None])
    precomputed_rows: list[tuple[np.ndarray, np.ndarray]] = field(
        default_factory=lambda: [(np.zeros((0, 3), np.int32), np.zeros((0, 3), np.int32))])
    debug_info: list[MatrixDebugInfo] = field(default_factory=lambda: [_no_rows()])
    need_model_derivative: bool = False
    parts: list[Fused] = field(default_factory=list)
    copying: frozenset[int] = frozenset()
    _kept: dict[Callable[..., Any], tuple[list[list[Any]], Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False)

    def new_matrix(self, num_rows: int, num_cols: int, contiguous: bool = False) -> int:
        """Add a matrix; returns the sub-matrix that covers it."""
        self.matrices.append(MatrixInfo(num_rows, num_cols, contiguous))
        self.submatrices.append(SubMatrix(len(self.matrices) - 1, 0, num_rows, 0, num_cols))
        return len(self.submatrices) - 1

    def new_submatrix(self, base: int, row_offset: int, num_rows: int, col_offset: int, num_cols: int) -> int:
        """Add a window of sub-matrix ``base``, with offsets inside it; -1 rows or columns: as many as there are."""
        inside = self.submatrices[base]
        num_rows = inside.num_rows - row_offset if num_rows < 0 else num_rows
        num_cols = inside.num_cols - col_offset if num_cols < 0 else num_cols
        self.submatrices.append(SubMatrix(inside.matrix, inside.row_offset + row_offset, num_rows,
                                          inside.col_offset + col_offset, num_cols))
        return len(self.submatrices) - 1

    def is_whole(self, s: int) -> bool:
        """Whether sub-matrix ``s`` is all of its matrix (not the empty one)."""
        sub = self.submatrices[s]
        info = self.matrices[sub.matrix]
        return s > 0 and sub.num_rows == info.num_rows and sub.num_cols == info.num_cols

    def whole_submatrices(self) -> list[int]:
        """For each matrix a sub-matrix that covers it; adds those that are missing."""
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
        """The numbers of the swaps that hand matrices over to the next round of a loop; none if there is no loop."""
        end = len(self.commands) - 1
        begin = end
        if self.commands and self.commands[end].type == CommandType.GOTO_LABEL:
            while self.commands[begin - 1].type == CommandType.SWAP_MATRIX:
                begin -= 1
        return range(begin, end)

    def copy(self) -> Computation:
        """A computation with lists of its own; the arrays in them are shared, for they are never changed."""
        other = copy.copy(self)
        for name in ("matrices", "submatrices", "commands", "indexes", "indexes_multi", "indexes_ranges",
                     "precomputed_indexes", "precomputed_rows", "debug_info", "parts"):
            setattr(other, name, list(getattr(self, name)))
        other._kept = dict(self._kept)
        return other

    # -- fused commands --------------------------------------------------------------------------------------------

    def parts_of(self, one: Command) -> tuple[Command, ...]:
        """The commands that a fused one stands for; any other itself."""
        return self.parts[one.args[0]].commands if one.type == CommandType.FUSED else (one,)

    def fits(self, nnet: Nnet) -> bool:
        """Whether the components whose commands were left out do nothing but copy, as they did then."""
        return all(nnet.components[c].copies_its_input for c in self.copying)

    def unfused(self) -> Computation:
        """The same with the parts of fused commands in their places: all of it Kaldi's commands."""
        if not self.parts:
            return self
        out = self.copy()
        out.parts = []
        out.set_commands([part for one in self.commands for part in self.parts_of(one)])
        return out

    def set_commands(self, commands: list[Command]) -> None:
        """Take these commands, with the jump, if there is one, to where the label is now."""
        if commands and commands[-1].type == CommandType.GOTO_LABEL:
            label = next(c for c, one in enumerate(commands) if one.type == CommandType.NO_OPERATION_LABEL)
            commands[-1] = command(CommandType.GOTO_LABEL, label)
        self.commands = commands

    # -- what is made of the lists ---------------------------------------------------------------------------------

    def made(self, make: Callable[[Computation], _Made], *names: str) -> _Made:
        """``make(self)``, made again only when the lists of these names have changed since; not for lists of arrays.

        Lists are compared element by element, which is fast since their elements mostly are the very same objects.
        """
        known, kept = self._kept.get(make, ([], None))
        result: _Made = kept
        if not known or any(old != getattr(self, name) for old, name in zip(known, names, strict=True)):
            result = make(self)
            self.keep(make, result, *names)
        return result

    def keep(self, make: Callable[[Computation], _Made], result: _Made, *names: str) -> None:
        """Remember what :meth:`made` would make of the lists as they are."""
        self._kept[make] = [list(getattr(self, name)) for name in names], result

    def invalidate_caches(self) -> None:
        """Free the memory of all that :meth:`made` remembers."""
        self._kept.clear()

    def describe(self, nnet: Nnet) -> str:
        """The text that Kaldi prints for a computation."""
        return describe_computation(self, nnet)
