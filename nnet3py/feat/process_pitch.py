"""Pitch features for networks: voicing, log pitch minus its local mean, delta pitch. Interpolation of pitch.

Ghahremani et al., ICASSP 2014. Kaldi: ``OnlineProcessPitch``, ``interpolate-pitch``.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nnet3py.errors import ShapeError, UsageError
from nnet3py.feat.pitch import PitchStream, RowQueue
from nnet3py.feat.pitch_options import InterpolationOptions, PitchOptions, ProcessPitchOptions
from nnet3py.option_fields import OptionValue, with_values
from nnet3py.random_sequence import CRandom

_SEED = 0                  # of the random noise: the same for each sound
_DEFAULT_PITCH = 100.0    # Hz, if no frame of a sound is voiced
_EDGE_FACTOR = 0.9        # pitch at a sound's unvoiced beginning or end, as a part of the nearest pitch
_NOISE = 0.01             # standard deviation, added to log-likelihoods so that ties are not decided by the grid


def process_pitch_options(values: Mapping[str, OptionValue]) -> ProcessPitchOptions:
    """Make options from values by Kaldi's names.

    Parameters
    ----------
    values : for example ``{"delta-window": 3}``; Kaldi's defaults for the options that are not given

    Returns
    -------
    Options for :func:`process_pitch`.

    Raises
    ------
    UsageError : values out of range
    """
    options = with_values(ProcessPitchOptions(), values)
    options.check()
    return options


class _Processor:
    """Converter of raw pitch to features; it stores the random noise of each frame, so that repeated calls agree."""

    def __init__(self, options: ProcessPitchOptions) -> None:
        options.check()
        self._options = options
        self._generator = np.random.default_rng(_SEED)
        self._noise = RowQueue((), np.float64)

    def process(self, raw: np.ndarray, raw_first: int, frames: np.ndarray) -> np.ndarray:
        """Compute the features of the frames with numbers ``frames``, int64 (frames,): float32 (frames, dim).

        ``raw``, float32 (raw frames, 2), is NCCF and pitch of the frames from number ``raw_first`` on, which must
        include the context of ``frames`` (:attr:`context`) except beyond the ends of the sound.
        """
        options, rows = self._options, frames - raw_first
        nccf, logs = np.clip(raw[:, 0].astype(np.float64), -1.0, 1.0), np.log(raw[:, 1].astype(np.float64))
        columns = []
        if options.add_pov_feature:
            columns.append(options.pov_scale * ((1.0001 - nccf[rows]) ** 0.15 - 1.0) + options.pov_offset)
        if options.add_normalized_log_pitch:
            voiced = _voicing_probabilities(nccf)
            sums = np.cumsum(np.vstack((np.zeros((1, 2)), np.stack((voiced, voiced * logs), axis=1))), axis=0)
            begin = np.maximum(rows - options.normalization_left_context, 0)
            end = np.minimum(rows + options.normalization_right_context + 1, len(raw))
            weights, totals = (sums[end] - sums[begin]).T
            columns.append(options.pitch_scale * (logs[rows] - totals / weights))
        if options.add_delta_pitch:
            steps = np.arange(-options.delta_window, options.delta_window + 1)
            nearby = logs[np.clip(rows[:, None] + steps, 0, len(raw) - 1)]
            deltas = nearby @ (steps / np.square(steps).sum()) + self._noise_of(frames)
            columns.append(options.delta_pitch_scale * deltas)
        if options.add_raw_log_pitch:
            columns.append(logs[rows])
        return np.stack(columns, axis=1).astype(np.float32) if len(rows) else np.zeros((0, options.dim), np.float32)

    def _noise_of(self, frames: np.ndarray) -> np.ndarray | float:
        size = self._options.delta_pitch_noise_stddev
        if not size or not len(frames):
            return 0.0
        lacking = int(frames.max()) + 1 - len(self._noise)
        if lacking > 0:
            self._noise.append(self._generator.standard_normal(lacking))
        return np.asarray(size * self._noise.array[frames])

    @property
    def context(self) -> tuple[int, int]:
        """Numbers of frames before and after a frame that its features depend on."""
        options = self._options
        return (max(options.normalization_left_context, options.delta_window),
                max(options.normalization_right_context, options.delta_window))


def _voicing_probabilities(nccf: np.ndarray) -> np.ndarray:
    """Return the probability that each frame is voiced, float64 (frames,). Kaldi: NccfToPov."""
    size = np.abs(nccf)
    odds = -5.2 + 5.4 * np.exp(7.5 * (size - 1)) + 4.8 * size - 2 * np.exp(-10 * size) + 4.2 * np.exp(20 * (size - 1))
    return np.asarray(1 / (1 + np.exp(-odds)))


def process_pitch(raw: np.ndarray, options: ProcessPitchOptions) -> np.ndarray:
    """Compute pitch features for networks from the raw pitch of a whole sound. Kaldi: ProcessPitch.

    Parameters
    ----------
    raw : float (frames, 2), NCCF and pitch in Hz, the result of :func:`compute_pitch`
    options : options from :func:`process_pitch_options`

    Returns
    -------
    float32 (frames + delay, dim) : feature of voicing, log pitch minus its local mean, delta of the log pitch, log
        pitch; only those that the options select

    Raises
    ------
    ShapeError : an array of another shape
    UsageError : a pitch that is not above 0
    """
    raw = np.asarray(raw, dtype=np.float32)
    if raw.ndim != 2 or raw.shape[1] != 2:
        raise ShapeError(f"expected NCCF and pitch, (frames, 2), found an array of shape {raw.shape}")
    if not len(raw):
        return np.zeros((0, options.dim), dtype=np.float32)
    if not (raw[:, 1] > 0).all() or not np.isfinite(raw).all():
        raise UsageError("expected pitches above 0", "interpolate-pitch fills those that are 0")
    frames = np.maximum(np.arange(len(raw) + options.delay) - options.delay, 0)
    return _Processor(options).process(raw, 0, frames)


class ProcessedPitchStream:
    """Pitch features for networks of one stream of sound, as it arrives. Values may be revised later.

    ``pitch`` and ``process`` are options of the search for pitch, and of the features; UsageError for values out of
    range. ``dim`` is the number of columns.
    """

    def __init__(self, pitch: PitchOptions, process: ProcessPitchOptions) -> None:
        self._pitch, self._options, self._processor = PitchStream(pitch), process, _Processor(process)
        self.dim = process.dim
        self._is_finished = False

    @property
    def num_ready(self) -> int:
        """Number of frames that :meth:`frames` can return."""
        ready, options = self._pitch.num_ready, self._options
        if not ready:
            return 0
        if self._is_finished:
            return ready + options.delay
        return max(0, ready - options.normalization_right_context + options.delay)

    def accept(self, samples: np.ndarray) -> None:
        """Accept more sound, float32 (samples,) in the range of 16 bits. Raises NumericError for NaN or infinity."""
        self._pitch.accept(samples)

    def finish(self) -> None:
        """End the sound; afterwards all frames are ready, and their features final."""
        self._pitch.finish()
        self._is_finished = True

    def frames(self, first: int, end: int) -> np.ndarray:
        """Return the current features of frames: float32 (end - first, dim)."""
        if end <= first:
            return np.zeros((0, self.dim), dtype=np.float32)
        before, after = self._processor.context
        frames = np.maximum(np.arange(first, end) - self._options.delay, 0)
        begin = max(0, int(frames[0]) - before)
        raw = self._pitch.frames(begin, min(self._pitch.num_ready, int(frames[-1]) + after + 1))
        return self._processor.process(raw, begin, frames)


# -- interpolation -----------------------------------------------------------------------------------------------------


class InterpolatedPitch(NamedTuple):
    """Result of interpolation: features of voicing and pitch, float32 (frames, 2)."""

    features: np.ndarray
    num_zero: int           # frames whose pitch was 0
    num_changed: int        # other frames whose pitch was changed


def check_pitch(features: np.ndarray) -> np.ndarray:
    """Check features of voicing and pitch, (frames, 2); return a float32 copy.

    Raises ShapeError for an array of another shape, UsageError for a pitch that is neither 0 nor positive.
    """
    if features.ndim != 2 or features.shape[1] != 2 or not len(features):
        raise ShapeError(f"expected voicing and pitch, (frames, 2), found an array of shape {features.shape}")
    if not np.isfinite(features).all() or (features[:, 1] < 0).any():
        raise UsageError("expected finite voicing and pitches of 0 or above, found a negative pitch, NaN or infinity")
    return np.array(features, dtype=np.float32)


def interpolate_linearly(features: np.ndarray) -> np.ndarray:
    """Replace pitches of 0 by linear interpolation over time: float32 (frames, 2). Raises as :func:`check_pitch`."""
    result = check_pitch(features)
    pitch = result[:, 1]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], pitch == 0, [False]))))
    for begin, end in edges.reshape(-1, 2):
        # Kaldi does not count a pitch in the first frame of a sound.
        before, after = pitch[begin - 1] if begin > 1 else 0.0, pitch[end] if end < len(pitch) else 0.0
        if not before and not after:
            before = after = 1.0
        before, after = before or _EDGE_FACTOR * after, after or _EDGE_FACTOR * before
        steps = np.arange(1, end - begin + 1)
        pitch[begin:end] = before + (after - before) / (end - begin + 1) * steps
    return result


def interpolate_pitch(features: np.ndarray, options: InterpolationOptions, random: CRandom) -> InterpolatedPitch:
    """Find the likeliest smooth pitch by a Viterbi search, in which a change by d Hz between frames costs d² / 2.

    ``features`` are float (frames, 2), voicing from -1 to 1, and pitch in Hz, 0 where unknown. ``random`` draws the
    offset of each frame's grid, and noise. Raises as :func:`check_pitch`.
    """
    result = check_pitch(features)
    interval, pitch = np.float32(options.pitch_interval), result[:, 1]
    voicing = np.where(pitch == 0, np.float32(0), result[:, 0] * np.float32(options.max_voicing_prob))
    voiced = pitch[pitch > 0]
    low, high = (voiced.min(), voiced.max()) if len(voiced) else (_DEFAULT_PITCH, _DEFAULT_PITCH)
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
            scores = np.where(is_inside & ~np.isnan(likely[sources]),
                              likely[sources] - 0.5 * np.square(steps.astype(np.float64)), -np.inf).astype(np.float32)
            best = scores.argmax(axis=1)
            back[frame], likely = sources[np.arange(count), best], scores[np.arange(count), best]
        likely = likely + np.log(others[frame])
        likely[places[frame]] += ratios[frame]
        likely += np.float32(_NOISE) * random.normal_matrix(1, count)[0].astype(np.float32)
    # A voicing below 0 has no logarithm. Kaldi's search for the maximum stays at a NaN in the first place.
    state = 0 if np.isnan(likely[0]) else int(np.nanargmax(likely))
    path = np.zeros(len(pitch), dtype=np.int64)
    for frame in range(len(pitch) - 1, -1, -1):
        path[frame], state = state, int(back[frame, state])
    is_zero = places == 0
    result[:, 1] = lows + interval * path.astype(np.float32)
    return InterpolatedPitch(result, int(is_zero.sum()), int((~is_zero & (path != places)).sum()))
