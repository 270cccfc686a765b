"""Statistics of nonlinearities, and self-repair: what decides which units are pulled back.

``counters`` (float64) holds how many rows the value statistics have seen, how many the output-derivative statistics,
how many dimensions self-repair has changed, and how many it has looked at.
"""
from __future__ import annotations

import numpy as np

COUNT, ODERIV_COUNT, NUM_REPAIRED, NUM_PROCESSED = range(4)
REPAIR_PROBABILITY = np.float32(0.5)
ZERO, ONE, DOUBLE_ZERO = np.float32(0), np.float32(1), np.float64(0)


def repair_direction(deriv_sum, c, block_dim, low, high):
    """1 for a unit that is active too often, -1 for too rarely, else 0: the mean over the blocks of sums decides."""
    total, num_blocks = DOUBLE_ZERO, deriv_sum.shape[0] // block_dim
    for b in range(num_blocks):
        total += deriv_sum[b * block_dim + c]
    active = np.float32(total / num_blocks)
    return ONE if active > high else -ONE if active <= low else ZERO
