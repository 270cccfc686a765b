"""A computation's commands, sub-matrices and matrices as arrays, and small helpers for such arrays."""
from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import chain

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.compiler.commands import COMMANDS, NUM_ARGS, Command, CommandType, Role
from nnet3py.compiler.computation import Computation

_TYPES = tuple(CommandType)            # by number

# Of each command type the roles of its arguments, (types, 7); past the last role for none.
ROLES = np.full((len(CommandType), NUM_ARGS), len(Role))
for _kind, _info in COMMANDS.items():
    ROLES[_kind, :len(_info.roles)] = _info.roles


class CommandTable:
    """The commands as arrays, never changed.

    Attributes
    ----------
    types, alphas : uint8, float64 (commands,)
    rows : int64 (commands, 7), the arguments
    numbers, args : by type, the numbers of the commands of the type, and their arguments, int64
    """

    def __init__(self, types: np.ndarray, alphas: np.ndarray, rows: np.ndarray) -> None:
        self.types, self.alphas, self.rows = types, alphas, rows

    @classmethod
    def of(cls, commands: Collection[Command]) -> CommandTable:
        """The table of a list."""
        rows = np.fromiter(chain.from_iterable([command[2] for command in commands]), np.int64,
                           NUM_ARGS * len(commands))
        return cls(np.frombuffer(bytes([command[0] for command in commands]), np.uint8),
                   np.fromiter([command[1] for command in commands], np.float64, len(commands)), rows.reshape(-1,
                                                                                                              NUM_ARGS))

    @cached_property
    def numbers(self) -> dict[CommandType, np.ndarray]:
        order = np.argsort(self.types, kind="stable")
        ends = np.cumsum(np.bincount(self.types, minlength=len(CommandType))).tolist()
        return {kind: order[begin:end] for kind, begin, end in zip(CommandType, (0, *ends), ends, strict=False)}

    @cached_property
    def args(self) -> dict[CommandType, np.ndarray]:
        return {kind: self.rows[numbers] for kind, numbers in self.numbers.items()}

    def positions(self, roles: Collection[Role]) -> np.ndarray:
        """Where in ``rows.ravel()`` the arguments are that have one of these roles, ascending."""
        wanted = np.zeros(len(Role) + 1, bool)
        wanted[list(roles)] = True
        return np.flatnonzero(wanted[ROLES][self.types])

    def take(self, chosen: np.ndarray) -> CommandTable:
        """The table of the commands with these numbers, in this order."""
        return CommandTable(self.types[chosen], self.alphas[chosen], self.rows[chosen])

    def followed_by(self, other: CommandTable) -> CommandTable:
        """The table of these commands followed by the others."""
        return CommandTable(*(np.concatenate(pair) for pair in zip(
            (self.types, self.alphas, self.rows), (other.types, other.alphas, other.rows), strict=True)))


def command_table(computation: Computation) -> CommandTable:
    """The commands as arrays."""
    return computation.made(_command_table, "commands")


def keep_command_table(computation: Computation, table: CommandTable) -> None:
    """Keep the commands as arrays, where the caller has these already."""
    computation.keep(_command_table, table, "commands")


def make_commands(table: CommandTable) -> list[Command]:
    """The list of commands that a table describes."""
    types = map(_TYPES.__getitem__, table.types.tolist())
    return list(map(partial(tuple.__new__, Command),
                    zip(types, table.alphas.tolist(), map(tuple, table.rows.tolist()), strict=True)))


def _command_table(computation: Computation) -> CommandTable:
    return CommandTable.of(computation.commands)


def submatrix_table(computation: Computation) -> np.ndarray:
    """The sub-matrices as int64 (sub-matrices, 5): matrix, first row, rows, first column, columns."""
    return computation.made(_submatrix_table, "submatrices")


def keep_submatrix_table(computation: Computation, table: np.ndarray) -> None:
    """Keep the sub-matrices as an array, where the caller has that already."""
    computation.keep(_submatrix_table, table, "submatrices")


def _submatrix_table(computation: Computation) -> np.ndarray:
    return np.fromiter(chain.from_iterable(computation.submatrices), np.int64).reshape(-1, 5)


def matrix_sizes(computation: Computation) -> np.ndarray:
    """Rows and columns of the matrices, int64 (matrices, 2)."""
    return computation.made(_matrix_sizes, "matrices")


def _matrix_sizes(computation: Computation) -> np.ndarray:
    return np.fromiter(chain.from_iterable(computation.matrices), np.int64).reshape(-1, 3)[:, :2]


def whole_submatrices(computation: Computation) -> np.ndarray:
    """For each sub-matrix whether it is all of its matrix, bool; the empty one is not."""
    subs, sizes = submatrix_table(computation), matrix_sizes(computation)
    whole = (subs[:, 2] == sizes[subs[:, 0], 0]) & (subs[:, 4] == sizes[subs[:, 0], 1])
    whole[0] = False
    return np.asarray(whole)


def least_at(count: int, places: np.ndarray, values: np.ndarray, none: int) -> np.ndarray:
    """For each of ``count`` places the least value, int64; ``none`` where there is none."""
    out = np.full(count, none)
    np.minimum.at(out, places, values)
    return out


def greatest_at(count: int, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each of ``count`` places the greatest value, int64; -1 where there is none."""
    out = np.full(count, -1)
    np.maximum.at(out, places, values)
    return out


def least(entries: list[np.ndarray]) -> np.ndarray:
    """The least number in each of the arrays, int64 (entries,); 0 for those without any."""
    return _reduced(np.minimum, entries, 0)


def greatest(entries: list[np.ndarray]) -> np.ndarray:
    """The greatest number in each of the arrays, int64 (entries,); -1 for those without any."""
    return _reduced(np.maximum, entries, -1)


def _reduced(function: np.ufunc, entries: list[np.ndarray], none: int) -> np.ndarray:
    sizes = np.fromiter([entry.size for entry in entries], np.int64, len(entries))
    out = np.full(len(entries), none, np.int64)
    filled = sizes > 0
    if filled.any():
        flat = np.concatenate([entry.ravel() for entry in entries])
        out[filled] = function.reduceat(flat, (np.cumsum(sizes) - sizes)[filled])
    return out
