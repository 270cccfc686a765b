"""Clustering of statistics by k-means, top down and bottom up; and questions for decision trees, found by clustering.

Points and clusters are moments, float64 (…, 1 + 2 dim), see :mod:`nnet3py.trees.stats`. Sums of objectives are float32
as in Kaldi: with objectives of millions, rounding makes gains equal, and then the order decides. A question is a set of
values of a key, the pdf class or a phone of the window. Kaldi: ``cluster-utils.h``, ``Questions``.
"""
from __future__ import annotations

import heapq
import logging
import math
from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.tree import PDF_CLASS
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.random_sequence import CRandom
from nnet3py.trees.stats import TreeStats, distance, objective, sum_float32

_FEW = 3          # this many are sorted by insertion


def nth_element(items: MutableSequence[Any], nth: int) -> None:
    """Reorder items in place so that ``items[nth]`` is what sorting would put there, with no greater item before it.

    The order of the other items is that of libstdc++'s ``std::nth_element`` (introselect; Musser, 1997), which decides
    which of equally good candidates is first.
    """
    first, last = 0, len(items)
    if not 0 <= nth < last:
        return
    splits_left = 2 * (last.bit_length() - 1)
    while last - first > _FEW:
        if splits_left == 0:
            items[first:last] = sorted(items[first:last])
            return
        splits_left -= 1
        cut = _partition(items, first, last)
        if cut <= nth:
            first = cut
        else:
            last = cut
    items[first:last] = sorted(items[first:last])


