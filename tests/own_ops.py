"""An ops object made of the slow twins in reference.py, for components whose operations numpy_ops.py does not have."""
from __future__ import annotations

import numpy as np
import reference
from numpy_ops import NumpyOps


def reference_ops(dtype=np.float32) -> NumpyOps:
    """Operations on numpy arrays of ``dtype``, as slow and obvious as can be."""
    ops = NumpyOps(dtype)
    for name, function in vars(reference).items():
        if callable(function) and not hasattr(ops, name):
            setattr(ops, name, function)
    return ops
