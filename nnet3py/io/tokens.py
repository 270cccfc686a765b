"""Readers and writers of tokens and numbers, of which all Kaldi object files consist, in text and in binary.

Kaldi: ``io-funcs.h``.
"""
from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.io.byte_source import ByteSource

Value = TypeVar("Value")

_BLANKS = frozenset((b" ", b"\t", b"\n", b"\r", b"\v", b"\f"))
_INTEGER_BYTES = frozenset(bytes((c,)) for c in b"+-0123456789")
_REAL_BYTES = _INTEGER_BYTES | frozenset((b".", b"e", b"E"))
_LONGEST_TOKEN = 10000          # bytes; a file with a longer token is not Kaldi's
_LONGEST_TAG = 100              # bytes; the tags of fields are shorter
_LARGE = 1 << 16                # bytes; from here on a length is checked against the size before memory is asked for
_SKIPPED = 1 << 20              # bytes that are read at a time when they are skipped
_BLANK_RUN = re.compile(rb"[ \t\n\r\v\f]*")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_REAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LINE = re.compile(rb"[^\n]*")
_WORD = re.compile(rb"[^ \t\n\r\v\f]*")
_VECTOR_TEXT = re.compile(rb"[-+0-9, \t\n\r\v\f]*")
_FLOAT32 = struct.Struct("<f")
_FLOAT64 = struct.Struct("<d")
SIZED_INT32 = np.dtype([("size", "i1"), ("value", "<i4")])
_SIZED_FLOAT32 = struct.Struct("<bf")
_SIZED_FLOAT64 = struct.Struct("<bd")

TEXT_FLOAT = b"%.7g "           # how every real number is printed, float and double


class _IntegerKind:
    """The binary form of integers of one width: a size byte (negative for unsigned types), then little-endian bytes."""

    def __init__(self, name: str, code: str) -> None:
        self.name = name
        self.sized = struct.Struct("<b" + code)
        bits = 8 * struct.calcsize("<" + code)
        signed = code.islower()
        self.size_byte = bits // 8 if signed else -(bits // 8)
        self.least = -(1 << (bits - 1)) if signed else 0
        self.largest = (1 << (bits - signed)) - 1


_INTEGERS = {name: _IntegerKind(name, code) for name, code in (
    ("int8", "b"), ("int16", "h"), ("int32", "i"), ("int64", "q"),
    ("uint8", "B"), ("uint16", "H"), ("uint32", "I"), ("uint64", "Q"))}


