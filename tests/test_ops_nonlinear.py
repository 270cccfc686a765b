"""The nonlinear and recurrent operations against the reference."""
from __future__ import annotations

import math

import numpy as np
import pytest
from ops_cases import SIZES, check, matrix, vector

from nnet3py.ops import get_ops

ops = get_ops("cpu")
LSTM_SIZES = [(0, 3), (1, 1), (5, 7), (9, 64), (4, 130)]     # cells below, at and above the tile of 64
EXP_ERROR = 1e-7          # relative, of the exponential function
LSTM_ERROR = 1e-5         # a dozen roundings, and slopes that are differences of nearly equal numbers


def statistics(rng, dim, count=3.0):
    """Sums and counters as after ``count`` rows."""
    return rng.random(dim), rng.random(dim), np.array([count, 2 * count, 1.0, 5.0])


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["sigmoid", "tanh", "relu", "softmax", "log_softmax"])
def test_values(rng, name, size, strided):
    if size[1] == 0:
        return
    check(ops, name, matrix(rng, *size, strided), 10 * matrix(rng, *size, strided), scale=10)


def test_exponential_is_accurate_over_its_whole_range():
    x = np.linspace(-87, 88, 20001, dtype=np.float32)[None]
    y = np.empty_like(x)
    ops.sigmoid(y, -x)              # 1 / (1 + exp(x))
    expected = 1 / (1 + np.exp(x.astype(np.float64)))
    assert np.abs(y / expected - 1).max() < 3 * EXP_ERROR


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "relu"])
def test_values_at_the_ends(name):
    x = np.array([[-np.inf, -1e30, -1e-30, 0.0, 1e-30, 1e30, np.inf, np.nan]], np.float32)
    y = np.empty_like(x)
    getattr(ops, name)(y, x)
    ends = {"sigmoid": [0, 0, 0.5, 0.5, 0.5, 1, 1], "tanh": [-1, -1, 0, 0, 0, 1, 1],
            "relu": [0, 0, 0, 0, 1e-30, 1e30, np.inf]}
    np.testing.assert_allclose(y[0, :-1], ends[name], atol=1e-37)
    assert math.isnan(y[0, -1])


