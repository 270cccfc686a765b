"""Mean and variance normalization of features: over utterances or speakers, online, and over a sliding window.

Statistics are float64 (2, dim + 1): in row 0 the sums of the features and, in the last column, the weighted number of
frames; in row 1 the sums of squares. Kaldi: ``cmvn.h``, ``OnlineCmvn``, ``SlidingWindowCmn``.
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
_SLIDING_VARIANCE_FLOOR = 1e-10
_add_frames = Loop("nnet3py.feat.loops", "add_frames", "f4[,] f8[,] i8")
_normalize_frames = Loop("nnet3py.feat.loops", "normalize_frames",
                         "f4[,] f8[,] i8 i8 i8 f8[,] f8 f8[,] f8 b1 f8 f4[,]")


def empty_stats(dim: int) -> np.ndarray:
    """Return normalization statistics of no frames.

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
    weights : float (frames,), weight of each frame; None: 1

    Raises
    ------
    ShapeError : features of another dimension than the statistics
    """
    if stats.shape != (2, features.shape[1] + 1):
        raise ShapeError(f"expected features of dimension {stats.shape[1] - 1}, as the normalization statistics have, "
                         f"found dimension {features.shape[1]}")
    with np.errstate(all="ignore"):
        frames = features.astype(np.float64)
        weighted = frames if weights is None else frames * np.asarray(weights, dtype=np.float64)[:, None]
        stats[0, :-1] += weighted.sum(axis=0)
        stats[1, :-1] += np.einsum("td,td->d", weighted, frames)
        stats[0, -1] += len(features) if weights is None else float(np.sum(weights, dtype=np.float64))


def fake_stats(stats: np.ndarray, dims: Sequence[int]) -> np.ndarray:
    """Return a copy of ``stats`` with mean 0 and variance 1 in some dimensions, which normalization does not change.

    Raises UsageError for a dimension in ``dims`` that does not exist. Kaldi: FakeStatsForSomeDims.
    """
    columns = list(dims)
    dim = stats.shape[1] - 1
    if columns and not (0 <= min(columns) and max(columns) < dim):
        raise UsageError(f"expected dimensions to skip from 0 to {dim - 1}, found {min(columns)} to {max(columns)}")
    check_stats(stats, dim)
    result = stats.copy()
    result[0, columns] = 0.0
    result[1:, columns] = stats[0, -1]
    return result


def mean_and_variance(stats: np.ndarray) -> np.ndarray:
    """Return float64 (2, dim): means, and variances. Raises NumericError for statistics of less than one frame."""
    check_stats(stats, stats.shape[1] - 1)
    mean, second = stats[:, :-1] / _frame_count(stats)
    return np.stack([mean, second - mean * mean])


def check_stats(stats: np.ndarray, dim: int, variance: bool = True) -> None:
    """Raise ShapeError if ``stats`` are not of dimension ``dim``, or lack the sums of squares that ``variance`` needs.
    """
    if stats.shape not in ((2, dim + 1), (2 if variance else 1, dim + 1)) or dim < 1:
        raise ShapeError(f"normalization statistics of {stats.shape[0]} x {stats.shape[1]} numbers do not fit features "
                         f"of dimension {dim}; expected 2 x {dim + 1}")


def normalize(features: np.ndarray, stats: np.ndarray | None = None, norm_vars: bool = False,
              reverse: bool = False) -> np.ndarray:
    """Normalize features to mean 0 and, with ``norm_vars``, variance 1. Kaldi: ApplyCmvn, ApplyCmvnReverse.

    Parameters
    ----------
    features : float (frames, dim)
    stats : float64 (2, dim + 1), of the utterance or the speaker; None: statistics of these features
    norm_vars : whether to normalize the variances, too
    reverse : whether to undo a normalization: normalized features get the mean (and variance) of ``stats``

    Returns
    -------
    float32 (frames, dim), new

    Raises
    ------
    ShapeError : statistics of another dimension
    NumericError : statistics of less than a frame, or with NaN or infinity
    """
    if stats is None:
        stats = empty_stats(features.shape[1])
        accumulate_stats(features, stats)
    check_stats(stats, features.shape[1], norm_vars)
    count = _frame_count(stats)
    mean = stats[0, :-1] / count
    scale = np.ones_like(mean)
    if norm_vars:
        deviation = np.sqrt(_floored_variances(stats[1, :-1] / count - mean * mean))
        scale = deviation if reverse else 1.0 / deviation
    offset = mean if reverse else -mean * scale
    if not (np.isfinite(offset).all() and np.isfinite(scale).all()):
        raise NumericError("the normalization statistics have NaN or infinity",
                           "look for NaN or infinity in the features that they were accumulated from")
    with np.errstate(all="ignore"):
        result = features * scale.astype(np.float32) if norm_vars else features.astype(np.float32)
        result += offset.astype(np.float32)
    return result


def _frame_count(stats: np.ndarray) -> float:
    count = float(stats[0, -1])
    if not count >= 1.0:
        raise NumericError(f"Insufficient stats for cepstral mean and variance normalization: count = {count:g}")
    return count


def _floored_variances(variances: np.ndarray) -> np.ndarray:
    low = np.flatnonzero(variances < VARIANCE_FLOOR)
    if len(low):
        logger.warning("Flooring cepstral variance from %g to %g in %d of the dimensions, the first being %d",
                       variances[low[0]], VARIANCE_FLOOR, len(low), low[0])
    return np.maximum(variances, VARIANCE_FLOOR)


# -- online ----------------------------------------------------------------------------------------------------------


class OnlineNormalizer:
    """Online normalization: each frame is normalized by a window that ends with it. Kaldi: OnlineCmvn.

    To a window of too few frames, statistics of the speaker's earlier utterances are added, then global ones.
    A whole utterance (a call) and the same utterance in pieces (``accept``, ``finish``) give the same result; memory
    does not grow with the utterance.

    Parameters
    ----------
    global_stats : float64 (2, dim + 1), statistics of much speech
    options : lengths of the window and of its filling

    Attributes
    ----------
    speaker_stats : float64 (2, dim + 1), statistics of the speaker's earlier utterances

    Raises
    ------
    ShapeError : global statistics without sums of squares
    NumericError : global statistics of no frames, or with NaN or infinity
    """

    def __init__(self, global_stats: np.ndarray, options: OnlineOptions) -> None:
        self.options = options
        self._dim = global_stats.shape[1] - 1
        check_stats(global_stats, self._dim)
        if not (np.isfinite(global_stats).all() and global_stats[0, -1] > 0.0):
            raise NumericError(f"expected finite global normalization statistics of some frames, found "
                               f"{global_stats[0, -1]:g} frames, or NaN or infinity among the sums")
        self._global = np.require(global_stats, np.float64, ["C", "A", "W"])
        self.speaker_stats = empty_stats(self._dim)
        self._begin()

    def _begin(self) -> None:
        # Row t: sums and sums of squares from the utterance's beginning to a frame. Rows older than the window are
        # dropped. The sums are never restarted: after ten hours a window's sum has lost 6 of its 16 digits at most.
        self._totals = np.zeros((1, 2 * self._dim))      # of which ``_end`` rows are in use
        self._end = 1
        self._num_frames = 0

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Normalize a whole utterance, and add it to the speaker's statistics.

        Parameters
        ----------
        features : float (frames, dim)

        Returns
        -------
        float32 (frames, dim), new

        Raises
        ------
        ShapeError : features of another dimension than the statistics
        """
        result = self.accept(features)
        self.finish()
        return result

    def accept(self, features: np.ndarray) -> np.ndarray:
        """Normalize the next frames of an utterance, float (frames, dim); return them, float32 (frames, dim).

        Raises ShapeError for features of another dimension than the statistics.
        """
        if features.shape[1] != self._dim:
            raise ShapeError(f"expected features of dimension {self._dim}, as the normalization statistics have, found "
                             f"dimension {features.shape[1]}")
        frames = np.require(features, np.float32, ["C", "A", "W"])
        self._add(frames)
        return self._normalize(frames) if self.options.norm_means else frames.copy()

    def _add(self, frames: np.ndarray) -> None:
        """Append the running sums of frames, float32 (frames, dim); in a full buffer, drop rows before the window."""
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
        """End the utterance, and add it to the speaker's statistics."""
        self.speaker_stats = self.stats()
        self._begin()

    def stats(self) -> np.ndarray:
        """Return statistics of the speaker's utterances, the current one included: float64 (2, dim + 1), new."""
        stats = self.speaker_stats.copy()
        stats[:, :-1] += self._totals[self._end - 1].reshape(2, -1)
        stats[0, -1] += self._num_frames
        return stats

    def _normalize(self, frames: np.ndarray) -> np.ndarray:
        options, speaker = self.options, np.require(self.speaker_stats, np.float64, ["C", "A", "W"])
        result = np.empty_like(frames)
        speaker_frames = min(options.speaker_frames, float(speaker[0, -1]))
        _normalize_frames(frames, self._totals, self._end, self._num_frames, options.cmn_window, speaker,
                          speaker_frames, self._global, options.global_frames, options.norm_vars, VARIANCE_FLOOR,
                          result)
        if options.skip_dims:
            skipped = list(options.skip_dims)
            fake_stats(self._global, skipped)        # for its UsageError about dimensions that do not exist
            result[:, skipped] = frames[:, skipped]
        return result


