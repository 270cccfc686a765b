"""What the programs that copy one kind of object share: two tables or two plain files, never one of each."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from nnet3py import log
from nnet3py.errors import UsageError, within
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier

if TYPE_CHECKING:
    from nnet3py.io.holder import Holder

Read = TypeVar("Read")          # what a table holds
Written = TypeVar("Written")    # what one will hold


class MixedArguments(UsageError):
    """A table and a plain file in one command."""


def between_tables(args: Sequence[str]) -> bool:
    """Whether ``args`` (input, output) name tables; False for plain files. Raises MixedArguments."""
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
    """Write what ``convert(key, value)`` makes of every entry of a table.

    None is not written and counts as an error; ``convert`` has warned of it. Errors that it raises get the key's name.
    ``source`` and ``target`` are the holders. Returns the numbers of entries written and of errors; ``finish`` gets
    them, too, and if it raises, the output does not appear. Nor does it appear if closing ``inputs``, the tables that
    ``convert`` looks things up in, raises.
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
    """The log line after copying a plain file."""
    log.log(f"Copied {what} from {args[0]} to {args[1]}")
