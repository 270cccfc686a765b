"""Adapter of the package kaldi-io, for values of plain binary tables: matrices, vectors, integer vectors.

kaldi-io decodes well-formed values that are small enough for its 32-bit arithmetic. It allocates memory without
checks, reports a truncated value as a ValueError, and supports neither ranges, CM2 and CM3 nor empty frames of
posteriors; so the header of a value is checked here first, and other values are read by this package's own functions,
with equal results. kaldi-io is imported when the first such value is read, not before.
"""
from __future__ import annotations

import functools
import io
import os
import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.formats import matrices
from nnet3py.formats.layouts import DENSE, LONGEST_HEAD, head_of
from nnet3py.io.skim import Incomplete, Unusual
from nnet3py.io.tokens import TokenReader

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_HEADER = b"\0B"
_VECTORS = {b"FV ": 4, b"DV ": 8}        # and the bytes of an element
_INT32 = 4
_SIZED_INT32 = 5
_LARGEST = (1 << 31) - 1            # bytes; beyond, kaldi-io's 32-bit products overflow


@functools.cache
def kaldi_io() -> ModuleType:
    """Import the package kaldi-io without the side effects of its import, and return it.

    The import edits PATH, for which it starts a shell, and KALDI_ROOT, and prints a warning; all of that is undone.
    """
    before = {name: os.environ.get(name) for name in ("PATH", "KALDI_ROOT")}
    stderr, popen = sys.stderr, os.popen
    os.environ["KALDI_ROOT"] = os.sep           # a folder that exists, which silences the warning
    try:
        with open(os.devnull, "w") as nowhere, warnings.catch_warnings():
            warnings.simplefilter("ignore")     # its regular expressions use invalid escapes
            sys.stderr = nowhere
            # It starts a shell to extend PATH, and an "except:" around that would swallow a Ctrl-C.
            os.popen = lambda *_: io.StringIO()  # type: ignore[assignment,return-value]
            import kaldi_io as module
    finally:
        sys.stderr, os.popen = stderr, popen
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return module


class _AsFile:
    """A file object for kaldi-io with a value's bytes: the header, which was read before, then the bytes of the stream.
    """

    def __init__(self, reader: TokenReader) -> None:
        self._reader = reader
        self._pending = _HEADER
        self.last = b""

    def read(self, count: int) -> bytes:
        """Return the header on the first call, then the next ``count`` bytes."""
        if self._pending:
            self._pending = b""
            return _HEADER
        self.last = bytes(self._reader.raw(int(count)))
        return self.last


def _matrix_bytes(reader: TokenReader) -> int:
    """Return the number of bytes of the elements if a dense matrix with valid dimensions follows, else 0."""
    try:
        head = head_of(reader.peek(LONGEST_HEAD))
    except (Incomplete, Unusual):
        return 0
    return head.end - head.begin if head.kind in DENSE else 0


def _vector_bytes(reader: TokenReader) -> int:
    """Return the number of bytes of the elements if a vector of floats or doubles follows, else 0."""
    start = reader.peek(3 + _SIZED_INT32)
    if len(start) < 3 + _SIZED_INT32 or start[:3] not in _VECTORS or start[3] != _INT32:
        return 0
    return max(0, int.from_bytes(start[4:], "little", signed=True)) * _VECTORS[start[:3]]


def read_matrix(reader: TokenReader, dtype: DTypeLike = np.float32) -> np.ndarray:
    """Read a matrix (rows, cols) of ``dtype``, with the same result as ``matrices.read_matrix``."""
    size = _matrix_bytes(reader) if reader.binary else 0
    if not 0 < size <= _LARGEST:
        return matrices.read_matrix(reader, dtype)
    reader.check_count(size, 1, "bytes")
    return kaldi_io().read_mat(_AsFile(reader)).astype(dtype)       # a copy: kaldi-io's array cannot be written to


def read_vector(reader: TokenReader, dtype: DTypeLike = np.float32) -> np.ndarray:
    """Read a vector (dim,) of ``dtype``, with the same result as ``matrices.read_vector``."""
    size = _vector_bytes(reader) if reader.binary else 0
    if not 0 < size <= _LARGEST:
        return matrices.read_vector(reader, dtype)
    reader.check_count(size, 1, "bytes")
    return kaldi_io().read_vec_flt(_AsFile(reader)).astype(dtype)


def read_int_vector(reader: TokenReader) -> np.ndarray:
    """Read a vector of integers in binary, int32 (count,)."""
    start = reader.peek(_SIZED_INT32)
    if len(start) < _SIZED_INT32 or start[0] != _INT32:
        raise reader.error(f"expected a number of 4-byte integers, found {start!r}")
    count = int.from_bytes(start[1:], "little", signed=True)
    reader.check_count(count, _SIZED_INT32, "integers")
    if count == 0:
        reader.raw(_SIZED_INT32)
        return np.zeros(0, dtype=np.int32)
    if count * _SIZED_INT32 > _LARGEST:
        raise reader.error(f"{count} integers in one value are more than can be read")
    source = _AsFile(reader)
    try:
        values = kaldi_io().read_vec_int(source)
    except AssertionError:
        values = None
    # kaldi-io looks at the size byte of the first integer only
    if values is None or np.any(np.frombuffer(source.last, dtype=np.int8)[::_SIZED_INT32] != _INT32):
        raise reader.error("expected 4-byte integers, found another size")
    return np.array(values, dtype=np.int32)
