"""The pass that treats derivatives outside a range of times as zero, and removes commands that only compute such.

Training of recurrent networks uses it: derivatives that would flow far beyond a chunk's own frames cost time and help
little. It is the only pass that changes results, and it must be the first: it relies on everything being zeroed.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import submatrix_accesses
from nnet3py.compiler.computation import (
    BACKPROPS,
    MATRIX_COPIES,
    PAIR_COPIES,
    ROW_COPIES,
    Command,
    CommandType,
    Computation,
    SubMatrix,
)
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.compiler.optimize_options import INT32_MAX, INT32_MIN
from nnet3py.compiler.tables import command_table, drop_commands
from nnet3py.components.base import Properties
from nnet3py.errors import CompileError
from nnet3py.network.nnet import Nnet


class _Window(NamedTuple):
    """Rows ``begin`` to ``end`` of a sub-matrix, which are kept, and ``s``, their new sub-matrix (0: no rows)."""

    s: int
    begin: int
    end: int


def limit_derivative_times(computation: Computation, nnet: Nnet, min_time: int = INT32_MIN,
                           max_time: int = INT32_MAX) -> Computation:
    """Remove commands that compute derivatives at t < ``min_time`` or t > ``max_time``. Kaldi: LimitDerivativeTimes.

    Raises CompileError: ``min_time`` is above ``max_time``.
    """
    if max_time < min_time:
        raise CompileError(f"derivatives are limited to times from {min_time} to {max_time}: there are none",
                           "see --optimization.min-deriv-time, --optimization.max-deriv-time and "
                           "--optimization.max-deriv-time-relative")
    if (min_time, max_time) == (INT32_MIN, INT32_MAX):
        return computation
    limiter = _Limiter(computation, nnet, min_time, max_time)
    if limiter.all_inside():
        return computation
    limiter.limit_commands()
    limiter.forget_memos()
    return renumber(_shrink(limiter.result(), limiter.matrix_windows, nnet))


class _Limiter:
    def __init__(self, computation: Computation, nnet: Nnet, min_time: int, max_time: int) -> None:
        self.old, self.new, self.nnet = computation, computation.copy(), nnet
        self.is_deriv = [info.is_deriv for info in computation.debug_info]
        self.inside = [(info.indexes[:, 1] >= min_time) & (info.indexes[:, 1] <= max_time)     # rows of each matrix
                       for info in computation.debug_info]
        self.matrix_windows = [_extent(inside) for inside in self.inside]
        self._windows: dict[int, _Window] = {}
        self._removed: list[int] = []

    def all_inside(self) -> bool:
        """Return whether all derivatives are inside the range of times."""
        return all(inside.all() for inside, is_deriv in zip(self.inside, self.is_deriv, strict=True) if is_deriv)

    def limit_commands(self) -> None:
        """Change or remove each command that reads or writes derivatives."""
        for c, command in enumerate(self.old.commands):
            limit = _LIMITS.get(command.type)
            if limit is not None:
                limited = limit(self, command)
                if limited is None:
                    self._removed.append(c)
                else:
                    self.new.commands[c] = limited

    def result(self) -> Computation:
        return drop_commands(self.new, self._removed)

    # -- windows ---------------------------------------------------------------------------------------------------

    def window(self, s: int) -> _Window:
        """Return the rows of sub-matrix ``s`` whose times are inside the range."""
        if s not in self._windows:
            sub = self.old.submatrices[s]
            first, last = self.matrix_windows[sub.matrix]
            begin, end = max(first - sub.row_offset, 0), min(last - sub.row_offset, sub.num_rows)
            if begin >= end:
                self._windows[s] = _Window(0, 0, 0)
            else:
                self._windows[s] = _Window(self._part(s, begin, end), begin, end)
        return self._windows[s]

    def derivative_window(self, s: int) -> _Window:
        """Return the rows of sub-matrix ``s`` inside the range if it holds derivatives, all rows if it holds values."""
        sub = self.old.submatrices[s]
        return self.window(s) if self.is_deriv[sub.matrix] else _Window(s, 0, sub.num_rows)

    def _part(self, s: int, begin: int, end: int) -> int:
        if (begin, end) == (0, self.old.submatrices[s].num_rows):
            return s
        return self.new.new_submatrix(s, begin, end - begin, 0, -1)

    def keeps(self, s: int) -> np.ndarray:
        """Return which rows of ``s`` are values, or derivatives inside the range, bool (rows,)."""
        sub = self.old.submatrices[s]
        rows = slice(sub.row_offset, sub.row_offset + sub.num_rows)
        return self.inside[sub.matrix][rows] if self.is_deriv[sub.matrix] else np.ones(sub.num_rows, bool)

    # -- one method per form of command: the command, changed or not, or None to remove it -------------------------

    def propagate(self, command: Command) -> Command:
        if command.args[5] == 1 and not self.window(command.args[3]).s:       # no statistics of times out of range
            return _with_args(command, {5: 0})
        return command

    def backprop(self, command: Command) -> Command | None:
        """Limit a simple component's backprop to the rows inside the range; None if there are none."""
        component = self.nnet.components[command.args[0]]
        if not component.has(Properties.SIMPLE):
            return command
        deriv = self.window(command.args[4])
        if not deriv.s:
            return None
        if deriv.s == command.args[4] or component.has(Properties.USES_MEMO):    # a memo has all the rows
            return command
        return _with_args(command, {place: self.window(command.args[place]).s for place in (2, 3, 4, 5)
                                    if command.args[place] > 0})

    def matrices(self, command: Command) -> Command | None:
        """Limit a copy or addition of a sub-matrix to the rows that source and target both keep."""
        dst, src = (self.derivative_window(s) for s in command.args[:2])
        begin, end = max(dst.begin, src.begin), min(dst.end, src.end)
        if begin >= end:
            return None
        return _with_args(command, {place: window.s if window[1:] == (begin, end) else self._part(s, begin, end)
                                for place, (s, window) in enumerate(zip(command.args[:2], (dst, src), strict=True))})

    def rows(self, command: Command) -> Command | None:
        """Limit a command that copies or adds rows by their indexes, which become -1 outside the range."""
        dst, src = (self.derivative_window(s) for s in command.args[:2])
        rows = np.where(self.keeps(command.args[0]), self.old.indexes[command.args[2]], -1)
        kept = (rows >= 0) & self.keeps(command.args[1])[rows]
        if not kept.any():
            return None
        rows = np.where(kept, rows - src.begin, -1)[dst.begin:dst.end]
        return _with_args(command, {0: dst.s, 1: src.s, 2: _entry(self.new.indexes, rows, command.args[2])})

    def pairs(self, command: Command) -> Command | None:
        """Limit a command on rows of several matrices: their pairs become (-1, -1) outside the range."""
        window = self.derivative_window(command.args[0])
        pairs = self.old.indexes_multi[command.args[1]].copy()
        kept = self.keeps(command.args[0]) & (pairs[:, 0] >= 0)
        for s in np.unique(pairs[kept, 0]).tolist():
            chosen = np.flatnonzero(kept & (pairs[:, 0] == s))
            there = self.derivative_window(s)
            fine = self.keeps(s)[pairs[chosen, 1]]
            kept[chosen] = fine
            pairs[chosen[fine]] = np.stack((np.full(fine.sum(), there.s), pairs[chosen[fine], 1] - there.begin), axis=1)
        if not kept.any():
            return None
        pairs[~kept] = -1
        pairs = pairs[window.begin:window.end]
        return _with_args(command, {0: window.s, 1: _entry(self.new.indexes_multi, pairs, command.args[1])})

    def ranges(self, command: Command) -> Command | None:
        """Limit a command that sums ranges of rows to the part of each range inside the range of times."""
        dst, src = (self.derivative_window(s) for s in command.args[:2])
        ranges = self.old.indexes_ranges[command.args[2]]
        present = (ranges[:, 0] >= 0) & self.keeps(command.args[0])
        begin, end = np.maximum(ranges, 0).T
        at = np.flatnonzero(self.keeps(command.args[1]))
        first, past = np.searchsorted(at, begin), np.searchsorted(at, end)         # among the rows that are kept
        present &= first < past
        if not present.any():
            return None
        shrunk = np.stack((at[np.where(present, first, 0)], at[np.where(present, past - 1, 0)] + 1), axis=1)
        shrunk = np.where(present[:, None], shrunk - src.begin, -1)[dst.begin:dst.end]
        return _with_args(command, {0: dst.s, 1: src.s, 2: _entry(self.new.indexes_ranges, shrunk, command.args[2])})

    def forget_memos(self) -> None:
        """Remove the memo of propagate commands whose backprop was removed."""
        gone = set(self._removed)
        used = {command.args[6] for c, command in enumerate(self.old.commands) if command.type in BACKPROPS
                and c not in gone}
        for c, command in enumerate(self.new.commands):
            if command.type == CommandType.PROPAGATE and command.args[4] > 0 and command.args[4] not in used:
                self.new.commands[c] = _with_args(command, {4: 0})


