"""The loops that normalize features frame by frame."""
from __future__ import annotations

import math
from typing import Any

import numpy as np


def add_frames(frames: Any, totals: Any, begin: int) -> None:
    """Write sums and sums of squares up to each of the ``frames`` into ``totals`` (float64), from row ``begin`` on."""
    dim = frames.shape[1]
    for t in range(frames.shape[0]):
        for d in range(dim):
            value = np.float64(frames[t, d])
            totals[begin + t, d] = totals[begin + t - 1, d] + value
            totals[begin + t, dim + d] = totals[begin + t - 1, dim + d] + value * value


def normalize_frames(frames: Any, totals: Any, end: int, num_frames: int, window: int, speaker: Any,
                     most_speaker: float, assumed: Any, most_assumed: float, norm_vars: bool, floor: float,
                     result: Any) -> None:
    """Normalize the last frames of an utterance, each by the window that it ends.

    Parameters
    ----------
    frames : float32 (frames, dim)
    totals, end : float64, as :func:`add_frames` leaves them; the row after that of the last frame
    num_frames : of the utterance until now
    window : frames of it that count
    speaker, assumed : float64 (2, dim + 1), statistics that fill the window up, the first ones before the others
    most_speaker, most_assumed : frames that they may count as
    norm_vars, floor : whether variances are normalized, too, and their least
    result : float32 (frames, dim)
    """
    count, dim = frames.shape
    for t in range(count):
        row = end - count + t
        own = min(num_frames - count + t + 1, window)
        counts = np.float64(own)
        taken = min(max(window - counts, 0.0), most_speaker)
        by_speaker = taken / speaker[0, dim] if speaker[0, dim] > 0.0 else 0.0
        if speaker[0, dim] > 0.0:
            counts += taken
        taken = min(max(window - counts, 0.0), most_assumed)
        by_assumed = taken / assumed[0, dim]
        counts += taken
        for d in range(dim):
            total = totals[row, d] - totals[row - own, d]
            mean = (total + by_speaker * speaker[0, d] + by_assumed * assumed[0, d]) / counts
            if norm_vars:
                total = totals[row, dim + d] - totals[row - own, dim + d]
                square = (total + by_speaker * speaker[1, d] + by_assumed * assumed[1, d]) / counts
                result[t, d] = (frames[t, d] - mean) * (1.0 / math.sqrt(max(square - mean * mean, floor)))
            else:
                result[t, d] = frames[t, d] - mean
