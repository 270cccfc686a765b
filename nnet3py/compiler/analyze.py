"""What each command reads and writes, and when each part of each matrix is first and last used.

A variable is a rectangle of a matrix that no sub-matrix cuts: the boundaries of all its sub-matrices divide it into a
grid. Everything is arrays: accesses sorted by variable, then command. Kaldi: nnet-analyze.h.
"""
from __future__ import annotations

from collections.abc import Collection
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.commands import COMMANDS, NUM_ARGS, Command, CommandType, Role
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.graph import ragged
from nnet3py.components.base import Properties

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

READ, WRITE, READ_WRITE = 1, 2, 3     # bits, so that the union of two accesses is their "or"

_TYPES = tuple(CommandType)            # by number
_ACCESS_OF_ROLE = {Role.READ: READ, Role.WRITE: WRITE, Role.READ_WRITE: READ_WRITE}


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
        rows = np.fromiter(chain.from_iterable([one[2] for one in commands]), np.int64, NUM_ARGS * len(commands))
        return cls(np.frombuffer(bytes([one[0] for one in commands]), np.uint8),
                   np.fromiter([one[1] for one in commands], np.float64, len(commands)), rows.reshape(-1, NUM_ARGS))

    @cached_property
    def numbers(self) -> dict[CommandType, np.ndarray]:
        order = np.argsort(self.types, kind="stable")
        ends = np.cumsum(np.bincount(self.types, minlength=len(CommandType))).tolist()
        return {kind: order[begin:end] for kind, begin, end in zip(CommandType, (0, *ends), ends, strict=False)}

    @cached_property
    def args(self) -> dict[CommandType, np.ndarray]:
        return {kind: self.rows[numbers] for kind, numbers in self.numbers.items()}

    def positions(self, roles: Collection[Role]) -> np.ndarray:
        """Where in ``rows.ravel()`` the arguments are that have one of these roles, by type."""
        found = [NUM_ARGS * self.numbers[kind] + place for kind, info in COMMANDS.items() if len(self.numbers[kind])
                 for place, role in enumerate(info.roles) if role in roles]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def take(self, chosen: np.ndarray) -> CommandTable:
        """That of the commands of these numbers, in this order."""
        return CommandTable(self.types[chosen], self.alphas[chosen], self.rows[chosen])

    def followed_by(self, other: CommandTable) -> CommandTable:
        """That of these commands and then the others."""
        return CommandTable(*(np.concatenate(pair) for pair in zip(
            (self.types, self.alphas, self.rows), (other.types, other.alphas, other.rows), strict=True)))


def command_table(computation: Computation) -> CommandTable:
    """The commands as arrays."""
    return computation.made(_command_table, "commands")


def keep_command_table(computation: Computation, table: CommandTable) -> None:
    """Remember the commands as arrays, which somebody knows already."""
    computation.keep(_command_table, table, "commands")


def make_commands(table: CommandTable) -> list[Command]:
    """The list of which this is the table."""
    types = map(_TYPES.__getitem__, table.types.tolist())
    return list(map(partial(tuple.__new__, Command),
                    zip(types, table.alphas.tolist(), map(tuple, table.rows.tolist()), strict=True)))


def _command_table(computation: Computation) -> CommandTable:
    return CommandTable.of(computation.commands)


def submatrix_table(computation: Computation) -> np.ndarray:
    """The sub-matrices as int64 (sub-matrices, 5): matrix, first row, rows, first column, columns."""
    return computation.made(_submatrix_table, "submatrices")


def keep_submatrix_table(computation: Computation, table: np.ndarray) -> None:
    """Remember the sub-matrices as an array, which somebody knows already."""
    computation.keep(_submatrix_table, table, "submatrices")


def _submatrix_table(computation: Computation) -> np.ndarray:
    return np.fromiter(chain.from_iterable(computation.submatrices), np.int64).reshape(-1, 5)


def matrix_sizes(computation: Computation) -> np.ndarray:
    """Rows and columns of the matrices, int64 (matrices, 2)."""
    return computation.made(_matrix_sizes, "matrices")


def _matrix_sizes(computation: Computation) -> np.ndarray:
    return np.fromiter(chain.from_iterable(computation.matrices), np.int64).reshape(-1, 3)[:, :2]


def whole_submatrices(computation: Computation) -> np.ndarray:
    """Of each sub-matrix whether it is all of its matrix, bool; the empty one is not."""
    subs, sizes = submatrix_table(computation), matrix_sizes(computation)
    whole = (subs[:, 2] == sizes[subs[:, 0], 0]) & (subs[:, 4] == sizes[subs[:, 0], 1])
    whole[0] = False
    return whole


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


