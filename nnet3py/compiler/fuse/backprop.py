"""The way back through a batch norm in training mode and the rectifier before it, in one pass over the rows."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from nnet3py.compiler.commands import BACKPROPS
from nnet3py.compiler.fuse.affine import takes_sums
from nnet3py.compiler.fuse.fusion import Call, ComponentCall, Fusion, Scope
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.components.normalize import num_parts, scratch_sums

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops


class FuseBackprop(Fusion):
    """BACKPROP of a batch norm and of the rectifier before it become ``batch_norm_relu_backprop``.

    What lies between them is not written. It keeps its memory, for the two run one by one if the batch norm is put in
    test mode later.
    """

    name = "fuse-backprop"
    operation = "batch_norm_relu_backprop"

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        """2 for both, if nothing else needs the derivative between them."""
        if len(numbers) < 2:
            return 0
        norm, relu = (scope.commands[c] for c in numbers[:2])
        if not (norm.type in BACKPROPS and relu.type in BACKPROPS and takes_sums(scope.component(norm))
                and isinstance(scope.component(relu), RectifiedLinearComponent)):
            return 0
        between, dy, dx = norm.args[5], relu.args[4], relu.args[5]
        if between <= 0 or dx <= 0 or scope.place(dy) != scope.place(between):
            return 0
        return 0 if scope.is_used_after(between, numbers[1]) else 2

    def bind(self, ops: Ops, parts: Sequence[Call]) -> Call:
        """A call without arguments."""
        return _BackpropCall(ops, parts), ()


class _BackpropCall:
    def __init__(self, ops: Ops, parts: Sequence[Call]) -> None:
        self._ops, self._parts = ops, parts
        (norm, self._norm_args), (relu, self._relu_args) = parts
        self._norm, self._relu = cast(ComponentCall, norm), cast(ComponentCall, relu)

    def __call__(self) -> None:
        norm = self._norm.component
        if not takes_sums(norm):
            for part, args in self._parts:
                part(*args)
            return
        ops, relu = self._ops, cast(RectifiedLinearComponent, self._relu.component)
        _, _, y, dy, memo, _, _ = self._norm_args
        _, _, relu_y, _, _, update, dx = self._relu_args
        ops.reset_scratch()
        self._relu.select()
        sums, squares = scratch_sums(ops, dy), ops.scratch(num_parts(dy), norm.dim)
        repair = relu.repair(ops, update)
        ops.column_products(sums, y, dy)
        ops.batch_norm_relu_backprop(dx, squares, memo, y, dy, sums, relu_y, repair, norm.target_rms)
        if update is not None:
            update.store_output_deriv_parts(ops, squares, dy.shape[0])
