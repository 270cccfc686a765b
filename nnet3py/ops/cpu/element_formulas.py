"""The element formulas compiled for the CPU: always inlined, so that LLVM vectorises the loops around them."""
from __future__ import annotations

from nnet3py.engine.numba_target import numba
from nnet3py.ops import formulas

# fastmath is refused by name: a kernel that allows reassociation would hand it on, and exp rounds by a sum's order.
formula = numba.njit(error_model="numpy", forceinline=True, fastmath=False)

exp = formula(formulas.exp)
_bound = formulas.bind(formula, exp)
sigmoid, sigmoid_slope = _bound.sigmoid, _bound.sigmoid_slope
tanh, tanh_slope = _bound.tanh, _bound.tanh_slope
lstm_cell, lstm_cell_backprop = _bound.lstm_cell, _bound.lstm_cell_backprop
gru_cell, gru_cell_backprop = _bound.gru_cell, _bound.gru_cell_backprop
