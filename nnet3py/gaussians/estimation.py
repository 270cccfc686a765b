"""Statistics of Gaussian mixtures, and estimation of mixtures by expectation and maximization.

Kaldi: ``AccumDiagGmm``, ``AccumFullGmm``, ``MleDiagGmmUpdate``, ``MleFullGmmUpdate``, gmm-global-init-from-feats.
"""
from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple, TypeVar

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.formats.matrices import read_matrix, read_packed, read_vector, write_matrix, write_packed, write_vector
from nnet3py.gaussians.mixtures import DiagGmm, FullGmm, log_sum
from nnet3py.gaussians.options import DiagOptions, FullOptions
from nnet3py.gaussians.symmetric import outer_products, unpacked
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.random_sequence import CRandom, float32

logger = logging.getLogger(__name__)

MEANS, VARIANCES, WEIGHTS, TRANSITIONS = 1, 2, 4, 8
_LETTERS = {"m": MEANS, "v": VARIANCES, "w": WEIGHTS, "t": TRANSITIONS, "a": MEANS | VARIANCES | WEIGHTS | TRANSITIONS}
_LEAST_BYTES = 4                   # of a Gaussian's statistics in a file
_SPLIT_PERTURBATION = 0.1          # standard deviations
_NO_DATA = 1.0e-10                 # frames below which a Gaussian has no data, and its weight
_FRAMES_PER_GAUSSIAN = 10          # least number, to begin with
_BLOCK_FRAMES = 2000               # frames whose posteriors are computed at a time: they stay in the processor's caches


def parse_flags(text: str) -> int:
    """Return the flags that letters such as ``mvw`` name; raise FormatError for others. Kaldi: StringToGmmFlags."""
    flags = 0
    for letter in text:
        if letter not in _LETTERS:
            raise FormatError(f"expected some of the letters m, v and w, found '{text}'")
        flags |= _LETTERS[letter]
    return flags


def with_required(flags: int) -> int:
    """Add the flags that others need: variances need means, means need weights. Kaldi: AugmentGmmFlags."""
    if flags & VARIANCES:
        flags |= MEANS
    if flags & MEANS:
        flags |= WEIGHTS
    return flags


