"""Matrix products on the GPU: by cuBLAS, or by a kernel of the package where cuBLAS is not installed.

The kernel works on tiles: a block of threads computes a tile of ``dst`` while it goes along the inner dimension in
steps, for each of which the block reads a tile of either factor into shared memory once. A thread keeps several
results in registers; neighboring threads read and write neighboring columns.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.ops import device
from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda import cublas
from nnet3py.ops.cuda.elementwise import KERNELS, add_row, first_row, launch_elements, of_elements, row_distance
from nnet3py.ops.cuda.launch import MAX_BLOCKS, Kernel, Shape, cuda, kernel, operation
from nnet3py.ops.cuda.memory import constant_cell
from nnet3py.ops.cuda.normalize import column_moments
from nnet3py.ops.cuda.reductions import sum_of_values, total
from nnet3py.ops.cuda.threads import own_columns, own_rows, row
from nnet3py.ops.table import documented

ZERO = np.float32(0)


def tiled_product(side: int, each: int, depth: int) -> Kernel:
    """Make the kernel of a product: blocks have ``side`` x ``side`` threads, with ``each`` x ``each`` results a thread.

    ``depth`` is the number of elements of the inner dimension in a step. Shared memory holds two tiles of ``depth`` x
    (``side each``) elements; the first has one column more, which avoids bank conflicts when it is read across rows.
    """
    width = side * each
    padded = width + 1

    def shape(rows: int, cols: int) -> Shape:
        return (min(-(-cols // width), MAX_BLOCKS), min(-(-rows // width), MAX_BLOCKS)), (side, side)

    @kernel("mat mat mat f32 f32 bool bool vec", shape=shape)
    def add_mat_mat(dst, a, b, alpha, beta, trans_a, trans_b, scale):      # type: ignore[no-untyped-def]
        """Compute ``dst = alpha scale[0] op(a) op(b) + beta dst``."""
        left = cuda.shared.array((depth, padded), np.float32)       # of op(a), transposed
        right = cuda.shared.array((depth, width), np.float32)       # of op(b)
        sums = cuda.local.array((each, each), np.float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        place = y * side + x
        m, n = dst.shape
        inner = a.shape[0] if trans_a else a.shape[1]
        for tile_row in range(cuda.blockIdx.y * width, m, cuda.gridDim.y * width):
            for tile_col in range(cuda.blockIdx.x * width, n, cuda.gridDim.x * width):
                for r in range(each):
                    for c in range(each):
                        sums[r, c] = ZERO
                for start in range(0, inner, depth):
                    for e in range(place, depth * width, side * side):
                        # neighboring threads read neighboring elements
                        k, i = (e // width, e % width) if trans_a else (e % depth, e // depth)
                        dst_row, p = tile_row + i, start + k
                        value = ZERO
                        if dst_row < m and p < inner:
                            value = a[p, dst_row] if trans_a else a[dst_row, p]
                        left[k, i] = value
                        k, j = (e % depth, e // depth) if trans_b else (e // width, e % width)
                        dst_col, p = tile_col + j, start + k
                        value = ZERO
                        if dst_col < n and p < inner:
                            value = b[dst_col, p] if trans_b else b[p, dst_col]
                        right[k, j] = value
                    cuda.syncthreads()
                    for k in range(depth):
                        for r in range(each):
                            factor = left[k, y + r * side]
                            for c in range(each):
                                sums[r, c] += factor * right[k, x + c * side]
                    cuda.syncthreads()
                for r in range(each):
                    dst_row = tile_row + y + r * side
                    for c in range(each):
                        dst_col = tile_col + x + c * side
                        if dst_row < m and dst_col < n:
                            value = alpha * scale[0] * sums[r, c] if scale[0] != ZERO else ZERO
                            dst[dst_row, dst_col] = value + beta * dst[dst_row, dst_col] if beta != ZERO else value

    return add_mat_mat


# The simulator starts a Python thread for each thread of a block, so there blocks are small.
_tiled = tiled_product(2, 2, 3) if device.is_simulated() else tiled_product(16, 4, 16)


def tiled(dst: Any, a: Any, b: Any, alpha: float, beta: float, trans_a: bool, trans_b: bool) -> None:
    """Compute ``dst = alpha op(a) op(b) + beta dst`` by the package's own kernel."""
    _tiled(dst, a, b, alpha, beta, trans_a, trans_b, _one())


