"""Which frames are voiced, by their energy. Kaldi: ``voice-activity-detection.h``."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class VadOptions:
    """A frame is loud if its energy exceeds ``energy_threshold`` + ``energy_mean_scale`` times the utterance's mean.

    It is voiced if at least ``proportion_threshold`` of the frames up to ``frames_context`` before and after are loud.
    """

    energy_threshold: float = 5.0
    energy_mean_scale: float = 0.5
    frames_context: int = 0
    proportion_threshold: float = 0.6


def voiced_frames(features: np.ndarray, options: VadOptions) -> np.ndarray:
    """float32 (frames,), 1 where a frame of features (frames, dim) is voiced; column 0 is the log-energy.

    Kaldi: ComputeVadEnergy.
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
