"""Slow, obvious numpy forms of the operations of attention."""
from __future__ import annotations

import numpy as np


def add_shifted_dots(dst, a, b, shift, alpha):
    for o in range(dst.shape[1]):
        dst[:, o] += alpha * (a * b[o * shift:o * shift + len(a)]).sum(axis=1)


def add_shifted_rows(dst, scales, src, shift, alpha):
    for o in range(scales.shape[1]):
        dst += alpha * scales[:, o, None] * src[o * shift:o * shift + len(dst)]


def add_to_shifted_rows(dst, scales, src, shift, alpha):
    for o in range(scales.shape[1]):
        dst[o * shift:o * shift + len(src)] += alpha * scales[:, o, None] * src


def attention_store_stats(count, entropy, posterior, weights, draw):
    if draw == 0:
        return
    blocks = weights.reshape(len(weights), *posterior.shape)
    count += len(blocks)
    posterior += blocks.sum(axis=0)
    entropy -= (blocks * np.log(np.maximum(blocks, 1e-20))).sum(axis=(0, 2))
