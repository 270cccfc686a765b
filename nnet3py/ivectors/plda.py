"""Probabilistic linear discriminant analysis: how likely two vectors are of one speaker. Kaldi: ``Plda``.

Ioffe, "Probabilistic Linear Discriminant Analysis", 2006.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.formats.matrices import read_matrix, read_vector, write_matrix, write_vector
from nnet3py.gaussians.symmetric import descending_eigen
from nnet3py.io.tokens import TokenReader, TokenWriter


@dataclass
class Plda:
    """A model in coordinates in which the covariance within speakers is the unit matrix, and between them diagonal.

    Attributes
    ----------
    mean : float64 (dim,), of the vectors
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
        """The model from its mean and covariances.

        Parameters
        ----------
        mean : float64 (dim,), of the vectors
        within, between : float64 (dim, dim), covariances within speakers and between them

        Raises
        ------
        NumericError : that within is not positive definite
        """
        try:
            whitening = np.linalg.inv(np.linalg.cholesky(within))
        except np.linalg.LinAlgError:
            raise NumericError("the covariance within speakers is not positive definite",
                               "there are too few vectors, or they are too much alike") from None
        values, vectors = descending_eigen(_symmetric(whitening @ between @ whitening.T))
        return cls(mean, vectors.T @ whitening, np.maximum(values, 0.0))

    @classmethod
    def read(cls, reader: TokenReader) -> Plda:
        """Read a model; FormatError for anything else."""
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
        """Write it, text or binary."""
        writer.token("<Plda>")
        write_vector(writer, self.mean)
        write_matrix(writer, self.transform)
        write_vector(writer, self.psi)
        writer.token("</Plda>")

    def transformed(self, vectors: np.ndarray, counts: np.ndarray, normalize_length: bool = True,
                    simple: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """float32 (vectors, dim) in the model's coordinates, and the factors (vectors,) that normalized their lengths.

        ``counts``: how many vectors each is the mean of; ``simple`` makes all lengths the same. ShapeError for
        vectors of another dimension. Kaldi: TransformIvector.
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
        """float64 (tests,): log-likelihoods of one speaker over those of two.

        ``enrolled`` (dim,), the mean of ``count`` vectors, and ``tested`` (tests, dim), both transformed.
        Kaldi: LogLikelihoodRatio.
        """
        mean = count * self.psi / (count * self.psi + 1.0) * enrolled.astype(np.float64)
        variance = 1.0 + self.psi / (count * self.psi + 1.0)
        apart = 1.0 + self.psi
        double = tested.astype(np.float64)
        same = np.log(variance).sum() + ((double - mean) ** 2 / variance).sum(axis=1)
        other = np.log(apart).sum() + (double ** 2 / apart).sum(axis=1)
        ratios: np.ndarray = -0.5 * (same - other)
        return ratios

    def smoothed(self, factor: float) -> Plda:
        """The model with some of the variance between speakers within them. Kaldi: SmoothWithinClassCovariance."""
        if not 0.0 <= factor <= 1.0:
            raise Nnet3Error(f"expected a smoothing factor from 0 to 1, found {factor:g}")
        within = 1.0 + factor * self.psi
        return Plda(self.mean, self.transform / np.sqrt(within)[:, None], self.psi / within)

    def projected(self, matrix: np.ndarray) -> Plda:
        """The model of vectors that a matrix, float64 (rows, dim), was applied to. Kaldi: ApplyTransform."""
        inverse = matrix @ np.linalg.inv(self.transform)
        return Plda.of_covariances(matrix @ self.mean, _symmetric(inverse @ inverse.T),
                                   _symmetric((inverse * self.psi) @ inverse.T))

    def adapted(self, vectors: np.ndarray, mean_diff_scale: float, within_scale: float,
                between_scale: float) -> tuple[Plda, np.ndarray]:
        """The model adapted to vectors of other data without speakers. Kaldi: PldaUnsupervisedAdaptor.

        Where they vary more than the model says, parts of that are added within and between speakers.

        Parameters
        ----------
        vectors : float (vectors, dim)
        mean_diff_scale : how much the distance of the means counts as variance
        within_scale, between_scale : the parts

        Returns
        -------
        The model; and float64 (dim,), the eigenvalues of the covariance of the vectors, as the old model sees it.
        """
        double = vectors.astype(np.float64)
        mean = double.mean(axis=0)
        centered = double - mean
        away = mean - self.mean
        covariance = centered.T @ centered / len(double) + mean_diff_scale * np.outer(away, away)
        unit = self.transform / np.sqrt(1.0 + self.psi)[:, None]
        values, rotation = descending_eigen(_symmetric(unit @ covariance @ unit.T))
        within = (rotation.T / (1.0 + self.psi)) @ rotation
        between = (rotation.T * (self.psi / (1.0 + self.psi))) @ rotation
        more = np.maximum(values - 1.0, 0.0)
        within[np.diag_indices_from(within)] += within_scale * more
        between[np.diag_indices_from(between)] += between_scale * more
        back = np.linalg.inv(rotation.T @ unit)
        plda = Plda.of_covariances(mean, _symmetric(back @ within @ back.T), _symmetric(back @ between @ back.T))
        return plda, values


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    symmetric: np.ndarray = 0.5 * (matrix + matrix.T)
    return symmetric


class PldaTraining:
    """Estimates a model by expectation and maximization. Kaldi: ``PldaEstimator``.

    Parameters
    ----------
    speakers : for each speaker, float32 (vectors, dim)
    """

    def __init__(self, speakers: Sequence[np.ndarray]) -> None:
        if not speakers:
            raise Nnet3Error("there are no speakers with vectors")
        self._dim = speakers[0].shape[1]
        counts = np.array([len(vectors) for vectors in speakers])
        if counts.sum() <= self._dim or counts.max() < 2:
            raise Nnet3Error(f"{counts.sum()} vectors of {len(counts)} speakers are too few for dimension {self._dim}",
                             "there must be more than that, and two of some speaker")
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
        """One step."""
        inverse_between, inverse_within = np.linalg.inv(self.between), np.linalg.inv(self.within)
        within, between = self._scatter.copy(), np.zeros_like(self._scatter)
        away = self._means - self._mean
        for count in np.unique(self._counts).tolist():
            which = self._counts == count
            covariance = np.linalg.inv(inverse_between + count * inverse_within)
            expected = count * away[which] @ inverse_within @ covariance
            rest = away[which] - expected
            number = np.count_nonzero(which)
            between += number * covariance + expected.T @ expected
            within += count * (number * covariance + rest.T @ rest)
        classes = len(self._counts)
        self.within = _symmetric(within / (self._counts.sum() - classes + classes))
        self.between = _symmetric(between / classes)

    def model(self) -> Plda:
        """The model from the covariances so far."""
        return Plda.of_covariances(self._mean, self.within, self.between)


def dense_ratios(plda: Plda, vectors: np.ndarray, target_energy: float) -> np.ndarray:
    """float32 (vectors, vectors): log-likelihood ratios of all pairs, in the directions in which they vary most.

    ``target_energy``: the part of their variance that is kept; all if it is within a thousandth of 1.
    Kaldi: ivector-plda-scoring-dense.
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
    transform: np.ndarray = rotation[:, :dim].T
    return transform
