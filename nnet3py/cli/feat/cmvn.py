"""compute-cmvn-stats, modify-cmvn-stats, apply-cmvn and apply-cmvn-online: mean and variance normalization."""
from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.feat.speech_options import CMVN
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table, copy_table
from nnet3py.cli.process.lists import int_list
from nnet3py.cli.process.option_groups import BINARY, without
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import within
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier
from nnet3py.option_fields import with_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from nnet3py.io.tables import RandomAccessReader, TableWriter

UTT2SPK = option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for statistics per speaker")
SPK2UTT = option("spk2utt", str, "", "Rspecifier of the lists of each speaker's utterances")


# -- statistics --------------------------------------------------------------------------------------------------------


@kaldi_command("compute-cmvn-stats", group="Transforming features",
               help="Compute mean and variance statistics of features.", usage="""
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
    """Compute statistics; 1 if there was nothing to compute them from."""
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
        if writer is None:
            stats = _stats_of_all(args[0], tally)
        elif options.spk2utt:
            _stats_of_speakers(args[0], options.spk2utt, writer, tally)
        else:
            _stats_of_utterances(args[0], writer, tally)
    if stats is not None:
        _write_global(args[1], stats, options.binary)
    return tally.report()


class _Tally:
    """Adds utterances to statistics, with their weights; counts them and those that could not be added."""

    def __init__(self, weights: RandomAccessReader[np.ndarray] | None) -> None:
        self._weights = weights
        self.done = self.errors = 0

    def add(self, key: str, features: np.ndarray, stats: np.ndarray | None) -> np.ndarray | None:
        """The statistics with the utterance in them (new ones, if None is given); None after an error."""
        from nnet3py.feat.cmvn import accumulate_stats, empty_stats

        weights = None
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
        """Warn, count, and leave the statistics as they are."""
        log.warning(message)
        self.errors += 1
        return stats

    def report(self) -> int:
        """Log what was done; return the exit status."""
        log.log(f"Done accumulating CMVN stats for {self.done} utterances; {self.errors} had errors.")
        return 0 if self.done else 1


def _stats_of_utterances(rspecifier: str, writer: TableWriter, tally: _Tally) -> None:
    from nnet3py.formats.holders import read_matrices

    for key, features in read_matrices(rspecifier):
        stats = tally.add(key, features, None)
        if stats is not None:
            writer.write(key, stats)


def _stats_of_speakers(rspecifier: str, spk2utt: str, writer: TableWriter, tally: _Tally) -> None:
    for speaker, features_of in _speakers(rspecifier, spk2utt):
        stats = None
        for key, features in features_of:
            if features is None:
                stats = tally.failed(f"Did not find features for utterance {key}", stats)
            else:
                stats = tally.add(key, features, stats)
        if stats is None:
            log.warning(f"No stats accumulated for speaker {speaker}")
        else:
            writer.write(speaker, stats)


def _speakers(rspecifier: str, spk2utt: str) -> Iterator[tuple[str, Iterator[tuple[str, np.ndarray | None]]]]:
    """Each speaker with the features (None if there are none) of the utterances."""
    from nnet3py.formats.holders import FLOAT_MATRIX, TOKEN_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader

    with RandomAccessReader(rspecifier, FLOAT_MATRIX) as features, SequentialReader(spk2utt, TOKEN_VECTOR) as speakers:
        for speaker, utterances in speakers:
            yield speaker, ((key, features.get(key)) for key in utterances)


def _stats_of_all(rspecifier: str, tally: _Tally) -> np.ndarray | None:
    from nnet3py.formats.holders import read_matrices

    stats = None
    for key, features in read_matrices(rspecifier):
        stats = tally.add(key, features, stats)
    return stats


def _write_global(wxfilename: str, stats: np.ndarray, binary: bool) -> None:
    import numpy as np

    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object

    with np.errstate(over="ignore"):
        single = stats.astype(np.float32)
    write_object(wxfilename, lambda writer: write_matrix(writer, single), binary)
    log.log(f"Wrote global CMVN stats to {wxfilename}")


@kaldi_command("modify-cmvn-stats", group="Transforming features", help="Exempt dimensions from normalization.",
               usage="""
Copy normalization statistics so that some dimensions will not be normalized, or turn them into means and variances.

Usage: modify-cmvn-stats [options] [<fake-dims>] <in-rspecifier> <out-wspecifier>
e.g.: modify-cmvn-stats 13:14:15 ark:cmvn.ark ark:-
See also: compute-cmvn-stats
""", arguments=(2, 3), options=[
    option("convert-to-mean-and-var", bool, False, "Write two rows, means and variances, instead of sums"),
])
def modify_cmvn_stats(args: list[str], options: Options) -> int:
    """Modify a table of statistics; 1 if it was empty."""
    from nnet3py.feat.cmvn import fake_stats, mean_and_variance
    from nnet3py.formats.holders import DOUBLE_MATRIX

    *fake, source, target = args
    dims = int_list(fake[0], "first argument") if fake else []

    def modified(key: str, stats: np.ndarray) -> np.ndarray:
        stats = fake_stats(stats, dims)
        return mean_and_variance(stats) if options.convert_to_mean_and_var else stats

    done, _ = convert_table(source, target, DOUBLE_MATRIX, DOUBLE_MATRIX, modified)
    log.log(f"Modified {done} sets of stats.")
    return 0 if done else 1


# -- normalization -----------------------------------------------------------------------------------------------------


@kaldi_command("apply-cmvn", group="Transforming features", help="Normalize the means and variances of features.",
               usage="""
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
    """Normalize a table; 1 if nothing was written."""
    from nnet3py.feat.cmvn import fake_stats, normalize
    from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX

    stats_name, source, target = args
    if options.norm_vars and not options.norm_means:
        raise OptionError("You cannot normalize the variance but not the mean.")
    skipped = int_list(options.skip_dims, "--skip-dims option")
    if not options.norm_means:
        count = copy_table(source, target, GENERAL_MATRIX)
        log.log(f"Copied {count} utterances.")
        return 0 if count else 1
    with ExitStack() as stack:
        find = _finder(stack, stats_name, options.utt2spk)

        def normalized(key: str, features: np.ndarray) -> np.ndarray | None:
            stats = find(key)
            if stats is None:
                log.warning(f"No normalization statistics available for key {key}, producing no output for this "
                            "utterance")
                return None
            if skipped:
                stats = fake_stats(stats, skipped)
            return normalize(features, stats, options.norm_vars, options.reverse)

        done, errors = convert_table(source, target, FLOAT_MATRIX, FLOAT_MATRIX, normalized, inputs=stack)
    what = "mean and variance" if options.norm_vars else "mean"
    log.log(f"Applied cepstral {what} normalization to {done} utterances, errors on {errors}")
    return 0 if done else 1


def _finder(stack: ExitStack, name: str, utt2spk: str) -> Callable[[str], np.ndarray | None]:
    """A function that gives the statistics for an utterance."""
    from nnet3py.formats.holders import DOUBLE_MATRIX
    from nnet3py.io.tables import RandomAccessMappedReader

    if is_rspecifier(name):
        return stack.enter_context(RandomAccessMappedReader(name, utt2spk, DOUBLE_MATRIX)).get
    if utt2spk:
        raise OptionError("--utt2spk option not compatible with rxfilename as input (did you forget ark:?)")
    return partial(_the_same, _read_stats(name))


def _the_same(stats: np.ndarray, key: str) -> np.ndarray | None:
    return stats


def _read_stats(rxfilename: str) -> np.ndarray:
    import numpy as np

    from nnet3py.formats.holders import read_matrix_file

    return read_matrix_file(rxfilename, dtype=np.float64)


@kaldi_command("apply-cmvn-online", group="Transforming features", help="Normalize features with what was seen so far.",
               usage="""
Normalize the means, and optionally the variances, of features frame by frame, with what was seen so far: in the
utterance, then (with --spk2utt) in the speaker's earlier utterances, then in the global statistics.

Usage: apply-cmvn-online [options] <global-cmvn-stats> <feature-rspecifier> <feature-wspecifier>
e.g.: apply-cmvn-online global_cmvn.stats scp:data/train/feats.scp ark:-
or: apply-cmvn-online --spk2utt=ark:data/train/spk2utt "matrix-sum scp:data/train/cmvn.scp - |" \\
 scp:data/train/feats.scp ark:-
""", arguments=(3, 3), options=[SPK2UTT, *CMVN])
def apply_cmvn_online(args: list[str], options: Options) -> int:
    """Normalize a table; 1 if nothing was written."""
    from nnet3py.feat.cmvn import OnlineNormalizer
    from nnet3py.feat.options import OnlineOptions
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import TableWriter

    settings = with_values(OnlineOptions(), {
        **options.as_dict(), "skip-dims": int_list(options.skip_dims, "--skip-dims option")})
    stats_name, source, target = args
    stats = _read_stats(stats_name)
    new = partial(OnlineNormalizer, stats, settings)
    new()                    # errors in the statistics are reported before anything is read
    done = frames = 0
    with TableWriter(target, FLOAT_MATRIX) as writer:
        for normalizer, features_of in _groups(source, options.spk2utt, new):
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


def _groups(rspecifier: str, spk2utt: str, new: Callable[[], Callable[[np.ndarray], np.ndarray]],
            ) -> Iterator[tuple[Callable[[np.ndarray], np.ndarray], Iterator[tuple[str, np.ndarray | None]]]]:
    """Each speaker's normalizer with the features; without ``spk2utt``, of each utterance."""
    from nnet3py.formats.holders import read_matrices

    if spk2utt:
        for _, features_of in _speakers(rspecifier, spk2utt):
            yield new(), features_of
    else:
        for key, features in read_matrices(rspecifier):
            yield new(), iter([(key, features)])
