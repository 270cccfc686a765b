"""The element formulas compiled for the GPU, where they are inlined, too."""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops import formulas
from nnet3py.ops.cuda.threads import device_function

_HIGHEST = np.float32(88.0)      # beyond it 1 / (1 + exp(x)) is 0 in any case, and in the simulator math.exp raises


@device_function
def exp(x):
    """e**x, by the GPU's own means; stays at its value at 88 beyond that; NaN stays NaN."""
    return math.exp(_HIGHEST if x > _HIGHEST else x)


_bound = formulas.bind(device_function, exp)
sigmoid, sigmoid_slope = _bound.sigmoid, _bound.sigmoid_slope
tanh, tanh_slope = _bound.tanh, _bound.tanh_slope
lstm_cell, lstm_cell_backprop = _bound.lstm_cell, _bound.lstm_cell_backprop
gru_cell, gru_cell_backprop = _bound.gru_cell, _bound.gru_cell_backprop
keep, away_from_zero, excess, row_scale = (device_function(f) for f in (
    formulas.keep, formulas.away_from_zero, formulas.excess, formulas.row_scale))
