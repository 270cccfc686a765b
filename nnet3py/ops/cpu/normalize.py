"""Row normalization and batch normalization on the CPU."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.engine.jit import inline, row
from nnet3py.engine.team_code import CHUNKS_PER_THREAD, address_of, part_address, share
from nnet3py.engine.threads import ROWS_OF_A_SUM
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.formulas import functions
from nnet3py.ops.formulas.functions import FLOORED_SCALE, SQUARED_NORM_FLOOR

ZERO, ONE = np.float32(0), np.float32(1)

_row_scale = inline(functions.row_scale)     # compiled with the fast-math flags of the kernel that calls it
_scale, _derivative = formula(functions.batch_norm_scale), formula(functions.batch_norm_derivative)

MEAN, UNCENTERED_VARIANCE, SCALE, MEAN_DERIV, TOWARDS_Y = range(5)     # rows of a batch-norm memo


@operation(reassociate=True, rows_of="dst", cost=2)
def normalize_rows(first, last, dst, src, target_rms):
    dim = src.shape[1]
    inverse = ONE / (np.float32(dim) * target_rms * target_rms)
    for i in range(first, last):
        d, s = row(dst, i), row(src, i)
        square = ZERO
        for j in range(dim):
            square += s[j] * s[j]
        scale = _row_scale(square, inverse)
        for j in range(dim):
            d[j] = scale * s[j]
        if d.shape[0] > dim:
            d[dim] = np.float32(math.log(target_rms)) - np.float32(math.log(scale))


@operation(reassociate=True, rows_of="x", cost=3)
def normalize_rows_backprop(first, last, dx, x, dy, target_rms, beta):
    dim = x.shape[1]
    inverse = ONE / (np.float32(dim) * target_rms * target_rms)
    for i in range(first, last):
        d, s, e = row(dx, i), row(x, i), row(dy, i)
        square, product = ZERO, ZERO
        for j in range(dim):
            square += s[j] * s[j]
            product += s[j] * e[j]
        scale = _row_scale(square, inverse)
        # at the floor the scale does not depend on x
        towards_x = ZERO if scale == FLOORED_SCALE else -inverse * scale * scale * scale * product
        if e.shape[0] > dim:
            towards_x += e[dim] / max(square, np.float32(dim) * SQUARED_NORM_FLOOR)
        if beta == ZERO:
            for j in range(dim):
                d[j] = scale * e[j] + towards_x * s[j]
        else:
            for j in range(dim):
                d[j] += scale * e[j] + towards_x * s[j]


# -- batch normalization -----------------------------------------------------------------------------------------------
# Threads share rows, and columns are summed over each ROWS_OF_A_SUM rows: going along rows is the fastest, and the sums
# do not depend on the number of threads.


@inline
def _products(first, last, sums, y, dy):
    for block in range(first, last):
        total, product = row(sums, block), row(sums, sums.shape[0] // 2 + block)
        total[:] = ZERO
        product[:] = ZERO
        start, end = block * ROWS_OF_A_SUM, min((block + 1) * ROWS_OF_A_SUM, dy.shape[0])
        paired = end - (end - start) % 2
        for i in range(start, paired, 2):
            v, w, e, f = row(y, i), row(y, i + 1), row(dy, i), row(dy, i + 1)
            for j in range(total.shape[0]):
                total[j] += e[j] + f[j]
                product[j] += v[j] * e[j] + w[j] * f[j]
        if paired < end:
            v, e = row(y, paired), row(dy, paired)
            for j in range(total.shape[0]):
                total[j] += e[j]
                product[j] += v[j] * e[j]


@operation()
def column_products(sums, y, dy):
    arguments = (sums, y, dy)
    share(part_address(_products, arguments), address_of(arguments), sums.shape[0] // 2,
          2 * ROWS_OF_A_SUM * dy.shape[1], 1, CHUNKS_PER_THREAD)


@operation()
def column_moments(sums, src):
    arguments = (sums, src, src)
    share(part_address(_products, arguments), address_of(arguments), sums.shape[0] // 2,
          2 * ROWS_OF_A_SUM * src.shape[1], 1, CHUNKS_PER_THREAD)


@inline
def _add_parts(total, parts, first, last):
    total[:] = ZERO
    for p in range(first, last):
        part = row(parts, p)
        for j in range(total.shape[0]):
            total[j] += part[j]


@inline
def _standardize(first, last, dst, memo, src):
    mean, scale = row(memo, MEAN), row(memo, SCALE)
    for i in range(first, last):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            d[j] = (s[j] - mean[j]) * scale[j]


@operation()
def batch_norm_propagate(dst, memo, src, sums, epsilon, target_rms):
    num_rows, count = src.shape[0], sums.shape[0] // 2
    mean, square, scale = row(memo, MEAN), row(memo, UNCENTERED_VARIANCE), row(memo, SCALE)
    _add_parts(mean, sums, 0, count)
    _add_parts(square, sums, count, 2 * count)
    inverse_count = ONE / np.float32(num_rows)
    inverse_target = ONE / (target_rms * target_rms)
    for j in range(mean.shape[0]):
        mean[j] *= inverse_count
        square[j] *= inverse_count
        scale[j] = _scale(mean[j], square[j], epsilon, inverse_target)
    row(memo, MEAN_DERIV)[:] = ZERO
    row(memo, TOWARDS_Y)[:] = ZERO
    arguments = (dst, memo, src)
    share(part_address(_standardize, arguments), address_of(arguments), num_rows, src.shape[1], 1, CHUNKS_PER_THREAD)


@inline
def _put_deriv_moments(memo, sums, num_rows, target_rms):
    """Store in ``memo`` each column's mean of the output derivative, and the factor of y in the input derivative."""
    count = sums.shape[0] // 2
    mean_deriv, towards_y, scale = row(memo, MEAN_DERIV), row(memo, TOWARDS_Y), row(memo, SCALE)
    _add_parts(mean_deriv, sums, 0, count)
    _add_parts(towards_y, sums, count, 2 * count)
    inverse_count = ONE / np.float32(num_rows)
    factor = -inverse_count / (target_rms * target_rms)
    for j in range(scale.shape[0]):
        mean_deriv[j] *= inverse_count
        towards_y[j] *= factor * scale[j]


