"""Matrices of binary archives as the bytes of dense ones, to be written without compression. Light.

The compressed matrices of a block of the archive are decoded by one call of compiled code, to the bytes to be written.
"""
from __future__ import annotations

import sys
from array import array
from typing import Any

from nnet3py.formats.compressed_code import decode_columns, expect_decoding
from nnet3py.formats.layouts import head_bytes
from nnet3py.formats.matrix_skimmer import Found, MatrixSkimmer
from nnet3py.formats.raw_matrix import STORED_MATRIX
from nnet3py.io.byte_pieces import BytePieces
from nnet3py.io.holder import Holder

_FLOAT = 4
_BLOCK = 1 << 20                # bytes; enough to be shared by threads


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
            return [_dense(data[entry.at:entry.head.end]) for entry in entries]
        decoded = iter(self._decoded(data, chosen, size))
        return [next(decoded) if entry.head.kind == "CM" else _dense(data[entry.at:entry.head.end])
                for entry in entries]

    def _decoded(self, data: bytes, chosen: list[Found], size: int) -> list[BytePieces]:
        """The matrices ``chosen``, which have that many elements, decoded by compiled code."""
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


def _dense(value: bytes) -> Any:
    if value[:3] == b"FM ":
        return value
    from nnet3py.formats.dense_skimmer import dense_matrix

    return dense_matrix(value)


def decoded_matrix(num_threads: int = 1) -> Holder[Any]:
    """The holder of matrices that are decoded by that many threads.

    Compressed matrices that are not found in a binary archive stay compressed; all others are float32 (rows, cols). A
    value must be written before the next one is read.
    """
    return Holder("matrix", STORED_MATRIX.read, STORED_MATRIX.write, select=STORED_MATRIX.select,
                  skimmer=lambda: MatrixSkimmer(_Decoder(num_threads).values, _BLOCK))
