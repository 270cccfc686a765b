"""Renumbering: unused and repeated sub-matrices, matrices and lists of rows are dropped."""
from __future__ import annotations

from collections.abc import Collection, Hashable
from functools import partial

import numpy as np

from nnet3py.compiler.computation import PAIR_ROLES, SUBMATRIX_ROLES, CommandType, Computation, Role, SubMatrix
from nnet3py.compiler.tables import (
    CommandTable,
    command_table,
    keep_command_table,
    keep_submatrix_table,
    make_commands,
    submatrix_table,
)


def renumber(computation: Computation) -> Computation:
    """Return an equal computation without unused or repeated sub-matrices, matrices and lists of rows.

    Equal rectangles become one sub-matrix, so that a command works in place exactly if it names one sub-matrix twice.
    Memos are numbered 1, 2, … in the order of the commands that make them. Kaldi: RenumberComputation.
    """
    return renumbered(computation, command_table(computation), submatrix_table(computation))


def renumbered(computation: Computation, table: CommandTable, submatrices: np.ndarray) -> Computation:
    """Return a computation with the given commands and sub-matrices (arrays) in place of its own, renumbered."""
    work = _Renumbering(computation, table, submatrices)
    work.submatrices_and_matrices()
    work.row_lists()
    work.memos()
    return work.finish()


class _Renumbering:
    def __init__(self, computation: Computation, table: CommandTable, submatrices: np.ndarray) -> None:
        self.old, self.new = computation, computation.copy()
        self.table, self.submatrices = table, submatrices
        self.rows = table.rows.copy()
        self.changed = table is not command_table(computation) or submatrices is not submatrix_table(computation)

    def submatrices_and_matrices(self) -> None:
        """Number the used sub-matrices and matrices from 1 on; equal sub-matrices become one."""
        old, new = self.old, self.new
        subs = self.submatrices
        pairs = np.flatnonzero(self._used(PAIR_ROLES, len(old.indexes_multi))).tolist()
        used = self._used(SUBMATRIX_ROLES, len(subs))
        for i in pairs:
            named = old.indexes_multi[i][:, 0]
            used[named[named >= 0]] = True
        used[0] = True
        kept = np.flatnonzero(used)
        numbers, first = _unify(_keys(subs[kept]))
        mapping = np.full(len(used) + 1, -1)       # the last element stands for -1, no sub-matrix
        mapping[kept] = numbers
        kept = kept[first]
        matrices = np.zeros(len(old.matrices), bool)
        matrices[0] = True
        matrices[subs[kept, 0]] = True
        if not self.changed and len(kept) == len(used) and matrices.all():
            return
        self.changed = True
        subs = subs[kept]
        subs[:, 0] = (np.cumsum(matrices) - 1)[subs[:, 0]]
        new.submatrices = list(map(partial(tuple.__new__, SubMatrix), subs.tolist()))
        keep_submatrix_table(new, subs)
        present = np.flatnonzero(matrices).tolist()
        new.matrices = [old.matrices[m] for m in present]
        if len(old.debug_info) == len(old.matrices):
            new.debug_info = [old.debug_info[m] for m in present]
        self._map(SUBMATRIX_ROLES, mapping)
        for i in pairs:
            entry = old.indexes_multi[i].copy()
            entry[:, 0] = mapping[np.maximum(entry[:, 0], -1)]
            new.indexes_multi[i] = entry

    def row_lists(self) -> None:
        """Drop unused and repeated entries of the lists of rows, pairs and ranges."""
        for name, roles in (("indexes", (Role.ROWS,)), ("indexes_multi", PAIR_ROLES),
                            ("indexes_ranges", (Role.RANGES,))):
            entries = getattr(self.new, name)
            if not entries:
                continue
            used = np.flatnonzero(self._used(roles, len(entries)))
            chosen = [entries[i] for i in used.tolist()]
            number_of: dict[Hashable, int] = {}
            numbers, first = _unify(np.array([number_of.setdefault((entry.dtype, entry.tobytes()), len(number_of))
                                              for entry in chosen], np.int64))
            if len(first) == len(entries):
                continue
            self.changed = True
            mapping = np.full(len(entries) + 1, -1)
            mapping[used] = numbers
            setattr(self.new, name, [chosen[i] for i in first.tolist()])
            self._map(roles, mapping)

    def memos(self) -> None:
        """Number the memos that are used from 1 on."""
        memos = self.table.args[CommandType.PROPAGATE][:, 4]
        memos = memos[memos > 0]
        if (memos == np.arange(1, len(memos) + 1)).all():
            return
        self.changed = True
        mapping = np.zeros(int(memos.max()) + 2, np.int64)
        mapping[memos] = np.arange(1, len(memos) + 1)
        mapping[-1] = -1
        self._map((Role.MEMO,), mapping)

    def finish(self) -> Computation:
        """Return the computation with the new numbers."""
        if not self.changed:
            return self.old
        table = CommandTable(self.table.types, self.table.alphas, self.rows)
        self.new.commands = make_commands(table)
        keep_command_table(self.new, table)
        return self.new

    def _used(self, roles: Collection[Role], count: int) -> np.ndarray:
        """Return which of the numbers below ``count`` occur as an argument with one of these roles, bool (count,)."""
        used = np.zeros(count + 1, bool)
        used[self.rows.ravel()[self.table.positions(roles)]] = True
        return used[:-1]

    def _map(self, roles: Collection[Role], mapping: np.ndarray) -> None:
        positions = self.table.positions(roles)
        flat = self.rows.ravel()
        flat[positions] = mapping[flat[positions]]


def _unify(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each key the number of its value, numbered by first appearance, and each value's first position."""
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place[numbers], first[order]


def _keys(rows: np.ndarray) -> np.ndarray:
    """Return int64 (rows,), equal exactly for equal rows of non-negative integers."""
    keys, bound = np.zeros(len(rows), np.int64), 1       # keys are smaller than the bound
    for column in rows.T:
        radix = int(column.max(initial=0)) + 1
        if bound * radix > np.iinfo(np.int64).max:
            keys, bound = np.unique(keys, return_inverse=True)[1], len(rows)
        keys, bound = keys * radix + column, bound * radix
    return keys
