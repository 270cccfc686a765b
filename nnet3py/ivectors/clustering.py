"""Agglomerative clustering by average linkage, as for telling which segments of a recording are of one speaker.

scipy's ``linkage`` has neither clusters of a limited size nor points of different weights, which Kaldi's program needs.
Kaldi: ``ivector/agglomerative-clustering.h``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.errors import NumericError, ShapeError


def agglomerate(costs: np.ndarray, threshold: float, num_clusters: int = 1, max_size: float = np.inf,
                sizes: np.ndarray | None = None) -> np.ndarray:
    """Join points, and then clusters, whose cost on average over all pairs of their points is least.

    Parameters
    ----------
    costs : float (points, points), symmetric, of having two points in one cluster; the diagonal is not looked at
    threshold : clusters with a greater average cost are not joined
    num_clusters : with so many clusters it stops; infinity as ``threshold`` gives just so many
    max_size : the most points that a cluster may have
    sizes : int (points,), for how many each point stands; None: for one

    Returns
    -------
    int64 (points,) : the number of each point's cluster, from 0. First come points that are alone, in their order, then
        clusters in the order in which they were completed

    Raises
    ------
    ShapeError : costs that are not square
    NumericError : NaN among them
    """
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1]:
        raise ShapeError(f"expected costs of all pairs, a square matrix, found an array of shape {costs.shape}")
    count = len(costs)
    average = costs.astype(np.float64)
    np.fill_diagonal(average, np.inf)
    if np.isnan(average).any():
        raise NumericError("the costs of pairs have NaN")
    weights = np.ones(count) if sizes is None else sizes.astype(np.float64)
    average[weights[:, None] + weights > max_size] = np.inf
    age = np.arange(count)                               # clusters that were completed later have larger ones
    cluster = np.arange(count)
    nearest = average.argmin(axis=1) if count else age
    least = average[age, nearest]
    for step in range(count - num_clusters):
        first = int(least.argmin())
        if not least[first] <= threshold or least[first] == np.inf:
            break
        other = int(nearest[first])
        total = weights[first] + weights[other]
        joined = (weights[first] * average[first] + weights[other] * average[other]) / total
        joined[weights + total > max_size] = np.inf
        joined[[first, other]] = np.inf
        weights[first], age[first] = total, count + step
        average[first] = average[:, first] = joined
        average[other] = average[:, other] = np.inf
        cluster[cluster == other] = first
        changed = np.flatnonzero((nearest == first) | (nearest == other) | (joined < least))
        changed = np.union1d(changed, [first, other])
        nearest[changed] = average[changed].argmin(axis=1)
        least[changed] = average[changed, nearest[changed]]
    left, places = np.unique(cluster, return_inverse=True)
    numbers = np.empty(len(left), dtype=np.int64)
    numbers[np.argsort(age[left], kind="stable")] = np.arange(len(left))
    labels: np.ndarray = numbers[places.reshape(-1)]
    return labels


def agglomerate_in_parts(costs: np.ndarray, threshold: float, num_clusters: int = 1, max_size: float = np.inf,
                         most_points: int = 32767) -> np.ndarray:
    """The same for many points: parts of at most ``most_points`` are clustered first, then their clusters."""
    count = len(costs)
    if count <= most_points:
        return agglomerate(costs, threshold, num_clusters, max_size)
    first = np.zeros(count, dtype=np.int64)
    total = 0
    for begin in range(0, count, most_points):
        part = slice(begin, begin + most_points)
        first[part] = total + agglomerate(costs[part, part], threshold, num_clusters, max_size)
        total = int(first[part].max()) + 1
    sizes = np.bincount(first)
    order = np.argsort(first, kind="stable")
    begins = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    sums = np.add.reduceat(np.add.reduceat(costs[np.ix_(order, order)].astype(np.float64), begins, axis=0), begins,
                           axis=1)
    second = agglomerate(sums / np.outer(sizes, sizes), threshold, num_clusters, max_size, sizes)
    labels: np.ndarray = second[first]
    return labels
