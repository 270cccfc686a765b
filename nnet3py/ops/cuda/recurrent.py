"""LSTM and GRU cells on the GPU: values, derivatives, statistics and self-repair.

The operations are those of ``ops/cpu/recurrent.py``. A backward pass is one launch: a block computes a few cells in all
rows, and adds the sums over rows on the way.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.arrays import DeviceArray, F32Cell
from nnet3py.ops.cuda.launch import Shape, kernel, launch_2d, operation
from nnet3py.ops.cuda.reductions import column_sums, total
from nnet3py.ops.cuda.threads import (
    MOST_THREADS,
    block_column,
    block_rows,
    column_blocks,
    cuda,
    device_function,
    formula,
    is_first_of_block,
    launch_block,
    launch_columns,
    launch_teams,
    of_loop,
    own_columns,
    own_rows,
    places_in_block,
    row,
    row_blocks,
    sum_along_team,
    sum_down_column,
    sum_over_block,
    team_columns,
    team_row,
)
from nnet3py.ops.formulas import functions, loops
from nnet3py.ops.formulas.functions import COUNT, NUM_PROCESSED, NUM_REPAIRED, REPAIR_PROBABILITY
from nnet3py.ops.table import documented

dropout_scales = formula(functions.dropout_scales)
lstm_cell, lstm_cell_backprop = formula(functions.lstm_cell), formula(functions.lstm_cell_backprop)
sigmoid_slope, tanh_slope = formula(functions.sigmoid_slope), formula(functions.tanh_slope)

ZERO, ONE = np.float32(0), np.float32(1)
NUM_GATES = 5


def launch_cells(rows: int, cols: int) -> Shape:
    """Return grid and block over the cells of a matrix that has two columns for each cell."""
    return launch_2d(rows, cols // 2)


lstm_propagate, gru_propagate = (of_loop(loop, __file__, __name__, shape=launch_cells) for loop in (
    loops.lstm_propagate, loops.gru_propagate))
gru_sum_deriv, gru_gate_deriv = (of_loop(loop, __file__, __name__) for loop in (
    loops.gru_sum_deriv, loops.gru_gate_deriv))


@operation(over=1, shape=launch_columns)
def lstm_backprop(dx, sums, x, dy, params, repair, want_dx):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    cells = params.shape[1]
    for first in column_blocks(cells):
        j, mine = block_column(first, cells)
        inside = first + cuda.threadIdx.x < cells
        w_ic, w_fc, w_oc = params[0, j], params[1, j], params[2, j]
        repair_i, repair_f, repair_g = repair[0, j], repair[1, j], repair[2, j]
        repair_o, repair_u = repair[3, j], repair[4, j]
        sum_ic, sum_fc, sum_oc = ZERO, ZERO, ZERO
        sum_i, sum_f, sum_g, sum_o, sum_u = ZERO, ZERO, ZERO, ZERO, ZERO
        slope_i, slope_f, slope_g, slope_o, slope_u = ZERO, ZERO, ZERO, ZERO, ZERO
        for r in block_rows(x.shape[0]):
            s, e = row(x, r), row(dy, r)
            i_scale, f_scale, o_scale = dropout_scales(s, cells)
            c_prev = s[4 * cells + j]
            c, m, i, f, g, o, u = lstm_cell(s[j], s[cells + j], s[2 * cells + j], s[3 * cells + j], c_prev,
                                            w_ic, w_fc, w_oc, i_scale, f_scale, o_scale)
            d_i, d_f, d_c, d_o, d_prev = lstm_cell_backprop(
                i, f, g, o, u, c_prev, w_ic, w_fc, w_oc, i_scale, f_scale, o_scale, e[j], e[cells + j],
                repair_i, repair_f, repair_g, repair_o, repair_u)
            if want_dx and inside:
                d = row(dx, r)
                d[j], d[cells + j], d[2 * cells + j] = d_i, d_f, d_c
                d[3 * cells + j], d[4 * cells + j] = d_o, d_prev
            sum_ic += c_prev * d_i
            sum_fc += c_prev * d_f
            sum_oc += c * d_o
            sum_i += i
            sum_f += f
            sum_g += g
            sum_o += o
            sum_u += u
            slope_i += sigmoid_slope(i)
            slope_f += sigmoid_slope(f)
            slope_g += tanh_slope(g)
            slope_o += sigmoid_slope(o)
            slope_u += tanh_slope(u)
        _put_sum(shared, sums, 0, j, mine, sum_ic)
        _put_sum(shared, sums, 1, j, mine, sum_fc)
        _put_sum(shared, sums, 2, j, mine, sum_oc)
        _put_sum(shared, sums, 3, j, mine, sum_i)
        _put_sum(shared, sums, 4, j, mine, sum_f)
        _put_sum(shared, sums, 5, j, mine, sum_g)
        _put_sum(shared, sums, 6, j, mine, sum_o)
        _put_sum(shared, sums, 7, j, mine, sum_u)
        _put_sum(shared, sums, 8, j, mine, slope_i)
        _put_sum(shared, sums, 9, j, mine, slope_f)
        _put_sum(shared, sums, 10, j, mine, slope_g)
        _put_sum(shared, sums, 11, j, mine, slope_o)
        _put_sum(shared, sums, 12, j, mine, slope_u)


@device_function
def _put_sum(shared, sums, place, j, mine, part):
    total = sum_down_column(shared, part)
    if mine:
        sums[place, j] = total


@operation(shape=launch_teams)
def lstm_self_repair(repair, flagged, deriv_sum, count, config):
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    divisor = ONE + np.float32(count[0])
    for first in row_blocks(NUM_GATES):
        k, mine = team_row(first, NUM_GATES)
        r, total, part = row(repair, k), row(deriv_sum, k), ZERO
        threshold, scale = config[k], config[NUM_GATES + k]
        for j in team_columns(r.shape[0]):
            low = np.float32(total[j]) / divisor < threshold
            part += ONE if low else ZERO
            if mine:
                r[j] = scale if low else ZERO
        num_flagged = sum_along_team(shared, part)
        if mine and cuda.threadIdx.x == 0:
            flagged[k] = num_flagged


@operation()
def lstm_store_stats(value_sum, deriv_sum, self_repair_total, count, sums, flagged, num_rows):
    for k in own_rows(NUM_GATES):
        values, slopes = row(sums, 3 + k), row(sums, 3 + NUM_GATES + k)
        total, total_slope = row(value_sum, k), row(deriv_sum, k)
        for j in own_columns(total.shape[0]):
            total[j] += values[j]
            total_slope[j] += slopes[j]
            if j == 0:
                self_repair_total[k] += num_rows * np.float64(flagged[k])
                if k == 0:
                    count[0] += num_rows


# -- GRU ---------------------------------------------------------------------------------------------------------------


@column_sums("mat", terms=2, double=True)
def _gru_sums(h):
    return h, tanh_slope(h)


@kernel("vec dvec dvec dvec dmat int f32 f32cell", shape=launch_block)
def _gru_repair(repair, value_sum, deriv_sum, counters, parts, num_rows, threshold, draw):
    """Add the sums of :func:`_gru_sums` and set ``repair``, in a single block, as ``gru_repair`` describes."""
    shared = cuda.shared.array(MOST_THREADS, np.float32)
    stored, half, part = draw[0] <= REPAIR_PROBABILITY, parts.shape[0] // 2, ZERO
    count = counters[COUNT] + num_rows
    limit = threshold * np.float32(count)
    for j in places_in_block(repair.shape[0]):
        low = False
        if stored:
            value_sum[j] += total(parts, 0, half, j)
            slopes = deriv_sum[j] + total(parts, half, 2 * half, j)
            deriv_sum[j] = slopes
            low = count != 0.0 and limit > np.float32(slopes)
        repair[j] = ONE / REPAIR_PROBABILITY if low else ZERO
        part += ONE if low else ZERO
    num_repaired = sum_over_block(shared, part)
    if stored and is_first_of_block():
        counters[COUNT] = count
        counters[NUM_PROCESSED] += repair.shape[0]
        counters[NUM_REPAIRED] += num_repaired


@documented
def gru_repair(repair: DeviceArray, value_sum: DeviceArray, deriv_sum: DeviceArray, counters: DeviceArray,
               h: DeviceArray, threshold: float, draw: F32Cell) -> None:
    _gru_repair(repair, value_sum, deriv_sum, counters, _gru_sums.of(h), h.shape[0], threshold, draw)
