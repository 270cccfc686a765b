"""Loading of kernels into this process as Python functions, from disk, or after compiling them.

The entry point of machine code follows CPython's calling convention METH_FASTCALL, so that a call takes less than a
microsecond. Code refers to objects and functions by symbols, which are added to LLVM's table here before the code is
loaded. Light: no numba.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding

from nnet3py.engine import code_files, interface
from nnet3py.engine.interface import lasting
from nnet3py.engine.kernel_code import Code, Key, sources_of

METH_FASTCALL = 0x80
PYTHON_FUNCTIONS = (
    "PyBytes_AsString", "PyErr_Occurred", "PyErr_Format", "PyErr_SetString", "PyEval_RestoreThread",
    "PyEval_SaveThread", "PyFloat_AsDouble", "PyFloat_FromDouble", "PyLong_AsVoidPtr", "PyLong_FromSsize_t",
    "PyNumber_AsSsize_t", "PyObject_IsTrue", "PyType_IsSubtype", "Py_IncRef")
_OBJECTS = {interface.FLOAT: float, interface.BYTES: bytes, interface.NONE: None, interface.TYPE_ERROR: TypeError,
            interface.OVERFLOW_ERROR: OverflowError}
_FOLDER = Path(__file__).resolve().parent
_loaded: dict[Key, Callable[..., Any]] = {}


# -- kernels -----------------------------------------------------------------------------------------------------------


def find(source: Path, name: str) -> Callable[..., Any] | None:
    """Return the kernel ``name`` of a source file if it is loaded or on disk, else None.

    A kernel checks the types of its arguments and releases the GIL; it does not check indexes, and follows numpy's
    rules for errors (1/0 is inf).
    """
    with code_files.lock:
        key = key_of(source, name)
        if key not in _loaded:
            code = code_files.find(key)
            if code is None:
                return None
            _loaded[key] = function_of(code, name)
        return _loaded[key]


def find_or_make(source: Path, name: str, compile_code: Callable[[], Code]) -> Callable[..., Any]:
    """Return the kernel ``name`` of a source file; if it is not on disk, compile it and keep it there."""
    with code_files.lock:
        key = key_of(source, name)
        if key not in _loaded:
            _loaded[key] = function_of(code_files.find_or_make(key, compile_code), name)
        return _loaded[key]


def key_of(source: Path, name: str) -> Key:
    """Return the key for the code of the function ``name`` of a source file."""
    return Key(source, name, sources_of(source))


def function_of(code: Code, name: str) -> Callable[..., Any]:
    """Load code and return it as a Python function.

    The function takes arguments by position, and also by name if some have default values. It raises TypeError for an
    object of the wrong type, and for an array of the wrong dtype or number of dimensions, that is read-only, or that is
    not contiguous as required.
    """
    provide(code.needs)
    register()
    definition = lasting(_MethodDef(name.encode(), code_files.load(code), METH_FASTCALL, None))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.POINTER(_MethodDef), ctypes.c_void_p, ctypes.c_void_p)
    compiled = make(ctypes.byref(definition), None, None)
    return _with_defaults(compiled, code) if code.defaults else compiled   # type: ignore[no-any-return]


class _MethodDef(ctypes.Structure):
    """CPython's struct PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


def _with_defaults(compiled: Callable[..., Any], code: Code) -> Callable[..., Any]:
    """Return a function that calls ``compiled``, takes arguments also by name, and adds default values."""
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


# -- symbols -----------------------------------------------------------------------------------------------------------


@cache
def register() -> None:
    """Add CPython's functions and objects to LLVM's table of symbols."""
    for name in PYTHON_FUNCTIONS:
        llvmlite.binding.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    for name, thing in _OBJECTS.items():
        llvmlite.binding.add_symbol(name, id(thing))


def provide(needs: Iterable[str]) -> None:
    """Add symbols (``interface.SYMBOLS``) to LLVM's table: loading code with unknown symbols would end the process."""
    with code_files.lock:
        for symbol in needs:
            _provide(symbol)


@cache
def _provide(symbol: str) -> None:
    if symbol == interface.NDARRAY:
        import numpy as np

        interface.check_arrays()
        register()
        llvmlite.binding.add_symbol(symbol, id(np.ndarray))
    elif symbol in interface.FUNCTIONS:
        add_function(symbol, *interface.FUNCTIONS[symbol])
    else:
        import_module(interface.PROVIDERS[symbol])


def add_function(symbol: str, file: str, name: str) -> None:
    """Load or compile the C function ``name`` of a file of ``engine/``, and add it to LLVM's table as ``symbol``."""
    source = _FOLDER / f"{file}.py"
    with code_files.lock:
        code = code_files.find_or_make(key_of(source, name), maker_of(source, name))
        provide(code.needs)
        llvmlite.binding.add_symbol(symbol, code_files.load(code))


def maker_of(source: Path, name: str) -> Callable[[], Code]:
    """Return a function that compiles ``name`` by calling ``make_`` + ``name`` of a module of ``engine/``.

    The module, which imports numba, is imported when the function is called.
    """
    def make() -> Code:
        code: Code = getattr(import_module(f"nnet3py.engine.{source.stem}"), f"make_{name}")()
        return code

    return make
