"""Prepared calls: of components, for PROPAGATE and BACKPROP commands, and of fused commands.

A call is a function and its arguments. The function of a fused command computes the same as the calls of its parts.
Settings that may change between runs are checked in each run: if they no longer allow the fused operation, the parts
run one by one.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from nnet3py.compiler.fuse.fusion import (
    Epilogue,
    FuseAffine,
    FuseBackprop,
    FuseSums,
    component_epilogue,
    spliced_input,
    takes_sums,
)
from nnet3py.components.affine import AffineMap
from nnet3py.components.base import Component, Memo, Precomputed
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.components.normalize import MEAN, SCALE, BatchNormComponent, num_parts, same_memory, scratch_sums

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]     # a function and its arguments

# -- components --------------------------------------------------------------------------------------------------------


class ComponentCall:
    """A method of a component, called with ``ops`` and further arguments, on random numbers of its own.

    Parameters
    ----------
    ops : the operations of the device
    component : the component
    index, number : the component's number in the network, and the call's number among those of the component, which
        select the stream of random numbers
    """

    METHOD = ""

    def __init__(self, ops: Ops, component: Component, index: int, number: int) -> None:
        self.component = component
        self._ops, self._method, self._index, self._number = ops, getattr(component, self.METHOD), index, number

    def __call__(self, *args: Any) -> None:
        self._ops.reset_scratch()
        self.run(*args)

    def run(self, *args: object, **named: object) -> None:
        """Run the method without freeing scratch memory, which calls before it still need."""
        self.select_random_stream()
        self._method(self._ops, *args, **named)

    def select_random_stream(self) -> None:
        """Draw random numbers from the call's own stream from now on."""
        self._ops.random.select(self._index, self._number)


class BackpropCall(ComponentCall):
    """A call of ``Component.backprop``."""

    METHOD = "backprop"


class PropagateCall(ComponentCall):
    """A call of ``Component.propagate``, and then of ``store_stats`` for its output.

    Parameters
    ----------
    stats : the component that accumulates the statistics, or None
    index, number : as for :class:`ComponentCall`; statistics use the stream ``number + 1``
    """

    METHOD = "propagate"

    def __init__(self, ops: Ops, component: Component, stats: Component | None, index: int, number: int) -> None:
        super().__init__(ops, component, index, number)
        self._stats = stats

    def __call__(self, *args: Any) -> None:
        super().__call__(*args)
        if self._stats is not None:
            self._ops.reset_scratch()
            self.store_stats(*args)

    def store_stats(self, indexes: Precomputed, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        """Store the statistics of a propagation with these arguments, if a component accumulates any."""
        if self._stats is not None:
            given: Any = None if x is y else x       # y may have overwritten x
            self._ops.random.select(self._index, self._number + 1)
            self._stats.store_stats(self._ops, given, y, memo)


# -- fused commands ----------------------------------------------------------------------------------------------------


def _sums_call(ops: Ops, parts: Sequence[Call]) -> Call:
    (_, (target, first, alpha)), (_, (_, second, beta)) = parts
    return ops.sum_mats, (target, first, second, alpha, beta)


class _AffineCall:
    """An affine map, the element-wise components after it, and perhaps a batch norm in training mode.

    ``spliced_affine`` computes all of it block by block, while a block is in the cache.
    """

    def __init__(self, ops: Ops, parts: Sequence[Call]) -> None:
        calls = [(cast(PropagateCall, call), args) for call, args in parts]
        self._ops, self._parts, self._product = ops, parts, calls[0]
        *_, (_, (_, x, y, _)) = calls
        self._batch_norm = calls[-1] if x is not y and len(calls) > 1 else None
        self._followers = calls[1:] if self._batch_norm is None else calls[1:-1]
        blocks = spliced_input(self._product[0].component, self._product[1][0])
        assert blocks is not None
        starts, self._stride = blocks
        self._starts = np.array(starts, dtype=np.int32)      # on the host: a GPU's launches depend on the numbers
        self._nothing = ops.new_vector(0)
        self._no_sums = self._nothing.reshape(0, 0)

    def __call__(self) -> None:
        epilogue = self._epilogue()
        if epilogue is None:
            for part, args in self._parts:
                part(*args)
            return
        ops, nothing = self._ops, self._nothing
        ops.reset_scratch()
        product, (_, x, y, _) = self._product
        sums = self._no_sums if self._batch_norm is None else scratch_sums(ops, y)
        scale, offset = (nothing if vector is None else vector for vector in (epilogue.scale, epilogue.offset))
        affine = cast(AffineMap, product.component)
        ops.spliced_affine(y, sums, x, affine.linear_params, affine.bias_params, scale, offset, self._starts,
                           self._stride, epilogue.floor)
        for follower, args in self._followers:
            follower.store_stats(*args)
        if self._batch_norm is not None:
            batch_norm, args = self._batch_norm
            batch_norm.run(*args, sums=sums)
            ops.reset_scratch()
            batch_norm.store_stats(*args)

    def _epilogue(self) -> Epilogue | None:
        """Return the element-wise components as one epilogue; None if changed settings no longer allow that."""
        if self._batch_norm is not None and not takes_sums(self._batch_norm[0].component):
            return None
        epilogue: Epilogue | None = Epilogue()
        for follower, _ in self._followers:
            if epilogue is not None:
                epilogue = epilogue.compose(component_epilogue(follower.component))
        return epilogue


class _BackpropCall:
    """The backward pass through a batch norm in training mode and the rectifier before it."""

    def __init__(self, ops: Ops, parts: Sequence[Call]) -> None:
        self._ops, self._parts = ops, parts
        (norm, self._norm_args), (relu, self._relu_args) = parts
        self._norm, self._relu = cast(BackpropCall, norm), cast(BackpropCall, relu)
        # The batch norm's output has overwritten the rectifier's: see SharePlaces in compiler/fuse/passes.py.
        self._relu_y_is_gone = same_memory(self._relu_args[2], self._norm_args[2])

    def __call__(self) -> None:
        norm = self._norm.component
        if not takes_sums(norm):
            self._run_by_parts(cast(BatchNormComponent, norm))
            return
        ops, relu = self._ops, cast(RectifiedLinearComponent, self._relu.component)
        _, _, y, dy, memo, _, _ = self._norm_args
        _, _, relu_y, _, _, update, dx = self._relu_args
        ops.reset_scratch()
        self._relu.select_random_stream()
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
        """Run the two commands one by one, if the batch norm has been put in test mode."""
        (backprop_norm, norm_args), (backprop_relu, relu_args) = self._parts
        backprop_norm(*norm_args)
        if self._relu_y_is_gone:
            ops, y = self._ops, relu_args[2]
            shifted = ops.scratch(*y.shape)
            ops.copy_mat(shifted, y, 1.0)
            assert norm.test_offset is not None
            ops.add_vec_to_rows(shifted, norm.test_offset, -1.0, 1.0)
            cast(BackpropCall, backprop_relu).run(*relu_args[:2], shifted, *relu_args[3:])
        else:
            backprop_relu(*relu_args)


# For each fusion, by its name, the function that makes the call of a fused command from the calls of its parts.
FUSED_CALLS: dict[str, Callable[[Ops, Sequence[Call]], Call]] = {
    FuseSums.name: _sums_call,
    FuseAffine.name: lambda ops, parts: (_AffineCall(ops, parts), ()),
    FuseBackprop.name: lambda ops, parts: (_BackpropCall(ops, parts), ()),
}
