"""Addresses in compiled code: small work space on the stack, numbers at an address."""
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

_I64 = ir.IntType(64)
_FLOATS: dict[str, tuple[Any, Any]] = {"float": (ir.FloatType(), types.float32),
                                       "double": (ir.DoubleType(), types.float64)}
_KINDS = {**_FLOATS, "int": (ir.IntType(32), types.int32)}


def _address(typingctx, array):
    """Address of an array's first element, or an address that is a pointer, as a number."""
    def codegen(context, builder, signature, args):
        if isinstance(signature.args[0], types.CPointer):
            return builder.ptrtoint(args[0], _I64)
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, args[0]).data, _I64)

    return types.intp(array), codegen


def prefetch_line(builder: ir.IRBuilder, place: Any, for_writing: int) -> None:
    """Have a cache line brought, to be used soon."""
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [pointer, number, number, number]), "llvm.prefetch.p0")
    access, keep, data = (ir.Constant(number, value) for value in (for_writing, 3, 1))
    builder.call(function, [builder.inttoptr(place, pointer), access, keep, data])


def _bring(typingctx, place):
    """Have the cache line at an address brought, to be read soon; the address need not be one of ours."""
    def codegen(context, builder, signature, args):
        prefetch_line(builder, args[0], for_writing=0)
        return context.get_dummy_value()

    return types.void(types.intp), codegen


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
    llvm_type, numba_type = _KINDS[kind]

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


address: Any = intrinsic(_address)
bring: Any = intrinsic(_bring)
stack_vector: Any = intrinsic(prefer_literal=True)(_stack_vector)
stack_floats, stack_doubles = _on_stack("float"), _on_stack("double")
get_float, get_double, get_int = _getter("float"), _getter("double"), _getter("int")
set_float, set_double = _setter("float"), _setter("double")
