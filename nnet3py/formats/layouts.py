"""How the binary forms of matrices are laid out: the one table for whoever reads, finds, copies, moves or writes them.

A form begins with its token and a blank. Dense ones go on with rows and columns, each an int32 with its size byte;
compressed ones with minimum and range, and rows and columns without size bytes, then what is stored for each column
(percentiles). The elements are last. Sparse ones are the token, a sized number of rows, and for each row a head and
its elements. Kaldi: Matrix, CompressedMatrix, SparseMatrix. Light.
"""
from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from nnet3py.io.skim import Incomplete, Unusual, Walk

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader

_SIZED = struct.Struct("<bibi")                # size of an integer and rows, the same and columns
_RANGED = struct.Struct("<ffii")               # minimum, range, rows, columns
RANGE_BYTES = 8                                # of the first two
LONGEST_HEAD = 20                              # bytes
COMPRESSED = ("CM", "CM2", "CM3")
DENSE = ("FM", "DM")

SPARSE_HEAD_BYTES = 8                          # SM, a blank, and the sized number of rows
SPARSE_ROW = struct.Struct("<3sbibi")          # SV and a blank, size and dimension, size and number of elements
SPARSE_PAIR_BYTES = 10                         # index and value, each with its size byte


class Form(NamedTuple):
    """A form of matrices: the bytes of the token and its blank, the fields after it, and what the elements are.

    ``element`` is numpy's name of an element, which takes ``element_bytes``; ``column_bytes`` stand before the elements
    for each column; ``head_bytes`` before both.
    """

    token: bytes
    fields: struct.Struct
    element: str
    element_bytes: int
    column_bytes: int
    head_bytes: int


FORMS = {"FM": Form(b"FM ", _SIZED, "<f4", 4, 0, 13), "DM": Form(b"DM ", _SIZED, "<f8", 8, 0, 13),
         "CM": Form(b"CM ", _RANGED, "u1", 1, 8, 19), "CM2": Form(b"CM2 ", _RANGED, "<u2", 2, 0, 20),
         "CM3": Form(b"CM3 ", _RANGED, "u1", 1, 0, 20)}
_BY_TOKEN = {form.token: (kind, form) for kind, form in FORMS.items()}


class Head(NamedTuple):
    """The header of a matrix: what comes before its percentiles and elements, which lie from ``begin`` up to ``end``.

    ``kind`` is the token; minimum and range are 0 for dense matrices.
    """

    kind: str
    minimum: float
    range: float
    num_rows: int
    num_cols: int
    begin: int
    end: int


def head_of(data: bytes, at: int = 0) -> Head:
    """Return the head of the matrix, not sparse nor empty, that begins at byte ``at``. Raises Incomplete, Unusual."""
    kind_and_layout = _BY_TOKEN.get(data[at:at + 3]) or _BY_TOKEN.get(data[at:at + 4])
    if kind_and_layout is None:
        raise Unusual if len(data) >= at + 4 else Incomplete
    kind, (token, fields, _, element_bytes, column_bytes, head_bytes) = kind_and_layout
    begin = at + head_bytes
    if len(data) < begin:
        raise Incomplete
    if fields is _SIZED:
        minimum = range_ = 0.0
        rows_size, num_rows, columns_size, num_cols = _SIZED.unpack_from(data, at + len(token))
        if rows_size != 4 or columns_size != 4:
            raise Unusual
    else:
        minimum, range_, num_rows, num_cols = _RANGED.unpack_from(data, at + len(token))
    if num_rows <= 0 or num_cols <= 0:
        raise Unusual
    return Head(kind, minimum, range_, num_rows, num_cols, begin,
                begin + (num_rows * element_bytes + column_bytes) * num_cols)


def read_head(reader: TokenReader, kind: str) -> Head:
    """Read what follows the token ``kind`` of a binary matrix up to its percentiles and elements.

    Places count from the token. Both dimensions may be 0. Raises FormatError.
    """
    form = FORMS[kind]
    data = bytes(reader.raw(form.fields.size))
    try:
        return head_of(form.token + data)
    except Unusual:
        fields = form.fields.unpack(data)
        sized = form.fields is _SIZED
        num_rows, num_cols = fields[1::2] if sized else fields[2:]
        sizes = fields[0:3:2] if sized else (4, 4)
        if num_rows == num_cols == 0 and sizes == (4, 4):
            return Head(kind, 0.0, 0.0, 0, 0, form.head_bytes, form.head_bytes)
        in_bytes = f" in integers of {sizes[0]} and {sizes[1]} bytes" if sized else ""
        raise reader.error(f"expected the dimensions of a {'' if sized else 'compressed '}matrix, found {num_rows} x "
                           f"{num_cols}{in_bytes}") from None


def head_bytes(kind: str, num_rows: int, num_cols: int, minimum: float = 0.0, range: float = 0.0) -> bytes:
    """Return the bytes of a matrix before its percentiles and elements."""
    form = FORMS[kind]
    return form.token + (form.fields.pack(4, num_rows, 4, num_cols) if form.fields is _SIZED
                         else form.fields.pack(minimum, range, num_rows, num_cols))


class Part(NamedTuple):
    """Where a matrix lies in a value: ``kind`` is its token, which begins at byte ``first``; it ends before ``end``."""

    kind: str
    first: int
    end: int


def walk_matrix(walk: Walk) -> None:
    """Pass over a matrix of any form, noting a :class:`Part`."""
    first = walk.at
    if walk.data.startswith(b"SM ", first):
        kind = "SM"
        for _ in range(walk.integer(b"SM ")):
            token, dim_size, _, count_size, count = SPARSE_ROW.unpack(walk.take(SPARSE_ROW.size))
            if token != b"SV " or dim_size != 4 or count_size != 4 or count < 0:
                raise Unusual
            walk.skip(SPARSE_PAIR_BYTES * count)
    else:
        head = head_of(walk.data, first)
        kind = head.kind
        walk.take(len(kind) + 1)
        if kind in COMPRESSED:
            walk.skip(RANGE_BYTES)
        walk.take(head.begin - walk.at)
        walk.skip(head.end - head.begin)
    walk.parts.append(Part(kind, first - walk.begin, walk.at - walk.begin))
