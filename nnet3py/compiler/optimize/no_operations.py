"""Taking out the commands that do nothing."""
from __future__ import annotations

from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.optimize.command_lists import drop_commands
from nnet3py.compiler.tables import command_table


def remove_no_operations(computation: Computation) -> Computation:
    """Without the commands that do nothing. Kaldi: RemoveNoOps."""
    return drop_commands(computation, command_table(computation).numbers[CommandType.NO_OPERATION])
