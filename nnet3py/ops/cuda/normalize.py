"""Row normalization and batch normalization on the GPU: the operations of ``ops/cpu/normalize.py``."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.threads import ROWS_OF_A_SUM
from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda.elementwise import of_elements
from nnet3py.ops.cuda.launch import EMPTY_GRID, MAX_BLOCKS, THREADS, Shape, forced, kernel, operation
from nnet3py.ops.cuda.reductions import total
from nnet3py.ops.cuda.threads import (
    MOST_THREADS,
    WARP,
    block_column,
    column_blocks,
    cuda,
    device_function,
    formula,
    launch_teams,
    own_columns,
    own_rows,
    row,
    row_blocks,
    sum_along_team,
    sum_down_column,
    team_columns,
    team_row,
)
from nnet3py.ops.formulas import functions
from nnet3py.ops.formulas.functions import FLOORED_SCALE, SQUARED_NORM_FLOOR
from nnet3py.ops.table import documented

row_scale = formula(functions.row_scale)
_scale, _derivative = formula(functions.batch_norm_scale), formula(functions.batch_norm_derivative)

ZERO, ONE = np.float32(0), np.float32(1)
MEAN, UNCENTERED_VARIANCE, SCALE, MEAN_DERIV, TOWARDS_Y = range(5)     # rows of a batch-norm memo


@operation(over=1, shape=launch_teams)
def normalize_rows(dst, src, target_rms):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    dim = src.shape[1]
    inverse = ONE / (np.float32(dim) * target_rms * target_rms)
    for first in row_blocks(src.shape[0]):
        i, mine = team_row(first, src.shape[0])
        d, s, part = row(dst, i), row(src, i), ZERO
        for j in team_columns(dim):
            part += s[j] * s[j]
        scale = row_scale(sum_along_team(shared, part), inverse)
        if mine:
            for j in team_columns(dim):
                d[j] = scale * s[j]
            if d.shape[0] > dim and cuda.threadIdx.x == 0:
                d[dim] = np.float32(math.log(target_rms)) - np.float32(math.log(scale))


@operation(shape=launch_teams)
def normalize_rows_backprop(dx, x, dy, target_rms, beta):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    dim = x.shape[1]
    inverse = ONE / (np.float32(dim) * target_rms * target_rms)
    smallest = np.float32(dim) * SQUARED_NORM_FLOOR
    for first in row_blocks(x.shape[0]):
        i, mine = team_row(first, x.shape[0])
        d, s, e = row(dx, i), row(x, i), row(dy, i)
        square, product = ZERO, ZERO
        for j in team_columns(dim):
            square += s[j] * s[j]
            product += s[j] * e[j]
        square, product = sum_along_team(shared, square), sum_along_team(shared, product)
        scale = row_scale(square, inverse)
        # at the floor the scale does not depend on x
        towards_x = ZERO if scale == FLOORED_SCALE else -inverse * scale * scale * scale * product
        if e.shape[0] > dim:
            towards_x += e[dim] / (square if square > smallest else smallest)
        if mine:
            for j in team_columns(dim):
                value = scale * e[j] + towards_x * s[j]
                d[j] = value if beta == ZERO else d[j] + value


# -- batch normalization -----------------------------------------------------------------------------------------------


# Columns are summed over each ROWS_OF_A_SUM rows, as on the CPU; a block computes one such sum in some columns.


def launch_parts_of_sums(rows: int, cols: int) -> Shape:
    """Return grid and block: a block of threads for each group of columns in each of ``rows`` sums over rows."""
    if not rows or not cols:
        return EMPTY_GRID
    return forced() or ((min(-(-cols // WARP), MAX_BLOCKS), min(rows, MAX_BLOCKS)), (WARP, THREADS // WARP))


@device_function
def _parts(count):
    """Return the indexes of the sums over rows, among ``count``, that this block computes."""
    return range(cuda.blockIdx.y, count, cuda.gridDim.y)


@device_function
def _rows_of_part(p, num_rows):
    """Return the rows in sum ``p`` that this thread adds."""
    end = (p + 1) * ROWS_OF_A_SUM
    return range(p * ROWS_OF_A_SUM + cuda.threadIdx.y, end if end < num_rows else num_rows, cuda.blockDim.y)


@operation(shape=launch_parts_of_sums)
def column_products(sums, y, dy):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    count = sums.shape[0] // 2
    for p in _parts(count):
        for first in column_blocks(dy.shape[1]):
            j, writes = block_column(first, dy.shape[1])
            total, product = ZERO, ZERO
            for i in _rows_of_part(p, dy.shape[0]):
                deriv = dy[i, j]
                total += deriv
                product += deriv * y[i, j]
            total, product = sum_down_column(shared, total), sum_down_column(shared, product)
            if writes:
                sums[p, j] = total
                sums[count + p, j] = product


@documented
def column_moments(sums: DeviceArray, src: DeviceArray) -> None:
    column_products(sums, src, src)


@kernel("mat mat int f32 f32")
def _put_moments(memo, parts, num_rows, epsilon, target_rms):
    """Store the columns' mean, mean square and scale in ``memo``; ``parts`` are sums, then sums of squares."""
    inverse_count, count = ONE / np.float32(num_rows), parts.shape[0] // 2
    inverse_target = ONE / (target_rms * target_rms)
    for _ in own_rows(1):
        for j in own_columns(memo.shape[1]):
            mean = total(parts, 0, count, j) * inverse_count
            square = total(parts, count, 2 * count, j) * inverse_count
            memo[MEAN, j] = mean
            memo[UNCENTERED_VARIANCE, j] = square
            memo[SCALE, j] = _scale(mean, square, epsilon, inverse_target)
            memo[MEAN_DERIV, j] = ZERO
            memo[TOWARDS_Y, j] = ZERO


