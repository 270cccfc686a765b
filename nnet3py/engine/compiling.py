"""Compiling functions by numba, each with an entry that Python calls, or one that compiled code calls.

A function must not allocate memory or raise: then its machine code refers to nothing of numba's.
"""
from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Flags
from numba.core.targetconfig import ConfigStack
from numba.np import arrayobj

from nnet3py.engine import compile_notice, entries
from nnet3py.engine.code_files import Code
from nnet3py.engine.numba_target import numba

_POINTER, _I32, _I64, _DOUBLE = cgutils.voidptr_t, ir.IntType(32), ir.IntType(64), ir.DoubleType()
_HEAD = object.__basicsize__            # bytes; the last of them are the address of the object's type
_POINTER_BYTES = 8
# where numpy's arrays (PyArrayObject) and dtypes (PyArray_Descr) have the fields that are read, in bytes
_DATA, _DIMENSIONS, _SHAPE, _STRIDES, _DTYPE, _FLAGS = (_HEAD + 8 * i for i in (0, 1, 2, 3, 5, 6))
_BYTE_ORDER, _TYPE_NUMBER = _HEAD + 10, _HEAD + 12
_NATIVE = b"=|<" if sys.byteorder == "little" else b"=|>"
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_INTEGERS = ("byte", "ubyte", "short", "ushort", "intc", "uintc", "int", "uint", "long", "ulong", "longlong",
             "ulonglong")
_NUMBAS = re.compile(rb"\b(?:numba_\w+|NRT_(?!incref\b|decref\b|MemInfo_call_dtor\b)\w+)")
_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@cache
def _load_numba_without_scipy() -> None:
    """Load what numba needs before its first function, but not all of ``scipy.linalg``: that takes 0.2 s and 13 MB.

    numba imports it to see whether it is there. Functions that need it import it again, so nothing is lost by waiting.
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
    """Compile a function that Python is to call.

    Parameters
    ----------
    function : a plain function that numba can compile; it follows numpy where Python would raise (1/0 is inf)
    signature : the numba types of its arguments: numbers, booleans, arrays; addresses, for which Python may give bytes
    needs : symbols of ours that it may refer to
    fastmath : False, or the set of LLVM's fast-math flags that it tolerates
    """
    result = _compiled(function, tuple(signature), fastmath)
    names = inspect.signature(function).parameters
    defaults = function.__defaults__ or ()
    strange = [value for value in defaults if not isinstance(value, (bool, int, float))]
    if strange:
        raise TypeError(f"{function.__name__} has default values that are no numbers: {strange}")
    if any(isinstance(kind, types.Array) for kind in signature):
        needs = (*needs, entries.NDARRAY)
    entry = _python_entry(result, function.__name__, list(names))
    return _code(result, entry, needs, tuple(names) if defaults else (), defaults)


def make_c_function(function: Callable[..., Any], signature: Sequence[Any], needs: Iterable[str] = ()) -> Code:
    """Compile a function of numbers, with no result, that compiled code is to call as a C function."""
    result = _compiled(function, tuple(signature), False)
    return _code(result, _c_entry(result), needs)


def _compiled(function: Callable[..., Any], signature: tuple[Any, ...], fastmath: Any) -> Any:
    _load_numba_without_scipy()
    defaults: Any = Flags()          # not the flags of a function that is being compiled and needs this one
    defaults.nrt = True
    with compile_notice.compiling(), ConfigStack().enter(defaults):
        dispatcher: Any = numba.njit(signature, error_model="numpy", fastmath=fastmath, **_OPTIONS)(function)
    return dispatcher.overloads[dispatcher.signatures[0]]


def _code(result: Any, entry: ir.Function, needs: Iterable[str], names: tuple[str, ...] = (),
          defaults: tuple[float | bool, ...] = ()) -> Code:
    content: bytes = result.library._get_compiled_object()
    foreign = sorted({name.decode() for name in _NUMBAS.findall(content)})
    if foreign:
        raise ValueError(f"{result.fndesc.qualname} cannot be kept: it calls {', '.join(foreign)} of numba")
    module = llvmlite.binding.parse_assembly(str(entry.module))
    module.verify()
    machine = llvmlite.binding.Target.from_default_triple().create_target_machine(
        opt=2, codemodel="jitdefault", jit=True)
    objects = machine.emit_object(module), content
    wanted = tuple(name for name in needs if any(name.encode() in code for code in objects))
    return Code(entry.name, names, defaults, wanted, objects)


def _new_entry(result: Any, function_type: ir.FunctionType) -> tuple[ir.Function, ir.IRBuilder]:
    name = f"nnet3py.entry.{result.fndesc.unique_name}"
    module = result.target_context.create_module(name)
    entry = ir.Function(module, function_type, name)
    return entry, ir.IRBuilder(entry.append_basic_block("start"))


def _call(result: Any, builder: ir.IRBuilder, arguments: Sequence[Any]) -> tuple[Any, Any]:
    """Call the compiled function; numba's status and its result."""
    convention, described = result.target_context.call_conv, result.fndesc
    function_type = convention.get_function_type(described.restype, described.argtypes)
    function = cgutils.get_or_insert_function(builder.module, function_type, described.llvm_func_name)
    return convention.call_function(builder, function, described.restype, described.argtypes, arguments)


