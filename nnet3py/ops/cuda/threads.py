"""Which rows and columns a GPU thread works on, and views of rows whose elements are known to be adjacent.

A kernel over a matrix gives each thread columns and rows in steps as wide as the grid::

    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]): ...

A kernel in which a team, the threads of a block with the same y, works on a row together::

    for first in row_blocks(dst.shape[0]):
        i, mine = team_row(first, dst.shape[0])
        for j in team_columns(dst.shape[1]): ...
        total = sum_along_team(shared, part)

All threads of a block go through that loop equally often, since they wait for each other in it; those for which no row
is left read the last one, and write nothing (``mine`` is False).

A kernel in which a block sums columns over the rows::

    for first in column_blocks(src.shape[1]):
        j, mine = block_column(first, src.shape[1])
        for i in block_rows(src.shape[0]): ...
        total = sum_down_column(shared, part)

(``min`` and ``max`` of two numbers cannot be compiled for a GPU by every numba; hence the conditional expressions.)

Columns are unsigned, which saves the check whether an index counts from the end; ``np.int64(j)``
before computing with one.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.ops import device


class _SimulatedCuda:
    """``numba.cuda`` as code inside a kernel sees it in the simulator, whichever module that code is in."""

    def __init__(self) -> None:
        self._simulator = device.cuda().simulator.kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulator._get_kernel_context(), name)


def _as_it_is(function: Any) -> Any:
    return function


# The simulator would put its threadIdx and so on into the module of a device function while that runs, each thread
# ignoring the others; so there, device functions are plain functions.
cuda: Any = _SimulatedCuda() if device.is_simulated() else device.cuda()
device_function: Any = _as_it_is if device.is_simulated() else cuda.jit(device=True)


@device_function
def own_rows(count):
    """The rows of this thread, among ``count``."""
    return range(cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y, count, cuda.gridDim.y * cuda.blockDim.y)


@device_function
def own_columns(count):
    """The columns of this thread, among ``count``."""
    return range(np.uint64(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x), np.uint64(count),
                 np.uint64(cuda.gridDim.x * cuda.blockDim.x))


@device_function
def row_blocks(count):
    """The first rows of the blocks of rows that this block works on, one row for each of its teams."""
    return range(cuda.blockIdx.y * cuda.blockDim.y, count, cuda.gridDim.y * cuda.blockDim.y)


@device_function
def team_row(first, count):
    """The row of this thread's team in the block of rows at ``first``, and whether it is there to be written."""
    i = first + cuda.threadIdx.y
    return (i if i < count else count - 1), i < count


@device_function
def team_columns(count):
    """The columns of this thread within its team's row."""
    return range(np.uint64(cuda.threadIdx.x), np.uint64(count), np.uint64(cuda.blockDim.x))


@device_function
def column_blocks(count):
    """The first columns of the blocks of columns that this block works on, one for each x."""
    return range(cuda.blockIdx.x * cuda.blockDim.x, count, cuda.gridDim.x * cuda.blockDim.x)


@device_function
def block_column(first, count):
    """The column of this thread in the block of columns at ``first``, and whether this thread is to write its sum."""
    j = first + cuda.threadIdx.x
    return (j if j < count else count - 1), j < count and cuda.threadIdx.y == 0


@device_function
def block_rows(count):
    """The rows of this thread where a block shares the rows of its columns."""
    return range(cuda.threadIdx.y, count, cuda.blockDim.y)


@device_function
def places_in_block(count):
    """The places of this thread among ``count`` that a single block shares."""
    return range(np.uint64(cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x), np.uint64(count),
                 np.uint64(cuda.blockDim.x * cuda.blockDim.y))


@device_function
def is_first_of_block():
    """Whether this thread writes what the block has once."""
    return cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0


def _compiled_views() -> tuple[Any, Any]:
    from numba.core import cgutils, types
    from numba.extending import intrinsic
    from numba.np import arrayobj

    def view_of(context: Any, builder: Any, result: Any, data: Any, count: Any) -> Any:
        itemsize = context.get_constant(types.intp, result.dtype.bitwidth // 8)
        view = context.make_array(result)(context, builder)
        arrayobj.populate_array(view, data=data, shape=cgutils.pack_array(builder, [count]),
                                strides=cgutils.pack_array(builder, [itemsize]), itemsize=itemsize, meminfo=None)
        return view._getvalue()

    def row(typingctx, matrix, index):      # type: ignore[no-untyped-def]
        """Row ``index`` of ``matrix`` as a contiguous vector; the matrix's columns must be adjacent in memory."""
        result = types.Array(matrix.dtype, 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            source = context.make_array(signature.args[0])(context, builder, args[0])
            stride = cgutils.unpack_tuple(builder, source.strides, 2)[0]
            data = cgutils.pointer_add(builder, source.data, builder.mul(args[1], stride))
            return view_of(context, builder, result, data, cgutils.unpack_tuple(builder, source.shape, 2)[1])

        return result(matrix, types.intp), codegen

    def span(typingctx, vector, offset, length):      # type: ignore[no-untyped-def]
        """The ``length`` elements of ``vector`` that start at ``offset``."""
        result = types.Array(vector.dtype, 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            source = context.make_array(signature.args[0])(context, builder, args[0])
            itemsize = context.get_constant(types.intp, result.dtype.bitwidth // 8)
            data = cgutils.pointer_add(builder, source.data, builder.mul(args[1], itemsize))
            return view_of(context, builder, result, data, args[2])

        return result(vector, types.intp, types.intp), codegen

    return intrinsic(row), intrinsic(span)


def _simulated_row(matrix: Any, index: int) -> Any:
    return matrix[index]


def _simulated_span(vector: Any, offset: int, length: int) -> Any:
    return vector[offset:offset + length]


row, span = (_simulated_row, _simulated_span) if device.is_simulated() else _compiled_views()
