"""Programs that estimate and multiply transforms of features.

LDA: acc-lda, sum-lda-accs, est-lda, nnet-get-feature-transform; est-pca; compose-transforms, extend-transform-dim.
"""
from __future__ import annotations

import math
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import MixedArguments, between_tables, convert_table, write_value
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import NumericError, ShapeError, within
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from nnet3py.formats.general import SparseMatrix
    from nnet3py.formats.lda_stats import LdaStats
    from nnet3py.formats.posteriors import Posterior
    from nnet3py.hmm.transition_model import TransitionModel


_REPORT_INTERVAL = 100      # utterances


def _summed(rxfilenames: Sequence[str]) -> LdaStats:
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

    from nnet3py.formats.holders import FLOAT_MATRIX

    with np.errstate(over="ignore"):
        write_value(wxfilename, FLOAT_MATRIX, matrix.astype(np.float32), binary)


def _write_triangle(wxfilename: str, matrix: np.ndarray, binary: bool) -> None:
    """Write the lower triangle of a square matrix, as Kaldi writes symmetric and triangular matrices."""
    import numpy as np

    from nnet3py.formats.matrices import write_packed
    from nnet3py.io.object_files import write_object

    packed = matrix[np.tril_indices(len(matrix))].astype(np.float32)
    write_object(wxfilename, lambda writer: write_packed(writer, packed), binary)


@kaldi_command("sum-lda-accs", "Transforming features", "Add LDA statistics.", """
Add statistics for LDA.

Usage: sum-lda-accs [options] <stats-out> <stats-in1> [<stats-in2> ...]
e.g.: sum-lda-accs lda_stats 1.lda_stats 2.lda_stats
See also: acc-lda, nnet3-acc-lda-stats, nnet-get-feature-transform, est-lda
""", arguments=(2, None), options=[BINARY])
def sum_lda_accs(args: list[str], options: Options) -> int:
    from nnet3py.io.object_files import write_object

    write_object(args[0], _summed(args[1:]).write, options.binary)
    return 0


