"""Compact coding of lists of indexes and of cindexes, (node, index) pairs. Both begin with ``<I1V>``.

An index close to the one before takes one byte, any other 16 bytes. In lists of cindexes, a marker and the node come
before each run of rows of one node, and an index with the next n takes one byte, too. Kaldi: ReadIndexVector,
WriteIndexVector, ReadCindexVector, WriteCindexVector.
"""
from __future__ import annotations

import functools
import re
from collections.abc import Callable

import numpy as np

from nnet3py.formats.simple_values import put_records
from nnet3py.io.tokens import TokenReader, TokenWriter

LIMIT = 125                    # smaller changes of t, either way, fit into the byte
ESCAPE = 127                   # the byte before an index in full
SMALLEST_TEXT = len("<I1> 0 0 0")
_REMEMBERED = 64               # decoded lists that are kept
FULL = np.dtype([("escape", "i1"), ("n_size", "i1"), ("n", "<i4"), ("t_size", "i1"), ("t", "<i4"),
                  ("x_size", "i1"), ("x", "<i4")])


def read_index_vector(reader: TokenReader) -> np.ndarray:
    """Read a list of indexes, int32 (rows, 3), columns n, t, x; the array may be read-only."""
    count = _read_count(reader, "indexes")
    if reader.binary:
        data, escapes = _read_index_codes(reader.raw, count)
        try:
            return _decode_indexes(bytes(data), tuple(escapes), count)
        except ValueError as error:
            raise reader.error(str(error)) from None
    indexes = np.empty((count, 3), dtype=np.int32)
    for row in indexes:
        reader.expect("<I1>")
        row[:] = reader.integer(), reader.integer(), reader.integer()
    return indexes


def _read_count(reader: TokenReader, what: str) -> int:
    count = reader.tagged("<I1V>", TokenReader.integer)
    reader.check_count(count, 1 if reader.binary else SMALLEST_TEXT, what)
    return count


def _read_index_codes(read: Callable[[int], bytes | bytearray], count: int) -> tuple[bytearray, list[int]]:
    """Read ``count`` coded indexes; return the bytes, and the positions of the 16-byte codes.

    The number of bytes is known only at the end, so the least number that must follow is read repeatedly.
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
def _decode_indexes(data: bytes, escapes: tuple[int, ...], count: int) -> np.ndarray:
    """Decode ``count`` indexes, int32 (count, 3), read-only; cached, since examples have few distinct lists.

    ``escapes`` are the positions of the 16-byte codes.
    """
    raw = np.frombuffer(data, dtype=np.int8)
    steps = raw
    if escapes:
        full, full_bytes = _records(raw, np.array(escapes), FULL)
        keep = np.ones(len(raw), dtype=bool)
        keep[full_bytes[:, 1:]] = False
        steps = raw[keep]
    is_full = steps == ESCAPE
    if np.any((np.abs(steps.astype(np.int16)) >= LIMIT) & ~is_full):
        raise ValueError("expected a list of indexes, found a byte that is not a code")
    indexes = np.zeros((count, 3), dtype=np.int32)
    times = np.cumsum(np.where(is_full, 0, steps), dtype=np.int32)
    if escapes:
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
    writer.tagged("<I1V>", TokenWriter.integer, len(indexes))
    if writer.binary:
        writer.raw(encode(indexes))
        return
    writer.raw(b"".join(b"<I1> %d %d %d " % (n, t, x) for n, t, x in indexes.tolist()))


def encode(indexes: np.ndarray) -> bytes:
    """Return the bytes of coded indexes, without the token and the count before them."""
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
    put_records(data, starts[~short], _in_full(indexes[~short]))
    return data.tobytes()


def _in_full(indexes: np.ndarray) -> np.ndarray:
    full = np.empty(len(indexes), dtype=FULL)
    full["escape"] = ESCAPE
    full["n_size"] = full["t_size"] = full["x_size"] = 4
    full["n"], full["t"], full["x"] = indexes.T
    return full


FIRST_LIMIT = 125              # smaller times, either way, fit into the byte of the first row
CINDEX_LIMIT = 124                    # smaller changes of time fit into the byte of any other row
SAME_TIME = 125                # this byte plus 0 or 1: the same t and x, and n greater by so much
MARKER = ord("|")              # a sized node number and the byte of a row follow
_NODE = np.dtype([("marker", "i1"), ("size", "i1"), ("node", "<i4")])
_SPECIAL = re.compile(bytes((ord("["), MARKER, ESCAPE, ord("]"))))


def read_cindex_vector(reader: TokenReader) -> tuple[np.ndarray, np.ndarray]:
    """Read a list of cindexes: nodes int32 (rows,), indexes int32 (rows, 3), columns n, t, x."""
    count = _read_count(reader, "cindexes")
    if not reader.binary:
        return _read_cindex_text(reader, count)
    data, markers, escapes = _read_cindex_codes(reader, count)
    try:
        return _decode_cindexes(data, markers, escapes, count)
    except ValueError as error:
        raise reader.error(str(error)) from None


def _read_cindex_text(reader: TokenReader, count: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, indexes = np.empty(count, dtype=np.int32), np.empty((count, 3), dtype=np.int32)
    node = -1
    for row in range(count):
        if reader.peek_byte() in (b"[", b"]"):
            if row:
                _expect_byte(reader, b"]")
            _expect_byte(reader, b"[")
            node = reader.integer()
            _expect_byte(reader, b":")
        elif not row:
            raise reader.error("expected [ before a list of cindexes")
        reader.expect("<I1>")
        nodes[row] = node
        indexes[row] = reader.integer(), reader.integer(), reader.integer()
    if count:
        _expect_byte(reader, b"]")
    return nodes, indexes


def _expect_byte(reader: TokenReader, byte: bytes) -> None:
    if reader.peek_byte() != byte:
        raise reader.error(f"expected {byte.decode()} in a list of cindexes, found {reader.peek(1)!r}")
    reader.raw(1)


def _read_cindex_codes(reader: TokenReader, count: int) -> tuple[bytes, list[tuple[int, int]], list[int]]:
    """Read ``count`` coded cindexes: bytes, (position, row that follows) of each marker, positions of 16-byte codes.

    The number of bytes is known only at the end, so the least number that must follow is read repeatedly.
    """
    data = bytearray()
    markers: list[tuple[int, int]] = []
    escapes: list[int] = []
    position = done = 0
    after_marker = False
    while done < count:
        missing = position + count - done - len(data)
        if missing > 0:
            data += reader.raw(missing)
        marker = None if after_marker else _SPECIAL.search(data, position)
        special = position if after_marker else marker.start() if marker else len(data)
        done += special - position
        if special == len(data):
            position = special
        elif data[special] == MARKER and not after_marker:
            markers.append((special, done))
            position, after_marker = special + _NODE.itemsize, True
        else:
            full = data[special] == ESCAPE
            if full:
                escapes.append(special)
            position, after_marker = special + (FULL.itemsize if full else 1), False
            done += 1
    if position > len(data):
        data += reader.raw(position - len(data))
    return bytes(data), markers, escapes


def _decode_cindexes(data: bytes, markers: list[tuple[int, int]], escapes: list[int],
            count: int) -> tuple[np.ndarray, np.ndarray]:
    if not count:
        return np.zeros(0, dtype=np.int32), np.zeros((0, 3), dtype=np.int32)
    if not markers or markers[0][1] != 0:
        raise ValueError("expected a list of cindexes that begins with a node")
    raw = np.frombuffer(data, dtype=np.int8)
    marker_places, marker_rows = np.array(markers).T
    node_records, node_bytes = _records(raw, marker_places, _NODE)
    full, full_bytes = _records(raw, np.array(escapes, dtype=np.int64), FULL)
    keep = np.ones(len(raw), dtype=bool)
    keep[node_bytes] = False
    keep[full_bytes[:, 1:]] = False
    codes = raw[keep].astype(np.int64)
    sizes = [node_records["size"], *(full[name] for name in ("n_size", "t_size", "x_size"))]
    if any((size != 4).any() for size in sizes) or (codes <= -FIRST_LIMIT).any():
        raise ValueError("expected a list of cindexes, found a byte that is not a code")
    is_full, next_n = codes == ESCAPE, (codes >= SAME_TIME) & (codes != ESCAPE)
    steps = np.zeros((count, 3), dtype=np.int64)
    steps[:, 0] = np.where(next_n, codes - SAME_TIME, 0)
    steps[:, 1] = np.where(is_full | next_n, 0, codes)
    indexes = np.cumsum(steps, axis=0)
    rows = np.flatnonzero(is_full)
    if len(rows):
        values = np.stack([full["n"], full["t"], full["x"]], axis=1).astype(np.int64)
        lengths = np.diff(np.append(rows, count))
        indexes[rows[0]:] += np.repeat(values - indexes[rows], lengths, axis=0)
    nodes = np.repeat(node_records["node"], np.diff(np.append(marker_rows, count)))
    return nodes.astype(np.int32), indexes.astype(np.int32)


def _records(raw: np.ndarray, starts: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return the records of ``dtype`` at the positions ``starts``, and the positions of their bytes (records, size)."""
    places = starts[:, None] + np.arange(dtype.itemsize)
    return np.frombuffer(raw[places].tobytes(), dtype=dtype), places


