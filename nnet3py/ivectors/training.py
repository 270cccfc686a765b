"""Training of i-vector extractors: statistics of utterances, and estimates from them. Kaldi: ``IvectorExtractorStats``.
"""
from __future__ import annotations

import logging
from dataclasses import dataclass, field

import numpy as np

from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.matrices import read_matrix, read_packed, read_vector, write_matrix, write_packed, write_vector
from nnet3py.gaussians.symmetric import packed, symmetric_eigen, symmetrized, unpacked
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.ivectors.extractor import Distribution, IvectorExtractor, UtteranceStats, UtteranceTerms, ivector_auxf
from nnet3py.ivectors.options import EstimationOptions, StatsOptions
from nnet3py.random_sequence import CRandom

logger = logging.getLogger(__name__)


@dataclass
class ExtractorStats:
    """Statistics of utterances and their i-vectors. Kaldi: IvectorExtractorStats.

    Attributes
    ----------
    total_auxf : sum of the auxiliary functions
    gamma : float64 (gaussians,), occupancies
    cross : float64 (gaussians, dim, ivector dim), sums of features times i-vectors. Kaldi: Y
    scatter : float64 (gaussians, ivector dim (ivector dim + 1) / 2), sums of products of i-vectors. Kaldi: R
    weight_quadratic, weight_linear : float64 (gaussians, ivector dim (ivector dim + 1) / 2) and (gaussians, ivector
        dim), for weights that depend on the i-vector; else of no rows. Kaldi: Q, G
    second : float64 (gaussians, dim (dim + 1) / 2), sums of products of features, or of no rows. Kaldi: S
    num_ivectors : number of i-vectors, for the prior
    ivector_sum : float64 (ivector dim,), sum of the i-vectors
    ivector_scatter : float64 (ivector dim (ivector dim + 1) / 2,), sum of their products
    """

    total_auxf: float
    gamma: np.ndarray
    cross: np.ndarray
    scatter: np.ndarray
    weight_quadratic: np.ndarray
    weight_linear: np.ndarray
    second: np.ndarray
    num_ivectors: float
    ivector_sum: np.ndarray
    ivector_scatter: np.ndarray
    _waiting: list[tuple[UtteranceStats, np.ndarray, np.ndarray]] = field(default_factory=list, repr=False)

    @classmethod
    def zeros(cls, extractor: IvectorExtractor, options: StatsOptions) -> ExtractorStats:
        """Make statistics of no utterances."""
        count, dim, size = extractor.num_gaussians, extractor.dim, extractor.ivector_dim
        triangle = size * (size + 1) // 2
        rows = count if extractor.weights_depend else 0
        return cls(0.0, np.zeros(count), np.zeros((count, dim, size)), np.zeros((count, triangle)),
                   np.zeros((rows, triangle if rows else 0)), np.zeros((rows, size if rows else 0)),
                   np.zeros((count if options.update_variances else 0, dim * (dim + 1) // 2)), 0.0, np.zeros(size),
                   np.zeros(triangle))

    def add(self, extractor: IvectorExtractor, stats: UtteranceStats, distribution: Distribution, auxf: float,
            options: StatsOptions, random: CRandom) -> None:
        """Add an utterance with the distribution of its i-vector."""
        self.total_auxf += auxf
        if len(self.second) and stats.second is not None:
            self.second += stats.second
        self.gamma += stats.gamma
        scatter = packed(distribution.covariance + np.outer(distribution.mean, distribution.mean))
        self.num_ivectors += 1
        self.ivector_sum += distribution.mean
        self.ivector_scatter += scatter
        if extractor.weights_depend:
            self._add_samples(extractor, stats, distribution, options.num_samples_for_weights, random)
        self._waiting.append((UtteranceStats(stats.gamma, stats.first), distribution.mean, scatter))
        if len(self._waiting) >= options.cache_size:
            self.flush()

    def flush(self) -> None:
        """Add the statistics of buffered utterances, which :meth:`add` collects since larger products are faster."""
        if not self._waiting:
            return
        gammas = np.stack([stats.gamma for stats, _, _ in self._waiting])
        firsts = np.stack([stats.first.reshape(-1) for stats, _, _ in self._waiting])
        means = np.stack([mean for _, mean, _ in self._waiting])
        scatters = np.stack([scatter for _, _, scatter in self._waiting])
        self.cross += (firsts.T @ means).reshape(self.cross.shape)
        self.scatter += gammas.T @ scatters
        self._waiting.clear()

    def _add_samples(self, extractor: IvectorExtractor, stats: UtteranceStats, distribution: Distribution, count: int,
                     random: CRandom) -> None:
        """Add statistics for weights that depend on the i-vector.

        They are computed for ``count`` i-vectors drawn from the distribution, and shifted so that their mean is its
        mean.
        """
        factor = np.linalg.cholesky(distribution.covariance)
        noise = random.normal_matrix(count, len(distribution.mean)).astype(np.float64)
        away = (noise - noise.mean(axis=0)) * np.sqrt(count / (count - 1.0)) @ factor.T
        for ivector in distribution.mean + away:
            terms = extractor.weight_terms(stats.gamma, ivector)
            self.weight_linear += np.outer(terms.linear / count, ivector)
            self.weight_quadratic += np.outer(terms.quadratic / count, packed(np.outer(ivector, ivector)))

    def add_stats(self, other: ExtractorStats) -> None:
        """Add statistics of other utterances; raise ShapeError for statistics of another extractor or kind."""
        self.flush()
        other.flush()
        for name in ("gamma", "cross", "scatter", "weight_quadratic", "weight_linear", "second", "ivector_sum",
                     "ivector_scatter"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine.shape != theirs.shape:
                raise ShapeError(f"expected i-vector statistics '{name}' of shape {mine.shape}, found {theirs.shape}",
                                 "were they accumulated with the same extractor and options?")
            mine += theirs
        self.total_auxf += other.total_auxf
        self.num_ivectors += other.num_ivectors

    # -- files -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader: TokenReader) -> ExtractorStats:
        """Read statistics; raise FormatError for anything else."""
        reader.expect("<IvectorExtractorStats>")
        auxf = reader.tagged("<TotAuxf>", TokenReader.real)
        gamma = reader.tagged("<gamma>", read_vector, np.float64)
        count = reader.tagged("<Y>", TokenReader.integer)
        reader.check_count(count, 8, "Gaussians")
        cross = [read_matrix(reader, np.float64) for _ in range(count)]
        scatter, quadratic, linear = (reader.tagged(tag, read_matrix, np.float64) for tag in ("<R>", "<Q>", "<G>"))
        num_second = reader.tagged("<S>", TokenReader.integer)
        reader.check_count(num_second, 8, "covariances")
        second = [read_packed(reader, np.float64) for _ in range(num_second)]
        num_ivectors = reader.tagged("<NumIvectors>", TokenReader.real)
        ivector_sum = reader.tagged("<IvectorSum>", read_vector, np.float64)
        ivector_scatter = reader.tagged("<IvectorScatter>", read_packed, np.float64)
        reader.expect("</IvectorExtractorStats>")
        size, dim = len(ivector_sum), len(cross[0]) if cross else 0
        triangle = dim * (dim + 1) // 2
        if (not count or len(gamma) != count or any(array.shape != (dim, size) for array in cross)
                or scatter.shape != (count, size * (size + 1) // 2) or num_second not in (0, count)
                or any(len(array) != triangle for array in second) or len(ivector_scatter) != size * (size + 1) // 2):
            raise reader.error(f"expected i-vector statistics of {count} Gaussians and i-vectors of dimension {size}, "
                               "found matrices of other sizes")
        return cls(auxf, gamma, np.stack(cross), scatter, quadratic, linear,
                   np.array(second).reshape(num_second, triangle), num_ivectors, ivector_sum, ivector_scatter)

    def write(self, writer: TokenWriter) -> None:
        """Write the statistics, as text or binary."""
        self.flush()
        writer.token("<IvectorExtractorStats>")
        writer.tagged("<TotAuxf>", TokenWriter.float64, self.total_auxf)
        writer.tagged("<gamma>", write_vector, self.gamma)
        writer.tagged("<Y>", TokenWriter.integer, len(self.cross))
        for matrix in self.cross:
            write_matrix(writer, matrix)
        writer.tagged("<R>", write_matrix, self.scatter.astype(np.float32))
        writer.tagged("<Q>", write_matrix, self.weight_quadratic.astype(np.float32))
        writer.tagged("<G>", write_matrix, self.weight_linear)
        writer.tagged("<S>", TokenWriter.integer, len(self.second))
        for triangle in self.second:
            write_packed(writer, triangle)
        writer.tagged("<NumIvectors>", TokenWriter.float64, self.num_ivectors)
        writer.tagged("<IvectorSum>", write_vector, self.ivector_sum)
        writer.tagged("<IvectorScatter>", write_packed, self.ivector_scatter)
        writer.token("</IvectorExtractorStats>")


def utterance_auxf(extractor: IvectorExtractor, stats: UtteranceStats, distribution: Distribution,
                   terms: UtteranceTerms | None = None) -> float:
    """Compute the whole auxiliary function of an utterance from its statistics and the distribution of its i-vector.

    ``terms`` are those of ``stats``, if computed already. Kaldi: GetAuxf.
    """
    used = stats.gamma > 0
    gamma = stats.gamma[used]
    total = float(gamma @ extractor.log_constants[used])
    if stats.second is not None:          # products about the origin include those of the means
        total -= 0.5 * float(np.vdot(stats.second, extractor.doubled_inverses))
    else:
        means = stats.first[used] / gamma[:, None]
        total -= 0.5 * float(np.einsum("i,id,ide,ie->", gamma, means, extractor.inverses[used], means, optimize=True))
    if not extractor.weights_depend:
        total += float(gamma @ np.log(extractor.weights[used]))
    depends = ivector_auxf(extractor, stats, distribution.mean, distribution.covariance, terms)
    return total + depends.acoustic + depends.prior


def estimate(extractor: IvectorExtractor, stats: ExtractorStats, options: EstimationOptions) -> IvectorExtractor:
    """Estimate an extractor from statistics. Kaldi: ivector-extractor-est.

    Parameters
    ----------
    extractor : extractor that the statistics were accumulated with; not changed
    stats : statistics of many utterances
    options : floors and limits

    Returns
    -------
    A new extractor

    Raises
    ------
    Nnet3Error : statistics of no utterances
    ShapeError : statistics of another extractor
    """
    stats.flush()
    if stats.cross.shape != extractor.projections.shape:
        raise ShapeError("expected statistics of {} Gaussians, features of dimension {} and i-vectors of dimension {}, "
                         "as the extractor has, found {}, {} and {}".format(*extractor.projections.shape,
                                                                            *stats.cross.shape))
    frames = float(stats.gamma.sum())
    if not frames > 0 or not stats.num_ivectors > 0:
        raise Nnet3Error("expected statistics of one utterance or more, found none")
    logger.info("Overall auxf/frame on training data was %.6g per frame over %.6g frames.", stats.total_auxf / frames,
                frames)
    projections, gain = _new_projections(extractor, stats, options)
    logger.info("Overall objective function improvement for M (mean projections) was %.6g per frame over %.6g frames.",
                gain / frames, frames)
    by_ivector, weight_gain = extractor.weight_projections, 0.0
    if extractor.weights_depend:
        by_ivector, weight_gain = _new_weights(extractor, stats, options)
        logger.info("Overall auxf impr/frame from weight update is %.6g over %.6g frames.", weight_gain / frames,
                    frames)
    inverses, variance_gain = extractor.inverses, 0.0
    if len(stats.second):
        inverses, variance_gain = _new_inverses(extractor, stats, projections, options)
        logger.info("Overall objf impr/frame for variances was %.6g over %.6g frames.", variance_gain / frames, frames)
    updated = IvectorExtractor(by_ivector, extractor.weights, projections, inverses, extractor.offset)
    result, prior_gain = _to_standard_prior(updated, stats, options)
    logger.info("Overall auxf improvement from prior is %.6g per frame, or %.6g per iVector.", prior_gain / frames,
                prior_gain / stats.num_ivectors)
    logger.info("Overall objective-function improvement per frame was %.6g",
                (gain + weight_gain + variance_gain + prior_gain) / frames)
    logger.info("The proportion of within-Gaussian variance explained by the iVectors is %.6g.",
                _explained_variance(result, stats.gamma))
    return result


def _maximize_quadratic(quadratic: np.ndarray, linear: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the M that maximizes tr(Mᵀ linear) - ½ tr(M quadratic Mᵀ). Kaldi: SolveQuadraticMatrixProblem.

    Eigenvalues of ``quadratic`` are floored, so that M stays near ``start`` in directions in which they are small.
    ``linear`` and ``start`` are (rows, dim), ``quadratic`` (dim, dim).
    """
    scale = np.sqrt(np.maximum(np.diagonal(quadratic), 1.0e-300))
    scaled_start, scaled_quadratic = start * scale, quadratic / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(scaled_quadratic)
    floor = max(1.0e-40, values.max() / 1.0e4)
    inverse = (vectors / np.maximum(values, floor)) @ vectors.T
    return np.asarray((scaled_start + (linear / scale - scaled_start @ scaled_quadratic) @ inverse) / scale)


def _quadratic_objective(quadratic: np.ndarray, linear: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return linear Mᵀ - ½ M quadratic Mᵀ, (rows, rows), for M = ``at``, (rows, dim).

    The trace of its product with a matrix of weights is the weighted objective of :func:`_maximize_quadratic`.
    """
    return np.asarray(linear @ at.T - 0.5 * (at @ quadratic @ at.T))


def _gaussians_with_data(stats: ExtractorStats, options: EstimationOptions) -> np.ndarray:
    """Return the indexes of the Gaussians with enough frames."""
    few = np.flatnonzero(stats.gamma < options.gaussian_min_count)
    for number in few.tolist():
        logger.warning("Skipping Gaussian index %d because count %.6g is below min-count.", number, stats.gamma[number])
    return np.flatnonzero(stats.gamma >= options.gaussian_min_count)


def _new_projections(extractor: IvectorExtractor, stats: ExtractorStats,
                     options: EstimationOptions) -> tuple[np.ndarray, float]:
    projections, gain = extractor.projections.copy(), 0.0
    for number in _gaussians_with_data(stats, options).tolist():
        quadratic, linear = unpacked(stats.scatter[number]), stats.cross[number]
        moved = _maximize_quadratic(quadratic, linear, projections[number])
        before, after = (float((extractor.inverses[number] * _quadratic_objective(quadratic, linear, at)).sum())
                         for at in (projections[number], moved))
        if after >= before:
            projections[number] = moved
            gain += after - before
    return projections, gain


def _new_weights(extractor: IvectorExtractor, stats: ExtractorStats,
                 options: EstimationOptions) -> tuple[np.ndarray, float]:
    by_ivector, gain = extractor.weight_projections.copy(), 0.0
    for number in np.flatnonzero(stats.gamma >= options.gaussian_min_count).tolist():
        quadratic, linear = unpacked(stats.weight_quadratic[number]), stats.weight_linear[number][None]
        start = by_ivector[number][None]
        moved = _maximize_quadratic(quadratic, linear, start)
        change = float(_quadratic_objective(quadratic, linear, moved)[0, 0]
                       - _quadratic_objective(quadratic, linear, start)[0, 0])
        if change >= 0:
            by_ivector[number] = moved[0]
            gain += change
    return by_ivector, gain


def _new_inverses(extractor: IvectorExtractor, stats: ExtractorStats, projections: np.ndarray,
                  options: EstimationOptions) -> tuple[np.ndarray, float]:
    counted = np.flatnonzero(stats.gamma >= options.gaussian_min_count)
    inverses, raw = extractor.inverses.copy(), np.zeros((len(counted), extractor.dim, extractor.dim))
    for place, number in enumerate(counted.tolist()):
        cross = stats.cross[number] @ projections[number].T
        raw[place] = (unpacked(stats.second[number]) - cross - cross.T + projections[number] @ unpacked(
            stats.scatter[number]) @ projections[number].T) / stats.gamma[number]
    if not len(counted):
        return inverses, 0.0
    total = np.einsum("i,ide->de", stats.gamma[counted], raw) / stats.gamma[counted].sum()
    values, vectors = np.linalg.eigh(options.variance_floor_factor * total)
    floor = (vectors * np.maximum(values, 1.0e-4 * values.max())) @ vectors.T
    factor = np.linalg.cholesky(floor)
    inverse_factor = np.linalg.inv(factor)
    num_floored, gain = 0, 0.0
    for place, number in enumerate(counted.tolist()):
        values, vectors = np.linalg.eigh(inverse_factor @ raw[place] @ inverse_factor.T)
        floored = np.count_nonzero(values < 1.0)
        num_floored += floored
        root = factor @ (vectors * np.sqrt(np.maximum(values, 1.0)))
        inverse = symmetrized(np.linalg.inv(root @ root.T if floored else raw[place]))
        before, after = (0.5 * stats.gamma[number] * (np.linalg.slogdet(matrix)[1] - float((matrix * raw[place]).sum()))
                         for matrix in (inverses[number], inverse))
        gain += after - before
        inverses[number] = inverse
    logger.info("Floored %.6g%% of all Gaussian eigenvalues", 100.0 * num_floored / (len(counted) * extractor.dim))
    return inverses, gain


def _to_standard_prior(extractor: IvectorExtractor, stats: ExtractorStats,
                    options: EstimationOptions) -> tuple[IvectorExtractor, float]:
    """Transform the space of i-vectors so that their distribution is the prior, of unit covariance.

    Returns the extractor in the new coordinates, and the gain in log-likelihood by the new prior.
    """
    mean = stats.ivector_sum / stats.num_ivectors
    covariance = unpacked(stats.ivector_scatter) / stats.num_ivectors - np.outer(mean, mean)
    values, rows = symmetric_eigen(covariance)
    logger.info("Eigenvalues of iVector covariance range from %.6g to %.6g", values.min(), values.max())
    values = np.maximum(values, 1.0e-7)
    transform = _mean_to_first_axis(rows / np.sqrt(values)[:, None], mean)
    if options.diagonalize:
        transform[1:] = _diagonalizing_rotation(extractor, transform) @ transform[1:]
    inverse = np.linalg.inv(transform)
    offset = float((transform @ mean)[0])
    logger.info("Setting iVector prior offset to %.6g", offset)
    by_ivector = extractor.weight_projections @ inverse if extractor.weights_depend else extractor.weight_projections
    with_prior = IvectorExtractor(by_ivector, extractor.weights, extractor.projections @ inverse, extractor.inverses,
                                  offset)
    return with_prior, _prior_gain(extractor, mean, covariance, values, stats.num_ivectors)


def _mean_to_first_axis(transform: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Reflect a transform so that it maps the mean to the first axis."""
    moved = transform @ mean
    direction = moved / np.linalg.norm(moved)
    normal = direction.copy()
    normal[0] -= 1.0
    length = np.linalg.norm(normal)
    if length < 1.0e-12:
        return transform
    normal /= length
    return np.asarray(transform - 2.0 * np.outer(normal, normal @ transform))


def _diagonalizing_rotation(extractor: IvectorExtractor, transform: np.ndarray) -> np.ndarray:
    """Return the rotation of all dimensions but the first that makes the mean precision diagonal."""
    weights = (np.full(extractor.num_gaussians, 1.0 / extractor.num_gaussians) if extractor.weights_depend
               else extractor.weights)
    mean_quadratic = unpacked(weights @ extractor.quadratics)[1:, 1:]
    inverse = np.linalg.inv(transform[1:, 1:])
    values, vectors = np.linalg.eigh(inverse.T @ mean_quadratic @ inverse)
    order = np.argsort(-np.abs(values), kind="stable")
    logger.info("Eigenvalues of Vavg:  [ %s]", "".join(f"{value:.6g} " for value in values[order]))
    return np.asarray(vectors.T[order])


def _prior_gain(extractor: IvectorExtractor, mean: np.ndarray, covariance: np.ndarray, floored: np.ndarray,
                num_ivectors: float) -> float:
    """Return the gain of the estimated prior over the old one in log-likelihood."""
    away = mean - extractor.prior_mean()
    before = -0.5 * (np.trace(covariance) + float(away @ away))
    after = -0.5 * (np.log(floored).sum() + len(mean))
    return float(num_ivectors * (after - before))


def _explained_variance(extractor: IvectorExtractor, gamma: np.ndarray) -> float:
    shares = gamma / gamma.sum()
    between = float(np.einsum("i,ids,ids->", shares, extractor.projections, extractor.projections))
    within = float(shares @ np.trace(np.linalg.inv(extractor.inverses), axis1=1, axis2=2))
    return between / (between + within)
