"""What a looped computation carries from chunk to chunk: the rows of matrices that a later chunk reads.

Found by going through the commands backwards. Rows are told apart, columns are not: a row of which some columns are
read counts as a whole. What is carried beyond need does no harm, for nothing reads it.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.compiler.commands import COMMANDS, WITHOUT_CALL, Command, CommandType, Role
from nnet3py.compiler.computation import Computation
from nnet3py.components.base import Properties
from nnet3py.network.nnet import Nnet

_WRITTEN = frozenset((Role.WRITE, Role.PROPAGATED))
_READ = frozenset((Role.READ, Role.READ_WRITE))


class CarriedRows(NamedTuple):
    """Rows of matrices, the same for each sequence.

    Attributes
    ----------
    matrices : int64 (rows,), ascending
    places : int64 (rows,), where the row stands among those of its sequence in the matrix
    """

    matrices: np.ndarray
    places: np.ndarray

    def rows(self, computation: Computation) -> np.ndarray:
        """int64 (sequences, rows): the numbers of these rows in the matrices of ``computation``."""
        count = num_sequences(computation)
        rows = np.zeros((count, len(self.matrices)), np.int64)
        for m in set(self.matrices.tolist()):
            here = self.matrices == m
            rows[:, here] = _rows_of_sequences(computation, m, count)[:, self.places[here]]
        return rows

    def width(self, computation: Computation) -> int:
        """How many elements these rows of one sequence have."""
        return sum(computation.matrices[m].num_cols for m in self.matrices.tolist())


class Chunk(NamedTuple):
    """What is carried to a chunk, and from it to the next one; row by row the same if that is the same chunk again."""

    before: CarriedRows
    after: CarriedRows


class CarriedState(NamedTuple):
    """What is carried to and from each chunk, where the loop begins, and the room that this takes.

    Attributes
    ----------
    chunks : the first chunks of a stream; after the last of them chunk number ``loop_begin`` comes again
    width : the elements of one sequence that are carried, at the most
    """

    chunks: list[Chunk]
    loop_begin: int
    width: int

    def number_of(self, count: int) -> int:
        """Which of the chunks is the one with ``count`` chunks before it."""
        period = len(self.chunks) - self.loop_begin
        return count if count < self.loop_begin else self.loop_begin + (count - self.loop_begin) % period


def num_sequences(computation: Computation) -> int:
    """How many sequences go through a computation together: as many as in any of its inputs."""
    taken = next(command.args[0] for command in computation.commands if command.type == CommandType.ACCEPT_INPUT)
    return 1 + int(computation.debug_info[computation.submatrices[taken].matrix].indexes[:, 0].max())


def carried_state(computation: Computation, nnet: Nnet) -> CarriedState:
    """What a looped computation, which ends with a jump, carries from chunk to chunk."""
    rows = _LiveRows(computation.unfused(), nnet)
    loop_begin, live = rows.at_chunks()
    before = [rows.carried(live_rows) for live_rows in live]
    if rows.last_is_begin_again(loop_begin):
        before.pop()
        last = rows.handed_over(before[loop_begin])
    else:
        loop_begin += 1
        last = before[loop_begin]
    chunks = [Chunk(*pair) for pair in zip(before, [*before[1:], last], strict=True)]
    return CarriedState(chunks, loop_begin, max(chunk.after.width(computation) for chunk in chunks))


class _LiveRows:
    """Which rows of all matrices hold something that is read later, as one bool vector."""

    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation, self.nnet = computation, nnet
        self.starts = np.cumsum([0, *(info.num_rows for info in computation.matrices)])
        self.ranges = [(int(self.starts[sub.matrix]) + sub.row_offset,
                        int(self.starts[sub.matrix]) + sub.row_offset + sub.num_rows,
                        sub.num_cols == computation.matrices[sub.matrix].num_cols)
                       for sub in computation.submatrices]      # the rows, and whether they are as wide as the matrix
        self.begins = _chunk_begins(computation.commands)
        self.firsts = np.array([first for first, _, _ in self.ranges])

    def at_chunks(self) -> tuple[int, list[np.ndarray]]:
        """The number of the chunk to which the jump goes, and before each chunk which rows are live, bool (rows,).

        The last one is where the jump comes from: it takes its inputs, and is then what that chunk is after its own.
        """
        commands, begins = self.computation.commands, self.begins
        label = commands[-1].args[0]
        loop_begin = int(np.searchsorted(begins, label)) - 1
        live = np.zeros(self.starts[-1], bool)
        by_command: dict[int, np.ndarray] = {}
        at_label = live
        while True:                             # until what the last chunk hands over is what the loop begins with
            live = at_label.copy()
            for c in range(len(commands) - 2, label - 1, -1):
                self._before(commands[c], live)
                if c in begins:
                    by_command[c] = live.copy()
            if (live == at_label).all():
                break
            at_label = live
        for c in range(label - 1, -1, -1):
            self._before(commands[c], live)
            if c in begins:
                by_command[c] = live.copy()
        return loop_begin, [by_command[c] for c in begins]

    def _before(self, command: Command, live: np.ndarray) -> None:
        """Turn the rows that are live after a command into those that are before it."""
        kind, _, args = command
        if kind == CommandType.SWAP_MATRIX:
            (a, b, _), (c, d, _) = self.ranges[args[0]], self.ranges[args[1]]
            live[a:b], live[c:d] = live[c:d].copy(), live[a:b].copy()
            return
        adds = kind == CommandType.PROPAGATE and self.nnet.components[args[0]].has(Properties.PROPAGATE_ADDS)
        self._without_written(command, live, adds)
        self._with_read(command, live, adds)

    def _without_written(self, command: Command, live: np.ndarray, adds: bool) -> None:
        """What a command overwrites is not read before it; ``adds``: what it propagates is added."""
        kind, _, args = command
        if kind == CommandType.ALLOC_MATRIX:
            first, end, _ = self.ranges[args[0]]
            live[first:end] = False
        for role, value in zip(COMMANDS[kind].roles, args, strict=False):
            if role in _WRITTEN and value > 0 and not (adds and role == Role.PROPAGATED):
                first, end, is_wide = self.ranges[value]
                if is_wide:
                    live[first:end] = False

    def _with_read(self, command: Command, live: np.ndarray, adds: bool) -> None:
        """What a command reads is live before it."""
        kind, _, args = command
        roles = COMMANDS[kind].roles
        chosen = Role.ROWS in roles or Role.RANGES in roles          # of the rows that are read
        for place, (role, value) in enumerate(zip(roles, args, strict=False)):
            if (role in _READ and value > 0 and not (chosen and place == 1)) or (adds and role == Role.PROPAGATED):
                first, end, _ = self.ranges[value]
                live[first:end] = True
            elif role in (Role.READ_PAIRS, Role.CHANGED_PAIRS):
                pairs = self.computation.indexes_multi[value]
                pairs = pairs[pairs[:, 0] > 0]
                live[self.firsts[pairs[:, 0]] + pairs[:, 1]] = True
            elif role == Role.ROWS:
                indexes = self.computation.indexes[value]
                live[self.firsts[args[1]] + indexes[indexes >= 0]] = True
            elif role == Role.RANGES:
                for begin, end in self.computation.indexes_ranges[value].tolist():
                    live[self.firsts[args[1]] + max(begin, 0):self.firsts[args[1]] + max(end, 0)] = True

    def carried(self, live: np.ndarray) -> CarriedRows:
        """The rows that are live in any sequence; ``live`` is bool (rows of all matrices,)."""
        matrices, places, count = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], num_sequences(self.computation)
        for m in sorted(set((np.searchsorted(self.starts, np.flatnonzero(live), "right") - 1).tolist())):
            mine = live[self.starts[m]:self.starts[m + 1]][_rows_of_sequences(self.computation, m, count)]
            places.append(np.flatnonzero(mine.any(axis=0)))
            matrices.append(np.full(len(places[-1]), m))
        return CarriedRows(np.concatenate(matrices), np.concatenate(places))

    def last_is_begin_again(self, loop_begin: int) -> bool:
        """Whether the last chunk is the one to which it jumps, but for its inputs."""
        commands, givers = self.computation.commands, self._givers()
        label, begin = commands[-1].args[0], self.begins[loop_begin]
        between = {command.type for command in commands[begin:label]} - WITHOUT_CALL - {CommandType.ACCEPT_INPUT}
        own, theirs = self._inputs(self.begins[-1], len(commands)), self._inputs(begin, label)
        return not between and own == {node: givers.get(m) for node, m in theirs.items()}

    def _inputs(self, begin: int, end: int) -> dict[int, int]:
        """The matrix of each input that is taken between two commands, by its node."""
        return {command.args[1]: self.computation.submatrices[command.args[0]].matrix
                for command in self.computation.commands[begin:end] if command.type == CommandType.ACCEPT_INPUT}

    def handed_over(self, taken: CarriedRows) -> CarriedRows:
        """The rows that the swaps at the end move into these."""
        givers = self._givers()
        matrices = np.array([givers.get(m, m) for m in taken.matrices.tolist()], np.int64)
        return CarriedRows(matrices, taken.places)

    def _givers(self) -> dict[int, int]:
        """For each matrix the one that the swaps at the end move into it."""
        computation = self.computation
        swaps = (computation.commands[c].args for c in computation.loop_swaps())
        return {computation.submatrices[a].matrix: computation.submatrices[b].matrix for a, b, *_ in swaps}


def _chunk_begins(commands: list[Command]) -> list[int]:
    """The numbers of the commands that take the first input of each chunk."""
    begins, exchanges = [0], CommandType.ACCEPT_INPUT
    for c, command in enumerate(commands):
        if command.type == CommandType.ACCEPT_INPUT and exchanges == CommandType.PROVIDE_OUTPUT:
            begins.append(c)
        if command.type in (CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT):
            exchanges = command.type
    return begins


def _rows_of_sequences(computation: Computation, m: int, count: int) -> np.ndarray:
    """int64 (sequences, rows of each): the rows of matrix ``m`` of each sequence, in order."""
    n = computation.debug_info[m].indexes[:, 0]
    return np.argsort(n, kind="stable").reshape(count, -1)
