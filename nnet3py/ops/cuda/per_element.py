"""Trained scales and offsets of columns on the GPU; the twins of ``ops/cpu/per_element.py``."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.each_element import each_element
from nnet3py.ops.cuda.element_formulas import away_from_zero

ONE = np.float32(1)


@each_element
def scale_and_offset(dst, src, scales, offsets, smallest):
    return src * away_from_zero(scales, smallest) + offsets


@each_element
def scale_gradient_from_output(dst, y, dy, scales, offsets, smallest):
    return (y - offsets) * (ONE / away_from_zero(scales, smallest)) * dy
