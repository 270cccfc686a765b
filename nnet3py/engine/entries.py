"""Entries: C functions that take Python's objects apart, call compiled code without the GIL, and return an object.

They follow CPython's calling convention METH_FASTCALL, so that a call costs less than a microsecond. This file
connects them with this process: where fields lie in its objects, and the addresses of what they call.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from nnet3py.engine import code_files, symbols
from nnet3py.engine.code_bytes import Code
from nnet3py.engine.lasting import lasting

METH_FASTCALL = 0x80
FUNCTIONS = ("PyBytes_AsString", "PyErr_Occurred", "PyErr_Format", "PyErr_SetString", "PyEval_RestoreThread",
             "PyEval_SaveThread", "PyFloat_AsDouble", "PyFloat_FromDouble", "PyLong_AsVoidPtr", "PyLong_FromSsize_t",
             "PyNumber_AsSsize_t", "PyObject_IsTrue", "PyType_IsSubtype", "Py_IncRef")
_OBJECTS = {symbols.FLOAT: float, symbols.BYTES: bytes, symbols.NONE: None, symbols.TYPE_ERROR: TypeError,
            symbols.OVERFLOW_ERROR: OverflowError}


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


@cache
def register() -> None:
    """Make the symbols that entries refer to known to LLVM."""
    from llvmlite import binding

    for name in FUNCTIONS:
        binding.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    for name, thing in _OBJECTS.items():
        binding.add_symbol(name, id(thing))


def function_of(code: Code, name: str) -> Callable[..., Any]:
    """Load what was compiled and make a Python function of it.

    It takes arguments by position; one with default values also by name. It raises TypeError for an object of the
    wrong type, and for an array of another dtype or number of dimensions, that cannot be written, or that is not
    contiguous where it is to be.
    """
    register()
    definition = lasting(_MethodDef(name.encode(), code_files.load(code), METH_FASTCALL, None))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.POINTER(_MethodDef), ctypes.c_void_p, ctypes.c_void_p)
    compiled = make(ctypes.byref(definition), None, None)
    return _with_defaults(compiled, code) if code.defaults else compiled   # type: ignore[no-any-return]


def _with_defaults(compiled: Callable[..., Any], code: Code) -> Callable[..., Any]:
    """A function that takes its arguments by name, too, and does without the last ones."""
    names, count = code.names, len(code.names)
    defaults = dict(zip(names[count - len(code.defaults):], code.defaults, strict=True))

    def call(*args: Any, **named: Any) -> Any:
        if not named and len(args) == count:
            return compiled(*args)
        others = names[len(args):]
        values = {**defaults, **named}
        if not named.keys() <= set(others) or not all(name in values for name in others):
            raise TypeError(f"expected {', '.join(names)}, of which {', '.join(defaults)} may be missing; "
                            f"found {len(args)} arguments and {', '.join(named) or 'none'} by name")
        return compiled(*args, *(values[name] for name in others))

    return call
