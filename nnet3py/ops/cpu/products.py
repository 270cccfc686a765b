"""Matrix products on the CPU. Kaldi: AddMatMat of ``cu-matrix.h``."""
from __future__ import annotations

from nnet3py.ops.cpu.blas import sgemm
from nnet3py.ops.cpu.jit import inline, kernel, row


@inline
def _leading_dim(matrix):
    """Elements from one row to the next; BLAS wants at least the row's length even where there is no next row."""
    stride = matrix.strides[0] // matrix.itemsize
    return max(stride if matrix.shape[0] > 1 else 0, matrix.shape[1], 1)


@kernel("mat mat mat f32 f32 bool bool")
def add_mat_mat(dst, a, b, alpha, beta, trans_a=False, trans_b=False):
    """``dst = alpha op(a) op(b) + beta dst``, where op transposes if asked to. Kaldi: AddMatMat.

    With beta 0 the old content of ``dst`` does not count, not even NaN. ``dst`` overlaps neither ``a`` nor ``b``.
    """
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
    # A row-major matrix is the transpose of a column-major one, so we ask for dst' = op(b)' op(a)'.
    sgemm(trans_b, trans_a, n, m, k, alpha, b, _leading_dim(b), a, _leading_dim(a), beta, dst, _leading_dim(dst))
