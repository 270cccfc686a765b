"""Dense matrices that go from one archive to another as they are: they are found by their heads, and never read.

What moves the bytes is the system, from file to file or down a pipe. Light.
"""
from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator

from nnet3py.io.archive import Moved, Run
from nnet3py.io.skim import KEY
from nnet3py.io.streams import InputStream

_ENTRY = re.compile(KEY + rb"FM \x04(.{9})", re.DOTALL)
_DIMENSIONS = struct.Struct("<ibi")
_HEAD = 256                     # bytes; an entry with a longer key is left to whoever reads
_RUN = 1 << 23                  # bytes that are moved at once
_FLOAT = 4


def dense_runs(stream: InputStream) -> Iterator[Run]:
    """Yield the binary dense matrices of floats that come next in a file; ``stream`` is left where others begin."""
    size = stream.size
    if size is None:
        return
    source, first = stream.fileno(), stream.tell()
    at = first
    entries: list[Moved] = []
    while at < size:
        head = _ENTRY.match(os.pread(source, _HEAD, at))
        if head is None:
            break
        num_rows, size_of_int, num_cols = _DIMENSIONS.unpack(head[2])
        end = at + head.end() + _FLOAT * num_rows * num_cols
        if num_rows <= 0 or num_cols <= 0 or size_of_int != 4 or end > size:
            break
        entries.append(Moved(head[1].decode("utf-8", "surrogateescape"), at - first + head.end(1) + 1, num_rows))
        at = end
        if at - first >= _RUN:
            yield Run(first, at, entries)
            first, entries = at, []
            stream.seek(at)
    if entries:
        yield Run(first, at, entries)
        stream.seek(at)
