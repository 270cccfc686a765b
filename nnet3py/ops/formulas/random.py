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
    """Return the four random words of a block of the stream with key (k0, k1): ``resources.philox`` for kernels."""
    c0, c1 = np.uint64(block & _LOW), np.uint64(block >> 32 & _LOW)
    c2, c3 = np.uint64(minibatch), np.uint64(component)
    for _ in range(ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _MASK, (p0 >> _HALF) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + _STEP0) & _MASK, (k1 + _STEP1) & _MASK
    return c0, c1, c2, c3


def keys(seed):
    """Return the key for a 64-bit seed: its lower and upper 32 bits."""
    return np.uint64(seed & _LOW), np.uint64(seed >> 32 & _LOW)


def unit(word):
    """Turn a word into a float32 in [0, 1), a multiple of 2^-24."""
    return np.float32(np.int64(word >> _DROPPED)) * _UNIT


def normal_pair(word0, word1):
    """Turn two words into two standard normal numbers (Box and Muller, 1958)."""
    radius = math.sqrt(_MINUS_TWO * math.log(unit(word0) + _HALF_UNIT))
    angle = _TURN * unit(word1)
    return radius * math.cos(angle), radius * math.sin(angle)


# -- masks of a row, and of a sequence ---------------------------------------------------------------------------------


ZERO, ONE = np.float32(0), np.float32(1)


def below(draw, count):
    """Turn a uniform number in [0, 1) into an integer from 0 to ``count`` - 1, in float64: the same on all devices."""
    number = int(np.float64(draw) * np.float64(count))
    return number if number < count else count - 1


def complementary_pair(mask, draws, proportion):
    """Set ``mask[0]`` to 1 if ``draws[0] > proportion``, and ``mask[1]`` to 1 if it is below 1 - proportion; else 0."""
    mask[0] = ONE if draws[0] > proportion else ZERO
    mask[1] = ONE if ONE - proportion > draws[0] else ZERO


def specaugment_row(mask, draws, max_zeroed):
    """Set a row of a SpecAugment mask to ones, with a random band of at most ``max_zeroed`` zeros.

    ``draws`` are random numbers: the first gives the width of the band, the second its start. With each of the others
    a random stretch of the row is reversed, which may cut the band in two.
    """
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
    """Set the mask of sequence ``s``: alternating stretches of ones and zeros; arguments as for ``time_mask``."""
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
