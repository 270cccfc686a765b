"""Symbol tables as OpenFst's files have them: found in bytes without taking them apart, and read a symbol at a time."""
from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.engine.loop import Loop

_find_symbols = Loop("nnet3py.transducers.symbol_loops", "find_symbols", "u1* i8 i8 i8[] i4[] i8[] i8")
_hash_symbols = Loop("nnet3py.transducers.symbol_loops", "hash_symbols", "u1* i8[] i4[] u8[]")

SYMBOLS_MAGIC = 2125658996
_NOTHING = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)


def end_of_table(data: Any, at: int) -> int:
    """The place after a symbol table; -1 if the data end before it does, or are no symbol table.

    ``data`` is bytes, or anything that numpy can make a view of.
    """
    counted = _count(data, at)
    if counted is None:
        return -1
    at, count = counted
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    return int(_find_symbols(_address(bytes_), len(bytes_), at, *_NOTHING, count))


def tables_with(data: bytes, additions: Sequence[Mapping[str, int]]) -> bytes:
    """The bytes of symbol tables that follow each other, with more symbols at the end of each, by their numbers."""
    parts, at = [], 0
    for names in additions:
        counted, end = _count(data, at), end_of_table(data, at)
        assert counted is not None
        first, count = counted
        (available,) = struct.unpack_from("<q", data, first - 16)
        parts += [data[at:first - 16], struct.pack("<qq", max([available, *(n + 1 for n in names.values())]),
                                                   count + len(names)), data[first:end]]
        for name, number in names.items():
            encoded = name.encode()
            parts.append(struct.pack("<i", len(encoded)) + encoded + struct.pack("<q", number))
        at = end
    return b"".join(parts)


def _count(data: Any, at: int) -> tuple[int, int] | None:
    """Where a table's symbols begin, and how many there are."""
    size = len(data)
    if at + 8 > size or struct.unpack_from("<i", data, at)[0] != SYMBOLS_MAGIC:
        return None
    (length,) = struct.unpack_from("<i", data, at + 4)
    first = at + 8 + length
    if length < 0 or first + 16 > size:
        return None
    (count,) = struct.unpack_from("<q", data, first + 8)
    return (first + 16, count) if 0 <= count <= (size - first - 16) // 12 else None


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


class SymbolBytes:
    """A table whose symbols stay where they are, encoded, until they are asked for.

    Attributes
    ----------
    keys : int64 (symbols,), the number of each, in the table's order
    """

    def __init__(self, data: Any, at: int = 0) -> None:
        """Of the table at a place, which must be one (:func:`end_of_table`); the data are kept."""
        counted = _count(data, at)
        assert counted is not None
        first, count = counted
        self._data = np.frombuffer(data, dtype=np.uint8)
        self._places, self.keys = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        self._lengths = np.empty(count, dtype=np.int32)
        _find_symbols(_address(self._data), len(self._data), first, self._places, self._lengths, self.keys, count)

    def __len__(self) -> int:
        return len(self.keys)

    def symbol(self, place: int) -> bytes:
        """The symbol at a place in the table."""
        first = int(self._places[place])
        return self._data[first:first + int(self._lengths[place])].tobytes()

    def place_of_key(self, key: int) -> int:
        """The place of a number; -1 if there is none."""
        if 0 <= key < len(self) and self.keys[key] == key:
            return key
        order, keys = self._by_key
        at = int(np.searchsorted(keys, key))
        return int(order[at]) if at < len(keys) and keys[at] == key else -1

    def place_of_symbol(self, symbol: bytes) -> int:
        """The first place of a symbol; -1 if there is none."""
        order, hashes = self._by_hash
        wanted = np.empty(1, dtype=np.uint64)
        own = np.frombuffer(symbol, dtype=np.uint8)
        _hash_symbols(_address(own), np.zeros(1, dtype=np.int64), np.array([len(own)], dtype=np.int32), wanted)
        at = int(np.searchsorted(hashes, wanted[0]))
        while at < len(hashes) and hashes[at] == wanted[0]:
            if self.symbol(int(order[at])) == symbol:
                return int(order[at])
            at += 1
        return -1

    @cached_property
    def _by_key(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.keys, kind="stable")
        return order, self.keys[order]

    @cached_property
    def _by_hash(self) -> tuple[np.ndarray, np.ndarray]:
        hashes = np.empty(len(self), dtype=np.uint64)
        _hash_symbols(_address(self._data), self._places, self._lengths, hashes)
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        return order, hashes[order]
