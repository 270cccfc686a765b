"""copy-matrix: copy matrices, and optionally scale them or apply a function to their elements."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import between_tables
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import NumericError

if TYPE_CHECKING:
    import numpy as np

LOG_FLOOR = 1.0e-20   # what --apply-log raises smaller elements to


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
    """Copy a table or a file; 1 if a table was empty."""
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
    """Scale, then logarithm, exponential or softmax, then power; float32 (rows, cols), new if anything changes.

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
