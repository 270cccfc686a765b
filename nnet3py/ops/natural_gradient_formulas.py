"""The arithmetic of the natural gradient's small matrices that every device has in common, and its constants."""
from __future__ import annotations

import math

import numpy as np

NUM_ROWS, DIM, ETA, SIZE, ALPHA = range(5)      # places in the settings
EPSILON = np.float32(1.0e-10)           # floor of the eigenvalues
DELTA = np.float32(5.0e-4)              # floor of the eigenvalues, relative to the largest
LARGEST_CONDITION = np.float32(1.0e6)   # of the update's eigenvalues, beyond which orthogonality is to be checked
ONE = np.float32(1)


def smoothing(spectrum, rank, settings):      # type: ignore[no-untyped-def]
    """β, which with d decides how far each direction is shortened."""
    total = np.float32(0)
    for i in range(rank):
        total += spectrum[i]
    return spectrum[rank] * (ONE + np.float32(settings[ALPHA])) + np.float32(settings[ALPHA]) * total / np.float32(
        settings[DIM])


def direction_length(d, smoothing):      # type: ignore[no-untyped-def]
    """√e, the length of a row of W."""
    return np.float32(math.sqrt(ONE / (smoothing / d + ONE)))
