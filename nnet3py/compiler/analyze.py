"""Analysis: the reads and writes of each command, and the first and last use of each part of each matrix.

A variable is a rectangle of a matrix that no sub-matrix cuts: the boundaries of all its sub-matrices divide it into a
grid. All results are arrays; accesses are sorted by variable, then command. Kaldi: nnet-analyze.h.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.compiler.computation import NUM_ARGS, CommandType, Computation, Role
from nnet3py.compiler.graph import ragged
from nnet3py.compiler.tables import (
    ROLES,
    CommandTable,
    command_table,
    greatest_at,
    least,
    least_at,
    matrix_sizes,
    submatrix_table,
    whole_submatrices,
)
from nnet3py.components.base import Properties

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

READ, WRITE, READ_WRITE = 1, 2, 3     # bits, so that the union of two accesses is their "or"

# The access of each command type to its arguments that are sub-matrices, uint8 (types, 7); 0: no access.
_ACCESS = np.zeros(ROLES.shape, np.uint8)
for _role, _access in ((Role.READ, READ), (Role.WRITE, WRITE), (Role.READ_WRITE, READ_WRITE),
                       (Role.PROPAGATED, WRITE), (Role.BACKPROPAGATED, WRITE)):
    _ACCESS[ROLES == _role] = _access


class Variables:
    """The variables of a computation, numbered from 0.

    Those of sub-matrix s are ``flat[starts[s]:starts[s] + counts[s]]``.
    """

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
        """Return the variables of sub-matrix ``s``, ascending."""
        return np.asarray(self.flat[self.starts[s]:self.starts[s] + self.counts[s]])

    def text(self, variable: int) -> str:
        """Return the name of a variable for messages: ``m3``, or ``m3(0:4,:)`` if it is a part of the matrix."""
        m = int(self.matrix[variable])
        row, col = divmod(variable - int(self.first_of_matrix[m]), int(self.col_bands[m]))
        if self.row_bands[m] == 1 and self.col_bands[m] == 1:
            return f"m{m}"
        return f"m{m}({_band_text(self.row_cuts, m, row)},{_band_text(self.col_cuts, m, col)})"


Cuts = tuple[np.ndarray, np.ndarray]     # the boundaries of all matrices, and the place of each matrix's first one


def _cuts(matrix: np.ndarray, offset: np.ndarray, size: np.ndarray,
          totals: np.ndarray) -> tuple[np.ndarray, np.ndarray, Cuts]:
    """Cut the rows (or columns) of all matrices at the boundaries of their sub-matrices, into bands.

    Returns for each sub-matrix its first band and the band after its last; and the boundaries of all matrices.
    """
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
    """Return every access as three arrays: command, sub-matrix (never 0), and READ, WRITE or READ_WRITE.

    Allocations, deallocations and swaps are no accesses.
    """
    access = _ACCESS[table.types]          # for every argument, 0 for none
    flags = np.array([int(component.properties) for component in nnet.components], np.int64)
    for kind, place, adds in ((CommandType.PROPAGATE, 3, Properties.PROPAGATE_ADDS),
                              (CommandType.BACKPROP, 5, Properties.BACKPROP_ADDS),
                              (CommandType.BACKPROP_NO_MODEL_UPDATE, 5, Properties.BACKPROP_ADDS)):
        numbers = table.numbers[kind]
        access[numbers[flags[table.rows[numbers, 0]] & int(adds) > 0], place] = READ_WRITE
    numbers = table.numbers[CommandType.COPY_ROWS]
    if len(numbers):      # copies with gaps also read, as in Kaldi, although the gaps are set to zero
        rows = [computation.indexes[entry] for entry in table.rows[numbers, 2].tolist()]
        access[numbers[least(rows) < 0], 0] = READ_WRITE
    access *= table.rows > 0
    places = np.flatnonzero(access)
    accesses = [(places // NUM_ARGS, table.rows.ravel()[places], access.ravel()[places].astype(np.int64))]
    for role, kind_of_access in ((Role.READ_PAIRS, READ), (Role.CHANGED_PAIRS, READ_WRITE)):
        places = table.positions((role,))
        if len(places):
            accesses.append(_pair_accesses(computation, places // NUM_ARGS, table.rows.ravel()[places], kind_of_access))
    return tuple(map(np.concatenate, zip(*accesses, strict=True)))


def _pair_accesses(computation: Computation, numbers: np.ndarray, entries: np.ndarray,
                   access: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    used = []
    for entry in entries.tolist():
        is_used = np.zeros(len(computation.submatrices) + 1, bool)
        is_used[computation.indexes_multi[entry][:, 0]] = True
        used.append(np.flatnonzero(is_used[1:-1]) + 1)         # the last element stands for -1, none
    commands = np.repeat(numbers, [len(s) for s in used])
    return commands, np.concatenate(used), np.full(len(commands), access)


class Accesses:
    """The accesses of each variable (or of each matrix, the *owner*), sorted by owner, then command.

    Several accesses of one owner by one command are joined into one.
    """

    def __init__(self, owners: np.ndarray, commands: np.ndarray, kinds: np.ndarray, count: int,
                 num_commands: int) -> None:
        keys = np.sort((owners * (num_commands + 1) + commands) * (READ_WRITE + 1) + kinds)
        pairs = keys // (READ_WRITE + 1)
        firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
        self.kinds = np.bitwise_or.reduceat(keys % (READ_WRITE + 1), firsts) if len(firsts) else kinds[:0]
        self.owners, self.commands = np.divmod(pairs[firsts], num_commands + 1)
        self.starts = np.searchsorted(self.owners, np.arange(count + 1))

    def of(self, owner: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the commands that access an owner, ascending, and whether each reads, writes or does both."""
        chosen = slice(int(self.starts[owner]), int(self.starts[owner + 1]))
        return self.commands[chosen], self.kinds[chosen]

    def first(self, chosen: np.ndarray, none: int) -> np.ndarray:
        """Return for each owner the first command among its ``chosen`` (bool) accesses; ``none`` without any."""
        return least_at(len(self.starts) - 1, self.owners[chosen], self.commands[chosen], none)

    def last(self, chosen: np.ndarray) -> np.ndarray:
        """Return for each owner the last command among its ``chosen`` (bool) accesses; -1 without any."""
        return greatest_at(len(self.starts) - 1, self.owners[chosen], self.commands[chosen])


