"""copy-int-vector: copy vectors of integers, such as alignments."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import between_tables, copy_table, log_copied
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options


@kaldi_command("copy-int-vector", group="Tables of matrices and vectors",
               help="Copy integer vectors, such as alignments.", usage="""
Copy one vector of integers, or a table of them.

Usage: copy-int-vector [options] (vector-in-rspecifier|vector-in-rxfilename) \
(vector-out-wspecifier|vector-out-wxfilename)
 e.g.: copy-int-vector --binary=false foo -
   copy-int-vector ark:1.ali ark,t:-
""", arguments=(2, 2), options=[BINARY])
def copy_int_vector(args: list[str], options: Options) -> int:
    """Copy a table or a file; 1 if a table was empty."""
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
