"""Convolution and attention on the GPU; ``ops/cpu/convolution.py`` describes the order of rows."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.arrays import DeviceArray, IntCell
from nnet3py.ops.cuda.launch import MAX_BLOCKS, Shape, forced, kernel, launch_2d, operation
from nnet3py.ops.cuda.threads import (
    MOST_THREADS,
    block_rows,
    cuda,
    is_first_of_block,
    launch_teams,
    own_columns,
    own_rows,
    row,
    row_blocks,
    sum_along_team,
    sum_down_column,
    sum_over_block,
    team_columns,
    team_row,
)
from nnet3py.ops.table import documented

# -- convolution -------------------------------------------------------------------------------------------------------


ZERO, DOUBLE_ZERO = np.float32(0), np.float64(0)
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
    """Add blocks of columns, as ``add_to_col_blocks``; neighboring threads work on neighboring columns of a block."""
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
    """Return grid and block: a block of threads for each square tile of a matrix."""
    (grid_x, grid_y), block = forced() or ((-(-cols // TILE), -(-rows // TILE)), (TILE, TILE_ROWS))
    return (min(grid_x, 4096), min(grid_y, 4096)), block


# through shared memory, so that neighboring threads read and write neighboring elements
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


# -- attention over a fixed number of positions ------------------------------------------------------------------------


LOG_FLOOR = np.float32(1.0e-20)


@kernel("mat mat mat int f32")
def _add_shifted_dots(dst, a, b, shift, alpha):
    """Compute ``add_shifted_dots`` with a team of threads for each dot product."""
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    positions = dst.shape[1]
    for first in row_blocks(dst.shape[0] * positions):
        place, mine = team_row(first, dst.shape[0] * positions)
        i, o = place // positions, place % positions
        s, other, part = row(a, i), row(b, i + o * shift), ZERO
        for j in team_columns(s.shape[0]):
            part += s[j] * other[j]
        total = sum_along_team(shared, part)
        if mine and cuda.threadIdx.x == 0:
            dst[i, o] += alpha * total


@documented
def add_shifted_dots(dst: DeviceArray, a: DeviceArray, b: DeviceArray, shift: int, alpha: float) -> None:
    if dst.size and a.size:
        _add_shifted_dots.launch(launch_teams(dst.size, a.shape[1]), dst, a, b, shift, alpha)


@operation()
def add_shifted_rows(dst, scales, src, shift, alpha):
    for i in own_rows(dst.shape[0]):
        d, c = row(dst, i), row(scales, i)
        for j in own_columns(d.shape[0]):
            total = d[j]
            for o in range(c.shape[0]):
                total += alpha * c[o] * row(src, i + o * shift)[j]
            d[j] = total


@operation()
def add_to_shifted_rows(dst, scales, src, shift, alpha):
    positions = scales.shape[1]
    for r in own_rows(dst.shape[0]):
        d = row(dst, r)
        for j in own_columns(d.shape[0]):
            total = d[j]
            for back in range(positions):
                o = positions - 1 - back
                i = r - o * shift
                if 0 <= i < src.shape[0]:
                    total += alpha * scales[i, o] * row(src, i)[j]
            d[j] = total


def launch_heads(rows: int, cols: int) -> Shape:
    """Return grid and block: a block for each head, with threads along positions and down the rows of the weights."""
    shape = forced() or ((1, min(rows, MAX_BLOCKS)), (32, MOST_THREADS // 32))
    return (1, shape[0][1]), shape[1]


@kernel("dvec dmat mat intcell", over=1, shape=launch_heads)
def _add_weights(entropy, posterior, weights, draw):
    if draw[0] == 0:
        return
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    num_heads, positions = posterior.shape
    for h in range(cuda.blockIdx.y, num_heads, cuda.gridDim.y):
        entropy_part = DOUBLE_ZERO
        for first in range(0, positions, cuda.blockDim.x):
            o, part = first + cuda.threadIdx.x, DOUBLE_ZERO
            if o < positions:
                for i in block_rows(weights.shape[0]):
                    w = row(weights, i)[h * positions + o]
                    part += w
                    entropy_part -= np.float64(w) * math.log(np.float64(w if w > LOG_FLOOR else LOG_FLOOR))
            total = sum_down_column(shared, part)
            if o < positions and cuda.threadIdx.y == 0:
                posterior[h, o] += total
        total = sum_over_block(shared, entropy_part)
        if is_first_of_block():
            entropy[h] += total


@kernel("dvec int intcell")
def _add_count(count, num_rows, draw):
    for _ in own_rows(1):
        for j in own_columns(1):
            count[j] += num_rows if draw[0] != 0 else 0


@documented
def attention_store_stats(count: DeviceArray, entropy: DeviceArray, posterior: DeviceArray, weights: DeviceArray,
                          draw: IntCell) -> None:
    _add_count(count, weights.shape[0], draw)
    _add_weights(entropy, posterior, weights, draw)
