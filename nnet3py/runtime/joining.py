"""Calls that follow each other and pass over the same matrix, as one call that passes over it once.

Matrices that do not fit the processor's caches take as long to read and write as a small product takes to compute.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.components.base import Component, Finish
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.components.normalize import BatchNormComponent, scratch_sums
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

Call = tuple[Callable[..., Any], tuple[Any, ...]]
# Sizing is settled by the memory plan; compression saves memory on devices only and is not done.
WITHOUT_EFFECT = frozenset((
    CommandType.ALLOC_MATRIX, CommandType.DEALLOC_MATRIX, CommandType.SWAP_MATRIX,
    CommandType.COMPRESS_MATRIX, CommandType.DECOMPRESS_MATRIX, CommandType.NO_OPERATION,
    CommandType.NO_OPERATION_PERMANENT, CommandType.NO_OPERATION_MARKER, CommandType.NO_OPERATION_LABEL))
_BACKWARD = CommandType.BACKPROP, CommandType.BACKPROP_NO_MODEL_UPDATE
MOST_FOLLOWERS = 8      # that are looked at; real networks have three


class ComponentCall:
    """A method of a component, to be called with what follows ``ops`` among its arguments.

    Attributes
    ----------
    component : whose method it is
    method : its name
    """

    def __init__(self, ops: Ops, component: Component, method: str, index: int, number: int) -> None:
        self.component, self.method = component, method
        self._ops, self._run, self._index, self._number = ops, getattr(component, method), index, number

    def __call__(self, *args: Any) -> None:
        self._ops.reset_scratch()
        self.go_on(*args)

    def go_on(self, *args: Any, **named: Any) -> None:
        """The same after other calls whose scratch space is still needed."""
        self.select()
        self._run(self._ops, *args, **named)

    def select(self) -> None:
        """Let random numbers be drawn from the call's own stream."""
        self._ops.random.select(self._index, self._number)


BoundCall = tuple[ComponentCall, tuple[Any, ...]]


class FinishedProduct:
    """An affine map, and with it what follows in place: rectifiers, batch norm in test mode.

    Parameters
    ----------
    ops : the operations of the device
    product : the call of the affine map
    followers : the calls that change its output in place, and after them those that only read it
    batch_norm : the call of a batch norm in training that reads it last, or None; its sums come with the product
    """

    def __init__(self, ops: Ops, product: BoundCall, followers: Sequence[BoundCall],
                 batch_norm: BoundCall | None) -> None:
        self._ops, self._product, self._followers, self._batch_norm = ops, product, followers, batch_norm
        starts, self._stride = product[0].component.spliced_rows(product[1][0]) or ((), 1)
        self._starts = np.array(starts, dtype=np.int32)      # on the host: a GPU's launches depend on it
        self._nothing = ops.new_vector(0)
        self._no_sums = self._nothing.reshape(0, 0)

    def __call__(self) -> None:
        ops, nothing = self._ops, self._nothing
        ops.reset_scratch()
        finish = self._finish()
        if finish is None:
            self._one_by_one()
            return
        call, (_, x, y, _) = self._product
        sums = self._no_sums if self._batch_norm is None else scratch_sums(ops, y)
        scale, offset = (nothing if vector is None else vector for vector in (finish.scale, finish.offset))
        weights, bias = call.component.linear_params, call.component.bias_params    # type: ignore[attr-defined]
        ops.spliced_affine(y, sums, x, weights, bias, scale, offset, self._starts, self._stride, finish.floor)
        for follower, args in self._followers:
            if follower.method != "propagate":
                follower.go_on(*args)
        if self._batch_norm is not None:
            follower, args = self._batch_norm
            follower.go_on(*args, sums=sums)

    def _finish(self) -> Finish | None:
        """All that the followers do; None if their settings have changed, so that it cannot be done at once."""
        if self._batch_norm is not None and not _takes_sums(self._batch_norm[0].component):
            return None
        finish: Finish | None = Finish()
        for follower, _ in self._followers:
            if follower.method == "propagate" and finish is not None:
                finish = finish.then(follower.component.finish())
        return finish

    def _one_by_one(self) -> None:
        for call, args in (self._product, *self._followers, *([self._batch_norm] if self._batch_norm else ())):
            call.go_on(*args)


class BatchNormAndRelu:
    """The way back through a batch norm in training and the rectifier before it."""

    def __init__(self, ops: Ops, batch_norm: BoundCall, relu: BoundCall) -> None:
        self._ops, self._batch_norm, self._relu = ops, batch_norm, relu

    def __call__(self) -> None:
        self._ops.reset_scratch()
        (call, args), (relu_call, relu_args) = self._batch_norm, self._relu
        if not _takes_sums(call.component):
            call.go_on(*args)
            relu_call.go_on(*relu_args)
            return
        _, _, y, dy, memo, _, _ = args
        _, _, relu_y, _, _, relu_update, dx = relu_args
        relu_call.select()
        call.component.backprop_with_relu(      # type: ignore[attr-defined]
            self._ops, y, dy, memo, relu_call.component, relu_y, relu_update, dx)


