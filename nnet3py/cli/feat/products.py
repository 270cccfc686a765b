"""multiply-vectors, compose-transforms and extend-transform-dim: products of vectors and of transforms."""
from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import MixedArguments, between_tables, convert_table
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import ShapeError, within
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

_NOTHING_DONE = 255


@kaldi_command("multiply-vectors", group="Transforming features", help="Multiply vectors element by element.", usage="""
Multiply vectors of the same key element by element, such as the weights of frames that different programs gave.

Usage: multiply-vectors [options] <in-rspecifier1> <in-rspecifier2> [<in-rspecifier3> ...] <out-wspecifier>
 e.g.: multiply-vectors ark:weights1.ark ark:weights2.ark ark:weights.ark
See also: vector-sum, vector-scale, paste-feats
""", arguments=(3, None), options=[
    option("length-tolerance", int, 0, "How many elements the lengths may differ; then all are cut to the shortest"),
])
def multiply_vectors(args: list[str], options: Options) -> int:
    """Multiply tables; 255 if nothing was written."""
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.io.tables import RandomAccessReader

    first, *sources, target = args
    if options.length_tolerance < 0:
        raise OptionError(f"Invalid option --length-tolerance={options.length_tolerance}", "it cannot be negative")
    with ExitStack() as stack:
        readers = [stack.enter_context(RandomAccessReader(source, FLOAT_VECTOR)) for source in sources]

        def product(key: str, vector: np.ndarray) -> np.ndarray | None:
            vectors = [vector]
            for source, reader in zip(sources, readers, strict=True):
                other = reader.get(key)
                if other is None:
                    log.warning(f"Missing utt {key} from input {source}")
                    return None
                vectors.append(other)
            lengths = [len(part) for part in vectors]
            shortest, longest = min(lengths), max(lengths)
            if longest - shortest > options.length_tolerance or not shortest:
                log.warning(f"Length mismatch {longest} vs. {shortest} for utt {key} exceeds tolerance "
                            f"{options.length_tolerance}")
                return None
            result = vector[:shortest]
            with np.errstate(all="ignore"):
                for other in vectors[1:]:
                    result = result * other[:shortest]
            return result

        done, errors = convert_table(first, target, FLOAT_VECTOR, FLOAT_VECTOR, product, inputs=stack)
    log.log(f"Done {done} utts, errors on {errors}")
    return 0 if done else _NOTHING_DONE


def _composed(a: np.ndarray, b: np.ndarray, b_is_affine: bool) -> np.ndarray:
    """The transform that applies ``b`` and then ``a``: float32 (rows of a, columns of b). ShapeError."""
    import numpy as np

    rows, columns = b.shape
    if a.shape[1] == rows + 1:               # a is affine
        if b_is_affine:
            last = np.zeros((1, columns), dtype=np.float32)
            last[0, -1] = 1.0
        else:
            b = np.pad(b, ((0, 0), (0, 1)))
            last = np.zeros((1, columns + 1), dtype=np.float32)
            last[0, -1] = 1.0
        b = np.concatenate((b, last))
    elif a.shape[1] != rows:
        raise ShapeError(f"a transform of {a.shape[0]} x {a.shape[1]} cannot follow one of {rows} x {columns}",
                         f"expected {rows} columns of the one that follows, or {rows + 1} if it is affine")
    with np.errstate(all="ignore"):
        return a @ b


@kaldi_command("compose-transforms", group="Transforming features", help="Multiply transforms of features.", usage="""
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
    option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, where A is of utterances, B of speakers"),
])
def compose_transforms(args: list[str], options: Options) -> int:
    """Compose tables or files; 1 if nothing was written to a table."""
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file
    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object
    from nnet3py.io.tables import RandomAccessMappedReader

    first, second, target = args
    of_table, by_table = is_rspecifier(first), is_rspecifier(second)
    if options.utt2spk and not (of_table and by_table):
        raise OptionError("--utt2spk goes with two tables of transforms")
    if is_wspecifier(target) != (of_table or by_table):
        raise MixedArguments(f"Cannot mix archives with regular files: {first!r}, {second!r} and {target!r}",
                             "the output is a table (ark:… or scp:…) if one of the inputs is")
    if not (of_table or by_table):
        result = _composed(read_matrix_file(first), read_matrix_file(second), options.b_is_affine)
        write_object(target, lambda writer: write_matrix(writer, result), options.binary)
        return 0
    with ExitStack() as stack:
        find: Callable[[str], np.ndarray | None]
        if not of_table:
            find = partial(_the_same, read_matrix_file(first))
        elif not by_table:
            find = partial(_the_same, read_matrix_file(second))
        else:
            find = stack.enter_context(RandomAccessMappedReader(second, options.utt2spk, FLOAT_MATRIX)).get

        def composed(key: str, matrix: np.ndarray) -> np.ndarray | None:
            other = find(key)
            if other is None:
                log.warning(f"No transform of the second table for key {key}")
                return None
            a, b = (matrix, other) if of_table else (other, matrix)
            try:
                return _composed(a, b, options.b_is_affine)
            except ShapeError as error:
                log.warning(f"Key {key}: {error.message}")
                return None

        done, errors = convert_table(first if of_table else second, target, FLOAT_MATRIX, FLOAT_MATRIX, composed,
                                     inputs=stack)
    log.log(f"Composed {done} transforms; {errors} had errors.")
    return 0 if done else 1


def _the_same(matrix: np.ndarray, key: str) -> np.ndarray | None:
    return matrix


@kaldi_command("extend-transform-dim", group="Transforming features", help="Extend transforms to more dimensions.",
               usage="""
Extend transforms from d to d dimensions, linear or affine, to more dimensions, which they leave as they are.

Usage: extend-transform-dim [options] (<transform-in-rspecifier>|<transform-in-rxfilename>) \
(<transform-out-wspecifier>|<transform-out-wxfilename>)
e.g.: extend-transform-dim --new-dimension=117 in.mat big.mat
See also: compose-transforms, transform-feats
""", arguments=(2, 2), options=[
    BINARY,
    option("new-dimension", int, -1, "Dimensions of the result; must be given"),
])
def extend_transform_dim(args: list[str], options: Options) -> int:
    """Extend a table or a file; 1 if a table was empty."""
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file
    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object

    dim = options.new_dimension
    if between_tables(args):
        done, _ = convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX,
                                lambda key, matrix: _extended(matrix, dim))
        log.log(f"Increased transform dim to {dim} for {done} matrices.")
        return 0 if done else 1
    matrix = read_matrix_file(args[0])
    with within(args[0]):
        result = _extended(matrix, dim)
    write_object(args[1], lambda writer: write_matrix(writer, result), options.binary)
    log.log(f"Increased transform dim from {len(matrix)} to {dim} and wrote to {args[1]}")
    return 0


def _extended(matrix: np.ndarray, dim: int) -> np.ndarray:
    """float32 (dim, dim), or (dim, dim + 1) with the offset last. ShapeError."""
    import numpy as np

    rows, columns = matrix.shape
    if columns - rows not in (0, 1):
        raise ShapeError(f"a matrix of {rows} x {columns} is no transform from {rows} to {rows} dimensions")
    if dim < rows:
        raise OptionError(f"--new-dimension argument invalid or not specified: {dim} < {rows}")
    result = np.eye(dim, dim + columns - rows, dtype=np.float32)
    result[:rows, :rows] = matrix[:, :rows]
    if columns > rows:
        result[:rows, dim] = matrix[:, rows]
    return result
