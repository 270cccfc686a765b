"""Triangular filters, equally spaced on the mel scale, perhaps on a warped frequency axis. Kaldi: MelBanks."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import UsageError

_apply_filters = Loop("nnet3py.feat.spectrum_loops", "apply_filters", "f4[,] i4[] i4[] f4[] f4[,]")
_LEAST_BINS = 3


def mel(frequency: np.ndarray | float) -> np.ndarray:
    """Hz to mel."""
    return np.asarray(1127.0 * np.log1p(np.asarray(frequency, dtype=np.float64) / 700.0))


def inverse_mel(value: np.ndarray) -> np.ndarray:
    """Mel to Hz."""
    return np.asarray(700.0 * np.expm1(value / 1127.0))


@dataclass(frozen=True, eq=False)
class Warp:
    """A map of frequencies, of vocal tracts of other lengths (VTLN): linear in the middle, bent near the ends.

    Attributes
    ----------
    factor : by which frequencies in the middle are divided; 1 for none
    low, high : where it is bent, in Hz; ``high`` up to 0: so much above half the sampling rate
    """

    factor: float = 1.0
    low: float = 100.0
    high: float = -500.0

    def apply(self, frequency: np.ndarray, low: float, high: float, nyquist: float) -> np.ndarray:
        """Frequencies in Hz, warped within the band of ``low`` to ``high``. UsageError for what cannot be bent so.

        Kaldi: VtlnWarpFreq.
        """
        cut = self.high if self.high > 0 else nyquist + self.high
        if not (low < self.low and cut < high and self.low < cut):
            raise UsageError(f"--vtln-low={self.low:g} --vtln-high={self.high:g}: expected two frequencies within the "
                             f"filters' range of {low:g} to {high:g} Hz, found {self.low:g} and {cut:g}")
        if not 0 < self.factor < float("inf"):
            raise UsageError(f"the warp factor {self.factor:g}: expected a positive number")
        first, last = self.low * max(1.0, self.factor), cut * min(1.0, self.factor)
        if not low < first < last < high:
            raise UsageError(f"the warp factor {self.factor:g} is too far from 1 for --vtln-low={self.low:g} "
                             f"--vtln-high={self.high:g}")
        inside = np.interp(frequency, [low, first, last, high], [low, first / self.factor, last / self.factor, high])
        return np.where((frequency < low) | (frequency > high), frequency, inside)


class MelBanks:
    """Filters of a spectrum.

    Parameters
    ----------
    num_bins : how many
    low, high : where they begin and end, in Hz; ``high`` up to 0: so much above half the sampling rate
    rate, padded : samples a second; of a window, with zeros after it
    warp : of the frequency axis

    Attributes
    ----------
    centers : float64 (bins,), in Hz

    Raises UsageError for filters that are empty, or outside the spectrum.
    """

    def __init__(self, num_bins: int, low: float, high: float, rate: float, padded: int, warp: Warp) -> None:
        nyquist = rate / 2
        top = high if high > 0 else nyquist + high
        if num_bins < _LEAST_BINS:
            raise UsageError(f"--num-mel-bins={num_bins}: expected {_LEAST_BINS} or more")
        if not 0 <= low < top <= nyquist:
            raise UsageError(f"--low-freq={low:g} --high-freq={high:g}: the filters would lie between {low:g} and "
                             f"{top:g} Hz, expected a range within 0 and {nyquist:g} Hz")
        if num_bins > padded // 2:
            raise UsageError(f"--num-mel-bins={num_bins}: there are {padded // 2} frequencies, of windows of {padded} "
                             "samples", "fewer filters, or --frame-length longer")
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
                             f"spectrum of {padded} samples", "fewer filters, or --frame-length longer")
        self.centers = inverse_mel(center[:, 0])
        self._starts = is_inside.argmax(axis=1).astype(np.int32)
        self._sizes = is_inside.sum(axis=1).astype(np.int32)
        self._weights = weights[is_inside].astype(np.float32)

    def energies(self, spectrum: np.ndarray) -> np.ndarray:
        """float32 (frames, bins): the filters' outputs for a spectrum, float32 (frames, frequencies)."""
        result = np.empty((len(spectrum), len(self._starts)), dtype=np.float32)
        _apply_filters(spectrum, self._starts, self._sizes, self._weights, result)
        return result
