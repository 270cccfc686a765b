"""Lists of commands with some taken out, put in, or in another order; their table goes along where it can."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

import numpy as np

from nnet3py.compiler.analyze import CommandTable, command_table
from nnet3py.compiler.computation import Command, Computation


def take_commands(computation: Computation, chosen: np.ndarray) -> Computation:
    """With the commands of these numbers, in this order."""
    out = computation.copy()
    out.commands = list(itemgetter(*chosen.tolist())(computation.commands)) if len(chosen) > 1 else [
        computation.commands[c] for c in chosen.tolist()]
    out.keep(CommandTable, command_table(computation).take(chosen), "commands")
    return out


def sort_commands(computation: Computation, places: np.ndarray) -> Computation:
    """With the commands in the order of their ``places``, a number for each; what has equal ones stays in order."""
    if (places[1:] >= places[:-1]).all():
        return computation
    return take_commands(computation, np.argsort(places, kind="stable"))


def drop_commands(computation: Computation, numbers: Collection[int] | np.ndarray) -> Computation:
    """Without the commands of these numbers. Jumps are set up after everything that removes commands."""
    if not len(numbers):
        return computation
    stays = np.ones(len(computation.commands), bool)
    stays[numbers if isinstance(numbers, np.ndarray) else list(numbers)] = False
    return take_commands(computation, np.flatnonzero(stays))


def insert_commands(computation: Computation, before: Mapping[int, Sequence[Command]]) -> Computation:
    """With more commands in front of those of these numbers."""
    out = computation.copy()
    out.commands = []
    begin = 0
    for c in sorted(before):
        out.commands += computation.commands[begin:c]
        out.commands += before[c]
        begin = c
    out.commands += computation.commands[begin:]
    return out
