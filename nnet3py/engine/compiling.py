"""Compilation by numba of functions with an *entry*: a C function through which Python, or compiled code, calls them.

A function must neither allocate memory nor raise exceptions: then its machine code does not call numba's runtime.
"""
from __future__ import annotations

import gc
import importlib
import inspect
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Flags
from numba.core.targetconfig import ConfigStack
from numba.np import arrayobj

from nnet3py import log
from nnet3py.engine import interface, numba_target
from nnet3py.engine.cache_folder import cache_folder
from nnet3py.engine.kernel_code import Code
from nnet3py.engine.numba_target import njit

_NUMBAS = re.compile(rb"\b(?:numba_\w+|NRT_\w+)")


@cache
def _load_numba_without_scipy() -> None:
    """Import the modules that numba needs before it compiles, without ``scipy.linalg`` (0.2 s and 13 MB).

    numba imports it only to check that it is installed; the functions of numba that need it import it themselves.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    try:
        linalg: Any = importlib.import_module("numba.np.linalg")
        check = linalg.ensure_blas
    except (ImportError, AttributeError):      # another numba: it will load scipy
        return
    linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = check


def make(function: Callable[..., Any], signature: Sequence[Any], needs: Iterable[str] = (),
         fastmath: Any = False) -> Code:
    """Compile a function that Python will call.

    Parameters
    ----------
    function : a Python function that numba can compile, with numpy's rules for errors (1/0 is inf)
    signature : numba types of its arguments: numbers, booleans, arrays; pointers, for which Python passes bytes or an
        integer
    needs : symbols (``interface.SYMBOLS``) that its code may refer to
    fastmath : False, or the set of LLVM's fast-math flags to compile with
    """
    result = _compiled(function, tuple(signature), fastmath)
    names = inspect.signature(function).parameters
    defaults = function.__defaults__ or ()
    strange = [value for value in defaults if not isinstance(value, (bool, int, float))]
    if strange:
        raise TypeError(f"{function.__name__} has default values {strange}, expected numbers")
    if any(isinstance(kind, types.Array) for kind in signature):
        needs = (*needs, interface.ARRAY)
    entry = _python_entry(result, function.__name__, list(names))
    return _code(result, entry, needs, tuple(names) if defaults else (), defaults)


def make_c_function(function: Callable[..., Any], signature: Sequence[Any], needs: Iterable[str] = ()) -> Code:
    """Compile a function of numbers, without a result, as a C function that compiled code will call."""
    result = _compiled(function, tuple(signature), False)
    return _code(result, _c_entry(result), needs)


def make_of_llvm(name: str, function_type: ir.FunctionType, build: Callable[[Any, ir.IRBuilder, Any], None],
                 needs: Iterable[str] = ()) -> Code:
    """Compile a C function whose LLVM code is written by ``build(context, builder, arguments)``."""
    context = numba_target.context()
    module = context.create_module(name)
    function = ir.Function(module, function_type, f"nnet3py.{name}")
    build(context, ir.IRBuilder(function.append_basic_block("start")), function.args)
    content = context.codegen().create_library(name).object_file(function)
    return Code(function.name, (), (), tuple(needs), content)


def _compiled(function: Callable[..., Any], signature: tuple[Any, ...], fastmath: Any) -> Any:
    _load_numba_without_scipy()
    defaults: Any = Flags()          # instead of the flags of an outer function that numba is compiling now
    defaults.nrt = True              # without it, no function may return a view of an array
    with compiling(), _no_garbage_collection(), ConfigStack().enter(defaults):
        dispatcher: Any = njit(signature, fastmath=fastmath)(function)
    return dispatcher.overloads[dispatcher.signatures[0]]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch garbage collection off inside the ``with``: it takes a tenth of numba's time, and frees little."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _code(result: Any, entry: ir.Function, needs: Iterable[str], names: tuple[str, ...] = (),
          defaults: tuple[float | bool, ...] = ()) -> Code:
    content: bytes = result.library.object_file(entry)
    foreign = sorted({name.decode() for name in _NUMBAS.findall(content)})
    if foreign:
        raise ValueError(f"{result.fndesc.qualname} cannot be kept on disk: it calls {', '.join(foreign)} of numba")
    return Code(entry.name, names, defaults, tuple(name for name in needs if name.encode() in content), content)


def _new_entry(result: Any, function_type: ir.FunctionType) -> tuple[ir.Function, ir.IRBuilder]:
    name = f"nnet3py.entry.{result.fndesc.unique_name}"
    module = result.target_context.create_module(name)
    entry = ir.Function(module, function_type, name)
    return entry, ir.IRBuilder(entry.append_basic_block("start"))


def _call(result: Any, builder: ir.IRBuilder, arguments: Sequence[Any]) -> tuple[Any, Any]:
    """Write a call of the compiled function; return LLVM values for numba's status and the result."""
    convention, described = result.target_context.call_conv, result.fndesc
    function_type = convention.get_function_type(described.restype, described.argtypes)
    function = cgutils.get_or_insert_function(builder.module, function_type, described.llvm_func_name)
    return convention.call_function(builder, function, described.restype, described.argtypes, arguments,
                                    attrs=("noinline",))


