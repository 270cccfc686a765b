"""Compiled code calls C functions that are compiled once, and not into every kernel."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def c_function(symbol: str, kinds: Sequence[Any]) -> Any:
    """What compiled code calls to call the C function ``symbol`` with numbers of ``kinds``; it returns nothing."""
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