def test_softmax_has_a_floor_and_bears_large_inputs():
    x = np.array([[1000.0, 0.0, 1000.0]], np.float32)
    y = np.empty_like(x)
    ops.softmax(y, x)
    np.testing.assert_allclose(y, [[0.5, 1e-20, 0.5]], rtol=1e-6)
    ops.log_softmax(y, x)
    np.testing.assert_allclose(y, [[-math.log(2), -1000 - math.log(2), -math.log(2)]], rtol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_derivatives(rng, size):
    dx, y, dy = (matrix(rng, *size) for _ in range(3))
    for name in ("sigmoid_backprop", "tanh_backprop", "relu_backprop"):
        check(ops, name, dx, y, dy, vector(rng, size[1]), scale=10)
    for name in ("softmax_backprop", "log_softmax_backprop"):
        check(ops, name, dx, y, dy, scale=10 * max(size))


def test_softmax_backprop_in_place(rng):
    y, dy = matrix(rng, 3, 7), matrix(rng, 3, 7)
    apart, together = np.empty_like(dy), dy.copy()
    ops.softmax_backprop(apart, y, dy)
    ops.softmax_backprop(together, y, together)
    np.testing.assert_array_equal(apart, together)


@pytest.mark.parametrize("draw", [0, 1, 3])
@pytest.mark.parametrize("count", [0.0, 3.0])
@pytest.mark.parametrize("size", SIZES)
def test_statistics(rng, size, count, draw):
    values, slopes, counters = statistics(rng, size[1], count)
    for name in ("sigmoid_stats", "tanh_stats", "relu_stats"):
        check(ops, name, values, slopes, counters, matrix(rng, *size), draw, scale=max(size))
    check(ops, "value_stats", values, counters, matrix(rng, *size), scale=max(size))
    check(ops, "output_deriv_stats", slopes, counters, matrix(rng, *size), draw, scale=max(size))
    stored = count == 0 or draw != 0
    assert counters[1] == 2 * count + stored * size[0]
    check(ops, "output_deriv_stats_of_parts", slopes, counters, np.abs(matrix(rng, 3, size[1])), 130, draw, scale=9)


@pytest.mark.parametrize("draw", [0.4, 0.5, 0.6])
@pytest.mark.parametrize("count", [0.0, 3.0])
def test_repair_of_low_slopes(rng, count, draw):
    _, slopes, counters = statistics(rng, 9, count)
    check(ops, "low_slope_repair", vector(rng, 9), np.zeros(4), slopes, counters, 0.2, 0.01, draw)
    repair, updated = vector(rng, 9), np.zeros(4)
    ops.low_slope_repair(repair, updated, slopes, counters, 0.2, 0.01, draw)
    low = (slopes < 0.6) if count and draw <= 0.5 else np.zeros(9, bool)
    np.testing.assert_allclose(repair, 0.02 * low)
    np.testing.assert_array_equal(updated, [0, 0, low.sum(), 9])
    ops.low_slope_repair(repair, updated, slopes, counters, 0.2, 0.0, 0.0)
    assert not repair.any() and updated[3] == 18


@pytest.mark.parametrize("draw", [0.4, 0.6])
@pytest.mark.parametrize("rows", [0, 1, 30])
def test_repair_of_gru_cells(rng, rows, draw):
    values, slopes, counters = statistics(rng, 9, 3.0)
    h = np.tanh(3 * matrix(rng, rows, 9))
    check(ops, "gru_repair", vector(rng, 9), values, slopes, counters, h, 0.4, draw, scale=rows + 1)
    check(ops, "gru_repair", vector(rng, 9), values, slopes, np.zeros(4), h[:0], 0.4, draw)


@pytest.mark.parametrize("draw", [0.4, 0.6])
@pytest.mark.parametrize("block_dim", [12, 4, 1])
def test_repair_of_rectifiers(rng, block_dim, draw):
    _, slopes, counters = statistics(rng, 12, 10.0)
    slopes *= 10
    check(ops, "relu_repair", vector(rng, 12), np.zeros(4), slopes, counters, block_dim, 0.3, 0.7, 0.01, draw)
    check(ops, "relu_repair", vector(rng, 12), np.zeros(4), slopes, np.zeros(4), block_dim, 0.3, 0.7, 0.01, draw)


def lstm_arguments(rng, rows, cells, masks):
    x = matrix(rng, rows, 5 * cells + (3 if masks else 0))
    return x, matrix(rng, rows, 2 * cells), matrix(rng, 3, cells), np.abs(matrix(rng, 5, cells))


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("size", LSTM_SIZES)
def test_lstm(rng, size, masks):
    rows, cells = size
    x, dy, params, repair = lstm_arguments(rng, rows, cells, masks)
    check(ops, "lstm_propagate", matrix(rng, rows, 2 * cells), x, params, tolerance=LSTM_ERROR)
    # the mask columns of dx are compared too: they must stay as they were
    dx, sums = matrix(rng, *x.shape), matrix(rng, 13, cells)
    for want_dx in (True, False):
        check_lstm_backprop(dx, sums, x, dy, params, repair, want_dx, tolerance=LSTM_ERROR * (1 + rows))


def check_lstm_backprop(dx, sums, x, dy, params, repair, want_dx, tolerance):
    import reference
    wide = [a.astype(np.float64) for a in (dx, sums, x, dy, params, repair)]
    reference.lstm_backprop(*wide, want_dx)
    ops.lstm_backprop(dx, sums, x, dy, params, repair, want_dx)
    np.testing.assert_allclose(dx, wide[0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(sums, wide[1], rtol=tolerance, atol=tolerance)


def test_lstm_statistics(rng):
    cells, rows = 7, 11
    sums, config = matrix(rng, 13, cells), vector(rng, 10)
    deriv_sum, count = rng.random((5, cells)), np.array([2.0])
    config[:5] = 0.15
    flagged = vector(rng, 5)
    check(ops, "lstm_self_repair", matrix(rng, 5, cells), flagged, deriv_sum, count, config)
    assert 0 < flagged.sum() < 5 * cells
    check(ops, "lstm_store_stats", rng.random((5, cells)), deriv_sum, rng.random(5), count, sums, flagged, rows)
    assert count[0] == 13


@pytest.mark.parametrize("size", LSTM_SIZES)
def test_gru(rng, size):
    rows, cells = size
    z, c_prev = matrix(rng, rows, cells), matrix(rng, rows, cells)
    y, dy = matrix(rng, rows, 2 * cells), matrix(rng, rows, 2 * cells)
    check(ops, "gru_propagate", y, z, c_prev, tolerance=LSTM_ERROR)
    check(ops, "gru_sum_deriv", matrix(rng, rows, cells), z, y, dy, scale=10)
    check(ops, "gru_gate_deriv", matrix(rng, rows, cells), matrix(rng, rows, cells), z, c_prev, y, dy, scale=10)