def _c_entry(result: Any) -> ir.Function:
    kinds = [result.target_context.get_value_type(kind) for kind in result.fndesc.argtypes]
    entry, builder = _new_entry(result, ir.FunctionType(ir.VoidType(), kinds))
    _call(result, builder, entry.args)
    builder.ret_void()
    return entry


def _python_entry(result: Any, name: str, arguments: list[str]) -> ir.Function:
    entry, builder = _new_entry(result, ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), I64]))
    _, given, count = entry.args
    api = Python(result.target_context, builder, ir.Constant(POINTER, None))
    kinds = result.fndesc.argtypes
    api.fail_if(builder.icmp_signed("!=", count, ir.Constant(I64, len(kinds))),
                f"{name}() takes {len(kinds)} positional arguments: {', '.join(arguments)}")
    values = [api.value(builder.load(builder.gep(given, [ir.Constant(I64, i)])), kind, f"{name}(): {argument}")
              for i, (kind, argument) in enumerate(zip(kinds, arguments, strict=True))]
    state = api.call("PyEval_SaveThread", POINTER)
    status, returned = _call(result, builder, values)
    api.call("PyEval_RestoreThread", ir.VoidType(), state)
    api.fail_if(status.is_error, f"{name}() failed")
    builder.ret(api.object_of(returned, result.fndesc.restype))
    return entry


# -- calls of CPython's C interface in LLVM code -----------------------------------------------------------------------


POINTER, I8, I32, I64, DOUBLE = cgutils.voidptr_t, ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
# arguments: the array, a text with what is expected, a bit for each allowed type number, number of dimensions, flags,
# and memory that is filled with address, shape and strides
TAKE_APART = ir.FunctionType(I32, [POINTER, POINTER, I64, I32, I32, I64.as_pointer()])
_INTEGERS = ("byte", "ubyte", "short", "ushort", "intc", "uintc", "int", "uint", "long", "ulong", "longlong",
             "ulonglong")


