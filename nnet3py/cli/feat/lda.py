"""acc-lda, sum-lda-accs, est-lda and nnet-get-feature-transform: linear discriminant analysis."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import NumericError, ShapeError, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from nnet3py.formats.general import SparseMatrix
    from nnet3py.formats.lda_stats import LdaStats
    from nnet3py.formats.posteriors import Posterior
    from nnet3py.hmm.transition_model import TransitionModel

_REPORT_INTERVAL = 100      # utterances


def _summed(rxfilenames: Sequence[str]) -> LdaStats:
    """The sum of statistics in files."""
    import numpy as np

    from nnet3py.formats.lda_stats import LdaStats
    from nnet3py.io.object_files import read_object

    total = read_object(rxfilenames[0], LdaStats.read)
    for name in rxfilenames[1:]:
        with within(name), np.errstate(all="ignore"):
            total.add(read_object(name, LdaStats.read))
    return total


def _write_matrix(wxfilename: str, matrix: np.ndarray, binary: bool) -> None:
    import numpy as np

    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object

    with np.errstate(over="ignore"):
        single = matrix.astype(np.float32)
    write_object(wxfilename, lambda writer: write_matrix(writer, single), binary)


def _write_triangle(wxfilename: str, matrix: np.ndarray, binary: bool) -> None:
    """The lower triangle of a square matrix, as Kaldi writes symmetric and triangular ones."""
    import numpy as np

    from nnet3py.formats.matrices import write_packed
    from nnet3py.io.object_files import write_object

    packed = matrix[np.tril_indices(len(matrix))].astype(np.float32)
    write_object(wxfilename, lambda writer: write_packed(writer, packed), binary)


def _check_factor(factor: float) -> None:
    if not 0.0 <= factor < float("inf"):
        raise OptionError(f"Invalid option --within-class-factor={factor:g}", "expected a number, not negative")


@kaldi_command("sum-lda-accs", group="Transforming features", help="Add LDA statistics.", usage="""
Add statistics for LDA.

Usage: sum-lda-accs [options] <stats-out> <stats-in1> [<stats-in2> ...]
e.g.: sum-lda-accs lda_stats 1.lda_stats 2.lda_stats
See also: acc-lda, nnet3-acc-lda-stats, nnet-get-feature-transform, est-lda
""", arguments=(2, None), options=[BINARY])
def sum_lda_accs(args: list[str], options: Options) -> int:
    """Add statistics."""
    from nnet3py.io.object_files import write_object

    write_object(args[0], _summed(args[1:]).write, options.binary)
    return 0


@kaldi_command("nnet-get-feature-transform", group="Transforming features",
               help="Estimate the transform before a network.", usage="""
Estimate the transform in front of a network from statistics for LDA. Unlike LDA proper it keeps all dimensions and
scales down those that do not tell classes apart.

Usage: nnet-get-feature-transform [options] <matrix-out> <lda-acc-1> [<lda-acc-2> ...]
e.g.: nnet-get-feature-transform lda.mat lda_stats
See also: est-lda, nnet3-acc-lda-stats, sum-lda-accs
""", arguments=(2, None), options=[
    BINARY,
    option("write-cholesky", str, "", "Write the Cholesky factor of the within-class covariance to this file"),
    option("write-within-covar", str, "", "Write the within-class covariance to this file"),
    option("remove-offset", bool, True, "Make the mean of the transformed features zero, by a further column"),
    option("dim", int, -1, "Dimension to keep (0 or less: all)"),
    option("within-class-factor", float, 0.001, "Within-class variance relative to LDA's, where classes are not apart"),
    option("max-singular-value", float, 5.0, "Ceiling for the transform's singular values (0 or less: none)"),
])
def get_feature_transform(args: list[str], options: Options) -> int:
    """Estimate a transform."""
    from nnet3py.feat.transforms import estimate_lda

    _check_factor(options.within_class_factor)
    stats = _summed(args[1:])
    dim = options.dim if options.dim > 0 else stats.dim
    if dim > stats.dim:
        raise OptionError(f"--dim={dim} is more than the {stats.dim} dimensions of the statistics")
    transform = estimate_lda(stats, dim, options.within_class_factor, options.remove_offset, options.max_singular_value)
    _write_matrix(args[0], transform.matrix, options.binary)
    if options.write_cholesky:
        _write_triangle(options.write_cholesky, transform.cholesky, options.binary)
    if options.write_within_covar:
        _write_triangle(options.write_within_covar, transform.within, options.binary)
    return 0


@kaldi_command("est-lda", group="Transforming features", help="Estimate an LDA transform.", usage="""
Estimate an LDA transform from statistics.

