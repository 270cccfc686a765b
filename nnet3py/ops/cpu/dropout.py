"""Dropout masks on the CPU, made from uniform random numbers that the caller drew."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import kernel, row

ZERO, ONE, TWO, FOUR = np.float32(0), np.float32(1), np.float32(2), np.float32(4)


@kernel("mat mat mat f32")
def dropout_elements(dst, src, draws, proportion):
    """``dst = src`` where ``draws`` (uniform, of the same size) is above ``proportion``, else 0."""
    for i in range(dst.shape[0]):
        d, s, u = row(dst, i), row(src, i), row(draws, i)
        for j in range(d.shape[0]):
            d[j] = s[j] if u[j] > proportion else ZERO


@kernel("mat mat mat f32")
def dropout_rows(dst, src, draws, proportion):
    """``dst[i] = src[i]`` where ``draws[i, 0]`` (uniform) is above ``proportion``, else a zero row."""
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        if draws[i, 0] > proportion:
            for j in range(d.shape[0]):
                d[j] = s[j]
        else:
            for j in range(d.shape[0]):
                d[j] = ZERO


@kernel("mat mat mat mat")
def dropout_backprop(dx, x, y, dy):
    """``dx = dy y / x``, and ``dy`` where ``x`` is 0; ``dx`` may be ``dy``. Kaldi: AddMatMatDivMat."""
    for i in range(dx.shape[0]):
        d, s, v, e = row(dx, i), row(x, i), row(y, i), row(dy, i)
        for j in range(d.shape[0]):
            d[j] = e[j] * (v[j] / s[j]) if s[j] != ZERO else e[j]


@kernel("mat f32 f32")
def binary_mask(mask, proportion, kept):
    """Uniform numbers become ``kept`` where they are above ``proportion``, else 0."""
    for i in range(mask.shape[0]):
        m = row(mask, i)
        for j in range(m.shape[0]):
            m[j] = kept if m[j] > proportion else ZERO


@kernel("mat mat f32")
def complementary_masks(mask, draws, proportion):
    """Two columns of ``mask`` from one draw (uniform): 1 if above ``proportion``; 1 if below 1 minus that."""
    for i in range(mask.shape[0]):
        m, u = row(mask, i), row(draws, i)
        m[0] = ONE if u[0] > proportion else ZERO
        m[1] = ONE if ONE - proportion > u[0] else ZERO


@kernel("mat f32")
def continuous_mask(mask, proportion):
    """Uniform numbers u become 4 proportion u + 1 - 2 proportion."""
    slope, start = FOUR * proportion, ONE - TWO * proportion
    for i in range(mask.shape[0]):
        m = row(mask, i)
        for j in range(m.shape[0]):
            m[j] = slope * m[j] + start


@kernel("mat mat int")
def specaugment_mask(mask, draws, max_zeroed):
    """Each row of ``mask`` becomes 1 with a random band of at most ``max_zeroed`` zeros, split into regions.

    ``draws`` (uniform) has a column for the band's width, one for its start, and one for each region after the first:
    there a stretch of a quarter of the row is mirrored around its middle, which cuts a band in two.
    """
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


@kernel("vec mat ivec ivec f32 int int")
def time_mask(mask, draws, rows, starts, start_kept, longest_zeroed, longest_kept):
    """Stretches of zeros and ones by turns in each sequence of frames, ``rows[starts[s]:starts[s + 1]]``.

    A sequence begins with ones with probability ``start_kept``; lengths are uniform from 1 to the longest, and what
    reaches beyond the end is cut off. ``draws`` (1, rows + sequences) holds uniform numbers, of which sequence s uses
    those from ``starts[s] + s`` on. Kaldi: SpecAugmentTimeMaskComponent::GetMemo.
    """
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


@kernel("mat mat mat ivec")
def mul_mask_rows(dst, src, mask, indexes):
    """``dst[i] = src[i] mask[indexes[i]]``, elementwise; ``dst`` may be ``src``. Kaldi: MulRows."""
    for i in range(dst.shape[0]):
        d, s, m = row(dst, i), row(src, i), row(mask, indexes[i])
        for j in range(d.shape[0]):
            d[j] = s[j] * m[j]
