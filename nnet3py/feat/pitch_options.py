"""Options of pitch and of features computed from it. Light."""
from __future__ import annotations

import math
from dataclasses import dataclass

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt

_MOST_STATES = 1 << 15       # pitches that are told apart


@dataclass(frozen=True)
class PitchOptions:
    """Options of finding pitch; defaults are Kaldi's. Kaldi: PitchExtractionOptions."""

    sample_frequency: float = opt("sample-frequency", 16000.0, "Samples a second of the sound (as in the files)")
    frame_length: float = opt("frame-length", 25.0, "Length of a window in milliseconds")
    frame_shift: float = opt("frame-shift", 10.0, "From one window to the next, in milliseconds")
    preemphasis_coefficient: float = opt("preemphasis-coefficient", 0.0, "Coefficient of the filter that raises "
                                         "high frequencies; best left at 0")
    min_f0: float = opt("min-f0", 50.0, "Lowest pitch that is looked for, in Hz")
    max_f0: float = opt("max-f0", 400.0, "Highest pitch that is looked for, in Hz")
    soft_min_f0: float = opt("soft-min-f0", 10.0, "The larger, the less likely are low pitches; at most min-f0, in Hz")
    penalty_factor: float = opt("penalty-factor", 0.1, "Cost of changes of the pitch")
    lowpass_cutoff: float = opt("lowpass-cutoff", 1000.0, "Where the low-pass filter cuts off, in Hz")
    resample_frequency: float = opt("resample-frequency", 4000.0, "Samples a second after that filter; more than "
                                    "twice lowpass-cutoff")
    delta_pitch: float = opt("delta-pitch", 0.005, "Smallest relative change of the pitch that is told apart")
    nccf_ballast: float = opt("nccf-ballast", 7000.0, "The larger, the less count quiet frames")
    nccf_ballast_online: bool = opt("nccf-ballast-online", False, "Judge what is quiet by the sound up to a frame")
    lowpass_filter_width: int = opt("lowpass-filter-width", 1, "Zeros of the low-pass filter on each side")
    upsample_filter_width: int = opt("upsample-filter-width", 5, "The same of the filter between measured lags")
    frames_per_chunk: int = opt("frames-per-chunk", 0, "Give whole sounds in pieces of so many frames, as when they "
                                "are heard; 0: at once")
    simulate_first_pass_online: bool = opt("simulate-first-pass-online", False, "Give each frame as it is first "
                                           "known, in pieces of frames-per-chunk")
    recompute_frame: int = opt("recompute-frame", 500, "The frame at which those before are judged again by how "
                               "loud the sound is")
    max_frames_latency: int = opt("max-frames-latency", 0, "Frames that may be waited for, as long as their pitch "
                                  "is open")
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
        """UsageError for values by which no pitch can be found."""
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
            raise UsageError(f"--delta-pitch={self.delta_pitch:g}: there would be more than {_MOST_STATES} pitches")
        if self.simulate_first_pass_online and not self.frames_per_chunk:
            raise UsageError("--simulate-first-pass-online needs --frames-per-chunk")


@dataclass(frozen=True)
class ProcessPitchOptions:
    """Options of the features that are computed from pitch; defaults are Kaldi's. Kaldi: ProcessPitchOptions."""

    pitch_scale: float = opt("pitch-scale", 2.0, "Factor of the normalized log pitch")
    pov_scale: float = opt("pov-scale", 2.0, "Factor of the feature of voicing")
    pov_offset: float = opt("pov-offset", 0.0, "What is added to the feature of voicing")
    delta_pitch_scale: float = opt("delta-pitch-scale", 10.0, "Factor of the change of the log pitch")
    delta_pitch_noise_stddev: float = opt("delta-pitch-noise-stddev", 0.005, "How much noise is added to that "
                                          "change, before its factor")
    normalization_left_context: int = opt("normalization-left-context", 75, "Frames before over which the mean is "
                                          "taken")
    normalization_right_context: int = opt("normalization-right-context", 75, "Frames after over which the mean is "
                                           "taken")
    delta_window: int = opt("delta-window", 2, "Frames on each side by which the change is found")
    delay: int = opt("delay", 0, "Frames by which everything comes later")
    add_pov_feature: bool = opt("add-pov-feature", True, "Give the feature of voicing")
    add_normalized_log_pitch: bool = opt("add-normalized-log-pitch", True, "Give the log pitch less its mean nearby")
    add_delta_pitch: bool = opt("add-delta-pitch", True, "Give the change of the log pitch")
    add_raw_log_pitch: bool = opt("add-raw-log-pitch", False, "Give the log pitch")

    @property
    def dim(self) -> int:
        """Columns of what is made."""
        return sum((self.add_pov_feature, self.add_normalized_log_pitch, self.add_delta_pitch, self.add_raw_log_pitch))

    def check(self) -> None:
        """UsageError for values out of range."""
        if not self.dim:
            raise UsageError("nothing is to be made of pitch", "one of --add-pov-feature, --add-normalized-log-pitch, "
                             "--add-delta-pitch and --add-raw-log-pitch must be true")
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

    pitch_interval: float = opt("pitch-interval", 4.0, "Hz between the pitches that are told apart")
    interpolator_factor: float = opt("interpolator-factor", 1.0e-05,
                                     "The less, the nearer the curve is to what was measured")
    max_voicing_prob: float = opt("max-voicing-prob", 0.9, "What a voicing of 1 counts")
    max_pitch_change_per_frame: float = opt("max-pitch-change-per-frame", 10.0,
                                            "The largest step of the curve, in Hz")

    def check(self) -> None:
        """UsageError for values out of range."""
        if not (0 < self.pitch_interval < 20 and 0 < self.interpolator_factor < 1 and 0.5 <= self.max_voicing_prob <= 1
                and 2 * self.pitch_interval < self.max_pitch_change_per_frame < float("inf")):
            raise UsageError(
                f"--pitch-interval={self.pitch_interval:g} --interpolator-factor={self.interpolator_factor:g} "
                f"--max-voicing-prob={self.max_voicing_prob:g} "
                f"--max-pitch-change-per-frame={self.max_pitch_change_per_frame:g}: expected 0 to 20, 0 to 1, 0.5 to "
                "1, and more than twice the interval")


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise UsageError(f"--{name.replace('_', '-')}={value:g}: expected a positive number")
