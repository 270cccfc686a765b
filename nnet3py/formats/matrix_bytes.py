"""Finding the matrices of features in blocks of a binary archive by their heads, which say how much follows. Light."""
from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py.formats.compressed_code import decode_columns, expect_decoding
from nnet3py.formats.layouts import COMPRESSED, Head, head_bytes, head_of
from nnet3py.io.archive import Moved, Run
from nnet3py.io.holder import BINARY_HEADER, BytePieces, Holder
from nnet3py.io.skim import Entry, Incomplete, Unusual, key_before
from nnet3py.io.streams import InputStream
from nnet3py.system import read_at

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter


_FIRST, _MOST = 1 << 15, 1 << 26       # bytes of a single value that are read at first, and that may follow
BLOCK = 1 << 18                 # bytes; larger blocks come from the system again each time, page by page


class Found(NamedTuple):
    """A matrix in a block of an archive: its key, where its token begins, and its head."""

    key: bytes
    at: int
    head: Head


class MatrixSkimmer:
    """Finds the matrices, dense ones of floats and compressed ones, of an archive.

    ``values(data, found)`` makes the table's values from those that were found in a block.
    """

    archive_bytes = 0

    def __init__(self, values: Callable[[bytes, list[Found]], list[Any]], block_bytes: int = BLOCK) -> None:
        self._values, self.block_bytes = values, block_bytes
        self._expects_decoding = False

    def entries(self, data: bytes) -> tuple[list[Entry], int, bool]:
        """Key and value of the entries in front, how many bytes they take, and whether the next one is unusual.

        If it is neither unusual nor found, the bytes end before it does.
        """
        entries: list[Found] = []
        at, size, unusual = 0, len(data), False
        try:
            while at < size:
                key, begin = key_before(data, at)
                head = head_of(data, begin)
                if head.kind == "DM":
                    raise Unusual
                if head.end > size:
                    break
                entries.append(Found(key, begin, head))
                at = head.end
        except Incomplete:
            pass
        except Unusual:
            unusual = True
        if not self._expects_decoding and any(entry.head.kind in COMPRESSED for entry in entries):
            self._expects_decoding = True
            expect_decoding(self.archive_bytes)
        values = self._values(data, entries) if entries else []
        return [(entry.key, value) for entry, value in zip(entries, values, strict=True)], at, unusual

    def value_at(self, source: int, at: int) -> Any | None:
        """Return the value that begins, with its header, at byte ``at`` of the file with the descriptor ``source``.

        None if it must be read. Raises OSError.
        """
        data = read_at(source, _FIRST, at)
        if not data.startswith(BINARY_HEADER):
            return None
        try:
            head = head_of(data, len(BINARY_HEADER))
        except (Incomplete, Unusual):
            return None
        missing = head.end - len(data)
        if head.kind == "DM" or missing > _MOST:
            return None
        if missing > 0:
            data += read_at(source, missing, at + len(data))
        if len(data) < head.end:
            return None
        return self._values(data, [Found(b"", len(BINARY_HEADER), head)])[0]


def num_rows(value: Any) -> int:
    """Return the rows of a matrix, which may be its bytes."""
    if isinstance(value, BytePieces):
        value = bytes(value.pieces[0])
    return head_of(value).num_rows if isinstance(value, bytes) else value.shape[0]


def read_stored(reader: TokenReader) -> Any:
    """Return a compressed matrix as it is stored; any other as float32 (rows, cols)."""
    if reader.binary and reader.peek(4).partition(b" ")[0].decode("latin-1") in COMPRESSED:
        from nnet3py.formats.general import read_general_matrix

        return read_general_matrix(reader)
    from nnet3py.formats.holders import FLOAT_MATRIX

    return FLOAT_MATRIX.read(reader)


def _write_stored(writer: TokenWriter, value: Any) -> None:
    if isinstance(value, BytePieces):
        value.write(writer)
    else:
        from nnet3py.formats.general import write_general_matrix

        write_general_matrix(writer, value)


def _select_range(value: Any, text: str) -> Any:
    from nnet3py.formats.holders import select_matrix_range

    return select_matrix_range(value, text)


STORED_MATRIX: Holder[Any] = Holder("matrix", read_stored, _write_stored, select=_select_range)
"""Compressed matrices stay so; all others are float32 (rows, cols)."""


