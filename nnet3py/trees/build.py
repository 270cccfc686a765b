"""Building of trees: roots, splitting by the questions that gain most, merging of similar leaves.

Kaldi: ``BuildTree``, ``DecisionTreeSplitter``.
"""
from __future__ import annotations

import heapq
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.tree import Constant, ContextDependency, Map, Root, Split, Table, stub_tree
from nnet3py.trees import BuildOptions
from nnet3py.trees.clustering import Questions, QuestionsForKey, bottom_up, refine
from nnet3py.trees.stats import ABSENT, TreeStats, check_not_empty, objective, sum_float32

_BOTH = 2      # the clusters of a question: no, yes


@dataclass
class _Question:
    key: int
    values: frozenset[int]
    gain: np.float32


@dataclass
class _Node:
    """Node of a growing tree."""

    members: np.ndarray         # int (events,), indexes of the events that reach the node
    leaf: int                   # number of the leaf
    question: _Question | None  # question that splits the node with the largest gain; None if none has a gain
    # yes, no: children; None for a leaf
    yes: _Node | None = None
    no: _Node | None = None

    @property
    def best_gain(self) -> np.float32:
        """The largest gain in objective by which this leaf, or a leaf below this node, can be split; 0 if none can."""
        if self.yes is not None and self.no is not None:
            return max(self.yes.best_gain, self.no.best_gain)
        return self.question.gain if self.question is not None else np.float32(0)


@dataclass
class Grown:
    """Result of splitting the leaves of a tree."""

    trees: dict[int, Map]  # original leaf -> the tree that replaces it
    # num_leaves, num_splits: leaves after splitting, and splits
    num_leaves: int
    num_splits: int
    gain: np.float32       # gain in objective of all splits
    smallest: np.float32   # smallest gain of a split; 1e20 if there was none