class Python:
    """Writer of LLVM code that calls CPython's C interface.

    ``failed`` is what the function being written returns after it has set an exception.
    """

    def __init__(self, context: Any, builder: ir.IRBuilder, failed: ir.Constant) -> None:
        self._context, self._builder, self._failed = context, builder, failed

    def call(self, name: str, returns: ir.Type, *args: Any, more: tuple[Any, ...] = ()) -> Any:
        """Write a call of a C function; return its result. ``more`` are variadic arguments (C's ``...``)."""
        kind = ir.FunctionType(returns, [arg.type for arg in args], var_arg=bool(more))
        return self._builder.call(cgutils.get_or_insert_function(self._builder.module, kind, name), [*args, *more])

    def text(self, words: str) -> Any:
        """Return the address of a constant C string."""
        return self._context.insert_const_string(self._builder.module, words)

    def fail_if(self, condition: Any, message: Any, *about: Any) -> None:
        """Write code that raises TypeError if ``condition`` is true.

        ``message`` is the text, or a format as of C's printf for the texts ``about``.
        """
        with self._builder.if_then(condition, likely=False):
            error = self.object(interface.TYPE_ERROR)
            message = self.text(message) if isinstance(message, str) else message
            if about:
                self.call("PyErr_Format", POINTER, error, message, more=about)
            else:
                self.call("PyErr_SetString", ir.VoidType(), error, message)
            self._builder.ret(self._failed)

    def _fail_if_raised(self, maybe: Any) -> None:
        """Write code that returns ``failed`` if ``maybe`` is true and an exception has been raised."""
        with self._builder.if_then(maybe, likely=False):
            raised = self.call("PyErr_Occurred", POINTER)
            with self._builder.if_then(cgutils.is_not_null(self._builder, raised)):
                self._builder.ret(self._failed)

    def object(self, name: str) -> Any:
        """Return the address of the Python object whose symbol is ``name``."""
        module = self._builder.module
        variable = module.globals.get(name) or cgutils.add_global_variable(module, I8, name)
        return self._builder.bitcast(variable, POINTER)

    def field(self, thing: Any, offset: int, kind: ir.Type) -> Any:
        """Write code that loads a field of an object, ``offset`` bytes after its start; return the value."""
        place = cgutils.pointer_add(self._builder, thing, offset, kind.as_pointer())
        return self._builder.load(place)

    def type_of(self, thing: Any) -> Any:
        """Write code that loads the type of an object; return its address."""
        return self.field(thing, interface.HEAD - interface.POINTER_BYTES, POINTER)

    def is_exactly(self, thing: Any, name: str) -> Any:
        """Write code that compares an object's type with the type whose symbol is ``name``; return the result."""
        return self._builder.icmp_unsigned("==", self.type_of(thing), self.object(name))

    def value(self, thing: Any, kind: Any, place: str) -> Any:
        """Write code that converts the Python object ``thing`` to numba type ``kind``; return the value.

        ``place`` names the argument in error messages.
        """
        if isinstance(kind, types.Array):
            return self._array(thing, kind, place)
        if isinstance(kind, types.Float):
            return self._float(thing, kind)
        if isinstance(kind, types.Boolean):
            truth = self.call("PyObject_IsTrue", I32, thing)
            self._fail_if_raised(self._builder.icmp_signed("==", truth, ir.Constant(I32, -1)))
            return self._builder.trunc(truth, self._context.get_value_type(kind))
        if isinstance(kind, types.Integer):
            number = self.call("PyNumber_AsSsize_t", I64, thing, self.object(interface.OVERFLOW_ERROR))
            self._fail_if_raised(self._builder.icmp_signed("==", number, ir.Constant(I64, -1)))
            wanted = self._context.get_value_type(kind)
            return number if wanted == I64 else self._builder.trunc(number, wanted)
        if isinstance(kind, types.CPointer):
            return self._builder.bitcast(self._address(thing, place), self._context.get_value_type(kind))
        raise TypeError(f"{place}: a compiled function cannot take an argument of numba's type {kind}")

    def _float(self, thing: Any, kind: Any) -> Any:
        builder = self._builder
        number = builder.alloca(DOUBLE)
        with builder.if_else(self.is_exactly(thing, interface.FLOAT), likely=True) as (is_float, is_not):
            with is_float:
                builder.store(self.field(thing, interface.HEAD, DOUBLE), number)
            with is_not:
                converted = self.call("PyFloat_AsDouble", DOUBLE, thing)
                self._fail_if_raised(builder.fcmp_ordered("==", converted, ir.Constant(DOUBLE, -1.0)))
                builder.store(converted, number)
        value = builder.load(number)
        return value if kind.bitwidth == 64 else builder.fptrunc(value, self._context.get_value_type(kind))

    def _address(self, thing: Any, place: str) -> Any:
        builder = self._builder
        address = builder.alloca(POINTER)
        with builder.if_else(self.is_exactly(thing, interface.BYTES)) as (is_bytes, is_not):
            with is_bytes:
                builder.store(self.call("PyBytes_AsString", POINTER, thing), address)
            with is_not:
                builder.store(self.call("PyLong_AsVoidPtr", POINTER, thing), address)
        address_there = builder.load(address)
        self.fail_if(cgutils.is_null(builder, address_there), f"{place}: expected bytes or an address")
        return address_there

    def _array(self, thing: Any, kind: Any, place: str) -> Any:
        builder, ndim, dtype = self._builder, kind.ndim, np.dtype(str(kind.dtype))
        shape_text = {1: "vector", 2: "matrix"}.get(ndim, f"array of {ndim} dimensions")
        flags = interface.ALIGNED | interface.WRITEABLE | (interface.CONTIGUOUS if kind.layout == "C" else 0)
        with builder.goto_entry_block():
            filled = builder.alloca(I64, size=1 + 2 * ndim)
        check = cgutils.get_or_insert_function(builder.module, TAKE_APART, interface.ARRAY)
        is_right = builder.call(check, [thing, self.text(f"{place}: expected a {dtype} {shape_text}"),
                                        ir.Constant(I64, sum(1 << number for number in _type_numbers(dtype))),
                                        ir.Constant(I32, ndim), ir.Constant(I32, flags), filled])
        with builder.if_then(builder.icmp_signed("==", is_right, ir.Constant(I32, 0)), likely=False):
            builder.ret(self._failed)
        data, *extents = (builder.load(builder.gep(filled, [ir.Constant(I64, i)])) for i in range(1 + 2 * ndim))
        view = self._context.make_array(kind)(self._context, builder)
        arrayobj.populate_array(view, data=builder.inttoptr(data, view.data.type),
                                shape=cgutils.pack_array(builder, extents[:ndim]),
                                strides=cgutils.pack_array(builder, extents[ndim:]),
                                itemsize=ir.Constant(I64, dtype.itemsize), meminfo=None)
        return view._getvalue()

    def object_of(self, value: Any, kind: Any) -> Any:
        """Write code that makes a Python object from a value of numba type ``kind``; return a new reference."""
        if isinstance(kind, types.Float):
            wide = value if kind.bitwidth == 64 else self._builder.fpext(value, DOUBLE)
            return self.call("PyFloat_FromDouble", POINTER, wide)
        if isinstance(kind, types.Integer):
            wide = value if value.type == I64 else self._builder.sext(value, I64)
            return self.call("PyLong_FromSsize_t", POINTER, wide)
        if kind != types.none:
            raise TypeError(f"a compiled function cannot return numba's type {kind}, expected a number or nothing")
        none = self.object(interface.NONE)
        self.call("Py_IncRef", ir.VoidType(), none)
        return none


