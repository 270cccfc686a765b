"""Sums and maxima over the threads of a block, in an order that depends on the block's shape alone.

Every thread of the block calls them together, with an array of MOST_THREADS elements in shared memory that the kernel
made, and gets the result::

    shared = cuda.shared.array(MOST_THREADS, np.float32)
    ...
    total = sum_along_team(shared, part)

There are two bodies. On a GPU, threads of a warp exchange their values directly, and warps through shared memory. Where
a block is not a whole number of warps, or x is not a power of two, and in the simulator, which has no warps,
everything goes through shared memory.

The launch shapes of kernels that reduce are here, too. See ``threads.py`` for their loops.
"""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nnet3py.ops import device
from nnet3py.ops.cuda import launch
from nnet3py.ops.cuda.launch import EMPTY_GRID, MAX_BLOCKS, THREADS, Shape
from nnet3py.ops.cuda.threads import cuda, device_function

MOST_THREADS = 512      # of a block that reduces
MOST_PARTS = 256        # blocks of a sum over everything
WARP = 32
GROUP = 8               # columns that a block sums: 32 bytes of a row, the least that memory gives
_ALL_LANES = 0xFFFFFFFF


def launch_teams(rows: int, cols: int) -> Shape:
    """Teams of threads, each for a row: a warp, or several where rows are long. One block along x."""
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
    """A block for each group of columns, whose threads share the rows. One block along y."""
    forced = launch.forced()
    if not cols:
        return EMPTY_GRID
    if forced:
        return (forced[0][0], 1), forced[1]
    return (min(-(-cols // GROUP), MAX_BLOCKS), 1), (GROUP, MOST_THREADS // GROUP)


def launch_block(rows: int, cols: int) -> Shape:
    """A single block, for what must be known as a whole."""
    forced = launch.forced()
    return (1, 1), forced[1] if forced else (THREADS, 1)


def launch_square(rows: int, cols: int) -> Shape:
    """A single block whose threads lie along columns and rows."""
    forced = launch.forced()
    return (1, 1), forced[1] if forced else (WARP, MOST_THREADS // WARP)


def launch_parts(rows: int, cols: int) -> Shape:
    """Few enough blocks over a matrix for each to leave a part of a sum."""
    (grid_x, grid_y), block = launch.launch_2d(rows, cols)
    grid_x = min(grid_x, MOST_PARTS)
    return (grid_x, max(1, min(grid_y, MOST_PARTS // grid_x))), block


def reductions(combine: Any, with_shuffles: bool) -> SimpleNamespace:
    """The reductions by ``combine``, a device function of two values.

    Returns
    -------
    ``along_team`` over the threads of the same y, ``down_column`` over those of the same x, ``over_block`` over all.
    """
    by_tree = _by_tree(combine)
    return _by_warps(combine, by_tree) if with_shuffles else by_tree


def _by_tree(combine: Any) -> SimpleNamespace:
    """The body that goes through shared memory, for blocks of any shape."""

    @device_function
    def tree(shared, value, first, step, place, count):      # type: ignore[no-untyped-def]
        """Over the ``count`` threads whose ``place`` differs and whose ``first`` does not, through shared memory."""
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
    """Whether a block of so many threads along x is whole warps, whose lanes are found by their bits."""
    return width & (width - 1) == 0 and width * cuda.blockDim.y % WARP == 0


def _by_warps(combine: Any, by_tree: SimpleNamespace) -> SimpleNamespace:
    """The body that exchanges values within warps, and uses ``by_tree`` where a block's shape does not allow it."""
    along_team_by_tree, down_column_by_tree, over_block_by_tree = (
        by_tree.along_team, by_tree.down_column, by_tree.over_block)

    @device_function
    def across_lanes(value, offset, end):      # type: ignore[no-untyped-def]
        """Over the lanes of a warp whose numbers differ in the bits from ``offset`` up to ``end``."""
        while offset < end:
            value = combine(value, cuda.shfl_xor_sync(_ALL_LANES, value, offset))
            offset *= 2
        return value

    @device_function
    def across_warps(shared, value, first, step, place, count, is_writer):      # type: ignore[no-untyped-def]
        """Over ``count`` warps, or parts of them, whose ``place`` differs."""
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
    """The sum of two values."""
    return a + b


@device_function
def larger(a, b):
    """The larger of two values; the second if the first is NaN."""
    return a if a > b else b


_sums, _maxima = (reductions(combine, not device.is_simulated()) for combine in (add, larger))

sum_along_team, sum_down_column, sum_over_block = _sums.along_team, _sums.down_column, _sums.over_block
max_along_team, max_over_block = _maxima.along_team, _maxima.over_block
