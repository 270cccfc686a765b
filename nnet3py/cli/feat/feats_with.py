"""paste-feats, append-vector-to-feats and transform-feats: features together with something else."""
from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.io.specifiers import is_rspecifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np


class NothingDone(Nnet3Error):
    """No utterance could be processed, in which case Kaldi's program ends with status 255."""


def _write_matrix(wxfilename: str, matrix: np.ndarray, binary: bool) -> None:
    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object

    write_object(wxfilename, lambda writer: write_matrix(writer, matrix), binary)
    log.log(f"Wrote appended features to {wxfilename}")


def _convert(rspecifier: str, wspecifier: str, convert: Callable[[str, np.ndarray], np.ndarray | None],
             inputs: ExitStack) -> int:
    """A table of features from another; NothingDone if it would be empty."""
    from nnet3py.formats.holders import FLOAT_MATRIX

    def finish(done: int, errors: int) -> None:
        log.log(f"Done {done} utts, errors on {errors}")
        if not done:
            raise NothingDone(f"no features of '{rspecifier}' could be processed", "the warnings say why")

    convert_table(rspecifier, wspecifier, FLOAT_MATRIX, FLOAT_MATRIX, convert, finish, inputs)
    return 0


@kaldi_command("paste-feats", group="Transforming features", help="Put features side by side.", usage="""
Put feature matrices side by side, as the program paste does with files.

Usage: paste-feats [options] <in-rspecifier1> <in-rspecifier2> [<in-rspecifier3> ...] <out-wspecifier>
 or: paste-feats [options] <in-rxfilename1> <in-rxfilename2> [<in-rxfilename3> ...] <out-wxfilename>
 e.g.: paste-feats ark:feats1.ark "ark:select-feats 0-3 ark:feats2.ark ark:- |" ark:feats-out.ark
  or: paste-feats foo.mat bar.mat baz.mat
""", arguments=(3, None), options=[
    BINARY,
    option("length-tolerance", int, 0, "How many frames the lengths may differ; then all are cut to the shortest"),
])
def paste_feats(args: list[str], options: Options) -> int:
    """Paste tables or files; 1 if files differ in length."""
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file
    from nnet3py.io.tables import RandomAccessReader

    *sources, target = args
    if options.length_tolerance < 0:
        raise OptionError(f"Invalid option --length-tolerance={options.length_tolerance}", "it cannot be negative")
    if not is_rspecifier(sources[0]):
        pasted = _pasted([read_matrix_file(name) for name in sources], "", options.length_tolerance)
        if pasted is None:
            return 1
        _write_matrix(target, pasted, options.binary)
        return 0
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
    """The matrices side by side; None, after a warning, if their lengths differ too much."""
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


@kaldi_command("append-vector-to-feats", group="Transforming features", help="Append a vector to every frame.",
               usage="""
Append the same vector to every frame of features: its elements become further columns.

Usage: append-vector-to-feats [options] <feature-rspecifier> <vector-rspecifier> <out-wspecifier>
 or: append-vector-to-feats [options] <feats-rxfilename> <vector-rxfilename> <out-wxfilename>
 e.g.: append-vector-to-feats ark:feats.ark ark:ivectors.ark ark:-
""", arguments=(3, 3), options=[BINARY])
def append_vector_to_feats(args: list[str], options: Options) -> int:
    """Append vectors to a table, or one to a file."""
    from nnet3py.feat.frames import append_vector
    from nnet3py.formats.holders import FLOAT_VECTOR, read_matrix_file
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader

    if not is_rspecifier(args[0]):
        features, vector = read_matrix_file(args[0]), read_object(args[1], FLOAT_VECTOR.read)
        if not len(features):
            raise FormatError("Empty input matrix", path=args[0])
        _write_matrix(args[2], append_vector(features, vector), options.binary)
        return 0
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


@kaldi_command("transform-feats", group="Transforming features", help="Multiply features by a matrix, such as LDA's.",
               usage="""
Multiply features by a matrix, such as an LDA or fMLLR transform. If the matrix has one more column than the features,
that is an offset. There is one transform for all, or one for each utterance or, with --utt2spk, for each speaker.

Usage: transform-feats [options] (<transform-rspecifier>|<transform-rxfilename>) <feats-rspecifier> <feats-wspecifier>
e.g.: transform-feats lda.mat ark:feats.ark ark:-
See also: copy-feats, splice-feats, est-lda
""", arguments=(3, 3), options=[
    option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for transforms per speaker"),
])
def transform_feats(args: list[str], options: Options) -> int:
    """Transform a table; 1 if nothing was written."""
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
            find = partial(_the_same, read_matrix_file(args[0]))

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

        done, errors = convert_table(args[1], args[2], FLOAT_MATRIX, FLOAT_MATRIX, transformed, inputs=stack)
    volumes.report()
    log.log(f"Applied transform to {done} utterances; {errors} had errors.")
    return 0 if done else 1


def _the_same(matrix: np.ndarray, key: str) -> np.ndarray | None:
    return matrix


class _Volumes:
    """By how much transforms stretch space: the average, over frames, of half the log-determinant of T Tᵀ."""

    def __init__(self) -> None:
        self.total, self.frames, self.kind = 0.0, 0, ""

    def add(self, matrix: np.ndarray, frames: int) -> None:
        """Count the linear part of a transform for this many frames."""
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
