"""Programs that put features together with others, with vectors, transforms or posteriors.

paste-feats, append-vector-to-feats, transform-feats, post-to-feats, append-post-to-feats.
"""
from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_any, convert_table, write_value
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, Nnet3Error, ShapeError, within
from nnet3py.io.specifiers import is_rspecifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from nnet3py.formats.posteriors import Posterior


NOTHING_DONE = 255      # exit status of Kaldi's programs for tables of which no utterance could be processed


class NothingDone(Nnet3Error):
    """Error for a table of which no utterance could be processed; Kaldi's programs then return 255."""


def _write_matrix(wxfilename: str, matrix: np.ndarray, binary: bool) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX

    write_value(wxfilename, FLOAT_MATRIX, matrix, binary)
    log.log(f"Wrote appended features to {wxfilename}")
    return 0


def _convert(rspecifier: str, wspecifier: str, convert: Callable[[str, np.ndarray], np.ndarray | None],
             inputs: ExitStack) -> int:
    """Convert a table of features; return 0, or raise NothingDone if nothing was written."""
    from nnet3py.formats.holders import FLOAT_MATRIX

    def finish(done: int, errors: int) -> None:
        log.log(f"Done {done} utts, errors on {errors}")
        if not done:
            raise NothingDone(f"no features of '{rspecifier}' could be processed", "the warnings say why")

    convert_table(rspecifier, wspecifier, FLOAT_MATRIX, FLOAT_MATRIX, convert, finish, inputs)
    return 0


