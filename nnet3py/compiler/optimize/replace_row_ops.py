"""Copies of rows that follow each other are copies of matrices."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation, command
from nnet3py.compiler.optimize.command_lists import replace_commands
from nnet3py.compiler.tables import command_table
from nnet3py.network.nnet import Nnet

_WHOLE = {CommandType.COPY_ROWS: CommandType.MATRIX_COPY, CommandType.ADD_ROWS: CommandType.MATRIX_ADD}


def replace_row_ops(computation: Computation, nnet: Nnet) -> Computation:
    """Turn row commands whose rows are one ascending run into commands on windows of the matrices.

    What a copy would set to zero around the run has to be zero already, as it is while the zeroing that follows every
    allocation is still there. Kaldi: ReplaceRowWithMatrixOps.
    """
    table = command_table(computation)
    out = computation.copy()
    windows: dict[tuple[int, int, int], int] = {}
    runs: dict[int, tuple[int, int, int] | None] = {}
    new: dict[int, Command] = {}

    def window(s: int, begin: int, length: int) -> int:
        if length == out.submatrices[s].num_rows:
            return s
        if (s, begin, length) not in windows:
            windows[s, begin, length] = out.new_submatrix(s, begin, length, 0, -1)
        return windows[s, begin, length]

    for c in np.sort(np.concatenate([table.numbers[kind] for kind in _WHOLE])).tolist():
        kind, alpha, (target, source, entry, *_) = computation.commands[c]
        if entry not in runs:
            runs[entry] = _only_run(computation.indexes[entry])
        run = runs[entry]
        if run is not None:
            at, first, length = run
            new[c] = command(_WHOLE[kind], window(target, at, length), window(source, first, length), alpha=alpha)
    return replace_commands(out, new)


def _only_run(rows: np.ndarray) -> tuple[int, int, int] | None:
    """Place, first value and length if ``rows`` is one ascending run with -1 before and after it, else None."""
    count = len(rows)
    if count and rows[0] >= 0 and rows[-1] - rows[0] == count - 1 and (np.diff(rows) == 1).all():
        return 0, int(rows[0]), count
    present = np.flatnonzero(rows >= 0)
    if not len(present):
        return None
    at, length = int(present[0]), len(present)
    first = int(rows[at])
    if present[-1] - at + 1 != length or not (rows[present] == np.arange(first, first + length)).all():
        return None
    return at, first, length
