"""Pitch where none was found: lines across the gaps, or the likeliest smooth curve. Kaldi: ``interpolate-pitch``."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.errors import ShapeError, UsageError
from nnet3py.feat.pitch_options import InterpolationOptions
from nnet3py.random_sequence import CRandom

_UNVOICED = 100.0         # Hz, where no frame of a sound is voiced
_BEYOND = 0.9             # of the nearest pitch, at a sound's unvoiced beginning or end
_NOISE = 0.01             # of log-likelihoods, so that ties are not decided by the grid


class Interpolated(NamedTuple):
    """Features, float32 (frames, 2), and how many frames had no pitch, and had one that was changed."""

    features: np.ndarray
    num_zero: int
    num_changed: int


def check_pitch(features: np.ndarray) -> np.ndarray:
    """float32 (frames, 2), new; ShapeError for another shape, UsageError for pitches that are not 0 or positive."""
    if features.ndim != 2 or features.shape[1] != 2 or not len(features):
        raise ShapeError(f"expected voicing and pitch, (frames, 2), found an array of shape {features.shape}")
    if not np.isfinite(features).all() or (features[:, 1] < 0).any():
        raise UsageError("expected pitches of 0 or above, found others or NaN")
    return np.array(features, dtype=np.float32)


def interpolated_by_lines(features: np.ndarray) -> np.ndarray:
    """float32 (frames, 2): lines across the frames whose pitch is 0. Raises as :func:`check_pitch`."""
    result = check_pitch(features)
    pitch = result[:, 1]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], pitch == 0, [False]))))
    for begin, end in edges.reshape(-1, 2):
        # Kaldi takes the first frame of a sound for none.
        before, after = pitch[begin - 1] if begin > 1 else 0.0, pitch[end] if end < len(pitch) else 0.0
        if not before and not after:
            before = after = 1.0
        before, after = before or _BEYOND * after, after or _BEYOND * before
        steps = np.arange(1, end - begin + 1)
        pitch[begin:end] = before + (after - before) / (end - begin + 1) * steps
    return result


def interpolated(features: np.ndarray, options: InterpolationOptions, random: CRandom) -> Interpolated:
    """The likeliest curve: float32 (frames, 2), voicing and pitch in Hz; ``random`` places the grid of each frame.

    A step of the curve costs half its square in Hz. Raises as :func:`check_pitch`.
    """
    result = check_pitch(features)
    interval, pitch = np.float32(options.pitch_interval), result[:, 1]
    voicing = np.where(pitch == 0, np.float32(0), result[:, 0] * np.float32(options.max_voicing_prob))
    voiced = pitch[pitch > 0]
    low, high = (voiced.min(), voiced.max()) if len(voiced) else (_UNVOICED, _UNVOICED)
    high = max(high, low + 2 * interval)
    count = int((high - low) / interval + 0.5) + 2
    lows = np.array([low - interval * np.float32(random.uniform()) for _ in pitch], dtype=np.float32)
    places = np.where(pitch == 0, 0, np.floor((pitch - lows) / interval + 0.5)).astype(np.int64)
    others = ((1 - voicing) * np.float32(options.interpolator_factor)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        ratios = np.log((voicing + others) / others)
    reach = int(options.max_pitch_change_per_frame / options.pitch_interval + 0.5)
    sources = np.arange(count)[:, None] + np.arange(-reach, reach + 1)
    is_inside = (sources >= 0) & (sources < count)
    sources = np.clip(sources, 0, count - 1)
    back = np.zeros((len(pitch), count), dtype=np.int64)
    grid = np.arange(count, dtype=np.float32) * interval
    likely = np.zeros(count, dtype=np.float32)
    for frame in range(len(pitch)):
        if frame:
            steps = lows[frame - 1] + grid[sources] - (lows[frame] + grid)[:, None]
            ways = np.where(is_inside & ~np.isnan(likely[sources]),
                            likely[sources] - 0.5 * np.square(steps.astype(np.float64)), -np.inf).astype(np.float32)
            best = ways.argmax(axis=1)
            back[frame], likely = sources[np.arange(count), best], ways[np.arange(count), best]
        likely = likely + np.log(others[frame])
        likely[places[frame]] += ratios[frame]
        likely += np.float32(_NOISE) * random.normal_matrix(1, count)[0].astype(np.float32)
    # A voicing below 0 has no logarithm. Kaldi's search for the largest stays at a NaN that comes first.
    state = 0 if np.isnan(likely[0]) else int(np.nanargmax(likely))
    path = np.zeros(len(pitch), dtype=np.int64)
    for frame in range(len(pitch) - 1, -1, -1):
        path[frame], state = state, int(back[frame, state])
    is_zero = places == 0
    result[:, 1] = lows + interval * path.astype(np.float32)
    return Interpolated(result, int(is_zero.sum()), int((~is_zero & (path != places)).sum()))
