"""What the programs that copy one kind of object share: two tables or two plain files, never one of each."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnet3py import log
from nnet3py.errors import UsageError
from nnet3py.io.specifiers import is_rspecifier, is_wspecifier


class MixedArguments(UsageError):
    """A table and a plain file in one command."""


def between_tables(args: Sequence[str]) -> bool:
    """Whether ``args`` (input, output) name tables; False for plain files. Raises MixedArguments."""
    tables = is_rspecifier(args[0])
    if tables != is_wspecifier(args[1]):
        raise MixedArguments(f"Cannot mix archives with regular files: {args[0]!r} and {args[1]!r}",
                             "name two tables (ark:… or scp:…), or two files")
    return tables


def copy_table(rspecifier: str, wspecifier: str, holder: Any) -> int:
    """Copy every entry of a table; return their number."""
    from nnet3py.io.tables import SequentialReader, TableWriter

    count = 0
    # The reader is closed first: if its input was bad, the output does not appear.
    with TableWriter(wspecifier, holder) as writer, SequentialReader(rspecifier, holder) as reader:
        for key, value in reader:
            writer.write(key, value)
            count += 1
    return count


def log_copied(what: str, args: Sequence[str]) -> None:
    """The log line after copying a plain file."""
    log.log(f"Copied {what} from {args[0]} to {args[1]}")
