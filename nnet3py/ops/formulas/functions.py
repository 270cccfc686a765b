"""Formulas of nonlinearities and their derivatives, LSTM and GRU cells, normalization, clipping and self-repair.

Formulas compute with float32 scalars, so constants are float32 too (with a Python literal the compiler would compute
everything in double). Kaldi computes some of the divisions in double; the last bit of a result may differ from Kaldi's.
"""
from __future__ import annotations

import math

import numpy as np

ZERO, HALF, ONE, TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)

# exp(x) = 2**n * exp(r) with |r| <= log(2)/2; log(2) is split in two so that n * LOG2_HIGH is exact.
EXP_LOWEST, EXP_HIGHEST = np.float32(-87.3), np.float32(88.0)
LOG2_E, LOG2_HIGH, LOG2_LOW = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)
ROUND_TO_INTEGER = np.float32(1.5 * 2**23)      # adding and subtracting it rounds to the nearest integer
EXPONENT_BIAS, MANTISSA_BITS = np.int32(127), np.int32(23)
EXP_2, EXP_3, EXP_4, EXP_5, EXP_6, EXP_7 = (np.float32(c) for c in (
    5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4))


def exp(x):
    """Compute e**x with a relative error below 1e-7, in operations that LLVM can vectorize.

    Arguments are clipped to -87.3 and 88 (results to 1.2e-38 and 1.7e38); NaN stays NaN.
    """
    x = min(max(x, EXP_LOWEST), EXP_HIGHEST)
    n = (x * LOG2_E + ROUND_TO_INTEGER) - ROUND_TO_INTEGER
    r = x - n * LOG2_HIGH - n * LOG2_LOW
    p = EXP_7 * r + EXP_6
    p = p * r + EXP_5
    p = p * r + EXP_4
    p = p * r + EXP_3
    p = p * r + EXP_2
    p = p * r * r + r + ONE
    power = np.int32((np.int32(n) + EXPONENT_BIAS) << MANTISSA_BITS)
    return p * power.view(np.float32)


def sigmoid(x):
    """Compute 1 / (1 + exp(-x)), without overflow."""
    return ONE / (ONE + exp(-x))


def tanh(x):
    """Compute the hyperbolic tangent, to an absolute error of about 1e-7."""
    return TWO / (ONE + exp(-TWO * x)) - ONE


def sigmoid_slope(y):
    """Return the derivative of the sigmoid where its value is ``y``."""
    return y * (ONE - y)


def tanh_slope(y):
    """Return the derivative of the tanh where its value is ``y``."""
    return ONE - y * y


def relu_slope(y):
    """Return the derivative of the rectifier where its value is ``y``."""
    return ONE if y > ZERO else ZERO


def dropout_scales(src, cells):
    """Return the dropout masks of the gates i, f and o: the three last elements of the row ``src``; 1 without masks.

    ``src`` is an input row of ``lstm_propagate``: five blocks of ``cells`` elements, perhaps followed by three masks.
    """
    start = 5 * cells
    if src.shape[0] > start:
        return src[start], src[start + 1], src[start + 2]
    return ONE, ONE, ONE


def lstm_cell(i_part, f_part, c_part, o_part, c_prev, w_ic, w_fc, w_oc,
              i_scale, f_scale, o_scale):
    """Compute an LSTM cell in one frame: return c and m, then the values i, f, g, o, u of its nonlinearities.

    g = tanh(c_part), u = tanh(c). The scales are the dropout masks of the three gates, 1 without dropout.
    """
    i = sigmoid(i_part + w_ic * c_prev)
    f = sigmoid(f_part + w_fc * c_prev)
    g = tanh(c_part)
    c = f * f_scale * c_prev + i * i_scale * g
    o = sigmoid(o_part + w_oc * c)
    u = tanh(c)
    return c, o * o_scale * u, i, f, g, o, u


def lstm_cell_backprop(i, f, g, o, u, c_prev, w_ic, w_fc, w_oc,
                       i_scale, f_scale, o_scale, dc_out, dm,
                       i_repair, f_repair, g_repair, o_repair, u_repair):
    """Differentiate an LSTM cell in one frame: from ``dc_out`` and ``dm``, the derivatives of the outputs c and m.

    Returns the derivatives of i_part, f_part, c_part, o_part and c_prev. The repairs are the self-repair scales of the
    five nonlinearities, 0 for none.
    """
    do_in = sigmoid_slope(o) * (o_scale * u * dm) - (TWO * o - ONE) * o_repair
    dc = tanh_slope(u) * (o * o_scale * dm) + dc_out + do_in * w_oc - u * u_repair
    df_in = sigmoid_slope(f) * (dc * f_scale * c_prev) - (TWO * f - ONE) * f_repair
    di_in = sigmoid_slope(i) * (dc * i_scale * g) - (TWO * i - ONE) * i_repair
    dc_part = tanh_slope(g) * (i * i_scale * dc) - g * g_repair
    dc_prev = w_ic * di_in + w_fc * df_in + f * f_scale * dc
    return di_in, df_in, dc_part, do_in, dc_prev


