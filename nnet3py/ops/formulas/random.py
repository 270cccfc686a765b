"""The arithmetic of the random stream that ``random.py`` describes, written once for every device.

Words are 32 bits, each in the low half of an unsigned 64-bit number, so that products fit.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.random import KEY_STEPS, MULTIPLIERS, ROUNDS

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_STEP0, _STEP1 = np.uint64(KEY_STEPS[0]), np.uint64(KEY_STEPS[1])
_MASK, _HALF, _DROPPED = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)
_UNIT, _HALF_UNIT = np.float32(2.0 ** -24), np.float32(2.0 ** -25)
_LOW = 0xFFFFFFFF            # of a signed number
_TURN, _MINUS_TWO = np.float32(2 * np.pi), np.float32(-2)


def block_words(block, minibatch, component, k0, k1):
    """The four words of one block of the stream whose key is (k0, k1)."""
    c0, c1 = np.uint64(block & _LOW), np.uint64(block >> 32 & _LOW)
    c2, c3 = np.uint64(minibatch), np.uint64(component)
    for _ in range(ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _MASK, (p0 >> _HALF) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + _STEP0) & _MASK, (k1 + _STEP1) & _MASK
    return c0, c1, c2, c3


def unit(word):
    """A number in [0, 1) of the upper 24 bits of a word."""
    return np.float32(np.int64(word >> _DROPPED)) * _UNIT


def normal_pair(word0, word1):
    """Two standard normal numbers of two words (Box and Muller, 1958)."""
    radius = math.sqrt(_MINUS_TWO * math.log(unit(word0) + _HALF_UNIT))
    angle = _TURN * unit(word1)
    return radius * math.cos(angle), radius * math.sin(angle)
