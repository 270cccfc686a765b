"""Archives (ark): one entry after the other, each a key, a blank, and a value."""
from __future__ import annotations

import re
from typing import Generic, TypeVar

from nnet3py.errors import within
from nnet3py.io.holders import Holder
from nnet3py.io.object_files import token_reader
from nnet3py.io.specifiers import is_token
from nnet3py.io.streams import InputStream

Value = TypeVar("Value")

_WORD = re.compile(rb"[^ \t\n\r\f\v]*")
_LONGEST_KEY = 10000        # bytes; what is longer is no archive


class ArchiveScanner(Generic[Value]):
    """Reads entries from an open archive, without seeking, so pipes will do."""

    def __init__(self, stream: InputStream, holder: Holder[Value]) -> None:
        self._holder = holder
        self._reader = token_reader(stream)

    def next(self) -> tuple[str, Value] | None:
        """The next (key, value), or None at the end. FormatError, naming the key, for what cannot be read."""
        key = self._read_key()
        if key is None:
            return None
        with within(f"cannot read the value of key {key}"):
            return key, self._holder.read_value(self._reader)

    def _read_key(self) -> str | None:
        """The next key; the blank after it is consumed, but a newline is not (it may be an empty text value)."""
        reader = self._reader
        reader.skip_whitespace()
        found = reader.take_while(_WORD)
        after = reader.peek(1)
        if not after and not found:
            return None
        key = found.decode("utf-8", "surrogateescape")
        if not after or after not in b" \t\n" or not is_token(key) or len(found) > _LONGEST_KEY:
            raise reader.unexpected_bytes(found + after, "a key and a blank", hint="is this an archive?")
        if after != b"\n":
            reader.raw(1)
        return key
