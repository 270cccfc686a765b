"""Sums on the GPU: over the rows of a matrix, along its rows, or over everything.

The twins of ``ops/cpu/reductions.py``. The order of a sum depends on the sizes alone. Those to one number run in
float64; they make the host wait for them, and so are not used where time counts.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda.column_sums import column_sums, total
from nnet3py.ops.cuda.formulas import formula
from nnet3py.ops.cuda.launch import kernel, operation
from nnet3py.ops.cuda.memory import results, summed_by_host
from nnet3py.ops.cuda.reduce import (
    MOST_THREADS,
    launch_parts,
    launch_teams,
    sum_along_team,
    sum_over_block,
)
from nnet3py.ops.cuda.threads import (
    cuda,
    is_first_of_block,
    own_columns,
    own_rows,
    row,
    row_blocks,
    team_columns,
    team_row,
)
from nnet3py.ops.formulas import functions
from nnet3py.ops.table import documented

keep = formula(functions.keep)

DOUBLE_ZERO = np.float64(0)


@column_sums("mat")
def sum_of_values(src):
    """What is summed of each element."""
    return src


@column_sums("mat")
def _squares(src):
    return src * src


@column_sums("mat mat")
def _column_products(a, b):
    return a * b


@column_sums("mat", double=True)
def _double_values(src):
    return np.float64(src)


@column_sums("mat", double=True)
def _double_squares(src):
    return np.float64(src) * np.float64(src)


@kernel("vec mat f32 f32")
def _put_sums(dst, parts, alpha, beta):
    for _ in own_rows(1):
        for j in own_columns(dst.shape[0]):
            dst[j] = alpha * total(parts, 0, parts.shape[0], j) + keep(beta, dst[j])


@kernel("dvec dmat f64")
def _add_double_sums(dst, parts, alpha):
    for _ in own_rows(1):
        for j in own_columns(dst.shape[0]):
            dst[j] += alpha * total(parts, 0, parts.shape[0], j)


@documented
def add_row_sum(dst: DeviceArray, src: DeviceArray, alpha: float, beta: float) -> None:
    _put_sums(dst, sum_of_values.of(src), alpha, beta)


@documented
def add_row_sum_sq(dst: DeviceArray, src: DeviceArray, alpha: float, beta: float) -> None:
    _put_sums(dst, _squares.of(src), alpha, beta)


@documented
def add_row_sum_product(dst: DeviceArray, a: DeviceArray, b: DeviceArray, alpha: float, beta: float) -> None:
    _put_sums(dst, _column_products.of(a, b), alpha, beta)


@documented
def add_row_sum_double(dst: DeviceArray, src: DeviceArray, alpha: float) -> None:
    _add_double_sums(dst, _double_values.of(src), alpha)


@documented
def add_row_sum_sq_double(dst: DeviceArray, src: DeviceArray, alpha: float) -> None:
    _add_double_sums(dst, _double_squares.of(src), alpha)


@operation(over=1, shape=launch_teams)
def add_col_sum_product(dst, a, b, alpha, beta):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    for first in row_blocks(a.shape[0]):
        i, mine = team_row(first, a.shape[0])
        x, y, part = row(a, i), row(b, i), DOUBLE_ZERO
        for j in team_columns(x.shape[0]):
            part += np.float64(x[j]) * np.float64(y[j])
        whole = sum_along_team(shared, part)
        if mine and cuda.threadIdx.x == 0:
            dst[i] = alpha * np.float32(whole) + keep(beta, dst[i])


# -- to one number ----------------------------------------------------------------------------------------------------


@kernel("dvec mat mat", shape=launch_parts)
def _products(parts, a, b):
    """``parts[k]`` = the sum of the products that block k comes across."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    part = DOUBLE_ZERO
    for i in own_rows(a.shape[0]):
        x, y = row(a, i), row(b, i)
        for j in own_columns(x.shape[0]):
            part += np.float64(x[j]) * np.float64(y[j])
    whole = sum_over_block(shared, part)
    if is_first_of_block():
        parts[cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x] = whole


@documented
@summed_by_host
def sum_product(a: DeviceArray, b: DeviceArray) -> int:
    if not a.size:
        return 0
    shape = launch_parts(*a.shape)
    count = shape[0][0] * shape[0][1]
    _products.launch(shape, results().place(count), a, b)
    return count


@documented
def sum_sq(src: DeviceArray) -> float:
    return sum_product(src, src)


@documented
def dot(a: DeviceArray, b: DeviceArray) -> float:
    return sum_product(a.reshape(1, a.size), b.reshape(1, b.size))
