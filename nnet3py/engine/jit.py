"""The decorator ``kernel`` of CPU kernels: compiled for one signature, on the first call, and kept on disk.

A kernel is a Python function with loops, decorated with the kinds of its arguments::

    @kernel("mat mat vec f32")
    def add_mat_diag_vec(dst, src, scale, alpha): ...

Threads share the rows of the matrix ``rows_of``, or the columns of ``columns_of``, in chunks. The function then has two
more arguments, the chunk's range; the result for a row or column must not depend on the others in the chunk::

    @kernel("mat mat f32", rows_of="dst")
    def add_mat(first, last, dst, src, alpha):
        for i in range(first, last): ...

Sums over rows are shared by columns, so that no sum depends on the number of threads (``team_code.py``).

A matrix argument is a float32 array of any row stride whose columns are adjacent in memory; :func:`row` returns one of
its rows as a contiguous vector, so that LLVM vectorizes the inner loop, although the strides of the matrix are not part
of its type.
Nothing is compiled, and no cache is touched, before the first call.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from numba.core import cgutils, types
from numba.extending import intrinsic

from nnet3py.engine import compiling, interface, kernel_files, team_code
from nnet3py.engine.generated import function_of_text
from nnet3py.engine.inline import inline, vector_view
from nnet3py.engine.kernel_code import Code, Key
from nnet3py.engine.kinds import kinds_of
from nnet3py.engine.numba_target import njit


def _segment(typingctx, matrix, index, first, last):
    """Return columns ``first`` to ``last`` - 1 of a row as a contiguous 1-D view; columns must be adjacent."""
    if not (isinstance(matrix, types.Array) and matrix.ndim == 2):
        return None
    result = types.Array(matrix.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        source = context.make_array(signature.args[0])(context, builder, args[0])
        row_stride = cgutils.unpack_tuple(builder, source.strides, 2)[0]
        itemsize = context.get_constant(types.intp, matrix.dtype.bitwidth // 8)
        start = builder.add(builder.mul(args[1], row_stride), builder.mul(args[2], itemsize))
        return vector_view(context, builder, result, cgutils.pointer_add(builder, source.data, start),
                           builder.sub(args[3], args[2]))

    return result(matrix, types.intp, types.intp, types.intp), codegen


def _span(typingctx, vector, offset, length):
    """Return the ``length`` elements of ``vector`` from ``offset`` on as a contiguous 1-D view."""
    if not (isinstance(vector, types.Array) and vector.ndim == 1):
        return None
    result = types.Array(vector.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        source = context.make_array(signature.args[0])(context, builder, args[0])
        itemsize = context.get_constant(types.intp, vector.dtype.bitwidth // 8)
        data = cgutils.pointer_add(builder, source.data, builder.mul(args[1], itemsize))
        return vector_view(context, builder, result, data, args[2])

    return result(vector, types.intp, types.intp), codegen


segment: Any = intrinsic(_segment)
span: Any = intrinsic(_span)


@inline
def row(matrix, index):
    """Return row ``index`` of ``matrix`` as a contiguous 1-D view; columns must be adjacent in memory."""
    return segment(matrix, index, 0, matrix.shape[1])


CACHE_LINE = 16      # float32 numbers


class Shared(NamedTuple):
    """Division of a kernel's work: name of the matrix, axis 0 to share rows or 1 columns, cost of an element."""

    matrix: str
    axis: int
    cost: int | str


class Kernel:
    """CPU kernel: compiled for one signature, or loaded from disk, when it is first called."""

    def __init__(self, function: Callable[..., Any], kinds: str, reassociate: bool,
                 shared: Shared | None) -> None:
        self.fastmath = {"reassoc", "nsz"} if reassociate else False
        self.function = function if shared is None else _share(function, shared, self.fastmath)
        self.kinds = tuple(kinds.split())
        self.signature = kinds_of(kinds)
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., Any] | None = None

    def compile(self) -> Callable[..., Any]:
        """Load the kernel from disk, or compile it and keep it there; return it as a built-in function."""
        if self._compiled is None:
            self._compiled = kernel_files.find_or_make(self.source, self.__name__, self.make_code)
        return self._compiled

    @property
    def source(self) -> Path:
        """Source file of the function."""
        return Path(self.function.__code__.co_filename).resolve()

    @property
    def key(self) -> Key:
        """Key of the kernel's code on disk."""
        return kernel_files.key_of(self.source, self.__name__)

    def make_code(self) -> Code:
        """Compile the kernel."""
        return compiling.make(self.function, self.signature, interface.SYMBOLS, self.fastmath)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return (self._compiled or self.compile())(*args, **named)


_SHARED_KERNEL = """
def {name}({header}):
    arguments = ({names},)
    share(part_address(body, arguments), address_of(arguments), {matrix}.shape[{axis}],
          {matrix}.shape[{other_axis}] * {cost}, {multiple}, {per_thread})
"""


def _share(function: Callable[..., Any], shared: Shared, fastmath: Any) -> Any:
    """Return a function that lets threads call ``function`` for chunks of rows or columns.

    It has the arguments of ``function`` except the first two, the range of a chunk.
    """
    parameters = list(inspect.signature(function).parameters.values())[2:]
    names = [p.name for p in parameters]
    source = _SHARED_KERNEL.format(
        name=function.__name__, header=", ".join(str(p.replace(annotation=p.empty)) for p in parameters),
        names=", ".join(names), matrix=shared.matrix, axis=shared.axis, other_axis=1 - shared.axis, cost=shared.cost,
        multiple=CACHE_LINE if shared.axis == 1 else 1,
        per_thread=1 if shared.axis == 1 else team_code.CHUNKS_PER_THREAD)     # wide chunks of columns are read faster
    body = njit(forceinline=True, fastmath=fastmath)(function)      # inlined for the reason at `inline`
    return function_of_text(source, {"body": body, "share": team_code.share, "part_address": team_code.part_address,
                                     "address_of": team_code.address_of}, function)


def kernel(kinds: str, reassociate: bool = False, rows_of: str = "", columns_of: str = "",
           cost: int | str = 1) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a :class:`Kernel` of a function.

    Parameters
    ----------
    kinds : kinds of the arguments (``engine/kinds.py``), in order, separated by blanks
    reassociate : whether LLVM may reorder sums, without which it cannot vectorize a sum to one number
    rows_of, columns_of : name of the matrix whose rows or columns the threads share; the function's first two
        arguments are then the first of its chunk, and the one after the last
    cost : time for an element, relative to that of adding two matrices; a number, or an expression of the arguments as
        text. Calls with little work are not shared
    """
    shared = Shared(rows_of or columns_of, 0 if rows_of else 1, cost) if rows_of or columns_of else None
    return lambda function: Kernel(function, kinds, reassociate, shared)