class Variables:
    """The grid of each matrix, and the variables of each sub-matrix (``starts``, ``counts`` into ``flat``)."""

    def __init__(self, computation: Computation) -> None:
        subs = submatrix_table(computation)
        matrices = matrix_sizes(computation)
        first_row, end_row, self.row_cuts = _cuts(subs[:, 0], subs[:, 1], subs[:, 2], matrices[:, 0])
        first_col, end_col, self.col_cuts = _cuts(subs[:, 0], subs[:, 3], subs[:, 4], matrices[:, 1])
        self.row_bands, self.col_bands = (np.maximum(np.diff(c[1]) - 1, 0) for c in (self.row_cuts, self.col_cuts))
        self.row_bands[0] = 0
        per_matrix = self.row_bands * self.col_bands
        self.first_of_matrix = np.cumsum(per_matrix) - per_matrix
        self.count = int(per_matrix.sum())
        self.matrix = np.repeat(np.arange(len(matrices)), per_matrix)
        rows, cols = end_row - first_row, end_col - first_col
        self.counts = rows * cols
        self.counts[0] = 0
        self.starts = np.cumsum(self.counts) - self.counts
        owner = np.repeat(np.arange(len(subs)), self.counts)
        place = ragged(np.zeros(len(subs), np.int64), self.counts)
        row, col = np.divmod(place, np.maximum(cols[owner], 1))
        self.flat = (self.first_of_matrix[subs[owner, 0]] + (first_row[owner] + row) * self.col_bands[subs[owner, 0]]
                     + first_col[owner] + col)

    def of(self, s: int) -> np.ndarray:
        """The variables of sub-matrix ``s``, ascending."""
        return self.flat[self.starts[s]:self.starts[s] + self.counts[s]]

    def text(self, variable: int) -> str:
        """``m3``, or ``m3(0:4,:)`` where the matrix is cut."""
        m = int(self.matrix[variable])
        row, col = divmod(variable - int(self.first_of_matrix[m]), int(self.col_bands[m]))
        if self.row_bands[m] == 1 and self.col_bands[m] == 1:
            return f"m{m}"
        return f"m{m}({_band_text(self.row_cuts, m, row)},{_band_text(self.col_cuts, m, col)})"


Cuts = tuple[np.ndarray, np.ndarray]     # all boundaries, and where each matrix's begin among them


def _cuts(matrix: np.ndarray, offset: np.ndarray, size: np.ndarray,
          totals: np.ndarray) -> tuple[np.ndarray, np.ndarray, Cuts]:
    """For each sub-matrix its first band and the band after its last, in its matrix; and the boundaries."""
    unit = int(totals.max(initial=0)) + 1
    all_matrices = np.arange(len(totals))
    first = matrix * unit + offset
    keys = np.concatenate((first, first + size, all_matrices * unit, all_matrices * unit + totals))
    keys.sort()
    keys = keys[np.diff(keys, prepend=-1) > 0]
    starts = np.searchsorted(keys, np.arange(len(totals) + 1) * unit)
    begin = np.searchsorted(keys, first) - starts[matrix]
    end = np.searchsorted(keys, first + size) - starts[matrix]
    return begin, end, (keys % unit, starts)


def _band_text(cuts: Cuts, m: int, band: int) -> str:
    bounds = cuts[0][cuts[1][m]:cuts[1][m + 1]]
    return ":" if len(bounds) == 2 else f"{bounds[band]}:{bounds[band + 1] - 1}"


def submatrix_accesses(computation: Computation, nnet: Nnet, table: CommandTable) -> tuple[np.ndarray, ...]:
    """Every access as three arrays: command, sub-matrix (never 0), READ, WRITE or READ_WRITE. Sizing is none."""
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    flags = np.array([int(component.properties) for component in nnet.components], np.int64)
    adds = {Role.PROPAGATED: flags & int(Properties.PROPAGATE_ADDS) > 0,
            Role.BACKPROPAGATED: flags & int(Properties.BACKPROP_ADDS) > 0}
    for kind, info in COMMANDS.items():
        numbers, args = table.numbers[kind], table.args[kind]
        if not len(numbers):
            continue
        for place, role in enumerate(info.roles):
            column = args[:, place]
            if role in _ACCESS_OF_ROLE:
                access = np.full(len(numbers), _ACCESS_OF_ROLE[role])
                if kind == CommandType.COPY_ROWS and role == Role.WRITE:
                    rows = [computation.indexes[entry] for entry in args[:, 2].tolist()]
                    access[least(rows) < 0] = READ_WRITE      # as Kaldi has it, although the gaps are set to zero
            elif role in adds:
                access = np.where(adds[role][args[:, 0]], READ_WRITE, WRITE)
            elif role in (Role.READ_PAIRS, Role.CHANGED_PAIRS):
                found.append(_pair_accesses(computation, numbers, column,
                                            READ if role == Role.READ_PAIRS else READ_WRITE))
                continue
            else:
                continue
            real = column > 0
            found.append((numbers[real], column[real], access[real]))
    empty = np.zeros(0, np.int64)
    return tuple(np.concatenate(parts) for parts in zip((empty, empty, empty), *found, strict=True))


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


