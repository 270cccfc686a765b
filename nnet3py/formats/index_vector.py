"""The ``<I1V>`` code of index lists: one byte for an index close to the one before, 16 bytes for any other.

Kaldi: ReadIndexVector and WriteIndexVector of ``nnet-common.cc``.
"""
from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from nnet3py.io.tokens import TokenReader, TokenWriter

LIMIT = 125                    # smaller changes of t, either way, fit into the byte
ESCAPE = 127                   # the byte before an index in full
SMALLEST_TEXT = len("<I1> 0 0 0")
_REMEMBERED = 64               # decoded lists that are kept
FULL = np.dtype([("escape", "i1"), ("n_size", "i1"), ("n", "<i4"), ("t_size", "i1"), ("t", "<i4"),
                  ("x_size", "i1"), ("x", "<i4")])


def read_index_vector(reader: TokenReader) -> np.ndarray:
    """Read a list of indexes: int32 (rows, 3), columns n, t, x; it may be read-only."""
    count = _read_count(reader)
    if reader.binary:
        data, escapes = _read_codes(reader.raw, count)
        try:
            return _decode(bytes(data), tuple(escapes), count)
        except ValueError as error:
            raise reader.error(str(error)) from None
    indexes = np.empty((count, 3), dtype=np.int32)
    for row in indexes:
        reader.expect("<I1>")
        row[:] = reader.integer(), reader.integer(), reader.integer()
    return indexes


def _read_count(reader: TokenReader) -> int:
    reader.expect("<I1V>")
    count = reader.integer()
    reader.check_count(count, 1 if reader.binary else SMALLEST_TEXT, "indexes")
    return count


def _read_codes(read: Callable[[int], bytes | bytearray], count: int) -> tuple[bytearray, list[int]]:
    """The bytes of ``count`` coded indexes, and where among them the full ones begin.

    The length is known only when all are seen, so the least number of bytes that must be there is read, again and
    again.
    """
    data = bytearray(read(count))
    escapes = []
    position = done = 0
    while done < count:
        escape = data.find(ESCAPE, position)
        if escape < 0:
            done += len(data) - position
            position = len(data)
        else:
            escapes.append(escape)
            done += escape - position + 1
            position = escape + FULL.itemsize
        missing = position + (count - done) - len(data)
        if missing > 0:
            data += read(missing)
    return data, escapes


@functools.lru_cache(maxsize=_REMEMBERED)
def _decode(data: bytes, escapes: tuple[int, ...], count: int) -> np.ndarray:
    """The indexes of the codes, read-only: the examples of an archive mostly have the same few lists of them."""
    raw = np.frombuffer(data, dtype=np.int8)
    steps = raw
    if escapes:
        starts = np.array(escapes)
        keep = np.ones(len(raw), dtype=bool)
        payload = starts[:, None] + np.arange(1, FULL.itemsize)
        keep[payload] = False
        steps = raw[keep]
    is_full = steps == ESCAPE
    if np.any((np.abs(steps.astype(np.int16)) >= LIMIT) & ~is_full):
        raise ValueError("expected a list of indexes, found a byte that is not a code")
    indexes = np.zeros((count, 3), dtype=np.int32)
    times = np.cumsum(np.where(is_full, 0, steps), dtype=np.int32)
    if escapes:
        full = np.frombuffer(raw[starts[:, None] + np.arange(FULL.itemsize)].tobytes(), dtype=FULL)
        if any(np.any(full[name] != 4) for name in ("n_size", "t_size", "x_size")):
            raise ValueError("expected an index of three 4-byte integers, found another size")
        rows = np.flatnonzero(is_full)
        lengths = np.diff(np.append(rows, count))
        first = rows[0]
        indexes[first:, 0] = np.repeat(full["n"], lengths)
        indexes[first:, 2] = np.repeat(full["x"], lengths)
        times[first:] += np.repeat(full["t"] - times[rows], lengths)
    indexes[:, 1] = times
    indexes.flags.writeable = False
    return indexes


def write_index_vector(writer: TokenWriter, indexes: np.ndarray) -> None:
    """Write a list of indexes, int32 (rows, 3), columns n, t, x."""
    writer.token("<I1V>")
    writer.integer(len(indexes))
    if writer.binary:
        writer.raw(encode(indexes))
        return
    writer.raw(b"".join(b"<I1> %d %d %d " % (n, t, x) for n, t, x in indexes.tolist()))


def encode(indexes: np.ndarray) -> bytes:
    """The bytes of the coded indexes, without token and count."""
    count = len(indexes)
    if count == 0:
        return b""
    before = np.zeros((count, 3), dtype=np.int64)
    before[1:] = indexes[:-1]
    steps = indexes - before
    short = (np.abs(steps[:, 1]) < LIMIT) & (steps[:, 0] == 0) & (steps[:, 2] == 0)
    if short.all():
        return steps[:, 1].astype(np.int8).tobytes()
    sizes = np.where(short, 1, FULL.itemsize)
    starts = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), dtype=np.int8)
    data[starts[short]] = steps[short, 1]
    rows = np.flatnonzero(~short)
    full = np.empty(len(rows), dtype=FULL)
    full["escape"] = ESCAPE
    full["n_size"] = full["t_size"] = full["x_size"] = 4
    full["n"], full["t"], full["x"] = indexes[rows].T
    payload = starts[rows][:, None] + np.arange(FULL.itemsize)
    data[payload] = np.frombuffer(full.tobytes(), np.int8).reshape(len(rows), -1)
    return data.tobytes()
