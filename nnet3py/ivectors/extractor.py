"""The model of i-vectors: Gaussians whose means depend on a vector. Kaldi: ``IvectorExtractor``."""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.matrices import read_matrix, read_packed, read_vector, write_matrix, write_packed, write_vector
from nnet3py.formats.posteriors import Posterior
from nnet3py.gaussians.mixtures import FullGmm
from nnet3py.gaussians.symmetric import lower_triangle, outer_products, packed, symmetrized, unpacked
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.random_sequence import CRandom

logger = logging.getLogger(__name__)

_FIRST_OFFSET = 100.0          # prior offset of a new extractor
_WEIGHT_ITERATIONS = 4         # most iterations if weights depend on the i-vector
_CONVERGED = 0.1               # 2-norm of a change of the i-vector below which the iterations end


@dataclass
class UtteranceStats:
    """Statistics of an utterance, from which its i-vector is estimated.

    Attributes
    ----------
    gamma : float64 (gaussians,), occupancies
    first : float64 (gaussians, dim), sums of features
    second : float64 (gaussians, dim (dim + 1) / 2), sums of products of features, or None
    """

    gamma: np.ndarray
    first: np.ndarray
    second: np.ndarray | None = None

    @classmethod
    def of(cls, num_gaussians: int, features: np.ndarray, posterior: Posterior,
           need_second: bool = False) -> UtteranceStats:
        """Accumulate statistics of float32 features (frames, dim).

        Raises ShapeError for posteriors of other Gaussians or of another number of frames.
        """
        from scipy.sparse import csr_matrix

        check_posterior(num_gaussians, features, posterior)
        double = features.astype(np.float64)
        table = csr_matrix((posterior.weights.astype(np.float64), posterior.ids, posterior.row_starts),
                           shape=(len(features), num_gaussians)).T.tocsr()
        gamma = np.bincount(posterior.ids, posterior.weights, minlength=num_gaussians).astype(np.float64)
        second = np.asarray(table @ outer_products(double)) if need_second else None
        return cls(gamma, np.asarray(table @ double), second)

    def add(self, other: UtteranceStats) -> None:
        """Add the statistics of another utterance."""
        self.gamma = self.gamma + other.gamma
        self.first = self.first + other.first
        if self.second is not None and other.second is not None:
            self.second = self.second + other.second

    def scaled(self, factor: float) -> UtteranceStats:
        """Return the statistics times a factor."""
        second = None if self.second is None else self.second * factor
        return UtteranceStats(self.gamma * factor, self.first * factor, second)


def check_posterior(num_gaussians: int, features: np.ndarray, posterior: Posterior) -> None:
    """Raise ShapeError for posteriors of other Gaussians, or of another number of frames."""
    if len(posterior) != len(features):
        raise ShapeError(f"expected posteriors of {len(features)} frames, found {len(posterior)}")
    if len(posterior.ids) and not 0 <= posterior.ids.min() <= posterior.ids.max() < num_gaussians:
        raise ShapeError(f"expected posteriors of Gaussians 0 to {num_gaussians - 1}, found "
                         f"{posterior.ids.min()} to {posterior.ids.max()}")


class UtteranceTerms(NamedTuple):
    """Terms of the problem whose solution is the i-vector of an utterance, sums over Gaussians.

    Summed are Mᵀ Σ⁻¹ times sums of features, float64 (ivector dim,), and occupancies times Mᵀ Σ⁻¹ M, (ivector dim,
    ivector dim).
    """

    linear: np.ndarray
    quadratic: np.ndarray


class Distribution(NamedTuple):
    """The Gaussian distribution of an utterance's i-vector.

    Attributes
    ----------
    mean : float64 (ivector dim,), the i-vector, with the prior's offset in its first element
    covariance : float64 (ivector dim, ivector dim)
    """

    mean: np.ndarray
    covariance: np.ndarray