def write_cindex_vector(writer: TokenWriter, nodes: np.ndarray, indexes: np.ndarray) -> None:
    """Write a list of cindexes: nodes int32 (rows,), indexes int32 (rows, 3)."""
    writer.tagged("<I1V>", TokenWriter.integer, len(nodes))
    if not len(nodes):
        return
    begins = np.concatenate(([True], nodes[1:] != nodes[:-1]))
    if writer.binary:
        writer.raw(_encode_cindexes(nodes, indexes, begins))
        return
    parts: list[bytes] = []
    for node, begin, index in zip(nodes.tolist(), begins.tolist(), indexes.tolist(), strict=True):
        if begin:
            parts.append(b"%b[%d :" % (b"]" if parts else b"", node))
        parts.append(b"<I1> %d %d %d " % tuple(index))
    writer.raw(b"".join(parts) + b"]")


def _encode_cindexes(nodes: np.ndarray, indexes: np.ndarray, begins: np.ndarray) -> bytes:
    before = np.zeros((len(nodes), 3), dtype=np.int64)
    before[1:] = indexes[:-1]
    n, t, x = (indexes - before).T
    limits = np.full(len(nodes), CINDEX_LIMIT)
    limits[0] = FIRST_LIMIT
    by_time = (n == 0) & (x == 0) & (np.abs(t) < limits)
    by_n = ~by_time & (t == 0) & (x == 0) & ((n == 0) | (n == 1))
    is_full = ~by_time & ~by_n
    code_sizes = np.where(is_full, FULL.itemsize, 1)
    sizes = code_sizes + _NODE.itemsize * begins
    code_places = np.cumsum(sizes) - code_sizes
    data = np.empty(int(sizes.sum()), dtype=np.int8)
    data[code_places] = np.where(is_full, ESCAPE, np.where(by_time, t, SAME_TIME + n))
    put_records(data, code_places[is_full], _in_full(indexes[is_full]))
    runs = np.empty(int(begins.sum()), dtype=_NODE)
    runs["marker"], runs["size"], runs["node"] = MARKER, 4, nodes[begins]
    put_records(data, code_places[begins] - _NODE.itemsize, runs)
    return data.tobytes()
