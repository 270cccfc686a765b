"""Formulas of the random stream (``ops/resources.py``), and of dropout masks made from uniform numbers.

Words of the stream are 32 bits, each in the low half of an unsigned 64-bit number, so that products fit.
"""
from __future__ import annotations

import math

import numpy as np

from nnet3py.ops.resources import KEY_STEPS, MULTIPLIERS, ROUNDS

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_STEP0, _STEP1 = np.uint64(KEY_STEPS[0]), np.uint64(KEY_STEPS[1])
_MASK, _HALF, _DROPPED = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)
_UNIT, _HALF_UNIT = np.float32(2.0 ** -24), np.float32(2.0 ** -25)
_LOW = 0xFFFFFFFF            # of a signed number
_TURN, _MINUS_TWO = np.float32(2 * np.pi), np.float32(-2)


def block_words(block, minibatch, component, k0, k1):
    """Return the four words of a block of the stream whose key is (k0, k1)."""
    c0, c1 = np.uint64(block & _LOW), np.uint64(block >> 32 & _LOW)
    c2, c3 = np.uint64(minibatch), np.uint64(component)
    for _ in range(ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _MASK, (p0 >> _HALF) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + _STEP0) & _MASK, (k1 + _STEP1) & _MASK
    return c0, c1, c2, c3


def unit(word):
    """Return a number in [0, 1) of the upper 24 bits of a word."""
    return np.float32(np.int64(word >> _DROPPED)) * _UNIT


def normal_pair(word0, word1):
    """Return two standard normal numbers of two words (Box and Muller, 1958)."""
    radius = math.sqrt(_MINUS_TWO * math.log(unit(word0) + _HALF_UNIT))
    angle = _TURN * unit(word1)
    return radius * math.cos(angle), radius * math.sin(angle)


# -- masks of a row, and of a sequence ---------------------------------------------------------------------------------


ZERO, ONE = np.float32(0), np.float32(1)


def below(draw, count):
    """Return a whole number from 0 to ``count`` - 1 of a uniform number; the product is rounded alike everywhere."""
    number = int(np.float64(draw) * np.float64(count))
    return number if number < count else count - 1


def complementary_pair(mask, draws, proportion):
    """Set the two complementary masks of a row."""
    mask[0] = ONE if draws[0] > proportion else ZERO
    mask[1] = ONE if ONE - proportion > draws[0] else ZERO


def specaugment_row(mask, draws, max_zeroed):
    """Set a row to ones, and a band of zeros, which is cut by mirroring a stretch around its middle for each region."""
    width = mask.shape[0]
    half = width // 2
    quarter = half // 2
    for k in range(width):
        mask[k] = ONE
    zeroed = below(draws[0], max_zeroed + 1)
    start = below(draws[1], width)
    for k in range(zeroed):
        mask[(start + k) % width] = ZERO
    for c in range(2, draws.shape[0]):
        first = below(draws[c], width)
        for k in range(quarter):
            a, b = (first + k) % width, (first + half - k) % width
            swapped = mask[a]
            mask[a] = mask[b]
            mask[b] = swapped


def time_stretches(mask, draws, rows, starts, s, start_kept, longest_zeroed, longest_kept):
    """Set the elements of sequence ``s``: stretches of zeros and ones by turns."""
    frame, end, draw = np.int64(starts[s]), np.int64(starts[s + 1]), np.int64(starts[s]) + s
    keep = draws[draw] < start_kept
    while frame < end:
        draw += 1
        stop = frame + 1 + below(draws[draw], longest_kept if keep else longest_zeroed)
        stop = stop if stop < end else end
        for k in range(frame, stop):
            mask[rows[k]] = ONE if keep else ZERO
        frame = stop
        keep = not keep
