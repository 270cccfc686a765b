"""The formulas compiled for the GPU, where they are inlined, too."""
from __future__ import annotations

import math
import operator

import numpy as np

from nnet3py.ops import device
from nnet3py.ops.cuda.threads import device_function
from nnet3py.ops.formulas import Formulas, functions, statistics

_HIGHEST = np.float32(88.0)      # beyond it 1 / (1 + exp(x)) is 0 in any case, and in the simulator math.exp raises


@device_function
def _exp(x):
    """e**x, by the GPU's own means; stays at its value at 88 beyond that; NaN stays NaN."""
    return math.exp(_HIGHEST if x > _HIGHEST else x)


# A GPU multiplies and adds in one operation where it can, with one rounding. Products that are to be rounded as on the
# CPU say so: the variance of equal frames is then 0, and what is left of derivatives that nearly cancel is Kaldi's.
_rounded_product = operator.mul if device.is_simulated() else device.libdevice().fmul_rn

formula = Formulas(device_function, {functions.exp: _exp, statistics.rounded_product: _rounded_product})