def grow(stats: TreeStats, leaves: np.ndarray, num_leaves: int, questions: Questions, threshold: float,
         max_leaves: int) -> Grown:
    """Split the leaves of a tree by questions, always the one with the largest gain. Kaldi: SplitDecisionTree.

    ``leaves`` (int (events,)) has the leaf of each event, of ``num_leaves``. The gain in objective of a split must
    exceed ``threshold``; splitting ends at ``max_leaves`` leaves (0 or less: no limit).
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
    """Search for the question that splits a set of events with the largest gain in objective."""

    def __init__(self, stats: TreeStats, questions: Questions) -> None:
        self._stats, self._questions, self._floor = stats, questions, stats.var_floor
        self._tables: dict[tuple[int, int], np.ndarray] = {}

    def node(self, members: np.ndarray, leaf: int) -> _Node:
        """Return a leaf with the events ``members``, int (events,), and its best question, None if none has a gain."""
        best: _Question | None = None
        for key in sorted(self._questions.by_key) if len(members) >= _BOTH else ():
            question = self._best_for_key(members, key)
            if question is not None and question.gain > (best.gain if best is not None else 0):
                best = question
        return _Node(members, leaf, best)

    def split(self, node: _Node, new_leaf: int) -> None:
        """Split a leaf by its question, in place; the side "no" becomes the leaf ``new_leaf``."""
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
        """Return whether each question about a key contains each value: bool (questions, values)."""
        table = self._tables.get((key, num_values))
        if table is None:
            sets = self._questions.by_key[key].sets
            table = np.zeros((len(sets), num_values), dtype=bool)
            for row, values in zip(table, sets, strict=True):
                row[[value for value in values if 0 <= value < num_values]] = True
            self._tables[key, num_values] = table
        return table

    def _gains(self, by_value: np.ndarray, present: np.ndarray, membership: np.ndarray) -> np.ndarray:
        """Return the gain in objective of each question: float32 (questions,).

        As in Kaldi, the moments of the side with fewer values are summed, and those of the other side are the
        difference from the total.

        Parameters
        ----------
        by_value : float64 (values, 1 + 2 dim), moments of the events with each value
        present : bool (values,), values that occur
        membership : result of :meth:`_membership`
        """
        total = by_value.sum(0)
        num_yes = np.count_nonzero(membership & present, axis=1)
        sums_no = 2 * num_yes > np.count_nonzero(present)
        summed = (membership ^ sums_no[:, None]).astype(np.float64) @ by_value
        objectives = objective(np.stack((summed, total - summed)), self._floor)
        gains: np.ndarray = (objectives[0] + objectives[1]) - objective(total, self._floor)
        return gains

    def _refined(self, by_value: np.ndarray, questions: QuestionsForKey, gain: np.float32,
                 chosen: frozenset[int]) -> tuple[np.float32, frozenset[int]]:
        """Improve a question by moving single values from one side to the other; return its gain and its values."""
        assignment = np.zeros(len(by_value), dtype=np.int64)
        assignment[[value for value in chosen if value < len(by_value)]] = 1
        clusters = np.zeros((_BOTH, by_value.shape[1]))
        np.add.at(clusters, assignment, by_value)
        gained = refine(by_value, clusters, assignment, questions.num_iters_refine, _BOTH, self._floor)
        return np.float32(gain + gained), frozenset(np.flatnonzero(assignment == 1).tolist())


logger = logging.getLogger(__name__)

_MULTIPLE = 8          # leaves, when their number is rounded to a multiple


def read_roots(lines: Sequence[str], path: str = "") -> list[Root]:
    """Parse a roots file, lines ``shared|not-shared split|not-split PHONE …``. Raises FormatError for other lines."""
    roots = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        phones = words[2:]
        if not phones or not all(word.isascii() and word.isdigit() and 0 < int(word) < 10**9 for word in phones):
            raise FormatError(f"line {number} of the roots is not 'shared|not-shared split|not-split PHONE ...': "
                              f"{line.strip()[:80]!r}", path=path, hint="phones are numbers from 1")
        roots.append(Root(tuple(map(int, phones)), words[0] == "shared", words[1] == "split"))
    every = [phone for root in roots for phone in root.phones]
    if len(set(every)) < len(every):
        twice = next(phone for phone in every if every.count(phone) > 1)
        raise FormatError(f"phone {twice} occurs twice in the roots", path=path)
    if not roots:
        raise FormatError("expected lines 'shared|not-shared split|not-split PHONE ...', found none", path=path)
    return roots


def leaves_of(tree: Map | None, events: np.ndarray) -> np.ndarray:
    """Return the leaf of each event, int64 (events,); Nnet3Error if the tree has none for it. Kaldi: EventMap::Map.

    Events are int32 (events, width + 1), pdf class and phones.
    """
    leaves = np.empty(len(events), dtype=np.int64)
    pending: list[tuple[Map | None, np.ndarray]] = [(tree, np.arange(len(events)))]
    while pending:
        node, rows = pending.pop()
        if not len(rows):
            continue
        if isinstance(node, Constant):
            leaves[rows] = node.answer
            continue
        values = events[rows, node.key + 1] if node is not None and node.key + 1 < events.shape[1] else None
        if node is None or values is None or (values < 0).any():
            raise Nnet3Error(f"the tree has no leaf for the event {events[rows[0]].tolist()} (pdf class, phones)",
                             "does it lack a phone of the statistics?")
        if isinstance(node, Split):
            is_yes = np.isin(values, list(node.values))
            pending += [(node.yes, rows[is_yes]), (node.no, rows[~is_yes])]
        else:
            pending += [(node.children[value] if value < len(node.children) else None, rows[values == value])
                        for value in np.unique(values).tolist()]
    return leaves


def substituted(tree: Map | None, by_leaf: Mapping[int, Map]) -> Map | None:
    """Return a copy of a tree in which the trees ``by_leaf`` replace leaves. Kaldi: EventMap::Copy."""
    if tree is None:
        return None
    if isinstance(tree, Constant):
        return by_leaf.get(tree.answer, tree)
    if isinstance(tree, Table):
        return Table(tree.key, tuple(substituted(child, by_leaf) for child in tree.children))
    return Split(tree.key, tree.values, substituted(tree.yes, by_leaf), substituted(tree.no, by_leaf))


def _numbers(tree: Map | None) -> list[int]:
    """Return the distinct numbers of the leaves of a tree, ascending."""
    if tree is None:
        return []
    if isinstance(tree, Constant):
        return [tree.answer]
    children = tree.children if isinstance(tree, Table) else (tree.yes, tree.no)
    return sorted({number for child in children for number in _numbers(child)})


def _renumbered(tree: Map | None) -> tuple[Map | None, int]:
    """Renumber the leaves of a tree from 0 without gaps, in the same order; return it and the number of leaves."""
    numbers = _numbers(tree)
    return substituted(tree, {old: Constant(new) for new, old in enumerate(numbers)}), len(numbers)


def _per_leaf(moments: np.ndarray, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the leaves that occur, ascending, and the sums of moments of each."""
    numbers, places = np.unique(leaves, return_inverse=True)
    sums = np.zeros((len(numbers), moments.shape[1]))
    np.add.at(sums, places.ravel(), moments)
    return numbers, sums


