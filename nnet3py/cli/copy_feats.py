"""copy-feats: copy feature matrices, and optionally compress them."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.copying import between_tables, log_copied
from nnet3py.cli.option_groups import BINARY
from nnet3py.cli.options import OptionError, Options, option

if TYPE_CHECKING:
    import numpy as np

METHODS = range(1, 8)


@kaldi_command("copy-feats", usage="""
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
           "integers, 5 one byte, 6 one-byte integers, 7 one byte for values from 0 to 1"),
    option("write-num-frames", str, "", "Wspecifier for the number of frames of each utterance"),
])
def copy_feats(args: list[str], options: Options) -> int:
    """Copy a table or a file; 1 if a table was empty."""
    if options.compression_method not in METHODS:
        raise OptionError(f"Invalid option --compression-method={options.compression_method}", "expected 1 to 7")
    if options.htk_in and options.sphinx_in:
        raise OptionError("Only one of --htk-in and --sphinx-in can be given")
    if between_tables(args):
        count = _copy_table(args, options)
        log.log(f"Copied {count} feature matrices.")
        return 0 if count else 1
    if options.write_num_frames:
        raise OptionError("--write-num-frames goes with archives and scripts, not with plain files")
    _copy_file(args, options)
    log_copied("features", args)
    return 0


def _input_form(options: Options) -> Any:
    """The holder of what is read."""
    if options.htk_in or options.sphinx_in:
        from nnet3py.io.foreign_features import HTK_MATRIX, SPHINX_MATRIX

        return HTK_MATRIX if options.htk_in else SPHINX_MATRIX
    from nnet3py.io.holders import FLOAT_MATRIX

    return FLOAT_MATRIX


def _output_form(options: Options) -> tuple[Any, Any]:
    """The holder of what is written, and the function that makes it of a dense matrix."""
    from nnet3py.io.compressed import CompressedMatrix
    from nnet3py.io.holders import FLOAT_MATRIX, GENERAL_MATRIX

    def compressed(matrix: np.ndarray) -> Any:
        return CompressedMatrix.compress(matrix, options.compression_method)

    return (GENERAL_MATRIX, compressed) if options.compress else (FLOAT_MATRIX, lambda matrix: matrix)


def _copy_table(args: list[str], options: Options) -> int:
    from nnet3py.io.holders import INT32
    from nnet3py.io.tables import SequentialReader, TableWriter

    holder, convert = _output_form(options)
    count = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[1], holder))
        lengths = None
        if options.write_num_frames:
            lengths = stack.enter_context(TableWriter(options.write_num_frames, INT32))
        # The reader is closed first: if its input was bad, the output does not appear.
        reader = stack.enter_context(SequentialReader(args[0], _input_form(options)))
        for key, matrix in reader:
            writer.write(key, convert(matrix))
            if lengths is not None:
                lengths.write(key, len(matrix))
            count += 1
    return count


def _copy_file(args: list[str], options: Options) -> None:
    from nnet3py.io.object_files import read_matrix_file, token_reader, write_object
    from nnet3py.io.streams import open_input

    holder, convert = _output_form(options)
    if options.htk_in or options.sphinx_in:
        with open_input(args[0]) as stream:
            matrix = convert(_input_form(options).read_value(token_reader(stream)))
    else:
        matrix = convert(read_matrix_file(args[0]))
    write_object(args[1], lambda writer: holder.write(writer, matrix), options.binary)
