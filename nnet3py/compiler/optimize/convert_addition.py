"""The first addition to a zeroed matrix is a copy."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import Command, CommandType, Computation
from nnet3py.network.nnet import Nnet

_COPY_OF = {CommandType.MATRIX_ADD: CommandType.MATRIX_COPY, CommandType.ADD_ROWS: CommandType.COPY_ROWS,
            CommandType.ADD_ROWS_MULTI: CommandType.COPY_ROWS_MULTI,
            CommandType.ADD_TO_ROWS_MULTI: CommandType.COPY_TO_ROWS_MULTI}


def convert_addition(computation: Computation, nnet: Nnet) -> Computation:
    """Turn additions into copies where nothing but zero was in the destination. Kaldi: ConvertAdditionToAssignment."""
    first = Analysis(computation, nnet).first_nontrivial_accesses()
    out = computation.copy()
    for c, one in enumerate(computation.commands):
        kind = _COPY_OF.get(one.type)
        if kind is None or (kind == CommandType.COPY_TO_ROWS_MULTI and one.alpha != 1.0):
            continue
        if all(first[s] == c for s in _written(computation, one)):
            out.commands[c] = one._replace(type=kind)
    return out


def _written(computation: Computation, one: Command) -> list[int]:
    if one.type != CommandType.ADD_TO_ROWS_MULTI:
        return [one.args[0]]
    s = np.unique(computation.indexes_multi[one.args[1]][:, 0])
    return s[s > 0].tolist()
