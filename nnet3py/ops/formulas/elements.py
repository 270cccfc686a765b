"""The formulas of the elementwise operations, from which the kernels of both devices are made.

A formula has the name and the arguments of its operation. It is called for each element, with numbers: for a matrix the
element itself, for a ``Vec`` the value of its column, for a ``RowVec`` the value of its row. The result replaces the
element of the first argument, whose old value the formula gets.

Where a ``beta`` is 0 the old content of the destination has no effect, not even NaN.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.formulas.functions import (
    ONE,
    TWO,
    ZERO,
    away_from_zero,
    keep,
    sigmoid_slope,
    tanh_slope,
)
from nnet3py.ops.formulas.functions import sigmoid as sigmoid_of
from nnet3py.ops.formulas.functions import tanh as tanh_of

COSTS = {"sigmoid": 8, "tanh": 8}       # work of an element in additions, where it is more than one
FOUR = np.float32(4)

# -- matrices ----------------------------------------------------------------------------------------------------------


def set_const(dst, value):
    return value


def copy_mat(dst, src, alpha):
    return alpha * src


def add_mat(dst, src, alpha):
    return dst + alpha * src


def sum_mats(dst, a, b, alpha, beta):
    return alpha * a + beta * b


def mul_elements(dst, a, b):
    return a * b


def add_mat_elements(dst, a, b, alpha, beta):
    return alpha * a * b + keep(beta, dst)


# -- matrices with vectors ---------------------------------------------------------------------------------------------


def add_vec_to_rows(dst, vec, alpha, beta):
    return alpha * vec + keep(beta, dst)


def mul_cols_vec(dst, src, vec):
    return src * vec


def mul_rows_vec(dst, src, vec):
    return src * vec


def add_mat_diag_vec(dst, src, vec, alpha, beta):
    return alpha * src * vec + keep(beta, dst)


def add_diag_vec_mat(dst, vec, src, alpha, beta):
    return alpha * vec * src + keep(beta, dst)


def scale_and_offset(dst, src, scales, offsets, smallest):
    return src * away_from_zero(scales, smallest) + offsets


def scale_gradient_from_output(dst, y, dy, scales, offsets, smallest):
    return (y - offsets) * (ONE / away_from_zero(scales, smallest)) * dy


# -- nonlinearities ----------------------------------------------------------------------------------------------------


def sigmoid(dst, src):
    return sigmoid_of(src)


def tanh(dst, src):
    return tanh_of(src)


def relu(dst, src):
    return ZERO if src < ZERO else src


def sigmoid_backprop(dx, y, dy, repair):
    return dy * sigmoid_slope(y) - repair * (TWO * y - ONE)


def tanh_backprop(dx, y, dy, repair):
    return dy * tanh_slope(y) - repair * y


def relu_backprop(dx, y, dy, repair):
    return (dy if y > ZERO else ZERO) - repair


# -- dropout -----------------------------------------------------------------------------------------------------------


def dropout_elements(dst, src, draws, proportion):
    return src if draws > proportion else ZERO


def dropout_backprop(dx, x, y, dy):
    return dy * (y / x) if x != ZERO else dy


def binary_mask(mask, proportion, kept):
    return kept if mask > proportion else ZERO


def continuous_mask(mask, proportion):
    return FOUR * proportion * mask + (ONE - TWO * proportion)
