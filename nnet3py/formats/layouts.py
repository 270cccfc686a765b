"""Binary layouts of matrices, and functions that find matrices in archives by their headers, for moving them. Light.

A matrix begins with its token and a blank. In dense ones rows and columns follow, each an int32 with its size byte; in
compressed ones minimum, range, rows and columns, without size bytes, then data of each column (percentiles). The
elements are last. A sparse one is the token, the number of rows with its size byte, and for each row a header and its
elements. Headers give the number of bytes that follow, so that matrices can be found without reading all of them.
Kaldi: Matrix, CompressedMatrix, SparseMatrix.
"""
from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py.formats.compressed_code import expect_decoding
from nnet3py.io.archive import Moved, Run
from nnet3py.io.holder import BINARY_HEADER
from nnet3py.io.skim import Entry, EntryFinder, Incomplete, Unusual, Walk, key_before
from nnet3py.io.streams import InputStream
from nnet3py.system import read_at

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader

_SIZED = struct.Struct("<bibi")                # size of an integer and rows, the same and columns
_RANGED = struct.Struct("<ffii")               # minimum, range, rows, columns
RANGE_BYTES = 8                                # of the first two
LONGEST_HEAD = 20                              # bytes
COMPRESSED = ("CM", "CM2", "CM3")
DENSE = ("FM", "DM")

_FIRST, _MOST = 1 << 15, 1 << 26       # bytes of a single value that are read at first, and that may follow
BLOCK = 1 << 18                 # bytes; memory of larger blocks is not reused by malloc
_HEAD = 256                     # bytes; entries with longer keys are read otherwise
_RUN = 1 << 23                  # bytes that are moved at once

SPARSE_HEAD_BYTES = 8                          # SM, a blank, and the sized number of rows
SPARSE_ROW = struct.Struct("<3sbibi")          # SV and a blank, size and dimension, size and number of elements
SPARSE_PAIR_BYTES = 10                         # index and value, each with its size byte


class Form(NamedTuple):
    """The binary layout of a kind of matrices."""

    token: bytes                # with its blank
    fields: struct.Struct       # what follows the token
    element: str                # numpy's name of the type of elements
    element_bytes: int
    column_bytes: int           # bytes of percentiles per column
    head_bytes: int             # of the token and the fields


FORMS = {"FM": Form(b"FM ", _SIZED, "<f4", 4, 0, 13), "DM": Form(b"DM ", _SIZED, "<f8", 8, 0, 13),
         "CM": Form(b"CM ", _RANGED, "u1", 1, 8, 19), "CM2": Form(b"CM2 ", _RANGED, "<u2", 2, 0, 20),
         "CM3": Form(b"CM3 ", _RANGED, "u1", 1, 0, 20)}
_BY_TOKEN = {form.token: (kind, form) for kind, form in FORMS.items()}


class Head(NamedTuple):
    """The header of a matrix. Percentiles and elements are the bytes ``begin`` to ``end`` - 1.

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
    """Parse the header of a dense or compressed matrix at byte ``at``.

    Raises Incomplete if the data end in it, Unusual for a sparse or empty matrix and for other bytes.
    """
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
    """Read the header of a binary matrix after its token ``kind``; FormatError for invalid dimensions.

    ``begin`` and ``end`` count from the token. Both dimensions may be 0.
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
    """Return the bytes of a matrix's header, up to its percentiles and elements."""
    form = FORMS[kind]
    return form.token + (form.fields.pack(4, num_rows, 4, num_cols) if form.fields is _SIZED
                         else form.fields.pack(minimum, range, num_rows, num_cols))


class Part(NamedTuple):
    """The position of a matrix in a value: from byte ``first`` to ``end`` - 1; ``kind`` is its token."""

    kind: str
    first: int
    end: int


def walk_matrix(walk: Walk) -> None:
    """Advance ``walk`` over a matrix of any form, and append its :class:`Part` to ``walk.parts``."""
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


# -- finding matrices in archives, by their heads ----------------------------------------------------------------------


class Found(NamedTuple):
    """A matrix in a block of an archive: its key, the byte where its token begins, and its header."""

    key: bytes
    at: int
    head: Head


class MatrixSkimmer(EntryFinder):
    """An EntryFinder for archives of dense float matrices and compressed ones.

    ``values(data, matrices)`` is called with the matrices found in a block of bytes, and returns the table's values.
    """

    archive_bytes = 0

    def __init__(self, values: Callable[[bytes, list[Found]], list[Any]], block_bytes: int = BLOCK) -> None:
        self._values, self.block_bytes = values, block_bytes
        self._expects_decoding = False

    def entries(self, data: bytes) -> tuple[list[Entry], int, bool]:
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


def dense_runs(stream: InputStream) -> Iterator[Run]:
    """Yield runs of entries with dense float matrices from the position of ``stream``, which advances over them.

    The runs end before the first entry of another kind.
    """
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