class Analysis:
    """The uses of a computation's matrices. Kaldi: ``Analyzer``, ``ComputationAnalysis``.

    Attributes
    ----------
    commands, submatrices, kinds : every access, in no order: command, sub-matrix (never 0), READ, WRITE or READ_WRITE
    matrices, matrix_kinds : for every access its matrix, and its kind for the whole matrix: READ_WRITE if only a part
        of the matrix is written
    variables : the variables of the computation
    accesses, matrix_accesses : the accesses of each variable, and of each matrix
    allocated, freed : int64, for each matrix the commands that allocate (or first accept) and free it, -1 for none
    is_input, is_output : bool, for each matrix whether some command accepts or provides it
    is_zeroing : bool (commands + 1,), whether each command sets its matrix to zero; the last element is false
    """

    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation = computation
        self.num_commands = len(computation.commands)
        self.table = command_table(computation)
        plain = computation.unfused()
        self.commands, self.submatrices, self.kinds = submatrix_accesses(plain, nnet, command_table(plain))
        if plain is not computation:      # the accesses of a fused command are those of its parts
            self.commands = np.repeat(np.arange(self.num_commands), [
                len(computation.parts_of(command)) for command in computation.commands])[self.commands]
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
        self.allocated[accepted[::-1]] = numbers[CommandType.ACCEPT_INPUT][::-1]       # the first acceptance stays
        for kind, place, target in ((CommandType.ALLOC_MATRIX, 0, self.allocated),
                                    (CommandType.SWAP_MATRIX, 0, self.allocated),
                                    (CommandType.DEALLOC_MATRIX, 0, self.freed),
                                    (CommandType.SWAP_MATRIX, 1, self.freed)):
            target[self.matrix_of[args[kind][:, place]]] = numbers[kind]
        self.is_input[accepted] = True
        self.is_output[self.matrix_of[args[CommandType.PROVIDE_OUTPUT][:, 0]]] = True

    @cached_property
    def variables(self) -> Variables:
        return self.computation.derived(Variables, "matrices", "submatrices")

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
        """Return the first command that accesses each matrix, num_commands if none does."""
        return least_at(len(self.computation.matrices), self.matrices, self.commands, self.num_commands)

    def last_of_matrices(self) -> np.ndarray:
        """Return the last command that accesses each matrix, -1 if none does."""
        return greatest_at(len(self.computation.matrices), self.matrices, self.commands)

    def first_of_variables(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first command that accesses each variable, and whether it writes the variable without reading it.

        Only the ``chosen`` accesses count (bool, for each access); num_commands and False if there is none.
        """
        variables, none = self.variables, 2 * self.num_commands
        s = self.submatrices[chosen]
        just_writes = self.kinds[chosen] == WRITE
        by_submatrix = least_at(len(self.matrix_of), s, 2 * self.commands[chosen] + just_writes, none)
        first = least_at(variables.count, variables.flat, np.repeat(by_submatrix, variables.counts), none)
        return first >> 1, first & 1 > 0

    @cached_property
    def first_of_all_variables(self) -> tuple[np.ndarray, np.ndarray]:
        """The result of :meth:`first_of_variables` with all accesses chosen."""
        return self.first_of_variables(np.ones(len(self.commands), bool))

    # -- one answer per sub-matrix ---------------------------------------------------------------------------------

    def first_nontrivial_accesses(self) -> np.ndarray:
        """Return for each sub-matrix the first command that accesses an element of it; num_commands if none does.

        Commands that set to zero do not count. Kaldi: FirstNontrivialAccess.
        """
        first, _ = self.first_of_variables(~self.is_zeroing[self.commands])
        out = np.full(len(self.matrix_of), self.num_commands)
        owners = np.repeat(np.arange(len(out)), self.variables.counts)
        np.minimum.at(out, owners, first[self.variables.flat])
        return out
