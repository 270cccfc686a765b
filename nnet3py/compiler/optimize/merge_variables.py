"""Matrices that are copied, or transformed element by element, into others share their place.

A merge puts one matrix into a window of another. Matrices that belong together form a group, whose root is the matrix
that stays; where its sub-matrices lie in the root is all that commands need to know. When each sub-matrix is used is
found out once: commands that merges remove still count, which can only forbid merges, never allow one.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import (
    READ,
    CommandTable,
    command_table,
    submatrix_accesses,
    submatrix_table,
    whole_submatrices,
)
from nnet3py.compiler.computation import CommandType, Computation, SubMatrix
from nnet3py.compiler.optimize.command_lists import drop_commands
from nnet3py.compiler.optimize.options import OptimizeOptions
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.components.base import Properties
from nnet3py.network.nnet import Nnet


def merge_variables(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None) -> Computation:
    """Let components work in place and remove copies, by merging the two matrices that the command connects.

    Takes a computation that allocates, and sets to zero, all its matrices first and frees them last. What may be merged
    is in ``options``: remove_assignments, propagate_in_place, backprop_in_place; allow_left_merge (the source's matrix
    stays, tried first), allow_right_merge (the destination's stays). Kaldi: VariableMergingOptimization.
    """
    options = options or OptimizeOptions()
    table = command_table(computation)
    candidates = _candidates(computation, nnet, options, table)
    if not candidates:
        return computation
    usage = _Usage(computation, nnet, table)
    merger = _Merger(computation, usage, table, options)
    for candidate in usage.in_order(usage.plausible(candidates)):
        merger.consider(candidate)
    return merger.finish()


class _Candidate(NamedTuple):
    """A command that goes from one sub-matrix to another, element by element.

    A plain copy (with factor 1) is superfluous after the merge; other commands then work in place. ``values`` are
    sub-matrices that a backward command needs besides.
    """

    command: int
    source: int
    target: int
    is_plain_copy: bool = False
    values: tuple[int, ...] = ()


def _candidates(computation: Computation, nnet: Nnet, options: OptimizeOptions,
                table: CommandTable) -> list[_Candidate]:
    """What the options allow."""
    found: list[_Candidate] = []
    if options.remove_assignments:
        kind = CommandType.MATRIX_COPY
        for c, args in zip(table.numbers[kind].tolist(), table.args[kind].tolist(), strict=True):
            found.append(_Candidate(c, args[1], args[0], computation.commands[c].alpha == 1.0))
    for wanted, flag, kind, source, target in (
            (options.propagate_in_place, Properties.PROPAGATE_IN_PLACE, CommandType.PROPAGATE, 2, 3),
            (options.backprop_in_place, Properties.BACKPROP_IN_PLACE, CommandType.BACKPROP, 4, 5),
            (options.backprop_in_place, Properties.BACKPROP_IN_PLACE, CommandType.BACKPROP_NO_MODEL_UPDATE, 4, 5)):
        args, numbers = table.args[kind], table.numbers[kind]
        if not wanted or not len(numbers):
            continue
        able = np.array([component.has(flag) for component in nnet.components], bool)[args[:, 0]]
        able &= (args[:, source] > 0) & (args[:, target] > 0)
        for c, one in zip(numbers[able].tolist(), args[able].tolist(), strict=True):
            values = () if kind == CommandType.PROPAGATE else tuple(s for s in one[2:4] if s > 0)
            found.append(_Candidate(c, one[source], one[target], values=values))
    return found


class _Usage:
    """When each sub-matrix is used, by its own number: int64 arrays over sub-matrices.

    Attributes
    ----------
    table, is_whole : see ``submatrix_table``; bool, whether it is all of its matrix
    first : the first command that uses it, but for setting to zero; the number of commands if none does
    last, last_write : the last that uses it, that writes it; -1 for none
    writes, write_starts : the commands that write it are ``writes[write_starts[s]:write_starts[s + 1]]``, ascending
    """

    def __init__(self, computation: Computation, nnet: Nnet, table: CommandTable) -> None:
        self.computation = computation
        self.table = submatrix_table(computation)
        self.is_whole = whole_submatrices(computation)
        self.num_commands, count = len(computation.commands), len(computation.submatrices)
        commands, s, kinds = submatrix_accesses(computation, nnet, table)
        order = np.lexsort((commands, s))
        commands, s, kinds = commands[order], s[order], kinds[order]
        zeroing = np.zeros(self.num_commands, bool)
        for c in table.numbers[CommandType.SET_CONST].tolist():
            zeroing[c] = computation.commands[c].alpha == 0.0
        useful, writing = ~zeroing[commands], kinds != READ
        self.first = np.full(count, self.num_commands)
        self.first[s[useful][::-1]] = commands[useful][::-1]        # of several values for one place the last one stays
        self.last, self.last_write = np.full(count, -1), np.full(count, -1)
        self.last[s] = commands
        self.last_write[s[writing]] = commands[writing]
        self.writes = commands[writing].tolist()
        self.write_starts = np.searchsorted(s[writing], np.arange(count + 1)).tolist()

    def plausible(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """Those with a whole matrix on one side that the use of the two sub-matrices by these names does not forbid."""
        c, source, target, is_copy = (np.array(column) for column in list(zip(*candidates, strict=True))[:4])
        fine = (self.is_whole[source] | self.is_whole[target]) & (self.first[target] == c)
        fine &= np.where(is_copy, self.last_write[source] < c, self.last[source] == c)
        return [candidates[i] for i in np.flatnonzero(fine).tolist()]

    def in_order(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """The order in which they are tried, for one merge may forbid another.

        Copies come first, since merging removes them altogether. Last come copies into a part of a matrix on which a
        component could otherwise work in place, and could no longer because the source is needed for longer: the
        matrix that it would then need is larger than the one that goes.
        """
        computation = self.computation
        in_place: dict[int, int] = {}      # matrix -> the first command that could work in place on it
        for one in sorted(candidates):
            if not one.is_plain_copy:
                in_place.setdefault(computation.submatrices[one.source].matrix, one.command)

        def turn(one: _Candidate) -> int:
            if not one.is_plain_copy:
                return 1
            other = in_place.get(computation.submatrices[one.target].matrix, -1)
            keeps_busy = one.command < other < int(self.last[one.source])
            return 2 if keeps_busy and not self.is_whole[one.target] else 0

        return sorted(candidates, key=lambda one: (turn(one), one.command))


@dataclass(slots=True)
class _Group:
    """Matrices that share their place: the commands that allocate it, set all of it to zero, free it; -1 for none."""

    submatrices: list[int]           # those that are used
    contiguous: bool
    allocated: int = -1
    zeroed: int = -1
    freed: int = -1
    is_input: bool = False
    is_output: bool = False


class _Merger:
    def __init__(self, computation: Computation, usage: _Usage, table: CommandTable, options: OptimizeOptions) -> None:
        self.computation, self.usage, self.options = computation, usage, options
        # Of each sub-matrix: its root, and the rows and columns where it begins and ends there.
        subs = usage.table
        self.root, self.row, self.column = subs[:, 0].tolist(), subs[:, 1].tolist(), subs[:, 3].tolist()
        self.end_row, self.end_column = (subs[:, 1] + subs[:, 2]).tolist(), (subs[:, 3] + subs[:, 4]).tolist()
        self.first, self.last, self.last_write = (
            column.tolist() for column in (usage.first, usage.last, usage.last_write))
        self.groups = self._make_groups(table)
        self.removed: list[int] = []
        self.num_merges = 0

    def _make_groups(self, table: CommandTable) -> list[_Group]:
        """Every matrix as a group of its own."""
        groups = [_Group([], info.contiguous) for info in self.computation.matrices]
        for s in np.flatnonzero(self.usage.last >= 0).tolist():
            groups[self.root[s]].submatrices.append(s)
        first_use = [min((self.first[s] for s in group.submatrices), default=-1) for group in groups]

        def commands_of(kind: CommandType) -> Iterator[tuple[int, int, int]]:
            """Matrix, sub-matrix and number of each command of a type, from last to first."""
            for c, s in zip(table.numbers[kind][::-1].tolist(), table.args[kind][::-1, 0].tolist(), strict=True):
                yield self.root[s], s, c

        for m, _, c in commands_of(CommandType.ALLOC_MATRIX):
            groups[m].allocated = c
        for m, _, c in commands_of(CommandType.ACCEPT_INPUT):
            groups[m].allocated, groups[m].is_input = c, True
        for m, _, c in commands_of(CommandType.DEALLOC_MATRIX):
            groups[m].freed = c
        for m, _, _ in commands_of(CommandType.PROVIDE_OUTPUT):
            groups[m].is_output = True
        for m, s, c in commands_of(CommandType.SET_CONST):
            if self.computation.commands[c].alpha == 0.0 and c < first_use[m] and self.usage.is_whole[s]:
                groups[m].zeroed = c
        return groups

    def consider(self, candidate: _Candidate) -> None:
        """Merge the two matrices of a candidate if that changes no result."""
        source, target = candidate.source, candidate.target
        if self.root[source] == self.root[target] or not self._is_possible(candidate):
            return
        of_source, of_target = self.groups[self.root[source]], self.groups[self.root[target]]
        source_is_whole, target_is_whole = self._is_whole(source), self._is_whole(target)
        if (of_source.is_input and of_target.is_input) or (of_source.is_output and of_target.is_output):
            return
        exchanged = any(group.is_input or group.is_output for group in (of_source, of_target))
        if exchanged and not (source_is_whole and target_is_whole):
            return
        if self.options.allow_left_merge and target_is_whole and (source_is_whole or not of_target.contiguous):
            self._merge(source, self.root[target])
        elif self.options.allow_right_merge and source_is_whole and (target_is_whole or not of_source.contiguous):
            self._merge(target, self.root[source])
        else:
            return
        if candidate.is_plain_copy:
            self.removed.append(candidate.command)

    def finish(self) -> Computation:
        if not self.num_merges:
            return self.computation
        out = self.computation.copy()
        for s, sub in enumerate(out.submatrices):
            if sub.matrix != self.root[s]:
                out.submatrices[s] = SubMatrix(self.root[s], self.row[s], sub.num_rows, self.column[s], sub.num_cols)
        out.matrices = [info._replace(contiguous=True) if group.contiguous > info.contiguous else info
                        for info, group in zip(out.matrices, self.groups, strict=True)]
        return renumber(drop_commands(out, self.removed))

    # -- places ----------------------------------------------------------------------------------------------------

    def _is_whole(self, s: int) -> bool:
        """Whether a sub-matrix is all of its root."""
        rows, columns, _ = self.computation.matrices[self.root[s]]
        return self.row[s] == self.column[s] == 0 and self.end_row[s] == rows and self.end_column[s] == columns

    def _overlapping(self, s: int) -> list[int]:
        """The used sub-matrices that share an element with ``s``, itself among them."""
        others = self.groups[self.root[s]].submatrices
        if len(others) == 1:
            return others
        row, end_row, column, end_column = self.row, self.end_row, self.column, self.end_column
        r0, r1, c0, c1 = row[s], end_row[s], column[s], end_column[s]
        return [t for t in others if row[t] < r1 and r0 < end_row[t] and column[t] < c1 and c0 < end_column[t]]

    # -- conditions ------------------------------------------------------------------------------------------------

    def _is_possible(self, candidate: _Candidate) -> bool:
        """Whether the use of the two places allows them to be one."""
        c, first, last = candidate.command, self.first, self.last
        over_target = self._overlapping(candidate.target)
        if min([first[s] for s in over_target]) != c or self.groups[self.root[candidate.source]].is_output:
            return False
        over_source = self._overlapping(candidate.source)
        last_use = max([last[s] for s in over_source])
        if candidate.is_plain_copy:
            return (max([self.last_write[s] for s in over_source]) < c
                    and last_use < self._invalidated(c, over_target, self.groups[self.root[candidate.target]].freed))
        return last_use == c and not any(s in over_source or s in over_target for s in candidate.values)

    def _invalidated(self, c: int, submatrices: list[int], freed: int) -> int:
        """The first command after ``c`` that writes any of the sub-matrices or frees them."""
        end = freed if freed >= 0 else self.usage.num_commands
        writes, starts = self.usage.writes, self.usage.write_starts
        for s in submatrices:
            at = bisect_right(writes, c, starts[s], starts[s + 1])
            if at < starts[s + 1]:
                end = min(end, writes[at])
        return end

    # -- merging ---------------------------------------------------------------------------------------------------

    def _merge(self, place: int, discarded: int) -> None:
        """Put all of a root where sub-matrix ``place`` of another is."""
        self.num_merges += 1
        kept, down, right = self.root[place], self.row[place], self.column[place]
        ours, theirs = self.groups[kept], self.groups[discarded]
        for s in theirs.submatrices:
            self.root[s] = kept
            self.row[s] += down
            self.end_row[s] += down
            self.column[s] += right
            self.end_column[s] += right
        ours.submatrices += theirs.submatrices
        self._merge_sizing(ours, theirs)
        ours.is_input |= theirs.is_input
        ours.is_output |= theirs.is_output
        ours.contiguous |= theirs.contiguous

    def _merge_sizing(self, ours: _Group, theirs: _Group) -> None:
        """One allocation stays, of an input its acceptance; an output is not freed."""
        if theirs.is_input:
            self._remove(ours.allocated, ours.zeroed)
            ours.allocated, ours.zeroed = theirs.allocated, -1
        else:
            self._remove(theirs.allocated, theirs.zeroed)
        self._remove(theirs.freed)
        if theirs.freed < 0:
            self._remove(ours.freed)
            ours.freed = -1

    def _remove(self, *commands: int) -> None:
        self.removed += [c for c in commands if c >= 0]
