"""Functions that compiled functions can call: calls of C functions, access by address, memory on the stack."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from nnet3py.engine.numba_target import njit

# For functions that kernels call. Without inlining, a process that compiles would call the function's separate machine
# code, which may round differently from the copy that is kept on disk with its caller.
inline: Any = njit(forceinline=True)


# -- C functions -------------------------------------------------------------------------------------------------------


def c_function(symbol: str, kinds: Sequence[Any]) -> Any:
    """Return a function by which kernels call the C function ``symbol`` with numbers of numba types ``kinds``.

    It has no result. A C function is compiled once, and not as part of each kernel.
    """
    def call(typingctx: Any, *given: Any) -> Any:
        if len(given) != len(kinds):
            return None

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            values = [context.cast(builder, value, kind, wanted) for value, kind, wanted in
                      zip(cgutils.unpack_tuple(builder, args[0], len(kinds)), signature.args[0], kinds, strict=True)]
            function_type = ir.FunctionType(ir.VoidType(), [context.get_value_type(kind) for kind in kinds])
            builder.call(cgutils.get_or_insert_function(builder.module, function_type, symbol), values)
            return context.get_dummy_value()

        return types.void(types.StarArgTuple.from_types(given)), codegen

    return intrinsic(call)


# -- addresses ---------------------------------------------------------------------------------------------------------


_I64 = ir.IntType(64)
_FLOATS: dict[str, tuple[Any, Any]] = {"float": (ir.FloatType(), types.float32),
                                       "double": (ir.DoubleType(), types.float64)}
_KINDS = {**_FLOATS, "int": (ir.IntType(32), types.int32)}


def _address(typingctx, array):
    """Return the address of an array's first element, or the value of a pointer, as an integer."""
    def codegen(context, builder, signature, args):
        if isinstance(signature.args[0], types.CPointer):
            return builder.ptrtoint(args[0], _I64)
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, args[0]).data, _I64)

    return types.intp(array), codegen


def prefetch_line(builder: ir.IRBuilder, place: Any, for_writing: int) -> None:
    """Write LLVM code that prefetches the cache line at the address ``place``, for reading (0) or writing (1)."""
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [pointer, number, number, number]), "llvm.prefetch.p0")
    access, keep, data = (ir.Constant(number, value) for value in (for_writing, 3, 1))
    builder.call(function, [builder.inttoptr(place, pointer), access, keep, data])


def _bring(typingctx, place):
    """Prefetch the cache line at an address, which may be outside all arrays."""
    def codegen(context, builder, signature, args):
        prefetch_line(builder, args[0], for_writing=0)
        return context.get_dummy_value()

    return types.void(types.intp), codegen


def _multiply_add(typingctx, a, b, c):
    """Return a b + c of float32 numbers, rounded once (fused multiply-add)."""
    def codegen(context, builder, signature, args):
        return builder.fma(*args)

    return types.float32(types.float32, types.float32, types.float32), codegen


def _on_stack(kind: str) -> Any:
    """Make an intrinsic that allocates ``count`` (a constant) numbers in the caller's stack frame.

    It returns the address, which is aligned to a cache line.
    """
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
    """Make an intrinsic that returns the number at an address."""
    llvm_type, numba_type = _KINDS[kind]

    def intrinsic_function(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.load(builder.inttoptr(args[0], llvm_type.as_pointer()))

        return numba_type(types.intp), codegen

    return intrinsic(intrinsic_function)


def _setter(kind: str) -> Any:
    """Make an intrinsic that stores a number at an address."""
    llvm_type, numba_type = _FLOATS[kind]

    def intrinsic_function(typingctx, address, value):
        def codegen(context, builder, signature, args):
            builder.store(args[1], builder.inttoptr(args[0], llvm_type.as_pointer()))
            return context.get_dummy_value()

        return types.void(types.intp, numba_type), codegen

    return intrinsic(intrinsic_function)


def vector_view(context: Any, builder: ir.IRBuilder, result: Any, data: Any, count: Any) -> Any:
    """Write LLVM code for a vector of the array type ``result``, of ``count`` elements at the address ``data``."""
    itemsize = context.get_constant(types.intp, result.dtype.bitwidth // 8)
    view = context.make_array(result)(context, builder)
    arrayobj.populate_array(view, data=data, shape=cgutils.pack_array(builder, [count]),
                            strides=cgutils.pack_array(builder, [itemsize]), itemsize=itemsize, meminfo=None)
    return view._getvalue()


def _stack_vector(typingctx, count):
    """Return a float32 vector of ``count`` (a constant) elements in the caller's stack frame, cache-line aligned."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    result = types.Array(types.float32, 1, "C")

    def codegen(context, builder, signature, args):
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(ir.FloatType(), count.literal_value))
            memory.align = 64
        return vector_view(context, builder, result, builder.bitcast(memory, ir.FloatType().as_pointer()),
                           context.get_constant(types.intp, count.literal_value))

    return result(count), codegen


address: Any = intrinsic(_address)
bring: Any = intrinsic(_bring)
multiply_add: Any = intrinsic(_multiply_add)
stack_vector: Any = intrinsic(prefer_literal=True)(_stack_vector)
stack_floats, stack_doubles = _on_stack("float"), _on_stack("double")
get_float, get_double, get_int = _getter("float"), _getter("double"), _getter("int")
set_float, set_double = _setter("float"), _setter("double")
