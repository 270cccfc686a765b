"""Windows of sound, mel filters, and Kaldi's Fourier transform.

Kaldi: ``feature-window.h``, ``mel-computations.h``, ``srfft.h``.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import UsageError

_apply_filters = Loop("nnet3py.feat.loops", "apply_filters", "f4[,] i4[] i4[] f4[] f4[,]")
_cosines = Loop("nnet3py.feat.loops", "cosines_and_sines", "f4[] f4[] f4[]")

WINDOWS = ("hamming", "hanning", "povey", "rectangular", "sine", "blackman")
EPSILON = float(np.finfo(np.float32).eps)         # least energy
_DITHER_SEED = 0           # the same sound has the same features every time, as in Kaldi's programs


class FrameOptions:
    """Lengths and treatment of the windows that sound is cut into. Kaldi: FrameExtractionOptions.

    ``rate`` is in samples per second; ``size``, ``shift`` and ``padded`` are samples of a window, from one window to
    the next, and of a window that was padded with zeros for the Fourier transform.
    """

    def __init__(self, samp_freq: float, frame_length_ms: float, frame_shift_ms: float, dither: float,
                 preemph_coeff: float, remove_dc_offset: bool, window_type: str, round_to_power_of_two: bool,
                 blackman_coeff: float, snip_edges: bool) -> None:
        """Raise UsageError for options, which have the names of Kaldi's fields, that do not go together.

        They lie within the limits of FRAME_OPTIONS.
        """
        for name, milliseconds, least in (("shift", frame_shift_ms, 1), ("length", frame_length_ms, 2)):
            if samp_freq * 0.001 * milliseconds < least:
                raise UsageError(f"--frame-{name}={milliseconds:g} milliseconds: expected {least} samples or more")
        if window_type not in WINDOWS:
            raise UsageError(f"--window-type={window_type}: expected one of {', '.join(WINDOWS)}")
        self.rate, self.dither, self.preemphasis = float(samp_freq), dither, preemph_coeff
        self.remove_offset, self.snip_edges = remove_dc_offset, snip_edges
        self.shift_seconds = float(frame_shift_ms) * 0.001
        self.size, self.shift = (int(samp_freq * 0.001 * each) for each in (frame_length_ms, frame_shift_ms))
        self.padded = 1 << (self.size - 1).bit_length() if round_to_power_of_two else self.size
        if self.padded % 2:
            raise UsageError(f"--frame-length={frame_length_ms:g} milliseconds are {self.padded} samples",
                             "without --round-to-power-of-two their number must be even")
        self.window = _window_function(window_type, self.size, blackman_coeff)

    def first_sample(self, frame: int) -> int:
        """Return the number of a window's first sample; below 0 for the first windows without ``snip_edges``."""
        if self.snip_edges:
            return frame * self.shift
        return frame * self.shift + self.shift // 2 - self.size // 2

    def num_frames(self, num_samples: int, is_over: bool) -> int:
        """Return the number of windows in ``num_samples`` samples.

        Unless ``is_over``, more samples may follow, and windows that these would change are not counted.
        """
        if self.snip_edges or not is_over:
            complete = 1 + (num_samples - self.size - self.first_sample(0)) // self.shift
            if self.snip_edges:
                return max(complete, 0)
            return max(min(complete, (num_samples + self.shift // 2) // self.shift), 0)
        return (num_samples + self.shift // 2) // self.shift


def _window_function(kind: str, size: int, blackman: float) -> np.ndarray:
    phase = 2 * np.pi * np.arange(size) / (size - 1)
    values = {
        "hanning": lambda: 0.5 - 0.5 * np.cos(phase), "sine": lambda: np.sin(0.5 * phase),
        "hamming": lambda: 0.54 - 0.46 * np.cos(phase), "povey": lambda: (0.5 - 0.5 * np.cos(phase)) ** 0.85,
        "rectangular": lambda: np.ones(size),
        "blackman": lambda: blackman - 0.5 * np.cos(phase) + (0.5 - blackman) * np.cos(2 * phase)}[kind]()
    return np.asarray(values, dtype=np.float32)


class FrameWindows:
    """Windows of one sound as it arrives, in memory that does not grow. The noise of ``dither`` is always the same."""

    def __init__(self, options: FrameOptions) -> None:
        self._options = options
        self._noise = np.random.default_rng(_DITHER_SEED) if options.dither else None
        self._kept = np.zeros(0, dtype=np.float32)        # samples from number _first on
        self._first = self._done = 0

    def accept(self, samples: np.ndarray) -> None:
        """Accept more samples, float32 (samples,)."""
        self._kept = np.concatenate((self._kept, samples), dtype=np.float32) if len(self._kept) else np.array(
            samples, dtype=np.float32)

    def take(self, most: int, is_over: bool = False) -> np.ndarray:
        """Return the next windows that are ready, at most ``most``: float32 (frames, size), new."""
        options, total = self._options, self._first + len(self._kept)
        begin = self._done
        self._done = end = min(options.num_frames(total, is_over), begin + most)
        if end <= begin:
            self._done = begin
            return np.zeros((0, options.size), dtype=np.float32)
        first = options.first_sample(begin)
        if first >= 0 and options.first_sample(end - 1) + options.size <= total:
            step = self._kept.strides[0]
            windows = np.lib.stride_tricks.as_strided(
                self._kept[first - self._first:], (end - begin, options.size), (options.shift * step, step)).copy()
        else:                                             # the sound is mirrored at its ends
            places = first + options.shift * np.arange(end - begin)[:, None] + np.arange(options.size)
            places %= 2 * total
            windows = self._kept[np.where(places < total, places, 2 * total - 1 - places) - self._first]
        # A later window that is mirrored at the end may need up to ``size`` samples before the end.
        keep = max(self._first, min(options.first_sample(end), total if options.snip_edges else total - options.size))
        self._kept, self._first = self._kept[keep - self._first:], keep
        return windows

    def prepare(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prepare windows for the Fourier transform, in place: dither, offset, preemphasis, window function.

        Returns the windows; and float32 (frames,), their energies with dither and without offset, at least EPSILON.
        """
        options = self._options
        if self._noise is not None:
            windows += np.float32(options.dither) * self._noise.standard_normal(windows.shape, dtype=np.float32)
        if options.remove_offset:
            windows -= windows.mean(axis=1, keepdims=True)
        energies = np.maximum(window_energies(windows), np.float32(EPSILON))
        if options.preemphasis:
            before = windows[:, :-1] * np.float32(options.preemphasis)
            windows[:, 0] *= np.float32(1.0 - options.preemphasis)
            windows[:, 1:] -= before
        windows *= options.window
        return windows, energies


def window_energies(windows: np.ndarray) -> np.ndarray:
    """Return float32 (frames,): the sum of squares of each window."""
    return np.asarray(np.square(windows).sum(axis=1))


# -- mel filters -------------------------------------------------------------------------------------------------------


def mel(frequency: np.ndarray | float) -> np.ndarray:
    """Convert Hz to mel."""
    return np.asarray(1127.0 * np.log1p(np.asarray(frequency, dtype=np.float64) / 700.0))


def inverse_mel(value: np.ndarray) -> np.ndarray:
    """Convert mel to Hz."""
    return np.asarray(700.0 * np.expm1(value / 1127.0))


@dataclass(frozen=True, eq=False)
class Warp:
    """Warp of the frequency axis for vocal tract length normalization (VTLN): piecewise linear, with two bends."""

    factor: float = 1.0         # by which frequencies in the middle are divided; 1 for none
    low: float = 100.0          # Hz, where the warp is bent
    high: float = -500.0        # the same; 0 or less is added to half the sampling rate

    def apply(self, frequency: np.ndarray, low: float, high: float, nyquist: float) -> np.ndarray:
        """Warp frequencies in Hz within the band from ``low`` to ``high``. Kaldi: VtlnWarpFreq.

        Raises UsageError for a factor or bends that do not fit into the band.
        """
        cut = self.high if self.high > 0 else nyquist + self.high
        if not (low < self.low and cut < high and self.low < cut):
            raise UsageError(f"--vtln-low={self.low:g} --vtln-high={self.high:g}: expected two frequencies within the "
                             f"filters' range of {low:g} to {high:g} Hz, found {self.low:g} and {cut:g}")
        if not 0 < self.factor < float("inf"):
            raise UsageError(f"expected a positive warp factor, found {self.factor:g}")
        first, last = self.low * max(1.0, self.factor), cut * min(1.0, self.factor)
        if not low < first < last < high:
            raise UsageError(f"the warp factor {self.factor:g} is too far from 1 for --vtln-low={self.low:g} "
                             f"--vtln-high={self.high:g}")
        inside = np.interp(frequency, [low, first, last, high], [low, first / self.factor, last / self.factor, high])
        return np.where((frequency < low) | (frequency > high), frequency, inside)


class MelBanks:
    """Triangular filters of a spectrum, equally spaced on the mel scale from ``low`` to ``high`` Hz. Kaldi: MelBanks.

    If ``high`` is 0 or less, half the sampling rate is added. ``padded`` are the samples of a window, zeros at its end
    included. ``centers`` is float64 (bins,), center frequencies in Hz. Raises UsageError for filters without a
    frequency of the spectrum, or outside the spectrum.
    """

    def __init__(self, num_bins: int, low: float, high: float, rate: float, padded: int, warp: Warp) -> None:
        nyquist = rate / 2
        top = high if high > 0 else nyquist + high
        if not 0 <= low < top <= nyquist:
            raise UsageError(f"--low-freq={low:g} --high-freq={high:g}: the filters would lie between {low:g} and "
                             f"{top:g} Hz, expected a range within 0 and {nyquist:g} Hz")
        if num_bins > padded // 2:
            raise UsageError(f"--num-mel-bins={num_bins}: expected at most {padded // 2}, the number of frequencies of "
                             f"windows of {padded} samples", "try fewer filters, or a longer --frame-length")
        edges = np.linspace(mel(low), mel(top), num_bins + 2)
        if warp.factor != 1.0:
            edges = mel(warp.apply(inverse_mel(edges), low, top, nyquist))
        left, center, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
        places = mel(np.arange(padded // 2) * (rate / padded))
        weights = np.where(places <= center, (places - left) / (center - left), (right - places) / (right - center))
        weights[(places <= left) | (places >= right)] = 0.0
        is_inside = weights > 0
        empty = np.flatnonzero(~is_inside.any(axis=1))
        if len(empty):
            raise UsageError(f"--num-mel-bins={num_bins}: filter {empty[0]} lies between two frequencies of the "
                             f"spectrum of {padded} samples", "try fewer filters, or a longer --frame-length")
        self.centers = inverse_mel(center[:, 0])
        self._starts = is_inside.argmax(axis=1).astype(np.int32)
        self._sizes = is_inside.sum(axis=1).astype(np.int32)
        self._weights = weights[is_inside].astype(np.float32)

    def energies(self, spectrum: np.ndarray) -> np.ndarray:
        """Return the filters' outputs, float32 (frames, bins), for a spectrum, float32 (frames, frequencies)."""
        result = np.empty((len(spectrum), len(self._starts)), dtype=np.float32)
        _apply_filters(spectrum, self._starts, self._sizes, self._weights, result)
        return result


# -- Kaldi's Fourier transform ---------------------------------------------------------------------------------------
#
# A split-radix transform (Sorensen, Heideman and Burrus 1986) of half the length, from which the transform of real
# numbers is made, in single precision and to the bit as in Kaldi's programs. Log spectra show its rounding: silent
# frequencies hold little else. Features that are not logarithms of single frequencies (MFCC and others) are computed
# by numpy's transform, which is faster and more exact.

_ROOT_HALF = np.float32(math.sqrt(0.5))
_HALF = np.float32(0.5)


def is_power_of_two(size: int) -> bool:
    """Return whether :func:`real_transform` supports this length."""
    return size >= 4 and size & (size - 1) == 0


def real_transform(rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the Fourier transform of real numbers: real and imaginary parts, each float32 (rows, size / 2 + 1).

    ``rows``, float32 (rows, numbers), are padded with zeros to ``size``, a power of 2, at least 4. Kaldi:
    SplitRadixRealFft.
    """
    padded = np.zeros((len(rows), size), dtype=np.float32)
    padded[:, :rows.shape[1]] = rows
    real, imaginary = _complex_transform(padded[:, 0::2], padded[:, 1::2])
    half = size // 2
    places, roots = np.arange(1, half // 2 + 1), _roots(size)
    others = half - places
    # Even and odd samples were transformed as one complex signal; these are the spectra of each.
    even_real, even_imaginary = _HALF * (real[:, places] + real[:, others]), _HALF * (
        imaginary[:, places] - imaginary[:, others])
    odd_real, odd_imaginary = _HALF * (imaginary[:, places] + imaginary[:, others]), -_HALF * (
        real[:, places] - real[:, others])
    turned_real = roots[0] * odd_real - roots[1] * odd_imaginary
    turned_imaginary = roots[0] * odd_imaginary + roots[1] * odd_real
    spectrum = np.zeros((2, len(rows), half + 1), dtype=np.float32)
    spectrum[0][:, others], spectrum[1][:, others] = even_real - turned_real, turned_imaginary - even_imaginary
    spectrum[0][:, places], spectrum[1][:, places] = even_real + turned_real, even_imaginary + turned_imaginary
    spectrum[0][:, 0], spectrum[0][:, half] = real[:, 0] + imaginary[:, 0], real[:, 0] - imaginary[:, 0]
    return spectrum[0], spectrum[1]


def _complex_transform(real: np.ndarray, imaginary: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the Fourier transform of complex numbers along the last axis, by the split-radix algorithm.

    A transform of half the length gives the even frequencies, two of a quarter the frequencies 4k + 1 and 4k + 3.
    """
    size = real.shape[1]
    if size == 1:
        return real, imaginary
    half, quarter = size // 2, size // 4
    result = np.empty((2, *real.shape), dtype=np.float32)
    even = _complex_transform(real[:, :half] + real[:, half:], imaginary[:, :half] + imaginary[:, half:])
    result[0][:, 0::2], result[1][:, 0::2] = even
    left, right = real[:, :half] - real[:, half:], imaginary[:, :half] - imaginary[:, half:]
    if size == 2:
        result[0][:, 1:], result[1][:, 1:] = left, right
        return result[0], result[1]
    near, far = (left[:, :quarter], right[:, :quarter]), (left[:, quarter:], right[:, quarter:])
    for step, parts in ((1, (near[0] + far[1], near[1] - far[0])), (3, (near[0] - far[1], near[1] + far[0]))):
        odd = _complex_transform(*_times_roots(*parts, size, step))
        result[0][:, step::4], result[1][:, step::4] = odd
    return result[0], result[1]


def _times_roots(real: np.ndarray, imaginary: np.ndarray, size: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Multiply element k of each row by exp(-2πi step k / size), with three real products for each element."""
    cosines, sums, differences = _root_tables(size, step)
    common = cosines * (real + imaginary)
    new_real, new_imaginary = differences * imaginary + common, sums * real + common
    new_real[:, 0], new_imaginary[:, 0] = real[:, 0], imaginary[:, 0]
    if size >= 8:
        eighth = size // 8
        across, up = real[:, eighth], imaginary[:, eighth]
        turned = _ROOT_HALF * (across + up), _ROOT_HALF * (up - across)
        new_real[:, eighth], new_imaginary[:, eighth] = turned if step == 1 else (turned[1], -turned[0])
    return new_real, new_imaginary


@cache
def _root_tables(size: int, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return cos a, -(cos a + sin a), and sin a - cos a, for a = 2π step k / size: float32 (size / 4,) each."""
    angles = (step * np.arange(size // 4) * (2 * math.pi) / size).astype(np.float32)
    cosines, sines = np.empty((2, len(angles)), dtype=np.float32)
    _cosines(angles, cosines, sines)
    return cosines, -(sines + cosines), sines - cosines


@cache
def _roots(size: int) -> np.ndarray:
    """Return the powers of exp(-2πi / size), real and imaginary parts: float32 (2, size / 4).

    As in Kaldi, each is computed from the previous one, with accumulating rounding errors.
    """
    angle = np.array([-2 * math.pi / size], dtype=np.float32)
    cosine, sine = np.empty((2, 1), dtype=np.float32)
    _cosines(angle, cosine, sine)
    roots = np.empty((2, size // 4), dtype=np.float32)
    real, imaginary = np.float32(1), np.float32(0)
    for power in range(roots.shape[1]):
        real, imaginary = (real * cosine[0] - imaginary * sine[0], real * sine[0] + imaginary * cosine[0])
        roots[:, power] = real, imaginary
    return roots
