"""Table values without tokens: scalars, integer vectors, pairs; and rows of (integer, number) pairs.

In text a value ends with its line; in binary every number has a size byte. Rows of pairs are the contents of sparse
matrices and of posteriors. Kaldi: BasicHolder, BasicVectorHolder, BasicVectorVectorHolder, BasicPairVectorHolder.
"""
from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.formats import kaldi_io_adapter
from nnet3py.io.holder import line_of
from nnet3py.io.tokens import SIZED_INT32, TEXT_FLOAT, TokenReader, TokenWriter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


_SIZED_FLOAT = np.dtype([("size", "i1"), ("value", "<f4")])
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_REAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INT32 = np.iinfo(np.int32)


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


# -- scalars ---------------------------------------------------------------------------------------------------------


def _scalar_word(reader: TokenReader) -> bytes:
    words = line_of(reader).split()
    if len(words) != 1:
        raise reader.error(f"expected one value on the line, found {len(words)}")
    return words[0]


def read_integer_value(reader: TokenReader) -> int:
    """Read an int32, in text the only word of its line."""
    if reader.binary:
        return reader.integer()
    return int(_int32s(reader, [_scalar_word(reader)])[0])


def write_integer_value(writer: TokenWriter, value: int) -> None:
    """Write an int32, in text with a blank before the newline as in Kaldi."""
    writer.integer(int(value))
    writer.newline_if_text()


def read_real_value(reader: TokenReader) -> float:
    """Read a float or double, in text the only word of its line."""
    if reader.binary:
        return reader.real()
    word = _scalar_word(reader)
    try:
        if not re.match(rb"[+-]?[0-9.]", word) or b"_" in word:
            raise ValueError                 # C++ streams read neither inf nor nan
        return float(word)
    except ValueError:
        raise reader.error(f"expected a number, found '{_shown(word)}'") from None


def write_real_value(writer: TokenWriter, value: float, double: bool) -> None:
    """Write a float, or a double if ``double``."""
    (writer.float64 if double else writer.float32)(value)
    writer.newline_if_text()


# -- integer vectors ---------------------------------------------------------------------------------------------------


def _int32s(reader: TokenReader, words: Sequence[bytes]) -> np.ndarray:
    """Parse the words of a text line as an int32 array."""
    try:
        if any(b"_" in word for word in words):      # Python takes 1_000 for an integer
            raise ValueError
        values = np.array(words).astype(np.int64) if words else np.zeros(0, dtype=np.int64)
    except (ValueError, OverflowError):
        bad = next((word for word in words if not _INTEGER.fullmatch(word)), words[0])
        raise reader.error(f"expected integers, found '{_shown(bad)}'") from None
    if values.size and (values.min() < _INT32.min or values.max() > _INT32.max):
        raise reader.error("expected 32-bit integers, found a larger one")
    return values.astype(np.int32)


def _sized_vectors(reader: TokenReader, count: int) -> list[np.ndarray]:
    """Read ``count`` binary int32 vectors, each after its length, in few calls since there may be one per frame."""
    lengths, pieces = [], []
    for _ in range(count):
        length = reader.integer()
        reader.check_count(length, SIZED_INT32.itemsize)
        lengths.append(length)
        pieces.append(reader.raw(length * SIZED_INT32.itemsize))
    data = np.frombuffer(b"".join(pieces), dtype=SIZED_INT32)
    if np.any(data["size"] != 4):
        raise reader.error("expected 4-byte integers, found another size")
    values, ends = np.ascontiguousarray(data["value"]), np.cumsum(lengths, dtype=np.int64).tolist()
    return [values[end - length:end] for length, end in zip(lengths, ends, strict=True)]


def _integers_text(values: np.ndarray) -> bytes:
    return b"".join(b"%d " % value for value in values.tolist())


def read_int_vector(reader: TokenReader) -> np.ndarray:
    """Read integers, such as an alignment, int32 (count,)."""
    if reader.binary:
        return kaldi_io_adapter.read_int_vector(reader)
    return _int32s(reader, line_of(reader).split())


def write_int_vector(writer: TokenWriter, value: ArrayLike) -> None:
    """Write int32 (count,)."""
    values = np.asarray(value, dtype=np.int32)
    if writer.binary:
        writer.integer(values.size)
        writer.integers(values)
    else:
        writer.raw(_integers_text(values) + b"\n")


def read_int_vectors(reader: TokenReader) -> list[np.ndarray]:
    """Read a list of int32 arrays; in text each is ended by a semicolon."""
    if reader.binary:
        count = reader.integer()
        reader.check_count(count, SIZED_INT32.itemsize)
        return _sized_vectors(reader, count)
    pieces = line_of(reader).split(b";")
    if pieces.pop().strip():
        raise reader.error("expected every list of integers to end with ';'")
    return [_int32s(reader, piece.split()) for piece in pieces]


def write_int_vectors(writer: TokenWriter, value: Sequence[ArrayLike]) -> None:
    """Write a list of int32 arrays."""
    vectors = [np.asarray(vector, dtype=np.int32) for vector in value]
    if writer.binary:
        writer.integer(len(vectors))
        lengths = np.array([vector.size for vector in vectors], dtype=np.int64)
        # Each vector's length stands before it and is stored as its integers are.
        starts = np.cumsum(lengths) - lengths
        writer.integers(np.insert(np.concatenate([*vectors, np.zeros(0, np.int32)]), starts, lengths))
    else:
        writer.raw(b"".join(_integers_text(vector) + b"; " for vector in vectors) + b"\n")