def gru_cell(total, z, c_prev):
    """Compute a GRU cell in one frame: return h = tanh(total) and c = (1 - z) h + z c_prev."""
    h = tanh(total)
    return h, h - z * h + z * c_prev


def gru_cell_backprop(h, z, c_prev, dh, dc):
    """Differentiate ``gru_cell``: return the derivatives of total, z and c_prev, from those of its outputs h and c."""
    return tanh_slope(h) * (dh + dc - dc * z), dc * (c_prev - h), dc * z


def keep(beta, value):
    """Return ``beta * value``; 0 for ``beta`` 0, even if ``value`` is NaN or infinite."""
    return beta * value if beta != ZERO else ZERO


def away_from_zero(scale, smallest):
    """Return ``scale`` with its absolute value raised to ``smallest`` if it is less; -``smallest`` for NaN."""
    if abs(scale) >= smallest:
        return scale
    return smallest if scale >= ZERO else -smallest


def excess(value, target):
    """Return max(|value| - target, 0) with the sign of ``value``, where 0 has a negative sign."""
    size = abs(value) - target
    size = ZERO if size < ZERO else size
    return size if value > ZERO else -size


NOTHING = np.float64(-np.inf)                   # log(0)
SQUARED_NORM_FLOOR = np.float32(2.0 ** -66)     # floor of a row's mean square over target_rms^2
FLOORED_SCALE = np.float32(2.0 ** 33)           # scale of a row at the floor; exact, so that it can be compared


def row_scale(square, inverse):
    """Return the scale target_rms / rms of a row.

    ``square`` is the row's squared norm, ``inverse`` is 1 / (dim target_rms^2).
    """
    ratio = square * inverse
    if ratio < SQUARED_NORM_FLOOR:
        ratio = SQUARED_NORM_FLOOR
    return ONE / np.float32(math.sqrt(ratio))


def batch_norm_scale(mean, square, epsilon, inverse_target):
    """Return the scale of a column: target_rms / sqrt(square - mean^2 + epsilon).

    ``square`` is the column's mean square, ``inverse_target`` is 1 / target_rms^2.
    """
    variance = inverse_target * square - inverse_target * (mean * mean)
    variance = ZERO if variance < ZERO else variance
    return ONE / np.float32(math.sqrt(variance + inverse_target * epsilon))


def batch_norm_derivative(y, dy, scale, mean_deriv, towards_y):
    """Return the derivative of an element's input, from its output ``y`` and the output's derivative ``dy``.

    ``scale``, ``mean_deriv`` and ``towards_y`` are the column's values in the memo of batch normalization.
    """
    return scale * (dy - mean_deriv) + towards_y * y


def clip(value, limit):
    """Clip ``value`` to the range from -``limit`` to ``limit``; NaN stays NaN."""
    value = limit if value > limit else value
    return -limit if value < -limit else value


def log_add(a, b):
    """Return log(exp(a) + exp(b)) of float64 numbers, which may be -inf."""
    high, low = (a, b) if a > b else (b, a)
    return high if low == NOTHING else high + math.log1p(math.exp(low - high))


# -- statistics of nonlinearities, and self-repair ---------------------------------------------------------------------


# places in ``counters`` (float64): rows seen by value statistics, rows seen by output-derivative statistics, dimensions
# changed by self-repair, and dimensions looked at by self-repair
COUNT, ODERIV_COUNT, NUM_REPAIRED, NUM_PROCESSED = range(4)
REPAIR_PROBABILITY = np.float32(0.5)
DOUBLE_ZERO = np.float64(0)


def repair_direction(deriv_sum, c, block_dim, low, high):
    """Return 1 if unit ``c`` is active too often (above ``high``), -1 if too rarely (at most ``low``), else 0.

    The units are the ``block_dim`` columns of a block; ``deriv_sum[c]`` is averaged over the blocks.
    """
    total, num_blocks = DOUBLE_ZERO, deriv_sum.shape[0] // block_dim
    for b in range(num_blocks):
        total += deriv_sum[b * block_dim + c]
    active = np.float32(total / num_blocks)
    return ONE if active > high else -ONE if active <= low else ZERO
