"""Kaldi's token streams: the two ends of every object file, in text and binary.

A reader takes what it needs and nothing beyond it from a buffered stream, so that archives can hand the stream on from
value to value, and pipes will do. Kaldi: ``io-funcs.h``.
"""
from __future__ import annotations

import io
import re
import struct
from typing import Any, BinaryIO

import numpy as np

from nnet3py.errors import FormatError

_WHITESPACE = b" \t\n\r\f\v"
_TOKEN = re.compile(rb"[ \t\n\r\f\v]*([^ \t\n\r\f\v]+)[ \t\n\r\f\v]")
_NUMBER = re.compile(rb"[ \t\n\r\f\v]*([-+]?[0-9.][-+0-9.eE]*)")
_BRACKETED = re.compile(rb"[ \t\n\r\f\v]*\[([^\]]*)\]")
_LONGEST_TOKEN = 100_000          # bytes; what is longer is no token
_PIECE = 1 << 24                  # bytes asked for at a time where the size of the input is not known
_INTEGERS = {"int8": "<b", "int16": "<h", "int32": "<i", "int64": "<q",
             "uint8": "<B", "uint16": "<H", "uint32": "<I", "uint64": "<Q"}


class TokenReader:
    """Reads tokens, numbers and raw data.

    Parameters
    ----------
    stream : a binary file object; one that cannot ``peek`` is wrapped
    path : what errors call the input
    size : its bytes, where known; lengths in the input are checked against it before memory is asked for

    Attributes
    ----------
    binary : whether values are in binary form; set by :meth:`read_header`
    component : the network component being read, for errors; None elsewhere
    """

    def __init__(self, stream: Any, path: str = "", size: int | None = None) -> None:
        if size is None and isinstance(stream, io.BytesIO):
            size = len(stream.getbuffer())
        self.stream: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
        self.path, self.size = path, size
        self.binary = False
        self.component: str | None = None
        self._ahead = b""             # taken from the stream by a look-ahead across the edge of its buffer
        self._captured: list[bytes] | None = None
        self._count = 0               # bytes consumed, where the stream cannot tell

    # -- bytes ---------------------------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Bytes of the input before the next one to be read."""
        try:
            return int(self.stream.tell()) - len(self._ahead)
        except (OSError, ValueError, AttributeError):
            return self._count

    def error(self, message: str, hint: str | None = None) -> FormatError:
        """A FormatError that says where the reader is."""
        return FormatError(message, self.path, self.offset, self.component, hint)

    def peek(self, count: int = 1) -> bytes:
        """Up to ``count`` next bytes, not consumed; fewer only at the end."""
        while len(self._ahead) < count:
            buffered = self.stream.peek(1)
            if self._ahead:
                taken = self.stream.read(count - len(self._ahead))
                self._ahead += taken
                if not taken:
                    break
            elif len(buffered) >= count or not buffered:
                return bytes(buffered[:count])
            else:
                self._ahead = self.stream.read(len(buffered))
        return self._ahead[:count]

    def raw(self, count: int) -> bytes:
        """The next ``count`` bytes; FormatError if the input ends before."""
        self.check_count(count, 1)
        data = self._take(count)
        if len(data) != count:
            raise self.error(f"the input ends after {len(data)} of {count} bytes", "the file is truncated")
        return data

    def _take(self, count: int) -> bytes:
        if not self._ahead and count <= _PIECE:
            data = self.stream.read(count)
        else:
            pieces = [self._ahead[:count]]
            self._ahead = self._ahead[count:]
            missing = count - len(pieces[0])
            while missing > 0:
                piece = self.stream.read(min(missing, _PIECE))
                if not piece:
                    break
                pieces.append(piece)
                missing -= len(piece)
            data = b"".join(pieces)
        self._count += len(data)
        if self._captured is not None:
            self._captured.append(data)
        return data

    def skip(self, count: int) -> None:
        """Pass over ``count`` bytes."""
        while count > 0:
            count -= len(self.raw(min(count, _PIECE)))

    def check_count(self, count: int, itemsize: int) -> None:
        """Raise FormatError if ``count`` items of ``itemsize`` bytes cannot lie in the rest of the input."""
        if count < 0:
            raise self.error(f"expected a size, found {count}")
        if self.size is not None and count * itemsize > max(self.size - self.offset, 0):
            raise self.error(f"found a size of {count} items of {itemsize} bytes, but only {max(self.size - self.offset, 0)} "
                             f"bytes are left", "the file is truncated or damaged")

    def line(self) -> bytes:
        """The rest of the line, without its newline, which is consumed."""
        data = self._ahead
        self._ahead = b""
        if b"\n" in data:
            data, _, self._ahead = data.partition(b"\n")
            data += b"\n"
        else:
            data += self.stream.readline()
        self._count += len(data)
        if self._captured is not None:
            self._captured.append(data)
        return data[:-1] if data.endswith(b"\n") else data

    def up_to(self, end: bytes) -> bytes:
        """The bytes before the next ``end`` (one byte), which is consumed; FormatError if it does not come."""
        pieces = []
        while True:
            buffered = bytes(self._ahead or self.stream.peek(1))
            if not buffered:
                raise self.error(f"expected {end!r}, found the end of the input", "the file is truncated")
            position = buffered.find(end)
            if position >= 0:
                pieces.append(self._take(position + 1)[:-1])
                return b"".join(pieces)
            pieces.append(self._take(len(buffered)))

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return not self.peek(1)

    def skip_whitespace(self) -> None:
        """Pass over blanks, tabs and newlines."""
        while True:
            buffered = self._ahead or self.stream.peek(1)
            if not buffered:
                return
            count = len(buffered) - len(bytes(buffered).lstrip(_WHITESPACE))
            if count:
                self._take(count)
            if count < len(buffered):
                return

    def start_capture(self) -> None:
        """Begin to keep a copy of every byte consumed."""
        self._captured = []

    def end_capture(self) -> bytes:
        """The bytes consumed since :meth:`start_capture`."""
        captured, self._captured = self._captured or [], None
        return b"".join(captured)

    def _match(self, pattern: re.Pattern[bytes], longest: int, what: str) -> bytes:
        """The first group of ``pattern`` at the next bytes, which are consumed up to the end of the match."""
        wanted = 1
        while True:
            buffered = bytes(self.peek(wanted)) if self._ahead else bytes(self.stream.peek(1))
            match = pattern.match(buffered)
            # A match that touches the end of what is buffered may go on beyond it.
            if match is not None and match.end() < len(buffered):
                break
            more = bytes(self.peek(len(buffered) + 1 if len(buffered) < 64 else 2 * len(buffered)))
            if len(more) <= len(buffered):
                match = pattern.match(more)
                if match is None:
                    raise self._not_found(more, what)
                break
            if len(more) > longest and match is None:
                raise self._not_found(more, what)
            wanted = len(more)
        self._take(match.end())
        return match[1]

    def _not_found(self, data: bytes, what: str) -> FormatError:
        if not data.strip():
            return self.error(f"expected {what}, found the end of the input", "the file is truncated")
        return self.error(f"expected {what}, found {data[:40]!r}", "the file is damaged or of another kind")

    # -- tokens --------------------------------------------------------------------------------------------------------

    def read_header(self) -> bool:
        """Consume the optional ``\\0B`` before a value; returns, and keeps as ``binary``, whether it was there."""
        if self.peek(1) == b"\0":
            found = self.raw(2) if len(self.peek(2)) == 2 else self.peek(2)
            if found != b"\0B":
                raise self.error(f"expected the binary header '\\0B', found {found!r}", "this is no Kaldi object")
            self.binary = True
        else:
            self.binary = False
        return self.binary

    def token(self) -> str:
        """The next token; the blank after it is consumed."""
        return self._match(_TOKEN, _LONGEST_TOKEN, "a token and a blank").decode("utf-8", "surrogateescape")

    def peek_token(self) -> str:
        """The letter after ``<`` of the next token (its first letter if it has no ``<``); "" at the end. Nothing is consumed."""
        if not self.binary:
            self.skip_whitespace()
        ahead = self.peek(2)
        letter = ahead[1:2] if ahead[:1] == b"<" else ahead[:1]
        return letter.decode("latin-1")

    def expect(self, token: str) -> None:
        """Consume ``token`` (also accepted without its ``<``); FormatError if there is another."""
        found = self.token()
        if found != token and found != token.removeprefix("<"):
            raise self.error(f"expected {token}, found {found[:60]}")

    def expect_one_or_two(self, first: str, second: str) -> None:
        """Consume ``first`` and ``second``, or ``second`` alone (the opening tag may have been read already)."""
        found = self.token()
        if found == first:
            self.expect(second)
        elif found not in (second, second.removeprefix("<")):
            raise self.error(f"expected {first} or {second}, found {found[:60]}")

    # -- numbers -------------------------------------------------------------------------------------------------------

    def integer(self, kind: str = "int32") -> int:
        """An integer of exactly the type ``kind`` ("int8" to "uint64")."""
        code = _INTEGERS[kind]
        if self.binary:
            size = struct.calcsize(code)
            mark = size if kind.startswith("i") else 256 - size
            found = self.raw(1)[0]
            if found != mark:
                raise self.error(f"expected an {kind} (size byte {mark}), found size byte {found}")
            return int(struct.unpack(code, self.raw(size))[0])
        word = self._match(_NUMBER, _LONGEST_TOKEN, "an integer")
        try:
            value = int(word)
            struct.pack(code, value)
        except (ValueError, struct.error):
            raise self.error(f"expected an {kind}, found {word.decode('latin-1')[:40]!r}") from None
        return value

    def real(self) -> float:
        """A float or a double."""
        if self.binary:
            size = self.raw(1)[0]
            if size not in (4, 8):
                raise self.error(f"expected a float (size byte 4 or 8), found size byte {size}")
            return float(struct.unpack("<f" if size == 4 else "<d", self.raw(size))[0])
        word = self._match(_NUMBER, _LONGEST_TOKEN, "a number")
        try:
            return float(word)
        except ValueError:
            raise self.error(f"expected a number, found {word.decode('latin-1')[:40]!r}") from None

    def boolean(self) -> bool:
        """T or F."""
        if not self.binary:
            self.skip_whitespace()
        found = self.raw(1)
        if found not in (b"T", b"F"):
            raise self.error(f"expected T or F, found {found!r}")
        return found == b"T"

    def integer_vector(self) -> np.ndarray:
        """An integer vector inside an object: int32 (count,)."""
        if self.binary:
            return np.frombuffer(self._sized_integers(1), dtype="<i4").astype(np.int32)
        return self._text_integers(self._match(_BRACKETED, 1 << 62, "[ integers ]").split())

    def integer_pairs(self) -> np.ndarray:
        """A vector of pairs of integers inside an object: int32 (count, 2)."""
        if self.binary:
            return np.frombuffer(self._sized_integers(2), dtype="<i4").astype(np.int32).reshape(-1, 2)
        pairs = [pair.split(b",") for pair in self._match(_BRACKETED, 1 << 62, "[ pairs ]").split()]
        if any(len(pair) != 2 for pair in pairs):
            raise self.error("expected pairs of integers such as 1,2")
        return self._text_integers([value for pair in pairs for value in pair]).reshape(-1, 2)

    def _sized_integers(self, per_item: int) -> bytes:
        size = self.raw(1)[0]
        if size != 4:
            raise self.error(f"expected integers of 4 bytes, found size byte {size}")
        count = int(struct.unpack("<i", self.raw(4))[0])
        self.check_count(count, 4 * per_item)
        return self.raw(count * 4 * per_item)

    def _text_integers(self, words: list[bytes]) -> np.ndarray:
        try:
            return np.array([int(word) for word in words], dtype=np.int64).astype(np.int32, casting="same_kind")
        except (ValueError, OverflowError):
            raise self.error(f"expected integers, found {b' '.join(words)[:40]!r}") from None


