"""A folder of compiled computations, so that other processes need not compile them again.

Any number of processes may use one folder: an entry appears whole or not at all. A fault of an entry or of the folder
is never an error: computations that cannot be read are compiled. A folder that another user owns or can write is not
used (``trusted_files.py`` has the rules). Only entries are ever removed.

The name of an entry is a digest of all that a computation depends on: the request, the options, the nodes, the facts
about components that the compiler can see, and the sources of the compiler. Parameters and statistics are left out, so
that a network finds its computations again after training. (If a component's choice of rows depended on a real number,
the key would need it.)

The bytes of an entry are: ``MAGIC``; the key, 64 letters; a CRC-32 of all that follows the next number; the number of
arrays; for each its type and its length; then the arrays, in the order of ``_Arrays``. Integers are stored in as few
bytes as their values need; all numbers are little-endian. Kaldi's format, in computation_file.py, takes longer to read.
"""
from __future__ import annotations

import hashlib
import io
import logging
import os
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nnet3py._version import __version__
from nnet3py.compiler.computation import (
    KALDI_TYPES,
    NUM_ARGS,
    Command,
    Computation,
    MatrixDebugInfo,
    MatrixInfo,
    SubMatrix,
)
from nnet3py.compiler.computation_file import read_precomputed_indexes
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest
from nnet3py.components.base import Precomputed
from nnet3py.engine.cache_folder import cache_folder
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.nnet import Nnet
from nnet3py.trusted_files import UNFINISHED, UntrustedFile, make_private, read_trusted, why_untrusted, write_private

logger = logging.getLogger(__name__)

ENVIRONMENT = "NNET3PY_COMPUTATION_CACHE"
DEFAULT_MAX_BYTES = 512 << 20
SUFFIX = ".computation"
ABANDONED_AFTER = 3600.0             # seconds, after which nobody is still writing an unfinished file
_KEPT = 0.8                          # the share of ``max_bytes`` that is kept when entries are removed


