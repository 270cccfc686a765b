"""Where the rows of each descriptor step come from: steps and rows in them."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.locations import Locations, compact
from nnet3py.compiler.node_rules import DescriptorRule, NodeRule, evaluate_part
from nnet3py.compiler.steps import Step
from nnet3py.index import NO_TIME, KeySpace, find_keys
from nnet3py.network.descriptor import Leaf


class SourceFinder:
    """Finds the (step, row) of cindexes. Kaldi: ``ComputationStepsComputer``'s cindex locations."""

    def __init__(self, steps: list[Step], space: KeySpace) -> None:
        self.steps, self.space = steps, space
        self._steps_of: dict[int, list[int]] = {}
        for number, step in enumerate(steps):
            self._steps_of.setdefault(step.node, []).append(number)
        self._tables: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def _table(self, node: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sorted keys of the rows of ``node``, and the step and row of each."""
        if node not in self._tables:
            numbers = self._steps_of.get(node, [])
            sizes = [len(self.steps[number].indexes) for number in numbers]
            indexes = np.concatenate([np.zeros((0, 3), np.int32), *(self.steps[number].indexes for number in numbers)])
            keys = self.space.keys(indexes)
            # Most nodes have one step, in order: sorting what is sorted would cost more than all the rest.
            is_sorted = (keys[1:] > keys[:-1]).all()
            order = slice(None) if is_sorted else np.argsort(keys, kind="stable")
            step = np.repeat(np.array(numbers, np.int64), sizes)
            row = np.arange(len(keys)) - np.repeat(np.cumsum(sizes, dtype=np.int64) - sizes, sizes)
            self._tables[node] = keys[order], step[order], row[order]
        return self._tables[node]

    def find(self, node: int, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps and rows, int64 (rows,), of keys at ``node``; -1 where there is none."""
        table, steps, rows = self._table(node)
        at = find_keys(table, np.arange(len(table)), keys)
        missing = at < 0
        if not missing.any():
            return steps[at], rows[at]
        if missing.all():
            return at, at
        return np.where(missing, -1, steps[at]), np.where(missing, -1, rows[at])

    def part_sources(self, rule: DescriptorRule, part: int, indexes: np.ndarray) -> Locations:
        """The locations of the terms of part number ``part`` for rows ``indexes``, each row's sorted as cindexes."""
        leaves = rule.leaves[part]
        if not leaves:
            return np.zeros((0, len(indexes)), np.int64), np.zeros((0, len(indexes)), np.int64)
        found = [self._leaf_sources(leaf, indexes) for leaf in leaves]
        if len(leaves) == 1:           # Sum and Failover have two; what is around one leaf changes nothing
            return compact(found[0][0][None], found[0][1][None])
        steps, rows, nodes, keys = (np.stack(arrays) for arrays in zip(*found, strict=True))
        used = evaluate_part(rule.parts[part], (steps >= 0).T)[1].T
        steps = np.where(used, steps, -1)
        order = np.lexsort((keys, np.where(used, nodes, np.iinfo(np.int32).max)), axis=0)
        return compact(np.take_along_axis(steps, order, 0), np.take_along_axis(rows, order, 0))

    def _leaf_sources(self, leaf: Leaf, indexes: np.ndarray) -> tuple[np.ndarray, ...]:
        nodes, mapped = leaf.map(indexes)
        keys = self.space.keys(mapped)
        first = int(nodes[0]) if len(nodes) else 0
        if (nodes == first).all():
            steps, rows = self.find(first, keys)
        else:
            steps, rows = np.full(len(nodes), -1), np.full(len(nodes), -1)
            for node in np.unique(nodes).tolist():
                chosen = nodes == node
                steps[chosen], rows[chosen] = self.find(node, keys[chosen])
        padding = indexes[:, 1] == NO_TIME
        if padding.any():
            steps[padding] = -1
        return steps, rows, nodes, keys


def step_sources(finder: SourceFinder, rules: list[NodeRule], number: int) -> list[Locations]:
    """For a descriptor step the locations of each part's terms (matrices are numbers of steps)."""
    step = finder.steps[number]
    rule = rules[step.node]
    assert isinstance(rule, DescriptorRule)
    return [finder.part_sources(rule, part, step.indexes) for part in range(len(rule.parts))]