def _partition(items: MutableSequence[Any], first: int, last: int) -> int:
    """Put items less than the median of three before the rest; return where the rest begins."""
    places = (first + 1, first + (last - first) // 2, last - 1)
    median = sorted(places, key=lambda place: items[place])[1]
    items[first], items[median] = items[median], items[first]
    pivot, low, high = items[first], first + 1, last
    while True:
        while items[low] < pivot:
            low += 1
        high -= 1
        while pivot < items[high]:
            high -= 1
        if low >= high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1


_REFINE_PASSES, _NEAREST, _ROUNDS = 100, 5, 20       # of k-means
_TRIES = 10                                          # k-means of each node from the top down
_EQUAL = 1e-5                                        # relative: a distance that has not changed since it was queued


@dataclass
class _Candidate:
    """Cluster that a point may move to."""

    cluster: int  # index of the cluster
    time: int     # number of moves that had been made when ``value`` was computed
    # objective of the cluster with the point added; for the point's own cluster, with the point removed
    value: np.float32


class _Refinement:
    """Refinement of a clustering by moving single points while that raises the objective. Kaldi: RefineClusterer.

    By rounding errors, moving a point without statistics, such as a phone that never occurs, may seem to raise the
    objective in every pass. It changes no cluster: after a pass in which only such points moved, others will not move.
    """

    def __init__(self, points: np.ndarray, clusters: np.ndarray, assignment: np.ndarray, nearest: int,
                 var_floor: float) -> None:
        self._points, self._clusters, self._assignment, self._floor = points, clusters, assignment, var_floor
        self._objectives = objective(clusters, var_floor)
        self._empty = [not any(point) for point in points.tolist()]
        self._changed = [0] * len(clusters)
        self._time = 0
        self._candidates = [self._nearest(point, min(nearest, len(clusters))) for point in range(len(points))]

    def _nearest(self, point: int, count: int) -> list[_Candidate]:
        own = int(self._assignment[point])
        with_point = objective(self._clusters + self._points[point], self._floor)
        losses = self._objectives - with_point
        others = [(losses[cluster], cluster) for cluster in range(len(self._clusters)) if cluster != own]
        if count > 1:
            nth_element(others, count - 2)
        candidates = [_Candidate(cluster, 0, -(loss - self._objectives[cluster])) for loss,
                      cluster in others[:count - 1]]
        return [*candidates, _Candidate(own, 0, self._value(own, point))]

    def _value(self, cluster: int, point: int) -> np.float32:
        sign = -1.0 if self._assignment[point] == cluster else 1.0
        return np.float32(objective(self._clusters[cluster] + sign * self._points[point], self._floor))

    def _refresh(self, candidate: _Candidate, point: int) -> None:
        if candidate.time < self._changed[candidate.cluster]:
            candidate.value, candidate.time = self._value(candidate.cluster, point), self._time

    def run(self, passes: int) -> np.float32:
        """Try to move each point, in at most ``passes`` passes over all points; return the gain in objective."""
        gained = np.float32(0)
        points: Sequence[int] = range(len(self._points))
        for _ in range(passes):
            moves, changed = self._time, max(self._changed)
            for point in points:
                gained = np.float32(gained + self._move(point))
            if self._time == moves:
                break
            if max(self._changed) == changed:
                points = [point for point in points if self._empty[point]]
        return gained

    def _move(self, point: int) -> np.float32:
        """Move a point to the first candidate that raises the objective; return the gain, 0 if there is none."""
        candidates, source = self._candidates[point], int(self._assignment[point])
        own = next(candidate for candidate in candidates if candidate.cluster == source)
        self._refresh(own, point)
        for candidate in candidates:
            if candidate.cluster == source:
                continue
            self._refresh(candidate, point)
            target = candidate.cluster
            gain = (candidate.value + own.value) - self._objectives[target] - self._objectives[source]
            if gain > 0:
                self._time += 1
                self._assignment[point] = target
                if self._empty[point]:
                    return np.float32(gain)
                for cluster, sign in ((target, 1.0), (source, -1.0)):
                    self._clusters[cluster] += sign * self._points[point]
                    self._objectives[cluster] = objective(self._clusters[cluster], self._floor)
                    self._changed[cluster] = self._time
                return np.float32(gain)
        return np.float32(0)


def refine(points: np.ndarray, clusters: np.ndarray, assignment: np.ndarray, passes: int, nearest: int,
           var_floor: float) -> np.float32:
    """Move points to other clusters while that raises the objective; return the gain. Kaldi: RefineClusters.

    ``points`` and ``clusters`` are moments, float64 (…, 1 + 2 dim); ``assignment`` (int (points,)) has the cluster of
    each point. It and ``clusters`` are changed in place. There are at most ``passes`` passes over all points;
    ``nearest`` clusters are tried for each, its own included.
    """
    if passes <= 0 or len(clusters) < 2:
        return np.float32(0)
    return _Refinement(points, clusters, assignment, nearest, var_floor).run(passes)


@dataclass
class Clusters:
    """Result of clustering."""

    assignment: np.ndarray                       # int64 (points,), cluster of each point
    clusters: np.ndarray                         # float64 (clusters, 1 + 2 dim), moments
    gain: np.float32                             # objective minus that of a single cluster of all points
    rounds: list[tuple[np.float32, np.float32]]  # for each round of refinement, the objective before it, and its gain


def k_means(points: np.ndarray, num_clusters: int, tries: int, random: CRandom, var_floor: float) -> list[Clusters]:
    """Cluster points by k-means ``tries`` times; return all results, for :func:`best_of`. Kaldi: ClusterKMeans."""
    return [_k_means_once(points, num_clusters, random, var_floor) for _ in range(tries)]


def best_of(tries: Sequence[Clusters]) -> Clusters:
    """Return the clustering with the largest gain; of equal ones, the first."""
    return max(tries, key=lambda clustering: clustering.gain)


def _k_means_once(points: np.ndarray, num_clusters: int, random: CRandom, var_floor: float) -> Clusters:
    count = len(points)
    skip = 1 if count == 1 else 1 + random.draw() % (count - 1)
    while math.gcd(skip, count) != 1:
        skip = 1 if skip == count - 1 else skip + 1
    assignment = np.empty(count, dtype=np.int64)
    assignment[np.arange(count) * skip % count] = np.arange(count) % num_clusters
    clusters = np.zeros((num_clusters, points.shape[1]))
    for point in np.arange(count) * skip % count:
        clusters[assignment[point]] += points[point]
    before = sum_float32(objective(clusters, var_floor))
    gain = np.float32(before - objective(points.sum(0), var_floor))
    rounds = []
    for _ in range(_ROUNDS):
        gained = refine(points, clusters, assignment, _REFINE_PASSES, _NEAREST, var_floor)
        rounds.append((before, gained))
        before, gain = np.float32(before + gained), np.float32(gain + gained)
        if gained == 0:
            break
    return Clusters(assignment, clusters, gain, rounds)


@dataclass(eq=False)
class _Node:
    """Leaf of a growing cluster tree."""

    points: np.ndarray                # indexes of its points
    leaf: int                         # number of the leaf
    halves: np.ndarray | None = None  # for each of the points, half 0 or 1 of the best split; None for a single point
    gain: np.float32 = np.float32(0)  # gain in objective of this split


@dataclass
class ClusterTree:
    """Binary tree of clusters of points. Kaldi: TreeCluster."""

    leaves: np.ndarray       # int64 (points,), the leaf of each point
    nodes: list[np.ndarray]  # indexes of the points of each inner node, in the order in which the nodes were split


def top_down(points: np.ndarray, random: CRandom, var_floor: float) -> ClusterTree:
    """Split a set of points in two again and again, always the set with the largest gain, until no split has a gain."""

    def node(members: np.ndarray, leaf: int) -> _Node:
        new_node = _Node(members, leaf)
        if len(members) >= 2:
            split = best_of(k_means(points[members], 2, _TRIES, random, var_floor))
            new_node.halves, new_node.gain = split.assignment, split.gain
        return new_node

    leaves, nodes = np.zeros(len(points), dtype=np.int64), []
    waiting = [node(np.arange(len(points)), 0)]
    while waiting := [node_ for node_ in waiting if node_.gain > 0]:
        largest = max(waiting, key=lambda node_: node_.gain)
        waiting.remove(largest)
        nodes.append(largest.points)
        for half, leaf in ((0, largest.leaf), (1, len(nodes))):
            members = largest.points[largest.halves == half]
            leaves[members] = leaf
            waiting.append(node(members, leaf))
    return ClusterTree(leaves, nodes)


@dataclass
class Merged:
    """Result of bottom-up clustering."""

    assignment: np.ndarray  # int64 (points,), cluster of each point, from 0
    change: np.float32      # change of the objective, at most 0
    num_clusters: int


def bottom_up(points: np.ndarray, groups: np.ndarray, threshold: float, min_clusters: int,
              var_floor: float, queue_equal: bool = False) -> Merged:
    """Merge the nearest two clusters of a group, beginning with single points, as long as they are near enough.

    Points are moments, float64 (points, 1 + 2 dim), with the group of each, int (points,). Clusters stay apart at a
    distance (loss of objective) of ``threshold`` or more, single points only above it if ``queue_equal``. Merging ends
    at ``min_clusters`` clusters in all groups. Kaldi: ClusterBottomUp, ClusterBottomUpCompartmentalized.
    """
    clusters = points.copy()
    parents = np.arange(len(points))
    alive = np.ones(len(points), dtype=bool)
    limit = np.float32(threshold)
    members = {group: np.flatnonzero(groups == group) for group in np.unique(groups).tolist()}
    current: dict[tuple[int, int], np.float32] = {}
    queue: list[tuple[np.float32, int, int]] = []

    def push(i: int, others: np.ndarray, strict: bool) -> None:
        if not len(others):
            return
        apart = distance(clusters[i], clusters[others], var_floor)
        for j, value in zip(others.tolist(), apart, strict=True):
            pair = (i, j) if i > j else (j, i)
            current[pair] = value
            if value < limit or (not strict and value == limit):
                heapq.heappush(queue, (value, *pair))

    for numbers in members.values():
        for i in numbers.tolist():
            push(i, numbers[numbers < i], strict=not queue_equal)
    change, left = np.float32(0), len(points)
    while left > min_clusters and queue:
        value, i, j = heapq.heappop(queue)
        latest = current.get((i, j))
        if not (alive[i] and alive[j]) or latest is None or abs(latest - value) > _EQUAL * (abs(latest) + abs(value)):
            continue
        change = np.float32(change - value)
        clusters[i] += clusters[j]
        alive[j], parents[j] = False, i
        left -= 1
        numbers = members[int(groups[i])]
        push(i, numbers[alive[numbers] & (numbers != i)], strict=True)
    return Merged(_renumbered(parents, alive), change, left)


def _renumbered(parents: np.ndarray, alive: np.ndarray) -> np.ndarray:
    roots = parents.copy()
    while (roots[roots] != roots).any():
        roots = roots[roots]
    return (np.cumsum(alive) - 1)[roots]


logger = logging.getLogger(__name__)

_QUESTION_NEAREST = 2     # clusters that refining a question tries, of two
_FEW_KEPT = 10            # keeping less than a tenth of the statistics is worth a warning


@dataclass
class QuestionsForKey:
    """Questions about one key."""

    # the questions, each a set of values in ascending order
    sets: list[tuple[int, ...]] = field(default_factory=list)
    num_iters_refine: int = 0  # number of passes in which a node's best question is refined by moving single values


@dataclass
class Questions:
    """Questions by key: -1 for the pdf class, or the position of a phone in the window."""

    by_key: dict[int, QuestionsForKey]

    @classmethod
    def read(cls, reader: TokenReader) -> Questions:
        """Read questions; FormatError for other contents."""
        reader.expect("<Questions>")
        by_key: dict[int, QuestionsForKey] = {}
        while (token := reader.token()) == "<Key>":
            key = reader.integer()
            if key in by_key:
                raise reader.error(f"key {key} has questions twice")
            by_key[key] = _read_key(reader)
        reader.check_token(token, "</Questions>")
        return cls(by_key)

    def write(self, writer: TokenWriter) -> None:
        """Write questions, text or binary."""
        writer.token("<Questions>")
        for key, questions in sorted(self.by_key.items()):
            writer.tagged("<Key>", TokenWriter.integer, key)
            writer.tagged("<QuestionsForKey>", TokenWriter.integer, len(questions.sets))
            for values in questions.sets:
                writer.integer_vector(values)
            writer.tagged("<RefineClustersOptions>", TokenWriter.integer, questions.num_iters_refine)
            writer.integer(_QUESTION_NEAREST)
            writer.token("</RefineClustersOptions>")
            writer.token("</QuestionsForKey>")
        writer.token("</Questions>")


def _read_key(reader: TokenReader) -> QuestionsForKey:
    count = reader.tagged("<QuestionsForKey>", TokenReader.integer)
    reader.check_count(count, 2, "questions")
    sets = [tuple(sorted(set(reader.integer_vector().tolist()))) for _ in range(count)]
    reader.expect("<RefineClustersOptions>")
    iterations, _ = reader.integer(), reader.integer()
    reader.expect("</RefineClustersOptions>")
    reader.expect("</QuestionsForKey>")
    return QuestionsForKey(sets, iterations)


def compiled_questions(sets: Sequence[Sequence[int]], width: int, num_pdf_classes: int,
                       num_iters_refine: int) -> Questions:
    """Make questions about windows of ``width`` phones: about the pdf class, and at each position each set of phones.

    Questions about the pdf class are whether it is less than 1, 2, ….
    """
    ordered = sorted({tuple(sorted(phones)) for phones in sets})
    if len(ordered) < len(sets):
        logger.warning("%d duplicate questions present", len(sets) - len(ordered))
    by_key = {key: QuestionsForKey(list(ordered), num_iters_refine) for key in range(width)}
    by_key[PDF_CLASS] = QuestionsForKey([tuple(range(last)) for last in range(1, num_pdf_classes)], num_iters_refine)
    return Questions(by_key)


def stats_of_sets(stats: TreeStats, sets: Sequence[Sequence[int]], pdf_classes: Sequence[int],
                  position: int) -> np.ndarray:
    """Sum the statistics of each set of phones that have one of ``pdf_classes``: float64 (sets, 1 + 2 dim), moments.

    The phones are those at ``position`` in the window. Raises FormatError if no statistics have these pdf classes, or a
    phone at this position.
    """
    kept = np.isin(stats.events[:, 0], np.asarray(pdf_classes))
    if position + 1 >= stats.events.shape[1]:
        raise FormatError(f"the statistics have no phone at position {position}", hint="look at --central-position")
    phones = stats.events[:, position + 1]
    kept &= phones >= 0
    if not kept.any():
        raise FormatError("All stats are NULL.", hint="no statistics have these pdf classes; look at --pdf-class-list")
    if _FEW_KEPT * np.count_nonzero(kept) < len(stats):
        logger.warning("Only %d of %d statistics have these pdf classes", np.count_nonzero(kept), len(stats))
    by_phone = np.zeros((int(phones[kept].max()) + 1, stats.moments.shape[1]))
    np.add.at(by_phone, phones[kept], stats.moments[kept])
    seen = set(np.flatnonzero(by_phone[:, 0]).tolist())
    missing = seen - {phone for phones_of_set in sets for phone in phones_of_set}
    if missing:
        logger.warning("Phones that have statistics but are in no set: %s", " ".join(map(str, sorted(missing))))
    sums = np.zeros((len(sets), stats.moments.shape[1]))
    for total, phones_of_set in zip(sums, sets, strict=True):
        for phone in sorted(phones_of_set):
            if phone < len(by_phone):
                total += by_phone[phone]
    for total, phones_of_set in zip(sums, sets, strict=True):
        if total[0] == 0:
            logger.warning("No statistics for the phones %s", " ".join(map(str, phones_of_set)))
    return sums


def question_sets(stats: TreeStats, sets: Sequence[Sequence[int]], pdf_classes: Sequence[int],
                  position: int) -> list[tuple[int, ...]]:
    """Find questions: sets of phones with similar statistics, the nodes of a binary tree over the given sets.

    Raises Nnet3Error if the sets cannot be split. Arguments as of :func:`stats_of_sets`. Kaldi:
    AutomaticallyObtainQuestions.
    """
    points = stats_of_sets(stats, sets, pdf_classes, position)
    tree = top_down(points, CRandom(), stats.var_floor)
    if not tree.nodes:
        raise Nnet3Error("the sets of phones cannot be split", "are there statistics of two of them?")

    def phones(points_of_node: np.ndarray) -> tuple[int, ...]:
        return tuple(sorted(phone for point in points_of_node.tolist() for phone in sets[point]))

    leaves = range(int(tree.leaves.max()), -1, -1)
    questions = [phones(members) for members in tree.nodes[1:]]
    questions += [phones(np.flatnonzero(tree.leaves == leaf)) for leaf in leaves]
    questions += [tuple(sorted(phones_of_set)) for phones_of_set in sets]
    return [phone_set for phone_set in dict.fromkeys(questions) if phone_set]


def phone_classes(stats: TreeStats, sets: Sequence[Sequence[int]], pdf_classes: Sequence[int], position: int,
                  num_classes: int) -> tuple[list[tuple[int, ...]], list[Clusters], float]:
    """Cluster sets of phones into ``num_classes`` classes by k-means. Kaldi: KMeansClusterPhones.

    Return the phones of each class; the results of both runs of k-means, of which the better one made the classes; and
    the number of frames.
    """
    points = stats_of_sets(stats, sets, pdf_classes, position)
    tries = k_means(points, num_classes, 2, CRandom(), stats.var_floor)
    assignment = best_of(tries).assignment
    classes = [tuple(sorted(phone for point in np.flatnonzero(assignment == number).tolist() for phone in sets[point]))
               for number in range(num_classes)]
    return classes, tries, float(points[:, 0].sum())
