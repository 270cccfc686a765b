"""Options of the search for pitch, and of features and curves made of it. Imports nothing heavy."""
from __future__ import annotations

import math

from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, opt, options_class

_MOST_STATES = 1 << 15       # states of the search for pitch


@options_class(frozen=True)
class PitchOptions(CheckedOptions):
    """Options of the search for pitch, with Kaldi's defaults. Kaldi: PitchExtractionOptions."""

    sample_frequency: float = opt("sample-frequency", 16000.0, "Sampling rate of the sound in Hz (as in the files)",
                                  above=0, below=math.inf)
    frame_length: float = opt("frame-length", 25.0, "Length of a window in milliseconds", above=0, below=math.inf)
    frame_shift: float = opt("frame-shift", 10.0, "From one window to the next, in milliseconds",
                             above=0, below=math.inf)
    preemphasis_coefficient: float = opt("preemphasis-coefficient", 0.0, "Coefficient of the filter that raises "
                                         "high frequencies; best left at 0", least=0, below=math.inf)
    min_f0: float = opt("min-f0", 50.0, "Lowest pitch that is searched, in Hz", above=0)
    max_f0: float = opt("max-f0", 400.0, "Highest pitch that is searched, in Hz", above=2)
    soft_min_f0: float = opt("soft-min-f0", 10.0, "The larger, the less likely are low pitches; at most min-f0, in Hz",
                             least=0)
    penalty_factor: float = opt("penalty-factor", 0.1, "Cost of changes of the pitch", least=0, below=math.inf)
    lowpass_cutoff: float = opt("lowpass-cutoff", 1000.0, "Cutoff frequency of the low-pass filter in Hz", above=0)
    resample_frequency: float = opt("resample-frequency", 4000.0, "Sampling rate after the low-pass filter in Hz; more "
                                    "than twice lowpass-cutoff", above=0, below=math.inf)
    delta_pitch: float = opt("delta-pitch", 0.005, "Smallest relative change of the pitch that is distinguished",
                             above=0, below=1)
    nccf_ballast: float = opt("nccf-ballast", 7000.0, "The larger, the less weight have quiet frames",
                              least=0, below=math.inf)
    nccf_ballast_online: bool = opt("nccf-ballast-online", False, "Measure the loudness up to each frame, not of the "
                                    "whole sound")
    lowpass_filter_width: int = opt("lowpass-filter-width", 1, "Zeros of the low-pass filter on each side", least=1)
    upsample_filter_width: int = opt("upsample-filter-width", 5, "Zeros of the filter that interpolates between "
                                     "measured lags", least=1)
    frames_per_chunk: int = opt("frames-per-chunk", 0, "Process whole sounds in chunks of so many frames, as online; "
                                "0: at once", least=0)
    simulate_first_pass_online: bool = opt("simulate-first-pass-online", False, "Write each frame as it is first "
                                           "known after a chunk of frames-per-chunk")
    recompute_frame: int = opt("recompute-frame", 500, "Frame at which the frames before it are searched again with "
                               "the loudness so far", least=0)
    max_frames_latency: int = opt("max-frames-latency", 0, "Frames that may be held back as long as the pitch is "
                                  "undecided", least=0)
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
        super().check()
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
                             "samples or more in a frame, and one or more from a frame to the next, at "
                             f"--resample-frequency={self.resample_frequency:g}")
        if not self.max_f0 < self.resample_frequency / 2:
            raise UsageError(f"--max-f0={self.max_f0:g}: expected less than half of --resample-frequency, "
                             f"{self.resample_frequency / 2:g}")
        if math.log(self.max_f0 / self.min_f0) / math.log1p(self.delta_pitch) > _MOST_STATES - 2:
            raise UsageError(f"--delta-pitch={self.delta_pitch:g}: the search would have more than {_MOST_STATES} "
                             "states", "try a larger --delta-pitch")
        if self.simulate_first_pass_online and not self.frames_per_chunk:
            raise UsageError("--simulate-first-pass-online needs --frames-per-chunk")


@options_class(frozen=True)
class ProcessPitchOptions(CheckedOptions):
    """Options of pitch features for networks, with Kaldi's defaults. Kaldi: ProcessPitchOptions."""

    pitch_scale: float = opt("pitch-scale", 2.0, "Factor of the normalized log pitch", above=-math.inf, below=math.inf)
    pov_scale: float = opt("pov-scale", 2.0, "Factor of the feature of voicing", above=-math.inf, below=math.inf)
    pov_offset: float = opt("pov-offset", 0.0, "Offset of the feature of voicing", above=-math.inf, below=math.inf)
    delta_pitch_scale: float = opt("delta-pitch-scale", 10.0, "Factor of the change of the log pitch",
                                   above=-math.inf, below=math.inf)
    delta_pitch_noise_stddev: float = opt("delta-pitch-noise-stddev", 0.005, "Standard deviation of the noise added to "
                                          "the change of the log pitch, before its factor", least=0, below=math.inf)
    normalization_left_context: int = opt("normalization-left-context", 75, "Frames before a frame in the mean that "
                                          "normalizes its log pitch", least=0)
    normalization_right_context: int = opt("normalization-right-context", 75, "Frames after a frame in the mean that "
                                           "normalizes its log pitch", least=0)
    delta_window: int = opt("delta-window", 2, "Frames on each side from which the change is computed", least=1)
    delay: int = opt("delay", 0, "Frames by which the features are delayed", least=0)
    add_pov_feature: bool = opt("add-pov-feature", True, "Write the feature of voicing")
    add_normalized_log_pitch: bool = opt("add-normalized-log-pitch", True, "Write the log pitch less its mean nearby")
    add_delta_pitch: bool = opt("add-delta-pitch", True, "Write the change of the log pitch")
    add_raw_log_pitch: bool = opt("add-raw-log-pitch", False, "Write the log pitch")

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return sum((self.add_pov_feature, self.add_normalized_log_pitch, self.add_delta_pitch, self.add_raw_log_pitch))

    def check(self) -> None:
        """Raise UsageError for values out of range, and if no feature is selected."""
        super().check()
        if not self.dim:
            raise UsageError("all pitch features are switched off", "one of --add-pov-feature, "
                             "--add-normalized-log-pitch, --add-delta-pitch and --add-raw-log-pitch must be true")


@options_class(frozen=True)
class InterpolationOptions(CheckedOptions):
    """Options of interpolating pitch over unvoiced frames. Kaldi: PitchInterpolatorOptions."""

    pitch_interval: float = opt("pitch-interval", 4.0, "Distance of the pitches on the search's grid, in Hz",
                                above=0, below=20)
    interpolator_factor: float = opt("interpolator-factor", 1.0e-05,
                                     "The smaller, the nearer the curve is to the measured pitch", above=0, below=1)
    max_voicing_prob: float = opt("max-voicing-prob", 0.9, "Probability of being voiced that a voicing of 1 stands for",
                                  least=0.5, most=1)
    max_pitch_change_per_frame: float = opt("max-pitch-change-per-frame", 10.0,
                                            "The largest step of the curve, in Hz", below=math.inf)

    def check(self) -> None:
        """Raise UsageError for values out of range, or that contradict each other."""
        super().check()
        if not 2 * self.pitch_interval < self.max_pitch_change_per_frame:
            raise UsageError(f"--max-pitch-change-per-frame={self.max_pitch_change_per_frame:g}: expected more than "
                             f"{2 * self.pitch_interval:g}, twice --pitch-interval")
