"""Matrix products on the CPU. Kaldi: AddMatMat of ``cu-matrix.h``."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cpu.blas import set_blas_threads, sgemm
from nnet3py.ops.cpu.jit import inline, kernel, row


@inline
def _leading_dim(matrix):
    """Elements from one row to the next; BLAS wants at least the row's length even where there is no next row."""
    stride = matrix.strides[0] // matrix.itemsize
    return max(stride if matrix.shape[0] > 1 else 0, matrix.shape[1], 1)


# BLAS's threads meet several times in a product and spin while they wait. Where another process holds a core that takes
# milliseconds each time: a pass of training over small products took 37 s instead of 4. So only products that keep one
# thread busy for longer than that (2e8 operations: some 2 ms) use several.
LEAST_WORK_FOR_THREADS = 2e8

threads = np.ones(1, dtype=np.int32)   # what large products may use; set by ops/threads.py


@kernel("mat mat mat f32 f32 bool bool ivec")
def _add_mat_mat(dst, a, b, alpha, beta, trans_a, trans_b, threads):
    m, n = dst.shape
    k = a.shape[0] if trans_a else a.shape[1]
    if m == 0 or n == 0:
        return
    if k == 0:
        for i in range(m):
            target = row(dst, i)
            for j in range(n):
                target[j] = beta * target[j] if beta != 0 else beta
        return
    work = 2.0 * m * n * k
    set_blas_threads(threads[0] if work >= LEAST_WORK_FOR_THREADS else 1)
    # A row-major matrix is the transpose of a column-major one, so we ask for dst' = op(b)' op(a)'.
    sgemm(trans_b, trans_a, n, m, k, alpha, b, _leading_dim(b), a, _leading_dim(a), beta, dst, _leading_dim(dst))


def add_mat_mat(dst, a, b, alpha, beta, trans_a=False, trans_b=False):
    """``dst = alpha op(a) op(b) + beta dst``, where op transposes if asked to. Kaldi: AddMatMat.

    With beta 0 the old content of ``dst`` does not count, not even NaN. ``dst`` overlaps neither ``a`` nor ``b``.
    """
    _add_mat_mat(dst, a, b, alpha, beta, trans_a, trans_b, threads)