@of_elements("mat mat vec vec")
def _standardize(dst, src, mean, scale):
    return (src - mean) * scale


@documented
def batch_norm_propagate(dst: DeviceArray, memo: DeviceArray, src: DeviceArray, sums: DeviceArray, epsilon: float,
                         target_rms: float) -> None:
    _put_moments(memo, sums, src.shape[0], epsilon, target_rms)
    _standardize(dst, src, memo[MEAN], memo[SCALE])


@kernel("mat mat int f32")
def _put_deriv_moments(memo, parts, num_rows, target_rms):
    """Store in ``memo`` each column's mean of the output derivative, and the factor of y in the input derivative."""
    inverse_count, count = ONE / np.float32(num_rows), parts.shape[0] // 2
    factor = -inverse_count / (target_rms * target_rms)
    for _ in own_rows(1):
        for j in own_columns(memo.shape[1]):
            memo[MEAN_DERIV, j] = total(parts, 0, count, j) * inverse_count
            memo[TOWARDS_Y, j] = total(parts, count, 2 * count, j) * factor * memo[SCALE, j]


@of_elements("mat mat mat vec vec vec")
def _standardize_backprop(dx, y, dy, scale, mean_deriv, towards_y):
    return _derivative(y, dy, scale, mean_deriv, towards_y)


@documented
def batch_norm_backprop(dx: DeviceArray, memo: DeviceArray, y: DeviceArray, dy: DeviceArray, sums: DeviceArray,
                        target_rms: float) -> None:
    _put_deriv_moments(memo, sums, dy.shape[0], target_rms)
    _standardize_backprop(dx, y, dy, memo[SCALE], memo[MEAN_DERIV], memo[TOWARDS_Y])


@kernel("mat mat mat mat mat mat vec vec", over=1, shape=launch_parts_of_sums)
def _standardize_relu_backprop(dx, squares, memo, y, dy, active, floor, repair):
    """Compute the derivative ``dx`` before the rectifier, and sums of squares of the derivative after it."""
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for p in _parts(squares.shape[0]):
        for first in column_blocks(dy.shape[1]):
            j, writes = block_column(first, dy.shape[1])
            there = first + cuda.threadIdx.x < dy.shape[1]
            scale, mean_deriv, towards_y = memo[SCALE, j], memo[MEAN_DERIV, j], memo[TOWARDS_Y, j]
            square = ZERO
            for i in _rows_of_part(p, dy.shape[0]):
                between = _derivative(y[i, j], dy[i, j], scale, mean_deriv, towards_y)
                square += between * between
                if there:
                    dx[i, j] = (between if active[i, j] > floor[j] else ZERO) - repair[j]
            square = sum_down_column(shared, square)
            if writes:
                squares[p, j] = square


@documented
def batch_norm_relu_backprop(dx: DeviceArray, squares: DeviceArray, memo: DeviceArray, y: DeviceArray, dy: DeviceArray,
                             sums: DeviceArray, active: DeviceArray, floor: DeviceArray, repair: DeviceArray,
                             target_rms: float) -> None:
    _put_deriv_moments(memo, sums, dy.shape[0], target_rms)
    _standardize_relu_backprop(dx, squares, memo, y, dy, active, floor, repair)


@operation(over=1)
def batch_norm_store_stats(count, total, total_square, memo, num_rows):
    mean, square = row(memo, MEAN), row(memo, UNCENTERED_VARIANCE)
    for _ in own_rows(1):
        for j in own_columns(total.shape[0]):
            total[j] += num_rows * np.float64(mean[j])
            total_square[j] += num_rows * np.float64(square[j])
            if j == 0:
                count[0] += num_rows
