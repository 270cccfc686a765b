"""The step of the orthonormal constraint on the CPU; ``network/whole_model.py`` computes the products before and after.

The other operations of the family, eigenvectors and orthogonalization, call LAPACK and are in ``plain.py``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.jit import row
from nnet3py.ops.cpu.operation import formula, operation
from nnet3py.ops.formulas.updates import ZERO, orthonormal_move

_move = formula(orthonormal_move)


@operation()
def orthonormal_step(p, ratio, constraint):
    trace, trace_of_square = 0.0, 0.0
    for i in range(p.shape[0]):
        r = row(p, i)
        trace += r[i]
        for j in range(r.shape[0]):
            trace_of_square += np.float64(r[j]) * np.float64(r[j])
    factor, square, ratio[0] = _move(trace, trace_of_square, p.shape[0], constraint)
    for i in range(p.shape[0]):
        r = row(p, i)
        r[i] -= square
        for j in range(r.shape[0]):
            r[j] = factor * r[j] if factor != ZERO else ZERO