def _type_numbers(dtype: np.dtype) -> list[int]:
    """Return numpy's type numbers for a dtype; integers of one size may have two (such as long and long long)."""
    return sorted({dtype.num} | {np.dtype(name).num for name in _INTEGERS if np.dtype(name) == dtype})


# -- the C function that checks an array and reads its address, shape and strides --------------------------------------


def make_take_apart() -> Code:
    """Compile ``interface.ARRAY``, the C function that checks an array and reads its address, shape and strides.

    It returns 1, or 0 with TypeError set. When each entry had this code inline, it took a tenth of compile time.
    """
    return make_of_llvm("take_apart", TAKE_APART, _build_take_apart, (interface.NDARRAY,))


def _build_take_apart(context: Any, builder: ir.IRBuilder, arguments: Any) -> None:
    thing, expected, type_numbers, ndim, flags, filled = arguments
    api = Python(context, builder, ir.Constant(I32, 0))
    with builder.if_then(builder.not_(api.is_exactly(thing, interface.NDARRAY)), likely=False):
        is_array = api.call("PyType_IsSubtype", I32, api.type_of(thing), api.object(interface.NDARRAY))
        api.fail_if(builder.icmp_signed("==", is_array, ir.Constant(I32, 0)), "%s", expected)
    dtype = api.field(thing, interface.DTYPE, POINTER)
    number = builder.and_(api.field(dtype, interface.TYPE_NUMBER, I32), ir.Constant(I32, 63))
    bit = builder.and_(builder.lshr(type_numbers, builder.zext(number, I64)), ir.Constant(I64, 1))
    is_small = builder.icmp_unsigned("==", number, api.field(dtype, interface.TYPE_NUMBER, I32))
    same_ndim = builder.icmp_signed("==", api.field(thing, interface.DIMENSIONS, I32), ndim)
    is_right = builder.and_(builder.and_(builder.trunc(bit, ir.IntType(1)), is_small), same_ndim)
    api.fail_if(builder.not_(is_right), "%s", expected)
    order = api.field(dtype, interface.BYTE_ORDER, I8)
    is_native: Any = ir.Constant(ir.IntType(1), 0)
    for value in interface.NATIVE:
        is_native = builder.or_(is_native, builder.icmp_signed("==", order, ir.Constant(I8, value)))
    api.fail_if(builder.not_(is_native), "%s in the machine's byte order", expected)
    has = builder.and_(api.field(thing, interface.FLAGS, I32), flags)
    contiguous = builder.and_(flags, ir.Constant(I32, interface.CONTIGUOUS))
    text = builder.select(builder.icmp_signed("==", contiguous, ir.Constant(I32, 0)),
                          api.text("%s that can be written"), api.text("%s that can be written and is contiguous"))
    api.fail_if(builder.icmp_signed("!=", has, flags), text, expected)
    builder.store(api.field(thing, interface.DATA, I64), filled)
    for axis, field in enumerate((interface.SHAPE, interface.STRIDES)):
        source = api.field(thing, field, I64.as_pointer())
        begin = builder.add(builder.mul(ndim, ir.Constant(I32, axis)), ir.Constant(I32, 1))
        with cgutils.for_range(builder, ndim) as loop:
            target = builder.gep(filled, [builder.add(begin, loop.index)])
            builder.store(builder.load(builder.gep(source, [loop.index])), target)
    builder.ret(ir.Constant(I32, 1))


