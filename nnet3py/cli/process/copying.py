"""Copies and conversions of tables, which most of Kaldi's programs are: table to table, to several, or to lines."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

from nnet3py import log
from nnet3py.errors import FormatError, UsageError, within

if TYPE_CHECKING:
    from nnet3py.io.holder import Holder
    from nnet3py.io.random_access import RandomAccessReader

    Inputs: TypeAlias = ExitStack | RandomAccessReader[Any] | None

Read = TypeVar("Read")          # type of the values of the input table
Written = TypeVar("Written")    # type of the values of the output table


class Counts(NamedTuple):
    """Numbers of entries of a table that were converted, and that could not be converted."""

    done: int
    errors: int

    def report(self, message: str = "", nothing: int = 1) -> int:
        """Log a message with ``{done}`` and ``{errors}``, unless it is empty; return the exit status.

        The status is 0, or ``nothing`` if nothing was converted.
        """
        if message:
            caller = sys._getframe(1)
            log.log(message.format(done=self.done, errors=self.errors),
                    file=log.short_path(caller.f_code.co_filename), line=caller.f_lineno)
        return 0 if self.done else nothing


class MixedArguments(UsageError):
    """Error for a command whose arguments are a table and a plain file."""


def between_tables(args: Sequence[str]) -> bool:
    """Return whether ``args`` (input, output) name tables; False for plain files. Raises MixedArguments."""
    from nnet3py.io.specifiers import is_rspecifier, is_wspecifier  # --help does not need this module

    tables = is_rspecifier(args[0])
    if tables != is_wspecifier(args[1]):
        raise MixedArguments(f"Cannot mix archives with regular files: {args[0]!r} and {args[1]!r}",
                             "name two tables (ark:… or scp:…), or two files")
    return tables


def copy_table(rspecifier: str, wspecifier: str, holder: Holder[Read]) -> Counts:
    """Copy every entry of a table."""
    return convert_table(rspecifier, wspecifier, holder, holder, lambda key, value: value)


def _convert_entries(rspecifier: str, holder: Holder[Read], convert: Callable[[str, Read], Written | None],
                     write: Callable[[str, Written], object], inputs: Inputs) -> Counts:
    from nnet3py.io.tables import SequentialReader

    done = errors = 0
    with SequentialReader(rspecifier, holder) as reader:
        for key, value in reader:
            with within(f"key {key}"):
                result = convert(key, value)
            if result is None:
                errors += 1
            else:
                write(key, result)
                done += 1
    if inputs is not None:
        inputs.close()
    return Counts(done, errors)


def convert_table(rspecifier: str, wspecifier: str, source: Holder[Read], target: Holder[Written],
                  convert: Callable[[str, Read], Written | None],
                  finish: Callable[[int, int], None] | None = None, inputs: Inputs = None) -> Counts:
    """Write the result of ``convert(key, value)`` for every entry of a table.

    Parameters
    ----------
    source, target : holders of the two tables
    convert : function that returns None, having logged a warning, where an entry cannot be converted; errors that it
        raises get the key's name
    finish : function that gets the numbers of entries that were and were not converted; if it raises, the output does
        not appear
    inputs : further table, or stack of tables, that ``convert`` reads, which is closed before the output appears
    """
    from nnet3py.io.tables import TableWriter

    with TableWriter(wspecifier, target) as writer:
        counts = _convert_entries(rspecifier, source, convert, writer.write, inputs)
        if finish is not None:
            finish(*counts)
    return counts


def convert_to_tables(rspecifier: str, source: Holder[Read], wspecifiers: Sequence[str], targets: Sequence[Holder[Any]],
                      convert: Callable[[str, Read], Sequence[Any] | None], inputs: Inputs = None) -> Counts:
    """Write the values that ``convert(key, value)`` returns, each to its own table; see :func:`convert_table`.

    A table whose specifier is empty, or missing at the end of ``wspecifiers``, is not written.
    """
    from nnet3py.io.tables import TableWriter

    with ExitStack() as stack:
        writers = [stack.enter_context(TableWriter(name, target)) if name else None
                   for name, target in zip(wspecifiers, targets, strict=False)]

        def write(key: str, values: Sequence[Any]) -> None:
            for writer, value in zip(writers, values, strict=False):
                if writer is not None:
                    writer.write(key, value)

        return _convert_entries(rspecifier, source, convert, write, inputs)


def convert_to_lines(rspecifier: str, wxfilename: str, source: Holder[Read],
                     convert: Callable[[str, Read], Iterable[str] | None], inputs: Inputs = None) -> Counts:
    """Write the lines of text that ``convert(key, value)`` returns to a file; see :func:`convert_table`.

    The lines include their newlines. Raises UsageError if ``wxfilename`` names a table.
    """
    from nnet3py.io.specifiers import is_wspecifier
    from nnet3py.io.streams import open_output

    if is_wspecifier(wxfilename):
        raise UsageError(f"expected a file for lines of text, found a table: {wxfilename!r}", "give a file, or -")
    with open_output(wxfilename) as stream:
        return _convert_entries(rspecifier, source, convert, lambda key, lines: stream.write(
            "".join(lines).encode("utf-8", "surrogateescape")), inputs)


def convert_any(args: Sequence[str], source: Holder[Read], target: Holder[Written],
                convert: Callable[[str, Read], Written | None], of_table: str, of_file: str = "",
                binary: bool = True) -> int:
    """Convert every entry of a table, or the contents of a file; return the exit status.

    Parameters
    ----------
    args : names of input and output: two tables, or two files
    source, target : holders of input and output
    convert : as for :func:`convert_table`; the key is "" for a file, and None is not returned for its value
    of_table, of_file : messages for the log, as for :meth:`Counts.report`
    binary : whether a file is written in binary
    """
    if between_tables(args):
        return convert_table(args[0], args[1], source, target, convert).report(of_table)
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrix_file
    from nnet3py.io.object_files import read_object

    value: Any = read_matrix_file(args[0]) if source is FLOAT_MATRIX else read_object(args[0], source.read)
    with within(args[0]):
        result = convert("", value)
    write_value(args[1], target, cast(Any, result), binary)
    return Counts(1, 0).report(of_file)


def write_value(wxfilename: str, holder: Holder[Written], value: Written, binary: bool) -> None:
    """Write a value to a file."""
    from nnet3py.io.object_files import write_object

    write_object(wxfilename, lambda writer: holder.write(writer, value), binary)


def first_words(rxfilename: str) -> set[str]:
    """Read the first word of each line of a file, such as a list of utterances; FormatError for an empty line."""
    from nnet3py.io.streams import read_lines

    lines = [line.split() for line in read_lines(rxfilename)]
    if [] in lines:
        raise FormatError(f"line {lines.index([]) + 1} of a list of keys is empty", path=rxfilename)
    return {words[0] for words in lines}
