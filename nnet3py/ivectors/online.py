"""I-vectors estimated while frames arrive, with statistics of a speaker's earlier utterances.

Kaldi: ``OnlineIvectorEstimationStats``, ``OnlineIvectorFeature``.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.engine.loop import Loop
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.feat.cmvn import OnlineNormalizer, empty_stats
from nnet3py.feat.frames import splice, transform
from nnet3py.feat.options import OnlineOptions
from nnet3py.formats.posteriors import Posterior
from nnet3py.gaussians.mixtures import DiagGmm, PrunedPosteriors, pruned_posteriors
from nnet3py.ivectors.extractor import IvectorExtractor, check_dimensions, check_online, check_posterior
from nnet3py.ivectors.options import OnlineSettings

logger = logging.getLogger(__name__)

_improve = Loop("nnet3py.ivectors.online_loops", "conjugate_gradients", "f8[,] f8[] f8[] f8[,] i8")
_sum_terms = Loop("nnet3py.ivectors.online_loops", "sum_terms",
                  "f4[,] i8[] i4[] f4[] f8[,] f8[,] f8[,] f8[] u1[] f8[] f8[]")
_add_triangle = Loop("nnet3py.ivectors.online_loops", "add_triangle", "f8[] f8[,]")

CG_ITERATIONS = 15
_MOST_MIN_POST = np.float32(0.99)      # threshold of posteriors at which only the likeliest Gaussian is left
_PIECES_AT_ONCE = 64                   # pieces of an utterance whose terms are computed together
_PITCH_COLUMNS = 3                     # columns of pitch that may follow the features, and are ignored


class Terms(NamedTuple):
    """Contribution of some frames, whose number is weighted by posteriors, to :class:`EstimationStats`.

    ``linear`` is float64 (ivector dim,), ``quadratic`` float64 (ivector dim (ivector dim + 1) / 2,), packed.
    """

    frames: float
    linear: np.ndarray
    quadratic: np.ndarray


def terms_of_pieces(extractor: IvectorExtractor, features: np.ndarray, posterior: Posterior,
                    ends: np.ndarray) -> Iterator[Terms]:
    """Compute the terms of successive pieces of an utterance; raise ShapeError as :func:`check_posterior`.

    Pieces are computed together, some at a time: few Gaussians have posteriors in each piece, so that the sums are
    products of sparse matrices with matrices of all Gaussians. ``features`` are float32 (frames, dim); ``ends`` is int
    (pieces,), ascending, the frame after each piece.
    """
    check_posterior(extractor.num_gaussians, features, posterior)
    if len(ends) == 1 and int(ends[0]) == len(features):
        yield _terms_of_frames(extractor, features, posterior)
        return
    from scipy.sparse import csr_matrix  # takes longer to load than a recognizer should need to start

    dim, size = extractor.dim, extractor.ivector_dim
    projections = extractor.precisions.reshape(-1, size)
    starts, weights = np.asarray(posterior.row_starts), posterior.weights.astype(np.float64)
    frames = np.repeat(np.arange(len(features)), np.diff(starts))
    bounds = np.concatenate(([0], starts[np.asarray(ends)]))
    for first in range(0, len(ends), _PIECES_AT_ONCE):
        borders = bounds[first:first + _PIECES_AT_ONCE + 1]
        entries = slice(borders[0], borders[-1])
        rows, ids, own = borders - borders[0], posterior.ids[entries].astype(np.int64), weights[entries]
        gamma = csr_matrix((own, ids, rows), shape=(len(rows) - 1, extractor.num_gaussians))
        values = (features[frames[entries]].astype(np.float64) * own[:, None]).reshape(-1)
        columns = (ids[:, None] * dim + np.arange(dim)).reshape(-1)
        sums = csr_matrix((values, columns, rows * dim), shape=(len(rows) - 1, len(projections)))
        counts = np.asarray(gamma.sum(axis=1)).ravel()
        yield from map(Terms, counts.tolist(), sums @ projections, gamma @ extractor.quadratics)


def _terms_of_frames(extractor: IvectorExtractor, features: np.ndarray, posterior: Posterior) -> Terms:
    """Compute the terms of all frames together."""
    gaussians, dim, size = extractor.num_gaussians, extractor.dim, extractor.ivector_dim
    linear, quadratic = np.zeros(size), np.zeros(extractor.quadratics.shape[1])
    given = (np.require(array, requirements=["C", "A", "W"]) for array in (
        features.astype(np.float32, copy=False), posterior.row_starts, posterior.ids, posterior.weights))
    frames = _sum_terms(*given, extractor.precisions.reshape(-1, size), extractor.quadratics,
                        np.zeros((gaussians, dim)), np.zeros(gaussians), np.zeros(gaussians, dtype=np.uint8), linear,
                        quadratic)
    return Terms(frames, linear, quadratic)


class EstimationStats:
    """The linear problem whose solution is the i-vector: ``quadratic`` x = ``linear``.

    The prior mean of the first dimension is ``offset``. ``max_count`` is the number of frames (times the scale of
    posteriors) above which the prior is scaled up with them; 0 for never.
    """

    def __init__(self, ivector_dim: int, offset: float, max_count: float = 0.0) -> None:
        self.offset, self.max_count = float(np.float32(offset)), float(np.float32(max_count))
        self.linear = np.zeros(ivector_dim)
        self.linear[0] = self.offset
        self.quadratic = np.eye(ivector_dim)
        self.count = 0.0

    def add(self, terms: Terms) -> None:
        """Add frames. Kaldi: AccStats."""
        self.linear += terms.linear
        _add_triangle(terms.quadratic, self.quadratic)
        before, self.count = self.count, self.count + terms.frames
        if self.max_count > 0:
            self._change_prior((max(self.count, self.max_count) - max(before, self.max_count)) / self.max_count)

    def scale(self, factor: float) -> None:
        """Scale down the frames, not the prior; ``factor`` from 0 to 1. Kaldi: Scale."""
        before = self.count
        self.count *= factor
        self.linear *= factor
        self.quadratic *= factor
        self._change_prior(1.0 - factor if self.max_count == 0 else (
            max(self.count, self.max_count) - factor * max(before, self.max_count)) / self.max_count)

    def _change_prior(self, weight: float) -> None:
        self.linear[0] += self.offset * weight
        self.quadratic[np.diag_indices_from(self.quadratic)] += weight

    def estimate(self, start: np.ndarray, iterations: int = CG_ITERATIONS) -> np.ndarray:
        """Estimate the i-vector, float64 (ivector dim,), by conjugate gradients from ``start``. Kaldi: GetIvector."""
        if self.count <= 0:
            prior = np.zeros_like(self.linear)
            prior[0] = self.offset
            return prior
        solution = start.copy()
        if solution[0] == 0.0:
            solution[0] = self.offset
        scratch, most = np.empty((3, len(solution))), min(iterations, len(solution) + 5)
        if _improve(self.quadratic, self.linear, solution, scratch, most):
            logger.warning("Conjugate gradients did not converge; the problem is solved exactly")
            return np.linalg.solve(self.quadratic, self.linear)
        return solution

    def objective_change(self, ivector: np.ndarray) -> float:
        """Return the gain of the i-vector over the prior's mean in log-likelihood per frame."""
        if self.count <= 0:
            return 0.0
        gained = float(self.linear @ ivector - 0.5 * ivector @ self.quadratic @ ivector)
        default = self.offset * self.linear[0] - 0.5 * self.offset ** 2 * self.quadratic[0, 0]
        return float(gained - default) / self.count

    def copy(self) -> EstimationStats:
        """Return a copy that shares no arrays."""
        return deepcopy(self)


