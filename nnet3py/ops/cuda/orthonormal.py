"""The step of the orthonormal constraint on the GPU, in one block; the twin of ``ops/cpu/orthonormal.py``."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.formulas import formula
from nnet3py.ops.cuda.launch import operation
from nnet3py.ops.cuda.reduce import MOST_THREADS, launch_square, sum_over_block
from nnet3py.ops.cuda.threads import block_rows, cuda, is_first_of_block, row, team_columns
from nnet3py.ops.formulas.orthonormal import ZERO, orthonormal_move

DOUBLE_ZERO = np.float64(0)
_move = formula(orthonormal_move)


@operation(shape=launch_square)
def orthonormal_step(p, ratio, constraint):
    shared = cuda.shared.array(MOST_THREADS, np.float64)
    trace, trace_of_square = DOUBLE_ZERO, DOUBLE_ZERO
    for i in block_rows(p.shape[0]):
        r = row(p, i)
        for place in team_columns(r.shape[0]):
            j = np.int64(place)
            value = np.float64(r[j])
            trace_of_square += value * value
            if i == j:
                trace += value
    trace, trace_of_square = sum_over_block(shared, trace), sum_over_block(shared, trace_of_square)
    factor, square, new_ratio = _move(trace, trace_of_square, p.shape[0], constraint)
    if is_first_of_block():
        ratio[0] = new_ratio
    for i in block_rows(p.shape[0]):
        r = row(p, i)
        for place in team_columns(r.shape[0]):
            j = np.int64(place)
            value = r[j] - square if i == j else r[j]
            r[j] = factor * value if factor != ZERO else ZERO