def total_objective(stats: TreeStats, tree: Map | None) -> np.float32:
    """Return the sum over the leaves of a tree of the objective of their statistics. Kaldi: ObjfGivenMap."""
    return sum_float32(objective(_per_leaf(stats.moments, leaves_of(tree, stats.events))[1], stats.var_floor))


class _Merge(NamedTuple):
    tree: Map | None
    num_removed: int


def _merged(stats: TreeStats, tree: Map | None, roots: np.ndarray, threshold: float) -> _Merge:
    """Merge leaves that have the same root and are no more than ``threshold`` apart.

    Kaldi: ClusterEventMapRestrictedByMap. ``roots`` int (events,): the root of each event.
    """
    leaves, mapping, removed = leaves_of(tree, stats.events), {}, 0
    for root in np.unique(roots).tolist():
        of_root = roots == root
        numbers, sums = _per_leaf(stats.moments[of_root], leaves[of_root])
        merged = bottom_up(sums, np.zeros(len(numbers), dtype=np.int64), threshold, 0, stats.var_floor,
                          queue_equal=True)
        removed += len(numbers) - merged.num_clusters
        mapping.update(_to_first(numbers, merged.assignment))
    return _Merge(substituted(tree, mapping), removed)


def _to_first(numbers: np.ndarray, assignment: np.ndarray) -> dict[int, Map]:
    """Return the new leaf for each of ``numbers``, leaves of one root, ascending, as in Kaldi.

    All leaves of cluster c (``assignment``, int (leaves,)) become the c-th leaf.
    """
    clusters = np.unique(assignment, return_inverse=True)[1].ravel()
    return {int(number): Constant(int(numbers[cluster])) for number, cluster in
            zip(numbers, clusters, strict=True)}


def _rounded(stats: TreeStats, tree: Map | None, roots: np.ndarray, num_roots: int, target: int) -> _Merge:
    """Merge leaves that have the same root until ``target`` leaves are left.

    Kaldi: ClusterEventMapToNClustersRestrictedByMap. ``roots`` int (events,): the root of each event.
    """
    if target < num_roots:
        logger.warning("num-clusters-required is less than size of map. Not doing anything.")
        return _Merge(tree, 0)
    leaves = leaves_of(tree, stats.events)
    wanted = target - (num_roots - len(np.unique(roots)))
    pairs, places = np.unique(np.column_stack((roots, leaves)), axis=0, return_inverse=True)
    sums = np.zeros((len(pairs), stats.moments.shape[1]))
    np.add.at(sums, places.ravel(), stats.moments)
    logger.debug("Number of non-empty clusters in map = %d", len(np.unique(roots)))
    logger.debug("Number of non-empty clusters = %d", len(pairs))
    if wanted > len(pairs):
        logger.warning("%d clusters are wanted, but only %d leaves have statistics; they are left as they are", wanted,
                       len(pairs))
        return _Merge(tree, 0)
    merged = bottom_up(sums, pairs[:, 0], np.inf, wanted, stats.var_floor)
    mapping: dict[int, Map] = {}
    for root in np.unique(pairs[:, 0]).tolist():
        of_root = pairs[:, 0] == root
        mapping.update(_to_first(pairs[of_root, 1], merged.assignment[of_root]))
    return _Merge(substituted(tree, mapping), len(pairs) - merged.num_clusters)


class _Stub(NamedTuple):
    """Tree with one leaf for each root (and pdf class, if not shared), and the statistics of events in ``split`` roots.
    """

    tree: Map
    num_leaves: int
    grown_from: TreeStats