# -- progress of compilation -------------------------------------------------------------------------------------------


logger = logging.getLogger("nnet3py.ops")

MOST_KERNELS = 230             # upper bound of the number of kernels; most processes need a fifth of them
_SECONDS_BETWEEN = 10.0        # between two log lines

_state = {"count": 0, "start": 0.0, "said": 0.0}


@contextmanager
def compiling() -> Iterator[None]:
    """Show the number of compiled kernels, on a terminal or below a notebook's cell, while a kernel is compiled.

    Elsewhere a line is logged for the first kernel, and then every ten seconds: in the first runs on a machine,
    compiling takes half a minute.
    """
    now = time.monotonic()
    _state["start"] = _state["start"] or now
    _state["count"] += 1
    count, seconds = int(_state["count"]), now - _state["start"]
    if count == 1:
        logger.info("Compiling kernels for this machine (once; they are kept in %s)", cache_folder())
        _state["said"] = now
    shown = log.show_status(f"Compiling, once: {log.bar(count - 1, MOST_KERNELS, 'at most {} kernels', seconds)}")
    if not shown and now - _state["said"] >= _SECONDS_BETWEEN:
        logger.info("Compiled %d kernels so far, in %.0f s", count - 1, seconds)
        _state["said"] = now
    try:
        yield
    finally:
        log.show_status("")
