"""copy-matrix, copy-vector, copy-int-vector, vector-scale and matrix-dim: copies of matrices and vectors, their sizes.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import between_tables, convert_table, copy_table, log_copied
from nnet3py.cli.process.option_groups import BINARY, with_default
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import NumericError
from nnet3py.io.specifiers import is_rspecifier

if TYPE_CHECKING:
    import numpy as np


LOG_FLOOR = 1.0e-20   # floor of elements before --apply-log


@kaldi_command("copy-matrix", group="Tables of matrices and vectors",
               help="Copy matrices; optionally scale or transform them.", usage="""
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
    """Copy or transform matrices; return 1 if the input is an empty table."""
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file
    from nnet3py.io.object_files import write_object
    from nnet3py.io.tables import SequentialReader, TableWriter

    if options.apply_log + options.apply_exp + options.apply_softmax_per_row > 1:
        raise OptionError("Only one of --apply-log, --apply-exp and --apply-softmax-per-row can be given")
    if not between_tables(args):
        matrix = transformed(read_matrix_file(args[0]), options)
        write_object(args[1], lambda writer: FLOAT_MATRIX.write(writer, matrix), options.binary)
        log.log(f"Copied matrix to {args[1]}")
        return 0
    count = 0
    with TableWriter(args[1], FLOAT_MATRIX) as writer, SequentialReader(args[0], FLOAT_MATRIX) as reader:
        for key, matrix in reader:
            writer.write(key, transformed(matrix, options))
            count += 1
    log.log(f"Copied {count} matrices.")
    return 0 if count else 1


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


def _copy(args: list[str], options: Options, change_dim: int) -> int | None:
    """Copy vectors times --scale, cut or padded with zeros; return the number of a table's entries, None for a file.

    ``change_dim`` is the new dimension; -1 keeps it.
    """
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.io.object_files import read_object, write_object

    def changed(key: str, vector: np.ndarray) -> np.ndarray:
        if change_dim >= 0:
            vector = np.pad(vector[:change_dim], (0, max(0, change_dim - len(vector))))
        with np.errstate(all="ignore"):
            return vector if options.scale == 1.0 else vector * np.float32(options.scale)

    if between_tables(args):
        return convert_table(args[0], args[1], FLOAT_VECTOR, FLOAT_VECTOR, changed)[0]
    vector = changed("", read_object(args[0], FLOAT_VECTOR.read))
    write_object(args[1], lambda writer: FLOAT_VECTOR.write(writer, vector), options.binary)
    return None


@kaldi_command("copy-vector", group="Tables of matrices and vectors",
               help="Copy vectors; optionally scale, cut or extend them.", usage="""
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
    """Copy vectors, perhaps with another dimension; return 1 if the input is an empty table."""
    count = _copy(args, options, options.change_dim)
    if count is None:
        log.log(f"Copied vector to {args[1]}")
        return 0
    to_dim = f", setting dim to {options.change_dim}" if options.change_dim >= 0 else ""
    log.log(f"Copied {count} vectors{to_dim or '.'}")
    return 0 if count else 1


@kaldi_command("vector-scale", group="Tables of matrices and vectors", help="Multiply vectors by a number.", usage="""
Multiply one vector, or a table of them, by a number.

Usage: vector-scale [options] <vector-in-rspecifier> <vector-out-wspecifier>
   or: vector-scale [options] <vector-in-rxfilename> <vector-out-wxfilename>
 e.g.: vector-scale --scale=-1.0 1.vec -
       vector-scale --scale=-2.0 ark:vec.ark ark,t:-
See also: copy-vector, vector-sum
""", arguments=(2, 2), options=[*with_default([BINARY], "binary", False), SCALE])
def vector_scale(args: list[str], options: Options) -> int:
    """Multiply vectors by a number; return 1 if the input is an empty table."""
    return 1 if _copy(args, options, -1) == 0 else 0


@kaldi_command("matrix-dim", group="Tables of matrices and vectors",
               help="Print the numbers of rows and columns of matrices.", usage="""
Print the numbers of rows and columns of a matrix, with a tab between them; of a table's matrices after their keys.

Usage: matrix-dim [options] <matrix-rxfilename>|<matrix-rspecifier>
e.g.: matrix-dim final.mat | cut -f 2
See also: feat-to-len, feat-to-dim
""", arguments=(1, 1))
def matrix_dim(args: list[str], options: Options) -> int:
    """Print the numbers of rows and columns of matrices; return 1 if the input is an empty table."""
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


@kaldi_command("copy-int-vector", group="Tables of matrices and vectors",
               help="Copy integer vectors, such as alignments.", usage="""
Copy one vector of integers, or a table of them.

Usage: copy-int-vector [options] (vector-in-rspecifier|vector-in-rxfilename) \
(vector-out-wspecifier|vector-out-wxfilename)
 e.g.: copy-int-vector --binary=false foo -
   copy-int-vector ark:1.ali ark,t:-
""", arguments=(2, 2), options=[BINARY])
def copy_int_vector(args: list[str], options: Options) -> int:
    """Copy integer vectors; return 1 if the input is an empty table."""
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.object_files import read_object, write_object

    if between_tables(args):
        count = copy_table(args[0], args[1], INT_VECTOR)
        log.log(f"Copied {count} vectors of int32.")
        return 0 if count else 1
    vector = read_object(args[0], INT_VECTOR.read)
    write_object(args[1], lambda writer: INT_VECTOR.write(writer, vector), options.binary)
    log_copied("vector", args)
    return 0
