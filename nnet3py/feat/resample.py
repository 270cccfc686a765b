"""Sound at another sampling rate, as Kaldi computes it (``feat/resample.h``): at once, or in pieces as it arrives."""
from __future__ import annotations

import math

import numpy as np

ZEROS = 6             # of the filter on each side
ROLLOFF = 0.99        # of half the lower rate: where the filter cuts off, if all of the sound is there
_BLOCK = 1 << 14      # outputs computed at a time


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Sound at another rate, by a filter that is a sinc under a raised cosine. Kaldi: ResampleWaveform.

    Parameters
    ----------
    samples : float (samples,)
    rate, new_rate : samples a second, before and after; whole numbers

    Returns
    -------
    float32 (samples,)
    """
    resampler = Resampler(rate, new_rate, ROLLOFF)
    return np.concatenate((resampler.accept(samples), resampler.finish()))


class Resampler:
    """Resamples sound that arrives in pieces; the result does not depend on how it was cut. Kaldi: LinearResample.

    Parameters
    ----------
    rate, new_rate : samples a second, of what comes in and of what goes out
    rolloff : where the filter cuts off, as part of half the lower rate
    zeros : of the filter on each side
    """

    def __init__(self, rate: int, new_rate: int, rolloff: float = 1.0, zeros: int = ZEROS) -> None:
        common = math.gcd(rate, new_rate)
        self._step_in, self._step_out = new_rate // common, rate // common     # in ticks of their common multiple
        ticks = rate * self._step_in
        cutoff = rolloff * 0.5 * min(rate, new_rate)
        self._rate = rate
        self._width = math.floor(zeros / (2 * cutoff) * ticks)                 # of half the filter, in ticks
        self._reach = math.ceil(zeros / (2 * cutoff) * rate) + 1               # inputs on each side of an output
        self._offsets = np.arange(2 * self._reach + 1)
        # An output's place between its inputs is one of few: a filter for each of them.
        phases = np.arange(self._step_in)[:, None]
        self._filters = lowpass_filter(((self._offsets - self._reach) * self._step_in - phases) / ticks, cutoff, zeros)
        self._first = -self._reach                                             # number of the oldest sample kept
        self._kept = np.zeros(self._reach)
        self._num_inputs = self._num_outputs = 0

    def accept(self, samples: np.ndarray) -> np.ndarray:
        """Take float32 (samples,); gives what can be computed now and could not before, float32 (samples,)."""
        self._kept = np.concatenate((self._kept, np.asarray(samples, dtype=np.float64)))
        self._num_inputs += len(samples)
        return self._outputs(self._num_inputs * self._step_in - self._width)

    def finish(self) -> np.ndarray:
        """Say that the sound is over; gives the rest, float32 (samples,), as if silence followed."""
        return self._outputs(self._num_inputs * self._step_in)

    def _outputs(self, end: int) -> np.ndarray:
        """The outputs not given yet that lie before the time ``end``, in ticks."""
        total = max(self._num_outputs, -(-end // self._step_out))
        result = np.empty(total - self._num_outputs, dtype=np.float32)
        padded = np.pad(self._kept, (0, self._reach + 2))                      # samples outside have weight 0
        for begin in range(self._num_outputs, total, _BLOCK):
            times = np.arange(begin, min(begin + _BLOCK, total), dtype=np.int64) * self._step_out
            inputs = (times // self._step_in - self._reach - self._first)[:, None] + self._offsets
            place = begin - self._num_outputs
            result[place:place + len(times)] = np.einsum(
                "ij,ij->i", padded[inputs], self._filters[times % self._step_in]) / self._rate
        self._num_outputs = total
        oldest = max(self._first, total * self._step_out // self._step_in - self._reach)
        self._kept, self._first = self._kept[oldest - self._first:], oldest
        return result


def lowpass_filter(seconds: np.ndarray, cutoff: float, zeros: int) -> np.ndarray:
    """float64, as ``seconds``: a filter's values at these times; it cuts off at ``cutoff`` Hz.

    It is a sinc under a raised cosine, with so many ``zeros`` on each side. Kaldi: FilterFunc.
    """
    raised = 0.5 * (1 + np.cos(2 * np.pi * cutoff / zeros * seconds))
    window = np.where(np.abs(seconds) < zeros / (2 * cutoff), raised, 0)
    result: np.ndarray = window * 2 * cutoff * np.sinc(2 * cutoff * seconds)
    return result
