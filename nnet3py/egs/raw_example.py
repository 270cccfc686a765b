"""Examples that are moved without being decoded: shuffled, selected, distributed over archives.

A binary example is kept as its bytes. Its length is found by going through its structure, which is checked only as
far as that needs; see ``walk_example.py``.
"""
from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from nnet3py.egs.walk_example import walk_chain_example, walk_discriminative_example, walk_example
from nnet3py.io.holder import Holder
from nnet3py.io.skim import Skimmer
from nnet3py.io.specifiers import parse_wspecifier

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter

RawExample: TypeAlias = "bytes | object"       # object: an NnetExample, read from text

_SPARSE_ELEMENT = 10                           # index and value, each with a size byte
_SPARSE_ROW = struct.Struct("<3sbibi")         # SV, dim, count
_DIMENSIONS = struct.Struct("<bibi")           # of a dense matrix
_COMPRESSED_HEADER = struct.Struct("<8xii")    # minimum and range; rows and columns
_BYTES_PER_ELEMENT = {b"FM ": 4, b"DM ": 8, b"CM ": 1, b"CM2": 2, b"CM3": 1}
_PERCENTILE_BYTES = 8                          # per column of the CM form
_NAME = re.compile(rb"[^ \t\n\r\f\v]*")


class _Recorder:
    """Reads ahead piece by piece and keeps every byte."""

    def __init__(self, reader: TokenReader) -> None:
        self._read = reader.raw
        self.reader = reader
        self.pieces: list[bytes | bytearray] = []

    def take(self, count: int) -> bytes | bytearray:
        piece = self._read(count)
        self.pieces.append(piece)
        return piece

    def unpack(self, form: struct.Struct) -> tuple:
        return form.unpack(self.take(form.size))

    def expect(self, text: bytes) -> None:
        found = self.take(len(text))
        if found != text:
            raise self.error(f"expected '{text.decode().strip()}' in an example, found {bytes(found)!r}")

    def count_after(self, text: bytes, bytes_each: int) -> int:
        """The sized integer after ``text``, which says how many elements of ``bytes_each`` or more follow."""
        size = len(text) + 1
        found = self.take(size + 4)
        if found[:size] != text + b"\4":
            raise self.error(f"expected '{text.decode().strip()}' and a number in an example, found {bytes(found)!r}")
        count = int.from_bytes(found[size:], "little", signed=True)
        self.reader.check_count(count, bytes_each)
        return count

    def error(self, message: str) -> Exception:
        return self.reader.error(message)


def read_raw(reader: TokenReader) -> RawExample:
    """The bytes of a binary example, header not included; an example in text is decoded (NnetExample)."""
    if not reader.binary:
        from nnet3py.egs.example import NnetExample

        return NnetExample.read(reader)
    from nnet3py.formats.index_vector import skip_codes

    recorder = _Recorder(reader)
    for _ in range(recorder.count_after(b"<Nnet3Eg> <NumIo> ", 1)):
        recorder.expect(b"<NnetIo> ")
        recorder.pieces.append(reader.take_while(_NAME))
        recorder.pieces.append(skip_codes(reader, recorder.count_after(b" <I1V> ", 1)))
        _take_matrix(recorder)
        recorder.expect(b"</NnetIo> ")
    recorder.expect(b"</Nnet3Eg> ")
    return b"".join(recorder.pieces)


def _take_matrix(recorder: _Recorder) -> None:
    kind = bytes(recorder.take(3))
    if kind == b"SM ":
        for _ in range(recorder.count_after(b"", _SPARSE_ROW.size)):
            token, dim_size, _, count_size, count = recorder.unpack(_SPARSE_ROW)
            if token != b"SV " or dim_size != 4 or count_size != 4:
                raise recorder.error(f"expected a row of a sparse matrix in an example, found {token!r}")
            recorder.reader.check_count(count, _SPARSE_ELEMENT)
            recorder.take(_SPARSE_ELEMENT * count)
        return
    if kind not in _BYTES_PER_ELEMENT:
        raise recorder.error(f"expected a matrix in an example, found {kind!r}")
    if kind in (b"FM ", b"DM "):
        rows_size, rows, columns_size, columns = recorder.unpack(_DIMENSIONS)
        sound = rows_size == columns_size == 4
    else:
        if kind != b"CM ":
            recorder.expect(b" ")
        rows, columns = recorder.unpack(_COMPRESSED_HEADER)
        sound = True
    if not sound or rows < 0 or columns < 0:
        raise recorder.error(f"expected a matrix in an example, found one of {rows} rows and {columns} columns")
    recorder.take(rows * columns * _BYTES_PER_ELEMENT[kind] + (_PERCENTILE_BYTES * columns if kind == b"CM " else 0))


def _write_raw(writer: TokenWriter, value: RawExample) -> None:
    if isinstance(value, bytes):
        writer.raw(value)
    else:
        value.write(writer)  # type: ignore[attr-defined]


def _reading_of(load: Callable[[], Holder]) -> Callable[[TokenReader], RawExample]:
    """Reads examples by decoding them, and keeps the bytes of binary ones: for what cannot be walked over."""
    def read(reader: TokenReader) -> RawExample:
        holder = load()
        if not reader.binary:
            return holder.read(reader)
        reader.start_capture()
        holder.read(reader)
        return reader.end_capture()

    return read


def _example() -> Holder:
    from nnet3py.egs.example import EXAMPLE

    return EXAMPLE


def _chain_example() -> Holder:
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE

    return CHAIN_EXAMPLE


def _discriminative_example() -> Holder:
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE

    return DISCRIMINATIVE_EXAMPLE


RAW_EXAMPLE: Holder[RawExample] = Holder("training example", read_raw, _write_raw,
                                         skimmer=lambda: Skimmer(walk_example))
RAW_CHAIN_EXAMPLE: Holder[RawExample] = Holder("chain example", _reading_of(_chain_example), _write_raw,
                                               skimmer=lambda: Skimmer(walk_chain_example))
RAW_DISCRIMINATIVE_EXAMPLE: Holder[RawExample] = Holder(
    "discriminative example", _reading_of(_discriminative_example), _write_raw,
    skimmer=lambda: Skimmer(walk_discriminative_example))
_DECODING = {RAW_EXAMPLE: _example, RAW_CHAIN_EXAMPLE: _chain_example,
             RAW_DISCRIMINATIVE_EXAMPLE: _discriminative_example}


def copying_holder(*wspecifiers: str, raw: Holder[RawExample] = RAW_EXAMPLE) -> Holder:
    """The holder for examples that are only moved: ``raw`` if everything is written in binary, else what decodes."""
    binary = all(parse_wspecifier(wspecifier).binary for wspecifier in wspecifiers)
    return raw if binary else _DECODING[raw]()