@dataclass
class IvectorExtractor:
    """An i-vector extractor: the mean of Gaussian i is ``projections[i]`` times the i-vector.

    Attributes
    ----------
    weight_projections : float64 (gaussians, ivector dim), for weights that depend on the i-vector; else (0, 0)
    weights : float64 (gaussians,), weights; (0,) if they depend on the i-vector
    projections : float64 (gaussians, dim, ivector dim). Kaldi: M
    inverses : float64 (gaussians, dim, dim), inverse covariances. Kaldi: Sigma_inv
    offset : prior mean of the first dimension
    """

    weight_projections: np.ndarray
    weights: np.ndarray
    projections: np.ndarray
    inverses: np.ndarray
    offset: float

    @classmethod
    def of_mixture(cls, gmm: FullGmm, ivector_dim: int, weights_depend: bool, random: CRandom) -> IvectorExtractor:
        """Make a new extractor with random projections. Kaldi: ivector-extractor-init."""
        count = len(gmm.weights)
        projections = np.stack([random.normal_matrix(gmm.dim, ivector_dim) for _ in range(count)]).astype(np.float64)
        projections[:, :, 0] = gmm.means() / _FIRST_OFFSET
        by_ivector = np.zeros((count, ivector_dim) if weights_depend else (0, 0))
        weights = np.zeros(0) if weights_depend else gmm.weights.astype(np.float64)
        return cls(by_ivector, weights, projections, gmm.inverses(), _FIRST_OFFSET)

    @property
    def num_gaussians(self) -> int:
        """Number of Gaussians."""
        return len(self.projections)

    @property
    def dim(self) -> int:
        """Dimension of the features."""
        return self.projections.shape[1]

    @property
    def ivector_dim(self) -> int:
        """Dimension of the i-vectors."""
        return self.projections.shape[2]

    @property
    def weights_depend(self) -> bool:
        """True if the Gaussians' weights depend on the i-vector."""
        return self.weight_projections.size > 0

    # -- derived ---------------------------------------------------------------------------------------------------

    @cached_property
    def precisions(self) -> np.ndarray:
        """Inverse covariances times projections, float64 (gaussians, dim, ivector dim). Kaldi: Sigma_inv_M."""
        return np.asarray(self.inverses @ self.projections)

    @cached_property
    def quadratics(self) -> np.ndarray:
        """Mᵀ Σ⁻¹ M of each Gaussian, packed: float64 (gaussians, ivector dim (ivector dim + 1) / 2). Kaldi: U."""
        return np.ascontiguousarray(packed(np.swapaxes(self.projections, 1, 2) @ self.precisions))

    @cached_property
    def doubled_inverses(self) -> np.ndarray:
        """Inverse covariances, packed, with off-diagonal elements doubled: float64 (gaussians, dim (dim + 1) / 2).

        The dot product of a row with a packed symmetric matrix S is tr(Σ⁻¹ S).
        """
        rows, cols = lower_triangle(self.dim)
        return np.ascontiguousarray(packed(self.inverses) * np.where(rows == cols, 1.0, 2.0))

    @cached_property
    def log_constants(self) -> np.ndarray:
        """Logarithms of the densities' normalizers, without weights: float64 (gaussians,)."""
        return np.asarray(0.5 * (np.linalg.slogdet(self.inverses)[1] - self.dim * math.log(2 * math.pi)))

    def prior_mean(self) -> np.ndarray:
        """Return float64 (ivector dim,): the mean of the prior."""
        mean = np.zeros(self.ivector_dim)
        mean[0] = self.offset
        return mean

    # -- i-vectors -------------------------------------------------------------------------------------------------

    def terms(self, stats: UtteranceStats) -> UtteranceTerms:
        """Return the terms of an utterance's statistics."""
        return UtteranceTerms(stats.first.reshape(-1) @ self.precisions.reshape(-1, self.ivector_dim),
                              unpacked(stats.gamma @ self.quadratics))

    def distribution(self, stats: UtteranceStats, terms: UtteranceTerms | None = None) -> Distribution:
        """Compute the distribution of an utterance's i-vector; ``terms`` are those of ``stats``, if computed already.

        Kaldi: GetIvectorDistribution.
        """
        terms = terms or self.terms(stats)
        linear = terms.linear + self.prior_mean()
        quadratic = terms.quadratic + np.eye(self.ivector_dim)
        if not self.weights_depend:
            covariance = symmetrized(np.linalg.inv(quadratic))
            return Distribution(covariance @ linear, covariance)
        covariance = _floored_inverse(quadratic)
        mean = covariance @ linear
        for _ in range(_WEIGHT_ITERATIONS):
            weighted = self.weight_terms(stats.gamma, mean)
            linear_now = linear + self.weight_projections.T @ weighted.linear
            quadratic_now = quadratic + (self.weight_projections.T * weighted.quadratic) @ self.weight_projections
            covariance = _floored_inverse(quadratic_now)
            before, mean = mean, covariance @ linear_now
            if np.linalg.norm(mean - before) < _CONVERGED:
                break
        return Distribution(mean, covariance)

    def weight_terms(self, gamma: np.ndarray, ivector: np.ndarray) -> WeightTerms:
        """Compute the quadratic approximation, near an i-vector, of the log-likelihood of the Gaussians' weights.

        ``gamma`` is float64 (gaussians,), occupancies; ``ivector`` float64 (ivector dim,).
        """
        logs = self.weight_projections @ ivector
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        expected = gamma.sum() * weights
        quadratic = np.maximum(gamma, expected)
        return WeightTerms(gamma - expected + quadratic * logs, quadratic, weights)

    # -- files -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader: TokenReader) -> IvectorExtractor:
        """Read an extractor; raise FormatError for anything else."""
        reader.expect("<IvectorExtractor>")
        by_ivector = reader.tagged("<w>", read_matrix, np.float64)
        weights = reader.tagged("<w_vec>", read_vector, np.float64)
        count = reader.tagged("<M>", TokenReader.integer)
        reader.check_count(count, 8, "Gaussians")
        if not count:
            raise reader.error("expected an extractor of one Gaussian or more, found none")
        projections = [read_matrix(reader, np.float64) for _ in range(count)]
        reader.expect("<SigmaInv>")
        inverses = [read_packed(reader, np.float64) for _ in range(count)]
        offset = reader.tagged("<IvectorOffset>", TokenReader.real)
        reader.expect("</IvectorExtractor>")
        dim, ivector_dim = projections[0].shape
        fits = (all(projection.shape == (dim, ivector_dim) for projection in projections)
                and all(len(projection) == dim * (dim + 1) // 2 for projection in inverses)
                and (len(weights) == count or by_ivector.shape == (count, ivector_dim)))
        if not fits or not dim or not ivector_dim:
            raise reader.error(f"expected weights, projections and covariances of {count} Gaussians and of the same "
                               "dimensions, found others")
        extractor = cls(by_ivector, weights, np.stack(projections), unpacked(np.stack(inverses)), offset)
        parts = (by_ivector, weights, extractor.projections, extractor.inverses)
        if not all(np.isfinite(part).all() for part in parts):
            raise reader.error("an extractor has NaN or infinity")
        return extractor

    def write(self, writer: TokenWriter) -> None:
        """Write the extractor, as text or binary."""
        writer.token("<IvectorExtractor>")
        writer.tagged("<w>", write_matrix, self.weight_projections)
        writer.tagged("<w_vec>", write_vector, self.weights)
        writer.tagged("<M>", TokenWriter.integer, self.num_gaussians)
        for projection in self.projections:
            write_matrix(writer, projection)
        writer.token("<SigmaInv>")
        for triangle in packed(self.inverses):
            write_packed(writer, triangle)
        writer.tagged("<IvectorOffset>", TokenWriter.float64, self.offset)
        writer.token("</IvectorExtractor>")


class WeightTerms(NamedTuple):
    """Factors of a quadratic approximation for weights that depend on the i-vector, float64 (gaussians,) each.

    These are the linear and quadratic factors of the weight projections, and the weights at the i-vector.
    """

    linear: np.ndarray
    quadratic: np.ndarray
    weights: np.ndarray


def _floored_inverse(matrix: np.ndarray) -> np.ndarray:
    """Invert a symmetric matrix whose eigenvalues should be 1 or more; smaller ones are rounding errors, set to 1."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.maximum(values, 1.0)) @ vectors.T)


class Auxf(NamedTuple):
    """The auxiliary function of an utterance: log-likelihoods of its features and of its i-vector. Kaldi: GetAuxf."""

    acoustic: float
    prior: float


def ivector_auxf(extractor: IvectorExtractor, stats: UtteranceStats, mean: np.ndarray,
                 covariance: np.ndarray | None = None, terms: UtteranceTerms | None = None) -> Auxf:
    """Compute the auxiliary function of an i-vector, without the part that does not depend on the i-vector.

    ``mean`` is float64 (ivector dim,), ``covariance`` (ivector dim, ivector dim) for a distribution of the i-vector;
    ``terms`` are those of ``stats``, if computed already.
    """
    linear, quadratic = terms or extractor.terms(stats)
    acoustic = float(mean @ linear - 0.5 * mean @ quadratic @ mean)
    away = mean - extractor.prior_mean()
    prior = -0.5 * float(away @ away)
    if covariance is not None:
        acoustic -= 0.5 * float((quadratic * covariance).sum())
        log_det = np.linalg.slogdet(covariance)[1]
        prior -= 0.5 * float(np.trace(covariance) - len(mean) - log_det)
    if extractor.weights_depend:
        acoustic += float(stats.gamma @ np.log(extractor.weight_terms(stats.gamma, mean).weights))
    return Auxf(acoustic, prior)


def check_dimensions(extractor: IvectorExtractor, num_gaussians: int, dim: int) -> None:
    """Raise ShapeError unless a mixture of Gaussians has the number and the dimension of the extractor's Gaussians."""
    if (num_gaussians, dim) != (extractor.num_gaussians, extractor.dim):
        raise ShapeError(f"expected {extractor.num_gaussians} Gaussians of dimension {extractor.dim}, as the i-vector "
                         f"extractor has, found {num_gaussians} of dimension {dim}")


def check_online(extractor: IvectorExtractor) -> None:
    """Raise Nnet3Error for an extractor whose weights depend on the i-vector: it cannot estimate frame by frame."""
    if extractor.weights_depend:
        raise Nnet3Error("an extractor whose weights depend on the i-vector cannot be used online",
                         "train one with ivector-extractor-init --use-weights=false")
