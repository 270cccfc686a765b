"""Mean and variance normalization of features. Kaldi: ``cmvn.h``, ``OnlineCmvn``.

Statistics are float64 (2, dim + 1): the sums and, in the last column, the weight of the frames; below them the sums of
squares.
"""
from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.feat.options import OnlineOptions

logger = logging.getLogger(__name__)

VARIANCE_FLOOR = 1.0e-20
_add_frames = Loop("nnet3py.feat.cmvn_loops", "add_frames", "f4[,] f8[,] i8")
_normalize_frames = Loop("nnet3py.feat.cmvn_loops", "normalize_frames",
                         "f4[,] f8[,] i8 i8 i8 f8[,] f8 f8[,] f8 b1 f8 f4[,]")


def empty_stats(dim: int) -> np.ndarray:
    """Statistics of no frames.

    Parameters
    ----------
    dim : columns of the features

    Returns
    -------
    float64 (2, dim + 1), zeros: sums and, in the last column, the weight of the frames; below them sums of squares.
    """
    return np.zeros((2, dim + 1))


def accumulate_stats(features: np.ndarray, stats: np.ndarray, weights: np.ndarray | None = None) -> None:
    """Add features to normalization statistics.

    Parameters
    ----------
    features : float (frames, dim)
    stats : float64 (2, dim + 1), as :func:`empty_stats` gives them; changed in place
    weights : float (frames,), how much each frame counts; None: 1

    Raises
    ------
    ShapeError : features of another dimension than the statistics
    """
    if stats.shape != (2, features.shape[1] + 1):
        raise ShapeError(f"features of dimension {features.shape[1]} cannot be added to normalization statistics of "
                         f"dimension {stats.shape[1] - 1}")
    with np.errstate(all="ignore"):
        frames = features.astype(np.float64)
        weighted = frames if weights is None else frames * np.asarray(weights, dtype=np.float64)[:, None]
        stats[0, :-1] += weighted.sum(axis=0)
        stats[1, :-1] += np.einsum("td,td->d", weighted, frames)
        stats[0, -1] += len(features) if weights is None else float(np.sum(weights, dtype=np.float64))


def fake_stats(stats: np.ndarray, dims: Sequence[int]) -> np.ndarray:
    """A copy of ``stats`` that says mean 0 and variance 1 for ``dims``, so that these are left as they are.

    UsageError for a dimension that does not exist. Kaldi: FakeStatsForSomeDims.
    """
    columns = list(dims)
    dim = stats.shape[1] - 1
    if columns and not (0 <= min(columns) and max(columns) < dim):
        raise UsageError(f"expected dimensions from 0 to {dim - 1} of those to skip, found {min(columns)} to "
                         f"{max(columns)}")
    check_stats(stats, dim)
    result = stats.copy()
    result[0, columns] = 0.0
    result[1:, columns] = stats[0, -1]
    return result


def mean_and_variance(stats: np.ndarray) -> np.ndarray:
    """float64 (2, dim): means, and the variances about them. NumericError for statistics of less than a frame."""
    check_stats(stats, stats.shape[1] - 1)
    mean, second = stats[:, :-1] / _count(stats)
    return np.stack([mean, second - mean * mean])


def check_stats(stats: np.ndarray, dim: int, variance: bool = True) -> None:
    """ShapeError if ``stats`` are not of dimension ``dim``, or lack the sums of squares where they are needed."""
    if stats.shape not in ((2, dim + 1), (2 if variance else 1, dim + 1)) or dim < 1:
        raise ShapeError(f"normalization statistics of {stats.shape[0]} x {stats.shape[1]} numbers do not fit features "
                         f"of dimension {dim}; expected 2 x {dim + 1}")


def normalize(features: np.ndarray, stats: np.ndarray | None = None, norm_vars: bool = False,
              reverse: bool = False) -> np.ndarray:
    """Features with mean 0 and perhaps variance 1. Kaldi: ApplyCmvn, ApplyCmvnReverse.

    Parameters
    ----------
    features : float (frames, dim)
    stats : float64 (2, dim + 1), of the utterance or the speaker; None: of these features
    norm_vars : whether variances become 1
    reverse : give normalized features the mean, and the variance, of ``stats``

    Returns
    -------
    float32 (frames, dim), new

    Raises
    ------
    ShapeError : statistics of another dimension
    NumericError : statistics of less than a frame, or that are not finite
    """
    if stats is None:
        stats = empty_stats(features.shape[1])
        accumulate_stats(features, stats)
    check_stats(stats, features.shape[1], norm_vars)
    count = _count(stats)
    mean = stats[0, :-1] / count
    scale = np.ones_like(mean)
    if norm_vars:
        deviation = np.sqrt(_floored(stats[1, :-1] / count - mean * mean))
        scale = deviation if reverse else 1.0 / deviation
    offset = mean if reverse else -mean * scale
    if not (np.isfinite(offset).all() and np.isfinite(scale).all()):
        raise NumericError("normalization statistics that are not finite", "check the features that they were made of")
    with np.errstate(all="ignore"):
        result = features * scale.astype(np.float32) if norm_vars else features.astype(np.float32)
        result += offset.astype(np.float32)
    return result


