"""The options of features of sound, of commands and conf files alike. Light."""
from __future__ import annotations

from nnet3py.option_fields import Setting

# By the names of Kaldi's fields, with its defaults: options of frames, of mel filters, of each kind of features.
FRAME_OPTIONS = {
    "samp_freq": Setting("sample-frequency", 16000.0, "Samples a second of the sound (must agree with the files)"),
    "frame_length_ms": Setting("frame-length", 25.0, "Length of a window in milliseconds"),
    "frame_shift_ms": Setting("frame-shift", 10.0, "From one window to the next, in milliseconds"),
    "dither": Setting("dither", 1.0, "How much noise is added (0: none, for the same features every time)"),
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
    "low_freq": Setting("low-freq", 20.0, "Where the filters begin, in Hz"),
    "high_freq": Setting("high-freq", 0.0, "Where they end, in Hz; up to 0: so much above half the sampling rate"),
    "vtln_low": Setting("vtln-low", 100.0, "Where a warped frequency axis (VTLN) is bent, in Hz"),
    "vtln_high": Setting("vtln-high", -500.0, "The same near its end; up to 0: so much above half the sampling rate"),
    "debug_mel": Setting("debug-mel", False, "No effect: filters are not printed"),
}
_ENERGY_OPTIONS = {
    "energy_floor": Setting("energy-floor", 0.0, "Least energy, by its logarithm (0: none)"),
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
    """The settings that a conf file of features may have; ``kind`` is one of KIND_OPTIONS."""
    mel = MEL_OPTIONS.values() if kind != "spectrogram" else ()
    return (*FRAME_OPTIONS.values(), *mel, *KIND_OPTIONS[kind].values(), *_OTHER_OPTIONS)
