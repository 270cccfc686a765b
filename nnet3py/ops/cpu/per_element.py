"""Trained scales and offsets of columns on the CPU. Kaldi: ScaleAndOffsetComponent's own arithmetic."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import inline, kernel, row
from nnet3py.ops import formulas

away_from_zero = inline(formulas.away_from_zero)


@kernel("mat mat vec vec f32")
def scale_and_offset(dst, src, scales, offsets, smallest):
    """``dst[i, j] = s[j] src[i, j] + offsets[j]``, s the scales kept away from 0; ``dst`` may be ``src``."""
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            d[j] = s[j] * away_from_zero(scales[j], smallest) + offsets[j]


@kernel("mat mat mat vec vec f32")
def scale_gradient_from_output(dst, y, dy, scales, offsets, smallest):
    """``dst[i, j] = dy[i, j] (y[i, j] - offsets[j]) / s[j]``: the rows' gradients of the scales, from the output."""
    one = np.float32(1)
    for i in range(dst.shape[0]):
        d, v, e = row(dst, i), row(y, i), row(dy, i)
        for j in range(d.shape[0]):
            d[j] = (v[j] - offsets[j]) * (one / away_from_zero(scales[j], smallest)) * e[j]
