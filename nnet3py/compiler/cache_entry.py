"""A computation as bytes that are read fast: arrays of integers, each stored in as few bytes as its values need.

This is a format of our own, for the cache on disk; Kaldi's is in computation_file.py. Many matrices have the same rows,
whose lists are stored once.

The bytes are: ``MAGIC``; the key, 64 letters; a CRC-32 of all that follows the next number; the number of arrays; for
each its type and its length; then the arrays, in the order of ``_Arrays``. All numbers are little-endian.
"""
from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nnet3py.compiler.commands import KALDI_TYPES, NUM_ARGS, Command
from nnet3py.compiler.computation import Computation, MatrixDebugInfo, MatrixInfo, SubMatrix
from nnet3py.compiler.computation_file import read_precomputed_indexes
from nnet3py.components.base import Precomputed
from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader, TokenWriter

MAGIC = b"nnet3py computation 1\n"
KEY_LENGTH = 64
_INTEGERS = ("|i1", "<i2", "<i4")
_TYPES = (*_INTEGERS, "<f8", "|u1")
_TYPES_OF = {"command_alphas": (3,), "precomputed_indexes": (4,)}      # of _TYPES; of all others, the integers
_HEAD = struct.Struct(f"<{len(MAGIC)}s{KEY_LENGTH}sII")
_ARRAY = struct.Struct("<BQ")
_COMMAND_TYPES = KALDI_TYPES


class _Arrays(NamedTuple):
    """What is stored, in this order; ``…_sizes`` tells how the list before it is cut into pieces."""

    need_model_derivative: np.ndarray       # one number
    matrices: np.ndarray                    # 3 for each
    submatrices: np.ndarray                 # 5 for each
    command_types: np.ndarray
    command_alphas: np.ndarray
    command_args: np.ndarray                # 7 for each
    indexes: np.ndarray
    indexes_sizes: np.ndarray
    indexes_multi: np.ndarray               # 2 for each
    indexes_multi_sizes: np.ndarray
    indexes_ranges: np.ndarray              # 2 for each
    indexes_ranges_sizes: np.ndarray
    rows_n: np.ndarray                      # of all different lists of rows
    rows_t: np.ndarray
    rows_x: np.ndarray
    rows_sizes: np.ndarray
    nodes: np.ndarray                       # of all different lists of nodes
    nodes_sizes: np.ndarray
    debug_info: np.ndarray                  # 3 for each matrix: lists of nodes and of rows, is it a derivative
    precomputed_rows: np.ndarray            # 2 for each: which lists of rows
    precomputed_indexes: np.ndarray         # bytes, as Kaldi writes them


class _Pool:
    """Different lists of int32, numbered; equal ones have the same number."""

    def __init__(self) -> None:
        self.lists: list[np.ndarray] = []
        self._number_of: dict[bytes, int] = {}
        self._number_of_object: dict[int, int] = {}      # saves looking at the many that are the same object

    def number(self, array: np.ndarray) -> int:
        """The number of an array of int32, which is added if no list is equal to it."""
        if id(array) not in self._number_of_object:
            number = self._number_of.setdefault(array.tobytes(), len(self.lists))
            if number == len(self.lists):
                self.lists.append(array)
            self._number_of_object[id(array)] = number
        return self._number_of_object[id(array)]


# -- writing -----------------------------------------------------------------------------------------------------------


def to_bytes(computation: Computation, key: str) -> bytes:
    """The entry for a computation, fused commands as their parts."""
    return _packed(_to_arrays(computation.unfused()), key)


def _packed(arrays: _Arrays, key: str) -> bytes:
    stored = [_narrow(array) for array in arrays]
    body = b"".join([*(_ARRAY.pack(_TYPES.index(array.dtype.str), array.size) for array in stored),
                     *(array.tobytes() for array in stored)])
    return _HEAD.pack(MAGIC, key.encode(), zlib.crc32(body), len(stored)) + body


def _narrow(array: np.ndarray) -> np.ndarray:
    """The same numbers, flat, in the smallest type that holds them."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "i":
        least, greatest = (int(flat.min()), int(flat.max())) if flat.size else (0, 0)
        name = next(name for name in _INTEGERS if np.iinfo(name).min <= least and greatest <= np.iinfo(name).max)
        return flat.astype(name)
    return flat.astype("<f8" if flat.dtype.kind == "f" else "|u1")


def _to_arrays(computation: Computation) -> _Arrays:
    rows, nodes = _Pool(), _Pool()
    debug_info = [(nodes.number(info.nodes), rows.number(info.indexes), info.is_deriv)
                  for info in computation.debug_info]
    precomputed_rows = [tuple(map(rows.number, pair)) for pair in computation.precomputed_rows[1:]]
    precomputed = io.BytesIO()
    for indexes in computation.precomputed_indexes[1:]:
        indexes.write(TokenWriter(precomputed, True))
    all_rows, rows_sizes = _joined(rows.lists, 3)
    commands = computation.commands
    return _Arrays(
        _int32([computation.need_model_derivative]), _int32(computation.matrices), _int32(computation.submatrices),
        _int32([command.type for command in commands]), np.array([command.alpha for command in commands], np.float64),
        _int32([command.args
                for command in commands]), *_joined(computation.indexes), *_joined(computation.indexes_multi, 2),
        *_joined(computation.indexes_ranges, 2), all_rows[:, 0], all_rows[:, 1], all_rows[:, 2], rows_sizes,
        *_joined(nodes.lists), _int32(debug_info), _int32(precomputed_rows),
        np.frombuffer(precomputed.getvalue(), np.uint8))


def _int32(values: Sequence[Any]) -> np.ndarray:
    return np.array(values, np.int32)


def _joined(lists: Sequence[np.ndarray], width: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The lists one after the other, (elements, width) or flat for a width of 0, and the length of each."""
    empty = np.zeros((0, width) if width else 0, np.int32)
    return np.concatenate([empty, *lists]).astype(np.int32, copy=False), _int32([len(values) for values in lists])