@dataclass
class OnlineModels(OnlineSettings):
    """Models and settings for estimating i-vectors online; the settings are the fields of ``OnlineSettings``.

    Attributes
    ----------
    extractor : model of i-vectors
    ubm : universal background model, a mixture whose Gaussians' posteriors are computed for each frame
    lda : float32 (dim, spliced dim), or (dim, spliced dim + 1) with offsets, applied to spliced features
    global_stats : float64 (2, base dim + 1), normalization statistics
    cmvn : options of normalization
    """

    extractor: IvectorExtractor
    ubm: DiagGmm
    lda: np.ndarray
    global_stats: np.ndarray
    cmvn: OnlineOptions = field(default_factory=OnlineOptions)

    def check(self) -> None:
        """Raise UsageError for settings out of range, ShapeError for models whose dimensions do not match."""
        check_online(self.extractor)
        super().check()
        if self.global_stats.shape[0] != 2:
            raise ShapeError(f"expected global normalization statistics of 2 rows, found {self.global_stats.shape[0]}")
        spliced = self.base_dim * (self.left_context + 1 + self.right_context)
        if self.lda.shape[1] not in (spliced, spliced + 1):
            raise ShapeError(f"expected a transform of spliced features of dimension {spliced}, found a matrix of "
                             f"{self.lda.shape[1]} columns")
        check_dimensions(self.extractor, len(self.ubm.weights), self.ubm.dim)
        if self.lda.shape[0] != self.ubm.dim:
            raise ShapeError(f"expected a transform to dimension {self.ubm.dim}, as the Gaussians have, found a matrix "
                             f"of {self.lda.shape[0]} rows")

    @property
    def base_dim(self) -> int:
        """Dimension of the features, before splicing and without pitch."""
        return self.global_stats.shape[1] - 1

    def without_pitch(self, features: np.ndarray) -> np.ndarray:
        """Return the features without columns of pitch: float32 (frames, base dim).

        Raises ShapeError for another dimension.
        """
        if features.shape[1] == self.base_dim + _PITCH_COLUMNS:
            return features[:, :self.base_dim]
        if features.shape[1] != self.base_dim:
            raise ShapeError(f"expected features of dimension {self.base_dim}, found {features.shape[1]}")
        return features

    def transformed(self, features: np.ndarray) -> np.ndarray:
        """Return features, float32 (frames, base dim), spliced and transformed: float32 (frames, dim), new."""
        return transform(splice(features, self.left_context, self.right_context), self.lda)

    @cached_property
    def _log_constants(self) -> np.ndarray:
        return self.ubm.log_constants()

    def posteriors(self, features: np.ndarray, weights: np.ndarray) -> PrunedPosteriors:
        """Compute scaled posteriors of the UBM's Gaussians for each frame, and the log-likelihoods of the frames.

        ``features`` are float32 (frames, dim), normalized and transformed. ``weights``, float32 (frames,), are factors
        of the posteriors, which may be negative; for a small weight fewer posteriors are kept.
        """
        with np.errstate(divide="ignore"):
            least = np.minimum(_MOST_MIN_POST, np.float32(self.min_post) / np.abs(weights))
        log_likes = self.ubm.log_likelihoods(features, self._log_constants)
        chosen = pruned_posteriors(log_likes, self.num_gselect, least)
        scales = np.float32(self.posterior_scale) * weights
        posterior = chosen.posterior
        scaled = Posterior(posterior.row_starts, posterior.ids,
                           posterior.weights * np.repeat(scales, np.diff(posterior.row_starts)))
        return PrunedPosteriors(scaled, chosen.log_likes)


