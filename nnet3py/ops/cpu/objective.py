"""CPU kernels for objectives: a network's output against sparse supervision."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import row
from nnet3py.ops.cpu.operation import operation


@operation()
def sum_product_sparse(src, row_starts, columns, values):
    total = 0.0
    for r in range(src.shape[0]):
        s = row(src, r)
        for k in range(row_starts[r], row_starts[r + 1]):
            total += s[columns[k]] * np.float64(values[k])
    return total


@operation()
def copy_from_sparse(dst, row_starts, columns, values):
    for r in range(dst.shape[0]):
        d = row(dst, r)
        for c in range(d.shape[0]):
            d[c] = 0.0
        for k in range(row_starts[r], row_starts[r + 1]):
            d[columns[k]] += values[k]
