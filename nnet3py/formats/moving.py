"""Dense matrices that go from one archive to another as they are: they are found by their heads, and never read.

The system moves the bytes, from file to file or down a pipe. Light.
"""
from __future__ import annotations

from collections.abc import Iterator

from nnet3py.formats.layouts import head_of
from nnet3py.io.archive import Moved, Run
from nnet3py.io.skim import Incomplete, Unusual, key_before
from nnet3py.io.streams import InputStream
from nnet3py.system import read_at

_HEAD = 256                     # bytes; an entry with a longer key is left to whoever reads
_RUN = 1 << 23                  # bytes that are moved at once


def dense_runs(stream: InputStream) -> Iterator[Run]:
    """Yield the binary dense matrices of floats that come next in a file; ``stream`` is left where others begin."""
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
