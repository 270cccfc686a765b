"""Programs that make, train and copy i-vector extractors (ivector-extractor-init, -acc-stats, -sum-accs, -est, -copy).
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import within
from nnet3py.ivectors.options import EstimationOptions, StatsOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.posteriors import Posterior
    from nnet3py.ivectors.extractor import IvectorExtractor


def read_extractor(rxfilename: str) -> Any:
    """Read an i-vector extractor, and compute its derived variables."""
    from nnet3py.io.object_files import read_object
    from nnet3py.ivectors.extractor import IvectorExtractor

    extractor = read_object(rxfilename, IvectorExtractor.read)
    derive(extractor)
    return extractor


def derive(extractor: IvectorExtractor) -> None:
    """Compute the derived variables of an extractor, which else are computed when needed, with log lines."""
    log.log("Computing derived variables for iVector extractor")
    assert extractor.quadratics is not None
    log.log("Done.")


def with_posteriors(features: str, posteriors: str,
                    counts: dict[str, int]) -> Iterator[tuple[str, np.ndarray, Posterior]]:
    """Yield the key, features and posteriors of each utterance.

    An utterance without posteriors, or with another number of frames, is left out with a warning, and counted in
    ``counts["errors"]``.
    """
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader

    with SequentialReader(features, FLOAT_MATRIX) as matrices, RandomAccessReader(posteriors, POSTERIOR) as table:
        for key, matrix in matrices:
            if key not in table:
                log.warning(f"No posteriors for utterance {key}")
                counts["errors"] += 1
                continue
            posterior = table[key]
            if len(posterior) != len(matrix):
                log.warning(f"Size mismatch between posterior {len(posterior)} and features {len(matrix)} for "
                            f"utterance {key}")
                counts["errors"] += 1
                continue
            with within(f"utterance {key}"):
                check_finite(matrix, "features")
            yield key, matrix, posterior


NUM_THREADS = option("num-threads", int, 1, "Threads; results do not depend on it")


@kaldi_command("ivector-extractor-init", "Speakers and i-vectors",
               "Make an extractor of i-vectors from a mixture of Gaussians.", """
Make an extractor of i-vectors from a mixture of Gaussians, with random projections.

Usage:  ivector-extractor-init [options] <fgmm-in> <ivector-extractor-out>
e.g.: ivector-extractor-init 4.fgmm 0.ie
See also: ivector-extractor-acc-stats, gmm-global-to-fgmm
""", arguments=(2, 2), options=[
    BINARY,
    option("ivector-dim", int, 400, "Dimension of the i-vectors", least=1),
    option("num-iters", int, 2, "No effect, as in Kaldi"),
    option("use-weights", bool, True, "Let the Gaussians' weights depend on the i-vector"),
])
def ivector_extractor_init(args: list[str], options: Options) -> None:
    from nnet3py.gaussians.mixtures import FullGmm
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.ivectors.extractor import IvectorExtractor
    from nnet3py.random_sequence import CRandom

    gmm = read_object(args[0], FullGmm.read)
    extractor = IvectorExtractor.of_mixture(gmm, options.ivector_dim, options.use_weights, CRandom())
    write_object(args[1], extractor.write, options.binary)
    log.log(f"Initialized iVector extractor with iVector dimension {options.ivector_dim} and wrote it to {args[1]}")


@kaldi_command("ivector-extractor-acc-stats", "Speakers and i-vectors",
               "Accumulate statistics for training an extractor of i-vectors.", """
Accumulate statistics for training an extractor of i-vectors.