class DiskCache:
    """The computations in one folder, by key.

    Parameters
    ----------
    folder : the folder; made when the first entry is stored
    max_bytes : size of all entries, beyond which the least recently used ones are removed
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self._num_bytes: int | None = None       # bytes of all entries, as far as this process knows
        self._is_usable = True
        self._trusted: bool | None = None        # None: not looked at yet
        self._warned: set[str] = set()

    def load(self, key: str, check: Callable[[Computation], None]) -> Computation | None:
        """Return the computation of a key; None if there is none that can be read and passes ``check``."""
        path = self._path(key)
        if not self._is_trusted():
            return None
        try:
            data = read_trusted(path)
        except FileNotFoundError:
            return None
        except UntrustedFile as error:
            self._warn("entry", f"{error}: the computation is compiled again")
            return None
        except OSError as error:
            self._warn_of_folder("read", error)
            return None
        try:
            computation = from_bytes(data, key)
            check(computation)
        except Nnet3Error as error:
            self._warn("entry", f"{path} cannot be used and will be compiled again: {error}")
            return None
        with suppress(OSError):
            os.utime(path)                       # the time of last use
        return computation

    def store(self, key: str, computation: Computation) -> None:
        """Store a computation; warns once if that is not possible."""
        data = to_bytes(computation, key)
        if not self._is_usable or len(data) > self.max_bytes:
            return
        path = self._path(key)
        try:
            make_private(self.folder)
            if not self._is_trusted():
                return
            write_private(path, data)
        except OSError as error:
            self._is_usable = False
            self._warn_of_folder("write", error)
            return
        self._make_room(len(data))

    def _is_trusted(self) -> bool:
        """Return whether only this user can write to the folder; warns if others can.

        A folder that does not exist yet is trusted.
        """
        if self._trusted is None:
            try:
                fault = why_untrusted(self.folder)
            except OSError:
                return True
            self._trusted = fault is None
            if fault is not None:
                self._warn("folder", f"{fault}; computations are neither taken from {self.folder} nor kept there")
        return self._trusted

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _make_room(self, added: int) -> None:
        """Add ``added`` to the bytes written; beyond the limit, remove the least recently used entries."""
        if self._num_bytes is not None and self._num_bytes + added <= self.max_bytes:
            self._num_bytes += added
            return
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        if total > self.max_bytes:
            for _, size, path in sorted(entries):
                if total <= _KEPT * self.max_bytes:
                    break
                with suppress(OSError):          # another process may have removed it
                    path.unlink()
                total -= size
        self._num_bytes = total

    def _entries(self) -> list[tuple[float, int, Path]]:
        """Return time of last use, size in bytes and path of each entry; removes files of interrupted writes."""
        entries = []
        with suppress(OSError), os.scandir(self.folder) as files:
            for file in files:
                with suppress(OSError):
                    if file.name.endswith(SUFFIX):
                        status = file.stat()
                        entries.append((status.st_mtime, status.st_size, Path(file.path)))
                    elif file.name.endswith(UNFINISHED) and file.stat().st_mtime < time.time() - ABANDONED_AFTER:
                        os.unlink(file.path)
        return entries

    def _warn_of_folder(self, what: str, error: OSError) -> None:
        self._warn("folder", f"cannot {what} computations in {self.folder}: {error.strerror or error}; they are "
                             "compiled in every process")

    def _warn(self, about: str, message: str) -> None:
        """Log a warning, once for each ``about``."""
        logger.log(logging.DEBUG if about in self._warned else logging.WARNING, "Computation cache: %s", message)
        self._warned.add(about)


@cache
def _disk_cache(folder: Path) -> DiskCache:
    return DiskCache(folder)


def default_folder() -> str:
    """Return the folder where commands keep computations.

    It is the value of the environment variable NNET3PY_COMPUTATION_CACHE ("": no folder), if set, else a folder next to
    the compiled kernels.
    """
    named = os.environ.get(ENVIRONMENT)
    return named if named is not None else str(cache_folder() / "computations")


def disk_cache(folder: str | os.PathLike[str] | None) -> DiskCache | None:
    """Return the cache in ``folder``, or if that is None, in ``$NNET3PY_COMPUTATION_CACHE``; None without either."""
    chosen = os.environ.get(ENVIRONMENT, "") if folder is None else os.fspath(folder)
    if not chosen:
        return None
    path = Path(chosen)
    with suppress(RuntimeError):                 # the user has no home folder
        path = path.expanduser()
    return _disk_cache(path.absolute())


# -- entries: computations as bytes ------------------------------------------------------------------------------------


MAGIC = b"nnet3py computation 1\n"
KEY_LENGTH = 64
_INTEGERS = ("|i1", "<i2", "<i4")
_TYPES = (*_INTEGERS, "<f8", "|u1")
_TYPES_OF = {"command_alphas": (3,), "precomputed_indexes": (4,)}      # places in _TYPES; other arrays have integers
_HEAD = struct.Struct(f"<{len(MAGIC)}s{KEY_LENGTH}sII")
_ARRAY = struct.Struct("<BQ")


class _Arrays(NamedTuple):
    """The arrays of an entry; ``…_sizes`` has the lengths of the lists that the array before it joins."""

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


class _DistinctLists:
    """A table of distinct int32 arrays, numbered from 0 in order of first appearance."""

    def __init__(self) -> None:
        self.lists: list[np.ndarray] = []
        self._number_of: dict[bytes, int] = {}
        self._number_of_object: dict[int, int] = {}      # by identity: many arrays are the same object

    def number(self, array: np.ndarray) -> int:
        """Return the number of an int32 array, after adding it if the table has no equal one."""
        if id(array) not in self._number_of_object:
            number = self._number_of.setdefault(array.tobytes(), len(self.lists))
            if number == len(self.lists):
                self.lists.append(array)
            self._number_of_object[id(array)] = number
        return self._number_of_object[id(array)]


# -- writing -----------------------------------------------------------------------------------------------------------


def to_bytes(computation: Computation, key: str) -> bytes:
    """Return the bytes of an entry; a fused command is stored as the commands that it replaces."""
    return _packed(_to_arrays(computation.unfused()), key)


def _packed(arrays: _Arrays, key: str) -> bytes:
    stored = [_narrow(array) for array in arrays]
    body = b"".join([*(_ARRAY.pack(_TYPES.index(array.dtype.str), array.size) for array in stored),
                     *(array.tobytes() for array in stored)])
    return _HEAD.pack(MAGIC, key.encode(), zlib.crc32(body), len(stored)) + body


def _narrow(array: np.ndarray) -> np.ndarray:
    """Return the numbers as a flat array of the smallest integer type that holds them."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "i":
        least, greatest = (int(flat.min()), int(flat.max())) if flat.size else (0, 0)
        name = next(name for name in _INTEGERS if np.iinfo(name).min <= least and greatest <= np.iinfo(name).max)
        return flat.astype(name)
    return flat.astype("<f8" if flat.dtype.kind == "f" else "|u1")


