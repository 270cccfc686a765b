"""The command list: what the compiler makes, the optimizer changes and the runtime binds. Data only.

Kaldi: ``NnetComputation`` (nnet-computation.h).
"""
from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from nnet3py.compiler.command_list import CommandList, Fused, MatrixDebugInfo, MatrixInfo, SubMatrix
from nnet3py.compiler.commands import COMMANDS, Command, CommandType, Role, command
from nnet3py.compiler.describe import describe_computation
from nnet3py.provided import Shown

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

__all__ = ["COMMANDS", "Command", "CommandType", "Computation", "Fused", "MatrixDebugInfo", "MatrixInfo", "Role",
           "SubMatrix", "command"]


_Made = TypeVar("_Made")


@dataclass(repr=False)
class Computation(CommandList, Shown):
    """A command list, with what is derived from it kept until a list changes."""

    _kept: dict[Callable[..., Any], tuple[list[list[Any]], Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False)

    def copy(self) -> Computation:
        """A computation with lists of its own; the arrays in them are shared, for they are never changed."""
        other = copy.copy(self)
        for name in ("matrices", "submatrices", "commands", "indexes", "indexes_multi", "indexes_ranges",
                     "precomputed_indexes", "precomputed_rows", "debug_info", "parts"):
            setattr(other, name, list(getattr(self, name)))
        other._kept = dict(self._kept)
        return other

    # -- fused commands --------------------------------------------------------------------------------------------

    def fits(self, nnet: Nnet) -> bool:
        """Whether the components whose commands were left out still do nothing but copy."""
        return all(nnet.components[c].copies_its_input for c in self.copying)

    def unfused(self) -> Computation:
        """The same with fused commands replaced by their parts, so that all commands are Kaldi's."""
        if not self.parts:
            return self
        out = self.copy()
        out.parts, out.places = [], {}
        out.set_commands([part for command in self.commands for part in self.parts_of(command)])
        return out

    def set_commands(self, commands: list[Command]) -> None:
        """Take these commands; a jump, if there is one, leads to where the label is now."""
        if commands and commands[-1].type == CommandType.GOTO_LABEL:
            label = next(c for c, each in enumerate(commands) if each.type == CommandType.NO_OPERATION_LABEL)
            commands[-1] = command(CommandType.GOTO_LABEL, label)
        self.commands = commands

    # -- what is made of the lists ---------------------------------------------------------------------------------

    def made(self, make: Callable[[Computation], _Made], *names: str) -> _Made:
        """``make(self)``, made again only when the lists of these names have changed since; not for lists of arrays.

        Lists are compared element by element, which is fast since their elements mostly are the very same objects.
        """
        lists_before, kept = self._kept.get(make, ([], None))
        result: _Made = kept
        if not lists_before or any(old != getattr(self, name) for old, name in zip(lists_before, names, strict=True)):
            result = make(self)
            self.keep(make, result, *names)
        return result

    def keep(self, make: Callable[[Computation], _Made], result: _Made, *names: str) -> None:
        """Keep what :meth:`made` would make of the lists as they are."""
        self._kept[make] = [list(getattr(self, name)) for name in names], result

    def invalidate_caches(self) -> None:
        """Free the memory of everything that :meth:`made` keeps."""
        self._kept.clear()

    def __repr__(self) -> str:
        size = 4 * sum(matrix.num_rows * matrix.num_cols for matrix in self.matrices)
        return (f"<Computation: {len(self.commands)} commands, {len(self.matrices) - 1} matrices of {size:,} bytes "
                f"together{', with a backward pass' if self.need_model_derivative else ''}; "
                "print(computation.describe(nnet)) lists them>")

    def describe(self, nnet: Nnet) -> str:
        """The text that Kaldi prints for a computation."""
        return describe_computation(self, nnet)