# -- sliding window ----------------------------------------------------------------------------------------------------


def normalize_sliding(features: np.ndarray, window: int = 600, least_window: int = 100, center: bool = False,
                      norm_vars: bool = False) -> np.ndarray:
    """Subtract from each frame the mean over a window around it, or ending with it. Kaldi: SlidingWindowCmn.

    Parameters
    ----------
    features : float (frames, dim)
    window : frames of the window; without ``center``, frames before the frame itself. At the ends of the utterance a
        centered window is moved inside
    least_window : without ``center``, smallest number of frames of a window at the beginning
    center : whether the window is around the frame, or ends with it
    norm_vars : whether to divide by the standard deviation in the window, too

    Returns
    -------
    float32 (frames, dim)

    Raises
    ------
    UsageError : a window without a frame
    NumericError : NaN or infinity among the features
    """
    if window < 1 or least_window < 1:
        raise UsageError(f"expected windows of 1 frame or more, found --cmn-window={window} "
                         f"--min-cmn-window={least_window}")
    count, dim = features.shape
    if not np.isfinite(features).all():
        raise NumericError("the features have NaN or infinity", "look for NaN or infinity in the sound")
    t = np.arange(count)
    firsts = t - window // 2 if center else t - window
    ends = firsts + window - np.minimum(firsts, 0) if center else np.maximum(t + 1, least_window)
    firsts = np.maximum(firsts, 0)
    beyond = np.maximum(ends - count, 0)
    firsts, ends = np.maximum(firsts - beyond, 0), ends - beyond
    sizes = (ends - firsts)[:, None]
    middle = features.mean(axis=0, dtype=np.float64)         # sums of values around 0 keep more digits
    centered = features - middle
    sums = np.concatenate((np.zeros((1, dim)), np.cumsum(centered, axis=0)))
    means = (sums[ends] - sums[firsts]) / sizes
    result = centered - means
    if norm_vars:
        squares = np.concatenate((np.zeros((1, dim)), np.cumsum(centered * centered, axis=0)))
        variances = (squares[ends] - squares[firsts]) / sizes - means * means
        result = np.where(sizes > 1, result / np.sqrt(np.maximum(variances, _SLIDING_VARIANCE_FLOOR)), 0.0)
    return result.astype(np.float32)


def weights_of_two_channels(first: np.ndarray, other: np.ndarray, quieter: float) -> tuple[np.ndarray, np.ndarray]:
    """Return weights of frames, float64 (frames,) each, for the normalization statistics of two channels.

    Column 0 of the features, float (frames, dim), is the log-energy. Frames in which the other channel is louder have
    the weight ``quieter``; others, and frames that only one channel has, 1.
    """
    both = min(len(first), len(other))
    first_is_louder = first[:both, 0] > other[:both, 0]
    weights = np.ones(len(first)), np.ones(len(other))
    weights[0][:both][~first_is_louder] = quieter
    weights[1][:both][first_is_louder] = quieter
    return weights
