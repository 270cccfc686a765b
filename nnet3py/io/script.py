"""Script files (scp): lines of a key and the name of the file, pipe or archive position that holds its value."""
from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Generic, TypeVar

from nnet3py import system
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.io.holder import BINARY_HEADER, Holder
from nnet3py.io.specifiers import Medium, is_token, parse_rxfilename, parse_script_line, split_range
from nnet3py.io.streams import open_input

Value = TypeVar("Value")

_SORT_HINT = "leave out 's,' if the file is not sorted; sort with LC_ALL=C"


def sort_key(key: str) -> bytes:
    """What keys are compared by: their bytes, as ``LC_ALL=C sort`` does."""
    return key.encode("utf-8", "surrogateescape")


def read_script_line(line: bytes) -> tuple[str, str] | None:
    """Key and file name (with its range, if any) of one line; None if something is missing or is not a key."""
    entry = parse_script_line(line.decode("utf-8", "surrogateescape"))
    return entry if entry is not None and is_token(entry[0]) else None


class Script:
    """A whole script in memory: key -> name. FormatError for a bad line or a key that occurs twice.

    With ``sorted`` its lines must be in the order of their keys' bytes already.
    """

    def __init__(self, rxfilename: str, sorted: bool = False) -> None:
        self.path = rxfilename
        with open_input(rxfilename) as stream:
            if stream.peek(2)[:2] == BINARY_HEADER:
                raise FormatError("a script file cannot begin with the binary header", path=rxfilename)
            lines = stream.without_mark().readlines()
        self._names: dict[str, str] = {}
        previous = b""
        for number, line in enumerate(lines, 1):
            entry = read_script_line(line)
            if entry is None:
                raise FormatError(f"line {number} is not KEY FILE: {line!r}", path=rxfilename)
            key, name = entry
            if key in self._names:
                raise FormatError(f"key {key} occurs twice", path=rxfilename)
            if sorted and sort_key(key) < previous:
                raise FormatError(f"key {key} is out of order", path=rxfilename, hint=_SORT_HINT)
            previous = sort_key(key)
            self._names[key] = name

    def get(self, key: str) -> str | None:
        """The name that belongs to ``key``, or None."""
        return self._names.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)


class _OpenArchive:
    """The file of the last offset; the next one often is in it, too."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._descriptor = -1

    def descriptor(self, path: str) -> int:
        """The descriptor of the file, opened if it is another than before. Raises OSError, ValueError."""
        if path != self._path:
            self.close()
            self._descriptor = os.open(path, os.O_RDONLY | system.PLAIN)
            self._path = path
        return self._descriptor

    def close(self) -> None:
        """Close the file, if one is open."""
        if self._path is not None:
            os.close(self._descriptor)
        self._path = None

    __del__ = close


class LoadedObject(Generic[Value]):
    """Loads objects by name; one that was read is kept, since the next name often is another range of it."""

    def __init__(self, holder: Holder[Value]) -> None:
        self._holder = holder
        self._skimmer = holder.skimmer() if holder.skimmer is not None else None
        self._archive = _OpenArchive()
        self._name: str | None = None
        self._value: Value | None = None

    def load(self, key: str, name: str) -> Value:
        """The object that ``name`` (a rxfilename, perhaps with a range) names; errors name its ``key``, too."""
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
        """The object at an offset of a file, if it is plain enough to need no reading."""
        name = parse_rxfilename(rxfilename)
        if self._skimmer is None or name.medium is not Medium.OFFSET:
            return None
        try:
            return self._skimmer.value_at(self._archive.descriptor(name.target), name.offset)
        except (OSError, ValueError, OverflowError):            # whoever reads it says what is wrong
            return None
