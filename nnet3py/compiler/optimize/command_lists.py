"""Lists of commands with some taken out, put in, or in another order; their table goes along where it can."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from nnet3py.compiler.computation import Command, Computation
from nnet3py.compiler.tables import CommandTable, command_table, keep_command_table


def take_commands(computation: Computation, chosen: np.ndarray, added: Collection[Command] = ()) -> Computation:
    """With the commands of these numbers, in this order; the numbers go on with those of the commands ``added``."""
    commands, table = computation.commands, command_table(computation)
    if added:
        commands, table = [*commands, *added], table.followed_by(CommandTable.of(added))
    out = computation.copy()
    out.commands = list(map(commands.__getitem__, chosen.tolist()))
    keep_command_table(out, table.take(chosen))
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


def replace_commands(computation: Computation, new: Mapping[int, Command]) -> Computation:
    """With another command in place of each of these numbers."""
    if not new:
        return computation
    chosen = np.arange(len(computation.commands))
    chosen[list(new)] = np.arange(len(chosen), len(chosen) + len(new))
    return take_commands(computation, chosen, new.values())


def substitute_commands(computation: Computation, new: Mapping[int, Sequence[Command]]) -> Computation:
    """With any number of commands in place of each of these numbers; the number of commands stands for the end."""
    if not new:
        return computation
    places = sorted(new)
    added = [command for c in places for command in new[c]]
    end = len(computation.commands)
    where = np.repeat(places, [len(new[c]) for c in places])
    stays = np.ones(end + len(added), bool)
    stays[[c for c in places if c < end]] = False
    chosen = np.insert(np.arange(end), where, np.arange(end, end + len(added)))
    return take_commands(computation, chosen[stays[chosen]], added)
