"""CPython's interface in LLVM's code, as entries use it: taking arguments apart, making results, raising TypeError."""
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.np import arrayobj

from nnet3py.engine import interface, symbols

POINTER, I8, I32, I64, DOUBLE = cgutils.voidptr_t, ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
# thing, what is expected in words, a bit for each type number, dimensions, flags; filled: address, shape, strides
TAKE_APART = ir.FunctionType(I32, [POINTER, POINTER, I64, I32, I32, I64.as_pointer()])
_INTEGERS = ("byte", "ubyte", "short", "ushort", "intc", "uintc", "int", "uint", "long", "ulong", "longlong",
             "ulonglong")


class Python:
    """CPython's interface, for a function that returns ``failed`` where it raises."""

    def __init__(self, context: Any, builder: ir.IRBuilder, failed: ir.Constant) -> None:
        self._context, self._builder, self._failed = context, builder, failed

    def call(self, name: str, returns: ir.Type, *args: Any, more: tuple[Any, ...] = ()) -> Any:
        """Call a function of the interface, perhaps one that takes ``more`` arguments than it declares."""
        kind = ir.FunctionType(returns, [arg.type for arg in args], var_arg=bool(more))
        return self._builder.call(cgutils.get_or_insert_function(self._builder.module, kind, name), [*args, *more])

    def text(self, words: str) -> Any:
        """The address of a constant text."""
        return self._context.insert_const_string(self._builder.module, words)

    def fail_if(self, condition: Any, message: Any, *about: Any) -> None:
        """Raise TypeError with a text, or with what C's printf makes of it and the texts that it is about."""
        with self._builder.if_then(condition, likely=False):
            error = self.object(symbols.TYPE_ERROR)
            message = self.text(message) if isinstance(message, str) else message
            if about:
                self.call("PyErr_Format", POINTER, error, message, more=about)
            else:
                self.call("PyErr_SetString", ir.VoidType(), error, message)
            self._builder.ret(self._failed)

    def _fail_if_raised(self, maybe: Any) -> None:
        """Leave the function if ``maybe`` holds and an exception has been raised."""
        with self._builder.if_then(maybe, likely=False):
            raised = self.call("PyErr_Occurred", POINTER)
            with self._builder.if_then(cgutils.is_not_null(self._builder, raised)):
                self._builder.ret(self._failed)

    def object(self, name: str) -> Any:
        """The address of an object that is known by a symbol."""
        module = self._builder.module
        variable = module.globals.get(name) or cgutils.add_global_variable(module, I8, name)
        return self._builder.bitcast(variable, POINTER)

    def field(self, thing: Any, offset: int, kind: ir.Type) -> Any:
        """What an object has at an offset in bytes."""
        place = cgutils.pointer_add(self._builder, thing, offset, kind.as_pointer())
        return self._builder.load(place)

    def type_of(self, thing: Any) -> Any:
        """The type of an object."""
        return self.field(thing, interface.HEAD - interface.POINTER_BYTES, POINTER)

    def is_exactly(self, thing: Any, name: str) -> Any:
        """Whether an object's type is the one that is known by a symbol."""
        return self._builder.icmp_unsigned("==", self.type_of(thing), self.object(name))

    def value(self, thing: Any, kind: Any, place: str) -> Any:
        """The value of an argument, ``thing``; ``place`` names it."""
        if isinstance(kind, types.Array):
            return self._array(thing, kind, place)
        if isinstance(kind, types.Float):
            return self._float(thing, kind)
        if isinstance(kind, types.Boolean):
            truth = self.call("PyObject_IsTrue", I32, thing)
            self._fail_if_raised(self._builder.icmp_signed("==", truth, ir.Constant(I32, -1)))
            return self._builder.trunc(truth, self._context.get_value_type(kind))
        if isinstance(kind, types.Integer):
            number = self.call("PyNumber_AsSsize_t", I64, thing, self.object(symbols.OVERFLOW_ERROR))
            self._fail_if_raised(self._builder.icmp_signed("==", number, ir.Constant(I64, -1)))
            wanted = self._context.get_value_type(kind)
            return number if wanted == I64 else self._builder.trunc(number, wanted)
        if isinstance(kind, types.CPointer):
            return self._builder.bitcast(self._address(thing, place), self._context.get_value_type(kind))
        raise TypeError(f"{place}: no entry can take {kind}")

    def _float(self, thing: Any, kind: Any) -> Any:
        builder = self._builder
        number = builder.alloca(DOUBLE)
        with builder.if_else(self.is_exactly(thing, symbols.FLOAT), likely=True) as (is_float, is_not):
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
        with builder.if_else(self.is_exactly(thing, symbols.BYTES)) as (is_bytes, is_not):
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
        check = cgutils.get_or_insert_function(builder.module, TAKE_APART, symbols.ARRAY)
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
        """A new reference to an object that has a result's value."""
        if isinstance(kind, types.Float):
            wide = value if kind.bitwidth == 64 else self._builder.fpext(value, DOUBLE)
            return self.call("PyFloat_FromDouble", POINTER, wide)
        if isinstance(kind, types.Integer):
            wide = value if value.type == I64 else self._builder.sext(value, I64)
            return self.call("PyLong_FromSsize_t", POINTER, wide)
        if kind != types.none:
            raise TypeError(f"no entry can return {kind}")
        none = self.object(symbols.NONE)
        self.call("Py_IncRef", ir.VoidType(), none)
        return none


def _type_numbers(dtype: np.dtype) -> list[int]:
    """The type numbers that numpy has for a dtype; integers of one size may have two."""
    return sorted({dtype.num} | {np.dtype(name).num for name in _INTEGERS if np.dtype(name) == dtype})
