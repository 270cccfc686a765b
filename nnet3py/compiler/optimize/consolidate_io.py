"""Inputs are accepted first and outputs provided last, within each part of the computation."""
from __future__ import annotations

from nnet3py.compiler.computation import CommandType, Computation

_PLACE = {CommandType.ACCEPT_INPUT: 0, CommandType.PROVIDE_OUTPUT: 2}


def consolidate_io(computation: Computation) -> Computation:
    """Move, between two markers, what accepts input to the front and what provides output to the end.

    Always run: the runtime relies on it. Kaldi: ConsolidateIoOperations.
    """
    segment, place = 0, []
    for command in computation.commands:
        is_marker = command.type == CommandType.NO_OPERATION_MARKER
        segment += is_marker
        place.append((segment, -1 if is_marker else _PLACE.get(command.type, 1)))
    out = computation.copy()
    out.commands = [computation.commands[i] for i in sorted(range(len(place)), key=place.__getitem__)]
    return out
