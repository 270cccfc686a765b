"""est-pca: a transform to the directions in which features vary most."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options, option


@kaldi_command("est-pca", group="Speakers and i-vectors",
               help="Estimate the transform to the main components of features.", usage="""
Estimate a transform to the directions in which features, or vectors, vary most.

Usage:  est-pca [options] (<feature-rspecifier>|<vector-rspecifier>) <pca-matrix-out>
e.g.: est-pca --dim=40 scp:train.scp pca.mat
See also: transform-feats, est-lda
""", arguments=(2, 2), options=[
    BINARY,
    option("dim", int, -1, "Rows of the transform; all if not above 0"),
    option("read-vectors", bool, False, "Read a table of vectors"),
    option("normalize-variance", bool, False, "Make the variance of each dimension one"),
    option("normalize-mean", bool, False, "Make the mean zero, by one more column"),
    option("write-full-matrix", str, "", "File for the transform with all rows"),
])
def est_pca(args: list[str], options: Options) -> int:
    """Estimate a transform; 1 if there was no data."""
    import numpy as np

    from nnet3py.errors import within
    from nnet3py.feat.transforms import PcaStats
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object
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
        log.warning("No data was processed, no transform was made")
        return 1
    pca = stats.estimate(options.dim, options.normalize_mean, options.normalize_variance)
    log.log("Eigenvalues in PCA are  [ " + "".join(f"{value:.6g} " for value in pca.eigenvalues) + "]")
    log.log(f"Sum of PCA eigenvalues is {pca.eigenvalues.sum():.6g}, sum of kept eigenvalues is "
            f"{pca.eigenvalues[:len(pca.transform)].sum():.6g}")
    write_object(args[1], lambda writer: write_matrix(writer, pca.transform), options.binary)
    if options.write_full_matrix:
        write_object(options.write_full_matrix, lambda writer: write_matrix(writer, pca.full), options.binary)
    return 0