def _c_entry(result: Any) -> ir.Function:
    kinds = [result.target_context.get_value_type(kind) for kind in result.fndesc.argtypes]
    entry, builder = _new_entry(result, ir.FunctionType(ir.VoidType(), kinds))
    _call(result, builder, entry.args)
    builder.ret_void()
    return entry


def _python_entry(result: Any, name: str, arguments: list[str]) -> ir.Function:
    entry, builder = _new_entry(result, ir.FunctionType(_POINTER, [_POINTER, _POINTER.as_pointer(), _I64]))
    _, given, count = entry.args
    api = _Python(result.target_context, builder)
    kinds = result.fndesc.argtypes
    api.fail_if(builder.icmp_signed("!=", count, ir.Constant(_I64, len(kinds))),
                f"{name}() takes {len(kinds)} positional arguments: {', '.join(arguments)}")
    values = [api.value(builder.load(builder.gep(given, [ir.Constant(_I64, i)])), kind, f"{name}(): {argument}")
              for i, (kind, argument) in enumerate(zip(kinds, arguments, strict=True))]
    state = api.call("PyEval_SaveThread", _POINTER)
    status, returned = _call(result, builder, values)
    api.call("PyEval_RestoreThread", ir.VoidType(), state)
    api.fail_if(status.is_error, f"{name}() failed")
    builder.ret(api.object_of(returned, result.fndesc.restype))
    return entry


