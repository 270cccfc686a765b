"""Random damage to command lists, and running them with operations that notice an access out of bounds."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy_ops import NumpyOps

from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import COMMANDS, CommandType, Computation
from nnet3py.compiler.request import ComputationRequest
from nnet3py.errors import CheckError, Nnet3Error
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer

Rng = np.random.Generator


def _any(rng: Rng, items: list[Any]) -> int:
    return int(rng.integers(len(items)))


def _number(rng: Rng, near: int) -> int:
    """Something near, something small, or something odd."""
    return int(rng.choice([near - 1, near + 1, int(rng.integers(0, 12)), -1, 0, 10**6, -10**6]))


# -- one kind of damage each -------------------------------------------------------------------------------------------


def argument(rng: Rng, one: Computation) -> None:
    c = _any(rng, one.commands)
    place = int(rng.integers(0, max(1, len(COMMANDS[one.commands[c].type].roles))))
    args = list(one.commands[c].args)
    args[place] = _number(rng, args[place])
    one.commands[c] = one.commands[c]._replace(args=tuple(args))


def argument_of_another(rng: Rng, one: Computation) -> None:
    c, other = _any(rng, one.commands), _any(rng, one.commands)
    place = int(rng.integers(0, 7))
    args = list(one.commands[c].args)
    args[place] = one.commands[other].args[int(rng.integers(0, 7)) if rng.random() < 0.5 else place]
    one.commands[c] = one.commands[c]._replace(args=tuple(args))


def lost_command(rng: Rng, one: Computation) -> None:
    one.commands.pop(_any(rng, one.commands))


def repeated_command(rng: Rng, one: Computation) -> None:
    one.commands.insert(_any(rng, one.commands), one.commands[_any(rng, one.commands)])


def moved_command(rng: Rng, one: Computation) -> None:
    moved = one.commands.pop(_any(rng, one.commands))
    one.commands.insert(_any(rng, one.commands), moved)


def command_type(rng: Rng, one: Computation) -> None:
    c = _any(rng, one.commands)
    one.commands[c] = one.commands[c]._replace(type=CommandType(int(rng.integers(len(CommandType)))))


def factor(rng: Rng, one: Computation) -> None:
    c = _any(rng, one.commands)
    one.commands[c] = one.commands[c]._replace(alpha=float(rng.choice([0.0, -1.0, 3.0, np.nan])))


def matrix(rng: Rng, one: Computation) -> None:
    m, field = _any(rng, one.matrices), str(rng.choice(["num_rows", "num_cols"]))
    old = getattr(one.matrices[m], field)
    one.matrices[m] = one.matrices[m]._replace(**{field: int(rng.choice([old - 1, old + 1, old * 2, 0, -3]))})


def submatrix(rng: Rng, one: Computation) -> None:
    s = _any(rng, one.submatrices)
    place = int(rng.integers(0, 5))
    fields = list(one.submatrices[s])
    fields[place] = _number(rng, fields[place])
    one.submatrices[s] = type(one.submatrices[s])(*fields)


def submatrix_of_another(rng: Rng, one: Computation) -> None:
    one.submatrices[_any(rng, one.submatrices)] = one.submatrices[_any(rng, one.submatrices)]


def index_list(rng: Rng, one: Computation) -> None:
    lists = [entries for entries in (one.indexes, one.indexes_multi, one.indexes_ranges) if entries]
    if not lists:
        return
    entries = lists[_any(rng, lists)]
    number = _any(rng, entries)
    entry = entries[number].copy()
    kind = rng.random()
    if kind < 0.6 and entry.size:
        flat = entry.reshape(-1)
        place = _any(rng, flat)
        flat[place] = _number(rng, int(flat[place]))
    elif kind < 0.8:
        entry = entry[:-1]
    else:
        entry = entries[_any(rng, entries)]
    entries[number] = entry


def precomputed(rng: Rng, one: Computation) -> None:
    one.precomputed_indexes[_any(rng, one.precomputed_indexes)] = one.precomputed_indexes[
        _any(rng, one.precomputed_indexes)]


DAMAGES: list[Callable[[Rng, Computation], None]] = [
    argument, argument, argument_of_another, argument_of_another, lost_command, repeated_command, moved_command,
    command_type, factor, matrix, submatrix, submatrix, submatrix_of_another, index_list, index_list, index_list,
    precomputed]


def damaged(rng: Rng, computation: Computation) -> tuple[str, Computation]:
    """A copy with one kind of damage, whose name comes with it."""
    broken = computation.copy()
    damage = DAMAGES[_any(rng, DAMAGES)]
    damage(rng, broken)
    return damage.__name__, broken


# -- running -----------------------------------------------------------------------------------------------------------


def is_refused(computation: Computation, nnet: Nnet) -> bool:
    """Whether the checker refuses it; any other error is the checker's own fault."""
    try:
        check_computation(computation, nnet, thorough=True)
    except CheckError:
        return True
    return False


def run_in_bounds(computation: Computation, nnet: Nnet, asked: ComputationRequest) -> None:
    """Run with the slow operations, which raise IndexError or ValueError for what is out of bounds.

    Errors of the package's own are fine: the caller is told that inputs or outputs are not as expected.
    """
    rng = np.random.default_rng(0)
    gradient = nnet.as_gradient() if computation.need_model_derivative else None
    try:
        computer = Computer(computation, nnet, update=gradient, ops=NumpyOps())
        for ios in (asked.inputs, [io for io in asked.outputs if io.has_deriv]):
            for io in ios:
                dim = nnet.node_dim(nnet.node_index(io.name))
                computer.accept_input(io.name, rng.standard_normal((len(io.indexes), dim), dtype=np.float32))
            computer.run()
            if not asked.needs_derivatives():
                break
    except Nnet3Error:
        pass
