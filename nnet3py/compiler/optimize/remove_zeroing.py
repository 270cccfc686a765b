"""Zeroing that is overwritten before anyone reads it."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.optimize.command_lists import drop_commands
from nnet3py.network.nnet import Nnet


def remove_unnecessary_zeroing(computation: Computation, nnet: Nnet) -> Computation:
    """Leave matrices undefined that are written before they are read. Kaldi: RemoveUnnecessaryZeroing."""
    analysis = Analysis(computation, nnet)
    zeroing = np.flatnonzero(analysis.is_zeroing)
    s = analysis.table.rows[zeroing, 0]
    comes_first = analysis.first_of_matrices()[analysis.matrix_of[s]] == zeroing
    zeroing, s = (array[comes_first & analysis.is_whole[s]] for array in (zeroing, s))

    others = np.ones(analysis.num_commands, bool)
    others[zeroing] = False
    first, just_writes = analysis.first_of_variables(others[analysis.commands])
    owner = analysis.variables.matrix
    is_set = np.where(first < analysis.num_commands, just_writes, ~analysis.is_output[owner])
    read = np.zeros(len(computation.matrices), bool)
    read[owner[~is_set]] = True
    return drop_commands(computation, zeroing[~read[analysis.matrix_of[s]]])