Usage: est-lda [options] <lda-matrix-out> <lda-acc-1> [<lda-acc-2> ...]
e.g.: est-lda --dim=40 lda.mat 1.acc 2.acc
See also: acc-lda, transform-feats, nnet-get-feature-transform
""", arguments=(2, None), options=[
    BINARY,
    option("write-full-matrix", str, "", "Write the transform with all its rows to this file"),
    option("dim", int, 40, "Dimension to keep"),
    option("allow-large-dim", bool, False, "Allow a dimension that is not less than the number of classes"),
    option("remove-offset", bool, False, "Make the mean of the transformed features zero, by a further column"),
    option("within-class-factor", float, 1.0, "Below 1, scale down dimensions in which classes are not apart"),
])
def est_lda(args: list[str], options: Options) -> int:
    """Estimate a transform."""
    from nnet3py.feat.transforms import estimate_lda

    _check_factor(options.within_class_factor)
    stats = _summed(args[1:])
    if not 0 < options.dim <= stats.dim:
        raise OptionError(f"--dim={options.dim} is not among the {stats.dim} dimensions of the statistics")
    if options.dim >= stats.num_classes and not options.allow_large_dim:
        raise OptionError(f"--dim={options.dim} is not less than the number of classes, {stats.num_classes}",
                          "LDA can tell apart no more; give --allow-large-dim if you want the dimensions nevertheless")
    transform = estimate_lda(stats, options.dim, options.within_class_factor, options.remove_offset)
    _write_matrix(args[0], transform.matrix, options.binary)
    if options.write_full_matrix:
        _write_matrix(options.write_full_matrix, transform.full, options.binary)
    return 0


@kaldi_command("acc-lda", group="Transforming features", help="Gather LDA statistics of features.", usage="""
Accumulate statistics for LDA, with pdfs as classes, from features and posteriors of transition-ids.

Usage: acc-lda [options] <model> <features-rspecifier> <posteriors-rspecifier> <lda-acc-out>
e.g.:
 ali-to-post ark:1.ali ark:- | acc-lda 1.mdl "ark:splice-feats ark:feats.ark ark:- |" ark:- 1.acc
See also: est-lda, sum-lda-accs, ali-to-post
""", arguments=(4, 4), options=[
    BINARY,
    option("rand-prune", float, 0.0, "Replace weights below this by this or 0, at random; fewer of them are quicker"),
])
def acc_lda(args: list[str], options: Options) -> int:
    """Accumulate; 1 if nothing was."""
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.tables import RandomAccessReader, SequentialReader
    from nnet3py.training.lda_stats import LdaAccumulator

    accumulator = LdaAccumulator(options.rand_prune)
    model = read_object(args[0], TransitionModel.read)
    done = failed = 0
    with ExitStack() as stack:
        posteriors = stack.enter_context(RandomAccessReader(args[2], POSTERIOR))
        for key, features in stack.enter_context(SequentialReader(args[1], FLOAT_MATRIX)):
            posterior = posteriors.get(key)
            if posterior is None:
                log.warning(f"No posteriors for utterance {key}")
                failed += 1
                continue
            with within(f"utterance {key}"):
                supervision = _pdfs(model, posterior)
            try:
                accumulator.add(features, supervision)
            except (NumericError, ShapeError) as error:
                log.warning(f"Skipping utterance {key}: {error}")
                failed += 1
                continue
            done += 1
            if done % _REPORT_INTERVAL == 0:
                log.log(f"Done {done} utterances.")
    log.log(f"Done {done} files, failed for {failed}")
    if not done:
        return 1
    write_object(args[3], accumulator.stats().write, options.binary)
    log.log("Written statistics.")
    return 0


def _pdfs(model: TransitionModel, posterior: Posterior) -> SparseMatrix:
    """Posteriors of transition-ids as weights of pdfs, (frames, pdfs). Kaldi: ConvertPosteriorToPdfs."""
    from nnet3py.formats.general import SparseMatrix
    from nnet3py.hmm.alignment import check_transition_ids

    check_transition_ids(model, posterior.ids)
    pdfs = model.transition_id_to_pdf[posterior.ids]
    return SparseMatrix.from_arrays(posterior.row_starts, pdfs, posterior.weights, model.num_pdfs)
