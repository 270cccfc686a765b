"""Copies of rows that follow each other are copies of matrices."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation
from nnet3py.network.nnet import Nnet

_WHOLE = {CommandType.COPY_ROWS: CommandType.MATRIX_COPY, CommandType.ADD_ROWS: CommandType.MATRIX_ADD}


def replace_row_ops(computation: Computation, nnet: Nnet) -> Computation:
    """Turn row commands whose rows are one ascending run into commands on windows of the matrices.

    What a copy would set to zero around the run has to be zero already, as it is while the zeroing that follows every
    allocation is still there. Kaldi: ReplaceRowWithMatrixOps.
    """
    out = computation.copy()
    windows: dict[tuple[int, int, int], int] = {}

    def window(s: int, begin: int, length: int) -> int:
        if length == out.submatrices[s].num_rows:
            return s
        if (s, begin, length) not in windows:
            windows[s, begin, length] = out.new_submatrix(s, begin, length, 0, -1)
        return windows[s, begin, length]

    for c, one in enumerate(computation.commands):
        if one.type not in _WHOLE:
            continue
        run = _only_run(computation.indexes[one.args[2]])
        if run is not None:
            at, first, length = run
            args = window(one.args[0], at, length), window(one.args[1], first, length), *(-1,) * 5
            out.commands[c] = Command(_WHOLE[one.type], one.alpha, args)
    return out


def _only_run(rows: np.ndarray) -> tuple[int, int, int] | None:
    """Place, first value and length if ``rows`` is one ascending run with -1 before and after it, else None."""
    present = np.flatnonzero(rows >= 0)
    if not len(present):
        return None
    at, length = int(present[0]), len(present)
    first = int(rows[at])
    if present[-1] - at + 1 != length or not (rows[present] == np.arange(first, first + length)).all():
        return None
    return at, first, length
