"""The pass that ends a computation over equal chunks of time with a jump back, so that it can go on for ever.

After the first chunks, every chunk is computed like the one before, some frames later. Where the matrices that are
still needed are the same at the same point of two chunks, but for the time of their rows, the second chunk and all
that follow are left out: each matrix of the first takes over the contents of its counterpart, and the first chunk is
computed again.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import WRITE, Analysis
from nnet3py.compiler.computation import COMMANDS, PAIR_ROLES, SUBMATRIX_ROLES, CommandType, Computation, Role, command
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.index import NO_TIME
from nnet3py.network.nnet import Nnet


def form_loop(computation: Computation, nnet: Nnet) -> Computation:
    """End the computation with a jump back to an equal chunk; return it unchanged if no two chunks are equal.

    Takes a computation with one segment for each chunk, in each the inputs first and the outputs last, and with every
    matrix allocated (and zeroed, if at all) just before its first use. Kaldi: OptimizeLoopedComputation. Kaldi compares
    whole matrices; here the parts in use have to agree too, for in chunks shorter than the network's memory a matrix
    of the start may be in use at both points, but not for the same rows.
    """
    analysis = Analysis(computation, nnet)
    splices = analysis.table.numbers[CommandType.NO_OPERATION_PERMANENT].tolist()
    shift = _time_shift(computation, analysis)
    if len(splices) < 2 or shift == 0:
        return computation
    states = _States(analysis)
    splice_states = [states.at(c) for c in splices]
    for i, first in enumerate(splice_states):
        for j in range(i + 1, len(splice_states)):
            pairs = _matched(first, splice_states[j], (j - i) * shift)
            if pairs is not None and states.stay_in_use([a for a, b in pairs if a == b], splices[i::j - i][:3]):
                return _looped(computation, splices[i], splices[j], [(a, b) for a, b in pairs if a != b])
    return computation


class _Matrix(NamedTuple):
    """A matrix whose contents a later command reads.

    Attributes
    ----------
    contents : a number, equal for matrices of the same size, nodes and indexes, with t relative to the first row
    first_t : the time of the first row
    live : the parts that have been written and will be read, as bytes to compare
    matrix : the number of the matrix
    """

    contents: int
    first_t: int
    live: bytes
    matrix: int


class _States:
    """The matrices in use at given commands."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.computation = analysis, analysis.computation
        self._numbers: dict[tuple[object, ...], int] = {}
        accesses = analysis.matrix_accesses
        self._first = accesses.first(~analysis.is_zeroing[accesses.commands], analysis.num_commands)
        self._last = accesses.last(np.ones(len(accesses.commands), bool))

    def at(self, c: int) -> list[_Matrix]:
        """Return the matrices in use at command ``c``, sorted by contents, then time."""
        live = self._live_variables(c)
        active = np.flatnonzero((self._first < c) & (self._last > c)).tolist()
        return sorted(_Matrix(*self._description(m), self._live_parts(m, live), m) for m in active)

    def _description(self, m: int) -> tuple[int, int]:
        nodes, indexes, is_deriv = self.computation.debug_info[m]
        real = indexes[:, 1] != NO_TIME
        first_t = int(indexes[real, 1][0]) if real.any() else 0
        relative = indexes.copy()
        relative[real, 1] -= first_t
        key = self.computation.matrices[m], nodes.tobytes(), relative.tobytes(), is_deriv
        return self._numbers.setdefault(key, len(self._numbers)), first_t

    def _live_variables(self, c: int) -> np.ndarray:
        """Return for each variable whether its contents at command ``c`` will be read, bool."""
        accesses = self.analysis.accesses
        starts, ends = accesses.starts[:-1], accesses.starts[1:]
        before = np.bincount(accesses.owners[accesses.commands < c], minlength=len(starts))
        following = np.minimum(starts + before, len(accesses.kinds) - 1)
        return np.asarray((before > 0) & (starts + before < ends) & (accesses.kinds[following] != WRITE))

    def _live_parts(self, m: int, live: np.ndarray) -> bytes:
        """Describe the parts of matrix ``m`` in ``live`` by bytes that do not depend on its division into variables."""
        variables = self.analysis.variables
        first, rows, cols = (int(counts[m]) for counts in (
            variables.first_of_matrix, variables.row_bands, variables.col_bands))
        grid = live[first:first + rows * cols].reshape(rows, cols)
        (row_cuts, row_starts), (col_cuts, col_starts) = variables.row_cuts, variables.col_cuts
        keep_rows = np.append(True, (grid[1:] != grid[:-1]).any(axis=1))
        keep_cols = np.append(True, (grid[:, 1:] != grid[:, :-1]).any(axis=0))
        return b"".join(array.tobytes() for array in (
            row_cuts[row_starts[m]:row_starts[m] + rows][keep_rows],
            col_cuts[col_starts[m]:col_starts[m] + cols][keep_cols], grid[keep_rows][:, keep_cols]))

    def stay_in_use(self, matrices: list[int], splices: list[int]) -> bool:
        """Return whether the next two rounds use each of these matrices, both in the same way.

        ``splices`` has the first command of these rounds and of the round after them; with fewer the result is false.
        """
        if not matrices:
            return True
        if len(splices) < 3:
            return False
        first, second, end = splices
        return all(self._uses(m, first, second) == self._uses(m, second, end) != [] for m in matrices)

    def _uses(self, m: int, begin: int, end: int) -> list[tuple[object, ...]]:
        """Describe the commands from ``begin`` to ``end`` that use matrix ``m``, with times left out."""
        commands, _ = self.analysis.matrix_accesses.of(m)
        uses: list[tuple[object, ...]] = []
        for c in commands[(commands >= begin) & (commands < end)].tolist():
            kind, alpha, args = self.computation.commands[c]
            described = [self._argument(role, value) for role, value in zip(COMMANDS[kind].roles, args, strict=False)]
            uses.append((kind, alpha, *described))
        return uses

    def _argument(self, role: Role, value: int) -> object:
        if role in SUBMATRIX_ROLES:
            return self._place(value)
        if role == Role.ROWS:
            return self.computation.indexes[value].tobytes()
        if role == Role.RANGES:
            return self.computation.indexes_ranges[value].tobytes()
        if role in PAIR_ROLES:
            pairs = self.computation.indexes_multi[value]
            return tuple(map(self._place, pairs[:, 0].tolist())), pairs[:, 1].tobytes()
        return value if role in (Role.COMPONENT, Role.FLAG, Role.NODE) else None

    def _place(self, s: int) -> tuple[int, ...]:
        if s <= 0:
            return ()
        matrix, *window = self.computation.submatrices[s]
        return self._description(matrix)[0], *window


