"""compute-mfcc-feats and compute-fbank-feats: features of sound."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import OptionError, Options
from nnet3py.cli.speech_options import FBANK, MFCC
from nnet3py.errors import Nnet3Error, UsageError

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.features.speech import SpeechFeatures, SpeechOptions
    from nnet3py.formats.wave_file import Wave

_REPORT_EVERY = 10                          # utterances
_HTK_MFCC, _HTK_FBANK = 0o6, 0o7            # kinds of HTK's files
_HTK_ENERGY, _HTK_C0 = 0o100, 0o20000


@kaldi_command("compute-mfcc-feats", usage="""
Compute mel-frequency cepstral coefficients of sound (needs the extra "features").

Usage: compute-mfcc-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-mfcc-feats --config=conf/mfcc.conf scp:wav.scp ark,scp:mfcc.ark,feats.scp
See also: compute-fbank-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=MFCC)
def compute_mfcc_feats(args: list[str], options: Options) -> int:
    """Compute MFCCs; 1 if there was no utterance."""
    return _compute(args, options, _speech_options("mfcc", options),
                    _HTK_MFCC | (_HTK_ENERGY if options.use_energy else _HTK_C0))


@kaldi_command("compute-fbank-feats", usage="""
Compute the outputs of mel filterbanks for sound (needs the extra "features").

Usage: compute-fbank-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-fbank-feats --num-mel-bins=40 scp:wav.scp ark,scp:fbank.ark,feats.scp
See also: compute-mfcc-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=FBANK)
def compute_fbank_feats(args: list[str], options: Options) -> int:
    """Compute filterbank features; 1 if there was no utterance."""
    return _compute(args, options, _speech_options("fbank", options),
                    _HTK_FBANK | (_HTK_ENERGY if options.use_energy else 0))


def _speech_options(kind: str, options: Options) -> SpeechOptions:
    from nnet3py.features.speech import speech_options

    if options.vtln_warp != 1.0:
        raise _no_warping(f"--vtln-warp={options.vtln_warp:g}")
    if options.utt2spk and not options.vtln_map:
        raise OptionError("--utt2spk is only for --vtln-map, which is not given")
    return speech_options(kind, options.as_dict())


def _no_warping(option: str) -> UsageError:
    return UsageError(f"{option}: features with a warped frequency axis (VTLN) cannot be computed, because the library "
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
