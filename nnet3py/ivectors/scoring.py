"""Comparison of speakers' vectors (i-vectors, x-vectors): LDA, PLDA, clustering, equal error rates.

S. Ioffe, "Probabilistic Linear Discriminant Analysis", ECCV 2006. Kaldi: ``Plda``, ``PldaEstimator``,
``ivector/agglomerative-clustering.h``, ivector-compute-lda, compute-eer.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.formats.matrices import read_matrix, read_vector, write_matrix, write_vector
from nnet3py.gaussians.symmetric import descending_eigen, symmetrized
from nnet3py.io.tokens import TokenReader, TokenWriter


class Lda(NamedTuple):
    """Linear discriminants of speakers.

    Attributes
    ----------
    transform : float32 (dim, input dim + 1), with offsets in the last column
    singular_values : float64 (input dim,), of the covariance between speakers, descending
    """

    transform: np.ndarray
    singular_values: np.ndarray


def linear_discriminants(vectors: np.ndarray, speakers: Sequence[str], dim: int, total_covariance_factor: float,
                         covariance_floor: float) -> Lda:
    """Estimate the directions that tell speakers apart. Kaldi: ivector-compute-lda.

    Parameters
    ----------
    vectors : float32 (utterances, input dim)
    speakers : speaker of each utterance
    dim : rows of the transform
    total_covariance_factor : weight of the total covariance, from 0 to 1; the rest is the weight of the covariance
        within speakers
    covariance_floor : floor of eigenvalues, as a part of the largest

    Returns
    -------
    The transform, float32 (dim, input dim + 1), and the singular values.

    Raises
    ------
    Nnet3Error : fewer vectors than dimensions
    NumericError : vectors that are all equal
    """
    count, input_dim = vectors.shape
    if not 0 < dim <= input_dim:
        raise Nnet3Error(f"--dim={dim}: expected 1 to {input_dim}, the dimension of the vectors")
    if count < input_dim:
        raise Nnet3Error(f"{count} vectors are too few for dimension {input_dim}; expected {input_dim} or more")
    mean = vectors.astype(np.float64).mean(axis=0).astype(np.float32)
    centered = (vectors - mean).astype(np.float64)
    numbers = np.unique(np.asarray(speakers), return_inverse=True)[1].ravel()
    sizes = np.bincount(numbers).astype(np.float64)
    sums = np.zeros((len(sizes), input_dim))
    np.add.at(sums, numbers, centered)
    total = centered.T @ centered / count
    between = (sums / sizes[:, None]).T @ sums / count
    mixed = total_covariance_factor * total + (1.0 - total_covariance_factor) * (total - between)
    values, vectors_of = descending_eigen(mixed)
    if values[0] <= 0:
        raise NumericError("the covariance of the vectors is not positive", "are all vectors equal?")
    whitening = (vectors_of / np.sqrt(np.maximum(values, covariance_floor * values[0]))).T
    singular, rotation = descending_eigen(whitening @ between @ whitening.T)
    matrix = (rotation.T @ whitening)[:dim].astype(np.float32)
    return Lda(np.column_stack((matrix, -(matrix @ mean))).astype(np.float32), singular)


class EqualErrorRate(NamedTuple):
    """The error rate at which as many targets are rejected as non-targets accepted.

    Attributes
    ----------
    per_cent : error rate
    threshold : score above which trials are accepted
    """

    per_cent: float
    threshold: float


def equal_error_rate(targets: np.ndarray, nontargets: np.ndarray) -> EqualErrorRate:
    """Compute the equal error rate of scores. Kaldi: compute-eer.

    Parameters
    ----------
    targets : float (trials,), scores of trials of one speaker
    nontargets : float (trials,), scores of trials of two speakers

    Returns
    -------
    The rate in per cent, and its threshold.

    Raises
    ------
    Nnet3Error : no scores of either kind
    """
    if not len(targets) or not len(nontargets):
        raise Nnet3Error(f"expected scores of target and of nontarget trials, found {len(targets)} and "
                         f"{len(nontargets)}")
    low, high = np.sort(targets), np.sort(nontargets)
    place = 0
    while place + 1 < len(low):
        other = max(0, len(high) - 1 - int(len(high) * place / len(low)))
        if high[other] < low[place]:
            break
        place += 1
    return EqualErrorRate(100.0 * place / len(low), float(low[place]))


@dataclass
class Plda:
    """A PLDA model: coordinates in which the covariance within speakers is 1 and between speakers diagonal.

    Attributes
    ----------
    mean : float64 (dim,), mean of the vectors
    transform : float64 (dim, dim), to these coordinates
    psi : float64 (dim,), variances between speakers, descending
    """

    mean: np.ndarray
    transform: np.ndarray
    psi: np.ndarray

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return len(self.mean)

    @classmethod
    def of_covariances(cls, mean: np.ndarray, within: np.ndarray, between: np.ndarray) -> Plda:
        """Make a model from its mean and covariances.

        Parameters
        ----------
        mean : float64 (dim,), mean of the vectors
        within, between : float64 (dim, dim), covariances within and between speakers

        Raises
        ------
        NumericError : a covariance within speakers that is not positive definite
        """
        try:
            whitening = np.linalg.inv(np.linalg.cholesky(within))
        except np.linalg.LinAlgError:
            raise NumericError("the covariance within speakers is not positive definite",
                               "give more vectors, or vectors that differ more") from None
        values, vectors = descending_eigen(symmetrized(whitening @ between @ whitening.T))
        return cls(mean, vectors.T @ whitening, np.maximum(values, 0.0))

    @classmethod
    def read(cls, reader: TokenReader) -> Plda:
        """Read a model; raise FormatError for anything else."""
        reader.expect("<Plda>")
        mean, transform = read_vector(reader, np.float64), read_matrix(reader, np.float64)
        psi = read_vector(reader, np.float64)
        reader.expect("</Plda>")
        if transform.shape != (len(mean), len(mean)) or len(psi) != len(mean) or not len(mean):
            raise reader.error(f"expected a mean, a square transform and variances of one dimension, found "
                               f"{len(mean)}, {transform.shape} and {len(psi)}")
        if not all(np.isfinite(part).all() for part in (mean, transform, psi)) or (psi < 0).any():
            raise reader.error("expected finite numbers, and variances that are not negative")
        return cls(mean, transform, psi)

    def write(self, writer: TokenWriter) -> None:
        """Write the model, as text or binary."""
        writer.tagged("<Plda>", write_vector, self.mean)
        write_matrix(writer, self.transform)
        write_vector(writer, self.psi)
        writer.token("</Plda>")

    def transformed(self, vectors: np.ndarray, counts: np.ndarray, normalize_length: bool = True,
                    simple: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Transform vectors to the model's coordinates. Kaldi: TransformIvector.

        Parameters
        ----------
        vectors : float (vectors, dim)
        counts : int (vectors,), number of vectors of which each is the mean
        normalize_length : whether to normalize the lengths of the transformed vectors
        simple : whether all normalized lengths are √dim, rather than those that the model expects for ``counts``

        Returns
        -------
        The vectors, float32 (vectors, dim); and the factors that normalize their lengths, float64 (vectors,), which are
        applied only if ``normalize_length``.

        Raises
        ------
        ShapeError : vectors of another dimension
        """
        if vectors.shape[1] != self.dim:
            raise ShapeError(f"expected vectors of dimension {self.dim}, found {vectors.shape[1]}")
        moved = vectors.astype(np.float64) @ self.transform.T - self.transform @ self.mean
        if simple:
            factors = math.sqrt(self.dim) / np.linalg.norm(moved, axis=1)
        else:
            expected = self.psi + 1.0 / np.asarray(counts, dtype=np.float64)[:, None]
            factors = np.sqrt(self.dim / (moved * moved / expected).sum(axis=1))
        if normalize_length:
            moved = moved * factors[:, None]
        return moved.astype(np.float32), factors

    def log_ratios(self, enrolled: np.ndarray, count: float, tested: np.ndarray) -> np.ndarray:
        """Compute log-likelihood ratios, same speaker against different speakers: float64 (tests,).

        Kaldi: LogLikelihoodRatio.

        Parameters
        ----------
        enrolled : float (dim,), transformed mean of ``count`` vectors
        count : number of these vectors
        tested : float (tests, dim), transformed
        """
        mean = count * self.psi / (count * self.psi + 1.0) * enrolled.astype(np.float64)
        variance = 1.0 + self.psi / (count * self.psi + 1.0)
        apart = 1.0 + self.psi
        double = tested.astype(np.float64)
        same = np.log(variance).sum() + ((double - mean) ** 2 / variance).sum(axis=1)
        other = np.log(apart).sum() + (double ** 2 / apart).sum(axis=1)
        return np.asarray(-0.5 * (same - other))

    def smoothed(self, factor: float) -> Plda:
        """Return a model with ``factor`` times the variance between speakers added to that within speakers.

        Kaldi: SmoothWithinClassCovariance.
        """
        if not 0.0 <= factor <= 1.0:
            raise Nnet3Error(f"expected a smoothing factor from 0 to 1, found {factor:g}")
        within = 1.0 + factor * self.psi
        return Plda(self.mean, self.transform / np.sqrt(within)[:, None], self.psi / within)

    def projected(self, matrix: np.ndarray) -> Plda:
        """Return the model of vectors multiplied by a matrix, float64 (rows, dim). Kaldi: ApplyTransform."""
        inverse = matrix @ np.linalg.inv(self.transform)
        return Plda.of_covariances(matrix @ self.mean, symmetrized(inverse @ inverse.T),
                                   symmetrized((inverse * self.psi) @ inverse.T))

    def adapted(self, vectors: np.ndarray, mean_diff_scale: float, within_scale: float,
                between_scale: float) -> tuple[Plda, np.ndarray]:
        """Adapt the model to vectors of other data without speakers. Kaldi: PldaUnsupervisedAdaptor.

        In directions in which the vectors vary more than by the model, parts of the excess are added to the covariances
        within and between speakers.

        Parameters
        ----------
        vectors : float (vectors, dim)
        mean_diff_scale : factor of the squared distance of the means in the variance
        within_scale, between_scale : parts of the excess

        Returns
        -------
        The model; and float64 (dim,), eigenvalues of the vectors' covariance relative to the old model.
        """
        double = vectors.astype(np.float64)
        mean = double.mean(axis=0)
        centered = double - mean
        away = mean - self.mean
        covariance = centered.T @ centered / len(double) + mean_diff_scale * np.outer(away, away)
        unit = self.transform / np.sqrt(1.0 + self.psi)[:, None]
        values, rotation = descending_eigen(symmetrized(unit @ covariance @ unit.T))
        within = (rotation.T / (1.0 + self.psi)) @ rotation
        between = (rotation.T * (self.psi / (1.0 + self.psi))) @ rotation
        more = np.maximum(values - 1.0, 0.0)
        within[np.diag_indices_from(within)] += within_scale * more
        between[np.diag_indices_from(between)] += between_scale * more
        back = np.linalg.inv(rotation.T @ unit)
        plda = Plda.of_covariances(mean, symmetrized(back @ within @ back.T), symmetrized(back @ between @ back.T))
        return plda, values