@documented
def add_mat_mat(dst: DeviceArray, a: DeviceArray, b: DeviceArray, alpha: float, beta: float, trans_a: bool = False,
                trans_b: bool = False) -> None:
    library = cublas.handle()
    if library is None or 0 in a.shape:
        tiled(dst, a, b, alpha, beta, trans_a, trans_b)
    elif 0 not in dst.shape:
        library.sgemm(dst, a, b, alpha, beta, trans_a, trans_b)


def add_mat_mat_times(dst: Any, a: Any, b: Any, factor: Any, trans_a: bool, trans_b: bool) -> None:
    """Compute ``dst += factor[0] op(a) op(b)``, with ``factor`` float32 (1,) in device memory."""
    library = cublas.handle()
    if library is None or 0 in a.shape:
        _tiled(dst, a, b, 1.0, 1.0, trans_a, trans_b, factor)
    elif 0 not in dst.shape:
        library.sgemm_by(dst, a, b, factor, _one(), trans_a, trans_b)


def _one() -> Any:
    return constant_cell(1.0, "float32")


@documented
def affine(dst: DeviceArray, src: DeviceArray, weights: DeviceArray, bias: DeviceArray) -> None:
    KERNELS["add_vec_to_rows"](dst, bias, 1.0, 0.0)
    add_mat_mat(dst, src, weights, 1.0, 1.0, trans_b=True)


@of_elements("mat f32")
def _raise_to_floor(dst, floor):
    return floor if dst < floor else dst


@of_elements("mat vec vec")
def _scale_and_shift(dst, scale, offset):
    return dst * scale + offset


# ``starts`` is a host array
@documented
def spliced_affine(dst: DeviceArray, sums: DeviceArray, src: DeviceArray, weights: DeviceArray, bias: DeviceArray,
                   scale: DeviceArray, offset: DeviceArray, starts: np.ndarray, stride: int, floor: float) -> None:
    KERNELS["add_vec_to_rows"](dst, bias, 1.0, 0.0)
    length, dim = stride * (dst.shape[0] - 1) + 1, src.shape[1]
    for p in range(starts.shape[0]):
        start = int(starts[p])
        add_mat_mat(dst, src[start:start + length:stride], weights[:, p * dim:(p + 1) * dim], 1.0, 1.0, trans_b=True)
    if floor > -np.inf:
        _raise_to_floor(dst, floor)
    if sums.shape[0]:
        column_moments(sums, dst)
    if scale.shape[0]:
        _scale_and_shift(dst, scale, offset)


# -- additions with a factor in device memory: no number goes to the host ----------------------------------------------


@operation(shape=launch_elements)
def add_mat_by(dst, src, factor):
    if factor[0] == ZERO:
        return
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        add_row(row(dst, i), row(src, i), factor[0])
        i += step


@kernel("vec mat vec")
def _add_sums(dst, parts, factor):
    for _ in own_rows(1):
        for j in own_columns(dst.shape[0]):
            if factor[0] != ZERO:
                dst[j] += factor[0] * total(parts, 0, parts.shape[0], j)


@documented
def add_row_sum_by(dst: DeviceArray, src: DeviceArray, factor: DeviceArray) -> None:
    _add_sums(dst, sum_of_values.of(src), factor)


@documented
def add_mat_mat_by(dst: DeviceArray, a: DeviceArray, b: DeviceArray, factor: DeviceArray) -> None:
    add_mat_mat_times(dst, a, b, factor, True, False)