class TokenReader:
    """A reader of tokens, numbers and raw bytes from a binary stream.

    Attributes
    ----------
    binary : bool, whether the file is in binary form; :meth:`read_header` sets it
    path : str, name of the file, for messages
    component : str, name of the network component that is being read, for messages, or None
    field : str, opening tag that was read last, such as ``<Dim>``, for messages, or None
    content : memoryview of the whole file, if that is in memory, or None
    """

    def __init__(self, stream: BinaryIO | Any, path: str = "", size: int | None = None, binary: bool = False) -> None:
        self._source = stream if isinstance(stream, ByteSource) else ByteSource(stream, size)
        self.path = path
        self.binary = binary
        self.component: str | None = None
        self.field: str | None = None
        self.content: memoryview | None = None
        self._field_before: str | None = None

    # -- where we are ----------------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Number of bytes consumed, from the start of the file if the stream can tell."""
        return self._source.offset

    @property
    def remaining(self) -> int | None:
        """Number of bytes left; None if the stream cannot tell (pipes)."""
        return self._source.remaining

    def error(self, message: str, hint: str | None = None, offset: int | None = None) -> FormatError:
        """Return a FormatError that names path, offset, component and field, for the caller to raise."""
        where = self.offset if offset is None else offset
        return FormatError(message, path=self.path, offset=where, component=self.component, hint=hint,
                           field=self.field)

    def at_end(self) -> bool:
        """Return whether no bytes are left."""
        return not self._source.peek(1)

    def start_capture(self) -> None:
        """Copy every byte that is consumed from now on."""
        self._source.start_record()

    def end_capture(self) -> bytes:
        """Return the bytes consumed since :meth:`start_capture`."""
        return self._source.end_record()

    # -- bytes -----------------------------------------------------------------------------------------------------

    def check_count(self, count: int, bytes_each: int = 1, what: str = "elements") -> None:
        """Raise FormatError if ``count`` is negative, or if the file cannot hold ``bytes_each`` for each element."""
        if count < 0:
            raise self.error(f"expected a number of {what}, found {count}")
        if count * bytes_each > _LARGE:
            left = self.remaining
            if left is not None and count * bytes_each > left:
                raise self.error(f"{count} {what} are announced, which need {count * bytes_each} bytes or more, "
                                 f"but only {left} bytes follow", hint="the file is truncated or damaged")

    def raw(self, count: int) -> bytes | bytearray:
        """Read exactly ``count`` bytes."""
        if count <= _LARGE:
            data = self._source.read(count) if count >= 0 else b""
        else:
            self.check_count(count, 1, "bytes")
            data = self._source.read(count) if self.remaining is not None else self._source.read_pieces(count)
        if len(data) != count:
            raise self._truncated(count, len(data))
        return data

    def up_to(self, count: int | None) -> bytes | bytearray:
        """Read at most ``count`` bytes, fewer only at the end of the file; None reads all that are left."""
        return self._source.read_pieces(sys.maxsize if count is None else count)

    def array(self, dtype: Any, count: int, what: str = "elements") -> np.ndarray:
        """Read ``count`` raw little-endian elements: a new writable array (count,) of ``dtype``."""
        kind = np.dtype(dtype).newbyteorder("<")
        self.check_count(count, kind.itemsize, what)
        size = count * kind.itemsize
        if size > _LARGE and self.remaining is None:
            return np.frombuffer(self.raw(size), dtype=kind)
        result = np.empty(count, dtype=kind)
        num_read = self._source.read_into(result.data.cast("B")) if size else 0
        if num_read != size:
            raise self._truncated(size, num_read)
        return result

    def skip(self, count: int) -> None:
        """Skip ``count`` bytes; FormatError if fewer are left."""
        self.check_count(count, 1, "bytes")
        while count > 0:
            step = min(count, _SKIPPED)
            self.raw(step)
            count -= step

    def skip_up_to(self, count: int) -> None:
        """Skip ``count`` bytes, or all that are left if these are fewer."""
        left = self.remaining
        if left is None:
            while count > 0 and (skipped := len(self.up_to(min(count, _SKIPPED)))):
                count -= skipped
        elif not self._source.seek_forward(min(count, left)):
            self.skip(min(count, left))

    def peek(self, count: int) -> bytes:
        """Return the next ``count`` bytes, fewer at the end, without consuming them."""
        return self._source.peek(count)[:count]

    def peek_byte(self) -> bytes:
        """Return the next byte (in text, the next that is not a blank) without consuming it; empty at the end."""
        if not self.binary:
            self.skip_whitespace()
        return self.peek(1)

    def take_while(self, pattern: re.Pattern[bytes]) -> bytes:
        """Read as many bytes as ``pattern``, a regular expression of repeated single bytes, matches."""
        parts: list[bytes] = []
        while True:
            data = self._source.peek(1)
            match = pattern.match(data)
            length = match.end() if match else 0
            if length:
                parts.append(self._source.read(length))
            if length < len(data) or not data:
                return b"".join(parts)

    def skip_whitespace(self) -> None:
        """Skip blanks and newlines."""
        self.take_while(_BLANK_RUN)

    def read_line(self) -> bytes:
        """Read the rest of the line and its newline; return it without the newline.

        FormatError if the file ends before the newline.
        """
        line = self.take_while(_LINE)
        if self._source.read(1) != b"\n":
            raise self.error(f"expected a newline, found the end of the file after '{_shown(line[-60:])}'")
        return line

    def _truncated(self, wanted: int, num_read: int) -> FormatError:
        return self.error(f"expected {wanted} more bytes, found the end of the file after {max(num_read, 0)}",
                          hint="the file is truncated")

    # -- tokens ----------------------------------------------------------------------------------------------------

    def read_header(self) -> bool:
        """Read the optional ``\\0B``; set and return :attr:`binary`."""
        self.binary = self._source.peek(1)[:1] == b"\0"
        if self.binary:
            header = self.peek(2)
            if header != b"\0B":
                raise self.unexpected_bytes(header, "the binary header \\0B")
            self._source.read(2)
        return self.binary

    def token(self) -> str:
        """Read the next token and the blank after it. Kaldi: ReadToken."""
        read = self._source.read
        byte = read(1)
        while byte in _BLANKS:
            byte = read(1)
        parts: list[bytes] = []
        while byte not in _BLANKS:
            if not byte:
                raise self.error("expected a token, found the end of the file" + (
                    f" after '{_shown(b''.join(parts))}'" if parts else ""),
                    hint="the file is truncated" if self.offset > 2 else "the file is empty")
            parts.append(byte)
            if len(parts) > _LONGEST_TOKEN:
                raise self.error(f"expected a token, found {len(parts)} bytes without a blank")
            byte = read(1)
        text = b"".join(parts).decode("utf-8", "surrogateescape")
        if text[0] == "<" and len(text) < _LONGEST_TAG:
            self._field_before, self.field = self.field, text if text[1:2] != "/" else None
        return text

    def expect(self, token: str) -> None:
        """Read the token ``token``; FormatError if another token is there. Kaldi: ExpectToken."""
        found = self.token()
        if found != token:
            self.check_token(found, token)

    def check_token(self, found: str, *expected: str) -> None:
        """Raise FormatError unless ``found``, the token that was read last, is one of ``expected``.

        A missing ``<`` is accepted as in Kaldi, where peeking may have consumed it.
        """
        if not any(found == token or (token[:1] == "<" and found == token[1:]) for token in expected):
            raise self.unexpected(found, " or ".join(expected))

    def unexpected(self, found: str, expected: str, hint: str | None = None) -> FormatError:
        """Return a FormatError for ``found``, the token that was read last, at its offset, for the caller to raise."""
        data = found.encode("utf-8", "surrogateescape")
        if found.startswith("<"):
            self.field = self._field_before
        return self.error(f"expected {expected}, found '{_shown(data)}'", hint, offset=self.offset - len(data) - 1)

    def unexpected_bytes(self, found: bytes, expected: str, hint: str | None = None,
                         offset: int | None = None) -> FormatError:
        """Return a FormatError for bytes ``found`` instead of ``expected``; empty ones mean the end of the file."""
        shown = f"'{_shown(found)}'" if found.strip() else "a blank" if found else "the end of the file"
        return self.error(f"expected {expected}, found {shown}", hint, offset)

    def tagged(self, tag: str, read: Callable[..., Value], *arguments: Any) -> Value:
        """Read the token ``tag`` and then a value, by ``read(self, *arguments)``."""
        self.expect(tag)
        return read(self, *arguments)

    def expect_one_or_two(self, first: str, second: str) -> None:
        """Read ``first second`` or ``second`` alone. Kaldi: ExpectOneOrTwoTokens."""
        found = self.token()
        if found == first:
            self.expect(second)
        elif found != second:
            self.check_token(found, first, second)

    def peek_token(self) -> str:
        """Return the letter after ``<`` of the next token (``/`` if it closes), or its first letter; ``""`` at the end.

        Nothing is consumed. Kaldi: PeekToken.
        """
        if not self.binary:
            self.skip_whitespace()
        data = self._source.read(2)
        self._source.push_back(data)
        letter = data[1:2] if data[:1] == b"<" else data[:1]
        return letter.decode("latin-1")

    # -- numbers ---------------------------------------------------------------------------------------------------

    def integer(self, kind: str = "int32") -> int:
        """Read an integer stored as ``kind``: int8 … int64, uint8 … uint64. Kaldi: ReadBasicType."""
        form = _INTEGERS[kind]
        if self.binary:
            data = self._source.read(form.sized.size)
            if len(data) != form.sized.size:
                raise self._truncated(form.sized.size, len(data))
            size_byte, value = form.sized.unpack(data)
            if size_byte != form.size_byte:
                raise self.error(f"expected an {kind} with size byte {form.size_byte}, found size byte {size_byte}",
                                 offset=self.offset - form.sized.size)
            return value
        text = self._text_number(_INTEGER_BYTES, _INTEGER, "an integer")
        number = int(text) if len(text) < 30 else form.largest + 1
        if not form.least <= number <= form.largest:
            raise self.error(f"expected an {kind}, found {_shown(text)}")
        return number

    def integers(self, count: int) -> np.ndarray:
        """Read ``count`` int32, each in the form of :meth:`integer`, as int32 (count,)."""
        if not self.binary:
            self.check_count(count, 2)
            return np.fromiter((self.integer() for _ in range(count)), dtype=np.int32)
        records = self.array(SIZED_INT32, count)
        if np.any(records["size"] != 4):
            raise self.error("expected 4-byte integers, found another size byte")
        return records["value"].astype(np.int32)

    def real(self) -> float:
        """Read a float or a double, whichever the file has. Kaldi: ReadBasicType of float and double."""
        if self.binary:
            size = self._source.read(1)
            form = _FLOAT32 if size == b"\4" else _FLOAT64 if size == b"\10" else None
            if form is None:
                if not size:
                    raise self._truncated(5, 0)
                raise self.error(f"expected a number of 4 or 8 bytes, found size byte {size[0]}",
                                 offset=self.offset - 1)
            data = self._source.read(form.size)
            if len(data) != form.size:
                raise self._truncated(form.size, len(data))
            return form.unpack(data)[0]
        text = self._text_number(_REAL_BYTES, _REAL, "a number")
        number = float(text)
        if math.isinf(number):
            raise self.error(f"expected a number, found {_shown(text)}, which is too large")
        return number

    def float32(self) -> float:
        """Read a number, rounded to float32. Kaldi: ReadBasicType of float.

        FormatError if the number is too large for float32.
        """
        value = self.real()
        try:
            return _FLOAT32.unpack(_FLOAT32.pack(value))[0]
        except OverflowError:
            raise self.error(f"expected a number that fits into float32, found {value:g}") from None

    def boolean(self) -> bool:
        """Read ``T`` or ``F``. Kaldi: ReadBasicType of bool."""
        if not self.binary:
            self.skip_whitespace()
        byte = self._source.read(1)
        if byte not in (b"T", b"F"):
            raise self.unexpected_bytes(byte, "T or F")
        return byte == b"T"

    def _text_number(self, allowed: frozenset[bytes], form: re.Pattern[bytes], what: str) -> bytes:
        """Read the bytes of a number, up to the first byte that cannot be part of it, as a C++ stream does.

        One space after the number is consumed as well, since writers put one there; any other byte is not.
        """
        read = self._source.read
        byte = read(1)
        while byte in _BLANKS:
            byte = read(1)
        parts: list[bytes] = []
        while byte in allowed and len(parts) <= _LONGEST_TOKEN:
            parts.append(byte)
            byte = read(1)
        text = b"".join(parts)
        if not form.fullmatch(text):
            begin = self.offset - len(text) - len(byte)
            text += byte + (self.take_while(_WORD)[:60] if byte not in _BLANKS else b"")
            raise self.unexpected_bytes(text.strip(), what, offset=begin)
        if byte != b" ":
            self._source.push_back(byte)
        return text

    # -- lists of integers -----------------------------------------------------------------------------------------

    def integer_vector(self, kind: str = "int32") -> np.ndarray:
        """Read a vector of integers inside an object, int32 (count,), or another ``kind``. Kaldi: ReadIntegerVector."""
        if self.binary:
            return self._binary_integers(kind, 1)
        return self._integers_of(self._bracketed(), kind)

    def integer_pairs(self, kind: str = "int32") -> np.ndarray:
        """Read pairs of integers, int32 (count, 2). Kaldi: ReadIntegerPairVector."""
        if self.binary:
            return self._binary_integers(kind, 2).reshape(-1, 2)
        pairs = self._bracketed().split()
        if any(pair.count(b",") != 1 for pair in pairs):
            raise self.error("expected pairs such as 1,2 between [ and ]")
        return self._integers_of(b" ".join(pairs).replace(b",", b" "), kind, 2 * len(pairs)).reshape(-1, 2)

    def _binary_integers(self, kind: str, per_element: int) -> np.ndarray:
        dtype = np.dtype(kind)
        size_byte, count = struct.unpack("<bi", self.raw(5))
        if size_byte != dtype.itemsize:
            raise self.error(f"expected integers of {dtype.itemsize} bytes, found size byte {size_byte}",
                             offset=self.offset - 5)
        self.check_count(count, per_element * dtype.itemsize)
        return self.array(dtype, count * per_element)

    def _bracketed(self) -> bytes:
        self.skip_whitespace()
        found = self._source.read(1)
        if found != b"[":
            raise self.unexpected_bytes(found, "[")
        text = self.take_while(_VECTOR_TEXT)
        found = self._source.read(1)
        if found != b"]":
            raise self.unexpected_bytes(found, "an integer or ]")
        return text

    def _integers_of(self, text: bytes, kind: str, count: int | None = None) -> np.ndarray:
        words = text.split()
        form = _INTEGERS[kind]
        try:
            if count is not None and len(words) != count:
                raise ValueError
            numbers = [int(word) for word in words]
        except ValueError:
            raise self.error(f"expected integers between [ and ], found '{_shown(text[:60])}'") from None
        if numbers and not (form.least <= min(numbers) and max(numbers) <= form.largest):
            raise self.error(f"expected integers that fit into {kind}, found {min(numbers)} … {max(numbers)}")
        return np.array(numbers, dtype=kind)