def read_int_pairs(reader: TokenReader) -> np.ndarray:
    """Read pairs of integers, int32 (count, 2); in text a semicolon separates the pairs."""
    if reader.binary:
        count = reader.integer()
        reader.check_count(count, 2 * SIZED_INT32.itemsize)
        return reader.integers(2 * count).reshape(count, 2)
    return _int32s(reader, _words_of_pairs(reader, _INTEGER, "integers")).reshape(-1, 2)


def _words_of_pairs(reader: TokenReader, form: re.Pattern[bytes], kind: str) -> list[bytes]:
    """Read a line of pairs of ``kind``, separated by semicolons; return the words, which match ``form``."""
    line = line_of(reader).strip()
    pairs = [piece.split() for piece in line.split(b";")] if line else []
    words = [word for pair in pairs for word in pair]
    if any(len(pair) != 2 for pair in pairs) or not all(map(form.fullmatch, words)):
        raise reader.error(f"expected pairs of {kind} with ';' between them")
    return words


def write_int_pairs(writer: TokenWriter, value: ArrayLike) -> None:
    """Write int32 (count, 2)."""
    pairs = np.asarray(value, dtype=np.int32).reshape(-1, 2)
    if writer.binary:
        writer.integer(len(pairs))
        writer.integers(pairs)
    else:
        writer.raw(b"; ".join(b"%d %d " % (a, b) for a, b in pairs.tolist()) + b"\n")


def read_float_pairs(reader: TokenReader) -> np.ndarray:
    """Read pairs of numbers, float32 (count, 2); in text a semicolon separates the pairs."""
    if reader.binary:
        count = reader.integer()
        reader.check_count(count, 2 * _SIZED_FLOAT.itemsize)
        values = reader.array(_SIZED_FLOAT, 2 * count)
        if np.any(values["size"] != 4):
            raise reader.error("expected 4-byte numbers, found another size")
        return values["value"].astype(np.float32).reshape(count, 2)
    words = _words_of_pairs(reader, _REAL, "numbers")
    with np.errstate(over="ignore"):
        return np.array([float(word) for word in words]).astype(np.float32).reshape(-1, 2)


def write_float_pairs(writer: TokenWriter, value: ArrayLike) -> None:
    """Write float32 (count, 2)."""
    pairs = np.asarray(value, dtype=np.float32).reshape(-1, 2)
    if writer.binary:
        data = np.empty(pairs.size, dtype=_SIZED_FLOAT)
        data["size"], data["value"] = 4, pairs.ravel()
        writer.integer(len(pairs))
        writer.raw(data.tobytes())
    else:
        writer.raw(b"; ".join((TEXT_FLOAT * 2) % (a, b) for a, b in pairs.tolist()) + b"\n")


_FLOAT_PAIR = np.dtype([("id_size", "i1"), ("id", "<i4"), ("value_size", "i1"), ("value", "<f4")])
_DOUBLE_PAIR = np.dtype([("id_size", "i1"), ("id", "<i4"), ("value_size", "i1"), ("value", "<f8")])
_VALUE_SIZE_AT = 5              # where in a pair the size byte of its value lies


def read_pair_rows(reader: TokenReader, num_rows: int, header: struct.Struct,
                   count_of: Callable[[tuple], int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read ``num_rows`` binary rows, each a header and pairs, whose number ``count_of`` returns from its fields.

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
    pairs = _decode_pairs(reader, kinds, order)
    row_starts = np.zeros(num_rows + 1, dtype=np.int64)
    np.cumsum(counts, out=row_starts[1:])
    return row_starts, *pairs


def _decode_pairs(reader: TokenReader, kinds: dict, order: list) -> tuple[np.ndarray, np.ndarray]:
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
    """Return the bytes of rows of (int32, float32) pairs; ``headers`` is a structured array (rows,)."""
    pairs = np.empty(len(ids), dtype=_FLOAT_PAIR)
    pairs["id_size"] = pairs["value_size"] = 4
    pairs["id"], pairs["value"] = ids, values
    counts = np.diff(row_starts)
    header_size, pair_size = headers.dtype.itemsize, _FLOAT_PAIR.itemsize
    data = np.empty(header_size * len(headers) + pair_size * len(pairs), dtype=np.uint8)
    header_at = header_size * np.arange(len(headers)) + pair_size * np.asarray(row_starts[:-1])
    pair_at = pair_size * np.arange(len(pairs)) + header_size * np.repeat(np.arange(1, len(headers) + 1), counts)
    put_records(data, header_at, headers)
    put_records(data, pair_at, pairs)
    return data.tobytes()


def put_records(data: np.ndarray, starts: np.ndarray, records: np.ndarray) -> None:
    """Write the bytes of structured ``records`` into ``data``, of one-byte elements, at the places ``starts``."""
    if len(records):
        places = starts[:, None] + np.arange(records.dtype.itemsize)
        data[places] = np.frombuffer(records.tobytes(), data.dtype).reshape(places.shape)


def text_pairs(ids: np.ndarray, values: np.ndarray) -> bytes:
    """Return the text ``id value `` of all pairs, one after the other."""
    numbers = [number for pair in zip(ids.tolist(), values.tolist(), strict=True) for number in pair]
    return b"%d %.7g " * len(ids) % tuple(numbers)
