"""Dropout masks from uniform random numbers: of a row, and of a sequence."""
from __future__ import annotations

import numpy as np

ZERO, ONE = np.float32(0), np.float32(1)


def below(draw, count):
    """A whole number from 0 to ``count`` - 1 made of a uniform number; the product is rounded alike everywhere."""
    number = int(np.float64(draw) * np.float64(count))
    return number if number < count else count - 1


def complementary_pair(mask, draws, proportion):
    """Set the two elements of a row."""
    mask[0] = ONE if draws[0] > proportion else ZERO
    mask[1] = ONE if ONE - proportion > draws[0] else ZERO


def specaugment_row(mask, draws, max_zeroed):
    """Set a row: ones, and a band of zeros that is cut by mirroring a stretch around its middle for each region."""
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
