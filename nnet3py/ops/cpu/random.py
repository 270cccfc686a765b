"""Random numbers, and dropout masks made from them, on the CPU; ``ops/resources.py`` describes the random stream."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import row
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.formulas import random as formulas

_block_words, _keys, _unit = map(formula, (formulas.block_words, formulas.keys, formulas.unit))


@operation()
def philox_uniform(dst, seed, block, minibatch, component):
    cols = dst.shape[1]
    k0, k1 = _keys(seed)
    position = 0
    w0 = w1 = w2 = w3 = np.uint64(0)
    for i in range(dst.shape[0]):
        target = row(dst, i)
        for j in range(cols):
            place = position & 3
            if place == 0:
                w0, w1, w2, w3 = _block_words(block + (position >> 2), minibatch, component, k0, k1)
            target[j] = _unit(w0 if place == 0 else w1 if place == 1 else w2 if place == 2 else w3)
            position += 1


# -- masks, from uniform random numbers that the caller drew -----------------------------------------------------------


ZERO = np.float32(0)
_complementary_pair, _specaugment_row, _time_stretches = map(formula, (
    formulas.complementary_pair, formulas.specaugment_row, formulas.time_stretches))


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
