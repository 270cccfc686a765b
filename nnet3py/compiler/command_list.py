"""Commands and the lists that their arguments refer to. Data only."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.commands import Command, CommandType
from nnet3py.components.base import Precomputed


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
class CommandList:
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
    places : matrices without memory of their own, and the sub-matrix in whose place each of them is
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
    debug_info: list[MatrixDebugInfo] = field(default_factory=lambda: [_no_rows()])
    need_model_derivative: bool = False
    parts: list[Fused] = field(default_factory=list)
    copying: frozenset[int] = frozenset()
    places: dict[int, int] = field(default_factory=dict)

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

    def parts_of(self, command: Command) -> tuple[Command, ...]:
        """The commands that a fused one stands for; any other itself."""
        return self.parts[command.args[0]].commands if command.type == CommandType.FUSED else (command,)
