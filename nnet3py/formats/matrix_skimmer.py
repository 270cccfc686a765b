"""Finding the matrices of features in blocks of a binary archive by their heads, which say how much follows. Light."""
from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from nnet3py.formats.compressed_code import expect_decoding
from nnet3py.io.skim import Entry, Incomplete, Unusual, key_before

_DENSE_HEAD = struct.Struct("<3xbibi")
_COMPRESSED_HEADS = {b"CM ": struct.Struct("<3xffii"), b"CM2": struct.Struct("<3xcffii"),
                     b"CM3": struct.Struct("<3xcffii")}
_BYTES_PER_ELEMENT = {"FM": 4, "CM": 1, "CM2": 2, "CM3": 1}
_LONGEST_HEAD = 20
_FIRST, _MOST = 1 << 15, 1 << 26       # bytes of a single value that are read at first, and that may follow
_HEADER = b"\0B"
BLOCK = 1 << 18                 # bytes; larger blocks come from the system anew each time, page by page
PERCENTILES = 8                 # bytes of a column in the CM form


class Head(NamedTuple):
    """What the bytes of a matrix say before its elements, or the percentiles of its columns, which begin at ``begin``.

    ``kind`` is ``FM``, ``CM``, ``CM2`` or ``CM3``; minimum and range are 0 for the first.
    """

    kind: str
    minimum: float
    range: float
    num_rows: int
    num_cols: int
    begin: int

    @property
    def end(self) -> int:
        """Where the matrix ends."""
        size = self.num_rows * self.num_cols * _BYTES_PER_ELEMENT[self.kind]
        return self.begin + size + (PERCENTILES * self.num_cols if self.kind == "CM" else 0)


def head_of(data: bytes, at: int = 0) -> Head:
    """The head of the matrix in binary form that begins at byte ``at``. Raises Incomplete, Unusual."""
    kind = data[at:at + 3]
    if kind == b"FM ":
        if len(data) < at + _DENSE_HEAD.size:
            raise Incomplete
        rows_size, num_rows, columns_size, num_cols = _DENSE_HEAD.unpack_from(data, at)
        sound = rows_size == columns_size == 4
        head = Head("FM", 0.0, 0.0, num_rows, num_cols, at + _DENSE_HEAD.size)
    else:
        if len(data) < at + _LONGEST_HEAD:
            raise Incomplete
        form = _COMPRESSED_HEADS.get(kind)
        if form is None:
            raise Unusual
        *blank, minimum, range_, num_rows, num_cols = form.unpack_from(data, at)
        sound = blank in ([], [b" "])
        head = Head(kind.decode().rstrip(), minimum, range_, num_rows, num_cols, at + form.size)
    if not sound or num_rows <= 0 or num_cols <= 0:
        raise Unusual
    return head


class Found(NamedTuple):
    """A matrix in a block of an archive: its key, where its token begins, its head, and where it ends."""

    key: bytes
    at: int
    head: Head
    end: int


class MatrixSkimmer:
    """Finds the matrices, dense ones of floats and compressed ones, of an archive.

    ``values(data, found)`` makes of those that were found in a block what the table's values are.
    """

    archive_bytes = 0

    def __init__(self, values: Callable[[bytes, list[Found]], list[Any]], block_bytes: int = BLOCK) -> None:
        self._values, self.block_bytes = values, block_bytes
        self._expects_decoding = False

    def entries(self, data: bytes) -> tuple[list[Entry], int, bool]:
        """Key and value of the entries in front, how many bytes they take, and whether the next one is unusual.

        If it is neither unusual nor found, the bytes end before it does.
        """
        found: list[Found] = []
        at, size, unusual = 0, len(data), False
        try:
            while at < size:
                key, begin = key_before(data, at)
                head = head_of(data, begin)
                end = head.end
                if end > size:
                    break
                found.append(Found(key, begin, head, end))
                at = end
        except Incomplete:
            pass
        except Unusual:
            unusual = True
        if not self._expects_decoding and any(one.head.kind != "FM" for one in found):
            self._expects_decoding = True
            expect_decoding(self.archive_bytes)
        values = self._values(data, found) if found else []
        return [(one.key, value) for one, value in zip(found, values, strict=True)], at, unusual

    def value_at(self, source: int, at: int) -> Any | None:
        """The value that begins, with its header, at byte ``at`` of the file with the descriptor ``source``.

        None if it must be read. Raises OSError.
        """
        data = os.pread(source, _FIRST, at)
        if not data.startswith(_HEADER):
            return None
        try:
            head = head_of(data, len(_HEADER))
        except (Incomplete, Unusual):
            return None
        missing = head.end - len(data)
        if missing > _MOST:
            return None
        if missing > 0:
            data += os.pread(source, missing, at + len(data))
        if len(data) < head.end:
            return None
        return self._values(data, [Found(b"", len(_HEADER), head, head.end)])[0]
