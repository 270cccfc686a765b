"""Archives (ark), sequences of entries, each a key, a blank, and a value; and script files (scp).

A line of a script has a key and the name of the file, pipe or archive position that holds its value.
"""
from __future__ import annotations

import os
import re
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from nnet3py import system
from nnet3py.cached_property import cached_property
from nnet3py.errors import FormatError, Nnet3Error, within
from nnet3py.io.byte_source import ByteSource
from nnet3py.io.holder import BINARY_HEADER, Holder
from nnet3py.io.specifiers import Medium, is_token, parse_rxfilename, parse_script_line, split_range
from nnet3py.io.streams import InputStream, open_input

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader


Value = TypeVar("Value")
Table = TypeVar("Table", bound="Closing")

_WORD = re.compile(rb"[^ \t\n\r\f\v]*")
_LONGEST_KEY = 10000        # bytes; with a longer key, the file is not an archive
_PATIENCE = 1 << 22         # bytes searched for the end of a value, which is then read
_MOST_UNUSUAL = 3           # unusual values in a row, after which all values are read


class Moved(NamedTuple):
    """An entry to be copied without being read: its key, the offset of its value in the run, and its number of rows."""

    key: str
    value_at: int
    num_rows: int


class Run(NamedTuple):
    """Successive entries in a file, the bytes ``first`` to ``end`` - 1, that are copied together."""

    first: int
    end: int
    entries: list[Moved]


class Closing:
    """A context manager that calls ``close`` or, after an exception, ``abandon``."""

    def close(self) -> None:
        raise NotImplementedError

    def abandon(self) -> None:
        """Close without raising errors."""
        raise NotImplementedError

    def __enter__(self: Table) -> Table:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class ArchiveScanner(Generic[Value]):
    """A reader of the entries of an open archive, without seeking, so that pipes can be read."""

    def __init__(self, stream: InputStream, holder: Holder[Value]) -> None:
        self._holder, self._path = holder, stream.path
        self._source = ByteSource(stream, stream.size)
        self._skimmer = holder.skimmer() if holder.skimmer is not None else None
        if self._skimmer is not None:
            self._skimmer.archive_bytes = stream.size or 0
        self._skimmed: deque[tuple[str, Any]] = deque()
        self._num_unusual = 0

    @cached_property
    def _reader(self) -> TokenReader:
        from nnet3py.io.tokens import TokenReader

        return TokenReader(self._source, path=self._path)

    def next(self) -> tuple[str, Value] | None:
        """Return the next (key, value), or None at the end. FormatError, naming the key, for invalid bytes."""
        if self._skimmer is not None and (self._skimmed or self._skim()):
            return self._skimmed.popleft()
        if not self._source.peek(1):
            return None
        key = self._read_key()
        if key is None:
            return None
        with within(f"cannot read the value of key {key}"):
            return key, self._holder.read_value(self._reader)

    def _skim(self) -> bool:
        """Find the next entries without reading values; return False if the next one must be read, or there is none."""
        assert self._skimmer is not None
        length = -1
        data = self._source.look_ahead(0) or self._source.look_ahead(self._skimmer.block_bytes)
        while length < len(data) < _PATIENCE:
            length = len(data)
            entries, consumed, unusual = self._skimmer.entries(data)
            if entries:
                self._skimmed.extend((key.decode("utf-8", "surrogateescape"), value) for key, value in entries)
                self._source.consume(consumed)
                self._num_unusual = 0
                return True
            if unusual:
                self._num_unusual += 1
                if self._num_unusual == _MOST_UNUSUAL:
                    self._skimmer = None
                return False
            data = self._source.look_ahead(self._skimmer.block_bytes)
        return False

    def _read_key(self) -> str | None:
        """Read the next key and the blank after it; a newline is not consumed, since it may be an empty text value."""
        reader = self._reader
        reader.skip_whitespace()
        word = reader.take_while(_WORD)
        after = reader.peek(1)
        if not after and not word:
            return None
        key = word.decode("utf-8", "surrogateescape")
        if not after or after not in b" \t\n" or not is_token(key) or len(word) > _LONGEST_KEY:
            raise reader.unexpected_bytes(word + after, "a key and a blank", hint="is this an archive?")
        if after != b"\n":
            reader.raw(1)
        return key