def sliding_mean_normalized(features: np.ndarray, window: int) -> np.ndarray:
    """Features less their mean over ``window`` frames around each, float32 (frames, dim).

    Near the beginning and the end the window is moved inside; of fewer frames the mean of all is taken. Kaldi:
    SlidingWindowCmn with ``center``.
    """
    count = len(features)
    firsts = np.clip(np.arange(count) - window // 2, 0, max(0, count - window))
    ends = np.minimum(firsts + window, count)
    sums = np.concatenate((np.zeros((1, features.shape[1])), np.cumsum(features, axis=0, dtype=np.float64)))
    means = (sums[ends] - sums[firsts]) / (ends - firsts)[:, None]
    return (features - means).astype(np.float32)


def _count(stats: np.ndarray) -> float:
    count = float(stats[0, -1])
    if not count >= 1.0:
        raise NumericError(f"Insufficient stats for cepstral mean and variance normalization: count = {count:g}")
    return count


def _floored(variances: np.ndarray) -> np.ndarray:
    low = np.flatnonzero(variances < VARIANCE_FLOOR)
    if len(low):
        logger.warning("Flooring cepstral variance from %g to %g in %d of the dimensions, the first being %d",
                       variances[low[0]], VARIANCE_FLOOR, len(low), low[0])
    return np.maximum(variances, VARIANCE_FLOOR)


# -- online ----------------------------------------------------------------------------------------------------------


class OnlineNormalizer:
    """Normalizes frame by frame, each with what was seen up to it; remembers a speaker's utterances.

    Called with a whole utterance, or given it in pieces: the result is the same, and memory does not grow.

    Parameters
    ----------
    global_stats : float64 (2, dim + 1), what is assumed while little was seen
    options : how much of the past counts

    Attributes
    ----------
    speaker_stats : float64 (2, dim + 1), of the speaker's utterances before this one

    Raises
    ------
    ShapeError, NumericError : statistics that cannot be used
    """

    def __init__(self, global_stats: np.ndarray, options: OnlineOptions) -> None:
        self.options = options
        self._dim = global_stats.shape[1] - 1
        check_stats(global_stats, self._dim)
        if not (np.isfinite(global_stats).all() and global_stats[0, -1] > 0.0):
            raise NumericError(f"global normalization statistics of {global_stats[0, -1]:g} frames, or not finite")
        self._global = np.require(global_stats, np.float64, ["C", "A", "W"])
        self.speaker_stats = empty_stats(self._dim)
        self._begin()

    def _begin(self) -> None:
        # Sums and sums of squares of the utterance up to each of its last frames, and up to the one before the oldest
        # of them. They are never restarted: after ten hours a window's sum has lost 6 of its 16 digits at most.
        self._totals = np.zeros((1, 2 * self._dim))      # with room for more; ``_end`` rows are used
        self._end = 1
        self._num_frames = 0

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """float32 (frames, dim), new. The utterance counts as the speaker's from then on. Raises ShapeError."""
        result = self.accept(features)
        self.finish()
        return result

    def accept(self, features: np.ndarray) -> np.ndarray:
        """The next frames of an utterance, float32 (frames, dim), normalized. Raises ShapeError."""
        if features.shape[1] != self._dim:
            raise ShapeError(f"features of dimension {features.shape[1]} cannot be added to normalization statistics "
                             f"of dimension {self._dim}")
        frames = np.require(features, np.float32, ["C", "A", "W"])
        self._add(frames)
        return self._normalized(frames) if self.options.norm_means else frames.copy()

    def _add(self, frames: np.ndarray) -> None:
        """Go on with the running sums; those before the window are overwritten when there is no room."""
        begin, end = self._end, self._end + len(frames)
        if end > len(self._totals):
            kept = self._totals[max(0, begin - self.options.cmn_window - 1):begin].copy()
            begin, end = len(kept), len(kept) + len(frames)
            if 2 * end > len(self._totals):
                self._totals = np.empty((2 * end, 2 * self._dim))
            self._totals[:begin] = kept
        _add_frames(frames, self._totals, begin)
        self._end = end
        self._num_frames += len(frames)

    def finish(self) -> None:
        """Say that the utterance is over; it then counts as the speaker's."""
        self.speaker_stats = self.stats()
        self._begin()

    def stats(self) -> np.ndarray:
        """float64 (2, dim + 1), new: of the speaker's utterances with this one as far as it was seen."""
        stats = self.speaker_stats.copy()
        stats[:, :-1] += self._totals[self._end - 1].reshape(2, -1)
        stats[0, -1] += self._num_frames
        return stats

    def _normalized(self, frames: np.ndarray) -> np.ndarray:
        """float32 (frames, dim), new: the last frames, each by what counts for it."""
        options, speaker = self.options, np.require(self.speaker_stats, np.float64, ["C", "A", "W"])
        result = np.empty_like(frames)
        most = min(options.speaker_frames, float(speaker[0, -1]))
        _normalize_frames(frames, self._totals, self._end, self._num_frames, options.cmn_window, speaker, most,
                          self._global, options.global_frames, options.norm_vars, VARIANCE_FLOOR, result)
        if options.skip_dims:
            skipped = list(options.skip_dims)
            fake_stats(self._global, skipped)        # raises the error that says what is wrong with them
            result[:, skipped] = frames[:, skipped]
        return result
