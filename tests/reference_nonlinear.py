"""Slow, obvious numpy twins of the nonlinear and recurrent operations."""
from __future__ import annotations

import numpy as np

COUNT, ODERIV_COUNT, NUM_REPAIRED, NUM_PROCESSED = range(4)


def logistic(x):
    return 1 / (1 + np.exp(-x))


def sigmoid(dst, src):
    dst[...] = logistic(src)


def tanh(dst, src):
    dst[...] = np.tanh(src)


def relu(dst, src):
    dst[...] = np.maximum(src, 0)


def log_sum(src):
    largest = src.max(axis=1, keepdims=True)
    return largest + np.log(np.exp(src - largest).sum(axis=1, keepdims=True))


def softmax(dst, src):
    if src.size:
        dst[...] = np.maximum(np.exp(src - log_sum(src)), 1e-20)


def log_softmax(dst, src):
    if src.size:
        dst[...] = src - log_sum(src)


def sigmoid_backprop(dx, y, dy, repair):
    dx[...] = dy * y * (1 - y) - (2 * y - 1) * repair


def tanh_backprop(dx, y, dy, repair):
    dx[...] = dy * (1 - y * y) - y * repair


def relu_backprop(dx, y, dy, repair):
    dx[...] = dy * (y > 0) - repair


def softmax_backprop(dx, y, dy):
    dx[...] = y * (dy - (y * dy).sum(axis=1, keepdims=True))


def log_softmax_backprop(dx, y, dy):
    dx[...] = dy - np.exp(y) * dy.sum(axis=1, keepdims=True)


def _value_and_slope(value_sum, deriv_sum, counters, y, slope, draw):
    if draw == 0 and counters[COUNT] != 0:
        return
    counters[COUNT] += len(y)
    value_sum += y.sum(axis=0)
    deriv_sum += slope.sum(axis=0)


def sigmoid_stats(value_sum, deriv_sum, counters, y, draw):
    _value_and_slope(value_sum, deriv_sum, counters, y, y * (1 - y), draw)


def tanh_stats(value_sum, deriv_sum, counters, y, draw):
    _value_and_slope(value_sum, deriv_sum, counters, y, 1 - y * y, draw)


def relu_stats(value_sum, deriv_sum, counters, y, draw):
    _value_and_slope(value_sum, deriv_sum, counters, y, y > 0, draw)


def value_stats(value_sum, counters, y):
    counters[COUNT] += len(y)
    value_sum += y.sum(axis=0)


def output_deriv_stats(oderiv_sumsq, counters, dy, draw):
    if draw == 0 and counters[ODERIV_COUNT] != 0:
        return
    counters[ODERIV_COUNT] += len(dy)
    oderiv_sumsq += (dy * dy).sum(axis=0)


def output_deriv_stats_of_parts(oderiv_sumsq, counters, squares, num_rows, draw):
    if draw == 0 and counters[ODERIV_COUNT] != 0:
        return
    counters[ODERIV_COUNT] += num_rows
    oderiv_sumsq += squares.sum(axis=0)


def low_slope_repair(repair, updated_counters, deriv_sum, counters, threshold, scale, draw):
    count = counters[COUNT]
    low = deriv_sum < threshold * count
    if scale == 0 or count == 0 or draw > 0.5:
        low[:] = False
    repair[...] = low * scale / 0.5
    updated_counters[NUM_REPAIRED] += low.sum()
    updated_counters[NUM_PROCESSED] += len(repair)


