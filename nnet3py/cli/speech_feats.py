"""compute-mfcc-feats and compute-fbank-feats: features of sound."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import Option, OptionError, Options, option
from nnet3py.errors import Nnet3Error, UsageError

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.features.speech import SpeechFeatures, SpeechOptions
    from nnet3py.formats.wave_file import Wave

_REPORT_EVERY = 10                          # utterances
_HTK_MFCC, _HTK_FBANK = 0o6, 0o7            # kinds of HTK's files
_HTK_ENERGY, _HTK_C0 = 0o100, 0o20000

# What the library calls an option: the frames' options, the mel filters', the features' own.
_FRAME = {"sample-frequency": "samp_freq", "frame-length": "frame_length_ms", "frame-shift": "frame_shift_ms",
          "dither": "dither", "preemphasis-coefficient": "preemph_coeff", "remove-dc-offset": "remove_dc_offset",
          "window-type": "window_type", "round-to-power-of-two": "round_to_power_of_two",
          "blackman-coeff": "blackman_coeff", "snip-edges": "snip_edges"}
_MEL = {"num-mel-bins": "num_bins", "low-freq": "low_freq", "high-freq": "high_freq", "debug-mel": "debug_mel"}
_MFCC = {"num-ceps": "num_ceps", "use-energy": "use_energy", "energy-floor": "energy_floor",
         "raw-energy": "raw_energy", "cepstral-lifter": "cepstral_lifter", "htk-compat": "htk_compat"}
_FBANK = {"use-energy": "use_energy", "energy-floor": "energy_floor", "raw-energy": "raw_energy",
          "htk-compat": "htk_compat", "use-log-fbank": "use_log_fbank", "use-power": "use_power"}


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


_MFCC_OWN = [
    option("num-ceps", int, 13, "Number of cepstral coefficients, with C0"),
    option("cepstral-lifter", float, 22.0, "How much high coefficients are raised"),
]
_FBANK_OWN = [
    option("use-log-fbank", bool, True, "Write logarithms of the filters' outputs"),
    option("use-power", bool, True, "Filter the power spectrum; false: the magnitudes"),
]


@kaldi_command("compute-mfcc-feats", usage="""
Compute mel-frequency cepstral coefficients of sound (needs the extra "features").

Usage: compute-mfcc-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-mfcc-feats --config=conf/mfcc.conf scp:wav.scp ark,scp:mfcc.ark,feats.scp
See also: compute-fbank-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=_options(True, _MFCC_OWN))
def compute_mfcc_feats(args: list[str], options: Options) -> int:
    """Compute MFCCs; 1 if there was no utterance."""
    return _compute(args, options, _speech_options("mfcc", options, _MFCC),
                    _HTK_MFCC | (_HTK_ENERGY if options.use_energy else _HTK_C0))


@kaldi_command("compute-fbank-feats", usage="""
Compute the outputs of mel filterbanks for sound (needs the extra "features").

Usage: compute-fbank-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-fbank-feats --num-mel-bins=40 scp:wav.scp ark,scp:fbank.ark,feats.scp
See also: compute-mfcc-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=_options(False, _FBANK_OWN))
def compute_fbank_feats(args: list[str], options: Options) -> int:
    """Compute filterbank features; 1 if there was no utterance."""
    return _compute(args, options, _speech_options("fbank", options, _FBANK),
                    _HTK_FBANK | (_HTK_ENERGY if options.use_energy else 0))


def _speech_options(kind: str, options: Options, own: dict[str, str]) -> SpeechOptions:
    from nnet3py.features.speech import SpeechOptions

    if options.vtln_warp != 1.0:
        raise _no_warping(f"--vtln-warp={options.vtln_warp:g}")
    if options.utt2spk and not options.vtln_map:
        raise OptionError("--utt2spk is only for --vtln-map, which is not given")
    frame, mel, others = ({theirs: options[ours] for ours, theirs in names.items()} for names in (_FRAME, _MEL, own))
    return SpeechOptions(kind, frame, mel, others, options.allow_downsample, options.allow_upsample)


def _no_warping(found: str) -> UsageError:
    return UsageError(f"{found}: features with a warped frequency axis (VTLN) cannot be computed, because the library "
                      "kaldi-native-fbank has no such option", "only the warp factor 1 is possible")


def _compute(args: list[str], options: Options, speech: SpeechOptions, htk_kind: int) -> int:
    from nnet3py.features.speech import SpeechFeatures
    from nnet3py.formats.foreign_features import htk_holder
    from nnet3py.formats.holders import DOUBLE, FLOAT, FLOAT_MATRIX
    from nnet3py.formats.wave_file import WAVE
    from nnet3py.io.tables import RandomAccessMappedReader, SequentialReader, TableWriter

    computer = SpeechFeatures(speech)
    done = total = 0
    with ExitStack() as stack:
        holder = htk_holder(htk_kind) if options.output_format == "htk" else FLOAT_MATRIX
        writer = stack.enter_context(TableWriter(args[1], holder))
        durations = None
        if options.write_utt2dur:
            durations = stack.enter_context(TableWriter(options.write_utt2dur, DOUBLE))
        # The readers are closed first: if their input was bad, the output does not appear.
        warps = None
        if options.vtln_map:
            warps = stack.enter_context(RandomAccessMappedReader(options.vtln_map, options.utt2spk, FLOAT))
        for key, wave in stack.enter_context(SequentialReader(args[0], WAVE)):
            total += 1
            features = _features(key, wave, computer, options, warps)
            if features is None:
                continue
            writer.write(key, features)
            if durations is not None:
                durations.write(key, wave.duration)
            if total % _REPORT_EVERY == 0:
                log.log(f"Processed {total} utterances")
            log.vlog(2, f"Processed features for key {key}")
            done += 1
    log.log(f" Done {done} out of {total} utterances.")
    return 0 if done else 1


def _features(key: str, wave: Wave, computer: SpeechFeatures, options: Options, warps: Any) -> np.ndarray | None:
    """The features of an utterance; None, with a warning, if there are none."""
    if wave.duration < options.min_duration:
        log.warning(f"File: {key} is too short ({wave.duration:g} sec): producing no output.")
        return None
    channel = _channel(key, len(wave.samples), options.channel)
    if channel is None:
        return None
    if warps is not None:
        if key not in warps:
            log.warning(f"No vtln-map entry for utterance-id (or speaker-id) {key}")
            return None
        if warps[key] != 1.0:
            raise _no_warping(f"the warp factor of {key}, {warps[key]:g}")
    try:
        features = computer.compute(wave.samples[channel], wave.rate)
    except Nnet3Error as error:
        log.warning(f"Failed to compute features for utterance {key}: {error}")
        return None
    if not len(features):
        log.warning(f"Utterance {key} is shorter than a window ({wave.duration:g} sec): it has no frames")
    elif options.subtract_mean:
        features = features - features.mean(axis=0)
    return features


def _channel(key: str, count: int, wanted: int) -> int | None:
    if wanted < 0:
        if count != 1:
            log.warning(f"Channel not specified but you have data with {count} channels; defaulting to zero [{key}]")
        return 0
    if wanted >= count:
        log.warning(f"File with id {key} has {count} channels but you specified channel {wanted}, producing no output.")
        return None
    return wanted
