"""nnet3py/trees/clustering.py and nth_element.py: gains are what they are said to be, and nothing better was near."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.random_sequence import CRandom
from nnet3py.trees import clustering
from nnet3py.trees.clustering import best_of, bottom_up, k_means, nth_element, refine, top_down
from nnet3py.trees.stats import distance, objective

FLOOR = 0.01
SINGLE = 1e-4          # gains are differences of float32 sums
MOST_OBJECTIVES = 10_000      # of 10 tries; a point that went to and fro took a hundred times as many


def points_of(groups: list[float], each: int, seed: int = 0) -> np.ndarray:
    """Moments of ``each`` points about each of some means."""
    rng = np.random.default_rng(seed)
    rows = []
    for mean in groups:
        for _ in range(each):
            features = mean + rng.standard_normal((30, 2))
            rows.append(np.concatenate(([30.0], features.sum(0), (features * features).sum(0))))
    return np.array(rows)


def total(points: np.ndarray, assignment: np.ndarray) -> float:
    return float(sum(objective(points[assignment == one].sum(0), FLOOR) for one in np.unique(assignment)))


def same_partition(found: np.ndarray, expected: np.ndarray) -> bool:
    return len(set(zip(found.tolist(), expected.tolist(), strict=True))) == len(set(found.tolist())) == len(
        set(expected.tolist()))


def test_k_means_finds_groups() -> None:
    points, truth = points_of([0.0, 10.0, 20.0], 4), np.repeat([0, 1, 2], 4)
    found = best_of(k_means(points, 3, 4, CRandom(), FLOOR))
    assert same_partition(found.assignment, truth)
    assert found.gain == pytest.approx(total(points, truth) - total(points, 0 * truth), rel=SINGLE)
    for number in range(3):
        np.testing.assert_allclose(found.clusters[number], points[found.assignment == number].sum(0))
    gains = [gain for _, gain in found.rounds]
    assert gains[-1] == 0 and all(gain > 0 for gain in gains[:-1]) and len(gains) <= 20
    for (before, gain), (after, _) in itertools.pairwise(found.rounds):
        assert after == np.float32(before + gain)
    assert found.rounds[-1][0] == pytest.approx(total(points, truth), rel=SINGLE)
    alone = best_of(k_means(points[:1], 1, 1, CRandom(), FLOOR))
    assert alone.assignment.tolist() == [0] and alone.gain == 0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), num_clusters=st.integers(2, 7))
def test_refining_gains_what_it_says(seed: int, num_clusters: int) -> None:
    rng = np.random.default_rng(seed)
    points = points_of(list(rng.uniform(0, 5, 12)), 1, seed)
    assignment = rng.integers(0, num_clusters, 12)
    assignment[:num_clusters] = np.arange(num_clusters)
    clusters = np.array([points[assignment == one].sum(0) for one in range(num_clusters)])
    before = total(points, assignment)
    gain = refine(points, clusters, assignment, 10, 5, FLOOR)
    assert gain >= 0
    assert total(points, assignment) - before == pytest.approx(gain, rel=SINGLE, abs=0.05)
    np.testing.assert_allclose(clusters, [points[assignment == one].sum(0) for one in range(num_clusters)], atol=1e-9)


def test_two_clusters_are_refined_until_no_move_gains() -> None:
    points = points_of([0.0, 6.0], 6, 3)
    assignment = np.arange(12) % 2
    clusters = np.array([points[assignment == one].sum(0) for one in range(2)])
    refine(points, clusters, assignment, 100, 2, FLOOR)
    best = total(points, assignment)
    for point in range(12):
        other = assignment.copy()
        other[point] = 1 - other[point]
        assert total(points, other) <= best + 0.01


def test_of_the_clusters_tried_the_farthest_is_the_last() -> None:
    """As nth_element, which Kaldi calls, leaves them: clusters are tried in this order."""
    points, assignment = points_of(list(np.random.default_rng(2).uniform(0, 5, 12)), 1), np.arange(12)
    refinement = clustering._Refinement(points, points.copy(), assignment, 6, FLOOR)
    for own, candidates in enumerate(refinement._candidates):
        assert len(candidates) == 6 and candidates[-1].cluster == own
        losses = sorted(refinement._objectives[i] - objective(points[i] + points[own], FLOOR)
                        for i in range(12) if i != own)
        last = candidates[-2].cluster
        assert refinement._objectives[last] - objective(points[last] + points[own], FLOOR) == losses[4]


def test_from_the_top_down() -> None:
    points = points_of([0.0, 10.0], 3)
    tree = top_down(points, CRandom(), FLOOR)
    assert tree.nodes[0].tolist() == list(range(6))
    first_split = {frozenset(members.tolist()) for members in tree.nodes[1:]} | {
        frozenset(np.flatnonzero(tree.leaves == leaf).tolist()) for leaf in np.unique(tree.leaves)}
    assert any(part <= {0, 1, 2} for part in first_split) and not any(
        part & {0, 1, 2} and part & {3, 4, 5} for part in first_split)
    assert len(tree.nodes) == len(np.unique(tree.leaves)) - 1


def test_points_without_statistics_cost_little_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0

    def counting(moments: np.ndarray, floor: float) -> np.ndarray:
        nonlocal counted
        counted += 1
        return objective(moments, floor)

    monkeypatch.setattr("nnet3py.trees.clustering.objective", counting)
    points = points_of([0.0, 5.0], 6)
    with_empty = np.insert(points, 3, np.zeros(points.shape[1]), axis=0)
    for given_points in (points, with_empty):
        counted = 0
        found = best_of(k_means(given_points, 2, 10, CRandom(), FLOOR)).assignment
        assert same_partition(found[given_points[:, 0] > 0], np.repeat([0, 1], 6))
        assert counted < MOST_OBJECTIVES


def test_from_the_bottom_up() -> None:
    points, truth = points_of([0.0, 0.1, 10.0], 2), np.array([0, 0, 0, 0, 1, 1])
    merged = bottom_up(points, np.zeros(6, dtype=int), np.inf, 2, FLOOR)
    assert same_partition(merged.assignment, truth) and merged.num_clusters == 2
    expected = total(points, truth) - total(points, np.arange(6))
    assert merged.change == pytest.approx(expected, rel=SINGLE, abs=0.05)
    least = min(float(distance(points[i], points[j], FLOOR)) for i, j in itertools.combinations(range(6), 2))
    assert bottom_up(points, np.zeros(6, dtype=int), least / 2, 0, FLOOR).num_clusters == 6
    assert bottom_up(points, np.zeros(6, dtype=int), least, 0, FLOOR, queue_equal=True).num_clusters == 5


def test_groups_are_kept_apart() -> None:
    points, groups = points_of([0.0], 6), np.array([0, 1, 0, 1, 0, 1])
    merged = bottom_up(points, groups, np.inf, 2, FLOOR)
    assert same_partition(merged.assignment, groups)


@settings(max_examples=100, deadline=None)
@given(items=st.lists(st.integers(0, 20), min_size=1, max_size=60), data=st.data())
def test_nth_element(items: list[int], data: st.DataObject) -> None:
    nth = data.draw(st.integers(0, len(items) - 1))
    changed = list(items)
    nth_element(changed, nth)
    assert sorted(changed) == sorted(items) and changed[nth] == sorted(items)[nth]
    assert max(changed[:nth], default=-1) <= changed[nth] <= min(changed[nth + 1:], default=99)


def test_nth_element_sorts_what_is_badly_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libstdc++: after twice the base-2 logarithm of the number of items, rounded down."""
    divided = []

    def one_less(items: list[int], first: int, last: int) -> int:
        divided.append((first, last))
        return last - 1

    monkeypatch.setattr(clustering, "_partition", one_less)
    items = [*range(100)]
    nth_element(items, 0)
    assert len(divided) == 2 * 6 and divided[-1] == (0, 100 - 11) and items == [*range(100)]