def _bytes_of(data: bytes, entries: list[Found]) -> list[bytes]:
    return [data[entry.at:entry.head.end] for entry in entries]


RAW_MATRIX: Holder[Any] = Holder("matrix", read_stored, _write_stored, select=_select_range,
                                 skimmer=lambda: MatrixSkimmer(_bytes_of))
"""The same, and matrices of binary archives are their bytes; doubles are not."""


_FLOAT = 4
_DECODED_BLOCK = 1 << 20                # bytes; enough to be shared by threads


class _Decoder:
    """Makes values from what was found in a block; they must be written before those of the next block are made."""

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads
        self._memory: Any = b""          # kept, since getting fresh memory takes as long as decoding

    def values(self, data: bytes, entries: list[Found]) -> list[Any]:
        """Dense matrices as their bytes, compressed ones decoded: BytePieces or float32 (rows, cols)."""
        chosen = [entry for entry in entries if entry.head.kind == "CM"]
        size = sum(entry.head.num_rows * entry.head.num_cols for entry in chosen)
        if not chosen or sys.byteorder != "little" or not expect_decoding(size):
            return [_dense_or_bytes(data[entry.at:entry.head.end]) for entry in entries]
        decoded = iter(self._decoded(data, chosen, size))
        return [next(decoded) if entry.head.kind == "CM" else _dense_or_bytes(data[entry.at:entry.head.end])
                for entry in entries]

    def _decoded(self, data: bytes, chosen: list[Found], size: int) -> list[BytePieces]:
        """Return the matrices ``chosen``, which have that many elements, decoded by compiled code."""
        import ctypes

        if len(self._memory) < size:
            self._memory = (ctypes.c_float * size)()
        memory = memoryview(self._memory).cast("B")
        places, ranges = array("q"), array("f")
        values = []
        begin = 0
        for _, _, (_, minimum, range_, num_rows, num_cols, percentiles, end) in chosen:
            count = num_rows * num_cols
            places.extend((percentiles, end - count, begin, num_rows, num_cols))
            ranges.extend((minimum, range_))
            values.append(BytePieces([head_bytes("FM", num_rows, num_cols),
                                      memory[_FLOAT * begin:_FLOAT * (begin + count)]]))
            begin += count
        decode_columns(data, data, places.tobytes(), ranges.tobytes(), ctypes.addressof(self._memory),
                       self._num_threads)
        return values


def _dense_or_bytes(value: bytes) -> Any:
    if value[:3] == b"FM ":
        return value
    from nnet3py.formats.matrix_batches import dense_matrix

    return dense_matrix(value)


def decoded_matrix(num_threads: int = 1) -> Holder[Any]:
    """Return the holder of matrices that are decoded by that many threads.

    Compressed matrices that are not found in a binary archive stay compressed; all others are float32 (rows, cols). A
    value must be written before the next one is read.
    """
    return Holder("matrix", STORED_MATRIX.read, STORED_MATRIX.write, select=STORED_MATRIX.select,
                  skimmer=lambda: MatrixSkimmer(_Decoder(num_threads).values, _DECODED_BLOCK))


_HEAD = 256                     # bytes; an entry with a longer key is left to whoever reads
_RUN = 1 << 23                  # bytes that are moved at once


def dense_runs(stream: InputStream) -> Iterator[Run]:
    """Yield the binary dense matrices of floats that come next in a file; ``stream`` is left where others begin."""
    size = stream.size
    if size is None:
        return
    source, first = stream.fileno(), stream.tell()
    at = first
    entries: list[Moved] = []
    while at < size:
        data = read_at(source, _HEAD, at)
        try:
            key, begin = key_before(data, 0)
            head = head_of(data, begin)
        except (Incomplete, Unusual):
            break
        end = at + head.end
        if head.kind != "FM" or end > size:
            break
        entries.append(Moved(key.decode("utf-8", "surrogateescape"), at - first + len(key) + 1, head.num_rows))
        at = end
        if at - first >= _RUN:
            yield Run(first, at, entries)
            first, entries = at, []
            stream.seek(at)
    if entries:
        yield Run(first, at, entries)
        stream.seek(at)
