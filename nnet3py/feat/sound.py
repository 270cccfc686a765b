"""Changes of sound: sampling rate, speed, volume, reverberation, additive signals, appended silence.

Samples have the range of 16 bits; so have impulse responses, in which 32768 stands for 1. Kaldi: ``feat/resample.h``,
``feat/signal.h``, ``featbin/wav-reverberate.cc``, ``featbin/extend-wav-with-silence.cc``,
``utils/data/perturb_data_dir_speed.sh``.
"""
from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from nnet3py.errors import NumericError, UsageError
from nnet3py.feat.options import RoomOptions, SilenceOptions
from nnet3py.formats.foreign_files import FULL_SCALE
from nnet3py.random_sequence import unsigned

ZEROS = 6             # zeros of the resampling filter on each side
ROLLOFF = 0.99        # cutoff frequency of the filter for whole sounds, as a part of half the lower rate
_OUTPUTS_AT_ONCE = 1 << 14      # outputs computed at a time
_MOST_DENOMINATOR = 1000        # of the fraction by which a speed is approximated
SLOWEST, FASTEST = 0.1, 10.0
_BEFORE_PEAK, _AFTER_PEAK = 0.001, 0.05      # seconds of an impulse response that count as early reverberation
_LEAST_POWER = 1.2e-7                        # added to the power of an additive signal, which may be silence
_SAMPLES_AT_ONCE = 1 << 20
_MOST_SAMPLES = (1 << 31) - 1                # samples of a channel of a WAVE file


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Resample sound by a windowed sinc filter. Kaldi: ResampleWaveform.

    Parameters
    ----------
    samples : float (samples,)
    rate, new_rate : samples per second, before and after; whole numbers

    Returns
    -------
    float32 (samples,)
    """
    resampler = Resampler(rate, new_rate, ROLLOFF)
    return np.concatenate((resampler.accept(samples), resampler.finish()))


class Resampler:
    """A resampler of sound in pieces; the result does not depend on where it was cut. Kaldi: LinearResample.

    Parameters
    ----------
    rate, new_rate : samples per second of the input and of the output
    rolloff : cutoff frequency of the filter, as a part of half the lower rate
    zeros : zeros of the filter on each side
    """

    def __init__(self, rate: int, new_rate: int, rolloff: float = 1.0, zeros: int = ZEROS) -> None:
        common = math.gcd(rate, new_rate)
        self._step_in, self._step_out = new_rate // common, rate // common     # in ticks
        ticks = rate * self._step_in                                           # per second, a multiple of both rates
        cutoff = rolloff * 0.5 * min(rate, new_rate)
        self._rate = rate
        self._width = math.floor(zeros / (2 * cutoff) * ticks)                 # half the filter, in ticks
        self._reach = math.ceil(zeros / (2 * cutoff) * rate) + 1               # inputs on each side of an output
        self._offsets = np.arange(2 * self._reach + 1)
        # An output has one of _step_in positions relative to the inputs; each position has its filter.
        phases = np.arange(self._step_in)[:, None]
        self._filters = lowpass_filter(((self._offsets - self._reach) * self._step_in - phases) / ticks, cutoff, zeros)
        self._first = -self._reach                                             # number of the oldest sample kept
        self._kept = np.zeros(self._reach)
        self._num_inputs = self._num_outputs = 0

    def accept(self, samples: np.ndarray) -> np.ndarray:
        """Accept float32 (samples,); return the outputs that have become computable, float32 (samples,)."""
        self._kept = np.concatenate((self._kept, np.asarray(samples, dtype=np.float64)))
        self._num_inputs += len(samples)
        return self._outputs(self._num_inputs * self._step_in - self._width)

    def finish(self) -> np.ndarray:
        """End the sound; return the remaining outputs, float32 (samples,), computed as if silence followed."""
        return self._outputs(self._num_inputs * self._step_in)

    def _outputs(self, end: int) -> np.ndarray:
        """Return the outputs before the time ``end``, in ticks, that have not been returned yet."""
        total = max(self._num_outputs, -(-end // self._step_out))
        result = np.empty(total - self._num_outputs, dtype=np.float32)
        padded = np.pad(self._kept, (0, self._reach + 2))                      # samples outside have weight 0
        for begin in range(self._num_outputs, total, _OUTPUTS_AT_ONCE):
            times = np.arange(begin, min(begin + _OUTPUTS_AT_ONCE, total), dtype=np.int64) * self._step_out
            inputs = (times // self._step_in - self._reach - self._first)[:, None] + self._offsets
            place = begin - self._num_outputs
            result[place:place + len(times)] = np.einsum(
                "ij,ij->i", padded[inputs], self._filters[times % self._step_in]) / self._rate
        self._num_outputs = total
        oldest = max(self._first, total * self._step_out // self._step_in - self._reach)
        self._kept, self._first = self._kept[oldest - self._first:], oldest
        return result


def lowpass_filter(seconds: np.ndarray, cutoff: float, zeros: int) -> np.ndarray:
    """Return the values of a low-pass filter, a sinc under a raised cosine, at times relative to its center.

    ``seconds`` have any shape; ``cutoff`` is the cutoff frequency in Hz, ``zeros`` the number of zeros of the sinc on
    each side. Kaldi: FilterFunc.
    """
    raised = 0.5 * (1 + np.cos(2 * np.pi * cutoff / zeros * seconds))
    window = np.where(np.abs(seconds) < zeros / (2 * cutoff), raised, 0)
    return np.asarray(window * 2 * cutoff * np.sinc(2 * cutoff * seconds))


# -- speed and volume --------------------------------------------------------------------------------------------------


def with_speed(samples: np.ndarray, speed: float) -> np.ndarray:
    """Change the speed of sound, pitch included.

    Parameters
    ----------
    samples : float32 (channels, samples)
    speed : factor of the speed: 1.1 makes the sound a tenth faster

    Returns
    -------
    float32 (channels, samples / speed rounded up); ``samples`` itself for speed 1

    Raises
    ------
    UsageError : a speed that is not between 0.1 and 10
    """
    if not SLOWEST <= speed <= FASTEST:
        raise UsageError(f"a speed must be between {SLOWEST:g} and {FASTEST:g}, not {speed:g}",
                         "1 leaves the speed as it is")
    fraction = Fraction(speed).limit_denominator(_MOST_DENOMINATOR)
    if fraction == 1:
        return samples
    return np.stack([resample(channel, fraction.numerator, fraction.denominator) for channel in samples])


def random_volume(seed: int, key: str, least: float, largest: float) -> np.float32:
    """Return a random factor between ``least`` and ``largest`` that depends only on the seed and the utterance's key.
    """
    rng = np.random.Generator(np.random.Philox([unsigned(seed), zlib.crc32(key.encode())]))
    return np.float32(rng.uniform(least, largest))


# -- rooms and noise ---------------------------------------------------------------------------------------------------


class AddedSignal(NamedTuple):
    """A signal that is added to sound.

    Attributes
    ----------
    samples : float (samples,)
    snr : signal-to-noise ratio in dB
    start : begin in seconds
    """

    samples: np.ndarray
    snr: float
    start: float


def convolve(samples: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Convolve sound with an impulse response: float64 (samples + taps - 1,). Kaldi: FFTbasedBlockConvolveSignals.

    Kaldi transforms blocks, and multiplies their first two numbers, the sums at the lowest and the highest frequency,
    as if they were one complex number. The power at these two frequencies is therefore mixed; it is audible only if
    sound or response have a constant offset. This is reproduced here.
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
        # The part beyond a block fits into the next block: a block has more samples than the response has taps.
        result[begin + block:begin + (rows + 1) * block].reshape(rows, block)[:, :taps - 1] += outputs[:, block:]
    return result[:count + taps - 1]


def power(samples: np.ndarray) -> float:
    """Return the mean square of samples."""
    values = samples.astype(np.float64, copy=False)
    return float(values @ values) / len(values)


def reverberate(samples: np.ndarray, rate: float, response: np.ndarray | None = None,
                added: Sequence[AddedSignal] = (), options: RoomOptions | None = None) -> np.ndarray:
    """Add reverberation and other signals to a channel of sound. Kaldi: wav-reverberate.

    Parameters
    ----------
    samples : float or int (samples,)
    rate : samples per second
    response : float (taps,), an impulse response, or None
    added : signals to add. Each is scaled to its signal-to-noise ratio, for which the power of the input is measured
        with early reverberation (from 1 ms before to 50 ms after the peak of the response). Signals are cut at the end
        of the result
    options : options; None for the defaults

    Returns
    -------
    float64 (samples,). Without ``options.shift`` it is ``taps`` - 1 longer; as in Kaldi, the part beyond the input's
    length repeats the beginning.

    Raises
    ------
    UsageError : a duration or a start that is negative or too large
    NumericError : a result with NaN or infinity
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
        raise NumericError("the reverberated sound has NaN or infinity",
                           "check the signal-to-noise ratios and the volume")
    first = peak if options.shift else 0
    return np.resize(sound[first:first + count], _length(options.duration, rate) or length)


