"""Copies of rows that follow each other are copies of matrices."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation, command
from nnet3py.compiler.graph import ragged
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
    new: dict[int, Command] = {}

    def window(s: int, begin: int, length: int) -> int:
        if length == out.submatrices[s].num_rows:
            return s
        if (s, begin, length) not in windows:
            windows[s, begin, length] = out.new_submatrix(s, begin, length, 0, -1)
        return windows[s, begin, length]

    numbers = np.sort(np.concatenate([table.numbers[kind] for kind in _WHOLE]))
    runs = _only_runs([computation.indexes[entry] for entry in table.rows[numbers, 2].tolist()])
    for c, (at, first, length) in zip(numbers.tolist(), runs.tolist(), strict=True):
        if length:
            kind, alpha, (target, source, *_) = computation.commands[c]
            new[c] = command(_WHOLE[kind], window(target, at, length), window(source, first, length), alpha=alpha)
    return replace_commands(out, new)


def _only_runs(lists: list[np.ndarray]) -> np.ndarray:
    """For each list of rows: place, first value and length of its only ascending run with -1 before and after it.

    int64 (lists, 3), of length 0 where there are other rows than those of one run.
    """
    runs = np.zeros((len(lists), 3), np.int64)
    filled = np.flatnonzero([len(rows) for rows in lists])
    if not len(filled):
        return runs
    rows = np.concatenate([lists[i] for i in filled.tolist()])
    lengths = np.array([len(lists[i]) for i in filled.tolist()])
    starts = np.cumsum(lengths) - lengths
    place = ragged(np.zeros_like(starts), lengths)
    present = rows >= 0
    count = np.add.reduceat(present, starts, dtype=np.int64)
    at = np.minimum.reduceat(np.where(present, place, len(rows)), starts)
    last = np.maximum.reduceat(np.where(present, place, -1), starts)
    # In a run the values go up with the places, so their difference is always the same.
    shift = rows - place
    least = np.minimum.reduceat(np.where(present, shift, np.iinfo(np.int64).max), starts)
    greatest = np.maximum.reduceat(np.where(present, shift, np.iinfo(np.int64).min), starts)
    is_run = (count > 0) & (last - at + 1 == count) & (least == greatest)
    runs[filled[is_run]] = np.stack((at, least + at, count), axis=1)[is_run]
    return runs
