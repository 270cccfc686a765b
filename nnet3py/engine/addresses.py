"""Addresses in compiled code: small work space on the stack, numbers at an address; and numbers' exponents."""
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

_I64 = ir.IntType(64)
_FLOATS: dict[str, tuple[Any, Any]] = {"float": (ir.FloatType(), types.float32),
                                       "double": (ir.DoubleType(), types.float64)}


def _address(typingctx, array):
    """Address of an array's first element."""
    def codegen(context, builder, signature, args):
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, args[0]).data, _I64)

    return types.intp(array), codegen


def _on_stack(kind: str) -> Any:
    """Address of ``count`` (a constant) numbers in the caller's stack frame, on a cache line."""
    def intrinsic_function(typingctx, count):
        if not isinstance(count, types.IntegerLiteral):
            return None

        def codegen(context, builder, signature, args):
            with builder.goto_entry_block():
                memory = builder.alloca(ir.ArrayType(_FLOATS[kind][0], count.literal_value))
                memory.align = 64
            return builder.ptrtoint(memory, _I64)

        return types.intp(count), codegen

    return intrinsic(prefer_literal=True)(intrinsic_function)


def _getter(kind: str) -> Any:
    """The number at an address."""
    llvm_type, numba_type = _FLOATS[kind]

    def intrinsic_function(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.load(builder.inttoptr(args[0], llvm_type.as_pointer()))

        return numba_type(types.intp), codegen

    return intrinsic(intrinsic_function)


def _setter(kind: str) -> Any:
    """Set the number at an address."""
    llvm_type, numba_type = _FLOATS[kind]

    def intrinsic_function(typingctx, address, value):
        def codegen(context, builder, signature, args):
            builder.store(args[1], builder.inttoptr(args[0], llvm_type.as_pointer()))
            return context.get_dummy_value()

        return types.void(types.intp, numba_type), codegen

    return intrinsic(intrinsic_function)


def _stack_vector(typingctx, count):
    """A float32 vector of ``count`` (a constant) numbers in the caller's stack frame, on a cache line."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    result = types.Array(types.float32, 1, "C")

    def codegen(context, builder, signature, args):
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(ir.FloatType(), count.literal_value))
            memory.align = 64
        itemsize, size = (context.get_constant(types.intp, number) for number in (4, count.literal_value))
        view = context.make_array(result)(context, builder)
        arrayobj.populate_array(view, data=builder.bitcast(memory, ir.FloatType().as_pointer()),
                                shape=cgutils.pack_array(builder, [size]),
                                strides=cgutils.pack_array(builder, [itemsize]), itemsize=itemsize, meminfo=None)
        return view._getvalue()

    return result(count), codegen


def _times_power_of_two(typingctx, value, exponent):
    """C's ``ldexp``: numba's own is a function of numba's, which kept code must not call."""
    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), ir.IntType(32)]), "ldexp")
        return builder.call(function, [args[0], builder.trunc(args[1], ir.IntType(32))])

    return types.float64(types.float64, types.intp), codegen


def _exponent_of(typingctx, value):
    """C's ``frexp``: the exponent of the power of two that is just above a number's size; 0 for 0."""
    def codegen(context, builder, signature, args):
        place = cgutils.alloca_once(builder, ir.IntType(32))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), place.type]), "frexp")
        builder.call(function, [args[0], place])
        return builder.sext(builder.load(place), _I64)

    return types.intp(types.float64), codegen


times_power_of_two: Any = intrinsic(_times_power_of_two)
exponent_of: Any = intrinsic(_exponent_of)
address: Any = intrinsic(_address)
stack_vector: Any = intrinsic(prefer_literal=True)(_stack_vector)
stack_floats, stack_doubles = _on_stack("float"), _on_stack("double")
get_float, get_double = _getter("float"), _getter("double")
set_float, set_double = _setter("float"), _setter("double")