def sort_key(key: str) -> bytes:
    """Return the bytes of a key, which sort as ``LC_ALL=C sort`` does."""
    return key.encode("utf-8", "surrogateescape")


def read_script_line(line: bytes) -> tuple[str, str] | None:
    """Return key and file name (with its range, if any) of a line; None for an invalid line."""
    entry = parse_script_line(line.decode("utf-8", "surrogateescape"))
    return entry if entry is not None and is_token(entry[0]) else None


def check_script(stream: InputStream) -> None:
    """Raise FormatError, and close the stream, if a script begins with the binary header."""
    if stream.peek(2)[:2] == BINARY_HEADER:
        stream.close()
        raise FormatError("a script file cannot begin with the binary header", path=stream.path,
                          hint="is it an archive? then the specifier begins with 'ark:'")


def read_script(rxfilename: str, sorted: bool = False) -> dict[str, str]:
    """Read a whole script: file names by key. FormatError for an invalid line or a key that occurs twice.

    If ``sorted``, the lines must be sorted by the bytes of their keys, FormatError otherwise.
    """
    with open_input(rxfilename) as stream:
        check_script(stream)
        lines = stream.without_mark().readlines()
    names: dict[str, str] = {}
    previous = b""
    for number, line in enumerate(lines, 1):
        entry = read_script_line(line)
        if entry is None:
            raise FormatError(f"line {number} is not KEY FILE: {line!r}", path=rxfilename)
        key, name = entry
        if key in names:
            raise FormatError(f"key {key} occurs twice", path=rxfilename)
        if sorted and sort_key(key) < previous:
            raise FormatError(f"key {key} is out of order", path=rxfilename,
                              hint="leave out 's,' if the file is not sorted; sort with LC_ALL=C")
        previous = sort_key(key)
        names[key] = name
    return names


class LoadedObject(Generic[Value]):
    """A loader of objects by name.

    The last object is kept, since the next name is often another range of it; so is the descriptor of the last archive.
    """

    def __init__(self, holder: Holder[Value]) -> None:
        self._holder = holder
        self._skimmer = holder.skimmer() if holder.skimmer is not None else None
        self._archive: str | None = None            # path of the open file
        self._descriptor = -1
        self._name: str | None = None
        self._value: Value | None = None

    def load(self, key: str, name: str) -> Value:
        """Return the object of a script line; ``name`` is a rxfilename, perhaps with a range, ``key`` is for messages.
        """
        try:
            return self._load(name)
        except Nnet3Error as error:
            raise FormatError(f"cannot read the value of key {key}: {error.message}", hint=error.hint) from error

    def _load(self, name: str) -> Value:
        rxfilename, part = split_range(name)
        if rxfilename != self._name:
            loaded = self._found(rxfilename) if part is None else None
            if loaded is not None:
                return loaded
            self._name = None
            from nnet3py.io.object_files import token_reader

            with open_input(rxfilename) as stream:
                self._value = self._holder.read_value(token_reader(stream))
            self._name = rxfilename
        value: Value = self._value  # type: ignore[assignment]
        if part is None:
            return value
        if self._holder.select is None:
            raise Nnet3Error(f"a range cannot be taken of a {self._holder.name}: '{name}'")
        return self._holder.select(value, part)

    def _found(self, rxfilename: str) -> Value | None:
        """Return the object at an offset of a file if the holder's EntryFinder can; None if it must be read."""
        name = parse_rxfilename(rxfilename)
        if self._skimmer is None or name.medium is not Medium.OFFSET:
            return None
        try:
            if name.target != self._archive:
                self._close()
                self._descriptor = os.open(name.target, os.O_RDONLY | system.PLAIN)
                self._archive = name.target
            return self._skimmer.value_at(self._descriptor, name.offset)
        except (OSError, ValueError, OverflowError):            # the code that reads it reports what is wrong
            return None

    def _close(self) -> None:
        if self._archive is not None:
            os.close(self._descriptor)
        self._archive = None

    __del__ = _close
