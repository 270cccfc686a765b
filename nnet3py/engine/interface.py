"""The interface between compiled code and the process: layouts of objects, symbols, and memory that is never freed.

The layouts are parts of both libraries' published interfaces: ``PyObject``, ``PyFloatObject``, ``PyArrayObject``,
``PyArray_Descr``. Light: no numba, no numpy.
"""
from __future__ import annotations

import ctypes
import struct
import sys
from functools import cache
from typing import Any, TypeVar

from nnet3py.errors import Nnet3Error

HEAD = object.__basicsize__             # bytes of the header of each object, which ends with the address of its type
POINTER_BYTES = struct.calcsize("P")
# offsets in bytes of fields of numpy's arrays and dtypes
DATA, DIMENSIONS, SHAPE, STRIDES, DTYPE, FLAGS = (HEAD + 8 * i for i in (0, 1, 2, 3, 5, 6))
BYTE_ORDER, TYPE_NUMBER = HEAD + 10, HEAD + 12
NATIVE = b"=|<" if sys.byteorder == "little" else b"=|>"
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400     # bits of an array's flags


def description() -> str:
    """Return a line with the object layouts of Python and numpy, and other facts, that machine code depends on."""
    sizes = [ctypes.sizeof(kind) for kind in (ctypes.c_int, ctypes.c_long, ctypes.c_void_p)]
    return (f"{sys.platform} {sys.byteorder} {sizes} {sys.implementation.name} {HEAD} "
            f"{[DATA, DIMENSIONS, SHAPE, STRIDES, DTYPE, FLAGS, BYTE_ORDER, TYPE_NUMBER]}")


@cache
def check_arrays() -> None:
    """Check on a sample array that numpy's fields are at these offsets. Raises Nnet3Error if not."""
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
        raise Nnet3Error(f"numpy {np.__version__} lays out arrays in another way than nnet3py's machine code expects",
                         "install a newer nnet3py, or an older numpy")


def _at(address: int, kind: Any) -> Any:
    return kind.from_address(address).value


def _numbers(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_ssize_t * count).from_address(address))


# -- symbols: names by which object files refer to each other, and to memory and functions of this process -------

# LLVM has one table of symbols for the whole process. There PyExc_TypeError is an object for numba, and a variable for
# CPython: code for one meaning would fail with the other. So all symbols here have names of this package.
FLOAT, BYTES, NONE = "nnet3py_float", "nnet3py_bytes", "nnet3py_none"
TYPE_ERROR, OVERFLOW_ERROR, NDARRAY = "nnet3py_type_error", "nnet3py_overflow_error", "nnet3py_ndarray"
TEAM, READ, WRITE, YIELD = "nnet3py_team", "nnet3py_read", "nnet3py_write", "nnet3py_yield"
PRODUCTS = "nnet3py_products"
SHARE, MULTIPLY, ARRAY = "nnet3py_share", "nnet3py_multiply", "nnet3py_array"

# C functions that kernels call: symbol, file of this folder, name of the function (``kernel_files.add_function``)
FUNCTIONS = {SHARE: ("team_code", "share"), MULTIPLY: ("tiles", "multiply"), ARRAY: ("compiling", "take_apart")}
# symbols of memory and of functions of the C library, with the module that adds them to LLVM's table on import
PROVIDERS = {**dict.fromkeys((TEAM, READ, WRITE, YIELD), "nnet3py.engine.team"),
             PRODUCTS: "nnet3py.engine.product_rule"}
SYMBOLS = (*FUNCTIONS, *PROVIDERS)       # to be added to LLVM's table before code that refers to them is loaded


# -- memory that is never freed ----------------------------------------------------------------------------------------

T = TypeVar("T")


def lasting(thing: T) -> T:
    """Make sure that an object, whose memory compiled code uses, is never freed; return it.

    When Python exits it frees modules in an unspecified order, while worker threads may still read such memory.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing
