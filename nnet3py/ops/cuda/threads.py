"""Rows and columns that a GPU thread works on, views of rows, sums over threads, and formulas as device functions.

In a kernel over a matrix each thread works on columns and rows in steps as wide as the grid::

    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]): ...

A kernel in which a team, that is the threads of a block with the same y, works on a row together::

    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for first in row_blocks(dst.shape[0]):
        i, mine = team_row(first, dst.shape[0])
        for j in team_columns(dst.shape[1]): ...
        total = sum_along_team(shared, part)

All threads of a block run through that loop equally often, since they wait for each other in it; teams beyond the last
row read the last row, and write nothing (``mine`` is False).

A kernel in which a block sums columns over the rows::

    for first in column_blocks(src.shape[1]):
        j, mine = block_column(first, src.shape[1])
        for i in block_rows(src.shape[0]): ...
        total = sum_down_column(shared, part)

Sums and maxima are in an order that depends on the block's shape alone. Every thread of the block calls them together,
with an array of MOST_THREADS elements in shared memory that the kernel made, and gets the result. On a GPU, threads of
a warp exchange their values directly, and warps through shared memory. Where a block is not a whole number of warps,
or x is not a power of two, and in the simulator, which has no warps, everything goes through shared memory.

(``min`` and ``max`` of two numbers cannot be compiled for a GPU by every numba; hence the conditional expressions.)
Columns are unsigned, which saves the check whether an index counts from the end; ``np.int64(j)`` before computing with
one.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from nnet3py.ops import device
from nnet3py.ops.cuda import launch
from nnet3py.ops.cuda.launch import EMPTY_GRID, MAX_BLOCKS, THREADS, Shape
from nnet3py.ops.formulas import Formulas, functions, loops


class _SimulatedCuda:
    """The simulator's ``numba.cuda`` for code inside a kernel, also in modules other than the kernel's."""

    def __init__(self) -> None:
        self._simulator = device.cuda().simulator.kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulator._get_kernel_context(), name)


def _unchanged(function: Any) -> Any:
    return function


# The simulator would put its threadIdx and so on into the module of a device function while the function runs, each
# thread ignoring the others; so there, device functions are plain functions.
cuda: Any = _SimulatedCuda() if device.is_simulated() else device.cuda()
device_function: Any = _unchanged if device.is_simulated() else cuda.jit(device=True)


@device_function
def own_rows(count):
    """Return the rows that this thread computes, of ``count`` rows."""
    return range(cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y, count, cuda.gridDim.y * cuda.blockDim.y)


@device_function
def own_columns(count):
    """Return the columns that this thread computes, of ``count`` columns, as unsigned integers."""
    return range(np.uint64(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x), np.uint64(count),
                 np.uint64(cuda.gridDim.x * cuda.blockDim.x))


@device_function
def row_blocks(count):
    """Return the first row of each group of rows that this block works on; a group has a row for each team."""
    return range(cuda.blockIdx.y * cuda.blockDim.y, count, cuda.gridDim.y * cuda.blockDim.y)


@device_function
def team_row(first, count):
    """Return the row of this thread's team in the group of rows from ``first`` on, and whether the team writes it."""
    i = first + cuda.threadIdx.y
    return (i if i < count else count - 1), i < count


@device_function
def team_columns(count):
    """Return the columns of the team's row that this thread computes, of ``count`` columns."""
    return range(np.uint64(cuda.threadIdx.x), np.uint64(count), np.uint64(cuda.blockDim.x))


@device_function
def column_blocks(count):
    """Return the first column of each group of columns that this block works on; a group has a column for each x."""
    return range(cuda.blockIdx.x * cuda.blockDim.x, count, cuda.gridDim.x * cuda.blockDim.x)


@device_function
def block_column(first, count):
    """Return this thread's column in the group of columns from ``first`` on, and whether it writes the column's sum."""
    j = first + cuda.threadIdx.x
    return (j if j < count else count - 1), j < count and cuda.threadIdx.y == 0


@device_function
def block_rows(count):
    """Return the rows that this thread adds, of ``count`` rows, where the threads of a block share the rows."""
    return range(cuda.threadIdx.y, count, cuda.blockDim.y)


@device_function
def places_in_block(count):
    """Return the indexes that this thread computes, of ``count`` that the threads of a single block share."""
    return range(np.uint64(cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x), np.uint64(count),
                 np.uint64(cuda.blockDim.x * cuda.blockDim.y))


