"""Loops that make the kernels of both devices, where both need the same order; and the formulas of pooling.

Each device replaces :func:`own_rows`, :func:`own_columns`, :func:`row` and :func:`span` by functions of its own. On a
GPU a thread has some of the rows and columns only; columns are unsigned, hence ``np.int64`` before computing with one.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.formulas.functions import dropout_scales, gru_cell, gru_cell_backprop, lstm_cell

ZERO, HALF, TWO = np.float32(0), np.float32(0.5), np.float32(2)


def own_rows(count):
    """Return the rows to compute, of ``count``."""
    return range(count)


def own_columns(count):
    """Return the columns to compute, of ``count``."""
    return range(count)


def row(matrix, index):
    """Return a row of a matrix as a vector."""
    return matrix[index]


def span(vector, offset, length):
    """Return the ``length`` elements of ``vector`` from ``offset`` on."""
    return vector[offset:offset + length]


# -- columns -----------------------------------------------------------------------------------------------------------


def copy_cols(dst, src, indexes):
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            c = indexes[j]
            d[j] = s[c] if c >= 0 else ZERO


def sum_column_groups(dst, src, groups):
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            total = ZERO
            for k in range(groups[j, 0], groups[j, 1]):
                total += s[k]
            d[j] = total


def copy_to_column_groups(dst, src, groups):
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(s.shape[0]):
            for k in range(groups[j, 0], groups[j, 1]):
                d[k] = s[j]


def copy_row_pieces(dst, src, places):
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), span(row(src, places[i, 0]), places[i, 1], dst.shape[1])
        for j in own_columns(d.shape[0]):
            d[j] = s[j]


def copy_to_row_pieces(dst, src, places):
    for i in own_rows(src.shape[0]):
        d, s = span(row(dst, places[i, 0]), places[i, 1], src.shape[1]), row(src, i)
        for j in own_columns(s.shape[0]):
            d[j] = s[j]


# -- pooling -----------------------------------------------------------------------------------------------------------

# A row is a tensor whose elements have coordinates (x, y, z), z varying fastest. ``shape`` (12,) has four triples, each
# along x, y and z: the sizes of the tensor, the sizes of a box, the steps from box to box, the numbers of boxes.

LOWEST = np.float32(-1e20)      # a maximum is never below this, as in Kaldi


def norm(group):
    """Return the 2-norm of a vector."""
    total = ZERO
    for k in range(group.shape[0]):
        total += group[k] * group[k]
    return math.sqrt(total)


def norm_derivative(x, y, dy):
    """Return the derivative of an element ``x`` of a group, from the group's norm ``y`` and its derivative ``dy``."""
    return x / y * dy if y != ZERO else ZERO


def box_start(p, shape):
    """Return the index in a row of the first element of box ``p``."""
    i, j, k = p // (shape[10] * shape[11]), p // shape[11] % shape[10], p % shape[11]
    return i * shape[6] * (shape[1] * shape[2]) + j * shape[7] * shape[2] + k * shape[8]


def largest_of_box(row, p, shape):
    """Return the largest element of box ``p`` of a row."""
    plane, line, start, largest = shape[1] * shape[2], shape[2], box_start(p, shape), LOWEST
    for x in range(shape[3]):
        for y in range(shape[4]):
            first = start + x * plane + y * line
            for c in range(first, first + shape[5]):
                largest = row[c] if row[c] > largest else largest
    return largest


# -- derivatives of sums of frames and of their squares, of means and standard deviations ------------------------------


def rounded_product(a, b):
    """Return ``a * b``, rounded before it is added to anything: a GPU's fused multiply-add would not round it."""
    return a * b


def extraction_derivative(x, of_sum, of_square):
    """Return the derivative of ``x``, from the derivatives of a sum over x and of a sum over x^2."""
    return of_sum + rounded_product(TWO * x, of_square)


# For a tiny standard deviation the next two derivatives are huge, and their contributions to a frame nearly cancel: the
# result then depends on the rounding of each, so the order of these operations is Kaldi's.


