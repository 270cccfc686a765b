"""Dropout masks on the CPU, made from uniform random numbers that the caller drew."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import row
from nnet3py.ops.cpu.operation import operation

ZERO, ONE, TWO, FOUR = np.float32(0), np.float32(1), np.float32(2), np.float32(4)


@operation()
def dropout_elements(dst, src, draws, proportion):
    for i in range(dst.shape[0]):
        d, s, u = row(dst, i), row(src, i), row(draws, i)
        for j in range(d.shape[0]):
            d[j] = s[j] if u[j] > proportion else ZERO


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
def dropout_backprop(dx, x, y, dy):
    for i in range(dx.shape[0]):
        d, s, v, e = row(dx, i), row(x, i), row(y, i), row(dy, i)
        for j in range(d.shape[0]):
            d[j] = e[j] * (v[j] / s[j]) if s[j] != ZERO else e[j]


@operation()
def binary_mask(mask, proportion, kept):
    for i in range(mask.shape[0]):
        m = row(mask, i)
        for j in range(m.shape[0]):
            m[j] = kept if m[j] > proportion else ZERO


@operation()
def complementary_masks(mask, draws, proportion):
    for i in range(mask.shape[0]):
        m, u = row(mask, i), row(draws, i)
        m[0] = ONE if u[0] > proportion else ZERO
        m[1] = ONE if ONE - proportion > u[0] else ZERO


@operation()
def continuous_mask(mask, proportion):
    slope, start = FOUR * proportion, ONE - TWO * proportion
    for i in range(mask.shape[0]):
        m = row(mask, i)
        for j in range(m.shape[0]):
            m[j] = slope * m[j] + start


@operation()
def specaugment_mask(mask, draws, max_zeroed):
    width = mask.shape[1]
    half = width // 2
    quarter = half // 2
    for i in range(mask.shape[0]):
        m, u = row(mask, i), row(draws, i)
        m[:] = ONE
        zeroed = min(int(u[0] * (max_zeroed + 1)), max_zeroed)
        if zeroed == 0:
            continue
        start = min(int(u[1] * width), width - 1)
        for k in range(zeroed):
            m[(start + k) % width] = ZERO
        for c in range(2, u.shape[0]):
            place = min(int(u[c] * width), width - 1)
            for k in range(quarter):
                a, b = (place + k) % width, (place + half - k) % width
                m[a], m[b] = m[b], m[a]


@operation()
def time_mask(mask, draws, rows, starts, start_kept, longest_zeroed, longest_kept):
    u = row(draws, 0)
    for s in range(starts.shape[0] - 1):
        place, end, draw = starts[s], starts[s + 1], starts[s] + s
        keep = u[draw] < start_kept
        while place < end:
            draw += 1
            longest = longest_kept if keep else longest_zeroed
            stop = min(place + 1 + min(int(u[draw] * longest), longest - 1), end)
            for k in range(place, stop):
                mask[rows[k]] = ONE if keep else ZERO
            place = stop
            keep = not keep


@operation()
def mul_mask_rows(dst, src, mask, indexes):
    for i in range(dst.shape[0]):
        d, s, m = row(dst, i), row(src, i), row(mask, indexes[i])
        for j in range(d.shape[0]):
            d[j] = s[j] * m[j]
