"""Row normalisation and batch normalisation on the CPU."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops import formulas
from nnet3py.ops.cpu.jit import inline, kernel, row, segment
from nnet3py.ops.formulas import FLOORED_SCALE, SQUARED_NORM_FLOOR

ZERO, ONE = np.float32(0), np.float32(1)
PARTIAL_ROWS = 64                               # rows summed in float32 before they join the total

_row_scale = inline(formulas.row_scale)

MEAN, UNCENTERED_VARIANCE, SCALE, WORK_0, WORK_1 = range(5)     # rows of a batch-norm memo


@kernel("mat mat f32", reassociate=True, rows_of="dst", cost=2)
def normalize_rows(first, last, dst, src, target_rms):
    """Scale each row to the rms ``target_rms``; ``dst`` may be ``src``. Kaldi: NormalizePerRow.

    If ``dst`` has a column more than ``src``, it gets the logarithm of the row's rms.
    """
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


@kernel("mat mat mat f32 f32", reassociate=True, rows_of="x", cost=3)
def normalize_rows_backprop(first, last, dx, x, dy, target_rms, beta):
    """Derivative of ``normalize_rows``, plus ``beta`` (0 or 1) times ``dx``; ``dx`` may be ``dy`` if ``beta`` is 0.

    Kaldi: DiffNormalizePerRow.
    """
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


@inline
def _flush(total, partial):
    for j in range(total.shape[0]):
        total[j] += partial[j]
        partial[j] = ZERO


@kernel("mat mat mat f32 f32", columns_of="src", cost=3)
def batch_norm_propagate(first, last, dst, memo, src, epsilon, target_rms):
    """Give each column mean 0 and variance ``target_rms``^2; ``dst`` may be ``src``. ``memo`` has 5 rows.

    ``memo`` gets the columns' mean, mean square and scale, and two rows of work space. The variance is a difference of
    float32 numbers, as in Kaldi.
    """
    mean, square = segment(memo, MEAN, first, last), segment(memo, UNCENTERED_VARIANCE, first, last)
    scale = segment(memo, SCALE, first, last)
    partial_sum, partial_square = segment(memo, WORK_0, first, last), segment(memo, WORK_1, first, last)
    for i in range(memo.shape[0]):
        segment(memo, i, first, last)[:] = ZERO
    num_rows = src.shape[0]
    for start in range(0, num_rows, PARTIAL_ROWS):
        end = min(start + PARTIAL_ROWS, num_rows)
        paired = end - (end - start) % 2
        for i in range(start, paired, 2):
            s, t = segment(src, i, first, last), segment(src, i + 1, first, last)
            for j in range(s.shape[0]):
                partial_sum[j] += s[j] + t[j]
                partial_square[j] += s[j] * s[j] + t[j] * t[j]
        if paired < end:
            s = segment(src, paired, first, last)
            for j in range(s.shape[0]):
                partial_sum[j] += s[j]
                partial_square[j] += s[j] * s[j]
        _flush(mean, partial_sum)
        _flush(square, partial_square)
    inverse_count = ONE / np.float32(num_rows)
    inverse_target = ONE / (target_rms * target_rms)
    for j in range(mean.shape[0]):
        mean[j] *= inverse_count
        square[j] *= inverse_count
        variance = inverse_target * square[j] - inverse_target * (mean[j] * mean[j])
        variance = ZERO if variance < ZERO else variance
        scale[j] = ONE / np.float32(math.sqrt(variance + inverse_target * epsilon))
    for i in range(num_rows):
        d, s = segment(dst, i, first, last), segment(src, i, first, last)
        for j in range(d.shape[0]):
            d[j] = (s[j] - mean[j]) * scale[j]


@kernel("mat mat mat mat f32", columns_of="dy", cost=3)
def batch_norm_backprop(first, last, dx, memo, y, dy, target_rms):
    """Derivative of ``batch_norm_propagate``, which filled ``memo``; ``dx`` may be ``dy``."""
    scale = segment(memo, SCALE, first, last)
    mean_deriv, towards_y = segment(memo, WORK_0, first, last), segment(memo, WORK_1, first, last)
    mean_deriv[:] = ZERO
    towards_y[:] = ZERO
    for i in range(dy.shape[0]):
        v, e = segment(y, i, first, last), segment(dy, i, first, last)
        for j in range(e.shape[0]):
            mean_deriv[j] += e[j]
            towards_y[j] += v[j] * e[j]
    inverse_count = ONE / np.float32(dy.shape[0])
    factor = -inverse_count / (target_rms * target_rms)
    for j in range(scale.shape[0]):
        mean_deriv[j] *= inverse_count
        towards_y[j] *= factor * scale[j]
    for i in range(dy.shape[0]):
        d, v, e = segment(dx, i, first, last), segment(y, i, first, last), segment(dy, i, first, last)
        for j in range(d.shape[0]):
            d[j] = scale[j] * (e[j] - mean_deriv[j]) + towards_y[j] * v[j]


@kernel("dvec dvec dvec mat int")
def batch_norm_store_stats(count, total, total_square, memo, num_rows):
    """Add to the sums what ``batch_norm_propagate`` found in ``num_rows`` rows."""
    mean, square = row(memo, MEAN), row(memo, UNCENTERED_VARIANCE)
    count[0] += num_rows
    for j in range(mean.shape[0]):
        total[j] += num_rows * np.float64(mean[j])
        total_square[j] += num_rows * np.float64(square[j])
