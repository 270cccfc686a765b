"""A computation's commands, sub-matrices and matrices as arrays, and passes over such arrays."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.compiler.computation import COMMANDS, NUM_ARGS, Command, CommandType, Computation, Role

_TYPES = tuple(CommandType)            # by their numbers

# For each command type the roles of its arguments, (types, 7); a number past the last role means no argument.
ROLES = np.full((len(CommandType), NUM_ARGS), len(Role))
for _kind, _info in COMMANDS.items():
    ROLES[_kind, :len(_info.roles)] = _info.roles


class CommandTable:
    """A list of commands as arrays, which are never changed.

    Attributes
    ----------
    types, alphas : uint8, float64 (commands,)
    rows : int64 (commands, 7), the arguments
    numbers, args : for each command type the numbers of its commands, and their arguments, int64 (commands, 7)
    """

    def __init__(self, types: np.ndarray, alphas: np.ndarray, rows: np.ndarray) -> None:
        self.types, self.alphas, self.rows = types, alphas, rows

    @classmethod
    def of(cls, commands: Collection[Command]) -> CommandTable:
        """Make the table of a list of commands."""
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
        """Return the positions in ``rows.ravel()`` of the arguments that have one of these roles, ascending."""
        wanted = np.zeros(len(Role) + 1, bool)
        wanted[list(roles)] = True
        return np.flatnonzero(wanted[ROLES][self.types])

    def take(self, chosen: np.ndarray) -> CommandTable:
        """Return the table of the commands with these numbers, in this order."""
        return CommandTable(self.types[chosen], self.alphas[chosen], self.rows[chosen])

    def followed_by(self, other: CommandTable) -> CommandTable:
        """Return the table of these commands followed by the others."""
        return CommandTable(*(np.concatenate(pair) for pair in zip(
            (self.types, self.alphas, self.rows), (other.types, other.alphas, other.rows), strict=True)))


def command_table(computation: Computation) -> CommandTable:
    """Return the commands of a computation as arrays."""
    return computation.derived(_command_table, "commands")


def keep_command_table(computation: Computation, table: CommandTable) -> None:
    """Store a table of the computation's commands, for :func:`command_table`."""
    computation.keep_derived(_command_table, table, "commands")


def make_commands(table: CommandTable) -> list[Command]:
    """Return the list of commands that a table describes."""
    types = map(_TYPES.__getitem__, table.types.tolist())
    return list(map(partial(tuple.__new__, Command),
                    zip(types, table.alphas.tolist(), map(tuple, table.rows.tolist()), strict=True)))


def _command_table(computation: Computation) -> CommandTable:
    return CommandTable.of(computation.commands)


def submatrix_table(computation: Computation) -> np.ndarray:
    """Return the sub-matrices as int64 (sub-matrices, 5): matrix, first row, rows, first column, columns."""
    return computation.derived(_submatrix_table, "submatrices")


def keep_submatrix_table(computation: Computation, table: np.ndarray) -> None:
    """Store a table of the computation's sub-matrices, for :func:`submatrix_table`."""
    computation.keep_derived(_submatrix_table, table, "submatrices")


def _submatrix_table(computation: Computation) -> np.ndarray:
    return np.fromiter(chain.from_iterable(computation.submatrices), np.int64).reshape(-1, 5)


def matrix_sizes(computation: Computation) -> np.ndarray:
    """Return rows and columns of the matrices, int64 (matrices, 2)."""
    return computation.derived(_matrix_sizes, "matrices")


def _matrix_sizes(computation: Computation) -> np.ndarray:
    return np.fromiter(chain.from_iterable(computation.matrices), np.int64).reshape(-1, 3)[:, :2]


def whole_submatrices(computation: Computation) -> np.ndarray:
    """Return for each sub-matrix whether it is all of its matrix, bool; false for the empty one."""
    subs, sizes = submatrix_table(computation), matrix_sizes(computation)
    whole = (subs[:, 2] == sizes[subs[:, 0], 0]) & (subs[:, 4] == sizes[subs[:, 0], 1])
    whole[0] = False
    return np.asarray(whole)


