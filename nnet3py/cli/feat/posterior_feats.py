"""post-to-feats and append-post-to-feats: posteriors as columns of features."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import between_tables, convert_table
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import ShapeError, within
from nnet3py.io.specifiers import is_rspecifier

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.posteriors import Posterior

POST_DIM = option("post-dim", int, 0, "Columns of the posteriors, whose ids count from 0; must be given")
_NOTHING_DONE = 255


def _matrix(posterior: Posterior, options: Options) -> np.ndarray:
    """float32 (frames, post-dim); ShapeError for an id that has no column."""
    from nnet3py.formats.general import SparseMatrix

    return SparseMatrix.from_arrays(posterior.row_starts, posterior.ids, posterior.weights, options.post_dim).to_dense()


def _check(options: Options) -> None:
    if options.post_dim <= 0:
        raise OptionError("You have to set the dimensionality of posteriors with '--post-dim=D'")


def _write(wxfilename: str, matrix: np.ndarray, options: Options) -> None:
    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object

    write_object(wxfilename, lambda writer: write_matrix(writer, matrix), options.binary)


@kaldi_command("post-to-feats", group="Sound and features", help="Turn posteriors into features.", usage="""
Turn posteriors into features: a row for each frame, a column for each id.

Usage: post-to-feats [options] <in-rspecifier> <out-wspecifier>
 or: post-to-feats [options] <in-rxfilename> <out-wxfilename>
e.g.: post-to-feats --post-dim=50 ark:post.ark ark:feat.ark
See also: post-to-smat, post-to-weights, append-post-to-feats
""", arguments=(2, 2), options=[BINARY, POST_DIM])
def post_to_feats(args: list[str], options: Options) -> int:
    """Convert a table or a file; 255 if a table was empty."""
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR
    from nnet3py.io.object_files import read_object

    _check(options)
    if not between_tables(args):
        with within(args[0]):
            matrix = _matrix(read_object(args[0], POSTERIOR.read), options)
        _write(args[1], matrix, options)
        log.log(f"Wrote posteriors as feature-matrix to {args[1]}")
        return 0
    done, errors = convert_table(args[0], args[1], POSTERIOR, FLOAT_MATRIX,
                                 lambda key, posterior: _matrix(posterior, options))
    log.log(f"Done {done} utts, errors on {errors}")
    return 0 if done else _NOTHING_DONE


@kaldi_command("append-post-to-feats", group="Transforming features", help="Append posteriors to features.", usage="""
Put posteriors beside features: a further column for each id.

Usage: append-post-to-feats [options] <in-rspecifier1> <in-rspecifier2> <out-wspecifier>
 or: append-post-to-feats [options] <in-rxfilename1> <in-rxfilename2> <out-wxfilename>
e.g.: append-post-to-feats --post-dim=50 ark:input.ark scp:post.scp ark:output.ark
See also: paste-feats, concat-feats, append-vector-to-feats
""", arguments=(3, 3), options=[BINARY, POST_DIM])
def append_post_to_feats(args: list[str], options: Options) -> int:
    """Append to a table or a file; 255 if nothing was written."""
    from nnet3py.feat.frames import paste
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR, read_matrix_file
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader

    _check(options)

    def appended(features: np.ndarray, posterior: Posterior) -> np.ndarray:
        matrix = _matrix(posterior, options)
        if len(matrix) != len(features):
            raise ShapeError(f"there are {len(features)} frames of features, and {len(matrix)} of posteriors")
        return paste([features, matrix])

    if not is_rspecifier(args[0]):
        with within(args[0]):
            whole = appended(read_matrix_file(args[0]), read_object(args[1], POSTERIOR.read))
        _write(args[2], whole, options)
        log.log(f"Wrote appended features to {args[2]}")
        return 0
    with ExitStack() as stack:
        posteriors = stack.enter_context(RandomAccessReader(args[1], POSTERIOR))

        def append(key: str, features: np.ndarray) -> np.ndarray | None:
            posterior = posteriors.get(key)
            if posterior is None:
                log.warning(f"Could not read posteriors for utterance {key}")
                return None
            try:
                return appended(features, posterior)
            except ShapeError as error:
                log.warning(f"Utterance {key}: {error.message}")
                return None

        done, errors = convert_table(args[0], args[2], FLOAT_MATRIX, FLOAT_MATRIX, append, inputs=stack)
    log.log(f"Done {done} utts, errors on {errors}")
    return 0 if done else _NOTHING_DONE
