"""Rates of single operations: products, copies, and kernels over rows and elements against the copy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_parts.clock import seconds
from nnet3py.engine.threads import ROWS_OF_A_SUM

PRODUCTS = (1024, 2048, 4096, 8192)         # sizes of square matrices
TARGET = 0.8                                # of the copy's bandwidth


def _random(ops: Any, rows: int, cols: int) -> Any:
    matrix = ops.new_vector(rows * cols).reshape(rows, cols)
    ops.random.fill_uniform(matrix)
    return matrix


def product_rate(ops: Any, sizes: tuple[int, ...] = PRODUCTS) -> float:
    """The best rate of a product of square matrices, in operations a second."""
    best = 0.0
    for size in sizes:
        dst, a, b = (_random(ops, size, size) for _ in range(3))
        taken = seconds(lambda dst=dst, a=a, b=b: ops.add_mat_mat(dst, a, b, 1.0, 0.0), 2, 5)
        best = max(best, 2.0 * size ** 3 / taken)
    return best


def operations(ops: Any, rows: int, cols: int) -> dict[str, tuple[Callable[[], Any], int]]:
    """Operations on (rows, cols) matrices, each with the number of matrices that it reads and writes."""
    dst, a, b = (_random(ops, rows, cols) for _ in range(3))
    vector, sums = ops.new_vector(cols), ops.new_vector(cols)
    ops.set_const(vector.reshape(1, cols), 1.0)
    rng = np.random.default_rng(0)
    shifted, shuffled = (ops.upload(indexes.astype(np.int32)) for indexes in (
        np.minimum(np.arange(rows) + 3, rows - 1), rng.permutation(rows)))
    places = ops.upload(np.arange(rows, dtype=np.int64) * cols)
    flat = a.reshape(rows * cols)
    num_parts = -(-rows // ROWS_OF_A_SUM)
    memo, parts, squares = (ops.new_vector(n * cols).reshape(n, cols) for n in (5, 2 * num_parts, num_parts))
    ops.column_moments(parts, a)
    ops.batch_norm_propagate(dst, memo, a, parts, 1e-3, 1.0)
    return {
        "copy_mat": (lambda: ops.copy_mat(dst, a, 1.0), 2),
        "add_mat": (lambda: ops.add_mat(dst, a, 0.5), 3),
        "set_const": (lambda: ops.set_const(dst, 0.0), 1),
        "copy_rows, shifted": (lambda: ops.copy_rows(dst, a, shifted, 1.0), 2),
        "copy_rows, shuffled": (lambda: ops.copy_rows(dst, a, shuffled, 1.0), 2),
        "add_rows, shifted": (lambda: ops.add_rows(dst, a, shifted, 1.0), 3),
        "copy_rows_multi": (lambda: ops.copy_rows_multi(dst, flat, places, 1.0), 2),
        "mul_elements": (lambda: ops.mul_elements(dst, a, b), 3),
        "add_vec_to_rows": (lambda: ops.add_vec_to_rows(dst, vector, 1.0, 1.0), 2),
        "relu": (lambda: ops.relu(dst, a), 2),
        "sigmoid": (lambda: ops.sigmoid(dst, a), 2),
        "tanh": (lambda: ops.tanh(dst, a), 2),
        "relu_backprop": (lambda: ops.relu_backprop(dst, a, b, vector), 3),
        "add_row_sum": (lambda: ops.add_row_sum(sums, a, 1.0, 0.0), 1),
        "log_softmax": (lambda: ops.log_softmax(dst, a), 2),
        "column_moments": (lambda: ops.column_moments(parts, a), 1),
        "batch_norm_propagate": (lambda: ops.batch_norm_propagate(dst, memo, a, parts, 1e-3, 1.0), 2),
        "batch_norm_backprop": (lambda: ops.batch_norm_backprop(dst, memo, a, b, parts, 1.0), 3),
        "batch_norm_relu_backprop": (lambda: ops.batch_norm_relu_backprop(dst, squares, memo, a, b, parts, a, vector,
                                                                          vector, 1.0), 3),
        "philox_uniform": (lambda: ops.random.fill_uniform(dst), 1),
    }


def lines(ops: Any, rows: int, cols: int) -> list[str]:
    """A line for each operation: its bandwidth and its share of the copy's."""
    chosen, found = operations(ops, rows, cols), []
    bytes_each = 4.0 * rows * cols
    copy = chosen["copy_mat"][1] * bytes_each / seconds(chosen["copy_mat"][0], 3, 20)
    for name, (run, matrices) in chosen.items():
        rate = matrices * bytes_each / seconds(run, 3, 20)
        found.append(f"  {name:24}{rate / 1e9:9.0f} GB/s {100 * rate / copy:5.0f} %"
                     + ("" if rate >= TARGET * copy else "   below the target"))
    return found