class TokenWriter:
    """Writes tokens, numbers and raw data; ``binary`` says in which form."""

    def __init__(self, stream: BinaryIO | Any, binary: bool) -> None:
        self.stream, self.binary = stream, binary

    def raw(self, data: bytes | memoryview) -> None:
        """Write bytes as they are."""
        self.stream.write(data)

    def token(self, token: str) -> None:
        """Write a token and the blank after it."""
        self.stream.write(token.encode("utf-8", "surrogateescape") + b" ")

    def integer(self, value: int, kind: str = "int32") -> None:
        """Write an integer of the type ``kind`` ("int8" to "uint64")."""
        if self.binary:
            code = _INTEGERS[kind]
            size = struct.calcsize(code)
            self.stream.write(bytes([size if kind.startswith("i") else 256 - size]) + struct.pack(code, value))
        else:
            self.stream.write(b"%d " % value)

    def float32(self, value: float) -> None:
        """Write a float."""
        self.stream.write(b"\x04" + struct.pack("<f", value) if self.binary else b"%s " % format_real(float(np.float32(value))))

    def float64(self, value: float) -> None:
        """Write a double."""
        self.stream.write(b"\x08" + struct.pack("<d", value) if self.binary else b"%s " % format_real(value))

    def boolean(self, value: bool) -> None:
        """Write T or F."""
        self.stream.write((b"T" if value else b"F") + (b"" if self.binary else b" "))

    def integer_vector(self, values: Any) -> None:
        """Write an integer vector inside an object."""
        array = np.asarray(values, dtype="<i4")
        if self.binary:
            self.stream.write(b"\x04" + struct.pack("<i", array.size) + array.tobytes())
        else:
            self.stream.write(b"[ %s]\n" % b"".join(b"%d " % value for value in array.tolist()))

    def integer_pairs(self, values: Any) -> None:
        """Write a vector of pairs of integers, (count, 2), inside an object."""
        array = np.asarray(values, dtype="<i4").reshape(-1, 2)
        if self.binary:
            self.stream.write(b"\x04" + struct.pack("<i", len(array)) + array.tobytes())
        else:
            self.stream.write(b"[ %s]\n" % b"".join(b"%d,%d " % (a, b) for a, b in array.tolist()))

    def newline_if_text(self) -> None:
        """Write a newline in text mode."""
        if not self.binary:
            self.stream.write(b"\n")


def format_real(value: float) -> bytes:
    """A number as Kaldi's text files show it: 7 significant digits."""
    return b"%.7g" % value