def mean_square_derivative(stddev, dy):
    """Return the derivative of a mean of squares, from ``dy``, that of sqrt(mean of squares - mean^2) = ``stddev``."""
    return HALF * dy / stddev


def mean_derivative(mean, dy, of_square):
    """Return the derivative of a mean that is also used in a standard deviation.

    ``dy`` is the derivative of the output mean, ``of_square`` that of the mean of squares.
    """
    return dy - rounded_product(TWO * mean, of_square)


def pnorm(dst, src):
    size = src.shape[1] // dst.shape[1]
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            d[j] = norm(span(s, np.int64(j) * size, size))


def pnorm_backprop(dx, x, y, dy):
    size = x.shape[1] // y.shape[1]
    for i in own_rows(dx.shape[0]):
        d, s, norms, e = row(dx, i), row(x, i), row(y, i), row(dy, i)
        for j in own_columns(norms.shape[0]):
            first = np.int64(j) * size
            for k in range(first, first + size):
                d[k] = norm_derivative(s[k], norms[j], e[j])


def max_pool(dst, src, shape):
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for p in own_columns(d.shape[0]):
            d[p] = largest_of_box(s, np.int64(p), shape)


def extract_statistics_backprop(dx, x, dy, rows):
    dim = dx.shape[1]
    for i in own_rows(dx.shape[0]):
        d, s, e = row(dx, i), row(x, i), row(dy, rows[i])
        for place in own_columns(dim):
            j = np.int64(place)
            d[j] = extraction_derivative(s[j], e[1 + j], e[1 + dim + j])


# -- LSTM and GRU cells ------------------------------------------------------------------------------------------------


def lstm_propagate(dst, src, params):
    cells = params.shape[1]
    w_ic, w_fc, w_oc = row(params, 0), row(params, 1), row(params, 2)
    for r in own_rows(dst.shape[0]):
        s, d = row(src, r), row(dst, r)
        i_scale, f_scale, o_scale = dropout_scales(s, cells)
        i_part, f_part, c_part = span(s, 0, cells), span(s, cells, cells), span(s, 2 * cells, cells)
        o_part, c_prev = span(s, 3 * cells, cells), span(s, 4 * cells, cells)
        c_out, m_out = span(d, 0, cells), span(d, cells, cells)
        for j in own_columns(cells):
            cell = lstm_cell(i_part[j], f_part[j], c_part[j], o_part[j], c_prev[j], w_ic[j], w_fc[j], w_oc[j],
                             i_scale, f_scale, o_scale)
            c_out[j] = cell[0]
            m_out[j] = cell[1]


def gru_propagate(dst, z, c_prev):
    cells = z.shape[1]
    for i in own_rows(dst.shape[0]):
        d, gate, previous = row(dst, i), row(z, i), row(c_prev, i)
        h, c = span(d, 0, cells), span(d, cells, cells)
        for j in own_columns(cells):
            cell = gru_cell(h[j], gate[j], previous[j])
            h[j] = cell[0]
            c[j] = cell[1]


def gru_sum_deriv(dst, z, y, dy):
    cells = z.shape[1]
    for i in own_rows(dst.shape[0]):
        d, gate, e = row(dst, i), row(z, i), row(dy, i)
        h, dh, dc = span(row(y, i), 0, cells), span(e, 0, cells), span(e, cells, cells)
        for j in own_columns(cells):
            d[j] = gru_cell_backprop(h[j], gate[j], ZERO, dh[j], dc[j])[0]


def gru_gate_deriv(dz, dc_prev, z, c_prev, y, dy):
    cells = z.shape[1]
    for i in own_rows(dz.shape[0]):
        d, d_previous, gate, previous = row(dz, i), row(dc_prev, i), row(z, i), row(c_prev, i)
        h, dc = span(row(y, i), 0, cells), span(row(dy, i), cells, cells)
        for j in own_columns(cells):
            deriv = gru_cell_backprop(h[j], gate[j], previous[j], ZERO, dc[j])
            d[j] += deriv[1]
            d_previous[j] += deriv[2]