# -- reading -----------------------------------------------------------------------------------------------------------


def from_bytes(data: bytes, key: str) -> Computation:
    """The computation of an entry.

    Raises
    ------
    FormatError : it is not an entry, one of another key, or damaged; what passes must still go through check_loaded
    """
    arrays = _Arrays(*_read_arrays(data, key))
    if arrays.need_model_derivative.size != 1:
        raise _wrong("the arrays do not fit each other")
    numbers = (arrays.matrices, arrays.submatrices, arrays.debug_info, arrays.precomputed_rows)
    if any(array.min(initial=0) < 0 for array in numbers):
        raise _wrong("a negative size or number")
    rows = _cut(_rows(arrays.rows_n, arrays.rows_t, arrays.rows_x), arrays.rows_sizes)
    nodes = _cut(arrays.nodes, arrays.nodes_sizes)
    debug_info = _shaped(arrays.debug_info, 3)
    precomputed_rows = _shaped(arrays.precomputed_rows, 2)
    if max(debug_info[:, 1].max(initial=-1), precomputed_rows.max(initial=-1)) >= len(rows) or debug_info[:, 0].max(
            initial=-1) >= len(nodes):
        raise _wrong("a list that is not there")
    return Computation(
        matrices=[MatrixInfo(num_rows, num_cols, flag > 0)
                  for num_rows, num_cols, flag in _shaped(arrays.matrices, 3).tolist()],
        submatrices=list(map(SubMatrix._make, _shaped(arrays.submatrices, 5).tolist())),
        commands=_commands(arrays),
        indexes=_lists(arrays.indexes, arrays.indexes_sizes),
        indexes_multi=_lists(_shaped(arrays.indexes_multi, 2), arrays.indexes_multi_sizes),
        indexes_ranges=_lists(_shaped(arrays.indexes_ranges, 2), arrays.indexes_ranges_sizes),
        precomputed_indexes=[None, *_precomputed(arrays.precomputed_indexes.tobytes(), len(precomputed_rows))],
        precomputed_rows=[*Computation().precomputed_rows, *((rows[a], rows[b]) for a, b in precomputed_rows.tolist())],
        debug_info=[MatrixDebugInfo(nodes[a], rows[b], is_deriv > 0) for a, b, is_deriv in debug_info.tolist()],
        need_model_derivative=bool(arrays.need_model_derivative[0]))


def _read_arrays(data: bytes, key: str) -> list[np.ndarray]:
    if len(data) < _HEAD.size:
        raise _wrong("only the beginning")
    magic, found_key, checksum, count = _HEAD.unpack_from(data)
    if magic != MAGIC or found_key != key.encode():
        raise _wrong("another kind of file" if magic != MAGIC else "that of another request or network")
    body = memoryview(data)[_HEAD.size:]
    if zlib.crc32(body) != checksum or count != len(_Arrays._fields) or len(body) < count * _ARRAY.size:
        raise _wrong("damaged bytes")
    place, arrays = count * _ARRAY.size, []
    for number, name in enumerate(_Arrays._fields):
        kind, size = _ARRAY.unpack_from(body, number * _ARRAY.size)
        wanted = _TYPES_OF.get(name, range(len(_INTEGERS)))
        if kind not in wanted or size > len(body) or place + size * np.dtype(_TYPES[kind]).itemsize > len(body):
            raise _wrong("an array of another type or length")
        array = np.frombuffer(body, _TYPES[kind], size, place)
        place += array.nbytes
        arrays.append(array.astype(np.int32 if kind < len(_INTEGERS) else array.dtype.newbyteorder("=")))
    return arrays


def _shaped(array: np.ndarray, width: int) -> np.ndarray:
    if array.size % width:
        raise _wrong("an array of another length")
    return array.reshape(-1, width)


def _rows(*columns: np.ndarray) -> np.ndarray:
    if len({len(column) for column in columns}) > 1:
        raise _wrong("columns of different lengths")
    rows = np.empty((len(columns[0]), len(columns)), np.int32)
    for number, column in enumerate(columns):
        rows[:, number] = column
    return rows


def _cut(array: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    if sizes.min(initial=0) < 0 or int(sizes.sum(dtype=np.int64)) != len(array):
        raise _wrong("lists of other lengths")
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    return [array[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _lists(array: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    if array.min(initial=0) < -1:
        raise _wrong(f"row number {int(array.min())}")
    return _cut(array, sizes)


def _commands(arrays: _Arrays) -> list[Command]:
    types, args = arrays.command_types, _shaped(arrays.command_args, NUM_ARGS)
    if types.min(initial=0) < 0 or types.max(initial=0) >= len(_COMMAND_TYPES):
        raise _wrong("a command that does not exist")
    if not len(types) == len(args) == len(arrays.command_alphas):
        raise _wrong("the arrays do not fit each other")
    return list(map(Command, map(_COMMAND_TYPES.__getitem__, types.tolist()), arrays.command_alphas.tolist(),
                    map(tuple, args.tolist())))


def _precomputed(data: bytes, count: int) -> list[Precomputed]:
    reader = TokenReader(io.BytesIO(data), "precomputed indexes", len(data), binary=True)
    return [read_precomputed_indexes(reader) for _ in range(count)]


def _wrong(what: str) -> FormatError:
    return FormatError(f"not a computation as it was stored: {what}")