@dataclass
class AdaptationState:
    """Statistics of a speaker's utterances, with which the i-vector of the speaker's next utterance begins.

    Attributes
    ----------
    cmvn : float64 (2, base dim + 1), normalization statistics
    stats : statistics of i-vectors
    """

    cmvn: np.ndarray
    stats: EstimationStats

    @classmethod
    def fresh(cls, models: OnlineModels) -> AdaptationState:
        """Make the state for a speaker without earlier utterances."""
        extractor = models.extractor
        return cls(empty_stats(models.base_dim),
                   EstimationStats(extractor.ivector_dim, extractor.offset, models.max_count))

    def limited(self, most_frames: float, posterior_scale: float) -> AdaptationState:
        """Return the state scaled down to at most ``most_frames``. Kaldi: LimitFrames."""
        count = float(self.cmvn[0, -1])
        cmvn = self.cmvn * float(np.float32(most_frames) / np.float32(count)) if count > most_frames else self.cmvn
        stats, most = self.stats.copy(), float(np.float32(most_frames * posterior_scale))
        if stats.count > most:
            stats.scale(float(np.float32(most) / np.float32(stats.count)))
        return AdaptationState(cmvn, stats)


class OnlineIvectors:
    """I-vectors of an utterance, frame by frame. Kaldi: OnlineIvectorFeature.

    Parameters
    ----------
    models : models and settings
    features : float32 (frames, base dim) of the whole utterance
    state : statistics of the speaker
    frame_weights : float32 (frames,), or None for 1 everywhere

    Attributes
    ----------
    log_likes : float32 (frames,), log-likelihoods of the frames by the mixture of Gaussians
    """

    def __init__(self, models: OnlineModels, features: np.ndarray, state: AdaptationState,
                 frame_weights: np.ndarray | None = None) -> None:
        self._models = models
        base = models.without_pitch(features)
        normalizer = OnlineNormalizer(models.global_stats, models.cmvn)
        normalizer.speaker_stats = state.cmvn
        normalized = normalizer(base)
        self._cmvn = normalizer.speaker_stats
        for_posteriors = models.transformed(normalized)
        self._features = for_posteriors if models.use_cmvn_for_stats else models.transformed(base)
        weights = np.ones(len(base), dtype=np.float32) if frame_weights is None else frame_weights
        self._posterior, self.log_likes = models.posteriors(for_posteriors, weights)
        self._stats = state.stats.copy()
        self._done = 0
        self._coming: Iterator[Terms] | None = None       # terms of the next pieces, if pieces are whole periods
        self._current = models.extractor.prior_mean()
        self._history: list[np.ndarray] = []

    @property
    def num_frames(self) -> int:
        """Number of frames of the utterance."""
        return len(self._features)

    def at(self, frame: int) -> np.ndarray:
        """Return the i-vector for a frame, float32 (ivector dim,). Frames must be asked for in ascending order."""
        models = self._models
        most_recent = models.use_most_recent or models.greedy
        target = self.num_frames - 1 if models.greedy else frame
        first = self._done
        for number in range(self._done, target + 1):
            is_point = number == target if most_recent else number % models.period == 0
            if is_point:
                self._add(first, number + 1)
                first = number + 1
                self._current = self._stats.estimate(self._current)
                if not most_recent:
                    self._history.append(self._current.astype(np.float32).astype(np.float64))
        self._add(first, target + 1)
        self._done = max(self._done, target + 1)
        ivector = (self._current if most_recent else self._history[frame // models.period]).copy()
        ivector[0] -= models.extractor.offset
        return ivector.astype(np.float32)

    def _add(self, first: int, end: int) -> None:
        """Add frames to the statistics."""
        if first >= end:
            return
        models = self._models
        if first == 0 and not (models.use_most_recent or models.greedy):        # frames are added a period at a time
            ends = np.arange(1, self.num_frames + 1, models.period)
            self._coming = terms_of_pieces(models.extractor, self._features, self._posterior, ends)
        if self._coming is not None and (end - 1) % models.period == 0:
            self._stats.add(next(self._coming))
        else:
            self._coming = None
            self._stats.add(next(terms_of_pieces(models.extractor, self._features[first:end],
                                                 self._posterior.part(first, end), np.array([end - first]))))

    def objective_change(self) -> float:
        """Return the gain of the latest estimate over the prior's mean in log-likelihood per frame."""
        return self._stats.objective_change(self._current)

    def state(self) -> AdaptationState:
        """Return the state for the speaker's next utterance."""
        models = self._models
        return AdaptationState(self._cmvn, self._stats).limited(models.max_remembered_frames, models.posterior_scale)


def ivectors_of_posteriors(extractor: IvectorExtractor, features: np.ndarray, posterior: Posterior, period: int,
                           iterations: int, max_count: float, after: Callable[[EstimationStats, np.ndarray], None]
                           ) -> np.ndarray:
    """Estimate i-vectors from given posteriors, as frames arrive. Kaldi: EstimateIvectorsOnline.

    Parameters
    ----------
    extractor : model of i-vectors
    features : float32 (frames, dim)
    posterior : posteriors of the extractor's Gaussians
    period : frames from one estimate to the next
    iterations : largest number of steps of conjugate gradients per estimate
    max_count : number of frames above which the prior is scaled up with them; 0 for never
    after : function that is called with the final statistics and i-vector, float64 (ivector dim,)

    Returns
    -------
    float32 (ceil(frames / period), ivector dim)

    Raises
    ------
    Nnet3Error : no frames, or an extractor whose weights depend on the i-vector
    ShapeError : posteriors of other Gaussians or of another number of frames
    """
    if not len(features):
        raise Nnet3Error("expected an utterance of one frame or more, found none")
    check_online(extractor)
    stats = EstimationStats(extractor.ivector_dim, extractor.offset, max_count)
    current, rows = extractor.prior_mean(), []
    for terms in terms_of_pieces(extractor, features, posterior, np.arange(1, len(features) + 1, period)):
        stats.add(terms)
        current = stats.estimate(current, iterations)
        rows.append(current.astype(np.float32))
    ivectors = np.stack(rows)
    ivectors[:, 0] -= np.float32(extractor.offset)
    after(stats, current)
    return ivectors
