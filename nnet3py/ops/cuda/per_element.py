"""Trained scales and offsets of columns on the GPU; the twins of ``ops/cpu/per_element.py``."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.element_formulas import away_from_zero
from nnet3py.ops.cuda.launch import kernel
from nnet3py.ops.cuda.threads import own_columns, own_rows, row

ONE = np.float32(1)


@kernel("mat mat vec vec f32")
def scale_and_offset(dst, src, scales, offsets, smallest):
    """``dst[i, j] = s[j] src[i, j] + offsets[j]``, s the scales kept away from 0; ``dst`` may be ``src``."""
    for i in own_rows(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in own_columns(d.shape[0]):
            d[j] = s[j] * away_from_zero(scales[j], smallest) + offsets[j]


@kernel("mat mat mat vec vec f32")
def scale_gradient_from_output(dst, y, dy, scales, offsets, smallest):
    """``dst[i, j] = dy[i, j] (y[i, j] - offsets[j]) / s[j]``: the rows' gradients of the scales, from the output."""
    for i in own_rows(dst.shape[0]):
        d, v, e = row(dst, i), row(y, i), row(dy, i)
        for j in own_columns(d.shape[0]):
            d[j] = (v[j] - offsets[j]) * (ONE / away_from_zero(scales[j], smallest)) * e[j]
