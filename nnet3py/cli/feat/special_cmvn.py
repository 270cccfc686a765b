"""compute-cmvn-stats-two-channel and apply-cmvn-sliding: normalization for calls, and over a sliding window."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, within

if TYPE_CHECKING:
    import numpy as np

_SIDES = 2


@kaldi_command("compute-cmvn-stats-two-channel", group="Transforming features",
               help="Compute mean and variance statistics of both sides of calls.", usage="""
Compute statistics for mean and variance normalization of telephone calls whose two sides were recorded apart: a frame
counts for the side on which it is louder, by the first column of the features (energy or C0), and little for the other.

A line of the file reads <utterance-id> <call-id> <side>. An utterance whose call has no other side counts as it is.

Usage: compute-cmvn-stats-two-channel [options] <reco2file-and-channel> <feats-rspecifier> <stats-wspecifier>
e.g.: compute-cmvn-stats-two-channel data/train/reco2file_and_channel scp:data/train/feats.scp ark,scp:cmvn.ark,cmvn.scp
See also: compute-cmvn-stats, apply-cmvn
""", arguments=(3, 3), options=[
    option("quieter-channel-weight", float, 0.01, "Weight of frames that are louder on the other side, so that there "
           "are statistics of a side that is never louder"),
])
def compute_cmvn_stats_two_channel(args: list[str], options: Options) -> int:
    """Compute statistics; 1 if there was nothing to compute them from."""
    from nnet3py.feat.cmvn import accumulate_stats, empty_stats, weights_of_two_channels
    from nnet3py.formats.holders import DOUBLE_MATRIX, FLOAT_MATRIX
    from nnet3py.io.tables import RandomAccessReader, TableWriter

    if not 0.0 <= options.quieter_channel_weight <= 1.0:
        raise OptionError(f"Invalid option --quieter-channel-weight={options.quieter_channel_weight:g}",
                          "expected a weight from 0 to 1")
    calls = _calls(args[0])
    done = errors = 0
    with TableWriter(args[2], DOUBLE_MATRIX) as writer, RandomAccessReader(args[1], FLOAT_MATRIX) as reader:
        for keys in calls.values():
            features: dict[str, np.ndarray] = {}
            for key in keys:
                matrix = reader.get(key)
                if matrix is None or not matrix.size:
                    log.warning(f"{'Did not find' if matrix is None else 'No frames in the'} features of {key}")
                    errors += 1
                else:
                    features[key] = matrix
            weights: tuple[np.ndarray | None, ...] = (None,) * len(features)
            if len(features) == _SIDES:
                first, other = features.values()
                if len(first) != len(other):
                    log.warning(f"Number of frames differs between the sides {' and '.join(features)}: {len(first)} "
                                f"vs. {len(other)}")
                weights = weights_of_two_channels(first, other, options.quieter_channel_weight)
            for (key, matrix), weight in zip(features.items(), weights, strict=True):
                stats = empty_stats(matrix.shape[1])
                with within(f"utterance {key}"):
                    accumulate_stats(matrix, stats, weight)
                writer.write(key, stats)
                done += 1
    log.log(f"Done accumulating CMVN stats for {done} utterances; {errors} had errors.")
    return 0 if done else 1


def _calls(rxfilename: str) -> dict[str, list[str]]:
    """The utterances of each call, one or two, in the order of their sides."""
    from nnet3py.io.streams import failed_command, open_input

    sides: dict[str, dict[str, str]] = {}
    keys: set[str] = set()
    with open_input(rxfilename) as stream:
        for number, line in enumerate(stream.without_mark().readlines(), 1):
            words = line.decode("utf-8", "surrogateescape").split()
            if len(words) != 3:
                raise FormatError(f"line {number} has {len(words)} words, expected '<utterance-id> <call-id> <side>'",
                                  path=rxfilename)
            key, call, side = words
            of_call = sides.setdefault(call, {})
            if side in of_call or len(of_call) == _SIDES or key in keys:
                raise FormatError(f"line {number}: expected each utterance once, and of the call {call} two sides at "
                                  f"most, found '{' '.join(words)}'", path=rxfilename)
            of_call[side] = key
            keys.add(key)
    if stream.status:
        raise failed_command(rxfilename, stream.status)
    return {call: [of_call[side] for side in sorted(of_call)] for call, of_call in sides.items()}


@kaldi_command("apply-cmvn-sliding", group="Transforming features", help="Normalize features over a sliding window.",
               usage="""
Normalize the means, and optionally the variances, of features over a sliding window, as speaker recognition does.

Usage: apply-cmvn-sliding [options] <feats-rspecifier> <feats-wspecifier>
e.g.: apply-cmvn-sliding --norm-vars=false --center=true --cmn-window=300 scp:feats.scp ark:-
See also: apply-cmvn, apply-cmvn-online
""", arguments=(2, 2), options=[
    option("cmn-window", int, 600, "Frames of the window"),
    option("min-cmn-window", int, 100, "Frames of the window at the beginning, without --center"),
    option("center", bool, False, "The window lies around the frame, instead of ending with it"),
    option("norm-vars", bool, False, "Normalize the variances, too"),
    option("max-warnings", int, 5, "No effect: variances are floored without a warning"),
])
def apply_cmvn_sliding(args: list[str], options: Options) -> int:
    """Normalize a table; 1 if nothing was written."""
    from nnet3py.cli.process.copying import convert_table
    from nnet3py.feat.cmvn import normalize_sliding
    from nnet3py.formats.holders import FLOAT_MATRIX

    def normalized(key: str, features: np.ndarray) -> np.ndarray | None:
        if not features.size:
            log.warning(f"Empty feature matrix for utterance {key}")
            return None
        return normalize_sliding(features, options.cmn_window, options.min_cmn_window, options.center,
                                 options.norm_vars)

    done, errors = convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX, normalized)
    log.log(f"Applied sliding-window cepstral {'mean and variance' if options.norm_vars else 'mean'} normalization to "
            f"{done} utterances, {errors} had errors.")
    return 0 if done else 1
