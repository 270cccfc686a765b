"""Rows of (integer, number) pairs, each with a size byte of its own: the body of sparse matrices and of posteriors."""
from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from nnet3py.io.tokens import TokenReader

_FLOAT_PAIR = np.dtype([("id_size", "i1"), ("id", "<i4"), ("value_size", "i1"), ("value", "<f4")])
_DOUBLE_PAIR = np.dtype([("id_size", "i1"), ("id", "<i4"), ("value_size", "i1"), ("value", "<f8")])
_VALUE_SIZE_AT = 5              # where in a pair the size byte of its value lies


def read_pair_rows(reader: TokenReader, num_rows: int, header: struct.Struct,
                   count_of: Callable[[tuple], int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read ``num_rows`` rows from a binary file: a header each, and as many pairs as ``count_of(its fields)`` says.

    Returns
    -------
    row_starts : int64 (num_rows + 1,)
    ids : int32 (pairs,)
    values : float32 (pairs,)
    """
    reader.check_count(num_rows, header.size, "rows")
    counts = []
    kinds: dict[np.dtype, list[bytes | bytearray]] = {_FLOAT_PAIR: []}
    order = []                  # which kind each piece is of; nearly always all of one
    for _ in range(num_rows):
        count = count_of(header.unpack(reader.raw(header.size)))
        reader.check_count(count, _FLOAT_PAIR.itemsize, "pairs")
        counts.append(count)
        if not count:
            continue
        piece = reader.raw(count * _FLOAT_PAIR.itemsize)
        kind = _FLOAT_PAIR
        if piece[_VALUE_SIZE_AT] == 8:
            kind = _DOUBLE_PAIR
            piece = bytes(piece) + bytes(reader.raw(count * (kind.itemsize - _FLOAT_PAIR.itemsize)))
        kinds.setdefault(kind, []).append(piece)
        order.append((kind, count))
    pairs = _decode(reader, kinds, order)
    row_starts = np.zeros(num_rows + 1, dtype=np.int64)
    np.cumsum(counts, out=row_starts[1:])
    return row_starts, *pairs


def _decode(reader: TokenReader, kinds: dict, order: list) -> tuple[np.ndarray, np.ndarray]:
    decoded = {}
    for kind, pieces in kinds.items():
        pairs = np.frombuffer(b"".join(pieces), dtype=kind)
        if np.any(pairs["id_size"] != 4) or np.any(pairs["value_size"] != kind["value"].itemsize):
            raise reader.error("expected pairs of a 4-byte integer and a number, found another size byte")
        with np.errstate(over="ignore"):
            decoded[kind] = pairs["id"].astype(np.int32), pairs["value"].astype(np.float32)
    if len(decoded) == 1:
        return decoded[_FLOAT_PAIR]
    position = dict.fromkeys(decoded, 0)
    ids, values = [], []
    for kind, count in order:
        part = slice(position[kind], position[kind] + count)
        position[kind] += count
        ids.append(decoded[kind][0][part])
        values.append(decoded[kind][1][part])
    return np.concatenate(ids), np.concatenate(values)


def pair_rows_bytes(headers: np.ndarray, row_starts: np.ndarray, ids: np.ndarray, values: np.ndarray) -> bytes:
    """The bytes of rows of pairs, float values; ``headers`` is a structured array (rows,)."""
    pairs = np.empty(len(ids), dtype=_FLOAT_PAIR)
    pairs["id_size"] = pairs["value_size"] = 4
    pairs["id"], pairs["value"] = ids, values
    counts = np.diff(row_starts)
    header_size, pair_size = headers.dtype.itemsize, _FLOAT_PAIR.itemsize
    data = np.empty(header_size * len(headers) + pair_size * len(pairs), dtype=np.uint8)
    header_at = header_size * np.arange(len(headers)) + pair_size * np.asarray(row_starts[:-1])
    pair_at = pair_size * np.arange(len(pairs)) + header_size * np.repeat(np.arange(1, len(headers) + 1), counts)
    _scatter(data, header_at, headers)
    _scatter(data, pair_at, pairs)
    return data.tobytes()


def _scatter(data: np.ndarray, starts: np.ndarray, records: np.ndarray) -> None:
    if len(records):
        size = records.dtype.itemsize
        data[starts[:, None] + np.arange(size)] = np.frombuffer(records.tobytes(), np.uint8).reshape(-1, size)


def text_pairs(ids: np.ndarray, values: np.ndarray) -> bytes:
    """``id value `` for each pair."""
    numbers = [number for pair in zip(ids.tolist(), values.tolist(), strict=True) for number in pair]
    return b"%d %.7g " * len(ids) % tuple(numbers)