def relu_repair(repair, updated_counters, deriv_sum, counters, block_dim, lower, upper, scale, draw):
    count = counters[COUNT]
    repair[...] = 0
    if count == 0 or draw > 0.5:
        return
    activity = deriv_sum.reshape(-1, block_dim).mean(axis=0)
    direction = 1.0 * (activity > lower * count) + 1.0 * (activity > upper * count) - 1
    repair[...] = np.tile(direction * scale / 0.5, len(repair) // block_dim)
    updated_counters[NUM_REPAIRED] += (direction ** 2).sum()
    updated_counters[NUM_PROCESSED] += block_dim


def _lstm(src, params):
    """Parts, masks (rows, 1), and the nonlinearities' values i, f, g, o, u, with the cell c."""
    cells = params.shape[1]
    i_part, f_part, c_part, o_part, c_prev = (src[:, k * cells:(k + 1) * cells] for k in range(5))
    masks = [src[:, 5 * cells + k, None] if src.shape[1] > 5 * cells else 1.0 for k in range(3)]
    w_ic, w_fc, w_oc = params
    i, f, g = logistic(i_part + w_ic * c_prev), logistic(f_part + w_fc * c_prev), np.tanh(c_part)
    c = f * masks[1] * c_prev + i * masks[0] * g
    o, u = logistic(o_part + w_oc * c), np.tanh(c)
    return c_prev, masks, (i, f, g, o, u), c


def lstm_propagate(dst, src, params):
    cells = params.shape[1]
    _, masks, (_, _, _, o, u), c = _lstm(src, params)
    dst[:, :cells], dst[:, cells:] = c, o * masks[2] * u


def lstm_backprop(dx, sums, x, dy, params, repair, want_dx):
    cells = params.shape[1]
    w_ic, w_fc, w_oc = params
    c_prev, (a_i, a_f, a_o), gates, c = _lstm(x, params)
    i, f, g, o, u = gates
    dc_out, dm = dy[:, :cells], dy[:, cells:]
    do_in = o * (1 - o) * (a_o * u * dm) - (2 * o - 1) * repair[3]
    dc = (1 - u * u) * o * a_o * dm + dc_out + do_in * w_oc - u * repair[4]
    df_in = f * (1 - f) * (dc * a_f * c_prev) - (2 * f - 1) * repair[1]
    di_in = i * (1 - i) * (dc * a_i * g) - (2 * i - 1) * repair[0]
    dc_part = (1 - g * g) * (i * a_i * dc) - g * repair[2]
    dc_prev = w_ic * di_in + w_fc * df_in + f * a_f * dc
    if want_dx:
        dx[:, :5 * cells] = np.concatenate([di_in, df_in, dc_part, do_in, dc_prev], axis=1)
    sums[:3] = (c_prev * di_in).sum(axis=0), (c_prev * df_in).sum(axis=0), (c * do_in).sum(axis=0)
    sums[3:8] = [gate.sum(axis=0) for gate in gates]
    sums[8:] = [slope.sum(axis=0) for slope in (i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o), 1 - u * u)]


def lstm_self_repair(repair, flagged, deriv_sum, count, config):
    low = deriv_sum / (1 + count[0]) < config[:5, None]
    repair[...] = low * config[5:, None]
    flagged[...] = low.sum(axis=1)


def lstm_store_stats(value_sum, deriv_sum, self_repair_total, count, sums, flagged, num_rows):
    value_sum += sums[3:8]
    deriv_sum += sums[8:]
    self_repair_total += num_rows * flagged
    count += num_rows


def gru_propagate(dst, z, c_prev):
    cells = z.shape[1]
    h = np.tanh(dst[:, :cells])
    dst[:, :cells], dst[:, cells:] = h, (1 - z) * h + z * c_prev


def gru_sum_deriv(dst, z, y, dy):
    cells = z.shape[1]
    dst[...] = (1 - y[:, :cells] ** 2) * (dy[:, :cells] + (1 - z) * dy[:, cells:])


def gru_gate_deriv(dz, dc_prev, z, c_prev, y, dy):
    cells = z.shape[1]
    dz += dy[:, cells:] * (c_prev - y[:, :cells])
    dc_prev += dy[:, cells:] * z


def gru_repair(repair, value_sum, deriv_sum, counters, h, threshold, draw):
    repair[...] = 0
    if draw <= 0.5:
        tanh_stats(value_sum, deriv_sum, counters, h, 1)
        low_slope_repair(repair, counters, deriv_sum, counters, threshold, 1.0, draw)