@dataclass
class GmmStats:
    """Statistics of a mixture: sums of frames by Gaussian."""

    flags: int                  # kinds of statistics that were accumulated: MEANS, VARIANCES, WEIGHTS
    occupancy: np.ndarray       # float64 (gaussians,), numbers of frames
    means: np.ndarray           # float64 (gaussians, dim), sums of features
    squares: np.ndarray         # float64, sums of squares (gaussians, dim), or of products (…, dim (dim + 1) / 2)
    is_full: bool               # whether these are sums of products

    @classmethod
    def zeros(cls, num_gaussians: int, dim: int, flags: int, is_full: bool) -> GmmStats:
        """Make statistics of no frames."""
        size = dim * (dim + 1) // 2 if is_full else dim
        return cls(with_required(flags), np.zeros(num_gaussians), np.zeros((num_gaussians, dim)),
                   np.zeros((num_gaussians, size)), is_full)

    @property
    def dim(self) -> int:
        """Dimension of the features."""
        return self.means.shape[1]

    def add(self, features: np.ndarray, posteriors: np.ndarray) -> None:
        """Add features, float32 (frames, dim), with posteriors of the Gaussians, float32 (frames, gaussians).

        Posteriors are multiplied by the weights of the frames before.
        """
        moments = [np.ones((len(features), 1))]
        double = features.astype(np.float64)
        if self.flags & MEANS:
            moments.append(double)
        if self.flags & VARIANCES:
            moments.append(outer_products(double) if self.is_full else double * double)
        sums = posteriors.astype(np.float64).T @ np.concatenate(moments, axis=1)  # one product is faster than three
        self.occupancy += sums[:, 0]
        if self.flags & MEANS:
            self.means += sums[:, 1:1 + self.dim]
        if self.flags & VARIANCES:
            self.squares += sums[:, 1 + self.dim:]

    def add_stats(self, other: GmmStats) -> None:
        """Add statistics of other features; raise ShapeError for statistics of another kind."""
        if self.means.shape != other.means.shape or self.flags != other.flags or self.is_full != other.is_full:
            raise ShapeError(f"expected statistics of {self.means.shape[0]} Gaussians of dimension {self.dim} with "
                             f"flags {self.flags}, found {other.means.shape[0]} of dimension {other.dim} with flags "
                             f"{other.flags}")
        self.occupancy += other.occupancy
        self.means += other.means
        self.squares += other.squares

    @classmethod
    def read(cls, reader: TokenReader) -> GmmStats:
        """Read statistics; raise FormatError for anything else."""
        reader.expect("<GMMACCS>")
        dim = reader.tagged("<VECSIZE>", TokenReader.integer)
        count = reader.tagged("<NUMCOMPONENTS>", TokenReader.integer)
        reader.check_count(count, _LEAST_BYTES, "Gaussians")
        reader.check_count(dim, 0, "dimensions")
        flags = reader.tagged("<FLAGS>", TokenReader.integer, "uint16")
        statistics: dict[str, np.ndarray] = {}
        is_full = False
        while (token := reader.token()) != "</GMMACCS>":
            if token == "<OCCUPANCY>":
                statistics[token] = read_vector(reader, np.float64)
            elif token == "<FULLVARACCS>":
                is_full = True
                triangles = [read_packed(reader, np.float64) for _ in range(count)]
                if any(len(triangle) != dim * (dim + 1) // 2 for triangle in triangles):
                    raise reader.error(f"expected products of features of dimension {dim}, found another dimension")
                statistics["squares"] = np.array(triangles)
            elif token in ("<MEANACCS>", "<DIAGVARACCS>"):
                statistics["squares" if token == "<DIAGVARACCS>" else token] = read_matrix(reader, np.float64)
            else:
                raise reader.unexpected(token, "a part of the statistics of Gaussians")
        return _assemble(reader, statistics, count, dim, flags, is_full)

    def write(self, writer: TokenWriter) -> None:
        """Write the statistics, as text or binary. Sums of products are written about the mean, as by Kaldi."""
        writer.token("<GMMACCS>")
        writer.tagged("<VECSIZE>", TokenWriter.integer, self.dim)
        writer.tagged("<NUMCOMPONENTS>", TokenWriter.integer, len(self.occupancy))
        writer.tagged("<FLAGS>", TokenWriter.integer, self.flags, "uint16")
        writer.tagged("<OCCUPANCY>", write_vector, self.occupancy.astype(np.float32))
        writer.tagged("<MEANACCS>", write_matrix, self._stored(self.means, MEANS))
        if not self.is_full:
            writer.tagged("<DIAGVARACCS>", write_matrix, self._stored(self.squares, VARIANCES))
        elif self.flags & VARIANCES:
            writer.token("<FULLVARACCS>")
            for triangle in (self.squares - self._about_means(self.occupancy, self.means)).astype(np.float32):
                write_packed(writer, triangle)
        writer.token("</GMMACCS>")

    def _stored(self, values: np.ndarray, flag: int) -> np.ndarray:
        return values.astype(np.float32) if self.flags & flag else np.zeros((0, 0), dtype=np.float32)

    @staticmethod
    def _about_means(occupancy: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return, for each Gaussian, occupancy times the product of the mean with itself, packed: (gaussians, packed).

        ``means`` are sums of features. Kaldi's files have sums of products from which this is subtracted.
        """
        safe = np.where(occupancy != 0, occupancy, 1.0)[:, None]
        return np.where(occupancy[:, None] != 0, outer_products(means) / safe, 0.0)


def _assemble(reader: TokenReader, statistics: dict[str, np.ndarray], count: int, dim: int, flags: int,
               is_full: bool) -> GmmStats:
    stats = GmmStats.zeros(count, dim, flags, is_full)
    stats.flags = flags
    places = (("<OCCUPANCY>", stats.occupancy), ("<MEANACCS>", stats.means), ("squares", stats.squares))
    for name, place in places:
        values = statistics.get(name)
        if values is None or not values.size:
            continue
        if values.shape != place.shape or not np.isfinite(values).all():
            raise reader.error(f"expected finite statistics of {count} Gaussians of dimension {dim}, found "
                               f"{' x '.join(map(str, values.shape))} numbers")
        place[...] = values
    if is_full:
        stats.squares += GmmStats._about_means(stats.occupancy, stats.means)
    return stats


# -- estimation ------------------------------------------------------------------------------------------------------


AnyGmm = TypeVar("AnyGmm", DiagGmm, FullGmm)


class Estimated(NamedTuple):
    """A mixture, the increase of its log-likelihood, and the number of frames in the statistics."""

    gmm: DiagGmm | FullGmm
    improvement: float
    frames: float


def _learned(stats: GmmStats, min_weight: float, min_occupancy: float) -> np.ndarray:
    """Return whether each Gaussian has enough frames to be estimated: bool (gaussians,)."""
    total = stats.occupancy.sum()
    return (stats.occupancy > min_occupancy) & (stats.occupancy > min_weight * total)


def _new_weights(stats: GmmStats, learned: np.ndarray, min_weight: float, old: np.ndarray, flags: int) -> np.ndarray:
    shares = stats.occupancy / max(stats.occupancy.sum(), 1e-300)
    return np.where(learned, shares, np.maximum(shares, min_weight)) if flags & WEIGHTS else old.astype(np.float64)


def _without_low_count(gmm: AnyGmm, learned: np.ndarray) -> AnyGmm:
    """Remove the Gaussians that are not ``learned``, bool (gaussians,), and renormalize weights; keep at least one."""
    if learned.all():
        return gmm
    if learned.any():
        keep = learned
        logger.warning("Removing %d Gaussians with too little data", np.count_nonzero(~learned))
    else:
        keep = np.arange(len(learned)) == len(learned) - 1
    weights, *parameters = (getattr(gmm, field.name)[keep] for field in fields(gmm))
    return type(gmm)((weights / weights.sum()).astype(np.float32), *parameters)


def diag_objective(stats: GmmStats, gmm: DiagGmm) -> float:
    """Return the log-likelihood of the frames in the statistics. Kaldi: MlObjective."""
    value = float(stats.occupancy @ gmm.log_constants().astype(np.float64))
    if stats.flags & MEANS:
        value += float((stats.means * gmm.means_inv_vars).sum())
    if stats.flags & VARIANCES:
        value -= 0.5 * float((stats.squares * gmm.inv_vars).sum())
    return value


def estimate_diag(stats: GmmStats, gmm: DiagGmm, options: DiagOptions, flags: int) -> Estimated:
    """Estimate a mixture from statistics. Kaldi: MleDiagGmmUpdate.

    ``flags`` name the parameters to estimate; others keep the values of the old mixture ``gmm``.
    """
    if stats.means.shape != gmm.means_inv_vars.shape:
        raise Nnet3Error(f"statistics of {len(stats.occupancy)} Gaussians of dimension {stats.dim} do not fit a "
                         f"mixture of {len(gmm.weights)} of dimension {gmm.dim}")
    learned = _learned(stats, options.min_weight, options.min_occupancy)
    old_vars = 1.0 / gmm.inv_vars.astype(np.float64)
    old_means = gmm.means_inv_vars * old_vars
    safe = np.where(learned, stats.occupancy, 1.0)[:, None]
    means = np.where(learned[:, None] & bool(flags & MEANS), stats.means / safe, old_means)
    variances = old_vars
    if flags & VARIANCES:
        own_means = stats.means / safe
        own = stats.squares / safe - own_means * own_means
        if not flags & MEANS:
            own = own + (old_means - own_means) ** 2
        variances = np.where(learned[:, None], np.maximum(own, options.min_variance), old_vars)
    weights = _new_weights(stats, learned, options.min_weight, gmm.weights, flags)
    inv_vars = (1.0 / variances.astype(np.float32)).astype(np.float32)
    made = DiagGmm(weights.astype(np.float32), means.astype(np.float32) * inv_vars, inv_vars)
    improvement = diag_objective(stats, made) - diag_objective(stats, gmm)
    if options.remove_low_count:
        made = _without_low_count(made, learned)
    return Estimated(made, improvement, float(stats.occupancy.sum()))


def full_objective(stats: GmmStats, gmm: FullGmm) -> float:
    """Return the log-likelihood of the frames in the statistics. Kaldi: MlObjective."""
    value = float(stats.occupancy @ gmm.log_constants().astype(np.float64))
    value += float((stats.means * gmm.means_inv_covars).sum())
    return value - 0.5 * float((unpacked(stats.squares) * gmm.inverses()).sum())


def estimate_full(stats: GmmStats, gmm: FullGmm, options: FullOptions, flags: int) -> Estimated:
    """Estimate a mixture from statistics. Arguments as of :func:`estimate_diag`. Kaldi: MleFullGmmUpdate."""
    if stats.means.shape != gmm.means_inv_covars.shape or not stats.is_full:
        raise Nnet3Error(f"statistics of {len(stats.occupancy)} Gaussians of dimension {stats.dim} do not fit a "
                         f"mixture of {len(gmm.weights)} of dimension {gmm.dim} with full covariances")
    learned = _learned(stats, options.min_weight, options.min_occupancy)
    old_covariances = gmm.covariances()
    old_means = gmm.means(old_covariances)
    own_means, own = _full_moments(stats, learned)
    means = np.where(learned[:, None] & bool(flags & MEANS), own_means, old_means)
    covariances = old_covariances
    if flags & VARIANCES:
        if not flags & MEANS:
            away = old_means - own_means
            own = own + np.einsum("id,ie->ide", away, away)
        covariances = np.where(learned[:, None, None], _with_floored_eigenvalues(own, options), old_covariances)
    weights = _new_weights(stats, learned, options.min_weight, gmm.weights, flags)
    made = FullGmm.of_moments(weights, means, covariances)
    improvement = full_objective(stats, made) - full_objective(stats, gmm)
    if options.remove_low_count:
        made = _without_low_count(made, learned)
    return Estimated(made, improvement, float(stats.occupancy.sum()))


def begin_full(stats: GmmStats, options: FullOptions, random: CRandom) -> FullGmm:
    """Make a mixture from statistics alone. Kaldi: fgmm-global-init-from-accs.

    A Gaussian without data gets nearly no weight, a random mean and covariance 1.
    """
    if not stats.is_full or not stats.flags & VARIANCES:
        raise Nnet3Error("expected statistics of full covariances, found none",
                         "accumulate them with fgmm-global-acc-stats, with v among its --update-flags")
    learned = stats.occupancy >= _NO_DATA
    if not learned.any():
        raise Nnet3Error("the statistics have no frames")
    means, covariances = _full_moments(stats, learned)
    for number in np.flatnonzero(~learned):
        logger.warning("Gaussian %d has no data", number)
        means[number] = [random.normal() for _ in range(stats.dim)]
    covariances = np.where(learned[:, None, None], _with_floored_eigenvalues(covariances, options), np.eye(stats.dim))
    return FullGmm.of_moments(np.where(learned, stats.occupancy / stats.occupancy.sum(), _NO_DATA), means, covariances)


def _full_moments(stats: GmmStats, learned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and covariances, float64; meaningless for Gaussians that are not ``learned``."""
    safe = np.where(learned, stats.occupancy, 1.0)[:, None]
    means = stats.means / safe
    return means, unpacked(stats.squares) / safe[:, :, None] - np.einsum("id,ie->ide", means, means)


def _with_floored_eigenvalues(covariances: np.ndarray, options: FullOptions) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariances)
    floors = np.maximum(options.variance_floor, np.abs(values).max(axis=1, keepdims=True) / options.max_condition)
    if (values < floors).any():
        logger.info("Floored %d of %d eigenvalues of covariances", np.count_nonzero(values < floors), values.size)
    floored: np.ndarray = np.einsum("ide,ie,ife->idf", vectors, np.maximum(values, floors), vectors)
    return floored


def split(gmm: DiagGmm, num_gaussians: int, perturbation: float, random: CRandom) -> DiagGmm:
    """Split Gaussians with the largest weights in two, until there are ``num_gaussians``. Kaldi: DiagGmm::Split.

    The means of both halves are moved apart at random, by ``perturbation`` standard deviations.
    """
    weights, means, inv_vars = [*gmm.weights], [*gmm.means_inv_vars], [*gmm.inv_vars]
    while len(weights) < num_gaussians:
        heaviest = int(np.argmax(weights))
        weights[heaviest] = np.float32(weights[heaviest] * np.float32(0.5))
        weights.append(weights[heaviest])
        noise = np.array([random.normal() for _ in range(gmm.dim)], dtype=np.float32) * np.sqrt(inv_vars[heaviest])
        inv_vars.append(inv_vars[heaviest])
        means.append(means[heaviest] + np.float32(perturbation) * noise)
        means[heaviest] = means[heaviest] - np.float32(perturbation) * noise
    return DiagGmm(np.array(weights, dtype=np.float32), np.array(means), np.array(inv_vars))


class FrameSample:
    """Random sample of at most ``most`` frames of a stream (reservoir). Kaldi: gmm-global-init-from-feats."""

    def __init__(self, most: int, random: CRandom) -> None:
        self._most, self._random = most, random
        self._kept: list[np.ndarray] = []
        self.num_seen = 0

    @property
    def num_kept(self) -> int:
        """Number of frames in the sample."""
        return len(self._kept)

    def add(self, features: np.ndarray) -> None:
        """Add frames of the stream, float32 (frames, dim), each of which may replace one in the sample."""
        if self._kept and features.shape[1] != len(self._kept[0]):
            raise Nnet3Error(f"expected features of dimension {len(self._kept[0])}, found {features.shape[1]}")
        room = self._most - len(self._kept)
        first = features[:room].copy()
        self._kept.extend(first)
        self.num_seen += len(first)
        for row in features[room:]:
            self.num_seen += 1
            if self._random.happens(float32(self._most / self.num_seen)):
                self._kept[self._random.integer(0, self._most - 1)] = row.copy()

    def frames(self) -> np.ndarray:
        """Return the sample, float32 (kept, dim). Raises Nnet3Error if no frames were added."""
        if not self._kept:
            raise Nnet3Error("expected features of one frame or more, found none")
        return np.array(self._kept)


def begin_mixture(frames: np.ndarray, num_gaussians: int, random: CRandom) -> DiagGmm:
    """Make Gaussians around random frames, with the variance of all frames. Raises Nnet3Error for too few frames."""
    if len(frames) < _FRAMES_PER_GAUSSIAN * num_gaussians:
        raise Nnet3Error(f"{len(frames)} frames are too few for {num_gaussians} Gaussians",
                         f"give at least {_FRAMES_PER_GAUSSIAN * num_gaussians}, or ask for fewer Gaussians")
    double = frames.astype(np.float64)
    mean = double.mean(axis=0)
    variance = (double * double).mean(axis=0) - mean * mean
    if not (variance > 0).all():
        raise Nnet3Error(f"column {int((variance <= 0).argmax())} of the features has variance 0",
                         "leave out columns that are constant, for example by select-feats")
    used: list[int] = []
    while len(used) < num_gaussians:
        number = random.integer(0, len(frames) - 1)
        if number not in used:
            used.append(number)
    inv_vars = np.tile((1.0 / variance).astype(np.float32), (num_gaussians, 1))
    weights = np.full(num_gaussians, 1.0 / num_gaussians, dtype=np.float32)
    return DiagGmm(weights, frames[used] * inv_vars, inv_vars)


class Iteration(NamedTuple):
    """Iteration of training a mixture, counted from 0. Log-likelihoods are per frame."""

    number: int
    log_like: float         # before the iteration
    improvement: float      # of the log-likelihood
    split_to: int           # number of Gaussians after splitting; 0 if none was split
    gmm: DiagGmm            # after the iteration


def train_mixture(frames: np.ndarray, gmm: DiagGmm, num_gaussians: int, num_iters: int, options: DiagOptions,
                  random: CRandom) -> Iterator[Iteration]:
    """Train a mixture by expectation and maximization, splitting Gaussians up to ``num_gaussians``.

    Yields each iteration; ``frames`` are float32 (frames, dim).
    """
    current = len(gmm.weights)
    step = (num_gaussians - current) // max(num_iters // 2, 1) if num_iters > 1 else 0
    for number in range(num_iters):
        stats = GmmStats.zeros(len(gmm.weights), gmm.dim, MEANS | VARIANCES | WEIGHTS, False)
        log_like = add_frames(stats, gmm, frames)
        estimated = estimate_diag(stats, gmm, options, MEANS | VARIANCES | WEIGHTS)
        assert isinstance(estimated.gmm, DiagGmm)
        gmm, wanted, split_to = estimated.gmm, min(num_gaussians, current + step), 0
        if wanted > len(gmm.weights):
            gmm, current, split_to = split(gmm, wanted, _SPLIT_PERTURBATION, random), wanted, wanted
        yield Iteration(number, log_like / len(frames), estimated.improvement / len(frames), split_to, gmm)


def add_frames(stats: GmmStats, gmm: DiagGmm | FullGmm, features: np.ndarray,
               weights: np.ndarray | None = None) -> float:
    """Add frames to statistics, with the posteriors of all Gaussians; return the sum of the log-likelihoods.

    ``features`` are float32 (frames, dim); ``weights``, float (frames,), are weights of the frames, also in the sum.
    """
    total = 0.0
    for first in range(0, len(features), _BLOCK_FRAMES):
        block = features[first:first + _BLOCK_FRAMES]
        log_likes = gmm.log_likelihoods(block)
        of_frames = log_sum(log_likes)
        with np.errstate(under="ignore"):
            posteriors = np.exp(log_likes - of_frames[:, None])
        if weights is not None:
            of_block = weights[first:first + _BLOCK_FRAMES].astype(np.float32)
            posteriors *= of_block[:, None]
            of_frames = of_frames * of_block
        stats.add(block, posteriors)
        total += float(of_frames.sum(dtype=np.float64))
    return total