def _shown(text: bytes) -> str:
    """Return ``text`` for a message: one line of printable characters, shortened if necessary."""
    words = text.decode("utf-8", "backslashreplace")
    words = "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)
    return words if len(words) <= 60 else words[:60] + "..."


class TokenWriter:
    """A writer of tokens, numbers and raw bytes to a binary stream, in text or in binary.

    The header ``\\0B`` is written by the code that opens the file.
    """

    def __init__(self, stream: BinaryIO | Any, binary: bool) -> None:
        self._write = stream.write
        self.binary = binary

    def raw(self, data: bytes | bytearray | memoryview) -> None:
        """Write bytes as they are."""
        self._write(data)

    def array(self, values: np.ndarray, dtype: Any) -> None:
        """Write the elements of ``values`` in C order as raw little-endian ``dtype``."""
        data = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
        if data.size:
            self._write(data.data.cast("B"))

    def token(self, token: str) -> None:
        """Write a token and a space. Kaldi: WriteToken."""
        self._write(token.encode("utf-8", "surrogateescape") + b" ")

    def tagged(self, tag: str, write: Callable[..., None], *arguments: Any) -> None:
        """Write the token ``tag`` and then a value, by ``write(self, *arguments)``."""
        self.token(tag)
        write(self, *arguments)

    def newline_if_text(self) -> None:
        """Write a newline, in text only."""
        if not self.binary:
            self._write(b"\n")

    def integer(self, value: int, kind: str = "int32") -> None:
        """Write an integer as ``kind``: int8 … int64, uint8 … uint64. Kaldi: WriteBasicType."""
        form = _INTEGERS[kind]
        value = int(value)
        if not form.least <= value <= form.largest:
            raise FormatError(f"cannot write {value} as {kind}")
        self._write(form.sized.pack(form.size_byte, value) if self.binary else b"%d " % value)

    def integers(self, values: np.ndarray) -> None:
        """Write each of ``values`` in the form in which :meth:`integer` writes an int32."""
        if self.binary:
            records = np.empty(values.size, dtype=SIZED_INT32)
            records["size"], records["value"] = 4, values.ravel()
            self._write(records.tobytes())
        else:
            self._write(b"%d " * values.size % tuple(values.ravel().tolist()))

    def float32(self, value: float) -> None:
        """Write a number as a float."""
        value = float(np.float32(value))
        self._write(_SIZED_FLOAT32.pack(4, value) if self.binary else TEXT_FLOAT % value)

    def float64(self, value: float) -> None:
        """Write a number as a double."""
        self._write(_SIZED_FLOAT64.pack(8, value) if self.binary else TEXT_FLOAT % float(value))

    def boolean(self, value: bool) -> None:
        """Write ``T`` or ``F``, in text with a space."""
        letter = b"T" if value else b"F"
        self._write(letter if self.binary else letter + b" ")

    def integer_vector(self, values: Any, kind: str = "int32") -> None:
        """Write a vector of integers inside an object. Kaldi: WriteIntegerVector."""
        self._vector(np.asarray(values, dtype=kind).reshape(-1), b"%d ")

    def integer_pairs(self, values: Any, kind: str = "int32") -> None:
        """Write pairs of integers, (count, 2). Kaldi: WriteIntegerPairVector."""
        self._vector(np.asarray(values, dtype=kind).reshape(-1, 2), b"%d,%d ")

    def _vector(self, numbers: np.ndarray, form: bytes) -> None:
        if self.binary:
            self._write(struct.pack("<bi", numbers.itemsize, len(numbers)))
            self.array(numbers, numbers.dtype)
        else:
            self._write(b"[ " + form * len(numbers) % tuple(numbers.ravel().tolist()) + b"]\n")
