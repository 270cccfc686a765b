"""Estimating mixtures from statistics, and from features by expectation and maximization.

Kaldi: ``MleDiagGmmUpdate``, ``MleFullGmmUpdate``, gmm-global-init-from-feats.
"""
from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.gaussians.accumulators import MEANS, VARIANCES, WEIGHTS, GmmStats
from nnet3py.gaussians.diag_gmm import DiagGmm
from nnet3py.gaussians.full_gmm import FullGmm
from nnet3py.gaussians.options import DiagOptions, FullOptions
from nnet3py.gaussians.posteriors import log_likelihoods, log_sum
from nnet3py.gaussians.symmetric import unpacked
from nnet3py.random_sequence import CRandom, float32

logger = logging.getLogger(__name__)

_SPLIT_PERTURBATION = 0.1
_NO_DATA = 1.0e-10                 # frames, and the weight of a Gaussian that has no data
_FRAMES_PER_GAUSSIAN = 10          # at least, to begin with
_BLOCK = 2000                      # frames whose posteriors are computed at a time: they stay in the processor's caches


class Estimated(NamedTuple):
    """A mixture, by how much the objective grew, and the frames that it was estimated from."""

    gmm: DiagGmm | FullGmm
    improvement: float
    frames: float


def _learned(stats: GmmStats, min_weight: float, min_occupancy: float) -> np.ndarray:
    """bool (gaussians,): which have enough frames."""
    total = stats.occupancy.sum()
    return (stats.occupancy > min_occupancy) & (stats.occupancy > min_weight * total)


def _new_weights(stats: GmmStats, learned: np.ndarray, min_weight: float, old: np.ndarray, flags: int) -> np.ndarray:
    shares = stats.occupancy / max(stats.occupancy.sum(), 1e-300)
    return np.where(learned, shares, np.maximum(shares, min_weight)) if flags & WEIGHTS else old.astype(np.float64)


def _kept(learned: np.ndarray, remove: bool) -> np.ndarray:
    """Which Gaussians remain: at least one."""
    if not remove or learned.all():
        return np.ones_like(learned)
    if not learned.any():
        keep = np.zeros_like(learned)
        keep[-1] = True
        return keep
    logger.warning("Removing %d Gaussians with too little data", np.count_nonzero(~learned))
    return learned


def diag_objective(stats: GmmStats, gmm: DiagGmm) -> float:
    """The log-likelihood of the frames in the statistics. Kaldi: MlObjective."""
    value = float(stats.occupancy @ gmm.log_constants().astype(np.float64))
    if stats.flags & MEANS:
        value += float((stats.means * gmm.means_inv_vars).sum())
    if stats.flags & VARIANCES:
        value -= 0.5 * float((stats.squares * gmm.inv_vars).sum())
    return value


def estimate_diag(stats: GmmStats, gmm: DiagGmm, options: DiagOptions, flags: int) -> Estimated:
    """A mixture from the statistics; what ``flags`` do not name is kept from the old one. Kaldi: MleDiagGmmUpdate."""
    if stats.means.shape != gmm.means_inv_vars.shape:
        raise Nnet3Error(f"statistics of {len(stats.occupancy)} Gaussians of dimension {stats.dim} do not fit a "
                         f"mixture of {len(gmm.weights)} of dimension {gmm.dim}")
    before = diag_objective(stats, gmm)
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
    after = diag_objective(stats, made)
    keep = _kept(learned, options.remove_low_count)
    if not keep.all():
        remaining = made.weights[keep]
        made = DiagGmm((remaining / remaining.sum()).astype(np.float32), made.means_inv_vars[keep], made.inv_vars[keep])
    return Estimated(made, after - before, float(stats.occupancy.sum()))


def full_objective(stats: GmmStats, gmm: FullGmm) -> float:
    """The log-likelihood of the frames in the statistics."""
    value = float(stats.occupancy @ gmm.log_constants().astype(np.float64))
    value += float((stats.means * gmm.means_inv_covars).sum())
    return value - 0.5 * float((unpacked(stats.squares) * gmm.inverses()).sum())


