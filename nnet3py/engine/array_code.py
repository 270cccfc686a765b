"""LLVM's code of the C function that checks an array and takes it apart, for entries (``compiling.py``).

Compiled once: in every entry, for each of its arrays, it took a tenth of all time of compiling.
"""
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from nnet3py.engine import compiling, interface, symbols
from nnet3py.engine.code_bytes import Code
from nnet3py.engine.python_code import I8, I32, I64, POINTER, TAKE_APART, Python


def make_take_apart() -> Code:
    """Machine code of ``symbols.ARRAY``: 1, or 0 with TypeError set."""
    return compiling.make_of_llvm("take_apart", TAKE_APART, _build, (symbols.NDARRAY,))


def _build(context: Any, builder: ir.IRBuilder, arguments: Any) -> None:
    thing, expected, type_numbers, ndim, flags, filled = arguments
    api = Python(context, builder, ir.Constant(I32, 0))
    with builder.if_then(builder.not_(api.is_exactly(thing, symbols.NDARRAY)), likely=False):
        is_array = api.call("PyType_IsSubtype", I32, api.type_of(thing), api.object(symbols.NDARRAY))
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
