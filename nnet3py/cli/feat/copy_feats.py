"""Programs that copy, convert, measure and compare features of a table.

copy-feats, copy-feats-to-htk, copy-feats-to-sphinx, feat-to-dim, feat-to-len, compare-feats.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import between_tables
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, ShapeError, UsageError, within
from nnet3py.io.holder import BytePieces
from nnet3py.io.specifiers import is_wspecifier, parse_wspecifier

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from nnet3py.io.tokens import TokenWriter


@kaldi_command("copy-feats", "Sound and features", "Copy features; optionally compress them.", """
Copy feature matrices; the options change their format.

Usage: copy-feats [options] <feature-rspecifier> <feature-wspecifier>
or:   copy-feats [options] <feats-rxfilename> <feats-wxfilename>
e.g.: copy-feats --compress=true ark:feats.ark ark:feats-compressed.ark
See also: copy-matrix
""", arguments=(2, 2), options=[
    BINARY,
    option("htk-in", bool, False, "Read features in the format of HTK"),
    option("sphinx-in", bool, False, "Read features in the format of Sphinx"),
    option("compress", bool, False, "Write the features in compressed form"),
    option("compression-method", int, 1, "How to compress: 1 automatic, 2 speech features, 3 two bytes, 4 two-byte "
           "integers, 5 one byte, 6 one-byte integers, 7 one byte for values from 0 to 1", least=1, most=7),
    option("write-num-frames", str, "", "Wspecifier for the number of frames of each utterance"),
])
def copy_feats(args: list[str], options: Options) -> int:
    if options.htk_in and options.sphinx_in:
        raise OptionError("Only one of --htk-in and --sphinx-in can be given")
    if between_tables(args):
        count = _copy_table(args, options)
        log.log(f"Copied {count} feature matrices.")
        return 0 if count else 1
    if options.write_num_frames:
        raise OptionError("--write-num-frames goes with archives and scripts, not with plain files")
    _copy_file(args, options)
    log.log(f"Copied features from {args[0]} to {args[1]}")
    return 0


def _input_form(options: Options, binary: bool = True) -> Any:
    """Return the holder with which matrices are read.

    From binary archives it returns matrices as bytes: as stored or, if ``binary`` and without --compress, as they are
    written without compression. From files of HTK and Sphinx it returns arrays.
    """
    if options.htk_in or options.sphinx_in:
        from nnet3py.formats.foreign_files import HTK_MATRIX, SPHINX_MATRIX

        return HTK_MATRIX if options.htk_in else SPHINX_MATRIX
    if binary and not options.compress:
        from nnet3py.engine.threads import num_threads
        from nnet3py.formats.matrix_bytes import decoded_matrix

        return decoded_matrix(num_threads())
    from nnet3py.formats.matrix_bytes import RAW_MATRIX

    return RAW_MATRIX


def _converted(matrix: Any, options: Options, binary: bool = True) -> Any:
    """Return a matrix as it is written: compressed, dense, or, if ``binary``, as bytes ready to be written."""
    if isinstance(matrix, bytes | BytePieces) and binary and not options.compress:
        return matrix
    from nnet3py.formats.compressed import CompressedMatrix
    from nnet3py.formats.matrix_batches import dense_matrix

    dense = dense_matrix(matrix)
    return CompressedMatrix.compress(dense, options.compression_method) if options.compress else dense


def _copy_table(args: list[str], options: Options) -> int:
    from nnet3py.formats.layouts import dense_runs
    from nnet3py.formats.matrix_bytes import STORED_MATRIX, num_rows
    from nnet3py.io.tables import SequentialReader, TableWriter

    count = 0
    binary = parse_wspecifier(args[1]).binary
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[1], STORED_MATRIX))
        lengths = None
        if options.write_num_frames:
            from nnet3py.formats.holders import INT32

            lengths = stack.enter_context(TableWriter(options.write_num_frames, INT32))
        # The reader is closed first: if its input was bad, the output does not appear.
        reader = stack.enter_context(SequentialReader(args[0], _input_form(options, binary)))
        if writer.takes_runs and not (options.compress or options.htk_in or options.sphinx_in):
            for run in reader.runs(dense_runs):
                writer.move(reader, run)
                count += len(run.entries)
                if lengths is not None:
                    for entry in run.entries:
                        lengths.write(entry.key, entry.num_rows)
        for key, matrix, result in _conversions(reader, options, binary):
            writer.write(key, result)
            if lengths is not None:
                lengths.write(key, num_rows(matrix))
            count += 1
    return count


def _conversions(reader: Any, options: Options, binary: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yield the key, the matrix as read, and the matrix as it is written (see :func:`_converted`)."""
    entries = iter(reader)
    if binary and options.compress:
        head = list(islice(entries, 1))
        entries = chain(head, entries)
        if head and _is_worth_compiling(head[0][1], reader):
            return _compressed_in_batches(entries, options)
    return ((key, matrix, _converted(matrix, options, binary)) for key, matrix in entries)


