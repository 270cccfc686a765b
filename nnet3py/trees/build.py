"""Building of trees: roots, splitting by questions, merging of leaves that are alike. Kaldi: ``BuildTree``."""
from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.tree import Constant, ContextDependency, Map, Root, Split, Table, stub_tree
from nnet3py.trees.clustering import bottom_up
from nnet3py.trees.growing import Grown, grow
from nnet3py.trees.options import BuildOptions
from nnet3py.trees.questions import Questions
from nnet3py.trees.stats import TreeStats, check_not_empty, objective, sum_float32

logger = logging.getLogger(__name__)

_MULTIPLE = 8          # leaves, when their number is rounded to a multiple


def read_roots(lines: Sequence[str], path: str = "") -> list[Root]:
    """Roots from lines ``shared|not-shared split|not-split PHONE …``; FormatError for other lines."""
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
        raise FormatError("there are no roots", path=path)
    return roots


def leaves_of(tree: Map | None, events: np.ndarray) -> np.ndarray:
    """int64 (events,): the leaf of each event, int32 (events, width + 1).

    Raises
    ------
    Nnet3Error : an event for which the tree has no leaf. Kaldi: EventMap::Map
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
    """The tree with other trees in place of its leaves; leaves without one stay. Kaldi: EventMap::Copy."""
    if tree is None:
        return None
    if isinstance(tree, Constant):
        return by_leaf.get(tree.answer, tree)
    if isinstance(tree, Table):
        return Table(tree.key, tuple(substituted(child, by_leaf) for child in tree.children))
    return Split(tree.key, tree.values, substituted(tree.yes, by_leaf), substituted(tree.no, by_leaf))


def _numbers(tree: Map | None) -> list[int]:
    """The leaves of a tree, ascending, each once."""
    if tree is None:
        return []
    if isinstance(tree, Constant):
        return [tree.answer]
    children = tree.children if isinstance(tree, Table) else (tree.yes, tree.no)
    return sorted({number for child in children for number in _numbers(child)})


def _renumbered(tree: Map | None) -> tuple[Map | None, int]:
    """The tree with its leaves numbered from 0 without gaps, in their order; and how many there are."""
    numbers = _numbers(tree)
    return substituted(tree, {old: Constant(new) for new, old in enumerate(numbers)}), len(numbers)


def _per_leaf(moments: np.ndarray, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The leaves that occur, ascending, and the sums of moments of each."""
    numbers, places = np.unique(leaves, return_inverse=True)
    sums = np.zeros((len(numbers), moments.shape[1]))
    np.add.at(sums, places.ravel(), moments)
    return numbers, sums


def total_objective(stats: TreeStats, tree: Map | None) -> np.float32:
    """The objective of statistics whose events are told apart by a tree. Kaldi: ObjfGivenMap."""
    return sum_float32(objective(_per_leaf(stats.moments, leaves_of(tree, stats.events))[1], stats.var_floor))


class _Merge(NamedTuple):
    tree: Map | None
    num_removed: int


def _merged(stats: TreeStats, tree: Map | None, roots: np.ndarray, threshold: float) -> _Merge:
    """The leaves, those merged that have the same root and are no more than ``threshold`` apart.

    ``roots`` int (events,): the root of each event. Kaldi: ClusterEventMapRestrictedByMap.
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
    """Where the leaves ``numbers`` of one root go: those of its c-th cluster become its c-th leaf, as in Kaldi."""
    clusters = np.unique(assignment, return_inverse=True)[1].ravel()
    return {int(number): Constant(int(numbers[cluster])) for number, cluster in
            zip(numbers, clusters, strict=True)}


def _rounded(stats: TreeStats, tree: Map | None, roots: np.ndarray, num_roots: int, target: int) -> _Merge:
    """Leaves of one root merged until ``target`` are left. Kaldi: ClusterEventMapToNClustersRestrictedByMap."""
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
    """The tree of the roots, and the statistics of what may be split further."""

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
    """A tree that splits roots by questions, then merges leaves that are alike.

    Raises
    ------
    Nnet3Error : options with which splitting never ends, roots that lack a phone, nothing that may be split
    """
    return ContextDependency(options.width, options.position,
                             _build(stats, roots, questions, topology, options)[0])


def _build(stats: TreeStats, roots: Sequence[Root], questions: Questions, topology: HmmTopology,
           options: BuildOptions) -> tuple[Map | None, int]:
    """The tree, and the number of its leaves."""
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
    rounded = 0
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
    """A tree of ``options.max_leaves`` leaves, split further; and int32 (leaves,), each leaf's leaf of the first.

    Kaldi: BuildTreeTwoLevel.
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
    """The tree with its leaves ordered by the leaves of the first tree that they belong to, and these."""
    parents = np.full(num_leaves, -1, dtype=np.int32)
    parents[leaves] = parents_of_events
    if (parents < 0).any():
        raise Nnet3Error(f"leaf {int(parents.argmin())} of the second tree has no statistics",
                         "roots without statistics cannot be used here")
    order = np.lexsort((np.arange(num_leaves), parents))
    return substituted(tree, {int(old): Constant(new) for new, old in enumerate(order)}), parents[order]


def say_low_counts(stats: TreeStats, tree: ContextDependency, least: float = 100.0) -> None:
    """Log the pdfs with few frames."""
    numbers, sums = _per_leaf(stats.moments, leaves_of(tree.to_pdf, stats.events))
    for pdf, frames in zip(numbers.tolist(), sums[:, 0].tolist(), strict=True):
        if frames < least:
            logger.debug("For pdf-id %d, low count %g", pdf, frames)


def warn_of_phones(stats: TreeStats, roots: Sequence[Root], topology: HmmTopology, position: int) -> None:
    """Warn of phones that only some of roots, topology and statistics have."""
    of_roots = {phone for root in roots for phone in root.phones}
    if of_roots != set(topology.phones):
        logger.warning("The phones of roots and topology differ: %s",
                       " ".join(map(str, sorted(of_roots ^ set(topology.phones)))))
    unseen = sorted(of_roots - set(np.unique(stats.events[:, position + 1]).tolist()))
    if unseen:
        logger.warning("Saw no stats for following phones: %s", " ".join(map(str, unseen)))