def _length(duration: float, rate: float) -> int:
    if not 0.0 <= duration * rate <= _MOST_SAMPLES:
        raise UsageError(f"--duration={duration:g}: expected seconds from 0 to {_MOST_SAMPLES / rate:g}",
                         "0 keeps the duration of the input")
    return int(duration * rate)


def _add(sound: np.ndarray, rate: float, signal: AddedSignal, early_power: float) -> None:
    if not 0.0 <= signal.start * rate <= _MOST_SAMPLES:
        raise UsageError(f"an additive signal starts at {signal.start:g} seconds, expected 0 to "
                         f"{_MOST_SAMPLES / rate:g}")
    begin = int(signal.start * rate)
    samples = signal.samples[:max(0, len(sound) - begin)]
    ratio = np.power(10.0, -signal.snr / 10)
    factor = np.sqrt(ratio * early_power / (power(signal.samples) + _LEAST_POWER))
    sound[begin:begin + len(samples)] += factor * samples


# -- silence -----------------------------------------------------------------------------------------------------------


def with_silence(samples: np.ndarray, rate: float, options: SilenceOptions) -> np.ndarray:
    """Append silence of ``options.length`` seconds to a channel of sound, (samples,); return float32 (more samples,).

    The silence is the quietest piece of the sound's beginning and end, or all of a sound that is shorter than a piece,
    repeated under windows that overlap by half. Raises UsageError for options that contradict each other.
    """
    seconds = (options.length, options.search, options.extract, options.shift)
    if not (all(0.0 < value * rate <= _MOST_SAMPLES for value in seconds) and options.extract < options.search):
        raise UsageError(f"expected lengths above 0 and up to {_MOST_SAMPLES / rate:g} s, and --silence-extract-length "
                         f"below --silence-search-length; found --extra-silence-length={options.length:g} "
                         f"--silence-search-length={options.search:g} --silence-extract-length={options.extract:g} "
                         f"--silence-extract-shift={options.shift:g}")
    length, search, extract, shift = (max(1, int(value * rate)) for value in seconds)
    piece = _quietest_piece(samples, search, min(max(2, extract), len(samples)), shift)
    half = len(piece) // 2
    silence = np.zeros(length, dtype=np.float64)
    if half:
        # Rising and falling halves add up to one.
        rising = np.sin(0.5 * np.pi * (np.arange(half) + 0.5) / half) ** 2
        overlapped = piece[:half] * rising + piece[half:2 * half] * rising[::-1]
        silence = np.resize(overlapped, length)
    return np.concatenate((samples, silence)).astype(np.float32)


def _quietest_piece(samples: np.ndarray, search: int, extract: int, shift: int) -> np.ndarray:
    """Return the piece with the least power among those at the beginning and end of a sound: float64 (extract,).

    The numbers of samples are those of the part at each end that is searched, of a piece, and from piece to piece.
    """
    last = len(samples) - extract
    begins = [*range(0, min(search - extract, last) + 1, shift),
              *range(max(0, len(samples) - search), last + 1, shift)] or [0]
    squares = np.concatenate(([0.0], np.cumsum(np.square(samples, dtype=np.float64))))
    begin = min(begins, key=lambda begin: squares[begin + extract] - squares[begin])
    return samples[begin:begin + extract].astype(np.float64)
