"""copy-feats: copy feature matrices, and optionally compress them."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import between_tables, log_copied
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.io.holder import BytePieces

METHODS = range(1, 8)


@kaldi_command("copy-feats", group="Sound and features", help="Copy features; optionally compress them.", usage="""
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


def _input_form(options: Options, binary: bool = True) -> Any:
    """The holder for reading; where possible matrices are bytes, and if ``binary`` the bytes to be written."""
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
    """A matrix in the form in which it is written; ``binary`` says whether that may be bytes."""
    if isinstance(matrix, bytes | BytePieces) and binary and not options.compress:
        return matrix
    from nnet3py.formats.compressed import CompressedMatrix
    from nnet3py.formats.matrix_batches import dense_matrix

    dense = dense_matrix(matrix)
    return CompressedMatrix.compress(dense, options.compression_method) if options.compress else dense


def _copy_table(args: list[str], options: Options) -> int:
    from nnet3py.formats.layouts import dense_runs
    from nnet3py.formats.matrix_bytes import STORED_MATRIX, num_rows
    from nnet3py.io.specifiers import parse_wspecifier
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
    """Key, matrix, and matrix in the form in which it is written."""
    entries = iter(reader)
    if binary and options.compress:
        head = list(islice(entries, 1))
        entries = chain(head, entries)
        if head and _is_much(head[0][1], reader):
            return _in_batches(entries, options)
    return ((key, matrix, _converted(matrix, options, binary)) for key, matrix in entries)


def _is_much(first: Any, reader: Any) -> bool:
    """Whether an archive that begins with the matrix ``first`` is large enough for compressing by compiled code."""
    size = reader.archive_size
    if not isinstance(first, bytes) or size is None or first[:3] != b"FM ":
        return False
    from nnet3py.formats.compressed_code import expect_compressing

    return expect_compressing(size // 4)


def _in_batches(entries: Iterable[tuple[str, Any]], options: Options) -> Iterator[tuple[str, Any, Any]]:
    """Key, matrix, and matrix compressed, many of them at once by threads."""
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
