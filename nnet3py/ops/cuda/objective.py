"""GPU kernels for objectives: a network's output against sparse supervision; the twins of ``ops/cpu/objective.py``."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda.launch import kernel, operation
from nnet3py.ops.cuda.memory import results, summed_by_host
from nnet3py.ops.cuda.reduce import MOST_THREADS, launch_parts, sum_over_block
from nnet3py.ops.cuda.threads import cuda, is_first_of_block, own_columns, own_rows, row
from nnet3py.ops.table import documented

ZERO, DOUBLE_ZERO = np.float32(0), np.float64(0)


# A thread looks for the entries of its element; there are few in a row.
@operation()
def copy_from_sparse(dst, row_starts, columns, values):
    for i in own_rows(dst.shape[0]):
        d, first, last = row(dst, i), row_starts[i], row_starts[i + 1]
        for place in own_columns(d.shape[0]):
            j, total = np.int64(place), ZERO
            for k in range(first, last):
                if columns[k] == j:
                    total += values[k]
            d[j] = total


@kernel("dvec mat lvec ivec vec")
def _products(parts, src, row_starts, columns, values):
    """``parts[b]`` = the sum of the products in the rows that block b comes across; neighbors have other rows."""
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    part = DOUBLE_ZERO
    for _ in own_rows(1):
        for place in own_columns(src.shape[0]):
            i = np.int64(place)
            s = row(src, i)
            for k in range(row_starts[i], row_starts[i + 1]):
                part += np.float64(s[columns[k]]) * np.float64(values[k])
    total = sum_over_block(shared, part)
    if is_first_of_block():
        parts[cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x] = total


@documented
@summed_by_host
def sum_product_sparse(src: DeviceArray, row_starts: DeviceArray, columns: DeviceArray, values: DeviceArray) -> int:
    if not src.size:
        return 0
    shape = launch_parts(1, src.shape[0])
    count = shape[0][0] * shape[0][1]
    _products.launch(shape, results().place(count), src, row_starts, columns, values)
    return count
