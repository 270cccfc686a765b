"""An affine map, and with it what follows on its output: one pass over the output, block by block in the cache.

Matrices that do not fit the processor's caches take as long to read and write as a small product takes to compute.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, cast

import numpy as np

from nnet3py.compiler.commands import Command, CommandType
from nnet3py.compiler.computation import SubMatrix
from nnet3py.compiler.fuse.fusion import Call, ComponentCall, Fusion, Scope
from nnet3py.components.affine import AffineMap
from nnet3py.components.base import Component, Precomputed
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.components.normalize import BatchNormComponent, scratch_sums
from nnet3py.components.tdnn import TdnnComponent

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

_STORES_STATS = 5        # the argument of PROPAGATE that says so


class FuseAffine(Fusion):
    """PROPAGATE of an affine map, perhaps of spliced rows, and of what follows on its output: ``spliced_affine``.

    What follows are rectifiers and batch norms in test mode, in place, then a batch norm in training mode: the sums of
    the columns that it needs come with the product.
    """

    name = "fuse-affine"
    operation = "spliced_affine"

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        """The affine map and its followers; 1 for several blocks of rows without any, 0 for a single one."""
        first = scope.commands[numbers[0]]
        if first.type != CommandType.PROPAGATE or first.args[_STORES_STATS] == 1:
            return 0
        blocks = _input_blocks(scope.component(first), scope.indexes(first))
        if blocks is None:
            return 0
        count = 1 + self._num_followers(scope, first, numbers[1:])
        return count if count > 1 or len(blocks[0]) > 1 else 0

    def _num_followers(self, scope: Scope, first: Command, numbers: Sequence[int]) -> int:
        output, epilogue = scope.place(first.args[3]), Epilogue()
        for count, c in enumerate(numbers):
            follower = scope.commands[c]
            if follower.type != CommandType.PROPAGATE or scope.place(follower.args[2]) != output:
                return count
            if scope.place(follower.args[3]) != output:
                return count + takes_sums(scope.component(follower))
            both = epilogue.compose(_epilogue(scope.component(follower)))
            if both is None:
                return count
            if follower.args[_STORES_STATS] == 1:         # of the output as it is then: only a batch norm may follow
                return count + 1 + self._is_batch_norm(scope, output, numbers[count + 1:])
            epilogue = both
        return len(numbers)

    def _is_batch_norm(self, scope: Scope, output: SubMatrix, numbers: Sequence[int]) -> bool:
        propagate = scope.commands[numbers[0]] if numbers else None
        return (propagate is not None and propagate.type == CommandType.PROPAGATE
                and takes_sums(scope.component(propagate))
                and scope.place(propagate.args[2]) == output != scope.place(propagate.args[3]))

    def bind(self, ops: Ops, parts: Sequence[Call]) -> Call:
        """A call without arguments."""
        return _AffineCall(ops, parts), ()


class Epilogue(NamedTuple):
    """What can be done to elements x as soon as they are computed: max(floor, x) scale + offset."""

    floor: float = -math.inf
    scale: DeviceArray | None = None      # float32 (dim,), of the component's device; None for 1
    offset: DeviceArray | None = None     # the same, for 0; given with a scale

    def compose(self, other: Epilogue | None) -> Epilogue | None:
        """Both, one after the other; None if that is not an epilogue."""
        if other is None or self.scale is not None:
            return None
        return Epilogue(max(self.floor, other.floor), other.scale, other.offset)


def takes_sums(component: Component) -> TypeGuard[BatchNormComponent]:
    """Whether a component is a batch norm that needs the sums of all its input's columns."""
    return isinstance(component, BatchNormComponent) and component.takes_sums


def _epilogue(component: Component) -> Epilogue | None:
    """What ``propagate`` does, if it can be done to each element in place as soon as that is there; else None."""
    if isinstance(component, RectifiedLinearComponent):
        return Epilogue(floor=0.0)
    if isinstance(component, BatchNormComponent) and component.test_mode and component.block_dim == component.dim \
            and component.test_scale is not None:
        return Epilogue(scale=component.test_scale, offset=component.test_offset)
    return None


def _input_blocks(component: Component, indexes: Precomputed) -> tuple[Sequence[int], int] | None:
    """Where x is, in a component with ``linear_params`` and ``bias_params`` that computes y = W [x1, x2, ...] + b.

    Returns
    -------
    The row of the input where each block of x starts, and the stride in rows, as ``spliced_affine`` takes them; None if
    ``propagate`` is something else.
    """
    if isinstance(component, TdnnComponent):
        return None if component.bias_params is None else (indexes.row_offsets, indexes.row_stride)
    return ((0,), 1) if type(component).propagate is AffineMap.propagate else None


class _AffineCall:
    """Runs the affine map and what follows it."""

    def __init__(self, ops: Ops, parts: Sequence[Call]) -> None:
        calls = [(cast(ComponentCall, call), args) for call, args in parts]
        self._ops, self._parts, self._product = ops, parts, calls[0]
        *_, (last, (_, x, y, _)) = calls
        self._batch_norm = calls[-1] if x is not y and len(calls) > 1 else None
        self._followers = calls[1:] if self._batch_norm is None else calls[1:-1]
        blocks = _input_blocks(self._product[0].component, self._product[1][0])
        assert blocks is not None
        starts, self._stride = blocks
        self._starts = np.array(starts, dtype=np.int32)      # on the host: a GPU's launches depend on it
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
        """All that the followers do; None if their settings have changed, so that it cannot be done at once."""
        if self._batch_norm is not None and not takes_sums(self._batch_norm[0].component):
            return None
        epilogue: Epilogue | None = Epilogue()
        for follower, _ in self._followers:
            if epilogue is not None:
                epilogue = epilogue.compose(_epilogue(follower.component))
        return epilogue
