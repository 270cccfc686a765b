"""Shifted delta cepstra, by which languages are told apart. Kaldi: ShiftedDeltaFeatures."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import UsageError
from nnet3py.feat.frames import MOST_DELTAS, delta_filters


def add_shifted_deltas(features: np.ndarray, window: int = 1, shift: int = 3, blocks: int = 7) -> np.ndarray:
    """Features and beside them their slopes now, some frames later and so on. Kaldi: ShiftedDeltaFeatures.

    Parameters
    ----------
    features : float32 (frames, dim)
    window : frames on either side that a slope is taken over; beyond the ends the outermost frame is repeated
    shift : frames from one slope to the next
    blocks : how many slopes there are

    Returns
    -------
    float32 (frames, (1 + blocks) dim)

    Raises
    ------
    UsageError : numbers out of range
    """
    if not (0 < shift < MOST_DELTAS and 0 < blocks < MOST_DELTAS):
        raise UsageError(f"expected a block shift and a number of blocks from 1 to {MOST_DELTAS - 1}, found {shift} "
                         f"and {blocks}")
    taps = delta_filters(1, window)[1]
    count, dim = features.shape
    later = (blocks - 1) * shift
    padded = np.pad(features.astype(np.float64), ((window, window + later), (0, 0)), mode="edge")
    with np.errstate(all="ignore"):
        slopes = sum(tap * padded[i:i + count + later] for i, tap in enumerate(taps.tolist()) if tap != 0.0)
    result = np.empty((count, (1 + blocks) * dim), dtype=np.float32)
    result[:, :dim] = features
    with np.errstate(over="ignore"):
        for block in range(blocks):
            begin = block * shift
            result[:, (1 + block) * dim:(2 + block) * dim] = slopes[begin:begin + count]
    return result