class _Python:
    """CPython's interface, and numpy's arrays, as an entry uses them."""

    def __init__(self, context: Any, builder: ir.IRBuilder) -> None:
        self._context, self._builder = context, builder

    def call(self, name: str, returns: ir.Type, *args: Any) -> Any:
        """Call a function of the interface."""
        kind = ir.FunctionType(returns, [arg.type for arg in args])
        return self._builder.call(cgutils.get_or_insert_function(self._builder.module, kind, name), args)

    def fail_if(self, condition: Any, message: str) -> None:
        """Leave the entry with TypeError."""
        with self._builder.if_then(condition, likely=False):
            text = self._context.insert_const_string(self._builder.module, message)
            self.call("PyErr_SetString", ir.VoidType(), self._object(entries.TYPE_ERROR), text)
            self._fail()

    def _fail(self) -> None:
        self._builder.ret(ir.Constant(_POINTER, None))

    def _fail_if_raised(self, maybe: Any) -> None:
        """Leave the entry if ``maybe`` holds and an exception has been raised."""
        with self._builder.if_then(maybe, likely=False):
            raised = self.call("PyErr_Occurred", _POINTER)
            with self._builder.if_then(cgutils.is_not_null(self._builder, raised)):
                self._fail()

    def _object(self, name: str) -> Any:
        """The address of an object that entries.py knows by a symbol."""
        module = self._builder.module
        variable = module.globals.get(name) or cgutils.add_global_variable(module, ir.IntType(8), name)
        return self._builder.bitcast(variable, _POINTER)

    def _field(self, thing: Any, offset: int, kind: ir.Type) -> Any:
        place = cgutils.pointer_add(self._builder, thing, offset, kind.as_pointer())
        return self._builder.load(place)

    def _is_exactly(self, thing: Any, name: str) -> Any:
        return self._builder.icmp_unsigned("==", self._field(thing, _HEAD - _POINTER_BYTES, _POINTER),
                                           self._object(name))

    def _is_one_of(self, number: Any, expected: Iterable[int]) -> Any:
        is_any: Any = ir.Constant(ir.IntType(1), 0)
        for value in expected:
            is_any = self._builder.or_(is_any, self._builder.icmp_signed("==", number, ir.Constant(number.type, value)))
        return is_any

    def value(self, thing: Any, kind: Any, place: str) -> Any:
        """The value of an argument, ``thing``; ``place`` names it."""
        if isinstance(kind, types.Array):
            return self._array(thing, kind, place)
        if isinstance(kind, types.Float):
            return self._float(thing, kind)
        if isinstance(kind, types.Boolean):
            truth = self.call("PyObject_IsTrue", _I32, thing)
            self._fail_if_raised(self._builder.icmp_signed("==", truth, ir.Constant(_I32, -1)))
            return self._builder.trunc(truth, self._context.get_value_type(kind))
        if isinstance(kind, types.Integer):
            number = self.call("PyNumber_AsSsize_t", _I64, thing, self._object(entries.OVERFLOW_ERROR))
            self._fail_if_raised(self._builder.icmp_signed("==", number, ir.Constant(_I64, -1)))
            wanted = self._context.get_value_type(kind)
            return number if wanted == _I64 else self._builder.trunc(number, wanted)
        if isinstance(kind, types.CPointer):
            return self._builder.bitcast(self._address(thing, place), self._context.get_value_type(kind))
        raise TypeError(f"{place}: no entry can take {kind}")

    def _float(self, thing: Any, kind: Any) -> Any:
        builder = self._builder
        number = builder.alloca(_DOUBLE)
        with builder.if_else(self._is_exactly(thing, entries.FLOAT), likely=True) as (is_float, is_not):
            with is_float:
                builder.store(self._field(thing, _HEAD, _DOUBLE), number)
            with is_not:
                converted = self.call("PyFloat_AsDouble", _DOUBLE, thing)
                self._fail_if_raised(builder.fcmp_ordered("==", converted, ir.Constant(_DOUBLE, -1.0)))
                builder.store(converted, number)
        value = builder.load(number)
        return value if kind.bitwidth == 64 else builder.fptrunc(value, self._context.get_value_type(kind))

    def _address(self, thing: Any, place: str) -> Any:
        builder = self._builder
        address = builder.alloca(_POINTER)
        with builder.if_else(self._is_exactly(thing, entries.BYTES)) as (is_bytes, is_not):
            with is_bytes:
                builder.store(self.call("PyBytes_AsString", _POINTER, thing), address)
            with is_not:
                builder.store(self.call("PyLong_AsVoidPtr", _POINTER, thing), address)
        address_there = builder.load(address)
        self.fail_if(cgutils.is_null(builder, address_there), f"{place}: expected bytes or an address")
        return address_there

    def _array(self, thing: Any, kind: Any, place: str) -> Any:
        builder, ndim = self._builder, kind.ndim
        dtype = np.dtype(str(kind.dtype))
        shape_text = {1: "vector", 2: "matrix"}.get(ndim, f"array of {ndim} dimensions")
        expected = f"{place}: expected a {dtype} {shape_text}"
        with builder.if_then(builder.not_(self._is_exactly(thing, entries.NDARRAY)), likely=False):
            kind_of_thing = self._field(thing, _HEAD - _POINTER_BYTES, _POINTER)
            is_array = self.call("PyType_IsSubtype", _I32, kind_of_thing, self._object(entries.NDARRAY))
            self.fail_if(builder.icmp_signed("==", is_array, ir.Constant(_I32, 0)), expected)
        found_ndim = self._field(thing, _DIMENSIONS, _I32)
        found_dtype = self._field(thing, _DTYPE, _POINTER)
        self.fail_if(builder.not_(builder.and_(
            self._is_one_of(self._field(found_dtype, _TYPE_NUMBER, _I32), _type_numbers(dtype)),
            builder.icmp_signed("==", found_ndim, ir.Constant(_I32, ndim)))), expected)
        self.fail_if(builder.not_(self._is_one_of(self._field(found_dtype, _BYTE_ORDER, ir.IntType(8)), _NATIVE)),
                     f"{expected} in the machine's byte order")
        wanted_flags = _ALIGNED | _WRITEABLE | (_CONTIGUOUS if kind.layout == "C" else 0)
        flags = builder.and_(self._field(thing, _FLAGS, _I32), ir.Constant(_I32, wanted_flags))
        self.fail_if(builder.icmp_signed("!=", flags, ir.Constant(_I32, wanted_flags)),
                     f"{expected} that can be written{' and is contiguous' if kind.layout == 'C' else ''}")
        shape, strides = ([builder.load(builder.gep(self._field(thing, offset, _I64.as_pointer()),
                                                    [ir.Constant(_I64, axis)])) for axis in range(ndim)]
                          for offset in (_SHAPE, _STRIDES))
        view = self._context.make_array(kind)(self._context, builder)
        data = builder.bitcast(self._field(thing, _DATA, _POINTER), view.data.type)
        arrayobj.populate_array(view, data=data, shape=cgutils.pack_array(builder, shape),
                                strides=cgutils.pack_array(builder, strides),
                                itemsize=ir.Constant(_I64, dtype.itemsize), meminfo=None)
        return view._getvalue()

    def object_of(self, value: Any, kind: Any) -> Any:
        """A new reference to an object that has a result's value."""
        if isinstance(kind, types.Float):
            wide = value if kind.bitwidth == 64 else self._builder.fpext(value, _DOUBLE)
            return self.call("PyFloat_FromDouble", _POINTER, wide)
        if isinstance(kind, types.Integer):
            wide = value if value.type == _I64 else self._builder.sext(value, _I64)
            return self.call("PyLong_FromSsize_t", _POINTER, wide)
        if kind != types.none:
            raise TypeError(f"no entry can return {kind}")
        none = self._object(entries.NONE)
        self.call("Py_IncRef", ir.VoidType(), none)
        return none


def _type_numbers(dtype: np.dtype) -> list[int]:
    """The type numbers that numpy has for a dtype; integers of one size may have two."""
    return sorted({dtype.num} | {np.dtype(name).num for name in _INTEGERS if np.dtype(name) == dtype})
