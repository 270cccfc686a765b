"""Matrix products on the CPU. Kaldi: AddMatMat of ``cu-matrix.h``.

A large product is cut into blocks of rows or columns, each of which is a product that BLAS computes with one thread:
BLAS's own threads would meet several times in a product and spin while they wait, which on a busy machine takes
milliseconds, and some shapes they cut badly.
"""
from __future__ import annotations

from nnet3py.ops.cpu import team
from nnet3py.ops.cpu.blas import sgemm
from nnet3py.ops.cpu.jit import inline, kernel, row

WORK_PER_ELEMENT = 25     # multiply-adds in the time of adding one number to another in memory
LEAST_BLOCK = 64          # rows or columns of a block: BLAS is slow with fewer


@inline
def _leading_dim(matrix):
    """Elements from one row to the next; BLAS wants at least the row's length even where there is no next row."""
    stride = matrix.strides[0] // matrix.itemsize
    return max(stride if matrix.shape[0] > 1 else 0, matrix.shape[1], 1)


@inline
def _multiply(dst, a, b, alpha, beta, trans_a, trans_b):
    """The product with one thread; ``dst`` is not empty."""
    m, n = dst.shape
    k = a.shape[0] if trans_a else a.shape[1]
    # A row-major matrix is the transpose of a column-major one, so we ask for dst' = op(b)' op(a)'.
    sgemm(trans_b, trans_a, n, m, k, alpha, b, _leading_dim(b), a, _leading_dim(a), beta, dst, _leading_dim(dst))


@inline
def _multiply_rows(first, last, dst, a, b, alpha, beta, trans_a, trans_b):
    part = a[:, first:last] if trans_a else a[first:last]
    _multiply(dst[first:last], part, b, alpha, beta, trans_a, trans_b)


@inline
def _multiply_columns(first, last, dst, a, b, alpha, beta, trans_a, trans_b):
    part = b[first:last] if trans_b else b[:, first:last]
    _multiply(dst[:, first:last], a, part, alpha, beta, trans_a, trans_b)


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
    arguments = (dst, a, b, alpha, beta, trans_a, trans_b)
    by_rows = m >= n
    count = m if by_rows else n
    chunk = max(team.chunk_size(count, (m * n // count) * k // WORK_PER_ELEMENT, 16), LEAST_BLOCK)
    shared = False
    if chunk < count:
        place = team.address_of(arguments)
        if by_rows:
            shared = team.run_shared(team.part_address(_multiply_rows, arguments), place, count, chunk)
        else:
            shared = team.run_shared(team.part_address(_multiply_columns, arguments), place, count, chunk)
    if not shared:
        _multiply(dst, a, b, alpha, beta, trans_a, trans_b)
