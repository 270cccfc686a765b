"""Larger arrays for loops that need more room."""
from __future__ import annotations

import numpy as np


def enlarged(array: np.ndarray) -> np.ndarray:
    """An array with twice the rows, beginning with those of this one; the rest is undefined."""
    larger = np.empty((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    larger[:len(array)] = array
    return larger
