"""Zeroing that is overwritten before anybody reads it."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import WRITE, Analysis
from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.optimize.no_operations import drop_commands
from nnet3py.network.nnet import Nnet


def remove_unnecessary_zeroing(computation: Computation, nnet: Nnet) -> Computation:
    """Leave matrices undefined that are written before they are read. Kaldi: RemoveUnnecessaryZeroing."""
    analysis = Analysis(computation, nnet)
    accesses = analysis.accesses
    starts = accesses.starts[:-1]
    counts = np.diff(accesses.starts)
    padded = np.append(accesses.kinds, 0)
    second = np.where(counts > 1, padded[np.minimum(starts + 1, len(padded) - 1)], 0)
    owner = analysis.variables.matrix
    fine = np.where(counts > 1, second == WRITE, ~analysis.is_output[owner])
    unread = np.ones(len(computation.matrices), bool)
    np.logical_and.at(unread, owner, fine)
    removed = []
    for m in range(1, len(computation.matrices)):
        commands, _ = analysis.matrix_accesses.of(m)
        if unread[m] and len(commands) and analysis.is_zeroing[commands[0]]:
            one = computation.commands[commands[0]]
            if one.type == CommandType.SET_CONST and analysis.is_whole[one.args[0]]:
                removed.append(int(commands[0]))
    return drop_commands(computation, removed)
