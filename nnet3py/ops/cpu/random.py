"""Filling matrices with random numbers on the CPU; ``nnet3py/ops/random.py`` says which number goes where."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cpu.jit import inline, kernel, row
from nnet3py.ops.random import KEY_STEPS, MULTIPLIERS, ROUNDS

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_STEP0, _STEP1 = np.uint64(KEY_STEPS[0]), np.uint64(KEY_STEPS[1])
_MASK, _HALF, _DROPPED = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)
_UNIT = np.float32(2.0 ** -24)
_HALF_UNIT = np.float32(2.0 ** -25)
_TURN = np.float32(2 * np.pi)
_MINUS_TWO = np.float32(-2)


@inline
def _block_words(block, seed, minibatch, component):
    """The four words of one block, each in the low half of a uint64."""
    c0, c1 = np.uint64(block) & _MASK, np.uint64(block) >> _HALF
    c2, c3 = np.uint64(minibatch), np.uint64(component)
    k0, k1 = np.uint64(seed) & _MASK, np.uint64(seed) >> _HALF
    for _ in range(ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _MASK, (p0 >> _HALF) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + _STEP0) & _MASK, (k1 + _STEP1) & _MASK
    return c0, c1, c2, c3


@inline
def _unit(word):
    """A number in [0, 1) of the upper 24 bits of a word."""
    return np.float32(np.int64(word >> _DROPPED)) * _UNIT


@inline
def _normal_pair(word0, word1):
    """Two standard normal numbers of two words (Box and Muller, 1958)."""
    radius = np.sqrt(_MINUS_TWO * np.log(_unit(word0) + _HALF_UNIT))
    angle = _TURN * _unit(word1)
    return radius * np.cos(angle), radius * np.sin(angle)


@kernel("mat int int int int")
def philox_uniform(dst, seed, block, minibatch, component):
    """Fill ``dst`` with numbers in [0, 1) from the blocks that start at ``block``, row by row."""
    cols = dst.shape[1]
    position = 0
    w0 = w1 = w2 = w3 = np.uint64(0)
    for i in range(dst.shape[0]):
        target = row(dst, i)
        for j in range(cols):
            place = position & 3
            if place == 0:
                w0, w1, w2, w3 = _block_words(block + (position >> 2), seed, minibatch, component)
            target[j] = _unit(w0 if place == 0 else w1 if place == 1 else w2 if place == 2 else w3)
            position += 1


@kernel("mat int int int int")
def philox_normal(dst, seed, block, minibatch, component):
    """Fill ``dst`` with standard normal numbers from the blocks that start at ``block``, row by row."""
    cols = dst.shape[1]
    position = 0
    n0 = n1 = n2 = n3 = np.float32(0)
    for i in range(dst.shape[0]):
        target = row(dst, i)
        for j in range(cols):
            place = position & 3
            if place == 0:
                w0, w1, w2, w3 = _block_words(block + (position >> 2), seed, minibatch, component)
                n0, n1 = _normal_pair(w0, w1)
                n2, n3 = _normal_pair(w2, w3)
            target[j] = n0 if place == 0 else n1 if place == 1 else n2 if place == 2 else n3
            position += 1
