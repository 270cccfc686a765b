"""Options of features: normalization, voice activity, rooms, silence, windows and filters. Imports nothing heavy."""
from __future__ import annotations

import math
from collections.abc import Sequence

from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, Setting, opt, options_class


@options_class(frozen=True)
class OnlineOptions(CheckedOptions):
    """Options of online normalization; UsageError for wrong ones. Kaldi: OnlineCmvnOptions."""

    cmn_window: int = opt("cmn-window", 600, "Frames of the window before and up to a frame", least=1)
    speaker_frames: int = opt("speaker-frames", 600,
                              "Most frames of the window from the speaker's earlier utterances")
    global_frames: int = opt("global-frames", 200, "Most frames of the window from the global statistics", least=0)
    norm_means: bool = opt("norm-means", True, "Normalize the means")
    norm_vars: bool = opt("norm-vars", False, "Normalize the variances, too")
    skip_dims: Sequence[int] = opt("skip-dims", (),
                                   "Dimensions that are not normalized, from 0: a list such as 13:14:15")

    def __post_init__(self) -> None:
        self.check()
        if not self.global_frames <= self.speaker_frames <= self.cmn_window:
            raise UsageError(f"expected global-frames <= speaker-frames <= cmn-window, found "
                             f"{self.global_frames}, {self.speaker_frames} and {self.cmn_window}")
        if self.norm_vars and not self.norm_means:
            raise UsageError("You cannot normalize the variance but not the mean.")


@options_class(frozen=True)
class VadOptions(CheckedOptions):
    """Options of voice activity detection: thresholds of energy. Kaldi: VadEnergyOptions.

    A frame is loud if its log-energy exceeds ``energy_threshold`` plus ``energy_mean_scale`` times the utterance's
    mean. It is voiced if enough frames near it are loud.
    """

    energy_threshold: float = opt("vad-energy-threshold", 5.0, "Constant part of the energy that a loud frame exceeds")
    energy_mean_scale: float = opt("vad-energy-mean-scale", 0.5,
                                   "Factor of the utterance's mean energy in that threshold")
    frames_context: int = opt("vad-frames-context", 0, "Frames before and after a frame that count for its decision",
                              least=0)
    proportion_threshold: float = opt("vad-proportion-threshold", 0.6, "Part of these frames that must be loud",
                                      above=0, below=1)


@options_class(frozen=True)
class RoomOptions:
    """Options of reverberation."""

    shift: bool = opt("shift-output", True, "Begin at the peak of the impulse response, and be as long as the input; "
                      "else as long as the convolution")
    normalize: bool = opt("normalize-output", True, "Give the result the power of the input")
    volume: float = opt("volume", 0.0, "Factor of the result, which then is not normalized; 0 for none")
    duration: float = opt("duration", 0.0,
                          "Duration of the result in seconds, which is cut or repeated; 0: that of the input", least=0)


@options_class(frozen=True)
class SilenceOptions:
    """Options of appended silence, in seconds."""

    length: float = opt("extra-silence-length", 5.0, "Seconds of silence that are appended", above=0)
    search: float = opt("silence-search-length", 0.5, "Seconds of the beginning and of the end that are searched for "
                        "the quietest piece", above=0)
    extract: float = opt("silence-extract-length", 0.05,
                         "Seconds of a piece; less than --silence-search-length", above=0)
    shift: float = opt("silence-extract-shift", 0.025, "Seconds from one candidate piece to the next", above=0)


