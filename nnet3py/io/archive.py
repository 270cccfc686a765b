"""Archives (ark): one entry after the other, each a key, a blank, and a value."""
from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from nnet3py.cached_property import cached_property
from nnet3py.errors import within
from nnet3py.io.byte_source import ByteSource
from nnet3py.io.holder import Holder
from nnet3py.io.specifiers import is_token
from nnet3py.io.streams import InputStream

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader

Value = TypeVar("Value")

_WORD = re.compile(rb"[^ \t\n\r\f\v]*")
_LONGEST_KEY = 10000        # bytes; what is longer is not an archive
_PATIENCE = 1 << 22         # bytes; a value that has not ended after so many is read
_MOST_UNUSUAL = 3           # values in a row; then all are read


class Moved(NamedTuple):
    """An entry: its key, where its value begins, counted from the beginning of its run, and its rows."""

    key: str
    value_at: int
    num_rows: int


class Run(NamedTuple):
    """Entries that follow each other in a file, from byte ``first`` up to ``end``."""

    first: int
    end: int
    entries: list[Moved]


class ArchiveScanner(Generic[Value]):
    """Reads entries from an open archive, without seeking, so pipes will do."""

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
        """The next (key, value), or None at the end. FormatError, naming the key, for what cannot be read."""
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
        """Find entries in what comes next; False if the next one must be read, or there is none."""
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
        """The next key; the blank after it is consumed, but a newline is not (it may be an empty text value)."""
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
