"""Pitch of speech as sound arrives, with the normalized cross-correlation (NCCF), a measure of voicing.

Ghahremani, BabaAli, Povey, Riedhammer, Trmal and Khudanpur, "A pitch extraction algorithm tuned for automatic speech
recognition", ICASSP 2014. Kaldi: ``OnlinePitchFeature``.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import Nnet3Error, NumericError
from nnet3py.feat.pitch_options import PitchOptions
from nnet3py.feat.sound import Resampler, lowpass_filter
from nnet3py.option_fields import OptionValue, with_values

_LOOPS = "nnet3py.feat.loops"
_correlate = Loop(_LOOPS, "correlate_frames", "f4[] i8 i8[] i8[] i8 i8 f8 f4[] f4[,] f4[,]")
_normalize = Loop(_LOOPS, "normalize_correlations", "f4[,] f4[,] f8[] f4[,]")
_interpolate = Loop(_LOOPS, "interpolate_correlations", "f4[,] i4[] i4[] f4[,] f4[,]")
_interpolate_along = Loop(_LOOPS, "interpolate_along_path", "f4[,] i8[] i8[] i4[] i4[] f4[,] f4[]")
_search = Loop(_LOOPS, "search_pitch", "f4[,] f4[] f4 f4 f4[] i2[,] i8[] f8[] f4[]")
_follow = Loop(_LOOPS, "follow_ancestors", "i2[,] i2[] i2[]")
_trace = Loop(_LOOPS, "trace_path", "i2[,] i8[] i8 i8[]")
_meeting = Loop(_LOOPS, "paths_meeting", "i2[,] i8[] i8")

_BLOCK_FRAMES = 1000       # frames searched at a time
_SAME_LOUDNESS = 0.01      # relative change of the mean square up to which frames are not searched again
_LEAST_CAPACITY = 64       # rows


def pitch_options(values: Mapping[str, OptionValue]) -> PitchOptions:
    """Make options from values by Kaldi's names.

    Parameters
    ----------
    values : for example ``{"min-f0": 60}``; Kaldi's defaults for the options that are not given

    Returns
    -------
    Options for :func:`compute_pitch`.

    Raises
    ------
    UsageError : values out of range, or that contradict each other
    """
    options = with_values(PitchOptions(), values)
    options.check()
    return options


class _Lags:
    """Lags of the cross-correlation: whole samples, at which it is computed, and those of the states of the search.

    ``seconds``, float32 (states,), are the lags of the states, ascending. ``count`` lags are computed, the smallest of
    ``first`` samples. ``starts``, ``sizes`` and ``weights`` are arguments of
    :func:`~nnet3py.feat.loops.interpolate_correlations`.
    """

    def __init__(self, options: PitchOptions) -> None:
        rate, zeros = options.resample_frequency, options.upsample_filter_width
        shortest, longest = 1.0 / options.max_f0, np.float32(1.0 / options.min_f0)
        factor, lag, lags = 1.0 + float(np.float32(options.delta_pitch)), np.float32(shortest), []
        while lag <= longest:                  # the number of states depends on this rounding
            lags.append(lag)
            lag = np.float32(float(lag) * factor)
        self.seconds = np.array(lags, dtype=np.float32)
        edge = zeros / (2.0 * rate)
        self.first = max(1, math.ceil(rate * (shortest - edge)))
        self.count = math.floor(rate * (1.0 / options.min_f0 + edge)) - self.first + 1
        times = self.seconds.astype(np.float64)[:, None] - (self.first + np.arange(self.count)) / rate
        weights = lowpass_filter(times, rate / 2, zeros) / rate
        is_inside = np.abs(times) <= zeros / rate
        self.starts = is_inside.argmax(axis=1).astype(np.int32)
        self.sizes = is_inside.sum(axis=1).astype(np.int32)
        used = np.minimum(self.starts[:, None] + np.arange(self.sizes.max()), self.count - 1)
        self.weights = np.take_along_axis(weights, used, axis=1).astype(np.float32)


class _Early(NamedTuple):
    """Data of the first frames, which are searched again when the loudness of the sound is better known."""

    nccf: np.ndarray            # float32 (frames, states), with the ballast of the first search
    squares: np.ndarray         # float64 (frames,), variance of the signal from which the ballast was computed
    energies: np.ndarray        # float64 (frames,), mean of the products of energies over all lags


class RowQueue:
    """A queue of array rows of the given shape, () for numbers. Its capacity grows and shrinks with their number."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._storage = np.empty((_LEAST_CAPACITY, *shape), dtype=dtype)
        self._first = self._end = 0

    def __len__(self) -> int:
        return self._end - self._first

    @property
    def array(self) -> np.ndarray:
        """The rows, a view; later appends and drops do not change it."""
        return self._storage[self._first:self._end]

    @property
    def nbytes(self) -> int:
        """Bytes of memory, unused capacity included."""
        return self._storage.nbytes

    def append(self, rows: np.ndarray) -> None:
        """Append rows."""
        if self._end + len(rows) > len(self._storage):
            self._move(3 * (len(self) + len(rows)) // 2)
        self._storage[self._end:self._end + len(rows)] = rows
        self._end += len(rows)

    def drop(self, count: int) -> None:
        """Remove the first ``count`` rows."""
        self._first += count
        if len(self._storage) > max(3 * len(self), _LEAST_CAPACITY):
            self._move(max(3 * len(self) // 2, _LEAST_CAPACITY))

    def _move(self, room: int) -> None:
        rows = self.array
        self._storage = np.empty((room, *rows.shape[1:]), dtype=rows.dtype)
        self._storage[:len(rows)] = rows
        self._first, self._end = 0, len(rows)


class _FrameRows:
    """Queue with a row of ``dim`` elements for each frame; equal successive rows, as in silence, are stored once."""

    def __init__(self, dim: int, dtype: Any) -> None:
        self._rows, self._dropped = RowQueue((dim,), dtype), 0      # the stored rows, and the number of dropped ones
        self._places = RowQueue((), np.int64)        # for each frame, number of its row, dropped rows counted, too

    def __len__(self) -> int:
        return len(self._places)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, unused capacity included."""
        return self._rows.nbytes + self._places.nbytes

    def append(self, rows: np.ndarray) -> None:
        """Append rows of further frames, (frames, dim)."""
        bits = np.concatenate((self._rows.array[-1:], rows)).view(f"i{rows.itemsize}")      # -0 is not 0
        is_new = np.ones(len(rows), dtype=bool)
        is_new[len(rows) + 1 - len(bits):] = (bits[1:] != bits[:-1]).any(axis=1)
        self._places.append(self._dropped + len(self._rows) - 1 + np.cumsum(is_new))
        self._rows.append(rows[is_new])

    def drop(self, count: int) -> None:
        """Remove the first ``count`` frames."""
        self._places.drop(count)
        unused = int(self._places.array[0]) - self._dropped if len(self) else len(self._rows)
        self._rows.drop(unused)
        self._dropped += unused

    def between(self, first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all stored rows, a view; and int64 (end - first,), for each of the frames the index of its row."""
        return self._rows.array, self._places.array[first:end] - self._dropped


class PitchStream:
    """The pitch of one stream of sound. Results of a frame may be revised as more sound arrives.

    A frame is open until all paths of the search agree on it. From then on it is settled, and only its result is kept.
    In silence all frames may stay open; the work per piece of sound does not depend on their number. UsageError for
    options out of range.
    """

    def __init__(self, options: PitchOptions) -> None:
        options.check()
        self.options = options
        self._lags = lags = _Lags(options)
        self._resampler = Resampler(int(options.sample_frequency), int(options.resample_frequency),
                                    2 * options.lowpass_cutoff / min(options.sample_frequency,
                                                                     options.resample_frequency),
                                    options.lowpass_filter_width)
        self._full = options.window + lags.first + lags.count - 1
        self._signal, self._first = np.zeros(0, dtype=np.float32), 0       # samples from number _first on
        self._sums = np.zeros((1, 2))             # sums of samples and of their squares, before each of _signal
        num_states = len(lags.seconds)
        self._costs = np.zeros(num_states, dtype=np.float32)
        self._back = _FrameRows(num_states, np.int16)                      # back pointers of the open frames
        self._nccf = _FrameRows(lags.count, np.float32)                    # their NCCF without ballast
        self._settled = RowQueue((2,), np.float32)                         # results of the frames before them
        self._path = np.zeros(0, dtype=np.int64)                           # best path in the last frames, if traced
        # Number of the frames to be settled next, and for each state where its best path was in the last of them.
        self._num_waiting, self._ancestors = 0, np.arange(num_states, dtype=np.int16)
        self._early: list[_Early] = []
        self._may_revise = not options.nccf_ballast_online and options.recompute_frame > 0
        self._latency, self._is_finished = 0, False

    @property
    def num_frames(self) -> int:
        """Number of frames that were searched."""
        return len(self._settled) + len(self._back)

    @property
    def num_ready(self) -> int:
        """Number of frames that :meth:`frames` can return."""
        return self.num_frames - self._latency

    def accept(self, samples: np.ndarray) -> None:
        """Accept more sound, float32 (samples,) in the range of 16 bits. Raises NumericError for NaN or infinity."""
        samples = np.asarray(samples, dtype=np.float32)
        if not np.isfinite(samples).all():
            raise NumericError("NaN or infinity among the samples")
        self._accept(self._resampler.accept(samples))

    def finish(self) -> None:
        """End the sound; afterwards all frames are ready, and their results final."""
        if self._is_finished:
            return
        self._is_finished = True
        self._accept(self._resampler.finish())
        if self._may_revise:
            self._revise()
        self._latency = 0

    def frames(self, first: int, end: int) -> np.ndarray:
        """Return the current results of frames: NCCF, and pitch in Hz, float32 (end - first, 2)."""
        settled, skipped = self._settled.array[first:end], len(self._settled)
        if end <= max(first, skipped):
            return settled
        begin, num_open = max(0, first - skipped), len(self._back)
        if len(self._path) < num_open - begin:
            self._path = self._trace_back(begin, num_open, int(self._costs.argmin()))
        untraced = num_open - len(self._path)
        return np.concatenate((settled, self._results(begin, self._path[begin - untraced:end - skipped - untraced])))

    def _accept(self, signal: np.ndarray) -> None:
        """Append to the resampled signal, and continue the search over its new frames."""
        sums = np.cumsum(np.stack((signal, np.square(signal, dtype=np.float64)), axis=1), axis=0, dtype=np.float64)
        self._sums = np.concatenate((self._sums, sums + self._sums[-1]))
        self._signal = np.concatenate((self._signal, signal))
        total = self._first + len(self._signal)
        end = self._frames_in(total)
        while self.num_frames < end:
            before = self.num_frames
            until = min(end, before + _BLOCK_FRAMES)
            if self._may_revise:
                until = min(until, max(self.options.recompute_frame, before + 1))
            self._add(np.arange(before, until), total)
            if self._may_revise and until >= self.options.recompute_frame:
                self._revise()
            self._settle()
        keep = max(self._first, min(self._start_of(end), total))
        self._signal, self._sums = self._signal[keep - self._first:], self._sums[keep - self._first:]
        self._first = keep
        most, num_open = self.options.max_frames_latency, len(self._back)
        self._latency = 0
        if most and num_open and not self._is_finished:
            self._latency = int(_meeting(*self._back.between(max(0, num_open - most - 1), num_open), most))

    def _frames_in(self, total: int) -> int:
        """Return the number of frames in ``total`` samples."""
        options = self.options
        size = options.window if self._is_finished else self._full
        if total < size:
            return 0
        if options.snip_edges:
            return (total - size) // options.shift + 1
        return int((total if self._is_finished else total - size // 2) / options.shift + 0.5)

    def _start_of(self, frame: int) -> int:
        shift = self.options.shift
        return frame * shift if self.options.snip_edges else (2 * frame + 1) * shift // 2 - self._full // 2

    def _mean_squares(self, ends: np.ndarray) -> np.ndarray:
        """Return the variance of the signal from its beginning to each of the samples ``ends``: float64 (ends,)."""
        sums = self._sums[np.clip(ends - self._first, 0, len(self._signal))] / np.maximum(ends, 1)[:, None]
        return np.asarray(sums[:, 1] - np.square(sums[:, 0]))

    def _add(self, frames: np.ndarray, total: int) -> None:
        """Compute the NCCF of the next frames, int (frames,), and continue the search over them.

        ``total`` is the number of samples of the signal so far.
        """
        options, lags = self.options, self._lags
        starts = np.array([self._start_of(int(frame)) for frame in frames], dtype=np.int64)
        ends = np.full(len(frames), total, dtype=np.int64)
        shape = (len(frames), lags.count)
        correlations, energies = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32)
        _correlate(self._signal, self._first, starts, ends, options.window, lags.first,
                   float(options.preemphasis_coefficient), np.empty(self._full, dtype=np.float32), correlations,
                   energies)
        squares = self._mean_squares(np.minimum(starts + self._full, total) if options.nccf_ballast_online else ends)
        with_ballast, without = np.empty((2, *shape), dtype=np.float32)
        _normalize(correlations, energies, self._ballasts(squares), with_ballast)
        _normalize(correlations, energies, np.zeros(len(frames)), without)
        nccf = np.empty((len(frames), len(lags.seconds)), dtype=np.float32)
        _interpolate(with_ballast, lags.starts, lags.sizes, lags.weights, nccf)
        self._search(nccf)
        self._nccf.append(without)
        if self._may_revise:
            self._early.append(_Early(nccf, squares, energies.mean(axis=1, dtype=np.float64)))

    def _ballasts(self, squares: np.ndarray) -> np.ndarray:
        return self.options.nccf_ballast * np.square(squares * self.options.window)

    def _search(self, nccf: np.ndarray) -> None:
        """Continue the Viterbi search over frames, given their NCCF, float32 (frames, states)."""
        options, states = self.options, nccf.shape[1]
        back = np.empty(nccf.shape, dtype=np.int16)
        # Without a cost of changes all back pointers would be equally good; a tiny cost prefers the nearest state.
        cost = max(options.penalty_factor * math.log1p(options.delta_pitch) ** 2, 1e-12)
        _search(nccf, self._lags.seconds, float(options.soft_min_f0), cost, self._costs, back,
                np.empty(states, dtype=np.int64), np.empty(states + 1), np.empty(states, dtype=np.float32))
        _follow(back, self._ancestors, np.empty(states, dtype=np.int16))
        self._back.append(back)
        self._path = self._path[:0]

    def _revise(self) -> None:
        """Repeat the search over the first frames, with the ballast for the loudness of all sound so far.

        Nothing is done if the loudness is about the same as in the first search.
        """
        self._may_revise = False
        if not self._early:
            return
        nccf, squares, energies = (np.concatenate(parts) for parts in zip(*self._early, strict=True))
        self._early = []
        now = float(self._mean_squares(np.array([self._first + len(self._signal)]))[0])
        if (np.abs(squares - now) <= _SAME_LOUDNESS * (np.abs(squares) + abs(now))).all():
            return
        before, after = self._ballasts(squares), float(self._ballasts(np.array([now]))[0])
        below = energies + after
        factors = np.sqrt(np.divide(energies + before, below, out=np.ones_like(below), where=below > 0))
        nccf *= factors[:, None].astype(np.float32)
        self._costs[:] = 0
        self._back.drop(len(self._back))
        self._begin_waiting()
        self._search(nccf)

    def _trace_back(self, first: int, end: int, state: int) -> np.ndarray:
        """Return the best path through open frames that ends in ``state``: int64 (end - first,), the states."""
        back, places = self._back.between(first, end)
        states = np.empty(end - first, dtype=np.int64)
        _trace(back, places, state, states)
        return states

    def _results(self, first: int, states: np.ndarray) -> np.ndarray:
        """Return NCCF and pitch in Hz along a path through open frames, the first of which is frame ``first``.

        ``states`` is int64 (frames,), the state of each frame; the result float32 (frames, 2).
        """
        lags, nccf = self._lags, np.empty(len(states), dtype=np.float32)
        _interpolate_along(*self._nccf.between(first, first + len(states)), states, lags.starts, lags.sizes,
                           lags.weights, nccf)
        return np.stack((nccf, 1 / lags.seconds[states]), axis=1)

    def _settle(self) -> None:
        """Replace open frames on which all paths agree by their results."""
        if self._may_revise or (self._ancestors != self._ancestors[0]).any():
            return
        count = self._num_waiting
        if count:
            self._settled.append(self._results(0, self._trace_back(0, count, int(self._ancestors[0]))))
            self._back.drop(count)
            self._nccf.drop(count)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Mark all open frames as those to settle next: when all best paths share a state in the last of them."""
        self._num_waiting = len(self._back)
        self._ancestors[:] = np.arange(len(self._ancestors))


def compute_pitch(samples: np.ndarray, rate: float, options: PitchOptions | None = None) -> np.ndarray:
    """Compute the pitch of a whole sound. Kaldi: ComputeKaldiPitch.

    Parameters
    ----------
    samples : float32 (samples,) in the range of 16 bits
    rate : samples per second; must be the rate in the options
    options : options from :func:`pitch_options`; None: Kaldi's defaults, at this rate

    Returns
    -------
    float32 (frames, 2) : NCCF, from -1 to 1, near 1 where the sound is periodic; and the pitch in Hz. A frame for
        each 10 ms

    Raises
    ------
    Nnet3Error : another rate than that of the options
    NumericError : NaN or infinity among the samples
    """
    options = pitch_options({"sample-frequency": rate}) if options is None else options
    return frames_of_sound(PitchStream(options), samples, rate, options)


def frames_of_sound(stream: Any, samples: np.ndarray, rate: float, options: PitchOptions) -> np.ndarray:
    """Pass a whole sound to a PitchStream or ProcessedPitchStream, and return all its frames.

    With the option ``frames_per_chunk``, the sound is passed in pieces. With ``simulate_first_pass_online``, the result
    of each frame is the first one that the stream has for it. Raises Nnet3Error for another rate than in the options.
    """
    if rate != options.sample_frequency:
        raise Nnet3Error(f"the sound has {rate:g} samples a second, --sample-frequency is {options.sample_frequency:g}")
    size = int(options.frames_per_chunk * options.sample_frequency * 0.001 * options.frame_shift) or len(samples)
    parts, done = [], 0
    for begin in range(0, len(samples), max(size, 1)):
        stream.accept(samples[begin:begin + size])
        if begin + size >= len(samples):
            stream.finish()
        if options.simulate_first_pass_online:
            parts.append(stream.frames(done, max(done, stream.num_ready)).copy())
            done += len(parts[-1])
    if options.simulate_first_pass_online and parts:
        return np.concatenate(parts)
    stream.finish()
    result: np.ndarray = stream.frames(0, stream.num_ready)
    return result
