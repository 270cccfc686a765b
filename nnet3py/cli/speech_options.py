"""The options of features of sound: of the commands that compute them, and of the files that a recogniser names."""
from __future__ import annotations

from nnet3py.cli.option_groups import without
from nnet3py.cli.options import Option, option

_MFCC_OWN = [
    option("num-ceps", int, 13, "Number of cepstral coefficients, with C0"),
    option("cepstral-lifter", float, 22.0, "How much high coefficients are raised"),
]
_FBANK_OWN = [
    option("use-log-fbank", bool, True, "Write logarithms of the filters' outputs"),
    option("use-power", bool, True, "Filter the power spectrum; false: the magnitudes"),
]


def _options(use_energy: bool, own: list[Option]) -> list[Option]:
    return [
        option("sample-frequency", float, 16000.0, "Samples a second of the sound (must agree with the files)"),
        option("frame-length", float, 25.0, "Length of a window in milliseconds"),
        option("frame-shift", float, 10.0, "From one window to the next, in milliseconds"),
        option("dither", float, 1.0, "How much noise is added (0: none, for the same features every time)"),
        option("preemphasis-coefficient", float, 0.97, "Coefficient of the filter that raises high frequencies"),
        option("remove-dc-offset", bool, True, "Subtract the mean of the samples of each window"),
        option("window-type", str, "povey", "hamming, hanning, povey, rectangular, sine or blackman"),
        option("round-to-power-of-two", bool, True, "Fill windows with zeros up to a power of two"),
        option("blackman-coeff", float, 0.42, "Coefficient of the blackman window"),
        option("snip-edges", bool, True, "Take only windows that lie within the sound; false: as many as there are "
               "shifts, the sound being mirrored at its ends"),
        option("allow-downsample", bool, False, "Resample sound of a higher rate"),
        option("allow-upsample", bool, False, "Resample sound of a lower rate"),
        option("max-feature-vectors", int, -1, "No effect: whole utterances are computed"),
        option("num-mel-bins", int, 23, "Number of triangular filters"),
        option("low-freq", float, 20.0, "Where the filters begin, in Hz"),
        option("high-freq", float, 0.0, "Where they end, in Hz; up to 0: so much above half the sampling rate"),
        option("vtln-low", float, 100.0, "No effect, as nothing is warped"),
        option("vtln-high", float, -500.0, "No effect, as nothing is warped"),
        option("debug-mel", bool, False, "Print the filters"),
        option("use-energy", bool, use_energy, "Put the energy first" if own is _MFCC_OWN else "Add the energy"),
        option("energy-floor", float, 0.0, "Least energy, by its logarithm (0: none)"),
        option("raw-energy", bool, True, "Compute the energy before preemphasis and windowing"),
        option("htk-compat", bool, False, "Put the energy or C0 last, and scale C0 as HTK does"),
        *own,
        option("output-format", str, "kaldi", "kaldi or htk", choices=("kaldi", "htk")),
        option("subtract-mean", bool, False, "Subtract the mean of each utterance"),
        option("vtln-warp", float, 1.0, "Only 1, no warping, can be computed"),
        option("vtln-map", str, "", "Rspecifier of the warp factors of utterances or speakers; only 1 can be computed"),
        option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for --vtln-map"),
        option("channel", int, -1, "Channel to take (0 left, 1 right; -1: there is only one)"),
        option("min-duration", float, 0.0, "Leave out what is shorter, in seconds"),
        option("write-utt2dur", str, "", "Wspecifier for the duration of each utterance, in seconds"),
    ]


MFCC, FBANK = _options(True, _MFCC_OWN), _options(False, _FBANK_OWN)

# Of a file of options that --mfcc-config or --fbank-config names.
_OF_TABLES = ("output-format", "subtract-mean", "vtln-warp", "vtln-map", "utt2spk", "channel", "min-duration",
              "write-utt2dur")
FEATURE_OPTIONS = {"mfcc": without(MFCC, *_OF_TABLES),
                   "fbank": without(FBANK, *_OF_TABLES)}
