"""Trained scales and offsets of columns on the CPU. Kaldi: ScaleAndOffsetComponent's own arithmetic."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import inline, row
from nnet3py.ops import formulas
from nnet3py.ops.cpu.operation import operation

away_from_zero = inline(formulas.away_from_zero)


@operation()
def scale_and_offset(dst, src, scales, offsets, smallest):
    for i in range(dst.shape[0]):
        d, s = row(dst, i), row(src, i)
        for j in range(d.shape[0]):
            d[j] = s[j] * away_from_zero(scales[j], smallest) + offsets[j]


@operation()
def scale_gradient_from_output(dst, y, dy, scales, offsets, smallest):
    one = np.float32(1)
    for i in range(dst.shape[0]):
        d, v, e = row(dst, i), row(y, i), row(dy, i)
        for j in range(d.shape[0]):
            d[j] = (v[j] - offsets[j]) * (one / away_from_zero(scales[j], smallest)) * e[j]
