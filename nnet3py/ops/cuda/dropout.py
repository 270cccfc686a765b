"""Dropout masks on the GPU, made from uniform random numbers that the caller drew.

The twins of ``ops/cpu/dropout.py``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.each_element import (
    fill_row,
    first_row,
    launch_elements,
    multiply_row,
    row_distance,
    scale_row,
)
from nnet3py.ops.cuda.formulas import formula
from nnet3py.ops.cuda.launch import Shape, launch_2d, operation
from nnet3py.ops.cuda.threads import own_columns, own_rows, row
from nnet3py.ops.formulas import masks

ZERO, ONE = np.float32(0), np.float32(1)
_complementary_pair, _specaugment_row, _time_stretches = map(formula, (
    masks.complementary_pair, masks.specaugment_row, masks.time_stretches))


def launch_each_row(rows: int, cols: int) -> Shape:
    """A thread for each row of a matrix; they lie along x."""
    return launch_2d(1, rows)


def launch_sequences(rows: int, cols: int) -> Shape:
    """A thread for each of the sequences that a vector of starts (and one end) has."""
    return launch_2d(1, max(cols - 1, 0))


@operation(shape=launch_elements)
def dropout_rows(dst, src, draws, proportion):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        if draws[i, 0] > proportion:
            scale_row(row(dst, i), row(src, i), ONE)
        else:
            fill_row(row(dst, i), ZERO)
        i += step


@operation(shape=launch_each_row)
def complementary_masks(mask, draws, proportion):
    for _ in own_rows(1):
        for i in own_columns(mask.shape[0]):
            _complementary_pair(row(mask, np.int64(i)), row(draws, np.int64(i)), proportion)


# A thread makes a row: there is one for each sequence only.
@operation(shape=launch_each_row)
def specaugment_mask(mask, draws, max_zeroed):
    for _ in own_rows(1):
        for i in own_columns(mask.shape[0]):
            _specaugment_row(row(mask, np.int64(i)), row(draws, np.int64(i)), max_zeroed)


@operation(over=3, shape=launch_sequences)
def time_mask(mask, draws, rows, starts, start_kept, longest_zeroed, longest_kept):
    for _ in own_rows(1):
        for s in own_columns(starts.shape[0] - 1):
            _time_stretches(mask, row(draws, 0), rows, starts, np.int64(s), start_kept, longest_zeroed, longest_kept)


@operation(shape=launch_elements)
def mul_mask_rows(dst, src, mask, indexes):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        multiply_row(row(dst, i), row(src, i), row(mask, indexes[i]))
        i += step
