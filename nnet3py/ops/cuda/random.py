"""Filling matrices with random numbers on the GPU; ``nnet3py/ops/random.py`` says which number goes where.

A thread makes the four numbers of a block of the stream. The minibatch's number is read from device memory, so that a
captured launch draws anew each time.
"""
from __future__ import annotations

import numpy as np

from nnet3py.ops.arrays import DeviceArray, IntCell
from nnet3py.ops.cuda.formulas import formula
from nnet3py.ops.cuda.launch import Shape, kernel, launch_2d
from nnet3py.ops.cuda.threads import device_function, own_columns, own_rows
from nnet3py.ops.formulas import random as formulas
from nnet3py.ops.table import documented

_block_words, _unit, _normal_pair = map(formula, (
    formulas.block_words, formulas.unit, formulas.normal_pair))
_MASK = 0xFFFFFFFF


def launch_quads(rows: int, cols: int) -> Shape:
    """A thread for every four elements of a matrix."""
    return launch_2d(1, -(-rows * cols // 4))


@device_function
def _put(dst, position, value):
    """Set the element at this place of all, row by row, if there is one."""
    cols = dst.shape[1]
    i = position // cols
    if i < dst.shape[0]:
        dst[i, position - i * cols] = value


@kernel("mat int int int intcell int", shape=launch_quads)
def _uniform(dst, k0, k1, block, minibatch, component):
    for _ in own_rows(1):
        for place in own_columns((dst.shape[0] * dst.shape[1] + 3) // 4):
            quad = np.int64(place)
            w0, w1, w2, w3 = _block_words(block + quad, minibatch[0], component, np.uint64(k0), np.uint64(k1))
            _put(dst, 4 * quad, _unit(w0))
            _put(dst, 4 * quad + 1, _unit(w1))
            _put(dst, 4 * quad + 2, _unit(w2))
            _put(dst, 4 * quad + 3, _unit(w3))


@kernel("mat int int int intcell int", shape=launch_quads)
def _normal(dst, k0, k1, block, minibatch, component):
    for _ in own_rows(1):
        for place in own_columns((dst.shape[0] * dst.shape[1] + 3) // 4):
            quad = np.int64(place)
            w0, w1, w2, w3 = _block_words(block + quad, minibatch[0], component, np.uint64(k0), np.uint64(k1))
            n0, n1 = _normal_pair(w0, w1)
            n2, n3 = _normal_pair(w2, w3)
            _put(dst, 4 * quad, n0)
            _put(dst, 4 * quad + 1, n1)
            _put(dst, 4 * quad + 2, n2)
            _put(dst, 4 * quad + 3, n3)


@documented
def philox_uniform(dst: DeviceArray, seed: int, block: int, minibatch: IntCell, component: int) -> None:
    _uniform(dst, seed & _MASK, seed >> 32 & _MASK, block, minibatch, component)


@documented
def philox_normal(dst: DeviceArray, seed: int, block: int, minibatch: IntCell, component: int) -> None:
    _normal(dst, seed & _MASK, seed >> 32 & _MASK, block, minibatch, component)
