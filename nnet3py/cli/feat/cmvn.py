"""Programs of mean and variance normalization: of utterances, speakers and calls, online, and over a sliding window."""
from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.feat.options import CMVN
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table, copy_table, write_value
from nnet3py.cli.process.option_groups import BINARY, without
from nnet3py.cli.process.options import OptionError, Options, fields_from, int_list, option
from nnet3py.errors import FormatError, within
from nnet3py.feat.options import OnlineOptions
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from nnet3py.io.tables import RandomAccessReader


UTT2SPK = option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for statistics per speaker")
SPK2UTT = option("spk2utt", str, "", "Rspecifier of the lists of each speaker's utterances")


# -- statistics --------------------------------------------------------------------------------------------------------


@kaldi_command("compute-cmvn-stats", "Transforming features", "Compute mean and variance statistics of features.", """
Compute statistics for mean and variance normalization: of each utterance, of each speaker (with --spk2utt), or of all
features together, if the output is a plain file.

Usage: compute-cmvn-stats [options] <feats-rspecifier> (<stats-wspecifier>|<stats-wxfilename>)
e.g.: compute-cmvn-stats --spk2utt=ark:data/train/spk2utt scp:data/train/feats.scp ark,scp:cmvn.ark,cmvn.scp
See also: apply-cmvn, modify-cmvn-stats
""", arguments=(2, 2), options=[
    BINARY, SPK2UTT,
    option("weights", str, "", "Rspecifier of vectors with a weight for each frame; 0 leaves a frame out"),
])
def compute_cmvn_stats(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import DOUBLE_MATRIX, FLOAT_VECTOR
    from nnet3py.io.tables import RandomAccessReader, TableWriter

    to_table = is_wspecifier(args[1])
    if options.spk2utt and not to_table:
        raise OptionError("--spk2utt option not compatible with wxfilename as output (did you forget ark:?)")
    stats = None
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[1], DOUBLE_MATRIX)) if to_table else None
        # Closed before the writer: if its input was bad, the output does not appear.
        weights = stack.enter_context(RandomAccessReader(options.weights, FLOAT_VECTOR)) if options.weights else None
        tally = _Tally(weights)
        for name, features_of in _groups(args[0], options.spk2utt):
            for key, features in features_of:
                stats = tally.add(key, features, stats)
            if writer is None:
                continue
            if stats is not None:
                writer.write(name, stats)
            elif options.spk2utt:
                log.warning(f"No stats accumulated for speaker {name}")
            stats = None
    if stats is not None:
        _write_global(args[1], stats, options.binary)
    return tally.report()


class _Tally:
    """Accumulator of utterances' statistics, with optional weights of frames; it counts utterances added and failed."""

    def __init__(self, weights: RandomAccessReader[np.ndarray] | None) -> None:
        self._weights = weights
        self.done = self.errors = 0

    def add(self, key: str, features: np.ndarray | None, stats: np.ndarray | None) -> np.ndarray | None:
        """Add an utterance to ``stats`` in place, or to new statistics for None; return the statistics.

        On an error a warning is logged, and ``stats`` is returned as it was.
        """
        from nnet3py.feat.cmvn import accumulate_stats, empty_stats

        weights = None
        if features is None:
            return self.failed(f"Did not find features for utterance {key}", stats)
        if self._weights is not None:
            weights = self._weights.get(key)
            if weights is None:
                return self.failed(f"No weights available for utterance {key}", stats)
            if len(weights) != len(features):
                return self.failed(f"Weights for utterance {key} have wrong dimension {len(weights)} vs. "
                                   f"{len(features)}", stats)
        if not features.size:
            return self.failed(f"Empty feature matrix for utterance {key}", stats)
        if stats is None:
            stats = empty_stats(features.shape[1])
        with within(f"utterance {key}"):
            accumulate_stats(features, stats, weights)
        self.done += 1
        return stats

    def failed(self, message: str, stats: np.ndarray | None) -> np.ndarray | None:
        """Log a warning, count an error, and return ``stats``."""
        log.warning(message)
        self.errors += 1
        return stats

    def report(self) -> int:
        """Log the counts; return the exit status."""
        log.log(f"Done accumulating CMVN stats for {self.done} utterances; {self.errors} had errors.")
        return 0 if self.done else 1


def _groups(rspecifier: str, spk2utt: str) -> Iterator[tuple[str, Iterator[tuple[str, np.ndarray | None]]]]:
    """Yield each speaker with pairs of utterance and features, None if missing.

    Without ``spk2utt`` each utterance is yielded as a speaker of its own.
    """
    from nnet3py.formats.holders import FLOAT_MATRIX, TOKEN_VECTOR, read_matrices
    from nnet3py.io.tables import RandomAccessReader, SequentialReader

    if not spk2utt:
        for key, matrix in read_matrices(rspecifier):
            yield key, iter([(key, matrix)])
        return
    with RandomAccessReader(rspecifier, FLOAT_MATRIX) as features, SequentialReader(spk2utt, TOKEN_VECTOR) as speakers:
        for speaker, utterances in speakers:
            yield speaker, ((key, features.get(key)) for key in utterances)


