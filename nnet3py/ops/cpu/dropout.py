"""Dropout masks on the CPU, made from uniform random numbers that the caller drew."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import row
from nnet3py.ops.cpu.formulas import formula
from nnet3py.ops.cpu.operation import operation
from nnet3py.ops.formulas import masks

ZERO = np.float32(0)
_complementary_pair, _specaugment_row, _time_stretches = map(formula, (
    masks.complementary_pair, masks.specaugment_row, masks.time_stretches))


@operation()
def dropout_rows(dst, src, draws, proportion):
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        if draws[i, 0] > proportion:
            for j in range(d.shape[0]):
                d[j] = s[j]
        else:
            for j in range(d.shape[0]):
                d[j] = ZERO


@operation()
def complementary_masks(mask, draws, proportion):
    for i in range(mask.shape[0]):
        _complementary_pair(row(mask, i), row(draws, i), proportion)


@operation()
def specaugment_mask(mask, draws, max_zeroed):
    for i in range(mask.shape[0]):
        _specaugment_row(row(mask, i), row(draws, i), max_zeroed)


@operation()
def time_mask(mask, draws, rows, starts, start_kept, longest_zeroed, longest_kept):
    for s in range(starts.shape[0] - 1):
        _time_stretches(mask, row(draws, 0), rows, starts, s, start_kept, longest_zeroed, longest_kept)


@operation()
def mul_mask_rows(dst, src, mask, indexes):
    for i in range(dst.shape[0]):
        d, s, m = row(dst, i), row(src, i), row(mask, indexes[i])
        for j in range(d.shape[0]):
            d[j] = s[j] * m[j]
