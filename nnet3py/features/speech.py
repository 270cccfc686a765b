"""MFCC and filterbank features of sound, by kaldi-native-fbank.

The library is Kaldi's feature code. It cannot warp the frequency axis (VTLN) where it computes MFCCs or filterbanks.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.extras import load
from nnet3py.features.resample import resample
from nnet3py.features.speech_options import FRAME_OPTIONS, KIND_OPTIONS, MEL_OPTIONS

WINDOWS = ("hamming", "hanning", "povey", "rectangular", "sine", "blackman")
_LEAST_BINS = 3
_AT_A_TIME = 1 << 16       # samples that the library is given


@dataclass(frozen=True)
class SpeechOptions:
    """How features are computed; what is left out has Kaldi's default.

    Attributes
    ----------
    kind : ``mfcc`` or ``fbank``
    frame : of the library's FrameExtractionOptions, such as ``samp_freq``
    mel : of its MelBanksOptions, such as ``num_bins``
    own : of its MfccOptions or FbankOptions, such as ``num_ceps``
    allow_downsample, allow_upsample : whether sound of a higher or lower sampling rate is resampled, or an error
    """

    kind: str
    frame: Mapping[str, Any] = field(default_factory=dict)
    mel: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    allow_downsample: bool = False
    allow_upsample: bool = False


def speech_options(kind: str, values: Mapping[str, Any]) -> SpeechOptions:
    """Options from values by Kaldi's names, such as ``num-mel-bins``; Kaldi's defaults for those not given."""
    frame, mel, own = ({theirs: values.get(ours.name, ours.default) for theirs, ours in names.items()}
                       for names in (FRAME_OPTIONS, MEL_OPTIONS, KIND_OPTIONS[kind]))
    return SpeechOptions(kind, frame, mel, own, values.get("allow-downsample", False),
                         values.get("allow-upsample", False))


class SpeechFeatures:
    """Computes features of one sound after the other. Raises UsageError for options that cannot be used."""

    def __init__(self, options: SpeechOptions) -> None:
        library = _library()
        self.options = options
        settings = library.MfccOptions() if options.kind == "mfcc" else library.FbankOptions()
        settings.frame_opts.dither = 1.0              # for samples of 16 bits; the library's is for those from -1 to 1
        for target, values in ((settings.frame_opts, options.frame), (settings.mel_opts, options.mel),
                               (settings, options.own)):
            for name, value in values.items():
                setattr(target, name, value)
        _check(settings, options.kind)
        self._made = settings
        self._computer = library.OnlineMfcc if options.kind == "mfcc" else library.OnlineFbank
        try:
            self.dim: int = self._computer(settings).dim
        except (ValueError, RuntimeError) as error:
            raise UsageError(f"features cannot be computed with these options: {error}") from None

    @property
    def rate(self) -> float:
        """Samples a second of the sound that is taken."""
        return float(self._made.frame_opts.samp_freq)

    @property
    def frame_shift(self) -> float:
        """From one frame to the next, in seconds."""
        return float(self._made.frame_opts.frame_shift_ms) * 0.001

    def compute(self, samples: np.ndarray, rate: float) -> np.ndarray:
        """Features, float32 (frames, dim), of ``samples``, float32 (samples,) of the range of 16 bits.

        ``rate``: samples a second. There are no frames, and no columns, if the sound is shorter than a window.
        Raises Nnet3Error for another rate than that of the options. Kaldi: OfflineFeatureTpl::ComputeFeatures.
        """
        if rate != self.rate:
            self.check_rate(rate)
            samples = resample(samples, int(rate), int(self.rate))
        computer = self.begin()
        computer.accept(samples)
        frames = computer.finish()
        return frames if len(frames) else np.zeros((0, 0), dtype=np.float32)

    def begin(self) -> FrameComputer:
        """What computes the frames of one sound, of this rate, as it arrives."""
        return FrameComputer(self._computer(self._made), self.rate, self.dim)

    def check_rate(self, rate: float) -> None:
        """Nnet3Error if sound of another rate than that of the options may not be resampled."""
        allowed, name = (self.options.allow_downsample, "downsample") if rate > self.rate else (
            self.options.allow_upsample, "upsample")
        if rate != self.rate and not allowed:
            raise Nnet3Error(f"the sound has {rate:g} samples a second, --sample-frequency is {self.rate:g}",
                             f"--allow-{name}=true resamples it")


class FrameComputer:
    """Frames of one sound as it arrives, by the library's ``online`` features."""

    def __init__(self, online: Any, rate: float, dim: int) -> None:
        self._online, self._rate, self._dim = online, rate, dim
        self._done = 0

    def accept(self, samples: np.ndarray) -> None:
        """Take float32 (samples,), of the range of 16 bits."""
        samples = np.asarray(samples, dtype=np.float32)
        for begin in range(0, len(samples), _AT_A_TIME):
            # A list is taken faster than an array, but is eight times as large.
            self._call(self._online.accept_waveform, self._rate, samples[begin:begin + _AT_A_TIME].tolist())

    def take(self) -> np.ndarray:
        """float32 (frames, dim): the frames that are ready and were not taken before. They are forgotten here."""
        ready = self._call(lambda: self._online.num_frames_ready)
        result = np.empty((ready - self._done, self._dim), dtype=np.float32)
        for row in range(len(result)):
            result[row] = self._call(self._online.get_frame, self._done + row)
        self._online.pop(len(result))
        self._done = ready
        return result

    def finish(self) -> np.ndarray:
        """Say that the sound is over; gives the rest, float32 (frames, dim)."""
        self._call(self._online.input_finished)
        return self.take()

    def _call(self, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except (ValueError, RuntimeError) as error:
            raise Nnet3Error(f"kaldi-native-fbank: {error}") from None


def _library() -> Any:
    return load("kaldi_native_fbank", "computing features needs", "features", "kaldi-native-fbank")


def _check(settings: Any, kind: str) -> None:
    """UsageError for values that crash the library, or that it does not explain."""
    frame, mel = settings.frame_opts, settings.mel_opts
    if not frame.samp_freq > 0:
        raise UsageError(f"--sample-frequency={frame.samp_freq:g}: expected a positive number")
    for name, milliseconds in (("shift", frame.frame_shift_ms), ("length", frame.frame_length_ms)):
        least = 1 if name == "shift" else 2
        if not frame.samp_freq * 0.001 * milliseconds >= least:
            raise UsageError(f"--frame-{name}={milliseconds:g} milliseconds: expected {least} samples or more")
    if frame.window_type not in WINDOWS:
        raise UsageError(f"--window-type={frame.window_type}: expected one of {', '.join(WINDOWS)}")
    if not 0 <= frame.preemph_coeff <= 1:
        raise UsageError(f"--preemphasis-coefficient={frame.preemph_coeff:g}: expected a number from 0 to 1")
    if mel.num_bins < _LEAST_BINS:
        raise UsageError(f"--num-mel-bins={mel.num_bins}: expected {_LEAST_BINS} or more")
    nyquist = frame.samp_freq / 2
    high = mel.high_freq if mel.high_freq > 0 else nyquist + mel.high_freq
    if not 0 <= mel.low_freq < high <= nyquist:
        raise UsageError(f"--low-freq={mel.low_freq:g} --high-freq={mel.high_freq:g}: the filters would lie between "
                         f"{mel.low_freq:g} and {high:g} Hz, expected a range within 0 and {nyquist:g} Hz")
    if kind == "mfcc" and not 1 <= settings.num_ceps <= mel.num_bins:
        raise UsageError(f"--num-ceps={settings.num_ceps}: expected 1 to {mel.num_bins}, the number of mel bins")