@inline
def _standardize_backprop(first, last, dx, memo, y, dy):
    scale, mean_deriv, towards_y = row(memo, SCALE), row(memo, MEAN_DERIV), row(memo, TOWARDS_Y)
    for i in range(first, last):
        d, v, e = row(dx, i), row(y, i), row(dy, i)
        for j in range(d.shape[0]):
            d[j] = _derivative(v[j], e[j], scale[j], mean_deriv[j], towards_y[j])


@operation()
def batch_norm_backprop(dx, memo, y, dy, sums, target_rms):
    _put_deriv_moments(memo, sums, dy.shape[0], target_rms)
    arguments = (dx, memo, y, dy)
    share(part_address(_standardize_backprop, arguments), address_of(arguments), dy.shape[0], 2 * dy.shape[1], 1,
          CHUNKS_PER_THREAD)


@inline
def _standardize_relu_backprop(first, last, dx, squares, memo, y, dy, active, floor, repair):
    scale, mean_deriv, towards_y = row(memo, SCALE), row(memo, MEAN_DERIV), row(memo, TOWARDS_Y)
    for block in range(first, last):
        square = row(squares, block)
        square[:] = ZERO
        for i in range(block * ROWS_OF_A_SUM, min((block + 1) * ROWS_OF_A_SUM, dy.shape[0])):
            d, v, e, a = row(dx, i), row(y, i), row(dy, i), row(active, i)
            for j in range(d.shape[0]):
                between = _derivative(v[j], e[j], scale[j], mean_deriv[j], towards_y[j])
                square[j] += between * between
                d[j] = (between if a[j] > floor[j] else ZERO) - repair[j]


@operation()
def batch_norm_relu_backprop(dx, squares, memo, y, dy, sums, active, floor, repair, target_rms):
    _put_deriv_moments(memo, sums, dy.shape[0], target_rms)
    arguments = (dx, squares, memo, y, dy, active, floor, repair)
    share(part_address(_standardize_relu_backprop, arguments), address_of(arguments), squares.shape[0],
          4 * ROWS_OF_A_SUM * dy.shape[1], 1, CHUNKS_PER_THREAD)


@operation()
def batch_norm_store_stats(count, total, total_square, memo, num_rows):
    mean, square = row(memo, MEAN), row(memo, UNCENTERED_VARIANCE)
    count[0] += num_rows
    for j in range(mean.shape[0]):
        total[j] += num_rows * np.float64(mean[j])
        total_square[j] += num_rows * np.float64(square[j])
