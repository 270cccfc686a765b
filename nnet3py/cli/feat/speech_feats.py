"""Programs that compute features of sound and detect voice activity.

compute-mfcc-feats, compute-fbank-feats, compute-plp-feats, compute-spectrogram-feats, compute-vad,
select-voiced-frames.
"""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.feat.options import FBANK, FEATURE_OPTIONS, MFCC, PLP, SPECTROGRAM
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.options import OptionError, Options, declared, fields_from, option
from nnet3py.errors import Nnet3Error
from nnet3py.feat.options import VadOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.feat.speech import SpeechFeatures
    from nnet3py.formats.foreign_files import Wave


_REPORT_EVERY = 10                          # utterances between two log lines
_HTK_MFCC, _HTK_FBANK, _HTK_PLP = 0o6, 0o7, 0o13             # kinds of features in HTK's files
_HTK_ENERGY, _HTK_C0 = 0o100, 0o20000


@kaldi_command("compute-mfcc-feats", "Sound and features", "Compute MFCC features of sound.", """
Compute mel-frequency cepstral coefficients of sound.

Usage: compute-mfcc-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-mfcc-feats --config=conf/mfcc.conf scp:wav.scp ark,scp:mfcc.ark,feats.scp
See also: compute-fbank-feats, compute-plp-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=MFCC)
def compute_mfcc_feats(args: list[str], options: Options) -> int:
    return _compute(args, options, "mfcc", _HTK_MFCC | (_HTK_ENERGY if options.use_energy else _HTK_C0))


@kaldi_command("compute-fbank-feats", "Sound and features", "Compute filterbank features of sound.", """
Compute the outputs of mel filterbanks for sound.

Usage: compute-fbank-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-fbank-feats --num-mel-bins=40 scp:wav.scp ark,scp:fbank.ark,feats.scp
See also: compute-mfcc-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=FBANK)
def compute_fbank_feats(args: list[str], options: Options) -> int:
    return _compute(args, options, "fbank", _HTK_FBANK | (_HTK_ENERGY if options.use_energy else 0))


@kaldi_command("compute-plp-feats", "Sound and features", "Compute PLP features of sound.", """
Compute perceptual linear prediction features of sound.

Usage: compute-plp-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-plp-feats --config=conf/plp.conf scp:wav.scp ark,scp:plp.ark,feats.scp
See also: compute-mfcc-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=PLP)
def compute_plp_feats(args: list[str], options: Options) -> int:
    return _compute(args, options, "plp", _HTK_PLP | (_HTK_ENERGY if options.use_energy else _HTK_C0))


@kaldi_command("compute-spectrogram-feats", "Sound and features", "Compute spectrograms of sound.", """
Compute logarithms of power spectra of sound; the first column is the log-energy.

Usage: compute-spectrogram-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-spectrogram-feats --config=conf/spectrogram.conf scp:wav.scp ark,scp:spec.ark,feats.scp
See also: compute-fbank-feats, extract-segments, copy-feats
""", arguments=(2, 2), options=SPECTROGRAM)
def compute_spectrogram_feats(args: list[str], options: Options) -> int:
    return _compute(args, options, "spectrogram", _HTK_FBANK | _HTK_C0)


def _compute(args: list[str], options: Options, kind: str, htk_kind: int) -> int:
    from nnet3py.feat.speech import SpeechFeatures, speech_options
    from nnet3py.formats.foreign_files import WAVE, htk_holder
    from nnet3py.formats.holders import DOUBLE, FLOAT, FLOAT_MATRIX
    from nnet3py.io.tables import RandomAccessMappedReader, SequentialReader, TableWriter

    values = options.as_dict()
    if values.get("utt2spk") and not options.vtln_map:
        raise OptionError("--utt2spk needs --vtln-map, which is not given")
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
    """Compute features, float32 (frames, dim); return None, with a warning, if they cannot be computed."""
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


def chosen_channel(key: str, count: int, wanted: int) -> int | None:
    """Return the channel that ``--channel`` names: ``wanted``, or 0 for -1.

    Returns None, with a warning, if ``wanted`` is not below ``count``, the number of channels.
    """
    if wanted < 0:
        if count != 1:
            log.warning(f"Channel not specified but you have data with {count} channels; defaulting to zero [{key}]")
        return 0
    if wanted >= count:
        log.warning(f"File with id {key} has {count} channels but you specified channel {wanted}, producing no output.")
        return None
    return wanted


@kaldi_command("compute-vad", "Sound and features", "Find the frames that are voiced, by their energy.", """
Find voiced frames by their energy, the first column of the features: vectors of 1 (voiced) and 0.

Usage:  compute-vad [options] <feats-rspecifier> <vad-wspecifier>
e.g.:
 compute-vad scp:feats.scp ark:vad.ark
See also: select-voiced-frames
""", arguments=(2, 2), options=[
    option("omit-unvoiced-utts", bool, False, "Write nothing for utterances without a voiced frame"),
    *declared(settings_of(VadOptions)),
])
def compute_vad(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import voiced_frames
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR

    settings = fields_from(options, VadOptions())
    num_empty = num_unvoiced = num_frames = num_voiced = 0

    def voiced(key: str, features: np.ndarray) -> np.ndarray | None:
        nonlocal num_empty, num_unvoiced, num_frames, num_voiced
        if not features.size:
            log.warning(f"Empty feature matrix for utterance {key}")
            num_empty += 1
            return None
        voiced = voiced_frames(features, settings)
        if not voiced.any():
            log.warning(f"No frames were judged voiced for utterance {key}")
            num_unvoiced += 1
            if options.omit_unvoiced_utts:
                return None
        num_frames, num_voiced = num_frames + len(voiced), num_voiced + int(voiced.sum())
        return voiced

    written, _ = convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_VECTOR, voiced)
    done = written if options.omit_unvoiced_utts else written - num_unvoiced
    log.log(f"Applied energy based voice activity detection; processed {done} utterances successfully; {num_empty} had "
            f"empty features, and {num_unvoiced} were completely unvoiced.")
    log.log(f"Proportion of voiced frames was {num_voiced / max(num_frames, 1):g} over {num_frames} frames.")
    return 0 if done else 1


@kaldi_command("select-voiced-frames", "Sound and features", "Copy the frames of features that are voiced.", """
Copy the frames of features that are voiced, as compute-vad has found.

Usage:  select-voiced-frames [options] <feats-rspecifier> <vad-rspecifier> <feats-wspecifier>
e.g.:
 select-voiced-frames scp:feats.scp scp:vad.scp ark:-
See also: compute-vad
""", arguments=(3, 3))
def select_voiced_frames(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
    from nnet3py.io.tables import RandomAccessReader

    with RandomAccessReader(args[1], FLOAT_VECTOR) as voices:
        def selected(key: str, features: np.ndarray) -> np.ndarray | None:
            if key not in voices:
                log.warning(f"No VAD input found for utterance {key}")
                return None
            voiced = voices[key]
            if len(voiced) != len(features):
                log.warning(f"Mismatch in number for frames {len(features)} for features and VAD {len(voiced)}, for "
                            f"utterance {key}")
                return None
            if not voiced.any():
                log.warning(f"No features were judged as voiced for utterance {key}")
                return None
            return features[voiced != 0.0]

        return convert_table(args[0], args[2], FLOAT_MATRIX, FLOAT_MATRIX, selected, inputs=voices).report(
            "Done selecting voiced frames; processed {done} utterances, {errors} had errors.")
