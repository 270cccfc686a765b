"""Convolutions on the GPU: blocks of columns gathered for the products with the filters, and given back.

The twins of ``ops/cpu/convolution.py``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda.launch import Shape, forced, kernel, launch_2d, operation
from nnet3py.ops.cuda.threads import cuda, own_columns, own_rows, row
from nnet3py.ops.table import documented

ZERO = np.float32(0)
TILE = 32               # rows and columns of a transposition's tiles
PITCH = TILE + 1        # of its rows in shared memory, so that a column's elements lie in different banks
TILE_ROWS = 8           # of a tile that a block reads at once


@operation()
def copy_col_blocks(dst, src, blocks):
    width = dst.shape[1] // blocks.shape[0]
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for place in own_columns(d.shape[0]):
            c = np.int64(place)
            j = c // width
            block = blocks[j]
            d[c] = s[block * width + c - j * width] if block >= 0 else ZERO


@kernel("mat mat ivec int")
def _add_to_col_blocks(dst, src, blocks, width):
    """Neighboring threads have neighboring columns of a block, then rows."""
    for _ in own_rows(1):
        for place in own_columns(src.shape[0] * width):
            i = np.int64(place) // width
            c = np.int64(place) - i * width
            d, s = row(dst, i), row(src, i)
            for j in range(blocks.shape[0]):
                block = blocks[j]
                if block >= 0:
                    d[block * width + c] += s[j * width + c]


@documented
def add_to_col_blocks(dst: DeviceArray, src: DeviceArray, blocks: DeviceArray) -> None:
    if src.size:
        width = src.shape[1] // blocks.shape[0]
        _add_to_col_blocks.launch(launch_2d(1, src.shape[0] * width), dst, src, blocks, width)


def launch_tiles(rows: int, cols: int) -> Shape:
    """A block for each square of a matrix."""
    (grid_x, grid_y), block = forced() or ((-(-cols // TILE), -(-rows // TILE)), (TILE, TILE_ROWS))
    return (min(grid_x, 4096), min(grid_y, 4096)), block


# By way of shared memory: reads and writes are of neighbors.
@operation(shape=launch_tiles)
def copy_transposed(dst, src):
    tile = cuda.shared.array((TILE, PITCH), np.float32)
    for first_row in range(cuda.blockIdx.y * TILE, dst.shape[0], cuda.gridDim.y * TILE):
        for first_col in range(cuda.blockIdx.x * TILE, dst.shape[1], cuda.gridDim.x * TILE):
            for y in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
                for x in range(cuda.threadIdx.x, TILE, cuda.blockDim.x):
                    if first_col + y < src.shape[0] and first_row + x < src.shape[1]:
                        tile[y, x] = src[first_col + y, first_row + x]
            cuda.syncthreads()
            for y in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
                for x in range(cuda.threadIdx.x, TILE, cuda.blockDim.x):
                    if first_row + y < dst.shape[0] and first_col + x < dst.shape[1]:
                        dst[first_row + y, first_col + x] = tile[x, y]
            cuda.syncthreads()
