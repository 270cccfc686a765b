"""MFCC and filterbank features of sound, by kaldi-native-fbank (the extra ``features``).

The library is Kaldi's feature code. It cannot warp the frequency axis (VTLN) where it computes MFCCs or filterbanks.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.extras import install_command
from nnet3py.features.resample import resample

WINDOWS = ("hamming", "hanning", "povey", "rectangular", "sine", "blackman")
_LEAST_BINS = 3


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


class SpeechFeatures:
    """Computes features of one sound after the other. Raises UsageError for options that cannot be used."""

    def __init__(self, options: SpeechOptions) -> None:
        library = _library()
        self.options = options
        made = library.MfccOptions() if options.kind == "mfcc" else library.FbankOptions()
        made.frame_opts.dither = 1.0              # for samples of 16 bits; the library's is for those from -1 to 1
        for target, values in ((made.frame_opts, options.frame), (made.mel_opts, options.mel), (made, options.own)):
            for name, value in values.items():
                setattr(target, name, value)
        _check(made, options.kind)
        self._made = made
        self._computer = library.OnlineMfcc if options.kind == "mfcc" else library.OnlineFbank
        try:
            self.dim: int = self._computer(made).dim
        except (ValueError, RuntimeError) as error:
            raise UsageError(f"features cannot be computed with these options: {error}") from None

    def compute(self, samples: np.ndarray, rate: float) -> np.ndarray:
        """Features, float32 (frames, dim), of ``samples``, float32 (samples,) of the range of 16 bits.

        ``rate`` is theirs, a second. There are no frames, and no columns, if the sound is shorter than a window.
        Raises Nnet3Error for another rate than that of the options. Kaldi: OfflineFeatureTpl::ComputeFeatures.
        """
        wanted = float(self._made.frame_opts.samp_freq)
        if rate != wanted:
            samples = self._resampled(samples, rate, wanted)
        computer = self._computer(self._made)
        try:
            computer.accept_waveform(wanted, np.ascontiguousarray(samples, dtype=np.float32))
            computer.input_finished()
            count = computer.num_frames_ready
            frames = [computer.get_frame(number) for number in range(count)]
        except (ValueError, RuntimeError) as error:
            raise Nnet3Error(f"kaldi-native-fbank: {error}") from None
        return np.stack(frames).astype(np.float32, copy=False) if frames else np.zeros((0, 0), dtype=np.float32)

    def _resampled(self, samples: np.ndarray, rate: float, wanted: float) -> np.ndarray:
        allowed, name = (self.options.allow_downsample, "downsample") if rate > wanted else (
            self.options.allow_upsample, "upsample")
        if not allowed:
            raise Nnet3Error(f"the sound has {rate:g} samples a second, --sample-frequency is {wanted:g}",
                             f"--allow-{name}=true resamples it")
        return resample(samples, int(rate), int(wanted))


def _library() -> Any:
    try:
        import kaldi_native_fbank
    except ImportError:
        raise Nnet3Error("computing features needs kaldi-native-fbank, which is not installed",
                         install_command("features")) from None
    return kaldi_native_fbank


def _check(made: Any, kind: str) -> None:
    """UsageError for what the library does not survive, or does not explain."""
    frame, mel = made.frame_opts, made.mel_opts
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
    if kind == "mfcc" and not 1 <= made.num_ceps <= mel.num_bins:
        raise UsageError(f"--num-ceps={made.num_ceps}: expected 1 to {mel.num_bins}, the number of mel bins")
