"""Slow, obvious numpy twins of the operations, under the same names; sums run in float64."""
from __future__ import annotations

import numpy as np
from reference_attention import *  # noqa: F403
from reference_chain import *  # noqa: F403
from reference_convolution import *  # noqa: F403
from reference_natural_gradient import *  # noqa: F403
from reference_nonlinear import *  # noqa: F403
from reference_pooling import *  # noqa: F403
from reference_statistics_pooling import *  # noqa: F403
from reference_structural import *  # noqa: F403


def set_const(dst, value):
    dst[...] = value


def copy_mat(dst, src, alpha):
    dst[...] = alpha * src


def add_mat(dst, src, alpha):
    dst += alpha * src


def sum_mats(dst, a, b, alpha, beta):
    dst[...] = alpha * a + beta * b


def copy_rows(dst, src, indexes, alpha):
    for i, r in enumerate(indexes):
        dst[i] = alpha * src[r] if r >= 0 else 0


def add_rows(dst, src, indexes, alpha):
    for i, r in enumerate(indexes):
        if r >= 0:
            dst[i] += alpha * src[r]


def copy_rows_multi(dst, arena, offsets, alpha):
    for i, offset in enumerate(offsets):
        dst[i] = alpha * arena[offset:offset + dst.shape[1]] if offset >= 0 else 0


def add_rows_multi(dst, arena, offsets, alpha):
    for i, offset in enumerate(offsets):
        if offset >= 0:
            dst[i] += alpha * arena[offset:offset + dst.shape[1]]


def copy_to_rows_multi(arena, offsets, src):
    for i, offset in enumerate(offsets):
        if offset >= 0:
            arena[offset:offset + src.shape[1]] = src[i]


def add_to_rows_multi(arena, offsets, src, alpha):
    for i, offset in enumerate(offsets):
        if offset >= 0:
            arena[offset:offset + src.shape[1]] += alpha * src[i]


def add_row_ranges(dst, src, ranges, alpha):
    for i, (begin, end) in enumerate(ranges):
        dst[i] += alpha * src[begin:end].sum(axis=0) if begin >= 0 else 0


def keep(beta, dst):
    """beta dst, and zeros for beta 0 whatever dst holds."""
    return beta * dst.astype(np.float64) if beta else np.zeros(dst.shape)


def affine(dst, src, weights, bias):
    dst[...] = src @ weights.T + bias


def spliced_affine(dst, sums, src, weights, bias, scale, offset, starts, stride, floor):
    rows = [src[start:start + stride * len(dst):stride][:len(dst)] for start in starts]
    values = np.maximum(np.concatenate(rows, axis=1) @ weights.T + bias, floor)
    if sums.size:
        column_moments(sums, values)  # noqa: F405
    dst[...] = values * scale + offset if scale.size else values


def add_mat_mat(dst, a, b, alpha, beta, trans_a=False, trans_b=False):
    left, right = (a.T if trans_a else a), (b.T if trans_b else b)
    dst[...] = alpha * (left.astype(np.float64) @ right) + keep(beta, dst)


def add_vec_to_rows(dst, vec, alpha, beta):
    dst[...] = alpha * vec + keep(beta, dst)


def mul_cols_vec(dst, src, vec):
    dst[...] = src * vec


def mul_rows_vec(dst, src, vec):
    dst[...] = src * vec[:, None]


def add_mat_diag_vec(dst, src, vec, alpha, beta):
    dst[...] = alpha * src * vec + keep(beta, dst)


def add_diag_vec_mat(dst, vec, src, alpha, beta):
    dst[...] = alpha * vec[:, None] * src + keep(beta, dst)


def mul_elements(dst, a, b):
    dst[...] = a * b


def add_mat_elements(dst, a, b, alpha, beta):
    dst[...] = alpha * a * b + keep(beta, dst)


def add_row_sum(dst, src, alpha, beta):
    dst[...] = alpha * src.sum(axis=0, dtype=np.float64) + keep(beta, dst)


def add_row_sum_product(dst, a, b, alpha, beta):
    dst[...] = alpha * (a.astype(np.float64) * b).sum(axis=0) + keep(beta, dst)


def sum_product(a, b):
    return float((a.astype(np.float64) * b).sum())


def symmetric_eigen(values, vectors, matrix, work):
    if not np.isfinite(matrix).all():
        values[:] = np.nan
        return
    values[:], columns = np.linalg.eigh(matrix)
    vectors[:] = columns.T


def philox_words(count, seed, block, minibatch, component):
    """The first ``count`` words from ``block`` on, uint32."""
    from nnet3py.ops.resources import philox
    key = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)
    words = [word for b in range(block, block + (count + 3) // 4)
             for word in philox((b & 0xFFFFFFFF, b >> 32, minibatch, component), key)]
    return np.array(words, np.uint32)


def philox_uniform(dst, seed, block, minibatch, component):
    words = philox_words(dst.size, seed, block, minibatch, component)
    dst[...] = ((words >> 8) * 2.0 ** -24)[:dst.size].reshape(dst.shape)


def away_from_zero(scales, smallest):
    return np.where(np.abs(scales) >= smallest, scales, np.where(scales >= 0, smallest, -smallest))


def scale_and_offset(dst, src, scales, offsets, smallest):
    dst[...] = src * away_from_zero(scales, smallest) + offsets


def scale_gradient_from_output(dst, y, dy, scales, offsets, smallest):
    dst[...] = dy * (y - offsets) / away_from_zero(scales, smallest)


def copy_from_sparse(dst, row_starts, columns, values):
    dst[...] = 0
    for i in range(dst.shape[0]):
        for k in range(row_starts[i], row_starts[i + 1]):
            dst[i, columns[k]] += values[k]


def sum_product_sparse(src, row_starts, columns, values):
    total = 0.0
    for i in range(src.shape[0]):
        for k in range(row_starts[i], row_starts[i + 1]):
            total += float(src[i, columns[k]]) * float(values[k])
    return total


def orthonormal_step(p, ratio, constraint):
    square, speed, ratio[0] = constraint ** 2, 0.125, 1
    if constraint < 0:
        values = np.linalg.eigvalsh(np.float64(p))
        if values.sum() < 1e-15:
            p[...] = 0
            return
        square, ratio[0] = (values ** 2).sum() / values.sum(), (values ** 2).mean() / values.mean() ** 2
        speed /= 4 if ratio[0] > 1.1 else 2 if ratio[0] > 1.02 else 1
    p[...] = 4 * speed / square * (p - square * np.eye(len(p)))
