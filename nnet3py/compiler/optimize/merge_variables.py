"""Matrices that are copied, or transformed element by element, into others share their place.

A merge puts one matrix into a window of another. Matrices that belong together form a group, whose root is the matrix
that stays; where a sub-matrix lies in its root is all that commands need to know. What is asked of the use of a place
(first, last, …) is kept per place of each root and never looked up in the commands again: accesses of commands that a
merge removes are still counted, which can only forbid merges, never allow one.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import READ, CommandTable, submatrix_accesses
from nnet3py.compiler.computation import CommandType, Computation, SubMatrix
from nnet3py.compiler.optimize.no_operations import drop_commands
from nnet3py.compiler.optimize.options import OptimizeOptions
from nnet3py.compiler.optimize.renumber import renumber
from nnet3py.components.base import Properties
from nnet3py.network.nnet import Nnet


def merge_variables(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None) -> Computation:
    """Let components work in place and remove copies, by merging the two matrices that the command connects.

    Takes a computation that allocates, and sets to zero, all its matrices first and frees them last. What may be merged
    is in ``options``: remove_assignments, propagate_in_place, backprop_in_place; allow_left_merge (the source's matrix stays,
    tried first), allow_right_merge (the destination's stays). Kaldi: VariableMergingOptimization.
    """
    options = options or OptimizeOptions()
    table = CommandTable(computation)
    candidates = _candidates(computation, nnet, options, table)
    if not candidates:
        return computation
    usage = _Usage(computation, nnet, table)
    merger = _Merger(computation, usage, table, options)
    for candidate in usage.plausible(candidates):
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
    """What the options allow, in the order of the commands."""
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
    return sorted(found, key=lambda one: (not one.is_plain_copy, one.command))


class _Usage:
    """When each sub-matrix is used, by its own name: arrays over sub-matrices, as int64.

    Attributes
    ----------
    first : the first command that uses it, but for setting to zero; the number of commands if none does
    last, last_write : the last that uses it, that writes it; -1 for none
    writes, write_starts : the commands that write it are ``writes[write_starts[s]:write_starts[s + 1]]``, ascending
    """

    def __init__(self, computation: Computation, nnet: Nnet, table: CommandTable) -> None:
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
        """Those that the use of the two sub-matrices by their own names does not forbid."""
        c, source, target, is_copy = (np.array(column) for column in list(zip(*candidates, strict=True))[:4])
        fine = self.first[target] == c
        fine &= np.where(is_copy, self.last_write[source] < c, self.last[source] == c)
        return [candidates[i] for i in np.flatnonzero(fine).tolist()]


Rectangle = tuple[int, int, int, int]      # begin and end of its rows, begin and end of its columns


@dataclass
class _Place:
    """A rectangle of a root, and when the sub-matrices that lie exactly there are used."""

    first: int
    last: int
    last_write: int
    submatrices: list[int]


@dataclass
class _Group:
    """Matrices that share their place: the commands that allocate it, set all of it to zero, free it; -1 for none."""

    contiguous: bool
    allocated: int = -1
    zeroed: int = -1
    freed: int = -1
    is_input: bool = False
    is_output: bool = False
    places: dict[Rectangle, _Place] = field(default_factory=dict)


class _Merger:
    def __init__(self, computation: Computation, usage: _Usage, table: CommandTable, options: OptimizeOptions) -> None:
        self.computation, self.usage, self.options = computation, usage, options
        self.parent: list[tuple[int, int, int]] = [(m, 0, 0) for m in range(len(computation.matrices))]
        self.groups = _make_groups(computation, usage, table)
        self.removed: list[int] = []
        self.num_merges = 0

    def consider(self, candidate: _Candidate) -> None:
        """Merge the two matrices of a candidate if that changes no result."""
        source_root, source = self._find(candidate.source)
        target_root, target = self._find(candidate.target)
        if source_root == target_root or not self._is_possible(candidate, source_root, source, target_root, target):
            return
        of_source, of_target = self.groups[source_root], self.groups[target_root]
        source_is_whole, target_is_whole = self._is_whole(source_root, source), self._is_whole(target_root, target)
        if (of_source.is_input and of_target.is_input) or (of_source.is_output and of_target.is_output):
            return
        exchanged = any(group.is_input or group.is_output for group in (of_source, of_target))
        if exchanged and not (source_is_whole and target_is_whole):
            return
        if self.options.allow_left_merge and target_is_whole and (source_is_whole or not of_target.contiguous):
            self._merge(source_root, source, target_root)
        elif self.options.allow_right_merge and source_is_whole and (target_is_whole or not of_source.contiguous):
            self._merge(target_root, target, source_root)
        else:
            return
        if candidate.is_plain_copy:
            self.removed.append(candidate.command)

    def finish(self) -> Computation:
        if not self.num_merges:
            return self.computation
        out = self.computation.copy()
        for s, sub in enumerate(self.computation.submatrices):
            if self.parent[sub.matrix][0] != sub.matrix:
                root, rectangle = self._find(s)
                out.submatrices[s] = SubMatrix(root, rectangle[0], sub.num_rows, rectangle[2], sub.num_cols)
        for m, group in enumerate(self.groups):
            if group.contiguous and self.parent[m][0] == m:
                out.matrices[m] = out.matrices[m]._replace(contiguous=True)
        return renumber(drop_commands(out, self.removed))

    # -- places ----------------------------------------------------------------------------------------------------

    def _find(self, s: int) -> tuple[int, Rectangle]:
        """The root of a sub-matrix, and where it lies there."""
        sub = self.computation.submatrices[s]
        root, row, column = self._root(sub.matrix)
        row, column = row + sub.row_offset, column + sub.col_offset
        return root, (row, row + sub.num_rows, column, column + sub.num_cols)

    def _root(self, m: int) -> tuple[int, int, int]:
        """The root of a matrix, and at which row and column of it the matrix begins."""
        up, row, column = self.parent[m]
        if up == m or self.parent[up][0] == up:
            return up, row, column
        root, more_rows, more_columns = self._root(up)
        self.parent[m] = root, row + more_rows, column + more_columns
        return self.parent[m]

    def _is_whole(self, root: int, rectangle: Rectangle) -> bool:
        rows, columns, _ = self.computation.matrices[root]
        return rectangle == (0, rows, 0, columns)

    # -- conditions ------------------------------------------------------------------------------------------------

    def _is_possible(self, candidate: _Candidate, source_root: int, source: Rectangle, target_root: int,
                     target: Rectangle) -> bool:
        """Whether the use of the two places allows them to be one."""
        c = candidate.command
        over_target = _overlapping(self.groups[target_root], target)
        if min(place.first for place in over_target) != c or self.groups[source_root].is_output:
            return False
        over_source = _overlapping(self.groups[source_root], source)
        last = max(place.last for place in over_source)
        if candidate.is_plain_copy:
            return (max(place.last_write for place in over_source) < c
                    and last < self._invalidated(c, over_target, self.groups[target_root].freed))
        return last == c and not any(
            root == other_root and _overlap(rectangle, other)
            for root, rectangle in map(self._find, candidate.values)
            for other_root, other in ((source_root, source), (target_root, target)))

    def _invalidated(self, c: int, places: list[_Place], freed: int) -> int:
        """The first command after ``c`` that writes any of the places or frees them."""
        end = freed if freed >= 0 else self.usage.num_commands
        writes, starts = self.usage.writes, self.usage.write_starts
        for place in places:
            for s in place.submatrices:
                at = bisect_right(writes, c, starts[s], starts[s + 1])
                if at < starts[s + 1]:
                    end = min(end, writes[at])
        return end

    # -- merging ---------------------------------------------------------------------------------------------------

    def _merge(self, kept: int, at: Rectangle, discarded: int) -> None:
        """Put root ``discarded`` at a place of root ``kept``."""
        self.num_merges += 1
        ours, theirs = self.groups[kept], self.groups[discarded]
        row, column = at[0], at[2]
        self.parent[discarded] = kept, row, column
        for (r0, r1, c0, c1), place in theirs.places.items():
            where = r0 + row, r1 + row, c0 + column, c1 + column
            ours.places[where] = _united(ours.places[where], place) if where in ours.places else place
        theirs.places = {}
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


def _overlapping(group: _Group, rectangle: Rectangle) -> list[_Place]:
    if len(group.places) == 1:
        return list(group.places.values())
    return [place for where, place in group.places.items() if _overlap(where, rectangle)]


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _united(one: _Place, other: _Place) -> _Place:
    return _Place(min(one.first, other.first), max(one.last, other.last), max(one.last_write, other.last_write),
                  one.submatrices + other.submatrices)


def _make_groups(computation: Computation, usage: _Usage, table: CommandTable) -> list[_Group]:
    """Every matrix as a group of its own."""
    groups = [_Group(contiguous=info.contiguous) for info in computation.matrices]
    first_use = np.full(len(groups), usage.num_commands)
    for s, (sub, first, last, last_write) in enumerate(zip(
            computation.submatrices, usage.first.tolist(), usage.last.tolist(), usage.last_write.tolist(), strict=True)):
        if last >= 0:
            place = _Place(first, last, last_write, [s])
            where = sub.row_offset, sub.row_offset + sub.num_rows, sub.col_offset, sub.col_offset + sub.num_cols
            places = groups[sub.matrix].places
            places[where] = _united(places[where], place) if where in places else place
            first_use[sub.matrix] = min(first_use[sub.matrix], first)

    def commands_of(kind: CommandType) -> Iterator[tuple[int, int]]:
        """Matrix and number of each command of a type, from last to first."""
        for c, s in zip(table.numbers[kind][::-1].tolist(), table.args[kind][::-1, 0].tolist(), strict=True):
            yield computation.submatrices[s].matrix, c

    for m, c in commands_of(CommandType.ALLOC_MATRIX):
        groups[m].allocated = c
    for m, c in commands_of(CommandType.ACCEPT_INPUT):
        groups[m].allocated, groups[m].is_input = c, True
    for m, c in commands_of(CommandType.DEALLOC_MATRIX):
        groups[m].freed = c
    for m, _ in commands_of(CommandType.PROVIDE_OUTPUT):
        groups[m].is_output = True
    for m, c in commands_of(CommandType.SET_CONST):
        one = computation.commands[c]
        if one.alpha == 0.0 and c < first_use[m] and computation.is_whole(one.args[0]):
            groups[m].zeroed = c
    return groups
