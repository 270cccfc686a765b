"""copy-vector, vector-scale and matrix-dim: vectors copied, and the sizes of matrices."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import between_tables, convert_table
from nnet3py.cli.process.option_groups import BINARY, with_default
from nnet3py.cli.process.options import Options, option
from nnet3py.io.specifiers import is_rspecifier

if TYPE_CHECKING:
    import numpy as np

SCALE = option("scale", float, 1.0, "Factor by which the elements are multiplied")


def _copy(args: list[str], options: Options, change_dim: int) -> int | None:
    """Copy a table or a file, scaled and cut or filled with zeros; the number of entries, None for a file."""
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
    option("change-dim", int, -1, "Dimension of the copies: cut, or filled with zeros (negative: as it is)"),
])
def copy_vector(args: list[str], options: Options) -> int:
    """Copy a table or a file; 1 if a table was empty."""
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
    """Scale a table or a file; 1 if a table was empty."""
    return 1 if _copy(args, options, -1) == 0 else 0


@kaldi_command("matrix-dim", group="Tables of matrices and vectors",
               help="Print the numbers of rows and columns of matrices.", usage="""
Print the numbers of rows and columns of a matrix, with a tab between them; of a table's matrices after their keys.

Usage: matrix-dim [options] <matrix-rxfilename>|<matrix-rspecifier>
e.g.: matrix-dim final.mat | cut -f 2
See also: feat-to-len, feat-to-dim
""", arguments=(1, 1))
def matrix_dim(args: list[str], options: Options) -> int:
    """Print sizes; 1 if a table was empty."""
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
