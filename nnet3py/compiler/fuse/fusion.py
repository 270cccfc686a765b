"""What all passes here are, and how a pass makes one command of several.

A new fusion is a file with a subclass of :class:`Fusion`, and a place in ``passes.PASSES``. It says which commands that
follow each other it can run (``match``), and makes the call that runs them (``bind``). It needs an operation of
``ops/table.py`` that does their work; everything else follows: analysis, checks, printing and files look at the parts.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.commands import NO_OPERATIONS, SIZING, WITHOUT_CALL, Command, CommandType, command
from nnet3py.compiler.computation import Computation, Fused, SubMatrix
from nnet3py.components.base import Component, Precomputed
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]     # a function and its arguments

MOST_PARTS = 9      # of a fused command; real networks have four
_PASSED_OVER = SIZING | NO_OPERATIONS      # stands between the parts of a fused command, and goes before or after it
_BARRIERS = (WITHOUT_CALL - _PASSED_OVER) | {CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT,
                                             CommandType.GOTO_LABEL, CommandType.FUSED}


class Pass:
    """A pass: ``name`` is what options call it, ``operation`` what the device must be able to do, or None."""

    name = ""
    operation: str | None = None

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """The computation after the pass; what is given stays as it is."""
        raise NotImplementedError


class ComponentCall(Protocol):
    """The call of a component, as the runtime prepares it for a PROPAGATE or BACKPROP command.

    Its arguments are those of ``Component.propagate`` or ``backprop`` after ``ops``.
    """

    component: Component

    def run(self, *args: object, **named: object) -> None:
        """Run it, without the statistics, after other calls whose scratch space is still needed."""

    def store_stats(self, *args: Any) -> None:
        """Store the statistics of a propagation, if anything is there to take them."""

    def select(self) -> None:
        """Let random numbers be drawn from the call's own stream."""


class Scope:
    """A computation and its network, as fusions look at them."""

    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation, self.nnet, self.commands = computation, nnet, computation.commands
        self.is_looped = bool(self.commands) and self.commands[-1].type == CommandType.GOTO_LABEL

    def component(self, command: Command) -> Component:
        """The component of a PROPAGATE or BACKPROP command."""
        return self.nnet.components[command.args[0]]

    def indexes(self, command: Command) -> Precomputed:
        """What it has precomputed, or None."""
        return self.computation.precomputed_indexes[max(command.args[1], 0)]

    def place(self, s: int) -> SubMatrix:
        """Where the elements of a sub-matrix are, equal for equal places."""
        return self.computation.submatrices[s]

    def is_used_after(self, s: int, c: int) -> bool:
        """Whether a command after ``c``, or the caller, uses the matrix that sub-matrix ``s`` is of."""
        return self.is_looped or bool(self._last_uses[self.computation.submatrices[s].matrix] > c)

    @cached_property
    def _last_uses(self) -> np.ndarray:
        """For each matrix, the last command that does more with it than free it."""
        analysis = Analysis(self.computation, self.nnet)
        return np.where(analysis.is_output, analysis.num_commands, analysis.last_of_matrices())


class Fusion(Pass):
    """A pass that makes one command of several that follow each other."""

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        """How many of the commands ``numbers``, from the first on, are one call; 0 if the first begins none.

        Only sizing stands between them. They must be so that nobody can tell whether they run one after the other.
        """
        raise NotImplementedError

    def bind(self, ops: Ops, parts: Sequence[Call]) -> Call:
        """The call that does what the calls ``parts`` do; those of components are :class:`ComponentCall`.

        Settings that may change between runs are looked at when it is called; what it then cannot do it runs by parts.
        """
        raise NotImplementedError

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """The computation with fused commands where there is something to fuse."""
        scope = Scope(computation, nnet)
        groups = [group for row in _rows(computation) for group in self._groups(scope, row)]
        return _with_groups(computation, nnet, self.name, groups) if groups else computation

    def _groups(self, scope: Scope, row: list[int]) -> list[list[int]]:
        groups, begin = [], 0
        while begin < len(row):
            count = self.match(scope, row[begin:begin + MOST_PARTS])
            if count:
                groups.append(row[begin:begin + count])
            begin += max(count, 1)
        return groups


def _rows(computation: Computation) -> list[list[int]]:
    """The commands that follow each other with nothing but sizing in between, by their numbers."""
    rows: list[list[int]] = [[]]
    for c, present in enumerate(computation.commands):
        if present.type in _BARRIERS:
            rows.append([])
        elif present.type not in _PASSED_OVER:
            rows[-1].append(c)
    return rows


def _with_groups(computation: Computation, nnet: Nnet, name: str, groups: list[list[int]]) -> Computation:
    """With a fused command for each group; what stands between its commands goes before it, or after what it frees."""
    out, old = computation.copy(), computation.commands
    whole = out.whole_submatrices()
    commands: list[Command] = []
    end = 0
    for group in groups:
        commands += old[end:group[0]]
        end = group[-1] + 1
        parts = tuple(old[c] for c in group)
        freed: list[Command] = []
        for between in old[group[0] + 1:group[-1]]:
            if between.type == CommandType.DEALLOC_MATRIX:
                freed.append(between)
            elif between.type == CommandType.SWAP_MATRIX and _uses(out, nnet, parts, between.args[1]):
                taker, giver = (out.submatrices[s].matrix for s in between.args[:2])     # both exist while it runs
                commands.append(command(CommandType.ALLOC_MATRIX, whole[taker]))
                freed.append(command(CommandType.DEALLOC_MATRIX, whole[giver]))
            elif between.type in _PASSED_OVER:
                commands.append(between)
        out.parts.append(Fused(name, parts))
        commands += [command(CommandType.FUSED, len(out.parts) - 1), *freed]
    out.set_commands(commands + old[end:])
    return out


def _uses(computation: Computation, nnet: Nnet, parts: Sequence[Command], s: int) -> bool:
    """Whether these commands access the matrix of sub-matrix ``s``."""
    alone = computation.copy()
    alone.commands, alone.parts = list(parts), []
    return computation.submatrices[s].matrix in Analysis(alone, nnet).matrices
