"""Matrices of binary archives as the bytes of dense ones, to be written without compression. Light.

The compressed matrices of a block of the archive are decoded by one call of compiled code, to what is written.
"""
from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

from nnet3py.io.byte_pieces import BytePieces
from nnet3py.io.compressed_code import decode_columns, expect_decoding
from nnet3py.io.holder import Holder
from nnet3py.io.matrix_skimmer import Found, MatrixSkimmer
from nnet3py.io.raw_matrix import STORED_MATRIX

_DENSE_HEAD = struct.Struct("<3sbibi")
_FLOAT = 4


class _Decoder:
    """Makes values of what was found in a block; they must be written before those of the next block are made."""

    def __init__(self) -> None:
        self._memory: Any = (ctypes.c_float * 0)()          # kept, since fresh memory takes as long as decoding to it

    def values(self, data: bytes, found: list[Found]) -> list[Any]:
        """Dense matrices as their bytes, compressed ones decoded: BytePieces or float32 (rows, cols)."""
        sizes = [one.head.num_rows * one.head.num_cols if one.head.kind == "CM" else 0 for one in found]
        compiled = sys.byteorder == "little" and any(sizes) and expect_decoding(sum(sizes))
        if compiled:
            self._decode(data, found, sizes)
        decoded = memoryview(self._memory).cast("B")
        values: list[Any] = []
        begin = 0
        for one, size in zip(found, sizes, strict=True):
            if size and compiled:
                head = _DENSE_HEAD.pack(b"FM ", 4, one.head.num_rows, 4, one.head.num_cols)
                values.append(BytePieces([head, decoded[begin:begin + _FLOAT * size]]))
                begin += _FLOAT * size
            else:
                value = data[one.at:one.head.end]
                values.append(value if one.head.kind == "FM" else _dense(value))
        return values

    def _decode(self, data: bytes, found: list[Found], sizes: list[int]) -> None:
        places, ranges = bytearray(), bytearray()
        begin = 0
        for one, size in zip(found, sizes, strict=True):
            if size:
                head = one.head
                places += struct.pack("=5q", head.begin, head.end - size, begin, head.num_rows, head.num_cols)
                ranges += struct.pack("=2f", head.minimum, head.range)
                begin += size
        if len(self._memory) < begin:
            self._memory = (ctypes.c_float * begin)()
        decode_columns(data, data, bytes(places), bytes(ranges), ctypes.addressof(self._memory))


def _dense(value: bytes) -> Any:
    from nnet3py.io.dense_skimmer import dense_matrix

    return dense_matrix(value)


DECODED_MATRIX: Holder[Any] = Holder("matrix", STORED_MATRIX.read, STORED_MATRIX.write, select=STORED_MATRIX.select,
                                     skimmer=lambda: MatrixSkimmer(_Decoder().values))
"""Compressed matrices that are not found in a binary archive stay so; all others are float32 (rows, cols)."""