def _stub(stats: TreeStats, roots: Sequence[Root], topology: HmmTopology, position: int) -> _Stub:
    check_not_empty(stats)
    unknown = sorted({phone for root in roots for phone in root.phones} - set(topology.phones))
    if unknown:
        raise Nnet3Error(f"the topology has no phone {unknown[0]} of the roots")
    leaves = count()
    tree = stub_tree(roots, topology, position, leaves)
    num_leaves = next(leaves)
    logger.info("BuildTree: before building trees, map has %d leaves.", num_leaves)
    fixed = [phone for root in roots if not root.split for phone in root.phones]
    if position + 1 >= stats.events.shape[1]:
        raise FormatError(f"the statistics have no phone at position {position}", hint="look at --central-position")
    may_split = ~np.isin(stats.events[:, position + 1], fixed)
    if not may_split.any():
        raise Nnet3Error("no root of the phones in the statistics may be split", "mark roots with 'split'")
    return _Stub(tree, num_leaves, stats.chosen(may_split))


def _per_frame(gain: float, stats: TreeStats) -> float:
    return float(gain) / float(stats.moments[:, 0].sum())


def build_tree(stats: TreeStats, roots: Sequence[Root], questions: Questions, topology: HmmTopology,
               options: BuildOptions) -> ContextDependency:
    """Build a tree that splits roots by questions, then merges similar leaves.

    Raises Nnet3Error for options with which splitting never ends, roots that lack a phone, or nothing that can be
    split.
    """
    return ContextDependency(options.width, options.position,
                             _build(stats, roots, questions, topology, options)[0])


def _build(stats: TreeStats, roots: Sequence[Root], questions: Questions, topology: HmmTopology,
           options: BuildOptions) -> tuple[Map | None, int]:
    """Build a tree as :func:`build_tree`; return its root and the number of its leaves."""
    if options.threshold <= 0 and options.max_leaves <= 0:
        raise Nnet3Error("a tree needs a threshold above 0 or a greatest number of leaves",
                         "look at --thresh and --max-leaves")
    stub = _stub(stats, roots, topology, options.position)
    split = stub.grown_from
    grown = grow(split, leaves_of(stub.tree, split.events), stub.num_leaves, questions, options.threshold,
                 options.max_leaves)
    logger.info("DoDecisionTreeSplit: split %d times, #leaves now %d", grown.num_splits, grown.num_leaves)
    tree, num_leaves = substituted(stub.tree, grown.trees), grown.num_leaves
    threshold = options.cluster_threshold
    if threshold < 0:
        threshold = float(grown.smallest)
        logger.info("Setting clustering threshold to smallest split %g", threshold)
    _say_gain(stats, split, grown, num_leaves)
    roots_of_events = leaves_of(stub.tree, stats.events)
    before, removed = total_objective(stats, tree), 0
    if threshold != 0:
        tree, removed = _merged(stats, tree, roots_of_events, threshold)
        logger.info("BuildTree: removed %d leaves.", removed)
    if options.round_num_leaves:
        target = (num_leaves - removed) // _MULTIPLE * _MULTIPLE
        tree, rounded = _rounded(stats, tree, roots_of_events, stub.num_leaves, target)
        if rounded:
            logger.info("BuildTree: Rounded num leaves to multiple of 8 by removing %d leaves.", rounded)
    if threshold == 0 and not options.round_num_leaves:
        return tree, num_leaves
    tree, num_leaves = _renumbered(tree)
    change = float(total_objective(stats, tree)) - float(before)
    logger.debug("Objf change due to clustering %g per frame.", _per_frame(change, stats))
    logger.debug("Normalizing over only split phones, this is: %g per frame.", _per_frame(change, split))
    logger.debug("Num-leaves is now %d", num_leaves)
    return tree, num_leaves


def _say_gain(stats: TreeStats, split: TreeStats, grown: Grown, num_leaves: int) -> None:
    logger.debug("After decision tree split, num-leaves = %d, like-impr = %g per frame over %g frames.", num_leaves,
                 _per_frame(float(grown.gain), stats), stats.moments[:, 0].sum())
    logger.debug("Including just phones that were split, improvement is %g per frame over %g frames.",
                 _per_frame(float(grown.gain), split), split.moments[:, 0].sum())


