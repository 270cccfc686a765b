"""Finding the matrices of features in blocks of a binary archive by their heads, which say how much follows. Light."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from nnet3py.formats.compressed_code import expect_decoding
from nnet3py.formats.layouts import COMPRESSED, Head, head_of
from nnet3py.io.holder import BINARY_HEADER
from nnet3py.io.skim import Entry, Incomplete, Unusual, key_before
from nnet3py.system import read_at

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
        """The value that begins, with its header, at byte ``at`` of the file with the descriptor ``source``.

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
