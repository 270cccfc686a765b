"""compute-mfcc-feats, compute-fbank-feats, compute-plp-feats and compute-spectrogram-feats: features of sound."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.feat.sound_channel import chosen_channel
from nnet3py.cli.feat.speech_options import FBANK, FEATURE_OPTIONS, MFCC, PLP, SPECTROGRAM
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options
from nnet3py.errors import Nnet3Error

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.feat.speech import SpeechFeatures
    from nnet3py.formats.foreign_files import Wave

_REPORT_EVERY = 10                          # utterances
_HTK_MFCC, _HTK_FBANK, _HTK_PLP = 0o6, 0o7, 0o13             # kinds of HTK's files
_HTK_ENERGY, _HTK_C0 = 0o100, 0o20000


@kaldi_command("compute-mfcc-feats", group="Sound and features", help="Compute MFCC features of sound.", usage="""
Compute mel-frequency cepstral coefficients of sound.

Usage: compute-mfcc-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-mfcc-feats --config=conf/mfcc.conf scp:wav.scp ark,scp:mfcc.ark,feats.scp
See also: compute-fbank-feats, compute-plp-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=MFCC)
def compute_mfcc_feats(args: list[str], options: Options) -> int:
    """Compute MFCCs; 1 if there was no utterance."""
    return _compute(args, options, "mfcc", _HTK_MFCC | (_HTK_ENERGY if options.use_energy else _HTK_C0))


@kaldi_command("compute-fbank-feats", group="Sound and features", help="Compute filterbank features of sound.",
               usage="""
Compute the outputs of mel filterbanks for sound.

Usage: compute-fbank-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-fbank-feats --num-mel-bins=40 scp:wav.scp ark,scp:fbank.ark,feats.scp
See also: compute-mfcc-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=FBANK)
def compute_fbank_feats(args: list[str], options: Options) -> int:
    """Compute filterbank features; 1 if there was no utterance."""
    return _compute(args, options, "fbank", _HTK_FBANK | (_HTK_ENERGY if options.use_energy else 0))


@kaldi_command("compute-plp-feats", group="Sound and features", help="Compute PLP features of sound.", usage="""
Compute perceptual linear prediction features of sound.

Usage: compute-plp-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-plp-feats --config=conf/plp.conf scp:wav.scp ark,scp:plp.ark,feats.scp
See also: compute-mfcc-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=PLP)
def compute_plp_feats(args: list[str], options: Options) -> int:
    """Compute PLP features; 1 if there was no utterance."""
    return _compute(args, options, "plp", _HTK_PLP | (_HTK_ENERGY if options.use_energy else _HTK_C0))


@kaldi_command("compute-spectrogram-feats", group="Sound and features", help="Compute spectrograms of sound.", usage="""
Compute logarithms of power spectra of sound; the first column is the energy's.

Usage: compute-spectrogram-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-spectrogram-feats --config=conf/spectrogram.conf scp:wav.scp ark,scp:spec.ark,feats.scp
See also: compute-fbank-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=SPECTROGRAM)
def compute_spectrogram_feats(args: list[str], options: Options) -> int:
    """Compute spectrograms; 1 if there was no utterance."""
    return _compute(args, options, "spectrogram", _HTK_FBANK | _HTK_C0)


def _compute(args: list[str], options: Options, kind: str, htk_kind: int) -> int:
    from nnet3py.feat.speech import SpeechFeatures, speech_options
    from nnet3py.formats.foreign_files import WAVE, htk_holder
    from nnet3py.formats.holders import DOUBLE, FLOAT, FLOAT_MATRIX
    from nnet3py.io.tables import RandomAccessMappedReader, SequentialReader, TableWriter

    values = options.as_dict()
    if values.get("utt2spk") and not options.vtln_map:
        raise OptionError("--utt2spk is only for --vtln-map, which is not given")
    own = {each.name: values[each.name] for each in FEATURE_OPTIONS[kind]}
    computer = SpeechFeatures(speech_options(kind, own), values.get("vtln-warp", 1.0))
    done = total = 0
    with ExitStack() as stack:
        holder = htk_holder(htk_kind) if options.output_format == "htk" else FLOAT_MATRIX
        writer = stack.enter_context(TableWriter(args[1], holder))
        durations = None
        if options.write_utt2dur:
            durations = stack.enter_context(TableWriter(options.write_utt2dur, DOUBLE))
        # The readers are closed first: if their input was bad, the output does not appear.
        warps = None
        if values.get("vtln-map"):
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
    channel = chosen_channel(key, len(wave.samples), options.channel)
    if channel is None:
        return None
    warp = None
    if warps is not None:
        if key not in warps:
            log.warning(f"No vtln-map entry for utterance-id (or speaker-id) {key}")
            return None
        warp = float(warps[key])
    try:
        features = computer.compute(wave.samples[channel], wave.rate, warp)
    except Nnet3Error as error:
        log.warning(f"Failed to compute features for utterance {key}: {error}")
        return None
    if not len(features):
        log.warning(f"Utterance {key} is shorter than a window ({wave.duration:g} sec): it has no frames")
    elif options.subtract_mean:
        features = features - features.mean(axis=0)
    return features