def _write_global(wxfilename: str, stats: np.ndarray, binary: bool) -> None:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX

    with np.errstate(over="ignore"):
        write_value(wxfilename, FLOAT_MATRIX, stats.astype(np.float32), binary)
    log.log(f"Wrote global CMVN stats to {wxfilename}")


@kaldi_command("modify-cmvn-stats", "Transforming features", "Exempt dimensions from normalization.", """
Copy normalization statistics so that some dimensions will not be normalized, or turn them into means and variances.

Usage: modify-cmvn-stats [options] [<fake-dims>] <in-rspecifier> <out-wspecifier>
e.g.: modify-cmvn-stats 13:14:15 ark:cmvn.ark ark:-
See also: compute-cmvn-stats
""", arguments=(2, 3), options=[
    option("convert-to-mean-and-var", bool, False, "Write two rows, means and variances, instead of sums"),
])
def modify_cmvn_stats(args: list[str], options: Options) -> int:
    from nnet3py.feat.cmvn import fake_stats, mean_and_variance
    from nnet3py.formats.holders import DOUBLE_MATRIX

    *fake, source, target = args
    dims = int_list(fake[0], "first argument") if fake else []

    def modified(key: str, stats: np.ndarray) -> np.ndarray:
        stats = fake_stats(stats, dims)
        return mean_and_variance(stats) if options.convert_to_mean_and_var else stats

    return convert_table(source, target, DOUBLE_MATRIX, DOUBLE_MATRIX, modified).report(
        "Modified {done} sets of stats.")


# -- normalization -----------------------------------------------------------------------------------------------------


@kaldi_command("apply-cmvn", "Transforming features", "Normalize the means and variances of features.", """
Normalize the means, and optionally the variances, of features: of each utterance, or with --utt2spk of each speaker,
or of all with the statistics in a plain file.

Usage: apply-cmvn [options] (<cmvn-stats-rspecifier>|<cmvn-stats-rxfilename>) <feats-rspecifier> <feats-wspecifier>
e.g.: apply-cmvn --utt2spk=ark:data/train/utt2spk scp:data/train/cmvn.scp scp:data/train/feats.scp ark:-
See also: compute-cmvn-stats, modify-cmvn-stats, matrix-sum
""", arguments=(3, 3), options=[
    UTT2SPK, *without(CMVN, "cmn-window", "speaker-frames", "global-frames"),
    option("reverse", bool, False, "Give normalized features the means and variances of the statistics"),
])
def apply_cmvn(args: list[str], options: Options) -> int:
    from nnet3py.feat.cmvn import fake_stats, normalize
    from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX

    stats_name, source, target = args
    settings = fields_from(options, OnlineOptions())
    if not options.norm_means:
        return copy_table(source, target, GENERAL_MATRIX).report("Copied {done} utterances.")
    with ExitStack() as stack:
        find = _finder(stack, stats_name, options.utt2spk)

        def normalized(key: str, features: np.ndarray) -> np.ndarray | None:
            stats = find(key)
            if stats is None:
                log.warning(f"No normalization statistics available for key {key}, producing no output for this "
                            "utterance")
                return None
            if settings.skip_dims:
                stats = fake_stats(stats, settings.skip_dims)
            return normalize(features, stats, options.norm_vars, options.reverse)

        done, errors = convert_table(source, target, FLOAT_MATRIX, FLOAT_MATRIX, normalized, inputs=stack)
    what = "mean and variance" if options.norm_vars else "mean"
    log.log(f"Applied cepstral {what} normalization to {done} utterances, errors on {errors}")
    return 0 if done else 1


def _finder(stack: ExitStack, name: str, utt2spk: str) -> Callable[[str], np.ndarray | None]:
    """Return a function from an utterance to its CMVN statistics, or to None if there are none.

    ``name`` is a table, looked up by the utterance or its speaker in ``utt2spk``, or a file for all utterances.
    """
    from nnet3py.formats.holders import DOUBLE_MATRIX
    from nnet3py.io.tables import RandomAccessMappedReader

    if is_rspecifier(name):
        return stack.enter_context(RandomAccessMappedReader(name, utt2spk, DOUBLE_MATRIX)).get
    if utt2spk:
        raise OptionError("--utt2spk option not compatible with rxfilename as input (did you forget ark:?)")
    stats = _read_stats(name)
    return lambda key: stats


def _read_stats(rxfilename: str) -> np.ndarray:
    import numpy as np

    from nnet3py.formats.holders import read_matrix_file

    return read_matrix_file(rxfilename, dtype=np.float64)


