"""Windows of sound: cut out as it arrives, dithered, without offset, high frequencies raised, faded at their ends."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import UsageError

WINDOWS = ("hamming", "hanning", "povey", "rectangular", "sine", "blackman")
EPSILON = float(np.finfo(np.float32).eps)         # least energy
_SEED = 0                  # of the noise: the same sound has the same features every time, as in Kaldi's programs


class FrameOptions:
    """How sound is cut into windows. Kaldi: FrameExtractionOptions.

    Attributes
    ----------
    rate : samples a second
    size, shift, padded : samples of a window, from one to the next, and of a window with zeros after it
    """

    def __init__(self, samp_freq: float, frame_length_ms: float, frame_shift_ms: float, dither: float,
                 preemph_coeff: float, remove_dc_offset: bool, window_type: str, round_to_power_of_two: bool,
                 blackman_coeff: float, snip_edges: bool) -> None:
        """UsageError for values that no windows have."""
        if not 0 < samp_freq < float("inf"):
            raise UsageError(f"--sample-frequency={samp_freq:g}: expected a positive number")
        for name, milliseconds, least in (("shift", frame_shift_ms, 1), ("length", frame_length_ms, 2)):
            if not samp_freq * 0.001 * milliseconds >= least or milliseconds == float("inf"):
                raise UsageError(f"--frame-{name}={milliseconds:g} milliseconds: expected {least} samples or more")
        if window_type not in WINDOWS:
            raise UsageError(f"--window-type={window_type}: expected one of {', '.join(WINDOWS)}")
        if not 0 <= preemph_coeff <= 1:
            raise UsageError(f"--preemphasis-coefficient={preemph_coeff:g}: expected a number from 0 to 1")
        if not 0 <= dither < float("inf"):
            raise UsageError(f"--dither={dither:g}: expected 0 or a positive number")
        self.rate, self.dither, self.preemphasis = float(samp_freq), dither, preemph_coeff
        self.remove_offset, self.snip_edges = remove_dc_offset, snip_edges
        self.shift_seconds = float(frame_shift_ms) * 0.001
        self.size, self.shift = (int(samp_freq * 0.001 * each) for each in (frame_length_ms, frame_shift_ms))
        self.padded = 1 << (self.size - 1).bit_length() if round_to_power_of_two else self.size
        if self.padded % 2:
            raise UsageError(f"--frame-length={frame_length_ms:g} milliseconds are {self.padded} samples",
                             "without --round-to-power-of-two their number must be even")
        self.window = _window(window_type, self.size, blackman_coeff)

    def first_sample(self, frame: int) -> int:
        """Where a window begins; before 0 for the first ones if edges are not snipped."""
        if self.snip_edges:
            return frame * self.shift
        return frame * self.shift + self.shift // 2 - self.size // 2

    def num_frames(self, num_samples: int, is_over: bool) -> int:
        """How many windows there are in so many samples; not ``is_over``: that do not depend on what comes."""
        if self.snip_edges or not is_over:
            complete = 1 + (num_samples - self.size - self.first_sample(0)) // self.shift
            if self.snip_edges:
                return max(complete, 0)
            return max(min(complete, (num_samples + self.shift // 2) // self.shift), 0)
        return (num_samples + self.shift // 2) // self.shift


def _window(kind: str, size: int, blackman: float) -> np.ndarray:
    phase = 2 * np.pi * np.arange(size) / (size - 1)
    values = {
        "hanning": lambda: 0.5 - 0.5 * np.cos(phase), "sine": lambda: np.sin(0.5 * phase),
        "hamming": lambda: 0.54 - 0.46 * np.cos(phase), "povey": lambda: (0.5 - 0.5 * np.cos(phase)) ** 0.85,
        "rectangular": lambda: np.ones(size),
        "blackman": lambda: blackman - 0.5 * np.cos(phase) + (0.5 - blackman) * np.cos(2 * phase)}[kind]()
    return np.asarray(values, dtype=np.float32)


class FrameWindows:
    """The windows of one sound as it arrives. Memory does not grow.

    ``noise`` is added to windows by ``dither``; each sound has the same.
    """

    def __init__(self, options: FrameOptions) -> None:
        self._options = options
        self._noise = np.random.default_rng(_SEED) if options.dither else None
        self._kept = np.zeros(0, dtype=np.float32)        # samples from number _first on
        self._first = self._done = 0

    def accept(self, samples: np.ndarray) -> None:
        """Take float32 (samples,)."""
        self._kept = np.concatenate((self._kept, samples), dtype=np.float32) if len(self._kept) else np.array(
            samples, dtype=np.float32)

    def take(self, most: int, is_over: bool = False) -> np.ndarray:
        """float32 (frames, size), new: windows that are ready and were not taken before, ``most`` at a time."""
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
        # A window after the end's mirror may need as many samples before the end.
        keep = max(self._first, min(options.first_sample(end), total if options.snip_edges else total - options.size))
        self._kept, self._first = self._kept[keep - self._first:], keep
        return windows

    def processed(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The windows, changed in place, ready for the Fourier transform; and the energies of what they were before.

        Energies are float32 (frames,), without dither's offset, at least epsilon.
        """
        options = self._options
        if self._noise is not None:
            windows += np.float32(options.dither) * self._noise.standard_normal(windows.shape, dtype=np.float32)
        if options.remove_offset:
            windows -= windows.mean(axis=1, keepdims=True)
        energies = np.maximum(energies_of(windows), np.float32(EPSILON))
        if options.preemphasis:
            before = windows[:, :-1] * np.float32(options.preemphasis)
            windows[:, 0] *= np.float32(1.0 - options.preemphasis)
            windows[:, 1:] -= before
        windows *= options.window
        return windows, energies


def energies_of(windows: np.ndarray) -> np.ndarray:
    """float32 (frames,): sums of squares."""
    energies: np.ndarray = np.square(windows).sum(axis=1)
    return energies
