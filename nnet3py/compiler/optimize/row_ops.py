"""Passes on copies and additions of rows: additions become copies, row commands become commands on sub-matrices."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import Command, CommandType, Computation, command
from nnet3py.compiler.graph import ragged
from nnet3py.compiler.tables import command_table, replace_commands, substitute_commands
from nnet3py.network.nnet import Nnet

_COPY_OF = {CommandType.MATRIX_ADD: CommandType.MATRIX_COPY, CommandType.ADD_ROWS: CommandType.COPY_ROWS,
            CommandType.ADD_ROWS_MULTI: CommandType.COPY_ROWS_MULTI,
            CommandType.ADD_TO_ROWS_MULTI: CommandType.COPY_TO_ROWS_MULTI}


def convert_addition(computation: Computation, nnet: Nnet) -> Computation:
    """Turn additions into copies where the destination holds nothing but zero. Kaldi: ConvertAdditionToAssignment."""
    analysis = Analysis(computation, nnet)
    first = analysis.first_nontrivial_accesses()
    new: dict[int, Command] = {}
    for kind, copying in _COPY_OF.items():
        numbers, args = analysis.table.numbers[kind], analysis.table.args[kind]
        if kind == CommandType.ADD_TO_ROWS_MULTI:
            fine = analysis.table.alphas[numbers] == 1.0
            changed = [computation.indexes_multi[entry][:, 0] for entry in args[:, 1].tolist()]
            fine &= np.array([(first[s[s > 0]] == c).all() for c, s in zip(numbers, changed, strict=True)], bool)
        else:
            fine = first[args[:, 0]] == numbers
        for c in numbers[fine].tolist():
            command = computation.commands[c]
            new[c] = Command(copying, command.alpha, command.args)
    return replace_commands(computation, new)


# -- snip-row-ops ------------------------------------------------------------------------------------------------------


# For each command the list with its rows, and the argument that refers to it. Copies that set other rows to zero are
# not among them.
_ROWS_OF = {CommandType.ADD_ROWS: ("indexes", 2), CommandType.ADD_ROWS_MULTI: ("indexes_multi", 1),
            CommandType.ADD_TO_ROWS_MULTI: ("indexes_multi", 1), CommandType.COPY_TO_ROWS_MULTI: ("indexes_multi", 1),
            CommandType.ADD_ROW_RANGES: ("indexes_ranges", 2)}


def snip_row_ops(computation: Computation, nnet: Nnet) -> Computation:
    """Limit row commands to the rows from the first to the last one with an index other than -1.

    Kaldi: SnipRowOps.
    """
    table = command_table(computation)
    out = computation.copy()
    new: dict[int, Command] = {}
    for c in np.sort(np.concatenate([table.numbers[kind] for kind in _ROWS_OF])).tolist():
        command = computation.commands[c]
        name, place = _ROWS_OF[command.type]
        entries = getattr(out, name)
        entry = entries[command.args[place]]
        begin, end = _occupied(entry)
        if (begin, end) == (0, len(entry)):
            continue
        entries.append(entry[begin:end])
        args = list(command.args)
        args[0] = out.new_submatrix(command.args[0], begin, end - begin, 0, -1)
        args[place] = len(entries) - 1
        new[c] = Command(command.type, command.alpha, tuple(args))
    return replace_commands(out, new) if new else computation


def _occupied(entry: np.ndarray) -> tuple[int, int]:
    """Return begin and end of the rows from the first to the last index other than -1; of all rows if all are -1."""
    rows = entry if entry.ndim == 1 else entry[:, 0]
    if len(rows) and rows[0] >= 0 and rows[-1] >= 0:
        return 0, len(rows)
    present = np.flatnonzero(rows >= 0)
    return (int(present[0]), int(present[-1]) + 1) if len(present) else (0, len(rows))


# -- split-row-ops -----------------------------------------------------------------------------------------------------


_FROM = (CommandType.ADD_ROWS_MULTI, CommandType.COPY_ROWS_MULTI)
_TO = (CommandType.ADD_TO_ROWS_MULTI, CommandType.COPY_TO_ROWS_MULTI)
_ADDS = (CommandType.ADD_ROWS_MULTI, CommandType.ADD_TO_ROWS_MULTI)
LARGEST_WINDOW = 2      # times the used rows of a window, for its size


class _Piece(NamedTuple):
    """Rows of one matrix from ``begin`` on, and the rows of a window of another one that they belong to.

    ``rows`` are relative to the window, which is rows ``first`` to ``first + size`` of ``submatrix``.
    """

    begin: int
    submatrix: int
    first: int
    size: int
    rows: np.ndarray

    def is_run(self) -> bool:
        """Return whether the rows are all rows of the window, in order."""
        return self.size == len(self.rows) and bool((np.diff(self.rows) == 1).all())


def split_row_ops(computation: Computation, nnet: Nnet) -> Computation:
    """Split row commands on one or two matrices into commands on windows of them, where the rows lie close together.

    Kaldi: SplitRowOps.
    """
    table = command_table(computation)
    out = computation.copy()
    new: dict[int, list[Command]] = {}
    for c in np.sort(np.concatenate([table.numbers[kind] for kind in _FROM + _TO])).tolist():
        original = computation.commands[c]
        pieces = _pieces(computation.indexes_multi[original.args[1]])
        if original.type == CommandType.COPY_TO_ROWS_MULTI and not all(piece.is_run() for piece in pieces):
            pieces = []                 # every other command would change the rows between them
        if pieces:
            new[c] = [_piece_command(out, original, piece) for piece in pieces]
    return substitute_commands(out, new) if new else computation


def _pieces(pairs: np.ndarray) -> list[_Piece]:
    """Return the ranges of rows that refer to one matrix each, if there are one or two; else an empty list."""
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


# -- optimize-row-ops --------------------------------------------------------------------------------------------------


_WHOLE = {CommandType.COPY_ROWS: CommandType.MATRIX_COPY, CommandType.ADD_ROWS: CommandType.MATRIX_ADD}


def replace_row_ops(computation: Computation, nnet: Nnet) -> Computation:
    """Turn row commands whose rows are one ascending run into commands on sub-matrices.

    A row copy sets the rows outside the run to zero. They are zero already, as long as every allocation is followed by
    zeroing. Kaldi: ReplaceRowWithMatrixOps.
    """
    table = command_table(computation)
    out = computation.copy()
    windows: dict[tuple[int, int, int], int] = {}
    new: dict[int, Command] = {}

    def window(s: int, begin: int, length: int) -> int:
        if length == out.submatrices[s].num_rows:
            return s
        if (s, begin, length) not in windows:
            windows[s, begin, length] = out.new_submatrix(s, begin, length, 0, -1)
        return windows[s, begin, length]

    numbers = np.sort(np.concatenate([table.numbers[kind] for kind in _WHOLE]))
    runs = _only_runs([computation.indexes[entry] for entry in table.rows[numbers, 2].tolist()])
    for c, (at, first, length) in zip(numbers.tolist(), runs.tolist(), strict=True):
        if length:
            kind, alpha, (target, source, *_) = computation.commands[c]
            new[c] = command(_WHOLE[kind], window(target, at, length), window(source, first, length), alpha=alpha)
    return replace_commands(out, new)


def _only_runs(lists: list[np.ndarray]) -> np.ndarray:
    """Return position, first value and length of the only ascending run of each list of rows, int64 (lists, 3).

    The length is 0 if a list has anything but -1 before or after the run.
    """
    runs = np.zeros((len(lists), 3), np.int64)
    filled = np.flatnonzero([len(rows) for rows in lists])
    if not len(filled):
        return runs
    rows = np.concatenate([lists[i] for i in filled.tolist()])
    lengths = np.array([len(lists[i]) for i in filled.tolist()])
    starts = np.cumsum(lengths) - lengths
    place = ragged(np.zeros_like(starts), lengths)
    present = rows >= 0
    count = np.add.reduceat(present, starts, dtype=np.int64)
    at = np.minimum.reduceat(np.where(present, place, len(rows)), starts)
    last = np.maximum.reduceat(np.where(present, place, -1), starts)
    # In a run the values go up with the places, so their difference is always the same.
    shift = rows - place
    least = np.minimum.reduceat(np.where(present, shift, np.iinfo(np.int64).max), starts)
    greatest = np.maximum.reduceat(np.where(present, shift, np.iinfo(np.int64).min), starts)
    is_run = (count > 0) & (last - at + 1 == count) & (least == greatest)
    runs[filled[is_run]] = np.stack((at, least + at, count), axis=1)[is_run]
    return runs
