"""Mean and variance normalization over a sliding window, and its statistics for calls of two channels."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import NumericError, UsageError

_LEAST_VARIANCE = 1e-10


def normalize_sliding(features: np.ndarray, window: int = 600, least_window: int = 100, center: bool = False,
                      norm_vars: bool = False) -> np.ndarray:
    """Features less their mean in a window around each frame, or up to it. Kaldi: SlidingWindowCmn.

    Parameters
    ----------
    features : float (frames, dim)
    window : frames; with ``center`` around the frame and moved inside at the ends, else the frame and so many before it
    least_window : without ``center``, frames that are taken at the beginning, if there are so many
    center : whether the window is around the frame
    norm_vars : whether variances in the window become 1

    Returns
    -------
    float32 (frames, dim)

    Raises
    ------
    UsageError : a window without a frame
    NumericError : features that are not finite
    """
    if window < 1 or least_window < 1:
        raise UsageError(f"expected windows of 1 frame or more, found {window} and {least_window}")
    count, dim = features.shape
    if not np.isfinite(features).all():
        raise NumericError("the features are not finite", "look for NaN or infinity in what they were computed from")
    t = np.arange(count)
    firsts = t - window // 2 if center else t - window
    ends = firsts + window - np.minimum(firsts, 0) if center else np.maximum(t + 1, least_window)
    firsts = np.maximum(firsts, 0)
    beyond = np.maximum(ends - count, 0)
    firsts, ends = np.maximum(firsts - beyond, 0), ends - beyond
    sizes = (ends - firsts)[:, None]
    middle = features.mean(axis=0, dtype=np.float64)         # sums of what is around 0 keep their last digits
    centered = features - middle
    sums = np.concatenate((np.zeros((1, dim)), np.cumsum(centered, axis=0)))
    means = (sums[ends] - sums[firsts]) / sizes
    result = centered - means
    if norm_vars:
        squares = np.concatenate((np.zeros((1, dim)), np.cumsum(centered * centered, axis=0)))
        variances = (squares[ends] - squares[firsts]) / sizes - means * means
        result = np.where(sizes > 1, result / np.sqrt(np.maximum(variances, _LEAST_VARIANCE)), 0.0)
    return result.astype(np.float32)


def weights_of_two_channels(first: np.ndarray, other: np.ndarray, quieter: float) -> tuple[np.ndarray, np.ndarray]:
    """float64 (frames,) of each channel: 1 for frames in which it is the louder one, ``quieter`` for the rest.

    ``first`` and ``other`` are features (frames, dim), of which the first column says how loud a frame is. Frames that
    only one of them has get the weight 1.
    """
    both = min(len(first), len(other))
    first_is_louder = first[:both, 0] > other[:both, 0]
    weights = np.ones(len(first)), np.ones(len(other))
    weights[0][:both][~first_is_louder] = quieter
    weights[1][:both][first_is_louder] = quieter
    return weights
