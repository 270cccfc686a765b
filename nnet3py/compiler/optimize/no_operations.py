"""Taking commands out of a list."""
from __future__ import annotations

from collections.abc import Collection

from nnet3py.compiler.computation import CommandType, Computation


def drop_commands(computation: Computation, numbers: Collection[int]) -> Computation:
    """Without the commands of these numbers. Jumps are set up after everything that removes commands."""
    if not numbers:
        return computation
    gone = set(numbers)
    out = computation.copy()
    out.commands = [one for c, one in enumerate(computation.commands) if c not in gone]
    return out


def remove_no_operations(computation: Computation) -> Computation:
    """Without the commands that do nothing. Kaldi: RemoveNoOps."""
    return drop_commands(computation, [c for c, one in enumerate(computation.commands)
                                       if one.type == CommandType.NO_OPERATION])
