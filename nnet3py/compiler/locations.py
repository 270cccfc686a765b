"""Locations: the step and row from which each row of a descriptor is taken, and how they are split into commands.

A list of locations is a pair of integer arrays (terms, rows): the matrix and the row in it of each row's k-th term, -1
for none; a row's terms stand before its gaps. The number of a matrix may be that of a step or of a sub-matrix.

Kaldi: ``SplitLocations``, ``SplitLocationsBackward``, ``HasContiguousProperty`` (nnet-compile-utils.h), and the cindex
locations of ``ComputationStepsComputer``.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.node_rules import DescriptorRule, NodeRule, evaluate_part
from nnet3py.compiler.steps import Step
from nnet3py.index import NO_TIME, KeySpace, find_keys
from nnet3py.network.descriptor import Leaf

Locations = tuple[np.ndarray, np.ndarray]      # matrices and rows, int64 (terms, rows)
Column = tuple[np.ndarray, np.ndarray]         # matrices and rows of one term, int64 (rows,)


def compact(matrices: np.ndarray, rows: np.ndarray) -> Locations:
    """Move each row's terms before its gaps (-1), in their order, and drop the columns without terms."""
    present = matrices >= 0
    if len(present) > 1 and (present[1:] & ~present[:-1]).any():
        order = np.argsort(~present, axis=0, kind="stable")
        matrices, rows = np.take_along_axis(matrices, order, 0), np.take_along_axis(rows, order, 0)
        present = matrices >= 0
    length = int(present.any(axis=1).sum())
    return matrices[:length], rows[:length]


