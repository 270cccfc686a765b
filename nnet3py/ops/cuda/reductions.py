"""Sums on the GPU: over the rows of a matrix, along its rows, or over everything.

The twins of ``ops/cpu/reductions.py``. The order of a sum depends on the sizes alone. Those to one number run in
float64; they make the host wait for them, and so have no place where time counts.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.ops.cuda.element_formulas import keep
from nnet3py.ops.cuda.launch import kernel
from nnet3py.ops.cuda.memory import results
from nnet3py.ops.cuda.reduce import (
    MOST_THREADS,
    launch_columns,
    launch_parts,
    launch_teams,
    sum_along_team,
    sum_down_column,
    sum_over_block,
)
from nnet3py.ops.cuda.threads import (
    block_column,
    block_rows,
    column_blocks,
    cuda,
    is_first_of_block,
    own_columns,
    own_rows,
    row,
    row_blocks,
    team_columns,
    team_row,
)

ZERO, DOUBLE_ZERO = np.float32(0), np.float64(0)


@kernel("vec mat f32 f32", shape=launch_columns)
def add_row_sum(dst, src, alpha, beta):
    """``dst[j] = alpha (sum over i of src[i, j]) + beta dst[j]``. Kaldi: AddRowSumMat."""
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for first in column_blocks(src.shape[1]):
        j, mine = block_column(first, src.shape[1])
        part = ZERO
        for i in block_rows(src.shape[0]):
            part += row(src, i)[j]
        total = sum_down_column(shared, part)
        if mine:
            dst[j] = alpha * total + keep(beta, dst[j])


@kernel("vec mat f32 f32", shape=launch_columns)
def add_row_sum_sq(dst, src, alpha, beta):
    """``dst[j] = alpha (sum over i of src[i, j]^2) + beta dst[j]``. Kaldi: AddDiagMat2 of the transpose."""
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for first in column_blocks(src.shape[1]):
        j, mine = block_column(first, src.shape[1])
        part = ZERO
        for i in block_rows(src.shape[0]):
            value = row(src, i)[j]
            part += value * value
        total = sum_down_column(shared, part)
        if mine:
            dst[j] = alpha * total + keep(beta, dst[j])


@kernel("vec mat mat f32 f32", shape=launch_columns)
def add_row_sum_product(dst, a, b, alpha, beta):
    """``dst[j] = alpha (sum over i of a[i, j] b[i, j]) + beta dst[j]``. Kaldi: AddDiagMatMat of the transposes."""
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    for first in column_blocks(a.shape[1]):
        j, mine = block_column(first, a.shape[1])
        part = ZERO
        for i in block_rows(a.shape[0]):
            part += row(a, i)[j] * row(b, i)[j]
        total = sum_down_column(shared, part)
        if mine:
            dst[j] = alpha * total + keep(beta, dst[j])


@kernel("dvec mat f64", shape=launch_columns)
def add_row_sum_double(dst, src, alpha):
    """``dst[j] += alpha (sum over i of src[i, j])`` in float64. Kaldi: AddRowSumMat, then an addition in double."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    for first in column_blocks(src.shape[1]):
        j, mine = block_column(first, src.shape[1])
        part = DOUBLE_ZERO
        for i in block_rows(src.shape[0]):
            part += np.float64(row(src, i)[j])
        total = sum_down_column(shared, part)
        if mine:
            dst[j] += alpha * total


@kernel("dvec mat f64", shape=launch_columns)
def add_row_sum_sq_double(dst, src, alpha):
    """``dst[j] += alpha (sum over i of src[i, j]^2)`` in float64. Kaldi: AddDiagMat2, then an addition in double."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    for first in column_blocks(src.shape[1]):
        j, mine = block_column(first, src.shape[1])
        part = DOUBLE_ZERO
        for i in block_rows(src.shape[0]):
            value = np.float64(row(src, i)[j])
            part += value * value
        total = sum_down_column(shared, part)
        if mine:
            dst[j] += alpha * total


@kernel("vec mat mat f32 f32", over=1, shape=launch_teams)
def add_col_sum_product(dst, a, b, alpha, beta):
    """``dst[i] = alpha (sum over j of a[i, j] b[i, j]) + beta dst[i]``, summed in float64. Kaldi: AddDiagMatMat."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    for first in row_blocks(a.shape[0]):
        i, mine = team_row(first, a.shape[0])
        x, y, part = row(a, i), row(b, i), DOUBLE_ZERO
        for j in team_columns(x.shape[0]):
            part += np.float64(x[j]) * np.float64(y[j])
        total = sum_along_team(shared, part)
        if mine and cuda.threadIdx.x == 0:
            dst[i] = alpha * np.float32(total) + keep(beta, dst[i])


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
    total = sum_over_block(shared, part)
    if is_first_of_block():
        parts[cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x] = total


def sum_product(a: Any, b: Any) -> float:
    """The sum of all ``a[i, j] b[i, j]``, in float64; the host waits for it. Kaldi: TraceMatMat(a, b, trans)."""
    if not a.size:
        return 0.0
    shape = launch_parts(*a.shape)
    count = shape[0][0] * shape[0][1]
    _products.launch(shape, results().place(count), a, b)
    return float(results().read(count).sum())


def sum_sq(src: Any) -> float:
    """The sum of all ``src[i, j]^2``, in float64; the host waits for it. Kaldi: TraceMatMat(src, src, trans)."""
    return sum_product(src, src)


def dot(a: Any, b: Any) -> float:
    """The sum of all ``a[i] b[i]``, in float64; the host waits for it. Kaldi: VecVec."""
    return sum_product(a.reshape(1, a.size), b.reshape(1, b.size))