def _to_arrays(computation: Computation) -> _Arrays:
    rows, nodes = _DistinctLists(), _DistinctLists()
    debug_info = [(nodes.number(info.nodes), rows.number(info.indexes), info.is_deriv)
                  for info in computation.debug_info]
    precomputed_rows = [tuple(map(rows.number, pair)) for pair in computation.precomputed_rows[1:]]
    precomputed = io.BytesIO()
    for indexes in computation.precomputed_indexes[1:]:
        indexes.write(TokenWriter(precomputed, True))
    all_rows, rows_sizes = _concatenated(rows.lists, 3)
    commands = computation.commands
    return _Arrays(
        _int32([computation.need_model_derivative]), _int32(computation.matrices), _int32(computation.submatrices),
        _int32([command.type for command in commands]), np.array([command.alpha for command in commands], np.float64),
        _int32([command.args for command in commands]), *_concatenated(computation.indexes),
        *_concatenated(computation.indexes_multi, 2), *_concatenated(computation.indexes_ranges, 2),
        all_rows[:, 0], all_rows[:, 1], all_rows[:, 2], rows_sizes, *_concatenated(nodes.lists), _int32(debug_info),
        _int32(precomputed_rows), np.frombuffer(precomputed.getvalue(), np.uint8))


def _int32(values: Sequence[Any]) -> np.ndarray:
    return np.array(values, np.int32)


