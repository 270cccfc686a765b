"""Sound at another sampling rate, as Kaldi computes it (``feat/resample.h``)."""
from __future__ import annotations

import math

import numpy as np

ZEROS = 6             # of the filter on each side
ROLLOFF = 0.99        # of half the lower rate: where the filter cuts off
_BLOCK = 1 << 14      # outputs computed at a time


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Sound at ``new_rate`` samples a second.

    ``samples`` is float32 (samples,) at ``rate``; the result, too. The filter is a sinc under a raised cosine.
    Kaldi: ResampleWaveform.
    """
    common = math.gcd(rate, new_rate)
    step_in, step_out = new_rate // common, rate // common      # in ticks of their least common multiple
    ticks = rate * step_in
    count = -(-len(samples) * step_in // step_out)
    cutoff = ROLLOFF * 0.5 * min(rate, new_rate)
    reach = math.ceil(ZEROS / (2 * cutoff) * rate) + 1          # inputs on each side of an output
    padded = np.pad(samples.astype(np.float64), (reach, reach + 1))
    offsets = np.arange(2 * reach + 1)
    # An output's place between its inputs is one of few: a filter for each of them.
    phases = np.arange(step_in)[:, None]
    filters = _filter(((offsets - reach) * step_in - phases) / ticks, cutoff)
    result = np.empty(count, dtype=np.float32)
    for begin in range(0, count, _BLOCK):
        times = np.arange(begin, min(begin + _BLOCK, count), dtype=np.int64) * step_out      # in ticks
        inputs = (times // step_in)[:, None] + offsets
        result[begin:begin + len(times)] = np.einsum("ij,ij->i", padded[inputs], filters[times % step_in]) / rate
    return result


def _filter(seconds: np.ndarray, cutoff: float) -> np.ndarray:
    raised = 0.5 * (1 + np.cos(2 * np.pi * cutoff / ZEROS * seconds))
    window = np.where(np.abs(seconds) < ZEROS / (2 * cutoff), raised, 0)
    return window * 2 * cutoff * np.sinc(2 * cutoff * seconds)
