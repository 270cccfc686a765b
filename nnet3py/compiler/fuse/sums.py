"""A matrix that is copied and then added to, as sums of scaled inputs are: one sum of two matrices."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnet3py.compiler.commands import CommandType
from nnet3py.compiler.fuse.fusion import Call, Fusion, Scope

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops


class FuseSums(Fusion):
    """MATRIX_COPY and MATRIX_ADD with one target become ``sum_mats``, which writes it once and does not read it."""

    name = "fuse-sums"
    operation = "sum_mats"

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        """2 for a copy and an addition of something else to the copy."""
        if len(numbers) < 2:
            return 0
        copy, add = (scope.commands[c] for c in numbers[:2])
        if (copy.type, add.type) != (CommandType.MATRIX_COPY, CommandType.MATRIX_ADD):
            return 0
        target, added = scope.place(add.args[0]), scope.place(add.args[1])
        return 2 if scope.place(copy.args[0]) == target != added else 0

    def bind(self, ops: Ops, parts: Sequence[Call]) -> Call:
        """``sum_mats`` of both."""
        (_, (target, first, alpha)), (_, (_, second, beta)) = parts
        return ops.sum_mats, (target, first, second, alpha, beta)
