"""Which frames are voiced, by their energy. Kaldi: ``voice-activity-detection.h``."""
from __future__ import annotations

import numpy as np

from nnet3py.feat.options import VadOptions


def voiced_frames(features: np.ndarray, options: VadOptions | None = None) -> np.ndarray:
    """Which frames are voiced, by their energy. Kaldi: ComputeVadEnergy.

    Parameters
    ----------
    features : float (frames, dim), of which column 0 is the log-energy
    options : the thresholds

    Returns
    -------
    float32 (frames,), 1 for a frame that is voiced, else 0
    """
    options = options or VadOptions()
    energy, count = features[:, 0], len(features)
    threshold = options.energy_threshold
    if options.energy_mean_scale != 0 and count:
        threshold += options.energy_mean_scale * float(energy.sum(dtype=np.float64)) / count
    loud = np.concatenate(([0], np.cumsum(energy > np.float32(threshold))))
    frames = np.arange(count)
    first = np.maximum(frames - options.frames_context, 0)
    end = np.minimum(frames + options.frames_context + 1, count)
    needed = (end - first).astype(np.float32) * np.float32(options.proportion_threshold)
    return (loud[end] - loud[first] >= needed).astype(np.float32)
