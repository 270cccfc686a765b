"""Sound as it is heard in a room and with noise: convolution with impulse responses, additive signals, silence.

Samples are of the range of 16 bits; an impulse response is given like them, and 32768 stands for 1. Kaldi:
``featbin/wav-reverberate.cc``, ``feat/signal.h``, ``featbin/extend-wav-with-silence.cc``.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.errors import NumericError, UsageError
from nnet3py.feat.options import RoomOptions, SilenceOptions
from nnet3py.formats.foreign_files import FULL_SCALE

_BEFORE_PEAK, _AFTER_PEAK = 0.001, 0.05      # seconds of a response that count as early
_LEAST_POWER = 1.2e-7                        # added to the power of noise, which may be silence
_SAMPLES_AT_ONCE = 1 << 20
_MOST_SAMPLES = (1 << 31) - 1                # of a channel of a WAVE file


class AddedSignal(NamedTuple):
    """A signal to add.

    Attributes
    ----------
    samples : float (samples,)
    snr : signal-to-noise ratio in dB
    start : where it begins, in seconds
    """

    samples: np.ndarray
    snr: float
    start: float


def convolve(samples: np.ndarray, response: np.ndarray) -> np.ndarray:
    """The convolution, float64 (count + taps - 1,), as Kaldi computes it.

    Kaldi transforms blocks, and multiplies their first two numbers, the sums at the lowest and the highest frequency,
    as if they were one complex number. The power at these two frequencies is therefore mixed; it is audible only if
    sound or response have a constant offset. Its results are reproduced here.
    """
    count, taps = len(samples), len(response)
    size = 4 << max(0, (taps - 1).bit_length())
    block = size - taps + 1
    spectrum = np.fft.rfft(response, size)
    lowest, highest = spectrum[0].real, spectrum[-1].real
    num_blocks = -(-count // block)
    result = np.zeros((num_blocks + 1) * block)
    at_once = max(1, _SAMPLES_AT_ONCE // size)
    for first in range(0, num_blocks, at_once):
        part = samples[first * block:(first + at_once) * block]
        rows = -(-len(part) // block)
        blocks = np.zeros((rows, block))
        blocks.reshape(-1)[:len(part)] = part
        of_blocks = np.fft.rfft(blocks, size)
        products = of_blocks * spectrum
        products[:, 0] = of_blocks[:, 0].real * lowest - of_blocks[:, -1].real * highest
        products[:, -1] = of_blocks[:, 0].real * highest + of_blocks[:, -1].real * lowest
        outputs = np.fft.irfft(products, size)
        begin = first * block
        result[begin:begin + rows * block] += outputs[:, :block].reshape(-1)
        # What reaches beyond a block is shorter than the next one: there are four times as many numbers as taps.
        result[begin + block:begin + (rows + 1) * block].reshape(rows, block)[:, :taps - 1] += outputs[:, block:]
    return result[:count + taps - 1]


def power(samples: np.ndarray) -> float:
    """The mean square."""
    values = samples.astype(np.float64, copy=False)
    return float(values @ values) / len(values)


def reverberate(samples: np.ndarray, rate: float, response: np.ndarray | None = None,
                added: Sequence[AddedSignal] = (), options: RoomOptions | None = None) -> np.ndarray:
    """A channel of sound with reverberation and additive signals. Kaldi: wav-reverberate.

    Parameters
    ----------
    samples : float or int (samples,)
    rate : samples a second
    response : float (taps,), an impulse response, or None
    added : each is scaled so that its power is below that of the input, of which an impulse response is applied from 1
        ms before to 50 ms after its peak; what reaches beyond the result is left out
    options : None for the default ones

    Returns
    -------
    float64 (samples,). Without ``options.shift`` it is ``taps`` - 1 longer, but beyond the input's length Kaldi repeats
    the beginning, and so does this.

    Raises
    ------
    UsageError : times that make no sense
    NumericError : a result that is not finite
    """
    options = options or RoomOptions()
    count = len(samples)
    sound = samples.astype(np.float64)
    power_before = early_power = power(sound)
    peak = 0
    length = count
    if response is not None:
        scaled = response.astype(np.float64) / float(FULL_SCALE)
        peak = int(np.argmax(scaled))
        first, end = max(0, int(peak - _BEFORE_PEAK * rate)), min(len(scaled), int(peak + _AFTER_PEAK * rate))
        early_power = power(convolve(sound, scaled[first:max(end, first + 1)]))
        sound = convolve(sound, scaled)
        length = count if options.shift else len(sound)
    with np.errstate(all="ignore"):
        for signal in added:
            _add(sound, rate, signal, early_power)
        if options.volume:
            sound *= options.volume
        elif options.normalize and (power_after := power(sound)) > 0.0:
            sound *= np.sqrt(power_before / power_after)
    if not np.isfinite(sound).all():
        raise NumericError("the sound became infinite", "check the signal-to-noise ratios and the volume")
    first = peak if options.shift else 0
    return np.resize(sound[first:first + count], _length(options.duration, rate) or length)


def _length(duration: float, rate: float) -> int:
    if not 0.0 <= duration * rate <= _MOST_SAMPLES:
        raise UsageError(f"a duration of {duration:g} seconds cannot be had", "0 is that of the input")
    return int(duration * rate)


def _add(sound: np.ndarray, rate: float, signal: AddedSignal, early_power: float) -> None:
    if not 0.0 <= signal.start * rate <= _MOST_SAMPLES:
        raise UsageError(f"an additive signal cannot start at {signal.start:g} seconds")
    begin = int(signal.start * rate)
    samples = signal.samples[:max(0, len(sound) - begin)]
    ratio = np.power(10.0, -signal.snr / 10)
    factor = np.sqrt(ratio * early_power / (power(signal.samples) + _LEAST_POWER))
    sound[begin:begin + len(samples)] += factor * samples


# -- silence -----------------------------------------------------------------------------------------------------------


def with_silence(samples: np.ndarray, rate: float, options: SilenceOptions) -> np.ndarray:
    """A channel (count,) with silence after it: float32 (count + length rate,).

    The silence is the quietest piece of beginning and end, over and over under windows that overlap by half. Of sound
    that is shorter than a piece, all of it is the piece. Raises UsageError for lengths that make no sense.
    """
    seconds = (options.length, options.search, options.extract, options.shift)
    if not (all(0.0 < value * rate <= _MOST_SAMPLES for value in seconds) and options.extract < options.search):
        raise UsageError(f"silence of {options.length:g} s made of pieces of {options.extract:g} s, found in "
                         f"{options.search:g} s by steps of {options.shift:g} s, cannot be had",
                         "all must be above 0, and a piece shorter than what is searched")
    length, search, extract, shift = (max(1, int(value * rate)) for value in seconds)
    piece = _quietest(samples, search, min(max(2, extract), len(samples)), shift)
    half = len(piece) // 2
    silence = np.zeros(length, dtype=np.float64)
    if half:
        # Rising and falling halves add up to one.
        rising = np.sin(0.5 * np.pi * (np.arange(half) + 0.5) / half) ** 2
        overlapped = piece[:half] * rising + piece[half:2 * half] * rising[::-1]
        silence = np.resize(overlapped, length)
    return np.concatenate((samples, silence)).astype(np.float32)


def _quietest(samples: np.ndarray, search: int, extract: int, shift: int) -> np.ndarray:
    """The piece of ``extract`` samples of the least power, float64."""
    last = len(samples) - extract
    begins = [*range(0, min(search - extract, last) + 1, shift),
              *range(max(0, len(samples) - search), last + 1, shift)] or [0]
    squares = np.concatenate(([0.0], np.cumsum(np.square(samples, dtype=np.float64))))
    powers = [squares[begin + extract] - squares[begin] for begin in begins]
    begin = begins[int(np.argmin(powers))]
    return samples[begin:begin + extract].astype(np.float64)
