"""Copies and conversions of tables, which most of Kaldi's programs are: table to table, to several, or to lines."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from nnet3py import log
from nnet3py.errors import UsageError, within
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier

if TYPE_CHECKING:
    from nnet3py.io.holder import Holder
    from nnet3py.io.random_access import RandomAccessReader

Read = TypeVar("Read")          # type of the values of the input table
Written = TypeVar("Written")    # type of the values of the output table


class MixedArguments(UsageError):
    """Error for a command whose arguments are a table and a plain file."""


def between_tables(args: Sequence[str]) -> bool:
    """Return whether ``args`` (input, output) name tables; False for plain files. Raises MixedArguments."""
    tables = is_rspecifier(args[0])
    if tables != is_wspecifier(args[1]):
        raise MixedArguments(f"Cannot mix archives with regular files: {args[0]!r} and {args[1]!r}",
                             "name two tables (ark:… or scp:…), or two files")
    return tables


def copy_table(rspecifier: str, wspecifier: str, holder: Holder[Read]) -> int:
    """Copy every entry of a table; return their number."""
    return convert_table(rspecifier, wspecifier, holder, holder, lambda key, value: value)[0]


def _convert_entries(rspecifier: str, holder: Holder[Read], convert: Callable[[str, Read], Written | None],
                     write: Callable[[str, Written], object]) -> tuple[int, int]:
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
    return done, errors


def convert_table(rspecifier: str, wspecifier: str, source: Holder[Read], target: Holder[Written],
                  convert: Callable[[str, Read], Written | None],
                  finish: Callable[[int, int], None] | None = None,
                  inputs: ExitStack | RandomAccessReader[Any] | None = None) -> tuple[int, int]:
    """Write the result of ``convert(key, value)`` for every entry of a table.

    Parameters
    ----------
    source, target : holders of the two tables
    convert : function that returns None, having logged a warning, where an entry cannot be converted; errors that it
        raises get the key's name
    finish : function that gets the two numbers below; if it raises, the output does not appear
    inputs : further table, or stack of tables, that ``convert`` reads, which is closed before the output appears

    Returns
    -------
    done, errors : number of entries written, and for which ``convert`` returned None
    """
    from nnet3py.io.tables import TableWriter

    with TableWriter(wspecifier, target) as writer:
        counts = _convert_entries(rspecifier, source, convert, writer.write)
        if inputs is not None:
            inputs.close()
        if finish is not None:
            finish(*counts)
    return counts


def convert_to_tables(rspecifier: str, source: Holder[Read], wspecifiers: Sequence[str], targets: Sequence[Holder[Any]],
                      convert: Callable[[str, Read], Sequence[Any] | None]) -> tuple[int, int]:
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

        return _convert_entries(rspecifier, source, convert, write)


def convert_to_lines(rspecifier: str, wxfilename: str, source: Holder[Read],
                     convert: Callable[[str, Read], Iterable[str] | None]) -> tuple[int, int]:
    """Write the lines of text that ``convert(key, value)`` returns to a file; see :func:`convert_table`.

    The lines include their newlines. Raises UsageError if ``wxfilename`` names a table.
    """
    from nnet3py.io.streams import open_output

    if is_wspecifier(wxfilename):
        raise UsageError(f"expected a file for lines of text, found a table: {wxfilename!r}", "give a file, or -")
    with open_output(wxfilename) as stream:
        return _convert_entries(rspecifier, source, convert, lambda key, lines: stream.write(
            "".join(lines).encode("utf-8", "surrogateescape")))


def log_copied(what: str, args: Sequence[str]) -> None:
    """Log that a plain file was copied; ``what`` names its contents."""
    log.log(f"Copied {what} from {args[0]} to {args[1]}")
