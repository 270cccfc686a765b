"""Copying between two tables, or two plain files, for the programs that copy or convert one kind of object."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from nnet3py import log
from nnet3py.errors import UsageError, within
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier

if TYPE_CHECKING:
    from nnet3py.io.holder import Holder

Read = TypeVar("Read")          # type of the objects in the input
Written = TypeVar("Written")    # type of the objects in the output


class MixedArguments(UsageError):
    """Error for a table and a plain file in one command."""


def between_tables(args: Sequence[str]) -> bool:
    """Return whether ``args`` (input, output) name tables; False for plain files. Raises MixedArguments."""
    tables = is_rspecifier(args[0])
    if tables != is_wspecifier(args[1]):
        raise MixedArguments(f"Cannot mix archives with regular files: {args[0]!r} and {args[1]!r}",
                             "name two tables (ark:… or scp:…), or two files")
    return tables


def copy_table(rspecifier: str, wspecifier: str, holder: Holder[Read]) -> int:
    """Copy every entry of a table; return their number."""
    from nnet3py.io.tables import SequentialReader, TableWriter

    count = 0
    # The reader is closed first: if its input was bad, the output does not appear.
    with TableWriter(wspecifier, holder) as writer, SequentialReader(rspecifier, holder) as reader:
        for key, value in reader:
            writer.write(key, value)
            count += 1
    return count


def convert_table(rspecifier: str, wspecifier: str, source: Holder[Read], target: Holder[Written],
                  convert: Callable[[str, Read], Written | None],
                  finish: Callable[[int, int], None] | None = None,
                  inputs: ExitStack | None = None) -> tuple[int, int]:
    """Convert every entry of a table; return the numbers of entries written and of errors.

    Parameters
    ----------
    rspecifier, wspecifier : names of the tables
    source, target : holders of what is read and written
    convert : function of key and value that returns the value to write, or None, with a warning, which counts as an
        error; the key's name is added to errors that it raises
    finish : called with both numbers at the end; if it raises, the output does not appear
    inputs : other tables, from which ``convert`` reads; if closing one raises, the output does not appear
    """
    from nnet3py.io.tables import SequentialReader, TableWriter

    done = errors = 0
    with TableWriter(wspecifier, target) as writer:
        with SequentialReader(rspecifier, source) as reader:
            for key, value in reader:
                with within(f"key {key}"):
                    result = convert(key, value)
                if result is None:
                    errors += 1
                    continue
                writer.write(key, result)
                done += 1
        if inputs is not None:
            inputs.close()
        if finish is not None:
            finish(done, errors)
    return done, errors


def log_copied(what: str, args: Sequence[str]) -> None:
    """Log that a plain file was copied."""
    log.log(f"Copied {what} from {args[0]} to {args[1]}")
