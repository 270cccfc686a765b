"""The way back through a batch norm in training mode and the rectifier before it, in one pass over the rows."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from nnet3py.compiler.commands import BACKPROPS
from nnet3py.compiler.fuse.affine import takes_sums
from nnet3py.compiler.fuse.fusion import Call, ComponentCall, Fusion, Scope
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.components.normalize import MEAN, SCALE, BatchNormComponent, num_parts, same_memory, scratch_sums

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
        self._relu_y_is_gone = same_memory(self._relu_args[2], self._norm_args[2])     # fuse/places.py

    def __call__(self) -> None:
        norm = self._norm.component
        if not takes_sums(norm):
            self._run_by_parts(cast(BatchNormComponent, norm))
            return
        ops, relu = self._ops, cast(RectifiedLinearComponent, self._relu.component)
        _, _, y, dy, memo, _, _ = self._norm_args
        _, _, relu_y, _, _, update, dx = self._relu_args
        ops.reset_scratch()
        self._relu.select()
        sums, squares = scratch_sums(ops, dy), ops.scratch(num_parts(dy), norm.dim)
        repair, floor = relu.repair(ops, update), ops.scratch(1, norm.dim)
        if self._relu_y_is_gone:        # 0 was the least of the rectifier's outputs
            ops.copy_mat(floor, memo[MEAN:MEAN + 1], -1.0)
            ops.mul_elements(floor, floor, memo[SCALE:SCALE + 1])
        else:
            ops.set_const(floor, 0.0)
        ops.column_products(sums, y, dy)
        ops.batch_norm_relu_backprop(dx, squares, memo, y, dy, sums, relu_y, floor[0], repair, norm.target_rms)
        if update is not None:
            update.store_output_deriv_parts(ops, squares, dy.shape[0])

    def _run_by_parts(self, norm: BatchNormComponent) -> None:
        """For a batch norm that is in test mode by now."""
        (backprop_norm, norm_args), (backprop_relu, relu_args) = self._parts
        backprop_norm(*norm_args)
        if self._relu_y_is_gone:
            ops, y = self._ops, relu_args[2]
            shifted = ops.scratch(*y.shape)
            ops.copy_mat(shifted, y, 1.0)
            assert norm.test_offset is not None
            ops.add_vec_to_rows(shifted, norm.test_offset, -1.0, 1.0)
            cast(ComponentCall, backprop_relu).run(*relu_args[:2], shifted, *relu_args[3:])
        else:
            backprop_relu(*relu_args)