def estimate_full(stats: GmmStats, gmm: FullGmm, options: FullOptions, flags: int) -> Estimated:
    """A mixture from the statistics. Kaldi: MleFullGmmUpdate."""
    if stats.means.shape != gmm.means_inv_covars.shape or not stats.is_full:
        raise Nnet3Error(f"statistics of {len(stats.occupancy)} Gaussians of dimension {stats.dim} do not fit a "
                         f"mixture of {len(gmm.weights)} of dimension {gmm.dim} with full covariances")
    before = full_objective(stats, gmm)
    learned = _learned(stats, options.min_weight, options.min_occupancy)
    old_covariances = gmm.covariances()
    old_means = np.einsum("ide,ie->id", old_covariances, gmm.means_inv_covars.astype(np.float64))
    own_means, own = _full_moments(stats, learned)
    means = np.where(learned[:, None] & bool(flags & MEANS), own_means, old_means)
    covariances = old_covariances
    if flags & VARIANCES:
        if not flags & MEANS:
            away = old_means - own_means
            own = own + np.einsum("id,ie->ide", away, away)
        covariances = np.where(learned[:, None, None], _floored(own, options), old_covariances)
    weights = _new_weights(stats, learned, options.min_weight, gmm.weights, flags)
    made = FullGmm.of_moments(weights, means, covariances)
    after = full_objective(stats, made)
    keep = _kept(learned, options.remove_low_count)
    if not keep.all():
        remaining = made.weights[keep]
        made = FullGmm((remaining / remaining.sum()).astype(np.float32), made.means_inv_covars[keep],
                       made.inv_covars[keep])
    return Estimated(made, after - before, float(stats.occupancy.sum()))


def begin_full(stats: GmmStats, options: FullOptions, random: CRandom) -> FullGmm:
    """A mixture from the statistics alone. Kaldi: fgmm-global-init-from-accs.

    A Gaussian without data gets next to no weight, a mean at random and covariance 1.
    """
    if not stats.is_full or not stats.flags & VARIANCES:
        raise Nnet3Error("the statistics have no products of features", "gather them by fgmm-global-acc-stats, or by "
                                                                        "others for full covariances")
    learned = stats.occupancy >= _NO_DATA
    if not learned.any():
        raise Nnet3Error("the statistics have no frames")
    means, covariances = _full_moments(stats, learned)
    for number in np.flatnonzero(~learned):
        logger.warning("Gaussian %d has no data", number)
        means[number] = [random.normal() for _ in range(stats.dim)]
    covariances = np.where(learned[:, None, None], _floored(covariances, options), np.eye(stats.dim))
    return FullGmm.of_moments(np.where(learned, stats.occupancy / stats.occupancy.sum(), _NO_DATA), means, covariances)


