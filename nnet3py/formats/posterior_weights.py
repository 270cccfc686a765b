"""Posteriors weighted, summed, and made from log-probabilities. Kaldi: ``posterior.h``."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.formats.posteriors import Posterior


def _frames(posterior: Posterior) -> np.ndarray:
    """int64 (entries,): the frame of each entry."""
    return np.repeat(np.arange(len(posterior)), np.diff(posterior.row_starts))


def _kept(posterior: Posterior, keep: np.ndarray, ids: np.ndarray, weights: np.ndarray) -> Posterior:
    """Those entries that ``keep`` marks, with other ids and weights."""
    starts = np.concatenate(([0], np.cumsum(keep)))[posterior.row_starts]
    return Posterior(starts, ids[keep], weights[keep])


def weighted_entries(posterior: Posterior, marked: np.ndarray, weight: float) -> Posterior:
    """Marked entries times ``weight``; with weight 0 they are left out. Kaldi: WeightSilencePost.

    ``marked`` bool (entries,).
    """
    weights = np.where(marked, posterior.weights * np.float32(weight), posterior.weights)
    return _kept(posterior, ~marked | (weight != 0.0), posterior.ids, weights)


def weighted_frames(posterior: Posterior, marked: np.ndarray, weight: float) -> Posterior:
    """Frames times the mean of ``weight`` and 1, by how much of them is marked. Kaldi: WeightSilencePostDistributed.

    Nnet3Error for negative posteriors.
    """
    frames, values = _frames(posterior), posterior.weights.astype(np.float64)
    if (values < 0).any():
        raise Nnet3Error("negative posteriors cannot be distributed", "look for what made them")
    silence = np.bincount(frames, np.where(marked, values, 0.0), minlength=len(posterior))
    total = np.bincount(frames, values, minlength=len(posterior))
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.where(total > 0, (silence * weight + (total - silence)) / total, 1.0).astype(np.float32)
    return scaled_frames(posterior, factors)


def scaled_frames(posterior: Posterior, factors: np.ndarray) -> Posterior:
    """Frames times ``factors`` float32 (frames,); frames of factor 0 become empty."""
    of_entries = factors[_frames(posterior)]
    return _kept(posterior, of_entries != 0.0, posterior.ids, posterior.weights * of_entries)


def frame_sums(posterior: Posterior) -> np.ndarray:
    """float32 (frames,), the sum of each frame's weights. Kaldi: PosteriorToWeights."""
    return np.bincount(_frames(posterior), posterior.weights, minlength=len(posterior)).astype(np.float32)


def summed_by_id(posterior: Posterior, ids: np.ndarray) -> Posterior:
    """Entries of one frame with equal new ``ids`` int (entries,) added; sums of 0 are left out, ids ascend."""
    keys = np.column_stack((_frames(posterior), ids)).reshape(-1, 2)
    pairs, places = np.unique(keys, axis=0, return_inverse=True)
    sums = np.bincount(places.ravel(), posterior.weights, minlength=len(pairs)).astype(np.float32)
    keep = sums != 0.0
    starts = np.searchsorted(pairs[keep, 0], np.arange(len(posterior) + 1))
    return Posterior(starts, pairs[keep, 1], sums[keep])


def of_log_probs(log_probs: np.ndarray, least: float, uniform: Callable[[], float] | None) -> Posterior:
    """Posteriors from log-probabilities, float32 (frames, ids); ids are columns, counted from 0.

    Values below ``least`` are left out, or, with ``uniform`` to draw from, raised to it so often that the mean is kept.
    """
    with np.errstate(over="ignore", under="ignore"):
        posteriors = np.exp(log_probs)
    if not np.isfinite(posteriors).all():
        raise Nnet3Error("expected log-probabilities, found values whose exponential is not finite")
    keep = posteriors >= np.float32(least)
    if uniform is not None and least > 0:
        small = ~keep
        drawn = np.array([uniform() for _ in range(int(np.count_nonzero(small)))])
        raised = np.zeros_like(keep)
        raised[small] = posteriors[small] / least >= drawn
        posteriors = np.where(raised, np.float32(least), posteriors)
        keep |= raised
    frames, ids = np.nonzero(keep)
    return Posterior(np.searchsorted(frames, np.arange(len(log_probs) + 1)), ids, posteriors[keep])