def split_locations(matrices: np.ndarray, rows: np.ndarray) -> list[Column]:
    """Split locations into columns with at most one term for each row.

    A matrix that more than half of the rows use gets a column of its own.
    """
    if len(matrices) == 0:
        return []
    if len(matrices) == 1:
        return [(matrices[0], rows[0])]
    counts = np.bincount(matrices[matrices >= 0])
    frequent = np.flatnonzero(counts > matrices.shape[1] // 2)[::-1]
    if not len(frequent):
        return list(zip(matrices, rows, strict=True))
    columns: list[Column] = []
    rest = matrices.copy()
    position = np.arange(matrices.shape[1])
    for matrix in frequent.tolist():
        is_here = matrices == matrix
        term = is_here.argmax(axis=0)                # the first such term of each row
        has = is_here[term, position]
        columns.append((np.where(has, matrix, -1), np.where(has, rows[term, position], -1)))
        rest[term[has], position[has]] = -1
    return columns + split_locations(*compact(rest, rows))


def split_locations_backward(matrices: np.ndarray, rows: np.ndarray) -> list[Column]:
    """Split locations into columns that one command can add to.

    In a column with one matrix, each row of this matrix occurs in one run of neighbors; in a column with several, no
    row occurs twice.
    """
    pieces: list[Column] = []
    for column_matrices, column_rows in split_locations(matrices, rows):
        present = column_matrices >= 0
        if not present.any():
            continue
        numbers = np.where(present, column_rows, -1)
        single = only_matrix(column_matrices) >= 0
        piece = _run_number(numbers) if single else _occurrence(column_matrices, numbers)
        pieces += _pieces((column_matrices, numbers), piece)
    return pieces


def split_repeated(column: Column, matrices: np.ndarray, rows: np.ndarray) -> list[Column]:
    """Split a column so that none of the pairs (matrices[i], rows[i]), one for each term, occurs twice in a column."""
    present = column[0] >= 0
    return _pieces(column, _occurrence(np.where(present, matrices, -1), np.where(present, rows, -1)))


def _pieces(column: Column, piece: np.ndarray) -> list[Column]:
    """Return the columns that hold the terms with piece number 0, 1, …; ``piece`` has a number for each term."""
    matrices, rows = column
    present = matrices >= 0
    chosen = [(piece == k) & present for k in range(int(piece[present].max()) + 1)]
    return [(np.where(is_chosen, matrices, -1), np.where(is_chosen, rows, -1)) for is_chosen in chosen]


def only_matrix(matrices: np.ndarray) -> int:
    """Return the matrix that all terms of a column share, -1 if there are several."""
    present = matrices[matrices >= 0]
    return int(present[0]) if len(present) and (present == present[0]).all() else -1


def contiguous_ranges(indexes: np.ndarray, num_rows: int) -> np.ndarray | None:
    """Return the range of positions of each value 0 … num_rows - 1 in ``indexes``, int32 (num_rows, 2): begin and end.

    A value that does not occur has (-1, -1). None is returned if the positions of some value are not consecutive.
    """
    starts = np.flatnonzero(np.diff(indexes, prepend=indexes[:1] - 1))
    ends = np.append(starts[1:], len(indexes))
    values = indexes[starts]
    real = values >= 0
    if np.bincount(values[real], minlength=1).max() > 1:
        return None
    ranges = np.full((num_rows, 2), -1, dtype=np.int32)
    ranges[values[real], 0], ranges[values[real], 1] = starts[real], ends[real]
    return ranges


def _run_number(rows: np.ndarray) -> np.ndarray:
    """Return for each element how many separate runs of its value come before its own run."""
    starts = np.flatnonzero(np.diff(rows, prepend=rows[:1] - 1))
    per_run = _count_earlier(rows[starts])
    return np.repeat(per_run, np.diff(np.append(starts, len(rows))))


def _occurrence(matrices: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return for each position how many earlier positions have the same pair (matrix, row)."""
    return _count_earlier(matrices * (int(rows.max(initial=0)) + 2) + rows)


def _count_earlier(values: np.ndarray) -> np.ndarray:
    if (np.diff(values) > 0).all():
        return np.zeros(len(values), np.int64)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    out = np.empty(len(values), np.int64)
    out[order] = np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values))))
    return out


# -- sources of descriptor steps ---------------------------------------------------------------------------------------


class PartSources(NamedTuple):
    """The locations of the rows of one part of a descriptor step.

    Attributes
    ----------
    locations : steps and rows of each row's terms, sorted as cindexes; a row's terms stand before its gaps
    only : the step from which every row has its only term, -1 if there is no such step
    is_all : for ``only``: whether the terms are all rows of that step, in order
    is_ascending : for ``only``: whether later rows have later terms
    """

    locations: Locations
    only: int = -1
    is_all: bool = False
    is_ascending: bool = False

    def steps(self) -> list[int]:
        """Return the steps from which rows are taken."""
        if self.only >= 0:
            return [self.only]
        steps = self.locations[0]
        used_steps: list[int] = np.flatnonzero(np.bincount(steps[steps >= 0])).tolist()
        return used_steps


class SourceFinder:
    """Lookup of the step and row of a cindex, for all steps of a node at once: recurrences have many small steps.

    Parameters
    ----------
    steps : all steps
    space : the key space of the request
    ends : for each segment the number of steps up to its end; a step sees no steps of later segments
    """

    def __init__(self, steps: list[Step], space: KeySpace, ends: Sequence[int] = ()) -> None:
        self.steps, self.space = steps, space
        self._ends = np.array([0, *ends])
        self._sizes = np.array([len(step.indexes) for step in steps])
        self._steps_of: dict[int, list[int]] = {}
        for number, step in enumerate(steps):
            self._steps_of.setdefault(step.node, []).append(number)
        self._tables: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._last_keys: tuple[np.ndarray, np.ndarray] | None = None      # indexes and their keys

    def _table(self, node: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the sorted keys of the rows of ``node``, and the step and row of each."""
        if node not in self._tables:
            numbers = np.array(self._steps_of.get(node, []), np.int64)
            sizes = self._sizes[numbers]
            if len(numbers) == 1:
                keys = self.space.keys(self.steps[int(numbers[0])].indexes)
                step, row = np.full(len(keys), numbers[0]), np.arange(len(keys))
            else:
                keys = self.space.keys(np.concatenate([np.zeros((0, 3), np.int32),
                                                       *(self.steps[number].indexes for number in numbers.tolist())]))
                step = np.repeat(numbers, sizes)
                row = np.arange(len(keys)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            if not (keys[1:] > keys[:-1]).all():
                # Most nodes have one step, whose keys are sorted: sorting again would cost more than all the rest.
                order = np.argsort(keys, kind="stable")
                keys, step, row = keys[order], step[order], row[order]
            self._tables[node] = keys, step, row
        return self._tables[node]

    def _keys_of(self, indexes: np.ndarray) -> np.ndarray:
        """Return the keys of indexes; the last result is kept: leaves and parts ask for the same indexes in turn."""
        if self._last_keys is None or self._last_keys[0] is not indexes:
            self._last_keys = indexes, self.space.keys(indexes)
        return self._last_keys[1]

    def find(self, node: int, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return steps and rows, int64 (rows,), of keys at ``node``; -1 where there is none."""
        table, steps, rows = self._table(node)
        if len(keys) == len(table) and (keys == table).all():
            return steps, rows
        at = find_keys(table, np.arange(len(table)), keys)
        missing = at < 0
        if not missing.any():
            return steps[at], rows[at]
        if missing.all():
            return at, at
        return np.where(missing, -1, steps[at]), np.where(missing, -1, rows[at])

    def sources(self, node: int, rule: DescriptorRule) -> dict[int, list[PartSources]]:
        """Return for each step of ``node`` that has rows the sources of each part of its descriptor."""
        numbers = [number for number in self._steps_of.get(node, []) if self._sizes[number]]
        if not numbers:
            return {}
        same = self._same_rows(numbers, rule)
        if same >= 0:
            rows = np.arange(self._sizes[same])[None]
            return {numbers[0]: [PartSources((np.full(rows.shape, same), rows), same, True, True)]}
        indexes = self.steps[numbers[0]].indexes
        if len(numbers) > 1:
            indexes = np.concatenate([self.steps[number].indexes for number in numbers])
        bounds = np.cumsum([0, *self._sizes[numbers]])
        limits = None
        if len(self._ends) > 2:
            end = self._ends[np.searchsorted(self._ends, numbers, side="right")]
            limits = np.repeat(end, self._sizes[numbers])
        parts = [self._part_sources(rule, part, indexes, bounds, limits) for part in range(len(rule.parts))]
        return {number: [part[i] for part in parts] for i, number in enumerate(numbers)}

    def _same_rows(self, numbers: list[int], rule: DescriptorRule) -> int:
        """Return the only step of the source if this node has one step with the same rows (the usual case), else -1."""
        steps = self._steps_of.get(rule.sources()[0], []) if rule.is_pointwise else []
        if len(steps) != 1 or len(numbers) != 1 or len(self._ends) > 2:
            return -1
        mine, theirs = self.steps[numbers[0]].indexes, self.steps[steps[0]].indexes
        return steps[0] if mine is theirs or np.array_equal(mine, theirs) else -1

    def _part_sources(self, rule: DescriptorRule, part: int, indexes: np.ndarray, bounds: np.ndarray,
                      limits: np.ndarray | None) -> list[PartSources]:
        leaves, shifts = rule.leaves[part], rule.leaf_shifts[part]
        if len(leaves) == 1:           # Sum and Failover have two leaves; other descriptors around one change nothing
            steps, rows = self._leaf_sources(leaves[0], shifts[0], indexes, limits)[:2]
            return self._one_leaf(steps, rows, bounds)
        if leaves:
            steps, rows = self._several_leaves(rule, part, indexes, limits)
        else:
            steps, rows = _none(len(indexes))
        return [PartSources(compact(steps[:, begin:end], rows[:, begin:end]))
                for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]

    def _several_leaves(self, rule: DescriptorRule, part: int, indexes: np.ndarray,
                        limits: np.ndarray | None) -> Locations:
        """Return the locations of the terms of each row of a part with several leaves, sorted by cindex."""
        leaf_sources = [self._leaf_sources(leaf, shift, indexes, limits)
                 for leaf, shift in zip(rule.leaves[part], rule.leaf_shifts[part], strict=True)]
        steps, rows = np.array([source[0] for source in leaf_sources]), np.array([source[1] for source in leaf_sources])
        if rule.uses_all and (steps >= 0).all():
            sources = [shift[0] for shift in rule.leaf_shifts[part] if shift is not None]
            if len(sources) == len(set(sources)) == len(leaf_sources):
                by_node = sorted(range(len(sources)), key=sources.__getitem__)      # the nodes are all different
                return steps[by_node], rows[by_node]
        nodes, keys = np.array([source[2] for source in leaf_sources]), np.array([source[3] for source in leaf_sources])
        used = evaluate_part(rule.parts[part], (steps >= 0).T)[1].T
        steps = np.where(used, steps, -1)
        order = np.lexsort((keys, np.where(used, nodes, np.iinfo(np.int32).max)), axis=0)
        return np.take_along_axis(steps, order, 0), np.take_along_axis(rows, order, 0)

    def _one_leaf(self, steps: np.ndarray, rows: np.ndarray, bounds: np.ndarray) -> list[PartSources]:
        starts = bounds[:-1]
        lowest, highest = np.minimum.reduceat(steps, starts), np.maximum.reduceat(steps, starts)
        only = np.where(lowest == highest, lowest, -1)
        distance = np.diff(rows, prepend=rows[:1])
        distance[starts] = 1
        ascending = np.minimum.reduceat(distance, starts) > 0
        is_all = ((np.maximum.reduceat(distance, starts) == 1) & ascending & (rows[starts] == 0)
                  & (np.diff(bounds) == self._sizes[only]))
        locations = [(steps[None, begin:end], rows[None, begin:end]) if highest_step >= 0 else _none(end - begin)
                     for begin, end, highest_step in zip(starts.tolist(), bounds[1:].tolist(), highest.tolist(),
                                                         strict=True)]
        return list(map(PartSources, locations, only.tolist(), is_all.tolist(), ascending.tolist()))

    def _leaf_sources(self, leaf: Leaf, shift: tuple[int, int] | None, indexes: np.ndarray,
                      limits: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Return step and row from which a leaf takes each row, and the node and key that it asks for.

        Step and row are -1 where there is none; steps from ``limits`` (rows,) on count as none.
        """
        if shift is not None:
            first, keys = shift[0], self.space.shifted(self._keys_of(indexes), shift[1])
            nodes = np.full(len(keys), first)
            is_single = True
        else:
            nodes, mapped = leaf.map(indexes)
            keys = self.space.keys(mapped)
            first = int(nodes[0]) if len(nodes) else 0
            is_single = bool((nodes == first).all())
        if is_single:
            steps, rows = self.find(first, keys)
        else:
            steps, rows = np.full(len(nodes), -1), np.full(len(nodes), -1)
            for node in np.unique(nodes).tolist():
                chosen = nodes == node
                steps[chosen], rows[chosen] = self.find(node, keys[chosen])
        padding = indexes[:, 1] == NO_TIME
        if padding.any():
            steps = np.where(padding, -1, steps)
        if limits is not None:
            steps = np.where(steps < limits, steps, -1)
        return steps, rows, nodes, keys


def _none(num_rows: int) -> Locations:
    return np.zeros((0, num_rows), np.int64), np.zeros((0, num_rows), np.int64)


def find_sources(steps: list[Step], rules: list[NodeRule], space: KeySpace,
                 ends: Sequence[int] = ()) -> list[list[PartSources]]:
    """Return for each step the sources of each part of its descriptor.

    The list is empty for steps of nodes without a descriptor, and for steps without rows. ``ends`` is that of
    :class:`SourceFinder`.
    """
    finder = SourceFinder(steps, space, ends)
    sources_of_steps: list[list[PartSources]] = [[] for _ in steps]
    for node, rule in enumerate(rules):
        if isinstance(rule, DescriptorRule):
            for number, sources in finder.sources(node, rule).items():
                sources_of_steps[number] = sources
    return sources_of_steps
