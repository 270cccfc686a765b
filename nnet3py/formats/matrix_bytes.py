"""Matrices as the bytes of their files, for moving them; compressed ones decoded to the bytes of dense ones.

The compressed matrices in a block of an archive are decoded in one call of compiled code. Light: numpy is imported
only when a matrix must be read.
"""
from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Any

from nnet3py.formats.compressed_code import decode_columns, expect_decoding
from nnet3py.formats.layouts import COMPRESSED, Found, MatrixSkimmer, head_bytes, head_of
from nnet3py.io.holder import BytePieces, Holder

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter


def num_rows(value: Any) -> int:
    """Return the number of rows of a matrix, which may be given as its bytes."""
    if isinstance(value, BytePieces):
        value = bytes(value.pieces[0])
    return head_of(value).num_rows if isinstance(value, bytes) else value.shape[0]


def read_stored(reader: TokenReader) -> Any:
    """Read a compressed matrix as it is stored, any other as float32 (rows, cols)."""
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
"""Holder like STORED_MATRIX, but matrices of binary archives are kept as their bytes, except doubles."""


_FLOAT = 4
_DECODED_BLOCK = 1 << 20                # bytes; enough to be shared by threads


class _Decoder:
    """The ``values`` function of a MatrixSkimmer that decodes compressed matrices; memory is reused for each block."""

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads
        self._memory: Any = b""          # kept, since getting fresh memory takes as long as decoding

    def values(self, data: bytes, entries: list[Found]) -> list[Any]:
        """Return dense matrices as their bytes, compressed ones decoded: as BytePieces or float32 (rows, cols).

        The values are valid until the next call.
        """
        chosen = [entry for entry in entries if entry.head.kind == "CM"]
        size = sum(entry.head.num_rows * entry.head.num_cols for entry in chosen)
        if not chosen or sys.byteorder != "little" or not expect_decoding(size):
            return [_dense_or_bytes(data[entry.at:entry.head.end]) for entry in entries]
        decoded = iter(self._decoded(data, chosen, size))
        return [next(decoded) if entry.head.kind == "CM" else _dense_or_bytes(data[entry.at:entry.head.end])
                for entry in entries]

    def _decoded(self, data: bytes, chosen: list[Found], size: int) -> list[BytePieces]:
        """Decode the matrices ``chosen`` (``size`` elements together) with compiled code; return their bytes."""
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
    """Return a holder of matrices that are decoded in ``num_threads`` threads.

    Compressed matrices that are not in a binary archive stay compressed; all others are float32 (rows, cols) or the
    bytes of a dense matrix. A value must be written before the next one is read.
    """
    return Holder("matrix", STORED_MATRIX.read, STORED_MATRIX.write, select=STORED_MATRIX.select,
                  skimmer=lambda: MatrixSkimmer(_Decoder(num_threads).values, _DECODED_BLOCK))
