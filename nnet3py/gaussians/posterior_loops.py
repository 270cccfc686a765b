"""Compiled loop: the posteriors of the likeliest Gaussians of each frame."""
from __future__ import annotations

import math
from typing import Any

import numpy as np


def pruned_posteriors(log_likes: Any, cuts: Any, starts: Any, ids: Any, weights: Any, sums: Any,
                      most: int) -> None:
    """Write the posteriors of each frame's likeliest Gaussians, one frame after the other.

    ``log_likes`` are float32 (frames, gaussians); ``cuts``, float32 (frames,), the smallest posteriors that are kept,
    beside that of the likeliest Gaussian; at most ``most`` are kept per frame. Results are ``starts``, int64 (frames +
    1,), first entries of frames, whose first number is 0 already; ``ids`` and ``weights``, int32 and float32 (frames
    most,); and ``sums``, float32 (frames,), log-likelihoods of frames by the Gaussians that are kept.
    """
    frames, count = log_likes.shape
    place = np.int64(0)
    for t in range(frames):
        size = 0
        for g in range(count):                   # the likeliest first; of equal ones the one with the higher number
            value = log_likes[t, g]
            if size == most and not value >= weights[place + size - 1]:
                continue
            k = size if size < most else size - 1
            while k > 0 and value >= weights[place + k - 1]:
                weights[place + k], ids[place + k] = weights[place + k - 1], ids[place + k - 1]
                k -= 1
            weights[place + k], ids[place + k] = value, g
            size = min(size + 1, most)
        highest, cut = weights[place], cuts[t]
        lowest = highest + np.float32(math.log(cut)) if cut > 0 else np.float32(-np.inf)
        total = np.float32(0.0)
        for k in range(size):
            value = weights[place + k]
            likely = k == 0 or value > lowest
            weights[place + k] = np.float32(math.exp(value - highest)) if likely else np.float32(0.0)
            if k == 0:
                weights[place] = np.float32(1.0)
            total += weights[place + k]
        kept, least = 0, cut * total
        total = np.float32(0.0)
        for k in range(size):
            value = weights[place + k]
            if k == 0 or (value >= least and value > 0):
                weights[place + kept], ids[place + kept] = value, ids[place + k]
                total += value
                kept += 1
        scale = np.float32(1.0) / total
        for k in range(kept):
            weights[place + k] *= scale
        sums[t] = highest + np.float32(math.log(total))
        place += kept
        starts[t + 1] = place
