"""compute-vad and select-voiced-frames."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.options import OptionError, Options, declared, fields_from, option
from nnet3py.feat.options import VadOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    import numpy as np


@kaldi_command("compute-vad", group="Sound and features", help="Find the frames that are voiced, by their energy.",
               usage="""
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
    """Convert a table; 1 if nothing was done."""
    from nnet3py.feat.frames import voiced_frames
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR

    if not 0.0 < options.vad_proportion_threshold < 1.0 or options.vad_frames_context < 0:
        raise OptionError("--vad-proportion-threshold must lie between 0 and 1, --vad-frames-context not below 0")
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


@kaldi_command("select-voiced-frames", group="Sound and features", help="Copy the frames of features that are voiced.",
               usage="""
Copy the frames of features that are voiced, as compute-vad has found.

Usage:  select-voiced-frames [options] <feats-rspecifier> <vad-rspecifier> <feats-wspecifier>
e.g.:
 select-voiced-frames scp:feats.scp scp:vad.scp ark:-
See also: compute-vad
""", arguments=(3, 3))
def select_voiced_frames(args: list[str], options: Options) -> int:
    """Convert a table; 1 if nothing was written."""
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

        done, errors = convert_table(args[0], args[2], FLOAT_MATRIX, FLOAT_MATRIX, selected)
    log.log(f"Done selecting voiced frames; processed {done} utterances, {errors} had errors.")
    return 0 if done else 1