@kaldi_command("nnet-get-feature-transform", "Transforming features", "Estimate the transform before a network.", """
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
    option("within-class-factor", float, 0.001, "Variance, relative to LDA, of directions that do not tell classes "
           "apart", least=0, below=math.inf),
    option("max-singular-value", float, 5.0, "Ceiling of the transform's singular values (0 or less: none)"),
])
def get_feature_transform(args: list[str], options: Options) -> int:
    from nnet3py.feat.transforms import estimate_lda

    stats = _summed(args[1:])
    dim = options.dim if options.dim > 0 else stats.dim
    if dim > stats.dim:
        raise OptionError(f"--dim={dim}: expected at most {stats.dim}, the dimension of the statistics")
    transform = estimate_lda(stats, dim, options.within_class_factor, options.remove_offset, options.max_singular_value)
    _write_matrix(args[0], transform.matrix, options.binary)
    if options.write_cholesky:
        _write_triangle(options.write_cholesky, transform.cholesky, options.binary)
    if options.write_within_covar:
        _write_triangle(options.write_within_covar, transform.within, options.binary)
    return 0


@kaldi_command("est-lda", "Transforming features", "Estimate an LDA transform.", """
Estimate an LDA transform from statistics.

Usage: est-lda [options] <lda-matrix-out> <lda-acc-1> [<lda-acc-2> ...]
e.g.: est-lda --dim=40 lda.mat 1.acc 2.acc
See also: acc-lda, transform-feats, nnet-get-feature-transform
""", arguments=(2, None), options=[
    BINARY,
    option("write-full-matrix", str, "", "Write the transform with all its rows to this file"),
    option("dim", int, 40, "Dimension to keep", least=1),
    option("allow-large-dim", bool, False, "Allow a dimension that is not less than the number of classes"),
    option("remove-offset", bool, False, "Make the mean of the transformed features zero, by a further column"),
    option("within-class-factor", float, 1.0, "Below 1: scale down directions that do not tell classes apart",
           least=0, below=math.inf),
])
def est_lda(args: list[str], options: Options) -> int:
    from nnet3py.feat.transforms import estimate_lda

    stats = _summed(args[1:])
    if options.dim > stats.dim:
        raise OptionError(f"--dim={options.dim}: expected 1 to {stats.dim}, the dimension of the statistics")
    if options.dim >= stats.num_classes and not options.allow_large_dim:
        raise OptionError(f"--dim={options.dim} is not less than the number of classes, {stats.num_classes}",
                          "LDA finds no more directions; --allow-large-dim allows arbitrary further ones")
    transform = estimate_lda(stats, options.dim, options.within_class_factor, options.remove_offset)
    _write_matrix(args[0], transform.matrix, options.binary)
    if options.write_full_matrix:
        _write_matrix(options.write_full_matrix, transform.full, options.binary)
    return 0


@kaldi_command("acc-lda", "Transforming features", "Accumulate LDA statistics of features.", """
Accumulate statistics for LDA, with pdfs as classes, from features and posteriors of transition-ids.

Usage: acc-lda [options] <model> <features-rspecifier> <posteriors-rspecifier> <lda-acc-out>
e.g.:
 ali-to-post ark:1.ali ark:- | acc-lda 1.mdl "ark:splice-feats ark:feats.ark ark:- |" ark:- 1.acc
See also: est-lda, sum-lda-accs, ali-to-post
""", arguments=(4, 4), options=[
    BINARY,
    option("rand-prune", float, 0.0, "Replace smaller weights at random by this value or 0, which is faster",
           least=0),
])
def acc_lda(args: list[str], options: Options) -> int:
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
    """Return posteriors of transition-ids as weights of pdfs, (frames, pdfs). Kaldi: ConvertPosteriorToPdfs."""
    from nnet3py.formats.general import SparseMatrix
    from nnet3py.hmm.alignment import check_transition_ids

    check_transition_ids(model, posterior.ids)
    pdfs = model.transition_id_to_pdf[posterior.ids]
    return SparseMatrix.from_arrays(posterior.row_starts, pdfs, posterior.weights, model.num_pdfs)


@kaldi_command("est-pca", "Speakers and i-vectors", "Estimate the transform to the main components of features.", """
Estimate a transform to the directions in which features, or vectors, vary most.

Usage:  est-pca [options] (<feature-rspecifier>|<vector-rspecifier>) <pca-matrix-out>
e.g.: est-pca --dim=40 scp:train.scp pca.mat
See also: transform-feats, est-lda
""", arguments=(2, 2), options=[
    BINARY,
    option("dim", int, -1, "Rows of the transform; all if not above 0"),
    option("read-vectors", bool, False, "Read a table of vectors"),
    option("normalize-variance", bool, False, "Scale each dimension to variance 1"),
    option("normalize-mean", bool, False, "Make the mean zero, by a further column"),
    option("write-full-matrix", str, "", "File for the transform with all rows"),
])
def est_pca(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.feat.transforms import PcaStats
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
    from nnet3py.io.tables import SequentialReader

    stats, done, errors = PcaStats(), 0, 0
    with SequentialReader(args[0], FLOAT_VECTOR if options.read_vectors else FLOAT_MATRIX) as table:
        for key, value in table:
            if not value.size:
                log.warning(f"Empty feature matrix for {key}")
                errors += 1
                continue
            rows = np.atleast_2d(value)
            with within(f"key {key}"):
                check_finite(rows, "features")
                stats.add(rows)
            done += 1
    kind = "vectors" if options.read_vectors else "feature files"
    log.log(f"Accumulated stats from {done} {kind}, {errors} with errors; {stats.count:g} frames.")
    if not done:
        log.warning("No data was processed, no transform was written")
        return 1
    pca = stats.estimate(options.dim, options.normalize_mean, options.normalize_variance)
    log.log("Eigenvalues in PCA are  [ " + "".join(f"{value:.6g} " for value in pca.eigenvalues) + "]")
    log.log(f"Sum of PCA eigenvalues is {pca.eigenvalues.sum():.6g}, sum of kept eigenvalues is "
            f"{pca.eigenvalues[:len(pca.transform)].sum():.6g}")
    write_value(args[1], FLOAT_MATRIX, pca.transform, options.binary)
    if options.write_full_matrix:
        write_value(options.write_full_matrix, FLOAT_MATRIX, pca.full, options.binary)
    return 0


def _composed_transform(a: np.ndarray, b: np.ndarray, b_is_affine: bool) -> np.ndarray:
    """Return the transform that applies ``b`` and then ``a``: float32 (rows of a, columns of b).

    ``b_is_affine``: whether the last column of ``b`` is an offset. Raises ShapeError.
    """
    import numpy as np

    rows, columns = b.shape
    if a.shape[1] == rows + 1:               # a is affine
        if not b_is_affine:
            b = np.pad(b, ((0, 0), (0, 1)))
        b = np.pad(b, ((0, 1), (0, 0)))
        b[-1, -1] = 1.0
    elif a.shape[1] != rows:
        raise ShapeError(f"a transform of {a.shape[0]} x {a.shape[1]} cannot follow one of {rows} x {columns}",
                         f"expected {rows} columns of the second transform, or {rows + 1} if it is affine")
    with np.errstate(all="ignore"):
        return a @ b


@kaldi_command("compose-transforms", "Transforming features", "Multiply transforms of features.", """
Multiply transforms of features, A B, of which B is applied first: one by one, or of each utterance or speaker.
With --b-is-affine the last column of B is an offset.

Usage: compose-transforms [options] (<transform-A-rspecifier>|<transform-A-rxfilename>) \
(<transform-B-rspecifier>|<transform-B-rxfilename>) (<transform-out-wspecifier>|<transform-out-wxfilename>)
e.g.: compose-transforms 1.mat 2.mat 3.mat
   compose-transforms 1.mat ark:2.trans ark:3.trans
   compose-transforms ark:1.trans ark:2.trans ark:3.trans
See also: transform-feats, transform-vec, extend-transform-dim, est-lda, est-pca
""", arguments=(3, 3), options=[
    BINARY,
    option("b-is-affine", bool, False, "The last column of B is an offset; it matters if A is affine"),
    option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, if A is per utterance, B per speaker"),
])
def compose_transforms(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file
    from nnet3py.io.tables import RandomAccessMappedReader

    first, second, target = args
    of_table, by_table = is_rspecifier(first), is_rspecifier(second)
    if options.utt2spk and not (of_table and by_table):
        raise OptionError("--utt2spk goes with two tables of transforms")
    if is_wspecifier(target) != (of_table or by_table):
        raise MixedArguments(f"Cannot mix archives with regular files: {first!r}, {second!r} and {target!r}",
                             "the output is a table (ark:… or scp:…) if one of the inputs is")
    if not (of_table or by_table):
        result = _composed_transform(read_matrix_file(first), read_matrix_file(second), options.b_is_affine)
        write_value(target, FLOAT_MATRIX, result, options.binary)
        return 0
    with ExitStack() as stack:
        find: Callable[[str], np.ndarray | None]
        if not of_table:
            find = partial(lambda matrix, key: matrix, read_matrix_file(first))
        elif not by_table:
            find = partial(lambda matrix, key: matrix, read_matrix_file(second))
        else:
            find = stack.enter_context(RandomAccessMappedReader(second, options.utt2spk, FLOAT_MATRIX)).get

        def composed(key: str, matrix: np.ndarray) -> np.ndarray | None:
            other = find(key)
            if other is None:
                log.warning(f"No transform of the second table for key {key}")
                return None
            a, b = (matrix, other) if of_table else (other, matrix)
            try:
                return _composed_transform(a, b, options.b_is_affine)
            except ShapeError as error:
                log.warning(f"Key {key}: {error.message}")
                return None

        return convert_table(first if of_table else second, target, FLOAT_MATRIX, FLOAT_MATRIX, composed,
                             inputs=stack).report("Composed {done} transforms; {errors} had errors.")



@kaldi_command("extend-transform-dim", "Transforming features", "Extend transforms to more dimensions.", """
Extend transforms from d to d dimensions, linear or affine, to more dimensions, which they leave as they are.

Usage: extend-transform-dim [options] (<transform-in-rspecifier>|<transform-in-rxfilename>) \
(<transform-out-wspecifier>|<transform-out-wxfilename>)
e.g.: extend-transform-dim --new-dimension=117 in.mat big.mat
See also: compose-transforms, transform-feats
""", arguments=(2, 2), options=[
    BINARY,
    option("new-dimension", int, -1, "Dimension of the result; must be given"),
])
def extend_transform_dim(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file

    dim = options.new_dimension
    if between_tables(args):
        return convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX,
                             lambda key, matrix: _extended_transform(matrix, dim)).report(
            f"Increased transform dim to {dim} for {{done}} matrices.")
    matrix = read_matrix_file(args[0])
    with within(args[0]):
        write_value(args[1], FLOAT_MATRIX, _extended_transform(matrix, dim), options.binary)
    log.log(f"Increased transform dim from {len(matrix)} to {dim} and wrote to {args[1]}")
    return 0


def _extended_transform(matrix: np.ndarray, dim: int) -> np.ndarray:
    """Return a transform that leaves the new dimensions unchanged: float32 (dim, dim), or (dim, dim + 1) if affine.

    Raises ShapeError and OptionError.
    """
    import numpy as np

    rows, columns = matrix.shape
    if columns - rows not in (0, 1):
        raise ShapeError(f"expected a transform of {rows} x {rows} or {rows} x {rows + 1}, found {rows} x {columns}")
    if dim < rows:
        raise OptionError(f"--new-dimension argument invalid or not specified: {dim} < {rows}")
    result = np.eye(dim, dim + columns - rows, dtype=np.float32)
    result[:rows, :rows] = matrix[:, :rows]
    if columns > rows:
        result[:rows, dim] = matrix[:, rows]
    return result
