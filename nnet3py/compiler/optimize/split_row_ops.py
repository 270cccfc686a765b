"""Row commands between many matrices become one or two commands between two."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation, command
from nnet3py.compiler.optimize.command_lists import substitute_commands
from nnet3py.compiler.tables import command_table
from nnet3py.network.nnet import Nnet

_FROM = (CommandType.ADD_ROWS_MULTI, CommandType.COPY_ROWS_MULTI)
_TO = (CommandType.ADD_TO_ROWS_MULTI, CommandType.COPY_TO_ROWS_MULTI)
_ADDS = (CommandType.ADD_ROWS_MULTI, CommandType.ADD_TO_ROWS_MULTI)
LARGEST_WINDOW = 2      # rows of a window for each row of it that is used


class _Piece(NamedTuple):
    """Rows ``begin``, … of the one matrix go with ``rows`` (relative) of window ``first``, ``size`` of the other."""

    begin: int
    submatrix: int
    first: int
    size: int
    rows: np.ndarray

    def is_run(self) -> bool:
        """Whether every row of the window is used, in order."""
        return self.size == len(self.rows) and bool((np.diff(self.rows) == 1).all())


def split_row_ops(computation: Computation, nnet: Nnet) -> Computation:
    """Split commands whose rows belong to one or two matrices, where those rows lie close together.

    Kaldi: SplitRowOps.
    """
    table = command_table(computation)
    out = computation.copy()
    new: dict[int, list[Command]] = {}
    for c in np.sort(np.concatenate([table.numbers[kind] for kind in _FROM + _TO])).tolist():
        original = computation.commands[c]
        pieces = _pieces(computation.indexes_multi[original.args[1]])
        if original.type == CommandType.COPY_TO_ROWS_MULTI and not all(piece.is_run() for piece in pieces):
            pieces = []                 # no command leaves the rows between them alone
        if pieces:
            new[c] = [_piece_command(out, original, piece) for piece in pieces]
    return substitute_commands(out, new) if new else computation


def _pieces(pairs: np.ndarray) -> list[_Piece]:
    """The one or two ranges of rows that refer to one matrix each, or none."""
    changes = np.flatnonzero(np.diff(pairs[:, 0])) + 1
    if len(changes) > 1 or (pairs[:, 0] < 0).any():
        return []
    pieces = []
    for begin, part in zip((0, *changes.tolist()), np.split(pairs, changes), strict=True):
        first, last = int(part[:, 1].min()), int(part[:, 1].max())
        if last - first + 1 > LARGEST_WINDOW * len(part):
            return []
        pieces.append(_Piece(begin, int(part[0, 0]), first, last - first + 1, part[:, 1] - first))
    return pieces


def _piece_command(out: Computation, whole: Command, piece: _Piece) -> Command:
    mine = out.new_submatrix(whole.args[0], piece.begin, len(piece.rows), 0, -1)
    other = out.new_submatrix(piece.submatrix, piece.first, piece.size, 0, -1)
    target, source = (mine, other) if whole.type in _FROM else (other, mine)
    if piece.is_run():
        kind = CommandType.MATRIX_ADD if whole.type in _ADDS else CommandType.MATRIX_COPY
        return command(kind, target, source, alpha=whole.alpha)
    rows = piece.rows
    if whole.type in _TO:
        rows = np.full(piece.size, -1)
        rows[piece.rows] = np.arange(len(piece.rows))
    out.indexes.append(rows.astype(np.int32))
    kind = CommandType.ADD_ROWS if whole.type in _ADDS else CommandType.COPY_ROWS
    return command(kind, target, source, len(out.indexes) - 1, alpha=whole.alpha)
