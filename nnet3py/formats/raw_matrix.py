"""Matrices as the bytes of their files, for moving them. Light until one has to be read: no numpy."""
from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py.formats.matrix_skimmer import PERCENTILES, Found, MatrixSkimmer, head_of
from nnet3py.io.byte_pieces import BytePieces
from nnet3py.io.holder import Holder
from nnet3py.io.skim import Unusual, Walk

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter

_BYTES_PER_ELEMENT = {b"FM ": 4, b"DM ": 8, b"CM ": 1, b"CM2 ": 2, b"CM3 ": 1}
_SIZED = struct.Struct("<bibi")                # rows and columns of a dense matrix
_PLAIN = struct.Struct("<ii")                  # and of a compressed one, after minimum and range
_RANGE = 8                      # bytes of those
_SPARSE_ROW = struct.Struct("<4s4xbi")         # SV, dim, count
_PAIR = 10                      # bytes of index and value, each with its size


class Part(NamedTuple):
    """Where a matrix lies in a value: ``kind`` is its token, which begins at byte ``first``; it ends before ``end``."""

    kind: bytes
    first: int
    end: int


def walk_matrix(walk: Walk) -> None:
    """Pass over a matrix of any form, noting a :class:`Part`."""
    first = walk.at
    kind = walk.word() + b" "
    if kind == b"SM ":
        for _ in range(walk.integer()):
            token, count_size, count = _SPARSE_ROW.unpack(walk.take(_SPARSE_ROW.size))
            if token != b"SV \4" or count_size != 4 or count < 0:
                raise Unusual
            walk.skip(_PAIR * count)
    elif kind in (b"FM ", b"DM "):
        rows_size, rows, columns_size, columns = _SIZED.unpack(walk.take(_SIZED.size))
        if not (rows_size == columns_size == 4 and rows > 0 and columns > 0):
            raise Unusual
        walk.skip(rows * columns * _BYTES_PER_ELEMENT[kind])
    elif kind in _BYTES_PER_ELEMENT:
        walk.skip(_RANGE)
        rows, columns = _PLAIN.unpack(walk.take(_PLAIN.size))
        if not (rows > 0 and columns > 0):
            raise Unusual
        walk.skip(rows * columns * _BYTES_PER_ELEMENT[kind] + (PERCENTILES * columns if kind == b"CM " else 0))
    else:
        raise Unusual
    walk.parts.append(Part(kind, first - walk.begin, walk.at - walk.begin))


def num_rows(value: Any) -> int:
    """The rows of a matrix, which may be its bytes."""
    if isinstance(value, BytePieces):
        value = bytes(value.pieces[0])
    return head_of(value).num_rows if isinstance(value, bytes) else value.shape[0]


def read_stored(reader: TokenReader) -> Any:
    """A compressed matrix as it is stored; any other as float32 (rows, cols)."""
    from nnet3py.formats.compressed import CompressedMatrix
    from nnet3py.formats.holders import FLOAT_MATRIX

    if reader.binary and reader.peek(4).partition(b" ")[0] in (b"CM", b"CM2", b"CM3"):
        return CompressedMatrix.read(reader)
    return FLOAT_MATRIX.read(reader)


def _write(writer: TokenWriter, value: Any) -> None:
    if isinstance(value, BytePieces):
        value.write(writer)
    else:
        from nnet3py.formats.general import write_general_matrix

        write_general_matrix(writer, value)


def _select(value: Any, text: str) -> Any:
    from nnet3py.formats.holders import select_matrix_range

    return select_matrix_range(value, text)


STORED_MATRIX: Holder[Any] = Holder("matrix", read_stored, _write, select=_select)
"""Compressed matrices stay so; all others are float32 (rows, cols)."""



def _bytes(data: bytes, found: list[Found]) -> list[bytes]:
    return [data[one.at:one.end] for one in found]


RAW_MATRIX: Holder[Any] = Holder("matrix", read_stored, _write, select=_select,
                                 skimmer=lambda: MatrixSkimmer(_bytes))
"""The same, and matrices of binary archives are their bytes; doubles are not."""
