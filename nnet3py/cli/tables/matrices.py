"""copy-matrix, copy-vector, copy-int-vector, vector-scale and matrix-dim: copies of matrices and vectors, their sizes.

matrix-sum, vector-sum, matrix-sum-rows and multiply-vectors: sums and products over tables and files.
"""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log
from nnet3py.cli.process.command import WRONG_USAGE, kaldi_command
from nnet3py.cli.process.copying import convert_any, convert_table, write_value
from nnet3py.cli.process.option_groups import BINARY, with_default
from nnet3py.cli.process.options import OptionError, Options, option, print_error_text
from nnet3py.errors import NumericError, ShapeError
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


LOG_FLOOR = 1.0e-20   # floor of elements before --apply-log


@kaldi_command("copy-matrix", "Tables of matrices and vectors",
               "Copy matrices; optionally scale or transform them.", """
Copy one matrix, or a table of them; the options change the elements.

Usage: copy-matrix [options] <matrix-in-rspecifier> <matrix-out-wspecifier>
  or: copy-matrix [options] <matrix-in-rxfilename> <matrix-out-wxfilename>
 e.g.: copy-matrix --binary=false 1.mat -
   copy-matrix ark:2.trans ark,t:-
See also: copy-feats
""", arguments=(2, 2), options=[
    BINARY,
    option("scale", float, 1.0, "Factor by which the elements are multiplied"),
    option("apply-log", bool, False, "Take the logarithm of the elements (floored at 1e-20)"),
    option("apply-exp", bool, False, "Take the exponential of the elements"),
    option("apply-softmax-per-row", bool, False, "Apply the softmax function to each row"),
    option("apply-power", float, 1.0, "Power to which the elements are raised"),
])
def copy_matrix(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX

    if options.apply_log + options.apply_exp + options.apply_softmax_per_row > 1:
        raise OptionError("Only one of --apply-log, --apply-exp and --apply-softmax-per-row can be given")
    return convert_any(args, FLOAT_MATRIX, FLOAT_MATRIX, lambda key, matrix: transformed(matrix, options),
                       "Copied {done} matrices.", f"Copied matrix to {args[1]}", options.binary)


def transformed(matrix: np.ndarray, options: Options) -> np.ndarray:
    """Scale a matrix, apply logarithm, exponential or softmax, then a power, as options say: float32 (rows, cols).

    Raises NumericError where a power is not a number.
    """
    import numpy as np

    if options.scale != 1.0:
        matrix = matrix * np.float32(options.scale)
    if options.apply_log:
        matrix = np.log(np.maximum(matrix, np.float32(LOG_FLOOR)))
    if options.apply_exp:
        with np.errstate(over="ignore"):
            matrix = np.exp(matrix)
    if options.apply_softmax_per_row and matrix.size:
        matrix = np.exp(matrix - matrix.max(axis=1, keepdims=True))
        matrix /= matrix.sum(axis=1, keepdims=True)
    if options.apply_power != 1.0:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            powers = matrix ** np.float32(options.apply_power)
        if np.isnan(powers).any() and not np.isnan(matrix).any():
            raise NumericError(f"Cannot raise {matrix[np.isnan(powers)][0]:g} to the power {options.apply_power:g}")
        matrix = powers
    return matrix


SCALE = option("scale", float, 1.0, "Factor by which the elements are multiplied")


def _copy(args: list[str], options: Options, change_dim: int, of_table: str = "", of_file: str = "") -> int:
    """Copy vectors times --scale, cut or padded with zeros; return the exit status.

    ``change_dim`` is the new dimension; -1 keeps it. The messages are as for convert_any.
    """
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR

    def changed(key: str, vector: np.ndarray) -> np.ndarray:
        if change_dim >= 0:
            vector = np.pad(vector[:change_dim], (0, max(0, change_dim - len(vector))))
        with np.errstate(all="ignore"):
            return vector if options.scale == 1.0 else vector * np.float32(options.scale)

    return convert_any(args, FLOAT_VECTOR, FLOAT_VECTOR, changed, of_table, of_file, options.binary)


@kaldi_command("copy-vector", "Tables of matrices and vectors",
               "Copy vectors; optionally scale, cut or extend them.", """
Copy one vector, or a table of them; the options change the elements.

Usage: copy-vector [options] (<vector-in-rspecifier>|<vector-in-rxfilename>) \
(<vector-out-wspecifier>|<vector-out-wxfilename>)
 e.g.: copy-vector --binary=false 1.vec -
   copy-vector ark:2.trans ark,t:-
See also: copy-matrix, vector-scale, vector-sum, append-vector-to-feats
""", arguments=(2, 2), options=[
    BINARY, SCALE,
    option("change-dim", int, -1, "Dimension of the copies, which are cut or padded with zeros; negative: no change"),
])
def copy_vector(args: list[str], options: Options) -> int:
    to_dim = f", setting dim to {options.change_dim}" if options.change_dim >= 0 else "."
    return _copy(args, options, options.change_dim, "Copied {done} vectors" + to_dim, f"Copied vector to {args[1]}")


@kaldi_command("vector-scale", "Tables of matrices and vectors", "Multiply vectors by a number.", """
Multiply one vector, or a table of them, by a number.

Usage: vector-scale [options] <vector-in-rspecifier> <vector-out-wspecifier>
   or: vector-scale [options] <vector-in-rxfilename> <vector-out-wxfilename>
 e.g.: vector-scale --scale=-1.0 1.vec -
       vector-scale --scale=-2.0 ark:vec.ark ark,t:-
See also: copy-vector, vector-sum
""", arguments=(2, 2), options=[*with_default([BINARY], "binary", False), SCALE])
def vector_scale(args: list[str], options: Options) -> int:
    return _copy(args, options, -1)


@kaldi_command("matrix-dim", "Tables of matrices and vectors", "Print the numbers of rows and columns of matrices.", """
Print the numbers of rows and columns of a matrix, with a tab between them; of a table's matrices after their keys.

Usage: matrix-dim [options] <matrix-rxfilename>|<matrix-rspecifier>
e.g.: matrix-dim final.mat | cut -f 2
See also: feat-to-len, feat-to-dim
""", arguments=(1, 1))
def matrix_dim(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import GENERAL_MATRIX, read_matrix_file
    from nnet3py.io.streams import open_output
    from nnet3py.io.tables import SequentialReader

    if not is_rspecifier(args[0]):
        rows, cols = read_matrix_file(args[0]).shape
        with open_output("-") as stream:
            stream.write(b"%d\t%d\n" % (rows, cols))
        return 0
    count = 0
    with open_output("-") as stream, SequentialReader(args[0], GENERAL_MATRIX) as matrices:
        for key, matrix in matrices:
            stream.write(b"%b\t%d\t%d\n" % (key.encode("utf-8", "surrogateescape"), *matrix.shape))
            count += 1
    if not count:
        log.warning(f"No features read from rspecifier '{args[0]}'")
    return 0 if count else 1


@kaldi_command("copy-int-vector", "Tables of matrices and vectors", "Copy integer vectors, such as alignments.", """
Copy one vector of integers, or a table of them.

Usage: copy-int-vector [options] (vector-in-rspecifier|vector-in-rxfilename) \
(vector-out-wspecifier|vector-out-wxfilename)
 e.g.: copy-int-vector --binary=false foo -
   copy-int-vector ark:1.ali ark,t:-
""", arguments=(2, 2), options=[BINARY])
def copy_int_vector(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import INT_VECTOR

    return convert_any(args, INT_VECTOR, INT_VECTOR, lambda key, vector: vector, "Copied {done} vectors of int32.",
                       f"Copied vector from {args[0]} to {args[1]}", options.binary)


@kaldi_command("matrix-sum", "Tables of matrices and vectors", "Add or average matrices of tables or files.", """
Add matrices: those of the same key in several tables, or all of one table, or several files.

Usage: matrix-sum [options] <matrix-in-rspecifier1> [<matrix-in-rspecifier2> ...] <matrix-out-wspecifier>
   or: matrix-sum [options] <matrix-in-rspecifier> <matrix-out-wxfilename>
   or: matrix-sum [options] <matrix-in-rxfilename1> [<matrix-in-rxfilename2> ...] <matrix-out-wxfilename>
 e.g.: matrix-sum --binary=false scp:data/train/cmvn.scp -
   matrix-sum --binary=false 1.mat 2.mat 3.mat sum.mat
See also: vector-sum, matrix-sum-rows, copy-matrix
""", arguments=(2, None), options=[
    BINARY,
    option("scale1", float, 1.0, "Factor of the first table, if several are added"),
    option("scale2", float, 1.0, "Factor of the second table, if several are added"),
    option("average", bool, False, "Write averages instead of sums"),
])
def matrix_sum(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX

    kind = _Kind("matrix", "matrices", FLOAT_MATRIX)
    return _sum(args, options, kind, (options.scale1, options.scale2), matrix_sum.usage_text())


@kaldi_command("vector-sum", "Tables of matrices and vectors", "Add vectors of tables or files.", """
Add vectors: those of the same key in several tables, or all of one table, or several files.

Usage: vector-sum [options] <vector-in-rspecifier1> [<vector-in-rspecifier2> ...] <vector-out-wspecifier>
   or: vector-sum [options] <vector-in-rspecifier> <vector-out-wxfilename>
   or: vector-sum [options] <vector-in-rxfilename1> [<vector-in-rxfilename2> ...] <vector-out-wxfilename>
 e.g.: vector-sum --binary=false ark:vectors.ark sum.vec
   vector-sum --binary=false 1.vec 2.vec 3.vec sum.vec
See also: matrix-sum, vector-scale, copy-vector
""", arguments=(2, None), options=[
    BINARY,
    option("average", bool, False, "Write the average instead of the sum; only for one table, into a file"),
])
def vector_sum(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_VECTOR

    from_table_to_file = len(args) == 2 and is_rspecifier(args[0]) and not is_wspecifier(args[1])
    if options.average and not from_table_to_file:
        raise OptionError("--average needs one table that is summed into a file")
    return _sum(args, options, _Kind("vector", "vectors", FLOAT_VECTOR), (1.0, 1.0), vector_sum.usage_text())


class _Kind(NamedTuple):
    """Kind of objects to sum, matrices or vectors."""

    name: str
    plural: str
    holder: Any


def _sum(args: list[str], options: Options, kind: _Kind, scales: tuple[float, float], usage: str) -> int:
    *sources, target = args
    tables = [is_rspecifier(source) for source in sources]
    if is_wspecifier(target) and tables[0]:
        return _sum_of_tables(sources, target, kind, scales, options.average)
    if not is_wspecifier(target) and tables == [True]:
        return _sum_over_table(sources[0], target, kind, options)
    if not is_wspecifier(target) and not any(tables):
        return _sum_of_files(sources, target, kind, options)
    print_error_text(usage)
    return WRONG_USAGE


def _sum_of_tables(sources: Sequence[str], target: str, kind: _Kind, scales: tuple[float, float], average: bool) -> int:
    from nnet3py.io.tables import RandomAccessReader

    factors = [1.0 / len(sources)] * len(sources) if average else [*scales, *[1.0] * len(sources)][:len(sources)]
    total = missing = 0
    with ExitStack() as stack:
        others = [stack.enter_context(RandomAccessReader(source, kind.holder)) for source in sources[1:]]

        def summed(key: str, first: np.ndarray) -> np.ndarray:
            nonlocal total, missing
            total += 1
            result = _scaled(first, factors[0])
            for number, (source, reader) in enumerate(zip(sources[1:], others, strict=True), 2):
                value = reader.get(key)
                if value is None:
                    log.warning(f"No {kind.name} found for utterance {key} for system {number}, rspecifier: {source}")
                    missing += 1
                    continue
                total += 1
                if value.shape == first.shape:
                    result = _added(result, _scaled(value, factors[number - 1]))
                else:
                    log.warning(f"Dimension mismatch for utterance {key} : {_size(value)} for system {number}, "
                                f"rspecifier: {source} vs {_size(first)} primary {kind.name}, rspecifier:{sources[0]}")
            return result

        done, _ = convert_table(sources[0], target, kind.holder, kind.holder, summed, inputs=stack)
    log.log(f"Processed {done} utterances: with a total of {total} {kind.plural} across {len(sources)} "
            "different systems")
    log.log(f"Produced output for {done} utterances; {missing} total missing {kind.plural}")
    return 0 if done and missing < done - missing else 1


def _sum_over_table(source: str, target: str, kind: _Kind, options: Options) -> int:
    import numpy as np

    from nnet3py.io.tables import SequentialReader

    total: np.ndarray | None = None
    done = errors = 0
    with SequentialReader(source, kind.holder) as reader:
        for key, value in reader:
            if not value.size:
                log.warning(f"Zero {kind.name} input for key {key}")
            elif total is not None and value.shape != total.shape:
                log.warning(f"Dimension mismatch for key {key}: {_size(value)} vs. {_size(total)}")
            else:
                total = np.zeros(value.shape) if total is None else total
                with np.errstate(all="ignore"):
                    total += value
                done += 1
                continue
            errors += 1
    if total is None:
        total = np.zeros((0,) * (2 if kind.name == "matrix" else 1))
    _write(target, total / done if options.average and done else total, kind, options.binary)
    log.log(f"Summed {done} {kind.plural}, {errors} with errors; wrote sum to {target}")
    return 0 if done > 0 and errors < done else 1


def _sum_of_files(sources: Sequence[str], target: str, kind: _Kind, options: Options) -> int:
    import numpy as np

    from nnet3py.io.object_files import read_object

    total: np.ndarray | None = None
    for source in sources:
        value = read_object(source, kind.holder.read)
        if total is not None and value.shape != total.shape:
            raise ShapeError(f"the {kind.name} in {source} has {_size(value)} elements, expected {_size(total)}, as in "
                             f"{sources[0]}")
        total = value.astype(np.float64) if total is None else _added(total, value)
    assert total is not None
    _write(target, total / len(sources) if options.average else total, kind, options.binary)
    log.log(f"Summed {len(sources)} {kind.plural}; wrote sum to {target}")
    return 0


def _write(wxfilename: str, value: np.ndarray, kind: _Kind, binary: bool) -> None:
    import numpy as np

    with np.errstate(over="ignore"):
        write_value(wxfilename, kind.holder, value.astype(np.float32), binary)


def _scaled(value: np.ndarray, factor: float) -> np.ndarray:
    import numpy as np

    with np.errstate(all="ignore"):
        return value if factor == 1.0 else value * np.float32(factor)


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    import numpy as np

    with np.errstate(all="ignore"):
        return a + b


def _size(value: np.ndarray) -> str:
    return " by ".join(map(str, value.shape))


@kaldi_command("matrix-sum-rows", "Tables of matrices and vectors", "Sum the rows of matrices.", """
Sum the rows of each matrix of a table: a vector for each.

Usage: matrix-sum-rows [options] <matrix-rspecifier> <vector-wspecifier>
e.g.: matrix-sum-rows ark:- ark:- | vector-sum ark:- sum.vec
See also: matrix-sum, vector-sum
""", arguments=(2, 2))
def matrix_sum_rows(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR

    rows = [0]

    def summed(key: str, matrix: np.ndarray) -> np.ndarray:
        rows[0] += len(matrix)
        with np.errstate(all="ignore"):
            return matrix.sum(axis=0, dtype=np.float64).astype(np.float32)

    return convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_VECTOR, summed).report(
        f"Summed rows {{done}} matrices, {rows[0]} rows in total.")


_NOTHING_DONE = 255


@kaldi_command("multiply-vectors", "Transforming features", "Multiply vectors element by element.", """
Multiply vectors of the same key element by element, for example weights of frames from different programs.

Usage: multiply-vectors [options] <in-rspecifier1> <in-rspecifier2> [<in-rspecifier3> ...] <out-wspecifier>
 e.g.: multiply-vectors ark:weights1.ark ark:weights2.ark ark:weights.ark
See also: vector-sum, vector-scale, paste-feats
""", arguments=(3, None), options=[
    option("length-tolerance", int, 0, "Largest difference of the lengths; all are cut to the shortest",
           least=0),
])
def multiply_vectors(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.io.tables import RandomAccessReader

    first, *sources, target = args
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

        return convert_table(first, target, FLOAT_VECTOR, FLOAT_VECTOR, product, inputs=stack).report(
            "Done {done} utts, errors on {errors}", _NOTHING_DONE)
