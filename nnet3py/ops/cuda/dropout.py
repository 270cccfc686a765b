"""Dropout masks on the GPU, made from uniform random numbers that the caller drew.

The twins of ``ops/cpu/dropout.py``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.each_element import (
    each_element,
    fill_row,
    first_row,
    launch_elements,
    multiply_row,
    row_distance,
    scale_row,
)
from nnet3py.ops.cuda.launch import Shape, launch_2d, operation
from nnet3py.ops.cuda.threads import device_function, own_columns, own_rows, row

ZERO, ONE, TWO, FOUR = np.float32(0), np.float32(1), np.float32(2), np.float32(4)


def launch_each_row(rows: int, cols: int) -> Shape:
    """A thread for each row of a matrix; they lie along x."""
    return launch_2d(1, rows)


def launch_sequences(rows: int, cols: int) -> Shape:
    """A thread for each of the sequences that a vector of starts (and one end) has."""
    return launch_2d(1, max(cols - 1, 0))


@device_function
def _below(draw, count):
    """A whole number from 0 to ``count`` - 1 made of a uniform number; the product is rounded as on the CPU."""
    number = int(np.float64(draw) * np.float64(count))
    return number if number < count else count - 1


@each_element
def dropout_elements(dst, src, draws, proportion):
    return src if draws > proportion else ZERO


@operation(shape=launch_elements)
def dropout_rows(dst, src, draws, proportion):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        if draws[i, 0] > proportion:
            scale_row(row(dst, i), row(src, i), ONE)
        else:
            fill_row(row(dst, i), ZERO)
        i += step


@each_element
def dropout_backprop(dx, x, y, dy):
    return dy * (y / x) if x != ZERO else dy


@each_element
def binary_mask(mask, proportion, kept):
    return kept if mask > proportion else ZERO


@operation(shape=launch_each_row)
def complementary_masks(mask, draws, proportion):
    for _ in own_rows(1):
        for place in own_columns(mask.shape[0]):
            i = np.int64(place)
            draw = draws[i, 0]
            mask[i, 0] = ONE if draw > proportion else ZERO
            mask[i, 1] = ONE if ONE - proportion > draw else ZERO


@each_element
def continuous_mask(mask, proportion):
    return FOUR * proportion * mask + (ONE - TWO * proportion)


# A thread makes a row: there is one for each sequence only.
@operation(shape=launch_each_row)
def specaugment_mask(mask, draws, max_zeroed):
    width = mask.shape[1]
    half = width // 2
    quarter = half // 2
    for _ in own_rows(1):
        for place in own_columns(mask.shape[0]):
            m, u = row(mask, np.int64(place)), row(draws, np.int64(place))
            for k in range(width):
                m[k] = ONE
            zeroed = _below(u[0], max_zeroed + 1)
            start = _below(u[1], width)
            for k in range(zeroed):
                m[(start + k) % width] = ZERO
            for c in range(2, u.shape[0]):
                first = _below(u[c], width)
                for k in range(quarter):
                    a, b = (first + k) % width, (first + half - k) % width
                    swapped = m[a]
                    m[a] = m[b]
                    m[b] = swapped


@operation(over=3, shape=launch_sequences)
def time_mask(mask, draws, rows, starts, start_kept, longest_zeroed, longest_kept):
    u = row(draws, 0)
    for _ in own_rows(1):
        for sequence in own_columns(starts.shape[0] - 1):
            s = np.int64(sequence)
            frame, end, draw = np.int64(starts[s]), np.int64(starts[s + 1]), np.int64(starts[s]) + s
            keep = u[draw] < start_kept
            while frame < end:
                draw += 1
                stop = frame + 1 + _below(u[draw], longest_kept if keep else longest_zeroed)
                stop = stop if stop < end else end
                for k in range(frame, stop):
                    mask[rows[k]] = ONE if keep else ZERO
                frame = stop
                keep = not keep


@operation(shape=launch_elements)
def mul_mask_rows(dst, src, mask, indexes):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        multiply_row(row(dst, i), row(src, i), row(mask, indexes[i]))
        i += step
