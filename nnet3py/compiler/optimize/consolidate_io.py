"""Inputs are accepted first and outputs provided last, within each part of the computation."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.optimize.command_lists import sort_commands
from nnet3py.compiler.tables import command_table

# Places in a part; its marker, if it begins with one, is before all of them.
_MARKER, _ACCEPT, _OTHER, _PROVIDE = range(4)


def consolidate_io(computation: Computation) -> Computation:
    """Move, between two markers, what accepts input to the front and what provides output to the end.

    Always run: the runtime relies on it. Kaldi: ConsolidateIoOperations.
    """
    types = command_table(computation).types
    is_marker = types == CommandType.NO_OPERATION_MARKER
    place = np.full(len(types), _OTHER)
    place[is_marker] = _MARKER
    place[types == CommandType.ACCEPT_INPUT] = _ACCEPT
    place[types == CommandType.PROVIDE_OUTPUT] = _PROVIDE
    return sort_commands(computation, np.cumsum(is_marker) * (_PROVIDE + 1) + place)