class PldaTraining:
    """Estimation of a PLDA model by expectation and maximization. Kaldi: ``PldaEstimator``.

    Parameters
    ----------
    speakers : for each speaker, float32 (vectors, dim)
    """

    def __init__(self, speakers: Sequence[np.ndarray]) -> None:
        if not speakers:
            raise Nnet3Error("expected vectors of one speaker or more, found none")
        self._dim = speakers[0].shape[1]
        counts = np.array([len(vectors) for vectors in speakers])
        if counts.sum() <= self._dim or counts.max() < 2:
            raise Nnet3Error(f"{counts.sum()} vectors of {len(counts)} speakers are too few for dimension {self._dim}",
                             "expected more vectors than dimensions, and two of at least one speaker")
        self._counts = counts.astype(np.float64)
        self._means = np.stack([vectors.astype(np.float64).mean(axis=0) for vectors in speakers])
        self._mean = self._means.mean(axis=0)
        self._scatter = np.zeros((self._dim, self._dim))
        for vectors, mean in zip(speakers, self._means, strict=True):
            centered = vectors.astype(np.float64) - mean
            self._scatter += centered.T @ centered
        self.within = np.eye(self._dim)
        self.between = np.eye(self._dim)

    def iterate(self) -> None:
        """Update the covariances by one iteration of expectation and maximization."""
        inverse_between, inverse_within = np.linalg.inv(self.between), np.linalg.inv(self.within)
        within, between = self._scatter.copy(), np.zeros_like(self._scatter)
        away = self._means - self._mean
        for count in np.unique(self._counts).tolist():
            has_count = self._counts == count
            covariance = np.linalg.inv(inverse_between + count * inverse_within)
            expected = count * away[has_count] @ inverse_within @ covariance
            rest = away[has_count] - expected
            number = np.count_nonzero(has_count)
            between += number * covariance + expected.T @ expected
            within += count * (number * covariance + rest.T @ rest)
        self.within = symmetrized(within / self._counts.sum())
        self.between = symmetrized(between / len(self._counts))

    def model(self) -> Plda:
        """Return the model with the current covariances."""
        return Plda.of_covariances(self._mean, self.within, self.between)


