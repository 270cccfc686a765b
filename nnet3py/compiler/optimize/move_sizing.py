"""Matrices are allocated just before their first use and freed just after their last."""
from __future__ import annotations

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.network.nnet import Nnet


def move_sizing_commands(computation: Computation, nnet: Nnet) -> Computation:
    """Shorten the time for which memory is held. Kaldi: MoveSizingCommands."""
    analysis = Analysis(computation, nnet)
    commands = computation.commands
    place = [3 * c for c in range(len(commands))]
    for c, one in enumerate(commands):
        if one.type not in (CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX):
            continue
        uses, _ = analysis.matrix_accesses.of(int(analysis.matrix_of[one.args[0]]))
        if not len(uses):
            continue
        if one.type == CommandType.DEALLOC_MATRIX:
            place[c] = 3 * int(uses[-1]) + 1
            continue
        first = int(uses[0])
        zeroed_next = (first == c + 1 and analysis.is_zeroing[first] and commands[first].args[0] == one.args[0])
        if zeroed_next and len(uses) > 1:        # the zeroing moves along, right behind the allocation
            first = int(uses[1])
            place[c + 1] = 3 * first - 1
        if not zeroed_next or len(uses) > 1:
            place[c] = 3 * first - 1
    out = computation.copy()
    out.commands = [commands[c] for c in sorted(range(len(commands)), key=place.__getitem__)]
    return out
