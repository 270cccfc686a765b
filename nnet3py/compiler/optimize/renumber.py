"""What no command refers to goes, what is there twice becomes one."""
from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nnet3py.compiler.analyze import CommandTable
from nnet3py.compiler.commands import COMMANDS, NUM_ARGS, SUBMATRIX_ROLES, Command, CommandType, Role
from nnet3py.compiler.computation import Computation, SubMatrix

_PAIR_ROLES = frozenset((Role.READ_PAIRS, Role.CHANGED_PAIRS))


def renumber(computation: Computation) -> Computation:
    """An equal computation without unused or repeated sub-matrices, matrices and lists of rows.

    Equal rectangles become one sub-matrix, so that a command works in place exactly if it names one sub-matrix twice.
    Memos are numbered 1, 2, … in the order of the commands that make them. Kaldi: RenumberComputation.
    """
    work = _Renumbering(computation)
    work.submatrices_and_matrices()
    work.row_lists()
    work.memos()
    return work.finish()


def arguments_with(table: CommandTable, roles: Iterable[Role]) -> list[tuple[CommandType, int]]:
    """Command types that occur, and the places of those of their arguments that have one of these roles."""
    wanted = frozenset(roles)
    return [(kind, place) for kind, info in COMMANDS.items() if len(table.numbers[kind])
            for place, role in enumerate(info.roles) if role in wanted]


class _Renumbering:
    def __init__(self, computation: Computation) -> None:
        self.old, self.new = computation, computation.copy()
        self.table = CommandTable(computation)
        self.changed = False

    def submatrices_and_matrices(self) -> None:
        old, new = self.old, self.new
        pairs = self._used(_PAIR_ROLES, len(old.indexes_multi))
        used = self._used(SUBMATRIX_ROLES, len(old.submatrices))
        for i in np.flatnonzero(pairs).tolist():
            named = old.indexes_multi[i][:, 0]
            used[named[named >= 0]] = True
        used[0] = True
        kept = np.flatnonzero(used)
        numbers, first = _unify([old.submatrices[s] for s in kept.tolist()])
        mapping = np.full(len(used), -1)
        mapping[kept] = numbers
        kept = kept[first]
        matrices = np.zeros(len(old.matrices), bool)
        matrices[0] = True
        matrices[[old.submatrices[s].matrix for s in kept.tolist()]] = True
        place = (np.cumsum(matrices) - 1).tolist()
        if len(kept) == len(used) and matrices.all():
            return
        self.changed = True
        new.submatrices = [SubMatrix(place[m], *window) for m, *window in (old.submatrices[s] for s in kept.tolist())]
        present = np.flatnonzero(matrices).tolist()
        new.matrices = [old.matrices[m] for m in present]
        if len(old.debug_info) == len(old.matrices):
            new.debug_info = [old.debug_info[m] for m in present]
        self._map(SUBMATRIX_ROLES, mapping)
        for i in np.flatnonzero(pairs).tolist():
            entry = old.indexes_multi[i].copy()
            entry[:, 0] = np.where(entry[:, 0] < 0, -1, mapping[entry[:, 0]])
            new.indexes_multi[i] = entry

    def row_lists(self) -> None:
        """Unused and repeated entries of the lists of rows, pairs and ranges."""
        for name, roles in (("indexes", (Role.ROWS,)), ("indexes_multi", tuple(_PAIR_ROLES)),
                            ("indexes_ranges", (Role.RANGES,))):
            entries = getattr(self.new, name)
            used = np.flatnonzero(self._used(roles, len(entries)))
            numbers, first = _unify_arrays([entries[i] for i in used.tolist()])
            if len(first) == len(entries):
                continue
            self.changed = True
            mapping = np.full(len(entries), -1)
            mapping[used] = numbers
            setattr(self.new, name, [entries[i] for i in used[first].tolist()])
            self._map(roles, mapping)

    def memos(self) -> None:
        made = self.table.args[CommandType.PROPAGATE][:, 4]
        made = made[made > 0]
        if (made == np.arange(1, len(made) + 1)).all():
            return
        self.changed = True
        mapping = np.zeros(int(made.max()) + 1, np.int64)
        mapping[made] = np.arange(1, len(made) + 1)
        self._map((Role.MEMO,), mapping)

    def finish(self) -> Computation:
        if not self.changed:
            return self.old
        args = np.full((len(self.old.commands), NUM_ARGS), -1)
        for kind, numbers in self.table.numbers.items():
            args[numbers] = self.table.args[kind]
        self.new.commands = [Command(one.type, one.alpha, tuple(row))
                             for one, row in zip(self.old.commands, args.tolist(), strict=True)]
        return self.new

    def _used(self, roles: Iterable[Role], count: int) -> np.ndarray:
        used = np.zeros(count, bool)
        for kind, place in arguments_with(self.table, roles):
            column = self.table.args[kind][:, place]
            used[column[column >= 0]] = True
        return used

    def _map(self, roles: Iterable[Role], mapping: np.ndarray) -> None:
        for kind, place in arguments_with(self.table, roles):
            column = self.table.args[kind][:, place]
            self.table.args[kind][:, place] = np.where(column < 0, column, mapping[column])


def _unify(entries: list) -> tuple[np.ndarray, np.ndarray]:
    """For each entry the number of its value, by first appearance, and where each value appears first."""
    number_of: dict = {}
    numbers = np.array([number_of.setdefault(entry, len(number_of)) for entry in entries], np.int64)
    return numbers, np.unique(numbers, return_index=True)[1]


def _unify_arrays(entries: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The same for arrays; those that agree in size and a few elements are compared in full."""
    alike: dict[tuple, list[int]] = {}
    numbers: list[int] = []
    first: list[int] = []
    for i, entry in enumerate(entries):
        flat = entry.ravel()
        group = alike.setdefault((len(flat), *flat[[0, len(flat) // 2, -1]].tolist()) if len(flat) else (), [])
        same = [j for j in group if np.array_equal(entries[first[j]], entry)]
        if not same:
            same = [len(first)]
            group.append(len(first))
            first.append(i)
        numbers.append(same[0])
    return np.array(numbers, np.int64), np.array(first, np.int64)