def _time_shift(computation: Computation, analysis: Analysis) -> int:
    """Return the distance in frames between the outputs of consecutive chunks; 0 if there are too few chunks.

    It is the most frequent distance: an output's matrix may have been merged with another, whose rows have other times.
    """
    markers = analysis.table.numbers[CommandType.NO_OPERATION_MARKER]
    provided = analysis.table.numbers[CommandType.PROVIDE_OUTPUT]
    matrices = analysis.matrix_of[analysis.table.args[CommandType.PROVIDE_OUTPUT][:, 0]]
    _, first = np.unique(np.searchsorted(markers, provided), return_index=True)        # each segment's first output
    times = np.array([computation.debug_info[m].indexes[0, 1] for m in matrices[first].tolist()])
    if len(times) < 3:
        return 0
    distances, counts = np.unique(np.diff(times), return_counts=True)
    return int(distances[counts.argmax()])


def _matched(first: list[_Matrix], second: list[_Matrix], shift: int) -> list[tuple[int, int]] | None:
    """Pair the matrices of two states that hold the same rows ``shift`` frames apart; None if the states differ.

    Rows whose time does not change, such as an i-vector for all frames, are in the same matrix in both states.
    """
    if len(first) != len(second):
        return None
    for a, b in zip(first, second, strict=True):
        moves = b.first_t - a.first_t == shift or (b.first_t, b.matrix) == (a.first_t, a.matrix)
        if not moves or (a.contents, a.live) != (b.contents, b.live):
            return None
    return [(a.matrix, b.matrix) for a, b in zip(first, second, strict=True)]


def _looped(computation: Computation, begin: int, end: int, pairs: list[tuple[int, int]]) -> Computation:
    out = computation.copy()
    whole = out.whole_submatrices()
    swaps = [command(CommandType.SWAP_MATRIX, whole[a], whole[b]) for a, b in _in_order(pairs)]
    out.commands = [*computation.commands[:begin], command(CommandType.NO_OPERATION_LABEL),
                    *computation.commands[begin:end], *swaps, command(CommandType.GOTO_LABEL, begin)]
    return renumber(out)


def _in_order(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort the pairs (taker, giver) so that the contents of a matrix are moved away before it receives others."""
    ordered = []
    waiting = dict(pairs)
    while waiting:
        givers = set(waiting.values())
        ready = [taker for taker in waiting if taker not in givers]
        ordered += [(taker, waiting.pop(taker)) for taker in ready]
    return ordered
