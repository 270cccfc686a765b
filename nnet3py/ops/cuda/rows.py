"""Row operations on the GPU; the twins of ``ops/cpu/rows.py``."""
from __future__ import annotations

import numpy as np

from nnet3py.ops.cuda.launch import cuda, kernel

ZERO = np.float32(0)


@kernel("mat mat ivec f32")
def copy_rows(dst, src, indexes, alpha):
    """``dst[i] = alpha src[indexes[i]]``, a zero row where the index is -1. Kaldi: CopyRows."""
    first_col, first_row = cuda.grid(2)
    col_step, row_step = cuda.gridsize(2)
    for i in range(first_row, dst.shape[0], row_step):
        r = indexes[i]
        for j in range(first_col, dst.shape[1], col_step):
            dst[i, j] = alpha * src[r, j] if r >= 0 else ZERO