def _is_worth_compiling(first: Any, reader: Any) -> bool:
    """Return whether an archive, whose first matrix is ``first``, is so large that compiled compression saves time."""
    size = reader.archive_size
    if not isinstance(first, bytes) or size is None or first[:3] != b"FM ":
        return False
    from nnet3py.formats.compressed_code import expect_compressing

    return expect_compressing(size // 4)


def _compressed_in_batches(entries: Iterable[tuple[str, Any]], options: Options) -> Iterator[tuple[str, Any, Any]]:
    """Yield the key, the matrix, and the compressed matrix; threads compress batches of matrices."""
    from nnet3py.engine.threads import num_threads
    from nnet3py.formats.matrix_batches import batches, compressed
    from nnet3py.io.read_ahead import map_ahead

    def convert(batch: list[tuple[str, Any]]) -> list[tuple[str, Any, Any]]:
        results = compressed([matrix for _, matrix in batch], options.compression_method)
        return [(*entry, result) for entry, result in zip(batch, results, strict=True)]

    for batch in map_ahead(convert, batches(entries), num_threads()):
        yield from batch


def _copy_file(args: list[str], options: Options) -> None:
    from nnet3py.formats.holders import read_matrix_file
    from nnet3py.formats.matrix_bytes import STORED_MATRIX
    from nnet3py.io.object_files import token_reader, write_object
    from nnet3py.io.streams import open_input

    if options.htk_in or options.sphinx_in:
        with open_input(args[0]) as stream:
            matrix = _input_form(options).read_value(token_reader(stream))
    else:
        matrix = read_matrix_file(args[0])
    write_object(args[1], lambda writer: STORED_MATRIX.write(writer, _converted(matrix, options)), options.binary)


# -- files of other programs -------------------------------------------------------------------------------------------

_USER_KIND = 9              # HTK's parameter kind USER

OUTPUT_DIR = option("output-dir", str, ".", "Folder of the files, which must exist")


def _write_files(rspecifier: str, options: Options, write: Callable[[TokenWriter, np.ndarray], None], what: str) -> int:
    """Write each matrix to a file named after its key; return 1 if there was none."""
    from nnet3py.formats.holders import read_matrices
    from nnet3py.io.streams import open_output
    from nnet3py.io.tokens import TokenWriter

    count = 0
    for key, matrix in read_matrices(rspecifier):
        if "/" in key or "\\" in key:
            raise UsageError(f"the key {key} cannot be the name of a file", "expected keys without slashes")
        with within(f"key {key}"), open_output(f"{options.output_dir or '.'}/{key}.{options.output_ext}") as stream:
            write(TokenWriter(stream, True), matrix)
        count += 1
    log.log(f"{count} {what} feature files generated in the direcory: {options.output_dir}")
    return 0 if count else 1


@kaldi_command("copy-feats-to-htk", "Sound and features", "Write features as files of HTK.", """
Write features as files of HTK, one for each utterance: <output-dir>/<key>.<output-ext>.

Usage: copy-feats-to-htk [options] <feats-rspecifier>
e.g.: copy-feats-to-htk --output-dir=htk --output-ext=fea scp:feats.scp
See also: copy-feats, copy-feats-to-sphinx
""", arguments=(1, 1), options=[
    OUTPUT_DIR,
    option("output-ext", str, "fea", "Ending of the names of the files"),
    option("sample-period", int, 100000, "Time from one frame to the next, in units of 100 ns", least=1),
    option("sample-kind", int, _USER_KIND, "HTK's number of the kind of features; 9 is of any sort, 6 MFCC",
           least=0, most=0xFFFF),
])
def copy_feats_to_htk(args: list[str], options: Options) -> int:
    from nnet3py.formats.foreign_files import htk_holder

    return _write_files(args[0], options, htk_holder(options.sample_kind, options.sample_period).write, "HTK")


@kaldi_command("copy-feats-to-sphinx", "Sound and features", "Write features as files of Sphinx.", """
Write features as files of Sphinx, one for each utterance: <output-dir>/<key>.<output-ext>.

Usage: copy-feats-to-sphinx [options] <feats-rspecifier>
e.g.: copy-feats-to-sphinx --output-dir=sphinx --output-ext=mfc scp:feats.scp
See also: copy-feats, copy-feats-to-htk
""", arguments=(1, 1), options=[
    OUTPUT_DIR,
    option("output-ext", str, "mfc", "Ending of the names of the files"),
])
def copy_feats_to_sphinx(args: list[str], options: Options) -> int:
    from nnet3py.formats.foreign_files import write_sphinx_matrix

    return _write_files(args[0], options, write_sphinx_matrix, "Sphinx")


@kaldi_command("feat-to-dim", "Sound and features", "Print the dimension of features.", """
Write how many columns features have: those of the first matrix into a file, or those of every utterance into a table.

Usage: feat-to-dim [options] <feat-rspecifier> (<dim-wspecifier>|<dim-wxfilename>)
e.g.: feat-to-dim scp:feats.scp -
""", arguments=(2, 2))
def feat_to_dim(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import GENERAL_MATRIX
    from nnet3py.io.streams import write_text
    from nnet3py.io.tables import SequentialReader

    if is_wspecifier(args[1]):
        return _write_sizes(args[0], args[1], axis=1)
    with SequentialReader(args[0], GENERAL_MATRIX) as features:
        first = next(iter(features), None)
    if first is None:
        raise FormatError("Could not read any features (empty archive?)", path=args[0])
    dim = first[1].shape[1]
    write_text(args[1], f"{dim}\n")
    return 0


@kaldi_command("feat-to-len", "Sound and features", "Print the number of frames of features.", """
Write the number of frames of each utterance, or, without a second argument, print how many there are in all.

Usage: feat-to-len [options] <in-rspecifier> [<out-wspecifier>]
e.g.: feat-to-len scp:feats.scp ark,t:feats.lengths
or: feat-to-len scp:feats.scp
""", arguments=(1, 2))
def feat_to_len(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import GENERAL_MATRIX
    from nnet3py.io.streams import write_text
    from nnet3py.io.tables import SequentialReader

    if len(args) == 2:
        return _write_sizes(args[0], args[1], axis=0)
    with SequentialReader(args[0], GENERAL_MATRIX) as features:
        total = sum(matrix.shape[0] for _, matrix in features)
    write_text("-", f"{total}\n")
    return 0


def _write_sizes(rspecifier: str, wspecifier: str, axis: int) -> int:
    from nnet3py.formats.holders import GENERAL_MATRIX, INT32
    from nnet3py.io.tables import SequentialReader, TableWriter

    with TableWriter(wspecifier, INT32) as writer, SequentialReader(rspecifier, GENERAL_MATRIX) as features:
        for key, matrix in features:
            writer.write(key, matrix.shape[axis])
    return 0


@kaldi_command("compare-feats", "Sound and features", "Tell how similar two sets of features are.", """
Tell how similar two sets of features are: for each dimension, twice the sum of the products of both over the sum of the
squares of each, which is 1 for equal ones, and the mean of these. The exit status is 0 if that mean is high enough.

Usage: compare-feats [options] <in-rspecifier1> <in-rspecifier2>
e.g.: compare-feats --threshold=0.98 ark:feats1.ark ark:feats2.ark
See also: copy-feats, paste-feats
""", arguments=(2, 2), options=[
    option("threshold", float, 0.99, "Least mean similarity of sets that are called similar"),
])
def compare_feats(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import RandomAccessReader, SequentialReader

    sums: np.ndarray | None = None           # float64 (3, dim): squares of both, products
    done = errors = 0
    with RandomAccessReader(args[1], FLOAT_MATRIX) as others, SequentialReader(args[0], FLOAT_MATRIX) as features:
        for key, matrix in features:
            other = others.get(key)
            if other is None:
                log.warning(f"Second table has no features for utterance {key}")
                errors += 1
                continue
            if matrix.shape != other.shape:
                if matrix.shape[1] != other.shape[1]:
                    raise ShapeError(f"the features of {key} have {matrix.shape[1]} columns in the first table, and "
                                     f"{other.shape[1]} in the second")
                log.warning(f"Number of frames for utterance {key} differs: {len(matrix)} vs. {len(other)}")
                errors += 1
                continue
            with np.errstate(all="ignore"):
                here = np.stack([np.einsum("td,td->d", a, b, dtype=np.float64)
                                 for a, b in ((matrix, matrix), (other, other), (matrix, other))])
            if sums is not None and here.shape != sums.shape:
                raise ShapeError(f"the features of {key} have {here.shape[1]} columns, and the ones before them "
                                 f"{sums.shape[1]}")
            sums = here if sums is None else sums + here
            done += 1
    if sums is None:
        log.log(f"Processed {done} feature files, {errors} had errors.")
        return 1
    return 0 if _report(sums, done, errors, options.threshold) else 1


def _report(sums: np.ndarray, done: int, errors: int, threshold: float) -> bool:
    """Log the similarity of two sets of features; return whether it reaches ``threshold``.

    ``sums``: float64 (3, dim), the sums over frames of squares of the first and second set, and of their products.
    """
    import numpy as np

    ones, others, products = sums
    total = ones + others
    with np.errstate(all="ignore"):
        similarity = np.where(total == 0.0, 1.0, 2.0 * products / total)         # columns of 0 are equal
    log.log(f"self-product of 1st features for each column dimension: {_vector_text(ones)}")
    log.log(f"self-product of 2nd features for each column dimension: {_vector_text(others)}")
    log.log(f"cross-product for each column dimension: {_vector_text(products)}")
    log.log(f"Similarity metric for each dimension {_vector_text(similarity)} (1.0 means identical, the smaller the "
            "more different)")
    overall = float(similarity.mean())
    log.log(f"Overall similarity for the two feats is:{overall:g} (1.0 means identical, the smaller the more "
            "different)")
    log.log(f"Processed {done} feature files, {errors} had errors.")
    similar = overall >= threshold
    log.log(f"Features are considered {'similar' if similar else 'dissimilar'} since {overall:g} "
            f"{'>=' if similar else '<'} {threshold:g}")
    return similar


def _vector_text(vector: np.ndarray) -> str:
    """Format a vector as in Kaldi's logs, with a newline at its end."""
    return f" [ {''.join(f'{value:g} ' for value in vector)}]\n"