@kaldi_command("paste-feats", "Transforming features", "Put features side by side.", """
Put feature matrices side by side, as the program paste does with files.

Usage: paste-feats [options] <in-rspecifier1> <in-rspecifier2> [<in-rspecifier3> ...] <out-wspecifier>
 or: paste-feats [options] <in-rxfilename1> <in-rxfilename2> [<in-rxfilename3> ...] <out-wxfilename>
 e.g.: paste-feats ark:feats1.ark "ark:select-feats 0-3 ark:feats2.ark ark:- |" ark:feats-out.ark
  or: paste-feats foo.mat bar.mat baz.mat
""", arguments=(3, None), options=[
    BINARY,
    option("length-tolerance", int, 0, "Largest difference of the lengths in frames; all are cut to the shortest",
           least=0),
])
def paste_feats(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file
    from nnet3py.io.tables import RandomAccessReader

    *sources, target = args
    if not is_rspecifier(sources[0]):
        pasted = _pasted([read_matrix_file(name) for name in sources], "", options.length_tolerance)
        if pasted is None:
            return 1
        return _write_matrix(target, pasted, options.binary)
    with ExitStack() as stack:
        others = [stack.enter_context(RandomAccessReader(source, FLOAT_MATRIX)) for source in sources[1:]]

        def paste(key: str, features: np.ndarray) -> np.ndarray | None:
            parts = [features]
            for source, reader in zip(sources[1:], others, strict=True):
                part = reader.get(key)
                if part is None:
                    log.warning(f"Missing utt {key} from input {source}")
                    return None
                parts.append(part)
            return _pasted(parts, key, options.length_tolerance)

        return _convert(sources[0], target, paste, stack)


def _pasted(parts: Sequence[np.ndarray], key: str, tolerance: int) -> np.ndarray | None:
    """Return the matrices joined column-wise; None, after a warning, if their numbers of frames differ too much."""
    from nnet3py.feat.frames import paste

    lengths = [len(part) for part in parts]
    shortest, longest = min(lengths), max(lengths)
    mismatch = f"Length mismatch {longest} vs. {shortest}{f' for utt {key}' if key else ''}"
    if longest - shortest > tolerance or shortest == 0:
        log.warning(f"{mismatch} exceeds tolerance {tolerance}")
        return None
    if longest > shortest:
        log.log(f"{mismatch} within tolerance {tolerance}")
    return paste(parts)


@kaldi_command("append-vector-to-feats", "Transforming features", "Append a vector to every frame.", """
Append the same vector to every frame of features: its elements become further columns.

Usage: append-vector-to-feats [options] <feature-rspecifier> <vector-rspecifier> <out-wspecifier>
 or: append-vector-to-feats [options] <feats-rxfilename> <vector-rxfilename> <out-wxfilename>
 e.g.: append-vector-to-feats ark:feats.ark ark:ivectors.ark ark:-
""", arguments=(3, 3), options=[BINARY])
def append_vector_to_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import append_vector
    from nnet3py.formats.holders import FLOAT_VECTOR, read_matrix_file
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader

    if not is_rspecifier(args[0]):
        features, vector = read_matrix_file(args[0]), read_object(args[1], FLOAT_VECTOR.read)
        if not len(features):
            raise FormatError("Empty input matrix", path=args[0])
        return _write_matrix(args[2], append_vector(features, vector), options.binary)
    with ExitStack() as stack:
        vectors = stack.enter_context(RandomAccessReader(args[1], FLOAT_VECTOR))

        def append(key: str, features: np.ndarray) -> np.ndarray | None:
            vector = vectors.get(key)
            if vector is None:
                log.warning(f"Could not read vector for utterance {key}")
            elif not len(features):
                log.warning(f"Empty feature matrix for key {key}")
            else:
                return append_vector(features, vector)
            return None

        return _convert(args[0], args[2], append, stack)


@kaldi_command("transform-feats", "Transforming features", "Multiply features by a matrix, such as LDA's.", """
Multiply features by a matrix, such as an LDA or fMLLR transform. If the matrix has one more column than the features,
that is an offset. There is one transform for all, or one for each utterance or, with --utt2spk, for each speaker.

Usage: transform-feats [options] (<transform-rspecifier>|<transform-rxfilename>) <feats-rspecifier> <feats-wspecifier>
e.g.: transform-feats lda.mat ark:feats.ark ark:-
See also: copy-feats, splice-feats, est-lda
""", arguments=(3, 3), options=[
    option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for transforms per speaker"),
])
def transform_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import transform
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file
    from nnet3py.io.tables import RandomAccessMappedReader

    volumes = _Volumes()
    with ExitStack() as stack:
        if is_rspecifier(args[0]):
            find = stack.enter_context(RandomAccessMappedReader(args[0], options.utt2spk, FLOAT_MATRIX)).get
        elif options.utt2spk:
            raise OptionError("--utt2spk goes with a table of transforms, not with a plain file")
        else:
            find = partial(lambda matrix, key: matrix, read_matrix_file(args[0]))

        def transformed(key: str, features: np.ndarray) -> np.ndarray | None:
            matrix = find(key)
            if matrix is None:
                log.warning(f"No fMLLR transform available for utterance {key}, producing no output for this utterance")
                return None
            try:
                result = transform(features, matrix)
            except ShapeError as error:
                log.warning(f"Transform matrix for key {key} has {error.message}")
                return None
            volumes.add(matrix[:, :features.shape[1]], len(features))
            return result

        counts = convert_table(args[1], args[2], FLOAT_MATRIX, FLOAT_MATRIX, transformed, inputs=stack)
    volumes.report()
    return counts.report("Applied transform to {done} utterances; {errors} had errors.")


class _Volumes:
    """Average over frames of the log-determinant of transforms T, which is half that of T Tᵀ, for the log."""

    def __init__(self) -> None:
        self.total, self.frames, self.kind = 0.0, 0, ""

    def add(self, matrix: np.ndarray, frames: int) -> None:
        """Add the linear part of a transform, float (rows, columns), which was applied to ``frames`` frames."""
        import numpy as np

        rows, cols = matrix.shape
        if rows > cols:      # the product is singular
            return
        self.kind = self.kind or ("logdet" if rows == cols else "[pseudo-]logdet")
        matrix = matrix.astype(np.float64)
        with np.errstate(all="ignore"):
            volume = 0.5 * float(np.linalg.slogdet(matrix @ matrix.T)[1])
        if not np.isfinite(volume):
            log.warning(f"Matrix has bad logdet {volume:g}")
            return
        self.total += frames * volume
        self.frames += frames

    def report(self) -> None:
        """Log the average."""
        if self.kind and self.frames:
            log.log(f"Overall average {self.kind} is {self.total / self.frames:g} over {self.frames:g} frames.")


# -- posteriors --------------------------------------------------------------------------------------------------------

POST_DIM = option("post-dim", int, 0, "Number of columns, one for each id from 0; must be given")


def _posterior_matrix(posterior: Posterior, options: Options) -> np.ndarray:
    """Return a posterior as a matrix, float32 (frames, post-dim); raise ShapeError for an id above post-dim - 1."""
    from nnet3py.formats.general import SparseMatrix

    return SparseMatrix.from_arrays(posterior.row_starts, posterior.ids, posterior.weights, options.post_dim).to_dense()


def _check_post_dim(options: Options) -> None:
    if options.post_dim <= 0:
        raise OptionError("You have to set the dimensionality of posteriors with '--post-dim=D'")


@kaldi_command("post-to-feats", "Sound and features", "Turn posteriors into features.", """
Turn posteriors into features: a row for each frame, a column for each id.

Usage: post-to-feats [options] <in-rspecifier> <out-wspecifier>
 or: post-to-feats [options] <in-rxfilename> <out-wxfilename>
e.g.: post-to-feats --post-dim=50 ark:post.ark ark:feat.ark
See also: post-to-smat, post-to-weights, append-post-to-feats
""", arguments=(2, 2), options=[BINARY, POST_DIM])
def post_to_feats(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR

    _check_post_dim(options)
    return NOTHING_DONE if convert_any(
        args, POSTERIOR, FLOAT_MATRIX, lambda key, posterior: _posterior_matrix(posterior, options),
        "Done {done} utts, errors on {errors}", f"Wrote posteriors as feature-matrix to {args[1]}",
        options.binary) else 0


@kaldi_command("append-post-to-feats", "Transforming features", "Append posteriors to features.", """
Put posteriors beside features: a further column for each id.

Usage: append-post-to-feats [options] <in-rspecifier1> <in-rspecifier2> <out-wspecifier>
 or: append-post-to-feats [options] <in-rxfilename1> <in-rxfilename2> <out-wxfilename>
e.g.: append-post-to-feats --post-dim=50 ark:input.ark scp:post.scp ark:output.ark
See also: paste-feats, concat-feats, append-vector-to-feats
""", arguments=(3, 3), options=[BINARY, POST_DIM])
def append_post_to_feats(args: list[str], options: Options) -> int:
    from nnet3py.feat.frames import paste
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR, read_matrix_file
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader

    _check_post_dim(options)

    def appended(features: np.ndarray, posterior: Posterior) -> np.ndarray:
        matrix = _posterior_matrix(posterior, options)
        if len(matrix) != len(features):
            raise ShapeError(f"expected posteriors of {len(features)} frames, as of the features, found {len(matrix)}")
        return paste([features, matrix])

    if not is_rspecifier(args[0]):
        with within(args[0]):
            whole = appended(read_matrix_file(args[0]), read_object(args[1], POSTERIOR.read))
        return _write_matrix(args[2], whole, options.binary)
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

        return convert_table(args[0], args[2], FLOAT_MATRIX, FLOAT_MATRIX, append, inputs=stack).report(
            "Done {done} utts, errors on {errors}", NOTHING_DONE)
