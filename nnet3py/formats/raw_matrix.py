"""Matrices as the bytes of their files, for moving them. Light until one has to be read: no numpy."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py.formats.layouts import COMPRESSED, head_of
from nnet3py.formats.matrix_skimmer import Found, MatrixSkimmer
from nnet3py.io.byte_pieces import BytePieces
from nnet3py.io.holder import Holder

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter


def num_rows(value: Any) -> int:
    """The rows of a matrix, which may be its bytes."""
    if isinstance(value, BytePieces):
        value = bytes(value.pieces[0])
    return head_of(value).num_rows if isinstance(value, bytes) else value.shape[0]


def read_stored(reader: TokenReader) -> Any:
    """A compressed matrix as it is stored; any other as float32 (rows, cols)."""
    if reader.binary and reader.peek(4).partition(b" ")[0].decode("latin-1") in COMPRESSED:
        from nnet3py.formats.general import read_general_matrix

        return read_general_matrix(reader)
    from nnet3py.formats.holders import FLOAT_MATRIX

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


def _bytes(data: bytes, entries: list[Found]) -> list[bytes]:
    return [data[entry.at:entry.head.end] for entry in entries]


RAW_MATRIX: Holder[Any] = Holder("matrix", read_stored, _write, select=_select,
                                 skimmer=lambda: MatrixSkimmer(_bytes))
"""The same, and matrices of binary archives are their bytes; doubles are not."""
