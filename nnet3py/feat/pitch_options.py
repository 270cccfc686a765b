"""The options of pitch and of what is made of it, of commands and conf files alike. Light."""
from __future__ import annotations

from nnet3py.option_fields import Setting

# By the names of the fields of PitchOptions and ProcessPitchOptions, with Kaldi's defaults.
PITCH_OPTIONS = {
    "sample_frequency": Setting("sample-frequency", 16000.0, "Samples a second of the sound (as in the files)"),
    "frame_length": Setting("frame-length", 25.0, "Length of a window in milliseconds"),
    "frame_shift": Setting("frame-shift", 10.0, "From one window to the next, in milliseconds"),
    "preemphasis_coefficient": Setting("preemphasis-coefficient", 0.0, "Coefficient of the filter that raises high "
                                       "frequencies; best left at 0"),
    "min_f0": Setting("min-f0", 50.0, "Lowest pitch that is looked for, in Hz"),
    "max_f0": Setting("max-f0", 400.0, "Highest pitch that is looked for, in Hz"),
    "soft_min_f0": Setting("soft-min-f0", 10.0, "The larger, the less likely are low pitches; at most min-f0, in Hz"),
    "penalty_factor": Setting("penalty-factor", 0.1, "Cost of changes of the pitch"),
    "lowpass_cutoff": Setting("lowpass-cutoff", 1000.0, "Where the low-pass filter cuts off, in Hz"),
    "resample_frequency": Setting("resample-frequency", 4000.0, "Samples a second after that filter; more than twice "
                                  "lowpass-cutoff"),
    "delta_pitch": Setting("delta-pitch", 0.005, "Smallest relative change of the pitch that is told apart"),
    "nccf_ballast": Setting("nccf-ballast", 7000.0, "The larger, the less count quiet frames"),
    "nccf_ballast_online": Setting("nccf-ballast-online", False, "Judge what is quiet by the sound up to a frame"),
    "lowpass_filter_width": Setting("lowpass-filter-width", 1, "Zeros of the low-pass filter on each side"),
    "upsample_filter_width": Setting("upsample-filter-width", 5, "The same of the filter between measured lags"),
    "frames_per_chunk": Setting("frames-per-chunk", 0, "Give whole sounds in pieces of so many frames, as when they "
                                "are heard; 0: at once"),
    "simulate_first_pass_online": Setting("simulate-first-pass-online", False, "Give each frame as it is first known, "
                                          "in pieces of frames-per-chunk"),
    "recompute_frame": Setting("recompute-frame", 500, "The frame at which those before are judged again by how loud "
                               "the sound is"),
    "max_frames_latency": Setting("max-frames-latency", 0, "Frames that may be waited for, as long as their pitch is "
                                  "open"),
    "snip_edges": Setting("snip-edges", True, "Take only windows that lie within the sound; false: as many as there "
                          "are shifts"),
}
PROCESS_PITCH_OPTIONS = {
    "pitch_scale": Setting("pitch-scale", 2.0, "Factor of the normalized log pitch"),
    "pov_scale": Setting("pov-scale", 2.0, "Factor of the feature of voicing"),
    "pov_offset": Setting("pov-offset", 0.0, "What is added to the feature of voicing"),
    "delta_pitch_scale": Setting("delta-pitch-scale", 10.0, "Factor of the change of the log pitch"),
    "delta_pitch_noise_stddev": Setting("delta-pitch-noise-stddev", 0.005, "How much noise is added to that change, "
                                        "before its factor"),
    "normalization_left_context": Setting("normalization-left-context", 75, "Frames before over which the mean is "
                                          "taken"),
    "normalization_right_context": Setting("normalization-right-context", 75, "Frames after over which the mean is "
                                           "taken"),
    "delta_window": Setting("delta-window", 2, "Frames on each side by which the change is found"),
    "delay": Setting("delay", 0, "Frames by which everything comes later"),
    "add_pov_feature": Setting("add-pov-feature", True, "Give the feature of voicing"),
    "add_normalized_log_pitch": Setting("add-normalized-log-pitch", True, "Give the log pitch less its mean nearby"),
    "add_delta_pitch": Setting("add-delta-pitch", True, "Give the change of the log pitch"),
    "add_raw_log_pitch": Setting("add-raw-log-pitch", False, "Give the log pitch"),
}
