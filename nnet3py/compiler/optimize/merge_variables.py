"""The pass that merges matrices, so that components work in place and copies disappear.

A merge puts one matrix into a window of another. Matrices that belong together form a group, whose root is the matrix
that stays; commands only need to know where their sub-matrices lie in the root. The uses of each sub-matrix are found
once: commands that merges remove still count, which can only forbid merges, never allow one. Another round
(passes.py) no longer counts them.
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.analyze import READ, submatrix_accesses
from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.optimize.renumber import renumbered
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.compiler.tables import (
    CommandTable,
    command_table,
    greatest_at,
    least_at,
    matrix_sizes,
    submatrix_table,
    whole_submatrices,
)
from nnet3py.components.base import Properties
from nnet3py.network.nnet import Nnet

MANY = 32      # members of a group, from which on they are looked up by their rows


def merge_variables(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None) -> Computation:
    """Let components work in place and remove copies, by merging the two matrices that a command connects.

    Takes a computation that allocates, and sets to zero, all its matrices first and frees them last. ``options`` says
    what may be merged: remove_assignments, propagate_in_place, backprop_in_place; allow_left_merge (the source's matrix
    stays; tried first), allow_right_merge (the destination's matrix stays). Kaldi: VariableMergingOptimization.
    """
    options = options or OptimizeOptions()
    table = command_table(computation)
    candidates = _candidates(nnet, options, table)
    if not len(candidates.command):
        return computation
    usage = _Usage(computation, nnet, table)
    candidates = usage.plausible(candidates)
    if not len(candidates.command):      # mostly so in a second round
        return computation
    merger = _Merger(computation, usage, table, options)
    for candidate in usage.in_order(candidates).each():
        merger.consider(*candidate)
    return merger.finish()


class _Candidates(NamedTuple):
    """The commands that map one sub-matrix to another element by element: columns, int64 or bool (candidates,) each.

    A plain copy (with factor 1) is removed by the merge; other commands then work in place. ``value`` and
    ``other_value`` are further sub-matrices that a backward command reads, 0 for none.
    """

    command: np.ndarray
    source: np.ndarray
    target: np.ndarray
    is_plain_copy: np.ndarray
    value: np.ndarray
    other_value: np.ndarray

    def take(self, chosen: np.ndarray) -> _Candidates:
        return _Candidates(*(column[chosen] for column in self))

    def each(self) -> Iterator[tuple[int, int, int, bool, int, int]]:
        return zip(*(column.tolist() for column in self), strict=True)


def _candidates(nnet: Nnet, options: OptimizeOptions, table: CommandTable) -> _Candidates:
    """Return the candidates that the options allow."""
    none = np.zeros(0, np.int64)
    candidates = [_Candidates(none, none, none, none > 0, none, none)]
    if options.remove_assignments:
        numbers, args = table.numbers[CommandType.MATRIX_COPY], table.args[CommandType.MATRIX_COPY]
        none = np.zeros_like(numbers)
        candidates.append(_Candidates(numbers, args[:, 1], args[:, 0], table.alphas[numbers] == 1.0, none, none))
    for wanted, flag, kind, source, target in (
            (options.propagate_in_place, Properties.PROPAGATE_IN_PLACE, CommandType.PROPAGATE, 2, 3),
            (options.backprop_in_place, Properties.BACKPROP_IN_PLACE, CommandType.BACKPROP, 4, 5),
            (options.backprop_in_place, Properties.BACKPROP_IN_PLACE, CommandType.BACKPROP_NO_MODEL_UPDATE, 4, 5)):
        args, numbers = table.args[kind], table.numbers[kind]
        if not wanted or not len(numbers):
            continue
        able = np.array([component.has(flag) for component in nnet.components], bool)[args[:, 0]]
        able &= (args[:, source] > 0) & (args[:, target] > 0)
        numbers, args = numbers[able], args[able]
        none = np.zeros_like(numbers)
        value, other_value = (none, none) if kind == CommandType.PROPAGATE else (args[:, 2], args[:, 3])
        candidates.append(_Candidates(numbers, args[:, source], args[:, target], none > 0, value, other_value))
    return _Candidates(*map(np.concatenate, zip(*candidates, strict=True)))


class _Usage:
    """The first and last uses of each sub-matrix, without those of others that overlap it: arrays (sub-matrices,).

    Attributes
    ----------
    table : int64 (sub-matrices, 5), see :func:`submatrix_table`
    is_whole : bool, whether the sub-matrix covers its matrix
    first : the first command that uses it, other than to set it to zero; the number of commands if none does
    last, last_write : the last command that uses it, and the last one that writes it; -1 for none
    writes, write_starts : the commands that write it are ``writes[write_starts[s]:write_starts[s + 1]]``, ascending
    """

    def __init__(self, computation: Computation, nnet: Nnet, table: CommandTable) -> None:
        self.computation = computation
        self.table = submatrix_table(computation)
        self.is_whole = whole_submatrices(computation)
        self.num_commands, count = len(computation.commands), len(computation.submatrices)
        commands, s, kinds = submatrix_accesses(computation, nnet, table)
        is_zeroing = (table.types == CommandType.SET_CONST) & (table.alphas == 0.0)
        useful, writing = ~is_zeroing[commands], kinds != READ
        self.first = least_at(count, s[useful], commands[useful], self.num_commands)
        self.last = greatest_at(count, s, commands)
        self.last_write = greatest_at(count, s[writing], commands[writing])
        owners, writes = np.divmod(np.sort(s[writing] * self.num_commands + commands[writing]), self.num_commands)
        self.writes = writes.tolist()
        self.write_starts = np.searchsorted(owners, np.arange(count + 1)).tolist()

    def plausible(self, candidates: _Candidates) -> _Candidates:
        """Return the candidates between two matrices, one of them whole, that these uses do not rule out."""
        c, source, target, is_plain_copy, *_ = candidates
        matrix_of = self.table[:, 0]
        fine = matrix_of[source] != matrix_of[target]
        fine &= (self.is_whole[source] | self.is_whole[target]) & (self.first[target] == c)
        fine &= np.where(is_plain_copy, self.last_write[source] < c, self.last[source] == c)
        return candidates.take(fine)

    def in_order(self, candidates: _Candidates) -> _Candidates:
        """Return the candidates in the order in which to try them, since one merge may prevent another.

        Plain copies come first, since merging removes them. A copy into a part of a matrix comes last if its source is
        used after a component could work in place on that matrix: merging would prevent that, and cost a larger matrix.
        """
        c, source, target, is_plain_copy, *_ = candidates
        matrix_of, works = self.table[:, 0], ~is_plain_copy
        # For each matrix the first command that could work in place on it.
        in_place = least_at(len(self.computation.matrices), matrix_of[source[works]], c[works], self.num_commands)
        other = in_place[matrix_of[target]]
        keeps_busy = (c < other) & (other < self.last[source]) & ~self.is_whole[target]
        turn = np.where(is_plain_copy, np.where(keeps_busy, 2, 0), 1)
        return candidates.take(np.lexsort((c, turn)))


class _ByRow:
    """The sub-matrices of a large group, indexed by their rows: sorted by first row, in classes of similar height."""

    def __init__(self) -> None:
        self._classes: dict[int, list[tuple[int, int]]] = {}      # by k, for heights below 2^k: first row, sub-matrix

    def add(self, s: int, row: int, end_row: int) -> None:
        insort(self._classes.setdefault((end_row - row).bit_length(), []), (row, s))

    def near(self, row: int, end_row: int) -> list[int]:
        """Return the sub-matrices that overlap these rows; a few others may be among them."""
        near: list[int] = []
        for bits, entries in self._classes.items():
            first = bisect_left(entries, (row - (1 << bits),))
            near += [s for _, s in entries[first:bisect_left(entries, (end_row,))]]
        return near


class _Merger:
    """The matrices in groups, each merged into one matrix, its *root*; a group has the number of its root.

    Attributes
    ----------
    root, row, end_row, column, end_column : for each sub-matrix its root, and its rows and columns in the root
    first, last, last_write : as in :class:`_Usage`
    members : for each root the used sub-matrices of its group; ``…_in_group``: first and last uses of all of these
    allocated, zeroed, freed : for each root the command that allocates it, sets it to zero, frees it; -1 for none
    """

    def __init__(self, computation: Computation, usage: _Usage, table: CommandTable, options: OptimizeOptions) -> None:
        self.computation, self.usage, self.options = computation, usage, options
        subs = usage.table
        self.root, self.row, self.column = subs[:, 0].tolist(), subs[:, 1].tolist(), subs[:, 3].tolist()
        self.end_row, self.end_column = (subs[:, 1] + subs[:, 2]).tolist(), (subs[:, 3] + subs[:, 4]).tolist()
        self.first, self.last, self.last_write = (
            column.tolist() for column in (usage.first, usage.last, usage.last_write))
        self.removed: list[int] = []
        self.num_merges = 0
        self._by_row: dict[int, _ByRow] = {}         # for the roots with many members
        self._make_groups(table)

    def _make_groups(self, table: CommandTable) -> None:
        """Make every matrix a group of its own."""
        usage, count, matrix_of = self.usage, len(self.computation.matrices), self.usage.table[:, 0]
        sizes = matrix_sizes(self.computation)
        self.num_rows, self.num_columns = sizes[:, 0].tolist(), sizes[:, 1].tolist()
        self.contiguous = [info.contiguous for info in self.computation.matrices]
        used = np.flatnonzero(usage.last >= 0)
        used = used[np.argsort(matrix_of[used], kind="stable")]
        ends = np.cumsum(np.bincount(matrix_of[used], minlength=count)).tolist()
        by_matrix = used.tolist()
        self.members = [by_matrix[begin:end] for begin, end in zip((0, *ends), ends, strict=False)]
        first = least_at(count, matrix_of[used], usage.first[used], usage.num_commands)
        self.first_in_group = first.tolist()
        self.last_in_group = greatest_at(count, matrix_of[used], usage.last[used]).tolist()
        self.last_write_in_group = greatest_at(count, matrix_of[used], usage.last_write[used]).tolist()

        def first_of(kind: CommandType) -> np.ndarray:
            """Return for each matrix the first command of a type, -1 for none."""
            first = np.full(count, -1)
            first[matrix_of[table.args[kind][::-1, 0]]] = table.numbers[kind][::-1]      # the last assignment stays
            return first

        accepted = first_of(CommandType.ACCEPT_INPUT)
        self.allocated = np.where(accepted >= 0, accepted, first_of(CommandType.ALLOC_MATRIX)).tolist()
        self.freed = first_of(CommandType.DEALLOC_MATRIX).tolist()
        self.is_input = (accepted >= 0).tolist()
        self.is_output = (first_of(CommandType.PROVIDE_OUTPUT) >= 0).tolist()
        numbers, s = table.numbers[CommandType.SET_CONST], table.args[CommandType.SET_CONST][:, 0]
        zeroes = (table.alphas[numbers] == 0.0) & (numbers < first[matrix_of[s]]) & usage.is_whole[s]
        zeroed = np.full(count, -1)
        zeroed[matrix_of[s[zeroes]][::-1]] = numbers[zeroes][::-1]
        self.zeroed = zeroed.tolist()

    def consider(self, c: int, source: int, target: int, is_plain_copy: bool, *values: int) -> None:
        """Merge the matrices of ``source`` and ``target`` if that changes no result.

        ``values`` are further sub-matrices that command ``c`` reads.
        """
        giver, taker = self.root[source], self.root[target]
        if giver == taker or self.is_output[giver] or (self.is_input[giver] and self.is_input[taker]):
            return
        source_is_whole, target_is_whole = self._is_whole(source), self._is_whole(target)
        if self.options.allow_left_merge and target_is_whole and (source_is_whole or not self.contiguous[taker]):
            place, discarded = source, taker
        elif self.options.allow_right_merge and source_is_whole and (target_is_whole or not self.contiguous[giver]):
            place, discarded = target, giver
        else:
            return
        if not (source_is_whole and target_is_whole) and (
                self.is_input[giver] or self.is_input[taker] or self.is_output[taker]):
            return
        first, _, last_write = self._use(target, target_is_whole)
        if first != c:
            return
        _, last, last_source_write = self._use(source, source_is_whole)
        if is_plain_copy:
            is_possible = last_source_write < c and last < self._invalidated(c, target, last_write)
        else:
            is_possible = last == c and not any(self._overlap(s, source) or self._overlap(s, target)
                                                for s in values if s)
        if is_possible:
            self._merge(place, discarded)
            if is_plain_copy:
                self.removed.append(c)

    def finish(self) -> Computation:
        """Return the computation without the removed copies, renumbered."""
        if not self.num_merges:
            return self.computation
        out = self.computation.copy()
        subs = self.usage.table.copy()
        subs[:, 0], subs[:, 1], subs[:, 3] = self.root, self.row, self.column
        out.matrices = [info._replace(contiguous=True) if contiguous > info.contiguous else info
                        for info, contiguous in zip(out.matrices, self.contiguous, strict=True)]
        stays = np.ones(self.usage.num_commands, bool)
        stays[self.removed] = False
        return renumbered(out, command_table(out).take(np.flatnonzero(stays)), subs)

    # -- places ----------------------------------------------------------------------------------------------------

    def _is_whole(self, s: int) -> bool:
        """Return whether a sub-matrix covers its root."""
        root = self.root[s]
        whole: bool = (self.row[s] == 0 and self.end_row[s] == self.num_rows[root]
                       and self.column[s] == 0 and self.end_column[s] == self.num_columns[root])
        return whole

    def _overlapping(self, s: int) -> list[int]:
        """Return the used sub-matrices that share an element with ``s``, including ``s`` itself."""
        others: list[int] = self.members[self.root[s]]
        if len(others) == 1 or self._is_whole(s):
            return others
        row, end_row, column, end_column = self.row, self.end_row, self.column, self.end_column
        r0, r1, c0, c1 = row[s], end_row[s], column[s], end_column[s]
        if len(others) > MANY:
            others = self._members_by_row(self.root[s]).near(r0, r1)
        return [t for t in others if row[t] < r1 and r0 < end_row[t] and column[t] < c1 and c0 < end_column[t]]

    def _members_by_row(self, root: int) -> _ByRow:
        by_row = self._by_row.get(root)
        if by_row is None:
            by_row = self._by_row[root] = _ByRow()
            for s in self.members[root]:
                by_row.add(s, self.row[s], self.end_row[s])
        return by_row

    def _overlap(self, s: int, t: int) -> bool:
        overlap: bool = (self.root[s] == self.root[t]
                         and self.row[s] < self.end_row[t] and self.row[t] < self.end_row[s]
                         and self.column[s] < self.end_column[t] and self.column[t] < self.end_column[s])
        return overlap

    # -- when they are used ----------------------------------------------------------------------------------------

    def _use(self, s: int, is_whole: bool) -> tuple[int, int, int]:
        """Return the commands that first use, last use and last write any element of a sub-matrix."""
        if is_whole:
            root = self.root[s]
            return self.first_in_group[root], self.last_in_group[root], self.last_write_in_group[root]
        first, last, last_write = self.first, self.last, self.last_write
        over = self._overlapping(s)
        return min([first[t] for t in over]), max([last[t] for t in over]), max([last_write[t] for t in over])

    def _invalidated(self, c: int, s: int, last_write: int) -> int:
        """Return the first command after ``c`` that writes any element of sub-matrix ``s`` or frees it."""
        freed = self.freed[self.root[s]]
        end = freed if freed >= 0 else self.usage.num_commands
        if last_write > c:
            writes, starts = self.usage.writes, self.usage.write_starts
            for t in self._overlapping(s):
                at = bisect_right(writes, c, starts[t], starts[t + 1])
                if at < starts[t + 1]:
                    end = min(end, writes[at])
        return end

    # -- merging ---------------------------------------------------------------------------------------------------

    def _merge(self, place: int, discarded: int) -> None:
        """Put the root ``discarded`` into the sub-matrix ``place`` of another root."""
        self.num_merges += 1
        kept, down, right = self.root[place], self.row[place], self.column[place]
        members = self.members[discarded]
        for s in members:
            self.root[s] = kept
        for offset, begin, end in ((down, self.row, self.end_row), (right, self.column, self.end_column)):
            if offset:
                for s in members:
                    begin[s] += offset
                    end[s] += offset
        self.members[kept] += members
        self._by_row.pop(discarded, None)
        if kept in self._by_row:
            for s in members:
                self._by_row[kept].add(s, self.row[s], self.end_row[s])
        self.first_in_group[kept] = min(self.first_in_group[kept], self.first_in_group[discarded])
        for in_group in (self.last_in_group, self.last_write_in_group):
            in_group[kept] = max(in_group[kept], in_group[discarded])
        self._merge_sizing(kept, discarded)
        for flag in (self.is_input, self.is_output, self.contiguous):
            flag[kept] |= flag[discarded]

    def _merge_sizing(self, kept: int, discarded: int) -> None:
        """Keep one allocation of two merged roots, or the acceptance if one is an input; do not free an output."""
        if self.is_input[discarded]:
            self._remove(self.allocated[kept], self.zeroed[kept])
            self.allocated[kept], self.zeroed[kept] = self.allocated[discarded], -1
        else:
            self._remove(self.allocated[discarded], self.zeroed[discarded])
        self._remove(self.freed[discarded])
        if self.freed[discarded] < 0:
            self._remove(self.freed[kept])
            self.freed[kept] = -1

    def _remove(self, *commands: int) -> None:
        self.removed += [c for c in commands if c >= 0]