_POSITIVE, _FINITE = {"above": 0, "below": math.inf}, {"above": -math.inf, "below": math.inf}
# Options of windows, of mel filters, and of each kind of features, by the names of Kaldi's fields, with its defaults.
FRAME_OPTIONS = {
    "samp_freq": Setting("sample-frequency", 16000.0, "Sampling rate of the sound in Hz (must agree with the files)",
                         limits=_POSITIVE),
    "frame_length_ms": Setting("frame-length", 25.0, "Length of a window in milliseconds", limits=_POSITIVE),
    "frame_shift_ms": Setting("frame-shift", 10.0, "From one window to the next, in milliseconds", limits=_POSITIVE),
    "dither": Setting("dither", 1.0, "Standard deviation of the noise that is added to samples (0: none)",
                      limits={"least": 0, "below": math.inf}),
    "preemph_coeff": Setting("preemphasis-coefficient", 0.97, "Coefficient of the filter that raises high frequencies",
                             limits={"least": 0, "most": 1}),
    "remove_dc_offset": Setting("remove-dc-offset", True, "Subtract the mean of the samples of each window"),
    "window_type": Setting("window-type", "povey", "hamming, hanning, povey, rectangular, sine or blackman"),
    "round_to_power_of_two": Setting("round-to-power-of-two", True, "Fill windows with zeros up to a power of two"),
    "blackman_coeff": Setting("blackman-coeff", 0.42, "Coefficient of the blackman window", limits=_FINITE),
    "snip_edges": Setting("snip-edges", True, "Take only windows that lie within the sound; false: as many as there "
                          "are shifts, the sound being mirrored at its ends"),
}
MEL_OPTIONS = {
    "num_bins": Setting("num-mel-bins", 23, "Number of triangular filters", limits={"least": 3}),
    "low_freq": Setting("low-freq", 20.0, "Lowest frequency of the filters in Hz"),
    "high_freq": Setting("high-freq", 0.0, "Highest frequency in Hz; 0 or less: added to half the sampling rate"),
    "vtln_low": Setting("vtln-low", 100.0, "Lower frequency at which a warped axis (VTLN) is bent, in Hz"),
    "vtln_high": Setting("vtln-high", -500.0, "Upper one in Hz; 0 or less: added to half the sampling rate"),
    "debug_mel": Setting("debug-mel", False, "No effect: filters are not printed"),
}
_ENERGY_OPTIONS = {
    "energy_floor": Setting("energy-floor", 0.0, "Floor of the energy (0: none)", limits=_FINITE),
    "raw_energy": Setting("raw-energy", True, "Compute the energy before preemphasis and windowing"),
}
_HTK = {"htk_compat": Setting("htk-compat", False, "Put the energy or C0 last, and scale C0 as HTK does")}
_LIFTER = {"cepstral_lifter": Setting("cepstral-lifter", 22.0, "How much high coefficients are raised", limits=_FINITE)}
KIND_OPTIONS = {
    "mfcc": {"use_energy": Setting("use-energy", True, "Put the energy first"), **_ENERGY_OPTIONS, **_HTK,
             "num_ceps": Setting("num-ceps", 13, "Number of cepstral coefficients, with C0", limits={"least": 1}),
             **_LIFTER},
    "fbank": {"use_energy": Setting("use-energy", False, "Add the energy"), **_ENERGY_OPTIONS, **_HTK,
              "use_log_fbank": Setting("use-log-fbank", True, "Write logarithms of the filters' outputs"),
              "use_power": Setting("use-power", True, "Filter the power spectrum; false: the magnitudes")},
    "plp": {"use_energy": Setting("use-energy", True, "Put the energy first"), **_ENERGY_OPTIONS, **_HTK,
            "num_ceps": Setting("num-ceps", 13, "Number of cepstral coefficients, with C0", limits={"least": 1}),
            "lpc_order": Setting("lpc-order", 12, "Order of linear prediction", limits={"least": 1}),
            "compress_factor": Setting("compress-factor", 1 / 3, "The power to which the filters' outputs are raised",
                                        limits={"above": 0, "most": 1}),
            **_LIFTER,
            "cepstral_scale": Setting("cepstral-scale", 1.0, "Factor of all coefficients", limits=_FINITE)},
    "spectrogram": {**_ENERGY_OPTIONS,
                    "return_raw_fft": Setting("return-raw-fft", False, "Write the Fourier transform as it is, real and "
                                              "imaginary parts in turns")},
}
_OTHER_OPTIONS = (
    Setting("allow-downsample", False, "Resample sound of a higher rate"),
    Setting("allow-upsample", False, "Resample sound of a lower rate"),
    Setting("max-feature-vectors", -1, "No effect: whole utterances are computed"),
)
OUTPUT_FORMAT = Setting("output-format", "kaldi", "kaldi or htk", ("kaldi", "htk"))


def conf_settings(kind: str) -> tuple[Setting, ...]:
    """Return the settings that a conf file of features may have; ``kind`` is a key of KIND_OPTIONS."""
    mel = MEL_OPTIONS.values() if kind != "spectrogram" else ()
    return (*FRAME_OPTIONS.values(), *mel, *KIND_OPTIONS[kind].values(), *_OTHER_OPTIONS)
