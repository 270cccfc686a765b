"""Fusions: passes that replace several consecutive commands by one, and their common base class.

A new fusion is a subclass of :class:`Fusion`, a place in ``passes.PASSES``, and the call that runs its commands in
``runtime/calls.py``, by an operation of ``ops/table.py``. Everything else follows: analysis, checks, printing and files
look at the commands that a fused one stands for.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import (
    BACKPROPS,
    NO_OPERATIONS,
    SIZING,
    WITHOUT_CALL,
    Command,
    CommandType,
    Computation,
    Fused,
    SubMatrix,
    command,
)
from nnet3py.components.affine import AffineMap
from nnet3py.components.base import Component, Precomputed
from nnet3py.components.nonlinear import RectifiedLinearComponent
from nnet3py.components.normalize import BatchNormComponent
from nnet3py.components.tdnn import TdnnComponent
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray

MOST_PARTS = 9      # of a fused command; real networks have four
_PASSED_OVER = SIZING | NO_OPERATIONS      # may stand between the parts of a fused command; goes before or after it
_BARRIERS = (WITHOUT_CALL - _PASSED_OVER) | {CommandType.ACCEPT_INPUT, CommandType.PROVIDE_OUTPUT,
                                             CommandType.GOTO_LABEL, CommandType.FUSED}
_STORES_STATS = 5        # the argument of PROPAGATE: 1 if the component stores statistics


class Pass:
    """Base of passes, which make a new computation from a computation.

    Attributes
    ----------
    name : the name of the pass in ``--optimization.fuse``
    """

    name = ""

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """Return the computation after the pass; the given one is not changed."""
        raise NotImplementedError


class Scope:
    """A computation and its network, with lookups that fusions need."""

    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation, self.nnet, self.commands = computation, nnet, computation.commands
        self.is_looped = bool(self.commands) and self.commands[-1].type == CommandType.GOTO_LABEL

    def component(self, command: Command) -> Component:
        """Return the component of a PROPAGATE or BACKPROP command."""
        return self.nnet.components[command.args[0]]

    def indexes(self, command: Command) -> Precomputed:
        """Return the precomputed indexes of a PROPAGATE or BACKPROP command, or None."""
        return self.computation.precomputed_indexes[max(command.args[1], 0)]

    def place(self, s: int) -> SubMatrix:
        """Return the rectangle of sub-matrix ``s``; sub-matrices with the same elements have equal ones."""
        return self.computation.submatrices[s]

    def is_used_after(self, s: int, c: int) -> bool:
        """Return whether the matrix of sub-matrix ``s`` is used by a command after ``c``, or is an output."""
        return self.is_looped or bool(self._last_uses[self.computation.submatrices[s].matrix] > c)

    @cached_property
    def _last_uses(self) -> np.ndarray:
        """The last command that uses each matrix other than to free it, int64 (matrices,)."""
        analysis = Analysis(self.computation, self.nnet)
        return np.where(analysis.is_output, analysis.num_commands, analysis.last_of_matrices())


class Fusion(Pass):
    """A pass that replaces several consecutive commands by one."""

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        """Return how many commands, from the first of ``numbers`` on, to fuse into one; 0 for none.

        ``numbers`` are commands with only allocations and deallocations between them. The fused command must give the
        same results.
        """
        raise NotImplementedError

    def run(self, computation: Computation, nnet: Nnet) -> Computation:
        """Return the computation with a fused command in place of each group of commands that :meth:`match` names."""
        scope = Scope(computation, nnet)
        groups = [group for stretch in _stretches(computation) for group in self._groups(scope, stretch)]
        return _with_groups(computation, self.name, groups) if groups else computation

    def _groups(self, scope: Scope, stretch: list[int]) -> list[list[int]]:
        groups, begin = [], 0
        while begin < len(stretch):
            count = self.match(scope, stretch[begin:begin + MOST_PARTS])
            if count:
                groups.append(stretch[begin:begin + count])
            begin += max(count, 1)
        return groups


def _stretches(computation: Computation) -> list[list[int]]:
    """Return the longest lists of commands (by number) with only allocations and deallocations between them."""
    stretches: list[list[int]] = [[]]
    for c, present in enumerate(computation.commands):
        if present.type in _BARRIERS:
            stretches.append([])
        elif present.type not in _PASSED_OVER:
            stretches[-1].append(c)
    return stretches


def _with_groups(computation: Computation, name: str, groups: list[list[int]]) -> Computation:
    """Replace each group of commands by a fused one; allocations inside it move before, deallocations after it."""
    out, old = computation.copy(), computation.commands
    commands: list[Command] = []
    end = 0
    for group in groups:
        commands += old[end:group[0]]
        end = group[-1] + 1
        sizing = [between for between in old[group[0] + 1:group[-1]] if between.type in _PASSED_OVER]
        freed = [between for between in sizing if between.type == CommandType.DEALLOC_MATRIX]
        commands += [between for between in sizing if between.type != CommandType.DEALLOC_MATRIX]
        out.parts.append(Fused(name, tuple(old[c] for c in group)))
        commands += [command(CommandType.FUSED, len(out.parts) - 1), *freed]
    out.set_commands(commands + old[end:])
    return out


# -- the fusions -------------------------------------------------------------------------------------------------------


class FuseSums(Fusion):
    """Fusion of MATRIX_COPY and MATRIX_ADD with one target into ``sum_mats``, which writes the target once."""

    name = "fuse-sums"

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        """Return 2 for a MATRIX_COPY followed by a MATRIX_ADD of another matrix to the copy, else 0."""
        if len(numbers) < 2:
            return 0
        copy, add = (scope.commands[c] for c in numbers[:2])
        if (copy.type, add.type) != (CommandType.MATRIX_COPY, CommandType.MATRIX_ADD):
            return 0
        target, added = scope.place(add.args[0]), scope.place(add.args[1])
        return 2 if scope.place(copy.args[0]) == target != added else 0


class Epilogue(NamedTuple):
    """An element-wise map applied to a matrix product while its result is in the cache: max(floor, x) scale + offset.

    Attributes
    ----------
    scale : float32 (dim,) on the component's device; None for 1
    offset : float32 (dim,), given with ``scale``; None for 0
    """

    floor: float = -math.inf
    scale: DeviceArray | None = None
    offset: DeviceArray | None = None

    def compose(self, other: Epilogue | None) -> Epilogue | None:
        """Return the map that applies ``self``, then ``other``; None if it has not the form of an epilogue."""
        if other is None or self.scale is not None:
            return None
        return Epilogue(max(self.floor, other.floor), other.scale, other.offset)


def takes_sums(component: Component) -> TypeGuard[BatchNormComponent]:
    """Return whether a component is a batch norm in training mode, which needs the sums of its input's columns."""
    return isinstance(component, BatchNormComponent) and component.takes_sums


