"""CPU kernels for objectives: products of a network's output with sparse or dense supervision."""
from __future__ import annotations

from nnet3py.ops.cpu.jit import kernel, row


@kernel("mat lvec ivec vec")
def trace_mat_sparse(src, row_starts, columns, values):
    """Sum over all entries of the sparse matrix (row_starts, columns, values) times ``src`` there, in float64."""
    total = 0.0
    for r in range(src.shape[0]):
        s = row(src, r)
        for k in range(row_starts[r], row_starts[r + 1]):
            total += s[columns[k]] * values[k]
    return total


@kernel("mat lvec ivec vec")
def copy_from_sparse(dst, row_starts, columns, values):
    """Set ``dst`` to the sparse matrix (row_starts, columns, values)."""
    for r in range(dst.shape[0]):
        d = row(dst, r)
        for c in range(d.shape[0]):
            d[c] = 0.0
        for k in range(row_starts[r], row_starts[r + 1]):
            d[columns[k]] += values[k]


@kernel("mat mat")
def trace_mat_mat(a, b):
    """Sum of the elementwise product of two matrices of the same shape, in float64."""
    total = 0.0
    for r in range(a.shape[0]):
        x, y = row(a, r), row(b, r)
        for c in range(x.shape[0]):
            total += x[c] * y[c]
    return total