_LIMITS = {CommandType.PROPAGATE: _Limiter.propagate, CommandType.ADD_ROW_RANGES: _Limiter.ranges,
           **dict.fromkeys(BACKPROPS, _Limiter.backprop), **dict.fromkeys(MATRIX_COPIES, _Limiter.matrices),
           **dict.fromkeys(ROW_COPIES, _Limiter.rows), **dict.fromkeys(PAIR_COPIES, _Limiter.pairs)}


def _extent(inside: np.ndarray) -> tuple[int, int]:
    """Return the position of the first true element, and that after the last one; 0, 0 if all are false."""
    rows = np.flatnonzero(inside)
    return (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)


def _with_args(command: Command, changes: dict[int, int]) -> Command:
    if all(command.args[place] == value for place, value in changes.items()):
        return command
    return command._replace(args=tuple(changes.get(place, value) for place, value in enumerate(command.args)))


def _entry(entries: list[np.ndarray], rows: np.ndarray, number: int) -> int:
    """Return ``number`` if that entry equals ``rows``, else the number of a new entry with them."""
    if np.array_equal(entries[number], rows):
        return number
    entries.append(rows.astype(np.int32))
    return len(entries) - 1


def _shrink(computation: Computation, windows: list[tuple[int, int]], nnet: Nnet) -> Computation:
    """Remove the rows outside the range from derivative matrices, if no command uses these rows any more."""
    out = computation.copy()
    table = command_table(computation)
    commands, s, _ = submatrix_accesses(computation, nnet, table)
    real = table.types[commands] != CommandType.SET_CONST
    subs = np.array(computation.submatrices, dtype=np.int64)
    matrices, begin, end = subs[s[real], 0], subs[s[real], 1], subs[s[real], 1] + subs[s[real], 2]
    first, last = np.full(len(out.matrices), INT32_MAX, np.int64), np.full(len(out.matrices), 0, np.int64)
    np.minimum.at(first, matrices, begin)
    np.maximum.at(last, matrices, end)
    exchanged = np.concatenate([table.args[kind][:, 0] for kind in (CommandType.ACCEPT_INPUT,
                                                                     CommandType.PROVIDE_OUTPUT)])
    fixed = set(subs[exchanged, 0].tolist())
    gone, smaller = set(), {}
    for m, (row_begin, row_end) in enumerate(windows):
        if not m or m in fixed or not computation.debug_info[m].is_deriv:
            continue
        if last[m] == 0 and row_begin == row_end:
            gone.add(m)
        elif row_begin <= first[m] and last[m] <= row_end and row_end - row_begin < out.matrices[m].num_rows:
            smaller[m] = row_begin, row_end
    for m, (row_begin, row_end) in smaller.items():
        out.matrices[m] = out.matrices[m]._replace(num_rows=row_end - row_begin)
        info = out.debug_info[m]
        out.debug_info[m] = info._replace(nodes=info.nodes[row_begin:row_end], indexes=info.indexes[row_begin:row_end])
    for i, sub in enumerate(computation.submatrices):
        if sub.matrix in smaller:
            out.submatrices[i] = _moved(sub, *smaller[sub.matrix])
    sizing = (CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX, CommandType.SET_CONST)
    return drop_commands(out, [c for c, command in enumerate(out.commands)
                               if command.type in sizing and out.submatrices[command.args[0]].matrix in gone])


def _moved(sub: SubMatrix, row_begin: int, row_end: int) -> SubMatrix:
    """Return a sub-matrix moved to the matrix that holds only rows ``row_begin`` to ``row_end`` of the former one."""
    if row_begin <= sub.row_offset and sub.row_offset + sub.num_rows <= row_end:
        return sub._replace(row_offset=sub.row_offset - row_begin)
    return sub._replace(row_offset=0, num_rows=row_end - row_begin)