def component_epilogue(component: Component) -> Epilogue | None:
    """Return ``propagate`` of an element-wise component as an epilogue; None for other components."""
    if isinstance(component, RectifiedLinearComponent):
        return Epilogue(floor=0.0)
    if isinstance(component, BatchNormComponent) and component.test_mode and component.block_dim == component.dim \
            and component.test_scale is not None:
        return Epilogue(scale=component.test_scale, offset=component.test_offset)
    return None


def spliced_input(component: Component, indexes: Precomputed) -> tuple[Sequence[int], int] | None:
    """Return the input rows of the blocks x1, x2, … of a component that computes y = W [x1, x2, …] + b, else None.

    W and b are its ``linear_params`` and ``bias_params``.

    Returns
    -------
    The first input row of each block, and the distance between the input rows of consecutive output rows, as
    ``spliced_affine`` expects them; None if ``propagate`` computes something else.
    """
    if isinstance(component, TdnnComponent):
        return None if component.bias_params is None else (indexes.row_offsets, indexes.row_stride)
    return ((0,), 1) if type(component).propagate is AffineMap.propagate else None


class FuseAffine(Fusion):
    """Fusion of PROPAGATE of an affine map, perhaps of spliced rows, and of what follows into ``spliced_affine``.

    Rectifiers and batch norms in test mode may follow in place, then a batch norm in training mode, whose column sums
    the product computes too. The output is then read and written once, block by block in the cache; for matrices
    larger than the caches, each further pass over the output takes as long as a small product.
    """

    name = "fuse-affine"

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        """Return the number of commands to fuse: the affine map and the element-wise components that follow.

        If none follows: 1 for an affine map of several blocks (spliced rows), 0 for one of a single block.
        """
        first = scope.commands[numbers[0]]
        if first.type != CommandType.PROPAGATE or first.args[_STORES_STATS] == 1:
            return 0
        blocks = spliced_input(scope.component(first), scope.indexes(first))
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
            both = epilogue.compose(component_epilogue(scope.component(follower)))
            if both is None:
                return count
            if follower.args[_STORES_STATS] == 1:      # of the output at this point: only a batch norm may follow
                return count + 1 + self._is_batch_norm(scope, output, numbers[count + 1:])
            epilogue = both
        return len(numbers)

    def _is_batch_norm(self, scope: Scope, output: SubMatrix, numbers: Sequence[int]) -> bool:
        propagate = scope.commands[numbers[0]] if numbers else None
        return (propagate is not None and propagate.type == CommandType.PROPAGATE
                and takes_sums(scope.component(propagate))
                and scope.place(propagate.args[2]) == output != scope.place(propagate.args[3]))


class FuseBackprop(Fusion):
    """Fusion of BACKPROP of a batch norm in training mode and of its rectifier into ``batch_norm_relu_backprop``.

    The derivative between the two is not written. It keeps its memory, for the two commands run one by one if the batch
    norm is put in test mode later.
    """

    name = "fuse-backprop"

    def match(self, scope: Scope, numbers: Sequence[int]) -> int:
        """Return 2 if the derivative between the two commands is not used elsewhere, else 0."""
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