def dense_ratios(plda: Plda, vectors: np.ndarray, target_energy: float) -> np.ndarray:
    """Compute log-likelihood ratios of all pairs of vectors: float32 (vectors, vectors).

    The vectors are first projected to as many principal components as have the fraction ``target_energy`` of their
    variance, unless this fraction is within 0.001 of 1. Kaldi: ivector-plda-scoring-dense.
    """
    if abs(target_energy - 1.0) > 1.0e-3:
        matrix = _main_directions(vectors, target_energy)
        plda = plda.projected(matrix)
        vectors = vectors.astype(np.float64) @ matrix.T
    moved, _ = plda.transformed(vectors, np.ones(len(vectors)))
    return np.stack([plda.log_ratios(row, 1.0, moved) for row in moved]).astype(np.float32)


def _main_directions(vectors: np.ndarray, target_energy: float) -> np.ndarray:
    centered = vectors.astype(np.float64) - vectors.astype(np.float64).mean(axis=0)
    values, rotation = descending_eigen(centered.T @ centered / len(vectors))
    energy, dim = 0.0, 1
    while dim < len(values) and energy / values.sum() <= target_energy:
        energy += values[dim - 1]
        dim += 1
    return np.asarray(rotation[:, :dim].T)


def agglomerate(costs: np.ndarray, threshold: float, num_clusters: int = 1, max_size: float = np.inf,
                sizes: np.ndarray | None = None) -> np.ndarray:
    """Cluster points by average linkage: join clusters with the least mean cost over all pairs of their points.

    Kaldi: AgglomerativeClusterer. scipy's ``linkage`` has neither clusters of limited size nor points of different
    weights.

    ``costs``, float (points, points), symmetric, are those of two points in one cluster; the diagonal is ignored.
    Clusters are joined up to the mean cost ``threshold``, until there are ``num_clusters``, and no cluster has more
    than ``max_size`` points; ``sizes``, int (points,), are numbers of points that each point stands for, or None for 1.

    Returns int64 (points,), the number of each point's cluster, from 0: points that are alone in their order, then
    clusters in the order in which they were completed. Raises ShapeError for costs that are not square, NumericError
    for NaN among them.
    """
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1]:
        raise ShapeError(f"expected costs of all pairs, a square matrix, found an array of shape {costs.shape}")
    count = len(costs)
    average = costs.astype(np.float64)
    np.fill_diagonal(average, np.inf)
    if np.isnan(average).any():
        raise NumericError("the costs of pairs have NaN", "look for NaN in the scores of the pairs")
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
    return np.asarray(numbers[places.reshape(-1)])


def agglomerate_in_parts(costs: np.ndarray, threshold: float, num_clusters: int = 1, max_size: float = np.inf,
                         most_points: int = 32767) -> np.ndarray:
    """Cluster many points: parts of at most ``most_points`` first, then their clusters. Cf. :func:`agglomerate`."""
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
    return np.asarray(second[first])
