"""Splitting of a tree's leaves by the questions that gain most. Kaldi: ``DecisionTreeSplitter``."""
from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from nnet3py.hmm.tree import Constant, Map, Split
from nnet3py.trees.clustering import refine
from nnet3py.trees.questions import Questions, QuestionsForKey
from nnet3py.trees.stats import ABSENT, TreeStats, objective

_BOTH = 2      # the clusters of a question: no, yes


@dataclass
class _Question:
    key: int
    values: frozenset[int]
    gain: np.float32


@dataclass
class _Node:
    """A leaf that may be split, or a node that has been: then ``question`` is what it asks."""

    members: np.ndarray
    leaf: int
    question: _Question | None
    yes: _Node | None = None
    no: _Node | None = None

    @property
    def best_gain(self) -> np.float32:
        """The largest gain among the leaves below, or its own."""
        if self.yes is not None and self.no is not None:
            return max(self.yes.best_gain, self.no.best_gain)
        return self.question.gain if self.question is not None else np.float32(0)


@dataclass
class Grown:
    """``trees`` by original leaf, with the numbers of their new leaves; the number of splits, and what they gained.

    ``smallest``: the least gain of a split, 1e20 if there was none.
    """

    trees: dict[int, Map]
    num_leaves: int
    num_splits: int
    gain: np.float32
    smallest: np.float32


def grow(stats: TreeStats, leaves: np.ndarray, num_leaves: int, questions: Questions, threshold: float,
         max_leaves: int) -> Grown:
    """Split leaves, the one that gains most first. Kaldi: SplitDecisionTree.

    ``leaves`` int (events,): the leaf of each event; ``num_leaves``: of the tree so far; ``max_leaves`` <= 0: no limit.
    """
    grower = _Grower(stats, questions)
    roots = [grower.node(np.flatnonzero(leaves == leaf), leaf)
             for leaf in range(int(leaves.max(initial=-1)) + 1)]
    new_leaves = count(num_leaves)
    queue = [(-root.best_gain, -number) for number, root in enumerate(roots)]
    heapq.heapify(queue)
    limit, gain, smallest, num_splits = np.float32(threshold), np.float32(0), np.float32(1e20), 0
    while queue and -queue[0][0] > limit and (max_leaves <= 0 or num_leaves + num_splits < max_leaves):
        _, number = heapq.heappop(queue)
        node = roots[-number]
        gained = node.best_gain
        while node.yes is not None and node.no is not None:
            node = node.yes if node.yes.best_gain >= node.no.best_gain else node.no
        grower.split(node, next(new_leaves))
        num_splits += 1
        gain, smallest = np.float32(gain + gained), min(smallest, gained)
        heapq.heappush(queue, (-roots[-number].best_gain, number))
    return Grown({root.leaf: _tree(root) for root in roots}, num_leaves + num_splits, num_splits, gain, smallest)


def _tree(node: _Node) -> Map:
    if node.yes is None or node.no is None or node.question is None:
        return Constant(node.leaf)
    return Split(node.question.key, node.question.values, _tree(node.yes), _tree(node.no))


class _Grower:
    """Finds the best question of a set of events."""

    def __init__(self, stats: TreeStats, questions: Questions) -> None:
        self._stats, self._questions, self._floor = stats, questions, stats.var_floor
        self._tables: dict[tuple[int, int], np.ndarray] = {}

    def node(self, members: np.ndarray, leaf: int) -> _Node:
        """A leaf with its best question, if one gains anything."""
        best: _Question | None = None
        for key in sorted(self._questions.by_key) if len(members) >= _BOTH else ():
            question = self._best_for_key(members, key)
            if question is not None and question.gain > (best.gain if best is not None else 0):
                best = question
        return _Node(members, leaf, best)

    def split(self, node: _Node, new_leaf: int) -> None:
        """Ask the node's question."""
        assert node.question is not None
        values = self._stats.events[node.members, node.question.key + 1]
        is_yes = np.isin(values, list(node.question.values))
        node.yes, node.no = self.node(node.members[is_yes], node.leaf), self.node(node.members[~is_yes], new_leaf)

    def _best_for_key(self, members: np.ndarray, key: int) -> _Question | None:
        if key + 1 >= self._stats.events.shape[1]:
            return None
        questions, values = self._questions.by_key[key], self._stats.events[members, key + 1]
        if (values == ABSENT).any():
            return None
        by_value = np.zeros((int(values.max()) + 1, self._stats.moments.shape[1]))
        np.add.at(by_value, values, self._stats.moments[members])
        present = np.bincount(values, minlength=len(by_value)) > 0
        membership = self._membership(key, len(by_value))
        gain, chosen = np.float32(0), frozenset[int]()
        if len(membership):
            gains = self._gains(by_value, present, membership)
            number = int(gains.argmax())
            if gains[number] > 0:
                gain, chosen = gains[number], frozenset(questions.sets[number])
        if questions.num_iters_refine > 0:
            gain, chosen = self._refined(by_value, questions, gain, chosen)
        return _Question(key, chosen, gain) if gain > 0 else None

    def _membership(self, key: int, num_values: int) -> np.ndarray:
        """bool (questions, values): which values each question names."""
        table = self._tables.get((key, num_values))
        if table is None:
            sets = self._questions.by_key[key].sets
            table = np.zeros((len(sets), num_values), dtype=bool)
            for row, values in zip(table, sets, strict=True):
                row[[value for value in values if 0 <= value < num_values]] = True
            self._tables[key, num_values] = table
        return table

    def _gains(self, by_value: np.ndarray, present: np.ndarray, membership: np.ndarray) -> np.ndarray:
        """float32 (questions,): what asking gains. The side with fewer values is summed, the other is what is left."""
        total = by_value.sum(0)
        num_yes = np.count_nonzero(membership & present, axis=1)
        sums_no = 2 * num_yes > np.count_nonzero(present)
        summed = (membership ^ sums_no[:, None]).astype(np.float64) @ by_value
        objectives = objective(np.stack((summed, total - summed)), self._floor)
        gains: np.ndarray = (objectives[0] + objectives[1]) - objective(total, self._floor)
        return gains

    def _refined(self, by_value: np.ndarray, questions: QuestionsForKey, gain: np.float32,
                 chosen: frozenset[int]) -> tuple[np.float32, frozenset[int]]:
        """The question after moving values between yes and no."""
        assignment = np.zeros(len(by_value), dtype=np.int64)
        assignment[[value for value in chosen if value < len(by_value)]] = 1
        clusters = np.zeros((_BOTH, by_value.shape[1]))
        np.add.at(clusters, assignment, by_value)
        gained = refine(by_value, clusters, assignment, questions.num_iters_refine, _BOTH, self._floor)
        return np.float32(gain + gained), frozenset(np.flatnonzero(assignment == 1).tolist())
