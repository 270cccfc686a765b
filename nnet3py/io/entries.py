"""The entries of a table, for Python programs: pairs of a key and a value, read one after the other."""
from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Generic, NoReturn, TypeVar

from nnet3py.errors import UsageError
from nnet3py.io.holder import Holder
from nnet3py.io.specifiers import parse_rspecifier
from nnet3py.io.tables import SequentialReader

Value = TypeVar("Value")


class Entries(Iterator[tuple[str, Value]], Generic[Value]):
    """Iterator over (key, value) of a table, which is opened when the first entry is asked for.

    Parameters
    ----------
    rspecifier : of the table; SpecifierError at once if it cannot be used
    holder : the kind of the values
    reader : the name of the public function that gives these, for messages
    """

    def __init__(self, rspecifier: str, holder: Holder[Value], reader: str) -> None:
        parse_rspecifier(rspecifier)
        self._rspecifier, self._holder, self._function = rspecifier, holder, reader
        self._pairs = self._read()

    def _read(self) -> Generator[tuple[str, Value], None, None]:
        with SequentialReader(self._rspecifier, self._holder) as reader:
            yield from reader

    def __next__(self) -> tuple[str, Value]:
        return next(self._pairs)

    def close(self) -> None:
        """Close the table; nothing is read from it any more."""
        self._pairs.close()

    def __getitem__(self, key: object) -> NoReturn:
        """UsageError: a table is read from its beginning."""
        raise UsageError("the entries of a table come one after the other, as (key, value)",
                         f"dict(nnet3py.{self._function}({self._rspecifier!r}))[{key!r}]" if isinstance(key, str) else
                         f"list(nnet3py.{self._function}({self._rspecifier!r}))[{key!r}]")

    def __repr__(self) -> str:
        return f"<entries of {self._rspecifier}>"
