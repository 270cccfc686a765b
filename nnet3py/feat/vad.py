"""Which frames are voiced, by their energy. Kaldi: ``voice-activity-detection.h``."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class VadOptions:
    """Which frames are voiced.

    Attributes
    ----------
    energy_threshold, energy_mean_scale : a frame is loud if its log-energy exceeds the first plus the second times the
        utterance's mean
    frames_context : frames before and after that are looked at
    proportion_threshold : a frame is voiced if at least this part of them is loud
    """

    energy_threshold: float = 5.0
    energy_mean_scale: float = 0.5
    frames_context: int = 0
    proportion_threshold: float = 0.6


def voiced_frames(features: np.ndarray, options: VadOptions) -> np.ndarray:
    """Which frames are voiced, by their energy. Kaldi: ComputeVadEnergy.

    Parameters
    ----------
    features : float (frames, dim), of which column 0 is the log-energy
    options : the thresholds

    Returns
    -------
    float32 (frames,), 1 for a frame that is voiced, else 0
    """
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
