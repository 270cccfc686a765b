"""Options of features: normalization, voice activity, rooms, silence, windows and filters, pitch. Light."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnet3py.errors import UsageError
from nnet3py.option_fields import Setting, opt


@dataclass(frozen=True)
class OnlineOptions:
    """Options of online normalization; UsageError if they contradict each other. Kaldi: OnlineCmvnOptions."""

    cmn_window: int = opt("cmn-window", 600, "Frames of the window before and up to a frame")
    speaker_frames: int = opt("speaker-frames", 600,
                              "Most frames of the window from the speaker's earlier utterances")
    global_frames: int = opt("global-frames", 200, "Most frames of the window from the global statistics")
    norm_means: bool = opt("norm-means", True, "Normalize the means")
    norm_vars: bool = opt("norm-vars", False, "Normalize the variances, too")
    skip_dims: Sequence[int] = opt("skip-dims", (),
                                   "Dimensions that are not normalized, from 0: a list such as 13:14:15")

    def __post_init__(self) -> None:
        if not 0 <= self.global_frames <= self.speaker_frames <= self.cmn_window or self.cmn_window < 1:
            raise UsageError(f"expected 0 <= global-frames <= speaker-frames <= cmn-window, found "
                             f"{self.global_frames}, {self.speaker_frames} and {self.cmn_window}")
        if self.norm_vars and not self.norm_means:
            raise UsageError("You cannot normalize the variance but not the mean.")


@dataclass(frozen=True)
class VadOptions:
    """Options of voice activity detection: thresholds of energy. Kaldi: VadEnergyOptions.

    A frame is loud if its log-energy exceeds ``energy_threshold`` plus ``energy_mean_scale`` times the utterance's
    mean. It is voiced if enough frames near it are loud.
    """

    energy_threshold: float = opt("vad-energy-threshold", 5.0, "Constant part of the energy that a loud frame exceeds")
    energy_mean_scale: float = opt("vad-energy-mean-scale", 0.5,
                                   "Factor of the utterance's mean energy in that threshold")
    frames_context: int = opt("vad-frames-context", 0, "Frames before and after a frame that count for its decision")
    proportion_threshold: float = opt("vad-proportion-threshold", 0.6, "Part of these frames that must be loud")


@dataclass(frozen=True)
class RoomOptions:
    """Options of reverberation."""

    shift: bool = opt("shift-output", True, "Begin at the peak of the impulse response, and be as long as the input; "
                      "else as long as the convolution")
    normalize: bool = opt("normalize-output", True, "Give the result the power of the input")
    volume: float = opt("volume", 0.0, "Factor of the result, which then is not normalized; 0 for none")
    duration: float = opt("duration", 0.0,
                          "Duration of the result in seconds, which is cut or repeated; 0: that of the input")


@dataclass(frozen=True)
class SilenceOptions:
    """Options of appended silence, in seconds."""

    length: float = opt("extra-silence-length", 5.0, "Seconds of silence that are appended")
    search: float = opt("silence-search-length", 0.5, "Seconds of the beginning and of the end that are searched for "
                        "the quietest piece")
    extract: float = opt("silence-extract-length", 0.05,
                         "Seconds of a piece; less than --silence-search-length")
    shift: float = opt("silence-extract-shift", 0.025, "Seconds from one candidate piece to the next")


# Options of windows, of mel filters, and of each kind of features, by the names of Kaldi's fields, with its defaults.
FRAME_OPTIONS = {
    "samp_freq": Setting("sample-frequency", 16000.0, "Sampling rate of the sound in Hz (must agree with the files)"),
    "frame_length_ms": Setting("frame-length", 25.0, "Length of a window in milliseconds"),
    "frame_shift_ms": Setting("frame-shift", 10.0, "From one window to the next, in milliseconds"),
    "dither": Setting("dither", 1.0, "Standard deviation of the noise that is added to samples (0: none)"),
    "preemph_coeff": Setting("preemphasis-coefficient", 0.97, "Coefficient of the filter that raises high frequencies"),
    "remove_dc_offset": Setting("remove-dc-offset", True, "Subtract the mean of the samples of each window"),
    "window_type": Setting("window-type", "povey", "hamming, hanning, povey, rectangular, sine or blackman"),
    "round_to_power_of_two": Setting("round-to-power-of-two", True, "Fill windows with zeros up to a power of two"),
    "blackman_coeff": Setting("blackman-coeff", 0.42, "Coefficient of the blackman window"),
    "snip_edges": Setting("snip-edges", True, "Take only windows that lie within the sound; false: as many as there "
                          "are shifts, the sound being mirrored at its ends"),
}
MEL_OPTIONS = {
    "num_bins": Setting("num-mel-bins", 23, "Number of triangular filters"),
    "low_freq": Setting("low-freq", 20.0, "Lowest frequency of the filters in Hz"),
    "high_freq": Setting("high-freq", 0.0, "Highest frequency in Hz; 0 or less: added to half the sampling rate"),
    "vtln_low": Setting("vtln-low", 100.0, "Lower frequency at which a warped axis (VTLN) is bent, in Hz"),
    "vtln_high": Setting("vtln-high", -500.0, "Upper one in Hz; 0 or less: added to half the sampling rate"),
    "debug_mel": Setting("debug-mel", False, "No effect: filters are not printed"),
}
_ENERGY_OPTIONS = {
    "energy_floor": Setting("energy-floor", 0.0, "Floor of the energy (0: none)"),
    "raw_energy": Setting("raw-energy", True, "Compute the energy before preemphasis and windowing"),
}
_HTK = {"htk_compat": Setting("htk-compat", False, "Put the energy or C0 last, and scale C0 as HTK does")}
KIND_OPTIONS = {
    "mfcc": {"use_energy": Setting("use-energy", True, "Put the energy first"), **_ENERGY_OPTIONS, **_HTK,
             "num_ceps": Setting("num-ceps", 13, "Number of cepstral coefficients, with C0"),
             "cepstral_lifter": Setting("cepstral-lifter", 22.0, "How much high coefficients are raised")},
    "fbank": {"use_energy": Setting("use-energy", False, "Add the energy"), **_ENERGY_OPTIONS, **_HTK,
              "use_log_fbank": Setting("use-log-fbank", True, "Write logarithms of the filters' outputs"),
              "use_power": Setting("use-power", True, "Filter the power spectrum; false: the magnitudes")},
    "plp": {"use_energy": Setting("use-energy", True, "Put the energy first"), **_ENERGY_OPTIONS, **_HTK,
            "num_ceps": Setting("num-ceps", 13, "Number of cepstral coefficients, with C0"),
            "lpc_order": Setting("lpc-order", 12, "Order of linear prediction"),
            "compress_factor": Setting("compress-factor", 1 / 3, "The power to which the filters' outputs are raised"),
            "cepstral_lifter": Setting("cepstral-lifter", 22.0, "How much high coefficients are raised"),
            "cepstral_scale": Setting("cepstral-scale", 1.0, "Factor of all coefficients")},
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


_MOST_STATES = 1 << 15       # states of the search for pitch


@dataclass(frozen=True)
class PitchOptions:
    """Options of the search for pitch, with Kaldi's defaults. Kaldi: PitchExtractionOptions."""

    sample_frequency: float = opt("sample-frequency", 16000.0, "Sampling rate of the sound in Hz (as in the files)")
    frame_length: float = opt("frame-length", 25.0, "Length of a window in milliseconds")
    frame_shift: float = opt("frame-shift", 10.0, "From one window to the next, in milliseconds")
    preemphasis_coefficient: float = opt("preemphasis-coefficient", 0.0, "Coefficient of the filter that raises "
                                         "high frequencies; best left at 0")
    min_f0: float = opt("min-f0", 50.0, "Lowest pitch that is searched, in Hz")
    max_f0: float = opt("max-f0", 400.0, "Highest pitch that is searched, in Hz")
    soft_min_f0: float = opt("soft-min-f0", 10.0, "The larger, the less likely are low pitches; at most min-f0, in Hz")
    penalty_factor: float = opt("penalty-factor", 0.1, "Cost of changes of the pitch")
    lowpass_cutoff: float = opt("lowpass-cutoff", 1000.0, "Cutoff frequency of the low-pass filter in Hz")
    resample_frequency: float = opt("resample-frequency", 4000.0, "Sampling rate after the low-pass filter in Hz; more "
                                    "than twice lowpass-cutoff")
    delta_pitch: float = opt("delta-pitch", 0.005, "Smallest relative change of the pitch that is distinguished")
    nccf_ballast: float = opt("nccf-ballast", 7000.0, "The larger, the less weight have quiet frames")
    nccf_ballast_online: bool = opt("nccf-ballast-online", False, "Measure the loudness up to each frame, not of the "
                                    "whole sound")
    lowpass_filter_width: int = opt("lowpass-filter-width", 1, "Zeros of the low-pass filter on each side")
    upsample_filter_width: int = opt("upsample-filter-width", 5, "Zeros of the filter that interpolates between "
                                     "measured lags")
    frames_per_chunk: int = opt("frames-per-chunk", 0, "Process whole sounds in chunks of so many frames, as online; "
                                "0: at once")
    simulate_first_pass_online: bool = opt("simulate-first-pass-online", False, "Write each frame as it is first "
                                           "known after a chunk of frames-per-chunk")
    recompute_frame: int = opt("recompute-frame", 500, "Frame at which the frames before it are searched again with "
                               "the loudness so far")
    max_frames_latency: int = opt("max-frames-latency", 0, "Frames that may be held back as long as the pitch is "
                                  "undecided")
    snip_edges: bool = opt("snip-edges", True, "Take only windows that lie within the sound; false: as many as "
                           "there are shifts")

    @property
    def window(self) -> int:
        """Samples of a window, after resampling."""
        return int(self.resample_frequency * self.frame_length / 1000.0)

    @property
    def shift(self) -> int:
        """Samples from one window to the next, after resampling."""
        return int(self.resample_frequency * self.frame_shift / 1000.0)

    def check(self) -> None:
        """Raise UsageError for values out of range, or that contradict each other."""
        for name in ("sample_frequency", "resample_frequency", "frame_length", "frame_shift", "min_f0", "max_f0",
                     "lowpass_cutoff", "delta_pitch", "lowpass_filter_width", "upsample_filter_width"):
            _positive(name, getattr(self, name))
        for name in ("soft_min_f0", "penalty_factor", "nccf_ballast", "frames_per_chunk", "recompute_frame",
                     "max_frames_latency", "preemphasis_coefficient"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise UsageError(f"--{name.replace('_', '-')}={value:g}: expected 0 or a positive number")
        if not self.min_f0 < self.max_f0:
            raise UsageError(f"--min-f0={self.min_f0:g} --max-f0={self.max_f0:g}: expected a range of pitches")
        if self.soft_min_f0 > self.min_f0:
            raise UsageError(f"--soft-min-f0={self.soft_min_f0:g}: expected at most --min-f0, {self.min_f0:g}")
        if not 2 * self.lowpass_cutoff < self.resample_frequency or self.lowpass_cutoff > self.sample_frequency / 2:
            raise UsageError(f"--lowpass-cutoff={self.lowpass_cutoff:g}: expected less than half of "
                             f"--resample-frequency={self.resample_frequency:g}, and at most half of "
                             f"--sample-frequency={self.sample_frequency:g}")
        if self.resample_frequency != int(self.resample_frequency) or (
                self.sample_frequency != int(self.sample_frequency)):
            raise UsageError(f"--sample-frequency={self.sample_frequency:g} "
                             f"--resample-frequency={self.resample_frequency:g}: expected whole numbers")
        if self.window < 2 or self.shift < 1:
            raise UsageError(f"--frame-length={self.frame_length:g} --frame-shift={self.frame_shift:g}: expected two "
                             f"samples or more, and one or more, of {self.resample_frequency:g} a second")
        if self.delta_pitch >= 1 or not 2 < self.max_f0 < self.resample_frequency / 2:
            raise UsageError(f"--delta-pitch={self.delta_pitch:g} --max-f0={self.max_f0:g}: expected less than 1, and "
                             f"less than half of --resample-frequency, {self.resample_frequency / 2:g}")
        if math.log(self.max_f0 / self.min_f0) / math.log1p(self.delta_pitch) > _MOST_STATES - 2:
            raise UsageError(f"--delta-pitch={self.delta_pitch:g}: the search would have more than {_MOST_STATES} "
                             "states", "try a larger --delta-pitch")
        if self.simulate_first_pass_online and not self.frames_per_chunk:
            raise UsageError("--simulate-first-pass-online needs --frames-per-chunk")


@dataclass(frozen=True)
class ProcessPitchOptions:
    """Options of pitch features for networks, with Kaldi's defaults. Kaldi: ProcessPitchOptions."""

    pitch_scale: float = opt("pitch-scale", 2.0, "Factor of the normalized log pitch")
    pov_scale: float = opt("pov-scale", 2.0, "Factor of the feature of voicing")
    pov_offset: float = opt("pov-offset", 0.0, "Offset of the feature of voicing")
    delta_pitch_scale: float = opt("delta-pitch-scale", 10.0, "Factor of the change of the log pitch")
    delta_pitch_noise_stddev: float = opt("delta-pitch-noise-stddev", 0.005, "Standard deviation of the noise added to "
                                          "the change of the log pitch, before its factor")
    normalization_left_context: int = opt("normalization-left-context", 75, "Frames before a frame in the mean that "
                                          "normalizes its log pitch")
    normalization_right_context: int = opt("normalization-right-context", 75, "Frames after a frame in the mean that "
                                           "normalizes its log pitch")
    delta_window: int = opt("delta-window", 2, "Frames on each side from which the change is computed")
    delay: int = opt("delay", 0, "Frames by which the features are delayed")
    add_pov_feature: bool = opt("add-pov-feature", True, "Write the feature of voicing")
    add_normalized_log_pitch: bool = opt("add-normalized-log-pitch", True, "Write the log pitch less its mean nearby")
    add_delta_pitch: bool = opt("add-delta-pitch", True, "Write the change of the log pitch")
    add_raw_log_pitch: bool = opt("add-raw-log-pitch", False, "Write the log pitch")

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return sum((self.add_pov_feature, self.add_normalized_log_pitch, self.add_delta_pitch, self.add_raw_log_pitch))

    def check(self) -> None:
        """Raise UsageError for values out of range."""
        if not self.dim:
            raise UsageError("all pitch features are switched off", "one of --add-pov-feature, "
                             "--add-normalized-log-pitch, --add-delta-pitch and --add-raw-log-pitch must be true")
        for name in ("normalization_left_context", "normalization_right_context", "delay", "delta_pitch_noise_stddev"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise UsageError(f"--{name.replace('_', '-')}={value:g}: expected 0 or a positive number")
        if self.delta_window < 1:
            raise UsageError(f"--delta-window={self.delta_window}: expected 1 or more")
        for name in ("pitch_scale", "pov_scale", "pov_offset", "delta_pitch_scale"):
            if not math.isfinite(getattr(self, name)):
                raise UsageError(f"--{name.replace('_', '-')}={getattr(self, name):g}: expected a number")


@dataclass(frozen=True)
class InterpolationOptions:
    """Options of interpolating pitch over unvoiced frames. Kaldi: PitchInterpolatorOptions."""

    pitch_interval: float = opt("pitch-interval", 4.0, "Distance of the pitches on the search's grid, in Hz")
    interpolator_factor: float = opt("interpolator-factor", 1.0e-05,
                                     "The smaller, the nearer the curve is to the measured pitch")
    max_voicing_prob: float = opt("max-voicing-prob", 0.9, "Probability of being voiced that a voicing of 1 stands for")
    max_pitch_change_per_frame: float = opt("max-pitch-change-per-frame", 10.0,
                                            "The largest step of the curve, in Hz")

    def check(self) -> None:
        """Raise UsageError for values out of range."""
        if not (0 < self.pitch_interval < 20 and 0 < self.interpolator_factor < 1 and 0.5 <= self.max_voicing_prob <= 1
                and 2 * self.pitch_interval < self.max_pitch_change_per_frame < float("inf")):
            raise UsageError(
                f"--pitch-interval={self.pitch_interval:g} --interpolator-factor={self.interpolator_factor:g} "
                f"--max-voicing-prob={self.max_voicing_prob:g} "
                f"--max-pitch-change-per-frame={self.max_pitch_change_per_frame:g}: expected values from 0 to 20, from "
                "0 to 1, from 0.5 to 1, and of more than twice the interval")


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise UsageError(f"--{name.replace('_', '-')}={value:g}: expected a positive number")