Usage:  ivector-extractor-acc-stats [options] <model-in> <feature-rspecifier> <posteriors-rspecifier> <stats-out>
e.g.: ivector-extractor-acc-stats 2.ie scp:feats.scp ark:post.ark 2.1.acc
See also: ivector-extractor-sum-accs, ivector-extractor-est
""", arguments=(4, 4), options=[
    BINARY, NUM_THREADS,
    *declared(settings_of(StatsOptions)),
])
def ivector_extractor_acc_stats(args: list[str], options: Options) -> int:
    from nnet3py.io.object_files import write_object
    from nnet3py.io.read_ahead import map_ahead
    from nnet3py.ivectors.extractor import UtteranceStats
    from nnet3py.ivectors.training import ExtractorStats, utterance_auxf
    from nnet3py.random_sequence import CRandom

    settings = fields_from(options, StatsOptions())
    extractor = read_extractor(args[0])
    total, counts, random, done, frames = ExtractorStats.zeros(extractor, settings), {"errors": 0}, CRandom(), 0, 0

    def computed(utterance: tuple[str, np.ndarray, Posterior]) -> Any:
        key, matrix, posterior = utterance
        with within(f"utterance {key}"):
            stats = UtteranceStats.of(extractor.num_gaussians, matrix, posterior, settings.update_variances)
            terms = extractor.terms(stats)
            distribution = extractor.distribution(stats, terms)
            auxf = utterance_auxf(extractor, stats, distribution, terms) if settings.compute_auxf else 0.0
        return len(matrix), stats, distribution, auxf

    utterances = with_posteriors(args[1], args[2], counts)
    for num_frames, stats, distribution, auxf in map_ahead(computed, utterances, options.num_threads):
        total.add(extractor, stats, distribution, auxf, settings, random)
        done, frames = done + 1, frames + num_frames
    log.log(f"Done {done} files, {counts['errors']} with errors.  Total frames {frames}")
    write_object(args[3], total.write, options.binary)
    log.log(f"Wrote stats to {args[3]}")
    return 0 if done else 1


@kaldi_command("ivector-extractor-sum-accs", "Speakers and i-vectors",
               "Add statistics for training an extractor of i-vectors.", """
Add statistics for training an extractor of i-vectors, accumulated on parts of the data.

Usage:  ivector-extractor-sum-accs [options] <stats-in1> <stats-in2> ... <stats-out>
e.g.: ivector-extractor-sum-accs 1.1.acc 1.2.acc 1.acc
See also: ivector-extractor-acc-stats
""", arguments=(2, None), options=[
    BINARY, option("parallel", bool, False, "No effect: files are read one after the other"),
])
def ivector_extractor_sum_accs(args: list[str], options: Options) -> None:
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.ivectors.training import ExtractorStats

    total = read_object(args[0], ExtractorStats.read)
    for name in args[1:-1]:
        with within(name):
            total.add_stats(read_object(name, ExtractorStats.read))
    write_object(args[-1], total.write, options.binary)
    log.log(f"Wrote stats to {args[-1]}")


@kaldi_command("ivector-extractor-est", "Speakers and i-vectors", "Estimate an extractor of i-vectors.", """
Estimate an extractor of i-vectors from statistics.

Usage:  ivector-extractor-est [options] <model-in> <stats-in> <model-out>
e.g.: ivector-extractor-est 1.ie 1.acc 2.ie
See also: ivector-extractor-acc-stats
""", arguments=(3, 3), options=[
    BINARY, option("num-threads", int, 8, "No effect: results do not depend on it"),
    *declared(settings_of(EstimationOptions)),
])
def ivector_extractor_est(args: list[str], options: Options) -> None:
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.ivectors.training import ExtractorStats, estimate

    log.log("Reading model")
    extractor = read_extractor(args[0])
    log.log("Reading statistics")
    stats = read_object(args[1], ExtractorStats.read)
    new_extractor = estimate(extractor, stats, fields_from(options, EstimationOptions()))
    write_object(args[2], new_extractor.write, options.binary)
    log.log(f"Updated model and wrote it to {args[2]}")


@kaldi_command("ivector-extractor-copy", "Speakers and i-vectors", "Copy an extractor of i-vectors.", """
Copy an extractor of i-vectors, in text or binary.

Usage:  ivector-extractor-copy [options] <ivector-extractor-in> <ivector-extractor-out>
e.g.: ivector-extractor-copy --binary=false 0.ie 0.txt
See also: ivector-extractor-init
""", arguments=(2, 2), options=[BINARY])
def ivector_extractor_copy(args: list[str], options: Options) -> None:
    from nnet3py.io.object_files import write_object

    write_object(args[1], read_extractor(args[0]).write, options.binary)