def _concatenated(lists: Sequence[np.ndarray], width: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the lists joined into one int32 array, (elements, width) or flat if ``width`` is 0, and their lengths."""
    empty = np.zeros((0, width) if width else 0, np.int32)
    return np.concatenate([empty, *lists]).astype(np.int32, copy=False), _int32([len(values) for values in lists])


# -- reading -----------------------------------------------------------------------------------------------------------


def from_bytes(data: bytes, key: str) -> Computation:
    """Return the computation of an entry.

    Raises FormatError: the bytes are not an entry, belong to another key, or are damaged. Other faults are found by
    ``check_loaded``, which must be called next.
    """
    arrays = _Arrays(*_read_arrays(data, key))
    if arrays.need_model_derivative.size != 1:
        raise _damaged_entry("the arrays do not fit each other")
    numbers = (arrays.matrices, arrays.submatrices, arrays.debug_info, arrays.precomputed_rows)
    if any(array.min(initial=0) < 0 for array in numbers):
        raise _damaged_entry("a negative size or number")
    rows = _split(_rows_of_columns(arrays.rows_n, arrays.rows_t, arrays.rows_x), arrays.rows_sizes)
    nodes = _split(arrays.nodes, arrays.nodes_sizes)
    debug_info = _with_columns(arrays.debug_info, 3)
    precomputed_rows = _with_columns(arrays.precomputed_rows, 2)
    if max(debug_info[:, 1].max(initial=-1), precomputed_rows.max(initial=-1)) >= len(rows) or debug_info[:, 0].max(
            initial=-1) >= len(nodes):
        raise _damaged_entry("the number of a list that does not exist")
    return Computation(
        matrices=[MatrixInfo(num_rows, num_cols, flag > 0)
                  for num_rows, num_cols, flag in _with_columns(arrays.matrices, 3).tolist()],
        submatrices=list(map(SubMatrix._make, _with_columns(arrays.submatrices, 5).tolist())),
        commands=_commands(arrays),
        indexes=_row_lists(arrays.indexes, arrays.indexes_sizes),
        indexes_multi=_row_lists(_with_columns(arrays.indexes_multi, 2), arrays.indexes_multi_sizes),
        indexes_ranges=_row_lists(_with_columns(arrays.indexes_ranges, 2), arrays.indexes_ranges_sizes),
        precomputed_indexes=[None, *_precomputed(arrays.precomputed_indexes.tobytes(), len(precomputed_rows))],
        precomputed_rows=[*Computation().precomputed_rows, *((rows[a], rows[b]) for a, b in precomputed_rows.tolist())],
        debug_info=[MatrixDebugInfo(nodes[a], rows[b], is_deriv > 0) for a, b, is_deriv in debug_info.tolist()],
        need_model_derivative=bool(arrays.need_model_derivative[0]))


def _read_arrays(data: bytes, key: str) -> list[np.ndarray]:
    if len(data) < _HEAD.size:
        raise _damaged_entry(f"{len(data)} bytes are only a part of its beginning")
    magic, found_key, checksum, count = _HEAD.unpack_from(data)
    if magic != MAGIC or found_key != key.encode():
        raise _damaged_entry("another kind of file" if magic != MAGIC else "the entry of another request or network")
    body = memoryview(data)[_HEAD.size:]
    if zlib.crc32(body) != checksum or count != len(_Arrays._fields) or len(body) < count * _ARRAY.size:
        raise _damaged_entry("damaged bytes")
    place, arrays = count * _ARRAY.size, []
    for number, name in enumerate(_Arrays._fields):
        kind, size = _ARRAY.unpack_from(body, number * _ARRAY.size)
        wanted = _TYPES_OF.get(name, range(len(_INTEGERS)))
        if kind not in wanted or size > len(body) or place + size * np.dtype(_TYPES[kind]).itemsize > len(body):
            raise _damaged_entry("an array of another type or length")
        array = np.frombuffer(body, _TYPES[kind], size, place)
        place += array.nbytes
        arrays.append(array.astype(np.int32 if kind < len(_INTEGERS) else array.dtype.newbyteorder("=")))
    return arrays


def _with_columns(array: np.ndarray, width: int) -> np.ndarray:
    if array.size % width:
        raise _damaged_entry("an array of another length")
    return array.reshape(-1, width)


def _rows_of_columns(*columns: np.ndarray) -> np.ndarray:
    if len({len(column) for column in columns}) > 1:
        raise _damaged_entry("columns of different lengths")
    rows = np.empty((len(columns[0]), len(columns)), np.int32)
    for number, column in enumerate(columns):
        rows[:, number] = column
    return rows


def _split(array: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    if sizes.min(initial=0) < 0 or int(sizes.sum(dtype=np.int64)) != len(array):
        raise _damaged_entry("lists of other lengths")
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    return [array[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _row_lists(array: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    if array.min(initial=0) < -1:
        raise _damaged_entry(f"row number {int(array.min())}")
    return _split(array, sizes)


def _commands(arrays: _Arrays) -> list[Command]:
    types, args = arrays.command_types, _with_columns(arrays.command_args, NUM_ARGS)
    if types.min(initial=0) < 0 or types.max(initial=0) >= len(KALDI_TYPES):
        raise _damaged_entry("a command that does not exist")
    if not len(types) == len(args) == len(arrays.command_alphas):
        raise _damaged_entry("the arrays do not fit each other")
    return list(map(Command, map(KALDI_TYPES.__getitem__, types.tolist()), arrays.command_alphas.tolist(),
                    map(tuple, args.tolist())))


def _precomputed(data: bytes, count: int) -> list[Precomputed]:
    reader = TokenReader(io.BytesIO(data), "precomputed indexes", len(data), binary=True)
    return [read_precomputed_indexes(reader) for _ in range(count)]


def _damaged_entry(what: str) -> FormatError:
    return FormatError(f"damaged entry of the computation cache: {what}")


# -- keys --------------------------------------------------------------------------------------------------------------


_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_SOURCES = ("compiler/**/*.py", "components/**/*.py", "network/**/*.py", "index.py")    # these determine computations
_REAL_ARRAYS = frozenset(("FM", "DM", "FV", "DV", "FP", "DP"))      # in files: matrices, vectors, triangles


class _StructureWriter(TokenWriter):
    """A writer that keeps tags, integers and flags of components, and drops real numbers and the sizes of arrays.

    Sizes of parameters follow from the dimensions, and statistics are empty until there are any.
    """

    _is_array = False       # whether the sizes of an array of real numbers come next

    def token(self, token: str) -> None:
        self._is_array = token in _REAL_ARRAYS
        if not self._is_array:
            super().token(token)

    def integer(self, value: int, kind: str = "int32") -> None:
        if not self._is_array:
            super().integer(value, kind)

    def array(self, values: np.ndarray, dtype: type[np.generic]) -> None:
        self._is_array = False
        if np.dtype(dtype).kind != "f":
            super().array(values, dtype)

    def float32(self, value: float) -> None:
        pass

    def float64(self, value: float) -> None:
        pass


def structure_of(nnet: Nnet) -> bytes:
    """Return a digest of what compilation depends on in a network, except for :func:`flags_of`.

    Real numbers are left out: no component's choice of rows depends on one.
    """
    written = io.BytesIO()
    writer = _StructureWriter(written, True)
    for component in nnet.components:
        component.write(writer)
    digest = hashlib.sha256(repr(nnet.nodes).encode())
    digest.update(written.getvalue())
    return digest.digest()


def flags_of(nnet: Nnet) -> bytes:
    """Return a digest of the components' properties and of which are trained; ``version`` does not depend on them."""
    return repr([(int(component.properties), component.input_dim, component.output_dim,
                  getattr(component, "learning_rate", 0.0) != 0.0) for component in nnet.components]).encode()


@cache
def sources_digest() -> bytes:
    """Return a digest of the source files whose change may change a computation, and of the package's version."""
    package = Path(_PACKAGE)
    digest = hashlib.sha256(__version__.encode())
    for pattern in _SOURCES:
        for path in sorted(package.glob(pattern)):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


def request_digest(request: ComputationRequest) -> bytes:
    """Return a digest of a request."""
    digest = hashlib.sha256(repr((len(request.inputs), request.need_model_derivative,
                                  request.store_component_stats)).encode())
    for specification in (*request.inputs, *request.outputs):
        indexes = np.ascontiguousarray(specification.indexes, "<i4")
        digest.update(repr((specification.name, specification.has_deriv, len(indexes))).encode())
        digest.update(indexes.tobytes())
    return digest.digest()


def computation_key(structure: bytes, flags: bytes, request: ComputationRequest, options: OptimizeOptions,
                    use_shortcut: bool) -> str:
    """Return the key of a computation in Kaldi's commands, 64 hexadecimal digits."""
    return _hex_digest(structure, flags, request_digest(request), options, use_shortcut)


def looped_key(structure: bytes, flags: bytes, requests: Sequence[ComputationRequest],
               options: OptimizeOptions) -> str:
    """Return the key of the looped computation for these requests, which are those of its first chunks."""
    return _hex_digest(structure, flags, b"".join(map(request_digest, requests)), options, "looped")


def _hex_digest(structure: bytes, flags: bytes, requests: bytes, options: OptimizeOptions, way: object) -> str:
    digest = hashlib.sha256(sources_digest())
    form = "none" if options.keeps_kaldi_form() else "all"
    for part in (structure, flags, requests, repr((replace(options, fuse=form), way)).encode()):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()
