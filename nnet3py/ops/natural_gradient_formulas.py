"""The arithmetic of the natural gradient's small matrices that every device has in common, and its constants."""
from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

NUM_ROWS, DIM, ETA, SIZE, ALPHA = range(5)      # places in the settings
EPSILON = np.float32(1.0e-10)           # floor of the eigenvalues
DELTA = np.float32(5.0e-4)              # floor of the eigenvalues, relative to the largest
LARGEST_CONDITION = np.float32(1.0e6)   # of the update's eigenvalues, beyond which orthogonality is to be checked
ONE, HALF = np.float32(1), np.float64(0.5)


def smoothing(spectrum, rank, settings):      # type: ignore[no-untyped-def]
    """β, which with d decides how far each direction is shortened."""
    total = np.float32(0)
    for i in range(rank):
        total += spectrum[i]
    return spectrum[rank] * (ONE + np.float32(settings[ALPHA])) + np.float32(settings[ALPHA]) * total / np.float32(
        settings[DIM])


def bind(jit: Callable[..., Any]) -> SimpleNamespace:
    """The formulas compiled with ``jit`` (a decorator): ``smoothing``, ``direction_length`` and ``moment``."""

    @jit
    def direction_length(d, smoothing):  # type: ignore[no-untyped-def]
        """√e, the length of a row of W."""
        return np.float32(math.sqrt(ONE / (smoothing / d + ONE)))

    @jit
    def moment(i, j, smoothing, square, cross, spectrum, settings):  # type: ignore[no-untyped-def]
        """Element (i, j) of Z, in float64: it is to be rounded once, when it has been scaled."""
        keep, per_row = ONE - np.float32(settings[ETA]), np.float32(settings[ETA]) / np.float32(settings[NUM_ROWS])
        rank = square.shape[0]
        scales = (np.float64(ONE / direction_length(spectrum[i], smoothing))
                  * np.float64(ONE / direction_length(spectrum[j], smoothing)))
        kept_i, kept_j = np.float64(spectrum[i] + spectrum[rank]), np.float64(spectrum[j] + spectrum[rank])
        value = HALF * per_row * np.float64(per_row) * (np.float64(square[i, j]) + np.float64(square[j, i])) * scales
        value += HALF * per_row * np.float64(keep) * (np.float64(cross[i, j]) + np.float64(cross[j, i])) * scales * (
            kept_i + kept_j)
        return value + np.float64(keep) * np.float64(keep) * kept_i * kept_i if i == j else value

    return SimpleNamespace(smoothing=jit(smoothing), direction_length=direction_length, moment=moment)