def _pair_accesses(computation: Computation, numbers: np.ndarray, entries: np.ndarray,
                   access: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    used = []
    for entry in entries.tolist():
        is_used = np.zeros(len(computation.submatrices) + 1, bool)
        is_used[computation.indexes_multi[entry][:, 0]] = True
        used.append(np.flatnonzero(is_used[1:-1]) + 1)         # the last one is for -1, none
    commands = np.repeat(numbers, [len(s) for s in used])
    return commands, np.concatenate(used), np.full(len(commands), access)


class Accesses:
    """Accesses of variables (or of matrices), sorted by variable, then command; one for each pair of them."""

    def __init__(self, owners: np.ndarray, commands: np.ndarray, kinds: np.ndarray, count: int,
                 num_commands: int) -> None:
        keys = np.sort((owners * (num_commands + 1) + commands) * (READ_WRITE + 1) + kinds)
        pairs = keys // (READ_WRITE + 1)
        firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
        self.kinds = np.bitwise_or.reduceat(keys % (READ_WRITE + 1), firsts) if len(firsts) else kinds[:0]
        self.owners, self.commands = np.divmod(pairs[firsts], num_commands + 1)
        self.starts = np.searchsorted(self.owners, np.arange(count + 1))

    def of(self, owner: int) -> tuple[np.ndarray, np.ndarray]:
        """Commands, ascending, and kinds of the accesses of one."""
        chosen = slice(int(self.starts[owner]), int(self.starts[owner + 1]))
        return self.commands[chosen], self.kinds[chosen]

    def first(self, chosen: np.ndarray, none: int) -> np.ndarray:
        """For each owner the first command among the ``chosen`` accesses (bool), or ``none``."""
        return least_at(len(self.starts) - 1, self.owners[chosen], self.commands[chosen], none)

    def last(self, chosen: np.ndarray) -> np.ndarray:
        """For each owner the last command among the ``chosen`` accesses (bool), or -1."""
        return greatest_at(len(self.starts) - 1, self.owners[chosen], self.commands[chosen])


class Analysis:
    """When and how a computation's matrices are used. The lists per sub-matrix answer Kaldi's ``ComputationAnalysis``.

    Attributes
    ----------
    commands, submatrices, kinds : every access, in no order: command, sub-matrix (never 0), READ, WRITE or READ_WRITE
    matrices, matrix_kinds : of every access its matrix, and the kind that it is of (writing a part of a matrix counts
        as reading and writing it)
    variables, accesses, matrix_accesses : the grid; accesses of variables; accesses of matrices
    allocated, freed : int64, per matrix the commands that allocate (or first accept) and free it, -1 for none
    is_input, is_output : bool, per matrix: some command accepts or provides it
    is_zeroing : bool, per command, and false for the number of commands
    """

    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation = computation
        self.num_commands = len(computation.commands)
        self.table = command_table(computation)
        self.commands, self.submatrices, self.kinds = submatrix_accesses(computation, nnet, self.table)
        self.matrix_of, self.is_whole = submatrix_table(computation)[:, 0], whole_submatrices(computation)
        self.matrices = self.matrix_of[self.submatrices]
        self._find_sizing()
        is_zeroing = (self.table.types == CommandType.SET_CONST) & (self.table.alphas == 0.0)
        self.is_zeroing = np.append(is_zeroing, False)

    def _find_sizing(self) -> None:
        count, numbers, args = len(self.computation.matrices), self.table.numbers, self.table.args
        self.allocated, self.freed = np.full(count, -1), np.full(count, -1)
        self.is_input, self.is_output = np.zeros(count, bool), np.zeros(count, bool)
        accepted = self.matrix_of[args[CommandType.ACCEPT_INPUT][:, 0]]
        self.allocated[accepted[::-1]] = numbers[CommandType.ACCEPT_INPUT][::-1]       # the first one stays
        for kind, place, target in ((CommandType.ALLOC_MATRIX, 0, self.allocated),
                                    (CommandType.SWAP_MATRIX, 0, self.allocated),
                                    (CommandType.DEALLOC_MATRIX, 0, self.freed),
                                    (CommandType.SWAP_MATRIX, 1, self.freed)):
            target[self.matrix_of[args[kind][:, place]]] = numbers[kind]
        self.is_input[accepted] = True
        self.is_output[self.matrix_of[args[CommandType.PROVIDE_OUTPUT][:, 0]]] = True

    @cached_property
    def variables(self) -> Variables:
        return self.computation.made(Variables, "matrices", "submatrices")

    @cached_property
    def accesses(self) -> Accesses:
        variables, s = self.variables, self.submatrices
        counts = variables.counts[s]
        return Accesses(variables.flat[ragged(variables.starts[s], counts)], np.repeat(self.commands, counts),
                        np.repeat(self.kinds, counts), variables.count, self.num_commands)

    @cached_property
    def matrix_kinds(self) -> np.ndarray:
        return np.where((self.kinds & WRITE > 0) & ~self.is_whole[self.submatrices], READ_WRITE, self.kinds)

    @cached_property
    def matrix_accesses(self) -> Accesses:
        return Accesses(self.matrices, self.commands, self.matrix_kinds, len(self.computation.matrices),
                        self.num_commands)

    # -- one answer per matrix or variable, without sorting --------------------------------------------------------

    def first_of_matrices(self) -> np.ndarray:
        """The first command that accesses each matrix, num_commands if none does."""
        return least_at(len(self.computation.matrices), self.matrices, self.commands, self.num_commands)

    def last_of_matrices(self) -> np.ndarray:
        """The last command that accesses each matrix, -1 if none does."""
        return greatest_at(len(self.computation.matrices), self.matrices, self.commands)

    def first_of_variables(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first command that accesses each variable, and whether it just writes it.

        Counting the ``chosen`` accesses only (bool, per access); num_commands and False if there is none.
        """
        variables, none = self.variables, 2 * self.num_commands
        s = self.submatrices[chosen]
        just_writes = self.kinds[chosen] == WRITE
        by_submatrix = least_at(len(self.matrix_of), s, 2 * self.commands[chosen] + just_writes, none)
        found = least_at(variables.count, variables.flat, np.repeat(by_submatrix, variables.counts), none)
        return found >> 1, found & 1 > 0

    @cached_property
    def first_of_all_variables(self) -> tuple[np.ndarray, np.ndarray]:
        """The same, counting all accesses."""
        return self.first_of_variables(np.ones(len(self.commands), bool))

    # -- one answer per sub-matrix ---------------------------------------------------------------------------------

    def _over_submatrices(self, per_variable: np.ndarray, smallest: bool, none: int) -> np.ndarray:
        """The least (greatest) of a number per variable over each sub-matrix's variables; ``none`` for sub-matrix 0."""
        out = np.full(len(self.matrix_of), none)
        owners = np.repeat(np.arange(len(out)), self.variables.counts)
        (np.minimum if smallest else np.maximum).at(out, owners, per_variable[self.variables.flat])
        return out

    def first_accesses(self) -> np.ndarray:
        """Per sub-matrix the first command that accesses any of it, num_commands if none does. Kaldi: FirstAccess."""
        everything = np.ones(len(self.accesses.commands), bool)
        return self._over_submatrices(self.accesses.first(everything, self.num_commands), True, self.num_commands)

    def first_nontrivial_accesses(self) -> np.ndarray:
        """The same, not counting commands that set to zero. Kaldi: FirstNontrivialAccess."""
        first, _ = self.first_of_variables(~self.is_zeroing[self.commands])
        return self._over_submatrices(first, True, self.num_commands)

    def last_accesses(self) -> np.ndarray:
        """Per sub-matrix the last command that accesses any of it, -1 if none does. Kaldi: LastAccess."""
        return self._over_submatrices(self.accesses.last(np.ones(len(self.accesses.commands), bool)), False, -1)

    def last_write_accesses(self) -> np.ndarray:
        """The same for writing; num_commands where the matrix is an output. Kaldi: LastWriteAccess."""
        last = self._over_submatrices(self.accesses.last(self.accesses.kinds != READ), False, -1)
        return np.where(self.is_output[self.matrix_of], self.num_commands, last)

    def data_invalidated(self, c: int, s: int) -> int:
        """The first command after ``c`` that writes any of ``s`` or frees it, or num_commands.

        Kaldi: DataInvalidatedCommand.
        """
        ends = [self.num_commands]
        freed = int(self.freed[self.matrix_of[s]])
        if freed >= 0:
            ends.append(freed)
        for variable in self.variables.of(s).tolist():
            commands, kinds = self.accesses.of(variable)
            later = commands[(commands > c) & (kinds != READ)]
            if len(later):
                ends.append(int(later[0]))
        return min(ends)

