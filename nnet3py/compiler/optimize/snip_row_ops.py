"""Additions of rows leave out the rows at both ends that get nothing."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation
from nnet3py.compiler.optimize.command_lists import replace_commands
from nnet3py.compiler.tables import command_table
from nnet3py.network.nnet import Nnet

# Where each command keeps its rows, and which argument refers to them. A copy is not among them that sets its other
# rows to zero.
_ROWS_OF = {CommandType.ADD_ROWS: ("indexes", 2), CommandType.ADD_ROWS_MULTI: ("indexes_multi", 1),
            CommandType.ADD_TO_ROWS_MULTI: ("indexes_multi", 1), CommandType.COPY_TO_ROWS_MULTI: ("indexes_multi", 1),
            CommandType.ADD_ROW_RANGES: ("indexes_ranges", 2)}


def snip_row_ops(computation: Computation, nnet: Nnet) -> Computation:
    """Let row commands work on the window between the first and the last row for which there is something to do.

    Kaldi: SnipRowOps.
    """
    table = command_table(computation)
    out = computation.copy()
    new: dict[int, Command] = {}
    for c in np.sort(np.concatenate([table.numbers[kind] for kind in _ROWS_OF])).tolist():
        command = computation.commands[c]
        name, place = _ROWS_OF[command.type]
        entries = getattr(out, name)
        entry = entries[command.args[place]]
        begin, end = _occupied(entry)
        if (begin, end) == (0, len(entry)):
            continue
        entries.append(entry[begin:end])
        args = list(command.args)
        args[0] = out.new_submatrix(command.args[0], begin, end - begin, 0, -1)
        args[place] = len(entries) - 1
        new[c] = Command(command.type, command.alpha, tuple(args))
    return replace_commands(out, new) if new else computation


def _occupied(entry: np.ndarray) -> tuple[int, int]:
    """Begin and end of what is left without the -1 at both ends; everything if there is nothing else."""
    rows = entry if entry.ndim == 1 else entry[:, 0]
    if len(rows) and rows[0] >= 0 and rows[-1] >= 0:
        return 0, len(rows)
    present = np.flatnonzero(rows >= 0)
    return (int(present[0]), int(present[-1]) + 1) if len(present) else (0, len(rows))
