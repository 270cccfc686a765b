"""Bytes of any binary stream, with look-ahead, an offset for messages, and a record of consumed bytes.

Only consumed bytes are taken from a buffered stream, so that its owner can read on after a value.
"""
from __future__ import annotations

import io
import os
import stat
from typing import Any

_PIECE = 1 << 20        # bytes read at a time if the length cannot be checked
_PEEKED = 1 << 12       # bytes that peek returns beyond those asked for, of bytes pushed back, which it copies


class ByteSource:
    """The bytes that a :class:`~nnet3py.io.tokens.TokenReader` reads.

    ``read(n)`` returns ``n`` bytes, fewer only at the end. It is the stream's own method unless bytes are pushed back
    or recorded, since tokens are read byte by byte.
    """

    def __init__(self, stream: Any, size: int | None = None) -> None:
        self._stream = _with_peek(stream)
        self._seekable = _is_seekable(self._stream)
        self._size = size if size is not None else size_of(stream)
        self._ahead = b""                               # taken from the stream, but not consumed from _at on
        self._at = 0
        self._consumed = 0                              # bytes read here; tells the offset if the stream cannot
        self._record: bytearray | None = None
        self._choose()

    def _choose(self) -> None:
        plain = self._seekable and self._at == len(self._ahead) and self._record is None
        self.read: Any = self._stream.read if plain else self._read

    def _read(self, count: int) -> bytes:
        if self._at < len(self._ahead):
            data = self._ahead[self._at:self._at + count]
            self._at += len(data)
            if len(data) < count:
                data += self._stream.read(count - len(data))
            if self._at == len(self._ahead):
                self._ahead, self._at = b"", 0
                self._choose()
        else:
            data = self._stream.read(count)
        self._consumed += len(data)
        if self._record is not None:
            self._record += data
        return data

    def push_back(self, data: bytes) -> None:
        """Undo the reading of ``data``, the bytes that were read last."""
        if not data:
            return
        self._ahead, self._at = data + self._ahead[self._at:], 0
        self._consumed -= len(data)
        if self._record is not None:
            del self._record[-len(data):]
        self._choose()

    def look_ahead(self, count: int) -> bytes:
        """Take up to ``count`` more bytes from the stream; return all bytes that were taken but not consumed."""
        taken = getattr(self._stream, "read1", self._stream.read)(count) if count else b""
        self._ahead, self._at = self._ahead[self._at:] + taken, 0
        self._choose()
        return self._ahead

    def consume(self, count: int) -> None:
        """Consume ``count`` of the bytes that :meth:`look_ahead` returned."""
        self._at += count
        self._consumed += count
        self._choose()

    def read_pieces(self, count: int) -> bytearray:
        """Read ``count`` bytes as a bytearray, allocated as bytes arrive, since ``count`` may be damaged."""
        data = bytearray()
        while len(data) < count:
            piece = self.read(min(_PIECE, count - len(data)))
            if not piece:
                break
            data += piece
        return data

    def read_into(self, target: memoryview) -> int:
        """Read bytes into ``target``; return their number, less than its size only at the end."""
        if self.read == self._read:
            data = self.read(len(target))
            target[:len(data)] = data
            return len(data)
        done = 0
        while done < len(target):
            count = self._stream.readinto(target[done:])
            if not count:
                break
            done += count
        return done

    def seek_forward(self, count: int) -> bool:
        """Skip ``count`` bytes by seeking; return False if the stream cannot."""
        if self.read == self._read or not hasattr(self._stream, "seek"):
            return False
        self._stream.seek(count, os.SEEK_CUR)
        return True

    def peek(self, count: int = 1) -> bytes:
        """Return the next bytes without consuming them: at least ``count``, fewer only at the end, often many more."""
        while True:
            left = len(self._ahead) - self._at
            if left >= count:
                return self._ahead[self._at:self._at + count + _PEEKED]
            data = self._ahead[self._at:] + self._stream.peek(count)
            if len(data) >= count:
                return data
            taken = self._stream.read(count - left)     # too close to the edge of the stream's buffer
            self._ahead, self._at = self._ahead[self._at:] + taken, 0
            self._choose()
            if len(self._ahead) < count:
                return self._ahead

    @property
    def offset(self) -> int:
        """Number of consumed bytes, from the start of the file if the stream can tell."""
        if self._seekable:
            try:
                return self._stream.tell() - len(self._ahead) + self._at
            except (OSError, ValueError):
                pass
        return self._consumed

    @property
    def remaining(self) -> int | None:
        """Number of bytes that are left; None if unknown."""
        if self._size is None or not self._seekable:
            return None
        return max(self._size - self.offset, 0)

    def start_record(self) -> None:
        """Keep a copy of consumed bytes from here on."""
        self._record = bytearray()
        self._choose()

    def end_record(self) -> bytes:
        """Return the bytes consumed since :meth:`start_record`."""
        data = bytes(self._record or b"")
        self._record = None
        self._choose()
        return data


class _Rewinding:
    """A seekable stream with a method ``peek``, which reads and seeks back."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.read, self.readinto, self.tell = stream.read, stream.readinto, stream.tell

    def seekable(self) -> bool:
        return True

    def peek(self, count: int) -> bytes:
        data = self._stream.read(max(count, 4096))
        self._stream.seek(-len(data), io.SEEK_CUR)
        return data


class _Unclosed(io.RawIOBase):
    """A wrapper of a stream that leaves it open when the wrapper is closed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._stream.read(len(target)) or b""
        target[:len(data)] = data
        return len(data)


def _with_peek(stream: Any) -> Any:
    if hasattr(stream, "peek"):
        return stream
    if _is_seekable(stream) and not isinstance(stream, io.RawIOBase):
        return _Rewinding(stream)
    return io.BufferedReader(_Unclosed(stream), 1 << 16)


def _is_seekable(stream: Any) -> bool:
    try:
        return bool(stream.seekable())
    except (AttributeError, OSError, ValueError):
        return False


def size_of(stream: Any) -> int | None:
    """Return the size of a regular file or BytesIO in bytes; None for other streams."""
    if isinstance(stream, io.BytesIO):
        return stream.getbuffer().nbytes
    try:
        status = os.fstat(stream.fileno())
    except (OSError, AttributeError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
