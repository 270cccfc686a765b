"""Filling matrices with random numbers on the CPU; ``nnet3py/ops/random.py`` says which number goes where."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import inline, row
from nnet3py.ops.cpu.formulas import formula
from nnet3py.ops.cpu.operation import operation
from nnet3py.ops.formulas import random as formulas

_block_words, _unit, _normal_pair = map(formula, (
    formulas.block_words, formulas.unit, formulas.normal_pair))


@inline
def _keys(seed):
    """The two words of the seed."""
    return np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)


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


@operation()
def philox_normal(dst, seed, block, minibatch, component):
    cols = dst.shape[1]
    k0, k1 = _keys(seed)
    position = 0
    n0 = n1 = n2 = n3 = np.float32(0)
    for i in range(dst.shape[0]):
        target = row(dst, i)
        for j in range(cols):
            place = position & 3
            if place == 0:
                w0, w1, w2, w3 = _block_words(block + (position >> 2), minibatch, component, k0, k1)
                n0, n1 = _normal_pair(w0, w1)
                n2, n3 = _normal_pair(w2, w3)
            target[j] = n0 if place == 0 else n1 if place == 1 else n2 if place == 2 else n3
            position += 1
