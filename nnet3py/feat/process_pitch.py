"""What networks are given of pitch: how likely a frame is voiced, the log pitch less its mean nearby, its change.

Ghahremani et al. 2014. Kaldi: ``OnlineProcessPitch``.
"""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnet3py.errors import ShapeError, UsageError
from nnet3py.feat.pitch import PitchStream, Rows
from nnet3py.feat.pitch_options import PitchOptions, ProcessPitchOptions
from nnet3py.option_fields import OptionValue, with_values

_SEED = 0                  # of the noise: the same for each sound


def process_pitch_options(values: Mapping[str, OptionValue]) -> ProcessPitchOptions:
    """Options from values by Kaldi's names.

    Parameters
    ----------
    values : such as ``{"delta-window": 3}``; Kaldi's defaults for those not given

    Returns
    -------
    For :func:`process_pitch`.

    Raises
    ------
    UsageError : values out of range
    """
    options = with_values(ProcessPitchOptions(), values)
    options.check()
    return options


class _Processor:
    """Makes features of the pitch that is known; the noise of a frame is drawn once."""

    def __init__(self, options: ProcessPitchOptions) -> None:
        options.check()
        self._options = options
        self._generator = np.random.default_rng(_SEED)
        self._noise = Rows((), np.float64)

    def process(self, raw: np.ndarray, raw_first: int, frames: np.ndarray) -> np.ndarray:
        """float32 (frames, dim).

        Parameters
        ----------
        raw, raw_first : float32 (frames, 2), NCCF and pitch of the frames from number ``raw_first`` on, as far as the
            contexts of ``frames`` reach; those that there are not were not heard
        frames : int64, numbers
        """
        options, rows = self._options, frames - raw_first
        nccf, logs = np.clip(raw[:, 0].astype(np.float64), -1.0, 1.0), np.log(raw[:, 1].astype(np.float64))
        columns = []
        if options.add_pov_feature:
            columns.append(options.pov_scale * ((1.0001 - nccf[rows]) ** 0.15 - 1.0) + options.pov_offset)
        if options.add_normalized_log_pitch:
            voiced = _voicing(nccf)
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
        """Frames before and after a frame that it is made of."""
        options = self._options
        return (max(options.normalization_left_context, options.delta_window),
                max(options.normalization_right_context, options.delta_window))


def _voicing(nccf: np.ndarray) -> np.ndarray:
    """float64: the probability that a frame is voiced."""
    size = np.abs(nccf)
    odds = -5.2 + 5.4 * np.exp(7.5 * (size - 1)) + 4.8 * size - 2 * np.exp(-10 * size) + 4.2 * np.exp(20 * (size - 1))
    return np.asarray(1 / (1 + np.exp(-odds)))


def process_pitch(raw: np.ndarray, options: ProcessPitchOptions) -> np.ndarray:
    """What networks are given of the pitch of a whole sound. Kaldi: ProcessPitch.

    Parameters
    ----------
    raw : float (frames, 2), NCCF and pitch in Hz, as :func:`compute_pitch` gives them
    options : :func:`process_pitch_options` makes them

    Returns
    -------
    float32 (frames + delay, dim) : how likely a frame is voiced, log pitch less its mean nearby, its change; as far as
    the options ask for them

    Raises
    ------
    ShapeError : another shape
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
    """What networks are given of the pitch of one stream of sound, as it arrives. Values may be revised later.

    Parameters
    ----------
    pitch, process : raises UsageError for options that cannot be used

    Attributes
    ----------
    dim : columns of the frames
    """

    def __init__(self, pitch: PitchOptions, process: ProcessPitchOptions) -> None:
        self._pitch, self._options, self._processor = PitchStream(pitch), process, _Processor(process)
        self.dim = process.dim
        self._is_finished = False

    @property
    def num_ready(self) -> int:
        """Frames that may be asked for."""
        ready, options = self._pitch.num_ready, self._options
        if not ready:
            return 0
        if self._is_finished:
            return ready + options.delay
        return max(0, ready - options.normalization_right_context + options.delay)

    def accept(self, samples: np.ndarray) -> None:
        """Take float32 (samples,) of the range of 16 bits. NumericError for NaN or infinity."""
        self._pitch.accept(samples)

    def finish(self) -> None:
        """Say that there is no more sound: all frames are ready, and final."""
        self._pitch.finish()
        self._is_finished = True

    def frames(self, first: int, end: int) -> np.ndarray:
        """float32 (end - first, dim), as known now."""
        if end <= first:
            return np.zeros((0, self.dim), dtype=np.float32)
        before, after = self._processor.context
        frames = np.maximum(np.arange(first, end) - self._options.delay, 0)
        begin = max(0, int(frames[0]) - before)
        raw = self._pitch.frames(begin, min(self._pitch.num_ready, int(frames[-1]) + after + 1))
        return self._processor.process(raw, begin, frames)
