"""compute-kaldi-pitch-feats and others: pitch of sound, pitch features for networks, interpolation of pitch."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import Nnet3Error
from nnet3py.feat.pitch_options import InterpolationOptions, PitchOptions, ProcessPitchOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.foreign_files import Wave


_PITCH = declared(settings_of(PitchOptions))
_PROCESS = declared(settings_of(ProcessPitchOptions))
_CHANNEL = option("channel", int, -1, "Channel to take (0 left, 1 right; -1: there is only one)", least=0)
_REPORT_EVERY = 10                          # utterances between two log lines
_SRAND = option("srand", int, 0, "No effect: the noise is the same for each sound")


@kaldi_command("compute-kaldi-pitch-feats", "Sound and features", "Find the pitch of sound.", """
Find the pitch of sound: for each frame the normalized cross-correlation (NCCF), and the pitch in Hz.

Usage: compute-kaldi-pitch-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-kaldi-pitch-feats --sample-frequency=8000 scp:wav.scp ark:- | \\
 process-kaldi-pitch-feats ark:- ark:pitch.ark
See also: process-kaldi-pitch-feats, compute-and-process-kaldi-pitch-feats
""", arguments=(2, 2), options=[*_PITCH, _CHANNEL])
def compute_kaldi_pitch_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.pitch import compute_pitch, pitch_options

    how = pitch_options(options.as_dict())
    return _compute_table(args, options, lambda samples, rate: compute_pitch(samples, rate, how))


@kaldi_command("compute-and-process-kaldi-pitch-feats", "Sound and features",
               "Find the pitch of sound, and compute pitch features for networks.", """
Find the pitch of sound, and compute pitch features for networks: a feature of voicing, the log pitch less its mean
nearby, and its change.

Usage: compute-and-process-kaldi-pitch-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.: compute-and-process-kaldi-pitch-feats --frames-per-chunk=10 --simulate-first-pass-online=true scp:wav.scp ark:out
See also: compute-kaldi-pitch-feats, process-kaldi-pitch-feats
""", arguments=(2, 2), options=[*_PITCH, *_PROCESS, _CHANNEL, _SRAND])
def compute_and_process_kaldi_pitch_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.pitch import frames_of_sound, pitch_options
    from nnet3py.feat.process_pitch import ProcessedPitchStream, process_pitch_options

    how, process = pitch_options(options.as_dict()), process_pitch_options(options.as_dict())
    return _compute_table(args, options,
                      lambda samples, rate: frames_of_sound(ProcessedPitchStream(how, process), samples, rate, how))


@kaldi_command("process-kaldi-pitch-feats", "Sound and features", "Compute pitch features for networks.", """
Compute pitch features for networks from the pitch of sound: a feature of voicing, the log pitch less its mean nearby,
and its change.

Usage: process-kaldi-pitch-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.: compute-kaldi-pitch-feats scp:wav.scp ark:- | process-kaldi-pitch-feats ark:- ark:pitch.ark
See also: compute-kaldi-pitch-feats, compute-and-process-kaldi-pitch-feats
""", arguments=(2, 2), options=[*_PROCESS, _SRAND])
def process_kaldi_pitch_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.process_pitch import process_pitch, process_pitch_options
    from nnet3py.formats.holders import FLOAT_MATRIX

    how = process_pitch_options(options.as_dict())

    def processed(key: str, raw: np.ndarray) -> np.ndarray | None:
        try:
            return process_pitch(raw, how)
        except Nnet3Error as error:
            log.warning(f"Failed to process the pitch of {key}: {error}")
            return None

    return convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX, processed).report(
        "Post-processed pitch for {done} utterances.")


def _compute_table(args: list[str], options: Options, compute: Callable[[np.ndarray, float], np.ndarray]) -> int:
    from nnet3py.formats.foreign_files import WAVE
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter

    done = errors = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[1], FLOAT_MATRIX))
        for key, wave in stack.enter_context(SequentialReader(args[0], WAVE)):
            pitch = _pitch_of_sound(key, wave, options.channel, compute)
            if pitch is None:
                errors += 1
                continue
            writer.write(key, pitch)
            done += 1
            if done % _REPORT_EVERY == 0:
                log.log(f"Processed {done} utterances")
            log.vlog(2, f"Processed features for key {key}")
    log.log(f"Done {done} utterances, {errors} with errors.")
    return 0 if done else 1


def _pitch_of_sound(key: str, wave: Wave, wanted: int, compute: Callable[[np.ndarray, float], np.ndarray]) -> (
        np.ndarray | None):
    """Compute the pitch of a sound; return None, with a warning, if it has none."""
    from nnet3py.cli.feat.speech_feats import chosen_channel

    channel = chosen_channel(key, len(wave.samples), wanted)
    if channel is None:
        return None
    try:
        pitch = compute(wave.samples[channel], wave.rate)
    except Nnet3Error as error:
        log.warning(f"Failed to compute pitch for utterance {key}: {error}")
        return None
    if not len(pitch):
        log.warning(f"Utterance {key} is shorter than a window ({wave.duration:g} sec): it has no frames")
    return pitch


@kaldi_command("interpolate-pitch", "Sound and features", "Interpolate the pitch of frames without one.", """
Interpolate the pitch of frames without one (0): by the likeliest smooth curve, or by lines.

Usage: interpolate-pitch [options] <feats-rspecifier> <feats-wspecifier>
e.g.: interpolate-pitch ark:pitch.ark ark:filled.ark
See also: compute-kaldi-pitch-feats, process-kaldi-pitch-feats
""", arguments=(2, 2), options=[
    option("linear-interpolation", bool, False, "Interpolate by lines, and change no other frames"),
    *declared(settings_of(InterpolationOptions)),
])
def interpolate_pitch(args: list[str], options: Options) -> int:
    from nnet3py.feat.process_pitch import interpolate_linearly, interpolate_pitch
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.random_sequence import CRandom

    how = fields_from(options, InterpolationOptions())
    how.check()
    random, total, zero, changed, errors = CRandom(), 0, 0, 0, 0

    def filled(key: str, features: np.ndarray) -> np.ndarray | None:
        nonlocal total, zero, changed, errors
        try:
            if options.linear_interpolation:
                return interpolate_linearly(features)
            result = interpolate_pitch(features, how, random)
        except Nnet3Error as error:
            log.warning(f"Failed to interpolate the pitch of {key}: {error}")
            errors += 1
            return None
        total, zero, changed = total + len(features), zero + result.num_zero, changed + result.num_changed
        return result.features

    done, _ = convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX, filled)
    if not options.linear_interpolation and total:
        log.log(f"Over {total} frames, {100 * zero / total:g}% were zero at input, and {100 * changed / total:g}% were "
                "not zero but were changed.")
    log.log(f"Done {done} utterances, {errors} with errors.")
    return 0 if done else 1