def _takes_sums(component: Component) -> bool:
    return isinstance(component, BatchNormComponent) and component.takes_sums


def held_for_joining(computation: Computation, nnet: Nnet) -> dict[int, int]:
    """Commands whose matrices must stay until a later command: what :func:`join_calls` may make one call of.

    A batch norm's way back and that of the rectifier before it are commands one after the other, and what the first
    reads may be freed before what the second writes is allocated. As one call they read and write row by row.
    """
    held: dict[int, int] = {}
    first = -1
    for c, command in enumerate(computation.commands):
        if command.type in WITHOUT_EFFECT:
            continue
        component = nnet.components[command.args[0]] if command.type in _BACKWARD else None
        if first >= 0 and isinstance(component, RectifiedLinearComponent):
            held.update(dict.fromkeys(range(first, c), c))
        first = c if component is not None and _takes_sums(component) else -1
    return held


def join_calls(ops: Ops, calls: list[Call], commands: list[int],
               read_later: Callable[[int, Any], bool]) -> tuple[list[Call], list[int]]:
    """Bound calls, and the command that each belongs to, with some joined where one operation does the work of several.

    A copy that is then added to, as sums of scaled inputs are, becomes ``sum_mats``; affine maps take what follows them
    with them; batch norm and a rectifier go back together.

    Parameters
    ----------
    read_later : of a command and a matrix that it reads, whether any later command uses that, too
    """
    joined: list[Call] = []
    owners: list[int] = []
    i = 0
    while i < len(calls):
        call, count = (_joined_product(ops, calls, i) or _joined_sum(ops, calls[i:i + 2])
                       or _joined_backprop(ops, calls[i:i + 2], commands[i:i + 2], read_later) or (calls[i], 1))
        joined.append(call)
        owners.append(commands[i + count - 1])
        i += count
    return joined, owners


def _joined_sum(ops: Ops, calls: list[Call]) -> tuple[Call, int] | None:
    if len(calls) < 2 or (calls[0][0], calls[1][0]) != (ops.copy_mat, ops.add_mat):
        return None
    (dst, first, alpha), (target, second, beta) = calls[0][1], calls[1][1]
    return ((ops.sum_mats, (dst, first, second, alpha, beta)), 2) if target is dst and second is not dst else None


def _joined_product(ops: Ops, calls: list[Call], i: int) -> tuple[Call, int] | None:
    """The affine map that is call ``i`` with what follows it, and how many calls that makes."""
    product = _component_call(calls[i], "propagate")
    spliced = product and product[0].component.spliced_rows(product[1][0])
    if product is None or spliced is None:
        return None
    followers: list[BoundCall] = []
    y, finish, batch_norm, only_read = product[1][2], Finish(), None, False
    for call in calls[i + 1:i + 1 + MOST_FOLLOWERS]:
        bound = _component_call(call, "propagate", "store_stats")
        if bound is None:
            break
        component, args = bound[0].component, bound[1]
        if bound[0].method == "store_stats":
            if args[1] is not y or not followers:
                break
            only_read = True
        elif args[1] is y and args[2] is not y and _takes_sums(component):
            batch_norm = bound
            break
        else:
            together = finish.then(component.finish())
            if not (args[1] is y and args[2] is y) or only_read or together is None:
                break
            finish = together
        followers.append(bound)
    if not followers and batch_norm is None and len(spliced[0]) == 1:
        return None
    return (FinishedProduct(ops, product, followers, batch_norm), ()), 1 + len(followers) + (batch_norm is not None)


def _joined_backprop(ops: Ops, calls: list[Call], commands: list[int],
                     read_later: Callable[[int, Any], bool]) -> tuple[Call, int] | None:
    batch_norm = _component_call(calls[0], "backprop")
    relu = _component_call(calls[1], "backprop") if len(calls) > 1 else None
    if (batch_norm is None or relu is None or not _takes_sums(batch_norm[0].component)
            or not isinstance(relu[0].component, RectifiedLinearComponent)):
        return None
    between, dx = batch_norm[1][6], relu[1][6]
    if between is None or dx is None or relu[1][3] is not between or read_later(commands[1], between):
        return None
    return (BatchNormAndRelu(ops, batch_norm, relu), ()), 2


def _component_call(call: Call, *methods: str) -> BoundCall | None:
    """The call of a component, if it is one of these methods."""
    function, args = call
    return (function, args) if isinstance(function, ComponentCall) and function.method in methods else None