@kaldi_command("apply-cmvn-online", "Transforming features", "Normalize features by the frames so far.", """
Normalize the means, and optionally the variances, of features frame by frame, with statistics of the utterance up to
the frame, then (with --spk2utt) of the speaker's earlier utterances, then with global statistics.

Usage: apply-cmvn-online [options] <global-cmvn-stats> <feature-rspecifier> <feature-wspecifier>
e.g.: apply-cmvn-online global_cmvn.stats scp:data/train/feats.scp ark:-
or: apply-cmvn-online --spk2utt=ark:data/train/spk2utt "matrix-sum scp:data/train/cmvn.scp - |" \\
 scp:data/train/feats.scp ark:-
""", arguments=(3, 3), options=[SPK2UTT, *CMVN])
def apply_cmvn_online(args: list[str], options: Options) -> int:
    from nnet3py.feat.cmvn import OnlineNormalizer
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import TableWriter

    stats_name, source, target = args
    new = partial(OnlineNormalizer, _read_stats(stats_name), fields_from(options, OnlineOptions()))
    new()                    # errors in the statistics are reported before anything is read
    done = frames = 0
    with TableWriter(target, FLOAT_MATRIX) as writer:
        for _, features_of in _groups(source, options.spk2utt):
            normalizer = new()
            for key, features in features_of:
                if features is None:
                    log.warning(f"No features for utterance {key}")
                    continue
                with within(f"utterance {key}"):
                    writer.write(key, normalizer(features))
                done += 1
                frames += len(features)
    log.log(f"Applied online CMVN to {done} files, or {frames} frames.")
    return 0 if done else 1


# -- two channels, sliding window --------------------------------------------------------------------------------------

_SIDES = 2


@kaldi_command("compute-cmvn-stats-two-channel", "Transforming features",
               "Compute mean and variance statistics of both sides of calls.", """
Compute statistics for mean and variance normalization of telephone calls whose two sides were recorded apart: a frame
counts for the side on which it is louder, by the first column of the features (energy or C0), and little for the other.

A line of the file reads <utterance-id> <call-id> <side>. An utterance whose call has no other side counts as it is.

Usage: compute-cmvn-stats-two-channel [options] <reco2file-and-channel> <feats-rspecifier> <stats-wspecifier>
e.g.: compute-cmvn-stats-two-channel data/train/reco2file_and_channel scp:data/train/feats.scp ark,scp:cmvn.ark,cmvn.scp
See also: compute-cmvn-stats, apply-cmvn
""", arguments=(3, 3), options=[
    option("quieter-channel-weight", float, 0.01, "Weight of frames that are louder on the other side; above 0, so "
           "that a side that is never louder has statistics, too", least=0, most=1),
])
def compute_cmvn_stats_two_channel(args: list[str], options: Options) -> int:
    from nnet3py.feat.cmvn import accumulate_stats, empty_stats, weights_of_two_channels
    from nnet3py.formats.holders import DOUBLE_MATRIX, FLOAT_MATRIX
    from nnet3py.io.tables import RandomAccessReader, TableWriter

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
    """Read lines ``<utterance-id> <call-id> <side>``: return the one or two utterances of each call, sorted by side."""
    from nnet3py.io.streams import complete_input

    sides: dict[str, dict[str, str]] = {}
    keys: set[str] = set()
    with complete_input(rxfilename) as stream:
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
    return {call: [of_call[side] for side in sorted(of_call)] for call, of_call in sides.items()}


@kaldi_command("apply-cmvn-sliding", "Transforming features", "Normalize features over a sliding window.", """
Normalize the means, and optionally the variances, of features over a sliding window, as speaker recognition does.

Usage: apply-cmvn-sliding [options] <feats-rspecifier> <feats-wspecifier>
e.g.: apply-cmvn-sliding --norm-vars=false --center=true --cmn-window=300 scp:feats.scp ark:-
See also: apply-cmvn, apply-cmvn-online
""", arguments=(2, 2), options=[
    option("cmn-window", int, 600, "Frames of the window", least=1),
    option("min-cmn-window", int, 100, "Frames of the window at the beginning, without --center", least=1),
    option("center", bool, False, "The window lies around the frame, instead of ending with it"),
    option("norm-vars", bool, False, "Normalize the variances, too"),
    option("max-warnings", int, 5, "No effect: variances are floored without a warning"),
])
def apply_cmvn_sliding(args: list[str], options: Options) -> int:
    from nnet3py.feat.cmvn import normalize_sliding
    from nnet3py.formats.holders import FLOAT_MATRIX

    def normalized(key: str, features: np.ndarray) -> np.ndarray | None:
        if not features.size:
            log.warning(f"Empty feature matrix for utterance {key}")
            return None
        return normalize_sliding(features, options.cmn_window, options.min_cmn_window, options.center,
                                 options.norm_vars)

    return convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX, normalized).report(
        f"Applied sliding-window cepstral {'mean and variance' if options.norm_vars else 'mean'} normalization to "
        f"{{done}} utterances, {{errors}} had errors.")
