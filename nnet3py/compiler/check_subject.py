"""What the checker's rules look at: a command list and its network as arrays, each made when a rule first needs it."""
from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.commands import CommandType, command
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.describe import CommandPrinter
from nnet3py.compiler.tables import CommandTable, command_table, matrix_sizes, submatrix_table, whole_submatrices
from nnet3py.components.base import Properties
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet


class Subject:
    """A computation, its network, and the rule that looks at them.

    Attributes
    ----------
    rows, cols : int64 (sub-matrices,), sizes
    flags : int64 (components,), their properties
    input_dim, output_dim : int64 (components,)
    after : the pass that made the computation, for errors
    """

    def __init__(self, computation: Computation, nnet: Nnet, after: str = "") -> None:
        self.computation, self.nnet, self.after = computation, nnet, after
        self.rule = ""
        self.is_looped = any(last.type == CommandType.GOTO_LABEL for last in computation.commands[-1:])
        self.flags = np.array([int(component.properties) for component in nnet.components], np.int64)
        self.input_dim = np.array([component.input_dim for component in nnet.components], np.int64)
        self.output_dim = np.array([component.output_dim for component in nnet.components], np.int64)

    def apply(self, rule: Callable[[Subject], None]) -> None:
        """Raise CheckError if the rule is broken; its name is that of the function, with hyphens."""
        self.rule = rule.__name__.replace("_", "-")
        rule(self)

    # -- arrays ----------------------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> CommandTable:
        return command_table(self.computation)

    @cached_property
    def alphas(self) -> np.ndarray:
        """The factor of every command, float64."""
        return self.table.alphas

    @cached_property
    def submatrices(self) -> np.ndarray:
        """int64 (sub-matrices, 5), in the order of SubMatrix's fields."""
        return submatrix_table(self.computation)

    @cached_property
    def sizes(self) -> np.ndarray:
        """int64 (matrices, 2)."""
        return matrix_sizes(self.computation)

    @cached_property
    def matrix_of(self) -> np.ndarray:
        return self.submatrices[:, 0]

    @cached_property
    def rows(self) -> np.ndarray:
        return self.submatrices[:, 2]

    @cached_property
    def cols(self) -> np.ndarray:
        return self.submatrices[:, 4]

    @cached_property
    def is_whole(self) -> np.ndarray:
        """bool (sub-matrices,)."""
        return whole_submatrices(self.computation)

    @cached_property
    def analysis(self) -> Analysis:
        """Which commands use what. In a looped computation the swaps at the end are taken as in one round.

        They free a matrix, and give what it holds to one that the round has used and freed, for the next round.
        """
        if not self.is_looped:
            return Analysis(self.computation, self.nnet)
        straight = self.computation.copy()
        for c in range(len(straight.commands) - 2, -1, -1):
            swap = straight.commands[c]
            if swap.type != CommandType.SWAP_MATRIX:
                break
            straight.commands[c] = command(CommandType.DEALLOC_MATRIX, swap.args[1])
        return Analysis(straight, self.nnet)

    def has(self, components: np.ndarray, flag: Properties) -> np.ndarray:
        """bool, for each of the components (int): whether it has this property."""
        return np.asarray(self.flags[components] & int(flag) != 0)

    # -- comparing sub-matrices ------------------------------------------------------------------------------------

    def same_place(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """bool, for each pair of sub-matrices: whether they are the same elements."""
        return np.asarray((self.submatrices[a] == self.submatrices[b]).all(axis=1) & (a > 0))

    def overlap(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """bool, for each pair of sub-matrices: whether they have elements in common."""
        first, second = self.submatrices[a], self.submatrices[b]
        common = (first[:, 0] == second[:, 0]) & (a > 0) & (b > 0)
        for offset in (1, 3):
            end = np.minimum(first[:, offset] + first[:, offset + 1], second[:, offset] + second[:, offset + 1])
            common &= np.maximum(first[:, offset], second[:, offset]) < end
        return np.asarray(common)

    # -- errors ----------------------------------------------------------------------------------------------------

    def require(self, kind: CommandType, fine: np.ndarray, what: str) -> None:
        """Fail for the first command of this type whose place in ``fine`` (bool) is false."""
        if not fine.all():
            self.fail(what, int(self.table.numbers[kind][np.argmin(fine)]))

    def fail(self, what: str, c: int | None = None) -> NoReturn:
        """Raise the error: what is wrong, in which command, by which rule and after which pass."""
        where = "" if c is None else f" in command {self._text(c)}"
        after_pass = f" after {self.after}" if self.after else ""
        raise CheckError(f"{what}{where} [rule {self.rule}{after_pass}]", rule=self.rule, command=c, after=self.after)

    def _text(self, c: int) -> str:
        """The command as it is printed, or if it cannot be printed, its number, name and arguments."""
        shown = self.computation.commands[c]
        try:
            return CommandPrinter(self.computation, self.nnet).line(c).strip()
        except (IndexError, KeyError, ValueError, TypeError, AttributeError):      # its arguments make no sense
            return f"c{c}: {shown.type!r}{tuple(shown.args)}"