def build_two_level(stats: TreeStats, roots: Sequence[Root], questions: Questions, topology: HmmTopology,
                    options: BuildOptions, max_leaves_second: int,
                    cluster_leaves: bool = True) -> tuple[ContextDependency, np.ndarray]:
    """Build a tree of ``options.max_leaves`` leaves, and split it to ``max_leaves_second``. Kaldi: BuildTreeTwoLevel.

    Return the second tree; and int32 (leaves,), for each of its leaves the leaf of the first tree that it was split
    from.
    """
    logger.info("****BuildTreeTwoLevel: building first level tree")
    first, num_first = _build(stats, roots, questions, topology, options)
    logger.info("****BuildTreeTwoLevel: done building first level tree")
    may_split = ~np.isin(stats.events[:, options.position + 1],
                         [phone for root in roots if not root.split for phone in root.phones])
    split = stats.chosen(may_split)
    grown = grow(split, leaves_of(first, split.events), num_first, questions, 0.0, max_leaves_second)
    logger.info("DoDecisionTreeSplit: split %d times, #leaves now %d", grown.num_splits, grown.num_leaves)
    logger.info("Building second-level tree: increased #leaves from %d to %d, smallest split was %g", num_first,
                grown.num_leaves, grown.smallest)
    tree = substituted(first, grown.trees)
    logger.info("After second decision tree split, num-leaves = %d, like-impr = %g per frame over %g frames.",
                grown.num_leaves, _per_frame(float(grown.gain), stats), stats.moments[:, 0].sum())
    if cluster_leaves:
        logger.info("Clustering leaves of larger tree.")
        before = total_objective(stats, tree)
        tree, removed = _merged(stats, tree, leaves_of(first, stats.events), float(grown.smallest))
        logger.info("BuildTreeTwoLevel: removed %d leaves.", removed)
        change = float(total_objective(stats, tree)) - float(before)
        logger.info("Objf change due to clustering %g per frame.", _per_frame(change, stats))
    tree, num_leaves = _renumbered(tree)
    logger.info("Num-leaves now %d", num_leaves)
    tree, parents = _by_parent(tree, leaves_of(tree, stats.events), leaves_of(first, stats.events), num_leaves)
    return ContextDependency(options.width, options.position, tree), parents


def _by_parent(tree: Map | None, leaves: np.ndarray, parents_of_events: np.ndarray,
               num_leaves: int) -> tuple[Map | None, np.ndarray]:
    """Renumber the leaves of the second tree so that their leaves of the first tree ascend.

    ``leaves`` and ``parents_of_events`` (int (events,)) have the leaf of each event in the second and in the first
    tree. Return the tree; and int32 (leaves,), the leaf of the first tree for each of its leaves.
    """
    parents = np.full(num_leaves, -1, dtype=np.int32)
    parents[leaves] = parents_of_events
    if (parents < 0).any():
        raise Nnet3Error(f"leaf {int(parents.argmin())} of the larger tree has no statistics",
                         "build-tree-two-level needs statistics for each root: leave out roots that have none")
    order = np.lexsort((np.arange(num_leaves), parents))
    return substituted(tree, {int(old): Constant(new) for new, old in enumerate(order)}), parents[order]


def say_low_counts(stats: TreeStats, tree: ContextDependency, least: float = 100.0) -> None:
    """Log the pdfs with fewer than ``least`` frames."""
    numbers, sums = _per_leaf(stats.moments, leaves_of(tree.to_pdf, stats.events))
    for pdf, frames in zip(numbers.tolist(), sums[:, 0].tolist(), strict=True):
        if frames < least:
            logger.debug("For pdf-id %d, low count %g", pdf, frames)


def warn_of_phones(stats: TreeStats, roots: Sequence[Root], topology: HmmTopology, position: int) -> None:
    """Log warnings about phones that the roots have and topology or statistics lack, or that only the topology has."""
    of_roots = {phone for root in roots for phone in root.phones}
    if of_roots != set(topology.phones):
        logger.warning("The phones of roots and topology differ: %s",
                       " ".join(map(str, sorted(of_roots ^ set(topology.phones)))))
    unseen = sorted(of_roots - set(np.unique(stats.events[:, position + 1]).tolist()))
    if unseen:
        logger.warning("Saw no stats for following phones: %s", " ".join(map(str, unseen)))