@device_function
def is_first_of_block():
    """Return whether this thread is the first of its block, which writes results of the whole block."""
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
        """Return row ``index`` of ``matrix`` as a contiguous vector; columns must be adjacent in memory."""
        result = types.Array(matrix.dtype, 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            source = context.make_array(signature.args[0])(context, builder, args[0])
            stride = cgutils.unpack_tuple(builder, source.strides, 2)[0]
            data = cgutils.pointer_add(builder, source.data, builder.mul(args[1], stride))
            return view_of(context, builder, result, data, cgutils.unpack_tuple(builder, source.shape, 2)[1])

        return result(matrix, types.intp), codegen

    def span(typingctx, vector, offset, length):      # type: ignore[no-untyped-def]
        """Return the ``length`` elements of ``vector`` from ``offset`` on."""
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


# -- sums and maxima over threads, and the launch shapes of kernels that reduce ----------------------------------------


MOST_THREADS = 512      # threads of a block in reductions
MOST_PARTS = 256        # blocks in a sum over all elements
WARP = 32
GROUP = 8               # columns that a block sums: 32 bytes of a row, the least that memory gives
_ALL_LANES = 0xFFFFFFFF


def launch_teams(rows: int, cols: int) -> Shape:
    """Return grid and block: a team of one or several warps for each row. One block along x."""
    forced = launch.forced()
    if not rows:
        return EMPTY_GRID
    if forced:
        return (1, forced[0][1]), forced[1]
    width = WARP
    while width < cols // 4 and width < THREADS:
        width *= 2
    height = THREADS // width
    return (1, min(-(-rows // height), MAX_BLOCKS)), (width, height)


def launch_columns(rows: int, cols: int) -> Shape:
    """Return grid and block: a block for each group of columns; its threads share the rows. One block along y."""
    forced = launch.forced()
    if not cols:
        return EMPTY_GRID
    if forced:
        return (forced[0][0], 1), forced[1]
    return (min(-(-cols // GROUP), MAX_BLOCKS), 1), (GROUP, MOST_THREADS // GROUP)


def launch_block(rows: int, cols: int) -> Shape:
    """Return grid and block: a single block, for results that all its threads need."""
    forced = launch.forced()
    return (1, 1), forced[1] if forced else (THREADS, 1)


def launch_square(rows: int, cols: int) -> Shape:
    """Return grid and block: a single block with threads along columns and rows."""
    forced = launch.forced()
    return (1, 1), forced[1] if forced else (WARP, MOST_THREADS // WARP)


def launch_parts(rows: int, cols: int) -> Shape:
    """Return grid and block: at most MOST_PARTS blocks over a matrix, each of which stores a partial sum."""
    (grid_x, grid_y), block = launch.launch_2d(rows, cols)
    grid_x = min(grid_x, MOST_PARTS)
    return (grid_x, max(1, min(grid_y, MOST_PARTS // grid_x))), block


def reductions(combine: Any, with_shuffles: bool) -> SimpleNamespace:
    """Make functions that reduce values of a block's threads by ``combine``, a device function of two values.

    Returns
    -------
    ``along_team`` reduces over threads of the same y, ``down_column`` over threads of the same x, ``over_block`` over
    all threads of the block.
    """
    by_tree = _by_tree(combine)
    return _by_warps(combine, by_tree) if with_shuffles else by_tree


def _by_tree(combine: Any) -> SimpleNamespace:
    """Make reductions through shared memory, for blocks of any shape."""

    @device_function
    def tree(shared, value, first, step, place, count):      # type: ignore[no-untyped-def]
        """Reduce over the ``count`` threads with the same ``first``, whose ``place`` is 0 to ``count`` - 1."""
        shared[first + place * step] = value
        cuda.syncthreads()
        while count > 1:
            half = (count + 1) // 2
            if place + half < count:
                shared[first + place * step] = combine(shared[first + place * step],
                                                       shared[first + (place + half) * step])
            cuda.syncthreads()
            count = half
        total = shared[first]
        cuda.syncthreads()
        return total

    @device_function
    def along_team(shared, value):      # type: ignore[no-untyped-def]
        width = cuda.blockDim.x
        return tree(shared, value, cuda.threadIdx.y * width, 1, cuda.threadIdx.x, width)

    @device_function
    def down_column(shared, value):      # type: ignore[no-untyped-def]
        return tree(shared, value, cuda.threadIdx.x, cuda.blockDim.x, cuda.threadIdx.y, cuda.blockDim.y)

    @device_function
    def over_block(shared, value):      # type: ignore[no-untyped-def]
        place = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        return tree(shared, value, 0, 1, place, cuda.blockDim.x * cuda.blockDim.y)

    return SimpleNamespace(along_team=along_team, down_column=down_column, over_block=over_block)


@device_function
def fits_warps(width):
    """Return whether a block with ``width`` threads along x has only whole warps, and ``width`` is a power of two."""
    return width & (width - 1) == 0 and width * cuda.blockDim.y % WARP == 0


def _by_warps(combine: Any, by_tree: SimpleNamespace) -> SimpleNamespace:
    """Make reductions that exchange values within warps; for blocks of other shapes they call those of ``by_tree``."""
    along_team_by_tree, down_column_by_tree, over_block_by_tree = (
        by_tree.along_team, by_tree.down_column, by_tree.over_block)

    @device_function
    def across_lanes(value, offset, end):      # type: ignore[no-untyped-def]
        """Reduce over lanes of a warp whose numbers differ in bits ``offset``, 2 ``offset``, … below ``end``."""
        while offset < end:
            value = combine(value, cuda.shfl_xor_sync(_ALL_LANES, value, offset))
            offset *= 2
        return value

    @device_function
    def across_warps(shared, value, first, step, place, count, is_writer):      # type: ignore[no-untyped-def]
        """Reduce over ``count`` warps, or parts of warps, of the same ``first``, whose ``place`` is 0 to count - 1."""
        if is_writer:
            shared[first + place * step] = value
        cuda.syncthreads()
        total = shared[first]
        for k in range(1, count):
            total = combine(total, shared[first + k * step])
        cuda.syncthreads()
        return total

    @device_function
    def along_team(shared, value):      # type: ignore[no-untyped-def]
        width = cuda.blockDim.x
        if not fits_warps(width):
            return along_team_by_tree(shared, value)
        value = across_lanes(value, 1, width if width < WARP else WARP)
        if width <= WARP:
            return value
        warps = width // WARP
        return across_warps(shared, value, cuda.threadIdx.y * warps, 1, cuda.threadIdx.x // WARP, warps,
                            cuda.threadIdx.x % WARP == 0)

    @device_function
    def down_column(shared, value):      # type: ignore[no-untyped-def]
        width = cuda.blockDim.x
        if width > WARP or not fits_warps(width):
            return down_column_by_tree(shared, value)
        value = across_lanes(value, width, WARP)
        rows_of_warp = WARP // width
        return across_warps(shared, value, cuda.threadIdx.x, width, cuda.threadIdx.y // rows_of_warp,
                            cuda.blockDim.y // rows_of_warp, cuda.threadIdx.y % rows_of_warp == 0)

    @device_function
    def over_block(shared, value):      # type: ignore[no-untyped-def]
        if not fits_warps(cuda.blockDim.x):
            return over_block_by_tree(shared, value)
        place = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        value = across_lanes(value, 1, WARP)
        return across_warps(shared, value, 0, 1, place // WARP, cuda.blockDim.x * cuda.blockDim.y // WARP,
                            place % WARP == 0)

    return SimpleNamespace(along_team=along_team, down_column=down_column, over_block=over_block)


@device_function
def add(a, b):
    """Return the sum of two values."""
    return a + b


@device_function
def larger(a, b):
    """Return the larger of two values; the second if the first is NaN."""
    return a if a > b else b


_sums, _maxima = (reductions(combine, not device.is_simulated()) for combine in (add, larger))

sum_along_team, sum_down_column, sum_over_block = _sums.along_team, _sums.down_column, _sums.over_block
max_along_team, max_over_block = _maxima.along_team, _maxima.over_block


# -- formulas as device functions --------------------------------------------------------------------------------------


_HIGHEST = np.float32(88.0)      # beyond it 1 / (1 + exp(x)) is 0 in any case, and in the simulator math.exp raises


@device_function
def _exp(x):
    """Compute e**x by the GPU's own function, with x clipped to at most 88; NaN stays NaN."""
    return math.exp(_HIGHEST if x > _HIGHEST else x)


# A GPU multiplies and adds in one operation where it can, with one rounding. Products that must be rounded as on the
# CPU call this function: the variance of equal frames is then 0, and derivatives that nearly cancel leave Kaldi's rest.
_rounded_product = operator.mul if device.is_simulated() else device.libdevice().fmul_rn

formula = Formulas(device_function, {
    functions.exp: _exp, loops.rounded_product: _rounded_product, loops.own_rows: own_rows,
    loops.own_columns: own_columns, loops.row: row, loops.span: span})


def of_loop(loop: Any, file: str, module: str, over: int = 0,
            shape: Callable[[int, int], Shape] = launch.launch_2d) -> launch.Kernel:
    """Make the kernel of an operation from its loop in ``formulas/loops.py``, for a module and its file."""
    return launch.operation(over, shape)(formula.bound(loop, file, module))
