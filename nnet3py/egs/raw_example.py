"""Examples that are moved without being decoded: shuffled, selected, distributed over archives.

A binary example is kept as its bytes. Its length is found by going through its structure, which is checked only as
far as that needs.
"""
from __future__ import annotations

from typing import TypeAlias

from nnet3py.egs.index_vector import skip_codes
from nnet3py.io.holders import Holder
from nnet3py.io.specifiers import parse_wspecifier
from nnet3py.io.tokens import TokenReader, TokenWriter

RawExample: TypeAlias = "bytes | object"       # object: an NnetExample, read from text

_SIZED_INTEGER = 5                             # a size byte and four bytes
_SPARSE_ELEMENT = 10                           # index and value, each with a size byte
_COMPRESSED_HEADER = 16                        # two floats and two integers, without size bytes
_BYTES_PER_ELEMENT = {b"FM ": 4, b"DM ": 8, b"CM ": 1, b"CM2": 2, b"CM3": 1}
_PERCENTILE_BYTES = 8                          # per column of the CM form


class _Recorder:
    """Reads ahead piece by piece and keeps every byte."""

    def __init__(self, reader: TokenReader) -> None:
        self._reader = reader
        self.pieces: list[bytes] = []

    def take(self, count: int) -> bytes:
        piece = bytes(self._reader.raw(count))
        self.pieces.append(piece)
        return piece

    def expect(self, text: bytes) -> None:
        found = self.take(len(text))
        if found != text:
            raise self._reader.error(f"expected '{text.decode().strip()}' in an example, found {found!r}")

    def integer(self, sized: bool = True) -> int:
        data = self.take(_SIZED_INTEGER if sized else 4)
        if sized and data[0] != 4:
            raise self._reader.error(f"expected a 4-byte integer in an example, found size {data[0]}")
        return int.from_bytes(data[-4:], "little", signed=True)

    def count(self, bytes_each: int, sized: bool = True) -> int:
        found = self.integer(sized)
        self._reader.check_count(found, bytes_each)
        return found

    def name(self) -> None:
        found = b""
        while found != b" ":
            found = self.take(1)
            if not found:
                raise self._reader.error("the example ends within a name")

    def error(self, message: str) -> Exception:
        return self._reader.error(message)


def read_raw(reader: TokenReader) -> RawExample:
    """The bytes of a binary example, header not included; an example in text is decoded (NnetExample)."""
    if not reader.binary:
        from nnet3py.egs.example import NnetExample

        return NnetExample.read(reader)
    recorder = _Recorder(reader)
    recorder.expect(b"<Nnet3Eg> <NumIo> ")
    for _ in range(recorder.count(1)):
        recorder.expect(b"<NnetIo> ")
        recorder.name()
        recorder.expect(b"<I1V> ")
        recorder.pieces.append(skip_codes(reader, recorder.count(1)))
        _take_matrix(recorder)
        recorder.expect(b"</NnetIo> ")
    recorder.expect(b"</Nnet3Eg> ")
    return b"".join(recorder.pieces)


def _take_matrix(recorder: _Recorder) -> None:
    kind = recorder.take(3)
    if kind == b"SM ":
        for _ in range(recorder.count(1)):
            recorder.expect(b"SV ")
            recorder.integer()
            recorder.take(_SPARSE_ELEMENT * recorder.count(_SPARSE_ELEMENT))
        return
    if kind not in _BYTES_PER_ELEMENT:
        raise recorder.error(f"expected a matrix in an example, found {kind!r}")
    full = kind in (b"FM ", b"DM ")
    if kind[2:] != b" ":
        recorder.expect(b" ")
    if not full:
        recorder.take(_COMPRESSED_HEADER - 8)
    rows, columns = recorder.integer(full), recorder.integer(full)
    if rows < 0 or columns < 0:
        raise recorder.error(f"expected a matrix in an example, found one of {rows} rows and {columns} columns")
    size = rows * columns * _BYTES_PER_ELEMENT[kind] + (_PERCENTILE_BYTES * columns if kind == b"CM " else 0)
    if size:
        recorder.take(size)


def _write_raw(writer: TokenWriter, value: RawExample) -> None:
    if isinstance(value, bytes):
        writer.raw(value)
    else:
        value.write(writer)  # type: ignore[attr-defined]


RAW_EXAMPLE: Holder[RawExample] = Holder("training example", read_raw, _write_raw)


def copying_holder(*wspecifiers: str) -> Holder:
    """The holder for examples that are only moved: undecoded if everything is written in binary."""
    if all(parse_wspecifier(wspecifier).binary for wspecifier in wspecifiers):
        return RAW_EXAMPLE
    from nnet3py.egs.example import EXAMPLE

    return EXAMPLE
