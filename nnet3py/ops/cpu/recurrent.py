"""LSTM and GRU cells on the CPU: values, derivatives, statistics and self-repair, each in one pass over the rows.

The backward pass of an LSTM works on a tile of cells at a time, in a small work space where every quantity has a fixed
place: so the compiler sees that the quantities do not overlap, and vectorizes, which it does not do for twenty pointers
into matrices. The work space stays in the first-level cache while the rows are computed one after the other.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import stack_vector
from nnet3py.engine.jit import inline, row, span
from nnet3py.ops.cpu.operation import formula, of_loop, operation
from nnet3py.ops.formulas import functions, loops
from nnet3py.ops.formulas.functions import COUNT, NUM_PROCESSED, NUM_REPAIRED, REPAIR_PROBABILITY

lstm_propagate = of_loop(loops.lstm_propagate, __file__, __name__, rows_of="dst", cost=16, whole="params")
gru_propagate = of_loop(loops.gru_propagate, __file__, __name__, rows_of="dst", cost=8)
gru_sum_deriv = of_loop(loops.gru_sum_deriv, __file__, __name__, rows_of="dst", cost=2)
gru_gate_deriv = of_loop(loops.gru_gate_deriv, __file__, __name__, rows_of="dz", cost=2)

dropout_scales = formula(functions.dropout_scales)
lstm_cell, lstm_cell_backprop = formula(functions.lstm_cell), formula(functions.lstm_cell_backprop)
sigmoid_slope, tanh_slope = formula(functions.sigmoid_slope), formula(functions.tanh_slope)

ZERO, ONE = np.float32(0), np.float32(1)
TILE = 64                   # cells
NUM_GATES, NUM_SUMS = 5, 13
# places in the work space, in tiles
PARTS, WEIGHTS, REPAIRS, OUTPUT_DERIVS, INPUT_DERIVS, SUMS, WORK_TILES = 0, 5, 8, 13, 15, 20, 33
WORK_SIZE = WORK_TILES * TILE


@inline
def _copy(dst, src):
    for j in range(dst.shape[0]):
        dst[j] = src[j]


@inline
def _differentiate_tile(work, length, i_scale, f_scale, o_scale):
    """Differentiate ``length`` cells of one row.

    Inputs, derivatives and sums over rows (of derivatives of weights, of values and of slopes) are all in ``work``.
    """
    i_part, f_part, c_part = span(work, 0, TILE), span(work, TILE, TILE), span(work, 2 * TILE, TILE)
    o_part, c_prev = span(work, 3 * TILE, TILE), span(work, 4 * TILE, TILE)
    w_ic, w_fc, w_oc = span(work, 5 * TILE, TILE), span(work, 6 * TILE, TILE), span(work, 7 * TILE, TILE)
    repair_i, repair_f, repair_g = span(work, 8 * TILE, TILE), span(work, 9 * TILE, TILE), span(work, 10 * TILE, TILE)
    repair_o, repair_u = span(work, 11 * TILE, TILE), span(work, 12 * TILE, TILE)
    dc_out, dm = span(work, 13 * TILE, TILE), span(work, 14 * TILE, TILE)
    d_i, d_f, d_c = span(work, 15 * TILE, TILE), span(work, 16 * TILE, TILE), span(work, 17 * TILE, TILE)
    d_o, d_prev = span(work, 18 * TILE, TILE), span(work, 19 * TILE, TILE)
    sum_ic, sum_fc, sum_oc = span(work, 20 * TILE, TILE), span(work, 21 * TILE, TILE), span(work, 22 * TILE, TILE)
    sum_i, sum_f, sum_g = span(work, 23 * TILE, TILE), span(work, 24 * TILE, TILE), span(work, 25 * TILE, TILE)
    sum_o, sum_u = span(work, 26 * TILE, TILE), span(work, 27 * TILE, TILE)
    slope_i, slope_f, slope_g = span(work, 28 * TILE, TILE), span(work, 29 * TILE, TILE), span(work, 30 * TILE, TILE)
    slope_o, slope_u = span(work, 31 * TILE, TILE), span(work, 32 * TILE, TILE)
    for j in range(length):
        c, m, i, f, g, o, u = lstm_cell(i_part[j], f_part[j], c_part[j], o_part[j], c_prev[j],
                                        w_ic[j], w_fc[j], w_oc[j], i_scale, f_scale, o_scale)
        d_i[j], d_f[j], d_c[j], d_o[j], d_prev[j] = lstm_cell_backprop(
            i, f, g, o, u, c_prev[j], w_ic[j], w_fc[j], w_oc[j], i_scale, f_scale, o_scale, dc_out[j], dm[j],
            repair_i[j], repair_f[j], repair_g[j], repair_o[j], repair_u[j])
        sum_ic[j] += c_prev[j] * d_i[j]
        sum_fc[j] += c_prev[j] * d_f[j]
        sum_oc[j] += c * d_o[j]
        sum_i[j] += i
        sum_f[j] += f
        sum_g[j] += g
        sum_o[j] += o
        sum_u[j] += u
        slope_i[j] += sigmoid_slope(i)
        slope_f[j] += sigmoid_slope(f)
        slope_g[j] += tanh_slope(g)
        slope_o[j] += sigmoid_slope(o)
        slope_u[j] += tanh_slope(u)


@operation(columns_of="params", cost="20 * x.shape[0]")
def lstm_backprop(first, last, dx, sums, x, dy, params, repair, want_dx):
    cells = params.shape[1]
    work = stack_vector(WORK_SIZE)
    for start in range(first, last, TILE):
        length = min(TILE, last - start)
        for k in range(3):
            _copy(span(work, (WEIGHTS + k) * TILE, length), span(row(params, k), start, length))
        for k in range(NUM_GATES):
            _copy(span(work, (REPAIRS + k) * TILE, length), span(row(repair, k), start, length))
        span(work, SUMS * TILE, NUM_SUMS * TILE)[:] = ZERO
        for r in range(x.shape[0]):
            s, e = row(x, r), row(dy, r)
            for k in range(NUM_GATES):
                _copy(span(work, (PARTS + k) * TILE, length), span(s, k * cells + start, length))
            for k in range(2):
                _copy(span(work, (OUTPUT_DERIVS + k) * TILE, length), span(e, k * cells + start, length))
            i_scale, f_scale, o_scale = dropout_scales(s, cells)
            _differentiate_tile(work, length, i_scale, f_scale, o_scale)
            if want_dx:
                d = row(dx, r)
                for k in range(NUM_GATES):
                    _copy(span(d, k * cells + start, length), span(work, (INPUT_DERIVS + k) * TILE, length))
        for k in range(NUM_SUMS):
            _copy(span(row(sums, k), start, length), span(work, (SUMS + k) * TILE, length))


@operation()
def lstm_self_repair(repair, flagged, deriv_sum, count, config):
    divisor = np.float32(ONE + np.float32(count[0]))
    for k in range(NUM_GATES):
        r, total = row(repair, k), row(deriv_sum, k)
        threshold, scale = config[k], config[NUM_GATES + k]
        num_flagged = 0
        for j in range(r.shape[0]):
            low = np.float32(total[j]) / divisor < threshold
            r[j] = scale if low else ZERO
            num_flagged += low
        flagged[k] = num_flagged


@operation()
def lstm_store_stats(value_sum, deriv_sum, self_repair_total, count, sums, flagged, num_rows):
    for k in range(NUM_GATES):
        values, slopes = row(sums, 3 + k), row(sums, 3 + NUM_GATES + k)
        total, total_slope = row(value_sum, k), row(deriv_sum, k)
        for j in range(total.shape[0]):
            total[j] += values[j]
            total_slope[j] += slopes[j]
        self_repair_total[k] += num_rows * np.float64(flagged[k])
    count[0] += num_rows


# -- GRU ---------------------------------------------------------------------------------------------------------------


@operation()
def gru_repair(repair, value_sum, deriv_sum, counters, h, threshold, draw):
    for j in range(repair.shape[0]):
        repair[j] = ZERO
    if draw > REPAIR_PROBABILITY:
        return
    counters[COUNT] += h.shape[0]
    for i in range(h.shape[0]):
        v = row(h, i)
        for j in range(v.shape[0]):
            value_sum[j] += v[j]
            deriv_sum[j] += tanh_slope(v[j])
    limit, num_repaired = threshold * np.float32(counters[COUNT]), 0
    for j in range(repair.shape[0]):
        if counters[COUNT] != 0.0 and limit > np.float32(deriv_sum[j]):
            repair[j] = ONE / REPAIR_PROBABILITY
            num_repaired += 1
    counters[NUM_PROCESSED] += repair.shape[0]
    counters[NUM_REPAIRED] += num_repaired
