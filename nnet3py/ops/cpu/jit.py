"""How the CPU kernels are compiled: one specialisation each, on first call, cached on disk.

A kernel is a plain function with loops, decorated with its argument kinds::

    @kernel("mat mat vec f32")
    def add_mat_diag_vec(dst, src, scale, alpha): ...

A matrix argument is a float32 array of any row stride whose columns are adjacent in memory; :func:`row` gives one of
its rows as a contiguous vector, which lets LLVM vectorise the inner loop although the matrix type says nothing of
strides.
Nothing is compiled, and no cache is touched, before the first call.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from nnet3py.ops import kernel_cache
from nnet3py.ops.kinds import kinds_of


def _row(typingctx, matrix, index):
    """Row ``index`` of ``matrix`` as a contiguous 1-D view; the matrix's columns must be adjacent in memory."""
    if not (isinstance(matrix, types.Array) and matrix.ndim == 2):
        return None
    result = types.Array(matrix.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        source = context.make_array(signature.args[0])(context, builder, args[0])
        num_cols = cgutils.unpack_tuple(builder, source.shape, 2)[1]
        row_stride = cgutils.unpack_tuple(builder, source.strides, 2)[0]
        data = cgutils.pointer_add(builder, source.data, builder.mul(args[1], row_stride))
        itemsize = context.get_constant(types.intp, matrix.dtype.bitwidth // 8)
        view = context.make_array(result)(context, builder)
        arrayobj.populate_array(view, data=data, shape=cgutils.pack_array(builder, [num_cols]),
                                strides=cgutils.pack_array(builder, [itemsize]), itemsize=itemsize, meminfo=None)
        return view._getvalue()

    return result(matrix, types.intp), codegen


def _span(typingctx, vector, offset, length):
    """The ``length`` elements of ``vector`` that start at ``offset``, as a contiguous 1-D view."""
    if not (isinstance(vector, types.Array) and vector.ndim == 1):
        return None
    result = types.Array(vector.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        source = context.make_array(signature.args[0])(context, builder, args[0])
        itemsize = context.get_constant(types.intp, vector.dtype.bitwidth // 8)
        data = cgutils.pointer_add(builder, source.data, builder.mul(args[1], itemsize))
        view = context.make_array(result)(context, builder)
        arrayobj.populate_array(view, data=data, shape=cgutils.pack_array(builder, [args[2]]),
                                strides=cgutils.pack_array(builder, [itemsize]), itemsize=itemsize, meminfo=None)
        return view._getvalue()

    return result(vector, types.intp, types.intp), codegen


row: Any = intrinsic(_row)
span: Any = intrinsic(_span)
inline = numba.njit(error_model="numpy")   # for formulas that kernels call: typed where they are used


class Kernel:
    """A function compiled once, for one signature, when it is first called."""

    def __init__(self, function: Callable[..., Any], kinds: str, reassociate: bool = False) -> None:
        self.function = function
        self.kinds = tuple(kinds.split())
        self.signature = kinds_of(kinds)
        self.fastmath = {"reassoc", "nsz"} if reassociate else False
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., Any] | None = None

    def compile(self) -> Callable[..., Any]:
        """Load the kernel from the disk cache, or compile it and store it there; returns what to call."""
        if self._compiled is None:
            compiled = kernel_cache.compile_cached(self.function, self.signature, self.fastmath)
            self._compiled = _with_defaults(compiled, self.function) if self.function.__defaults__ else compiled
        return self._compiled

    def __call__(self, *args: Any, **named: Any) -> Any:
        return (self._compiled or self.compile())(*args, **named)


def _with_defaults(compiled: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """``compiled`` behind a function that fills in the defaults of ``function``: with a signature, numba does not."""
    names = inspect.signature(function).parameters
    header = ", ".join(name if p.default is p.empty else f"{name}={p.default!r}" for name, p in names.items())
    return eval(f"lambda {header}: compiled({', '.join(names)})", {"compiled": compiled})   # faster than *args


def kernel(kinds: str, reassociate: bool = False) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a :class:`Kernel` of a function; ``kinds`` names each argument's kind, in order, separated by blanks.

    The kinds are those of ``ops/kinds.py``. ``reassociate`` lets LLVM reorder sums: only for a reduction to one number,
    which it could not vectorise otherwise.
    """
    return lambda function: Kernel(function, kinds, reassociate)
