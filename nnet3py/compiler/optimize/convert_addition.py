"""The first addition to a zeroed matrix is a copy."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import Command, CommandType, Computation
from nnet3py.compiler.optimize.command_lists import replace_commands
from nnet3py.network.nnet import Nnet

_COPY_OF = {CommandType.MATRIX_ADD: CommandType.MATRIX_COPY, CommandType.ADD_ROWS: CommandType.COPY_ROWS,
            CommandType.ADD_ROWS_MULTI: CommandType.COPY_ROWS_MULTI,
            CommandType.ADD_TO_ROWS_MULTI: CommandType.COPY_TO_ROWS_MULTI}


def convert_addition(computation: Computation, nnet: Nnet) -> Computation:
    """Turn additions into copies where nothing but zero was in the destination. Kaldi: ConvertAdditionToAssignment."""
    analysis = Analysis(computation, nnet)
    first = analysis.first_nontrivial_accesses()
    new: dict[int, Command] = {}
    for kind, copying in _COPY_OF.items():
        numbers, args = analysis.table.numbers[kind], analysis.table.args[kind]
        if kind == CommandType.ADD_TO_ROWS_MULTI:
            fine = analysis.table.alphas[numbers] == 1.0
            fine &= np.array([_are_first(first, computation.indexes_multi[entry], c)
                              for c, entry in zip(numbers.tolist(), args[:, 1].tolist(), strict=True)], bool)
        else:
            fine = first[args[:, 0]] == numbers
        for c in numbers[fine].tolist():
            command = computation.commands[c]
            new[c] = Command(copying, command.alpha, command.args)
    return replace_commands(computation, new)


def _are_first(first: np.ndarray, pairs: np.ndarray, c: int) -> bool:
    """Whether command ``c`` is the first that uses any of the sub-matrices in the pairs."""
    s = pairs[:, 0]
    return bool((first[s[s > 0]] == c).all())
