"""Lists of commands with some taken out, put in, or in another order; their table goes along where it can."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

import numpy as np

from nnet3py.compiler.analyze import CommandTable, command_table, keep_command_table
from nnet3py.compiler.computation import Command, Computation


def take_commands(computation: Computation, chosen: np.ndarray) -> Computation:
    """With the commands of these numbers, in this order."""
    out = computation.copy()
    out.commands = list(itemgetter(*chosen.tolist())(computation.commands)) if len(chosen) > 1 else [
        computation.commands[c] for c in chosen.tolist()]
    keep_command_table(out, command_table(computation).take(chosen))
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
    """With other commands in place of those of these numbers."""
    if not new:
        return computation
    out = computation.copy()
    for c, one in new.items():
        out.commands[c] = one
    table = command_table(computation)
    chosen = np.arange(len(computation.commands))
    chosen[list(new)] = np.arange(len(chosen), len(chosen) + len(new))
    keep_command_table(out, table.followed_by(CommandTable.of(new.values())).take(chosen))
    return out


def insert_commands(computation: Computation, before: Mapping[int, Sequence[Command]],
                    instead: bool = False) -> Computation:
    """With more commands in front of those of these numbers (how many there are: at the end), or in place of them."""
    places = sorted(before)
    added = [one for c in places for one in before[c]]
    end = len(computation.commands)
    where = np.repeat(places, [len(before[c]) for c in places]).astype(np.int64)
    chosen = np.insert(np.arange(end), where, np.arange(end, end + len(added)))
    return take_commands(add_commands(computation, added), chosen[~np.isin(chosen, places)] if instead else chosen)


def add_commands(computation: Computation, added: Sequence[Command]) -> Computation:
    """With more commands at the end."""
    out = computation.copy()
    out.commands += added
    keep_command_table(out, command_table(computation).followed_by(CommandTable.of(added)))
    return out