def _full_moments(stats: GmmStats, learned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of the statistics, float64, meaningless for Gaussians that are not ``learned``."""
    safe = np.where(learned, stats.occupancy, 1.0)[:, None]
    means = stats.means / safe
    return means, unpacked(stats.squares) / safe[:, :, None] - np.einsum("id,ie->ide", means, means)


def _floored(covariances: np.ndarray, options: FullOptions) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariances)
    floors = np.maximum(options.variance_floor, np.abs(values).max(axis=1, keepdims=True) / options.max_condition)
    if (values < floors).any():
        logger.info("Floored %d of %d eigenvalues of covariances", np.count_nonzero(values < floors), values.size)
    floored: np.ndarray = np.einsum("ide,ie,ife->idf", vectors, np.maximum(values, floors), vectors)
    return floored


def split(gmm: DiagGmm, num_gaussians: int, perturbation: float, random: CRandom) -> DiagGmm:
    """The mixture with its heaviest Gaussians halved and moved a little apart at random, up to ``num_gaussians``.

    Kaldi: DiagGmm::Split.
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
    """Keeps at most that many of the frames that it is given, each as likely. Kaldi: gmm-global-init-from-feats."""

    def __init__(self, most: int, random: CRandom) -> None:
        self._most, self._random = most, random
        self._kept: np.ndarray | None = None
        self.num_kept = self.num_seen = 0

    def add(self, features: np.ndarray) -> None:
        """Offer float32 (frames, dim)."""
        if self._kept is None:
            self._kept = np.empty((0, features.shape[1]), dtype=np.float32)
        elif features.shape[1] != self._kept.shape[1]:
            raise Nnet3Error(f"expected features of dimension {self._kept.shape[1]}, found {features.shape[1]}")
        for row in features:
            self.num_seen += 1
            if self.num_kept < self._most:
                self._store(self.num_kept, row)
                self.num_kept += 1
            elif self._random.happens(float32(self._most / self.num_seen)):
                self._kept[self._random.integer(0, self._most - 1)] = row

    def _store(self, place: int, row: np.ndarray) -> None:
        assert self._kept is not None
        if place == len(self._kept):
            larger = np.empty((min(max(1000, 2 * place), self._most), len(row)), dtype=np.float32)
            larger[:place] = self._kept
            self._kept = larger
        self._kept[place] = row

    def frames(self) -> np.ndarray:
        """float32 (kept, dim). Nnet3Error if there are none."""
        if self._kept is None or not self.num_kept:
            raise Nnet3Error("there are no features")
        return self._kept[:self.num_kept]


def begin_mixture(frames: np.ndarray, num_gaussians: int, random: CRandom) -> DiagGmm:
    """Gaussians about frames chosen at random, with the variance of all. Nnet3Error for too few frames."""
    if len(frames) < _FRAMES_PER_GAUSSIAN * num_gaussians:
        raise Nnet3Error(f"{len(frames)} frames are too few for {num_gaussians} Gaussians",
                         f"give at least {_FRAMES_PER_GAUSSIAN * num_gaussians}, or ask for fewer Gaussians")
    double = frames.astype(np.float64)
    mean = double.mean(axis=0)
    variance = (double * double).mean(axis=0) - mean * mean
    if not (variance > 0).all():
        raise Nnet3Error(f"column {int((variance <= 0).argmax())} of the features does not vary")
    used: list[int] = []
    while len(used) < num_gaussians:
        number = random.integer(0, len(frames) - 1)
        if number not in used:
            used.append(number)
    inv_vars = np.tile((1.0 / variance).astype(np.float32), (num_gaussians, 1))
    weights = np.full(num_gaussians, 1.0 / num_gaussians, dtype=np.float32)
    return DiagGmm(weights, frames[used] * inv_vars, inv_vars)


class Iteration(NamedTuple):
    """What an iteration found: log-likelihood and improvement per frame; ``split_to`` Gaussians after it, or 0."""

    number: int
    log_like: float
    improvement: float
    split_to: int
    gmm: DiagGmm


def train_mixture(frames: np.ndarray, gmm: DiagGmm, num_gaussians: int, num_iters: int, options: DiagOptions,
                  random: CRandom) -> Iterator[Iteration]:
    """Expectation and maximization on all frames, with more and more Gaussians; yields an item per iteration."""
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
    """Add frames with the posteriors of all Gaussians; returns the sum of (weighted) log-likelihoods."""
    total = 0.0
    for first in range(0, len(features), _BLOCK):
        block = features[first:first + _BLOCK]
        log_likes = log_likelihoods(gmm, block)
        of_frames = log_sum(log_likes)
        with np.errstate(under="ignore"):
            posteriors = np.exp(log_likes - of_frames[:, None])
        if weights is not None:
            of_block = weights[first:first + _BLOCK].astype(np.float32)
            posteriors *= of_block[:, None]
            of_frames = of_frames * of_block
        stats.add(block, posteriors)
        total += float(of_frames.sum(dtype=np.float64))
    return total
