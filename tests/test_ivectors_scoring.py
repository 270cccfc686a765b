"""nnet3py/ivectors/scoring.py: average linkage beside scipy's, limits of size, many points."""
from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from nnet3py.errors import NumericError, ShapeError
from nnet3py.ivectors.scoring import agglomerate, agglomerate_in_parts


def costs_of(count: int, seed: int = 0) -> np.ndarray:
    points = np.random.default_rng(seed).standard_normal((count, 3))
    return np.linalg.norm(points[:, None] - points, axis=2)


def same(labels: np.ndarray, others: np.ndarray) -> bool:
    return bool(((labels[:, None] == labels) == (others[:, None] == others)).all())


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_those_of_scipy(seed: int) -> None:
    costs = costs_of(40, seed)
    tree = linkage(squareform(costs, checks=False), "average")
    for threshold in (0.3, 1.0, 2.0, 10.0):
        assert same(agglomerate(costs, threshold), fcluster(tree, threshold, "distance"))
    for count in (1, 2, 7, 40, 50):
        labels = agglomerate(costs, np.inf, count)
        assert len(set(labels.tolist())) == min(count, 40) and same(labels, fcluster(tree, count, "maxclust"))


def test_the_order_of_clusters() -> None:
    costs = np.abs(np.subtract.outer([9.0, 0.0, 5.0, 0.3, 9.1, 5.5], [9.0, 0.0, 5.0, 0.3, 9.1, 5.5]))
    assert agglomerate(costs, 0.4).tolist() == [2, 3, 0, 3, 2, 1]      # alone: 5.0, 5.5; then 9, then 0
    assert agglomerate(costs, 0.05).tolist() == list(range(6))
    assert agglomerate(np.zeros((0, 0)), 1.0).tolist() == []
    assert agglomerate(np.zeros((1, 1)), 1.0).tolist() == [0]


def test_clusters_have_a_largest_size() -> None:
    costs = costs_of(30)
    labels = agglomerate(costs, np.inf, 3, max_size=12)
    assert np.bincount(labels).max() <= 12 and len(set(labels.tolist())) >= 3
    assert np.bincount(agglomerate(costs, np.inf, 3)).max() > 12


def test_many_points_are_clustered_in_parts() -> None:
    random = np.random.default_rng(1)
    centers = np.repeat(np.array([0.0, 20.0, 50.0]), 11)
    places = random.permutation(centers) + 0.1 * random.standard_normal(33)
    costs = np.abs(np.subtract.outer(places, places))
    assert same(agglomerate_in_parts(costs, 5.0, most_points=10), np.round(places / 10).astype(int))
    assert same(agglomerate_in_parts(costs, np.inf, 3, most_points=7), agglomerate(costs, np.inf, 3))


def test_weights_are_as_if_points_stood_there_several_times() -> None:
    costs, sizes = costs_of(8), np.array([1, 3, 1, 2, 1, 1, 4, 1])
    places = np.repeat(np.arange(8), sizes)
    repeated = agglomerate(costs[np.ix_(places, places)], np.inf, 3)
    assert same(agglomerate(costs, np.inf, 3, sizes=sizes)[places], repeated)


def test_what_cannot_be_clustered() -> None:
    with pytest.raises(ShapeError, match="square matrix"):
        agglomerate(np.zeros((2, 3)), 0.0)
    with pytest.raises(NumericError, match="NaN"):
        agglomerate(np.array([[0.0, np.nan], [np.nan, 0.0]]), 0.0)