def least_at(count: int, places: np.ndarray, values: np.ndarray, none: int) -> np.ndarray:
    """Return the least of ``values`` at each of ``count`` ``places``, int64; ``none`` for a place without values."""
    out = np.full(count, none)
    np.minimum.at(out, places, values)
    return out


def greatest_at(count: int, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the greatest of ``values`` at each of ``count`` ``places``, int64; -1 for a place without values."""
    out = np.full(count, -1)
    np.maximum.at(out, places, values)
    return out


def least(entries: list[np.ndarray]) -> np.ndarray:
    """Return the least number in each of the arrays, int64 (entries,); 0 for an empty array."""
    return _reduced(np.minimum, entries, 0)


def greatest(entries: list[np.ndarray]) -> np.ndarray:
    """Return the greatest number in each of the arrays, int64 (entries,); -1 for an empty array."""
    return _reduced(np.maximum, entries, -1)


def _reduced(function: np.ufunc, entries: list[np.ndarray], none: int) -> np.ndarray:
    sizes = np.fromiter([entry.size for entry in entries], np.int64, len(entries))
    out = np.full(len(entries), none, np.int64)
    filled = sizes > 0
    if filled.any():
        flat = np.concatenate([entry.ravel() for entry in entries])
        out[filled] = function.reduceat(flat, (np.cumsum(sizes) - sizes)[filled])
    return out


# -- command lists with some commands removed, added or moved ----------------------------------------------------------


def take_commands(computation: Computation, chosen: np.ndarray, added: Collection[Command] = ()) -> Computation:
    """Return the computation with the commands of these numbers, in this order.

    Numbers from the number of commands on refer to ``added``. The command table of the result is made from the old one.
    """
    commands, table = computation.commands, command_table(computation)
    if added:
        commands, table = [*commands, *added], table.followed_by(CommandTable.of(added))
    out = computation.copy()
    out.commands = list(map(commands.__getitem__, chosen.tolist()))
    keep_command_table(out, table.take(chosen))
    return out


def sort_commands(computation: Computation, places: np.ndarray) -> Computation:
    """Return the computation with its commands sorted (stably) by ``places``, int64 (commands,)."""
    if (places[1:] >= places[:-1]).all():
        return computation
    return take_commands(computation, np.argsort(places, kind="stable"))


def drop_commands(computation: Computation, numbers: Collection[int] | np.ndarray) -> Computation:
    """Return the computation without these commands; it must not end with a jump, which refers to a number."""
    if not len(numbers):
        return computation
    stays = np.ones(len(computation.commands), bool)
    stays[numbers if isinstance(numbers, np.ndarray) else list(numbers)] = False
    return take_commands(computation, np.flatnonzero(stays))


def replace_commands(computation: Computation, new: Mapping[int, Command]) -> Computation:
    """Return the computation with another command in place of each of these numbers."""
    if not new:
        return computation
    chosen = np.arange(len(computation.commands))
    chosen[list(new)] = np.arange(len(chosen), len(chosen) + len(new))
    return take_commands(computation, chosen, new.values())


def substitute_commands(computation: Computation, new: Mapping[int, Sequence[Command]]) -> Computation:
    """Return the computation with any number of commands in place of each of these numbers.

    The key ``len(commands)`` stands for commands at the end.
    """
    if not new:
        return computation
    places = sorted(new)
    added = [command for c in places for command in new[c]]
    end = len(computation.commands)
    where = np.repeat(places, [len(new[c]) for c in places])
    stays = np.ones(end + len(added), bool)
    stays[[c for c in places if c < end]] = False
    chosen = np.insert(np.arange(end), where, np.arange(end, end + len(added)))
    return take_commands(computation, chosen[stays[chosen]], added)
