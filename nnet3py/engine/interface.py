"""Where fields lie in CPython's objects and numpy's arrays, which compiled entries read. Light.

These are parts of both libraries' published interfaces: ``PyObject``, ``PyFloatObject``, ``PyArrayObject``,
``PyArray_Descr``.
"""
from __future__ import annotations

import ctypes
import struct
import sys
from functools import cache
from typing import Any

from nnet3py.errors import Nnet3Error

HEAD = object.__basicsize__             # bytes of an object's head; the last of them are the address of its type
POINTER_BYTES = struct.calcsize("P")
# where numpy's arrays and dtypes have the fields that are read, in bytes
DATA, DIMENSIONS, SHAPE, STRIDES, DTYPE, FLAGS = (HEAD + 8 * i for i in (0, 1, 2, 3, 5, 6))
BYTE_ORDER, TYPE_NUMBER = HEAD + 10, HEAD + 12
NATIVE = b"=|<" if sys.byteorder == "little" else b"=|>"
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400     # of an array's flags


def description() -> str:
    """Everything about Python, numpy and the system that machine code takes for granted, in a line."""
    sizes = [ctypes.sizeof(kind) for kind in (ctypes.c_int, ctypes.c_long, ctypes.c_void_p)]
    return (f"{sys.platform} {sys.byteorder} {sizes} {sys.implementation.name} {HEAD} "
            f"{[DATA, DIMENSIONS, SHAPE, STRIDES, DTYPE, FLAGS, BYTE_ORDER, TYPE_NUMBER]}")


@cache
def check_arrays() -> None:
    """See in an array whether numpy's fields lie there. Raises Nnet3Error if not."""
    import numpy as np

    sample = np.zeros((2, 3), dtype=np.float32)
    expected = (sample.ctypes.data, sample.ndim, sample.shape, sample.strides, id(sample.dtype), sample.flags.num)
    place = id(sample)
    ndim = _at(place + DIMENSIONS, ctypes.c_int)
    is_right = ndim == sample.ndim and (
        _at(place + DATA, ctypes.c_void_p), ndim, *(_numbers(_at(place + field, ctypes.c_void_p), ndim)
                                                    for field in (SHAPE, STRIDES)),
        _at(place + DTYPE, ctypes.c_void_p), _at(place + FLAGS, ctypes.c_int)) == expected
    dtype = id(sample.dtype)
    is_right = is_right and _at(dtype + BYTE_ORDER, ctypes.c_char) in (b"=", b"<", b">") and (
        _at(dtype + TYPE_NUMBER, ctypes.c_int) == sample.dtype.num)
    if not is_right:
        raise Nnet3Error(f"numpy {np.__version__} keeps arrays in another way than the machine code of nnet3py expects",
                         "install a newer nnet3py, or an older numpy")


def _at(address: int, kind: Any) -> Any:
    return kind.from_address(address).value


def _numbers(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_ssize_t * count).from_address(address))
