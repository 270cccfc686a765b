"""What a value of an ONNX graph is in a network: which node, which of its columns, which frames."""
from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nnet3py.errors import Nnet3Error

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_FIXED = "does the graph have a fixed number of frames or sequences in it? export it with any number of both"
BATCH, TIME, FEATURES = "sequences", "frames", "columns"


class CannotBe(Nnet3Error):
    """Something that no network can have; the caller adds where it is."""


@dataclass(frozen=True, eq=False)
class Atom:
    """A part of an axis that is never taken apart differently: sequences, frames, or some columns."""

    kind: str
    size: int


Axis = tuple[Atom, ...]      # row-major: the last atom varies fastest; () for an axis of size 1


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the graph.

    Row r of its axis of frames is what node ``source`` is at the time ``step * r + shift``.

    Attributes
    ----------
    axes : what the axes are
    stored : the atoms of columns as the node has them, the last varying fastest
    source : a descriptor, without offset
    before, after : rows of zeros at the beginning and end of the axis of frames, which are not the node's
    early, late : frames before the first and after the last row for which the node has values, too
    is_constant : the same at all times
    is_input : the network's own input, perhaps with its axes in another order
    """

    axes: tuple[Axis, ...]
    stored: Axis
    source: str
    step: int = 1
    shift: int = 0
    before: int = 0
    after: int = 0
    early: int = 0
    late: int = 0
    is_constant: bool = False
    is_input: bool = field(default=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(math.prod(atom.size for atom in axis) for axis in self.axes)

    @property
    def dim(self) -> int:
        """Columns of the node."""
        return math.prod(atom.size for atom in self.stored)

    @property
    def node(self) -> str:
        """The node that the descriptor reads."""
        return next(name for name in _NAME.findall(self.source) if name not in ("Scale", "Offset", "ReplaceIndex"))

    @property
    def columns(self) -> Axis:
        """The atoms of columns in the order of the axes."""
        return tuple(atom for axis in self.axes for atom in axis if atom.kind == FEATURES)

    @property
    def time_axis(self) -> int:
        """Which axis is that of the frames, and nothing else; -1 for none."""
        return next((i for i, axis in enumerate(self.axes) if [atom.kind for atom in axis] == [TIME]), -1)

    def is_columns(self, axis: int) -> bool:
        """Whether an axis has columns only, perhaps a single one."""
        return all(atom.kind == FEATURES for atom in self.axes[axis])

    def with_node(self, source: str, axes: tuple[Axis, ...] | None = None, stored: Axis | None = None) -> Tensor:
        """The value of another node, at the same times."""
        return replace(self, source=source, axes=self.axes if axes is None else axes,
                       stored=self.stored if stored is None else stored, is_input=False)

    # -- axes ------------------------------------------------------------------------------------------------------

    def transposed(self, order: Sequence[int]) -> Tensor:
        """With the axes in another order."""
        return replace(self, axes=tuple(self.axes[i] for i in order))

    def reshaped(self, shape: Sequence[int]) -> Tensor:
        """With other axes; columns are taken apart where that is needed. CannotBe for frames taken apart."""
        if math.prod(shape) != math.prod(self.shape):
            raise CannotBe(f"its shape {self.shape} cannot become {tuple(shape)}", _FIXED)
        waiting = deque(atom for axis in self.axes for atom in axis)
        parts: dict[Atom, Axis] = {}
        axes: list[Axis] = []
        for size in shape:
            axis: list[Atom] = []
            left = size
            while left > 1 or (size == 1 and not axis and waiting and waiting[0].size == 1):
                atom = waiting.popleft()
                if left % atom.size:
                    if atom.kind != FEATURES or atom.size % left:
                        raise CannotBe(f"its shape {self.shape} cannot become {tuple(shape)}: {atom.kind} would be "
                                       "mixed", _FIXED)
                    parts[atom] = Atom(FEATURES, left), Atom(FEATURES, atom.size // left)
                    atom, rest = parts[atom]
                    waiting.appendleft(rest)
                axis.append(atom)
                left //= atom.size
            axes.append(tuple(axis))
        if axes:
            axes[-1] += tuple(waiting)                      # atoms of size 1
        return replace(self, axes=tuple(axes), stored=_taken_apart(self.stored, parts))

    def without_axes(self, axes: Sequence[int]) -> Tensor:
        """Without axes of size 1."""
        return replace(self, axes=tuple(axis for i, axis in enumerate(self.axes) if i not in axes))

    def with_axes(self, places: Sequence[int]) -> Tensor:
        """With axes of size 1 at these places of the result."""
        axes = deque(self.axes)
        rank = len(self.axes) + len(places)
        return replace(self, axes=tuple(() if i in places else axes.popleft() for i in range(rank)))

    # -- columns ---------------------------------------------------------------------------------------------------

    def column_order(self, atoms: Axis | None = None) -> np.ndarray:
        """int64 (dim,): for each column of the node its number in an array of ``atoms``.

        ``atoms`` are those of the columns in any order; None: in the order of the axes.
        """
        atoms = self.columns if atoms is None else atoms
        numbers = np.arange(self.dim).reshape([atom.size for atom in atoms])
        return numbers.transpose([atoms.index(atom) for atom in self.stored]).reshape(-1)

    def as_stored(self, array: np.ndarray) -> np.ndarray:
        """float32 (dim,): an array that is the same for all sequences and frames, as the node's columns are.

        CannotBe for an array that differs between frames or sequences, or has other axes.
        """
        if array.ndim > len(self.axes):
            raise CannotBe(f"an array of shape {array.shape} makes more axes than {len(self.axes)}")
        array = array.reshape((1,) * (len(self.axes) - array.ndim) + array.shape)
        sizes: list[int] = []
        for number, axis in enumerate(self.axes):
            size, own = int(array.shape[number]), self.shape[number]
            if size not in (1, own) or (size > 1 and any(atom.kind != FEATURES for atom in axis)):
                raise CannotBe(f"an array of shape {array.shape} is not the same for all frames of a value of shape "
                               f"{self.shape}")
            sizes.append(own if all(atom.kind == FEATURES for atom in axis) else 1)
        whole = np.broadcast_to(array, sizes)
        return whole.reshape(-1)[self.column_order()].astype(np.float32)


def _taken_apart(atoms: Axis, parts: dict[Atom, Axis]) -> Axis:
    result: Axis = ()
    for atom in atoms:
        result += _taken_apart(parts[atom], parts) if atom in parts else (atom,)
    return result


def columns_of(size: int) -> Axis:
    """An axis of columns."""
    return (Atom(FEATURES, size),) if size > 1 else ()
