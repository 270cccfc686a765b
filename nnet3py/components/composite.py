"""Composite: a chain of components that is computed as one, a chunk of rows at a time, to save memory."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.components.base import Component, Memo, Precomputed, Properties
from nnet3py.components.fields import Field, invalid_initializer
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.registry import component_class, read_component_class
from nnet3py.components.updatable import OLDER_SETTINGS, UpdatableComponent, UpdateSettings
from nnet3py.config_line import ConfigLine

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

MAX_ROWS_PROCESS = 4096         # default of the key max-rows-process
MAX_COMPONENTS = 100000         # of a composite in a file; more must be damage
NESTED = "a CompositeComponent cannot stand inside another"


class _Children(list[Component]):
    """Children of a composite, as files hold them: their number, then each of them."""

    @classmethod
    def read(cls, reader: TokenReader) -> _Children:
        """Read the components. Raises FormatError for too many, or for types that a composite cannot contain."""
        count = reader.integer()
        if not 0 < count <= MAX_COMPONENTS:
            raise reader.error(f"expected between 1 and {MAX_COMPONENTS} components inside, found {count}")
        children = cls()
        for _ in range(count):
            kind = read_component_class(reader)
            if kind is CompositeComponent:      # checked before reading on: a file could nest endlessly
                raise reader.error(NESTED)
            children.append(kind.read(reader))
        fault = _fault(children)
        if fault:
            raise reader.error(fault)
        return children

    def write(self, writer: TokenWriter) -> None:
        writer.integer(len(self))
        for child in self:
            child.write(writer)


class CompositeComponent(UpdatableComponent):
    """Sequence of simple components whose intermediate values are recomputed in the backward pass, to save memory.

    Kaldi: CompositeComponent. In the backward pass each chunk of rows is a minibatch to the children: natural gradient
    and statistics are updated by chunks. The limits and penalties of trainers treat the composite as one component.

    Kaldi's copies of a composite lose its own settings (not those of its children), ours keep them. Kaldi writes
    ``max-change`` and ``l2-regularize`` of the composite into files but cannot read them; we can.

    Attributes
    ----------
    children : list of Component
        Components, each with as many input columns as the one before has output columns.
    max_rows_process : int
        Number of rows that are computed at a time; 0 or less for all.
    """

    FIELDS = (*OLDER_SETTINGS, Field("<MaxRowsProcess>", "integer", "max_rows_process"),
              Field("<NumComponents>", _Children, "children"))

    def __init__(self, children: Sequence[Component], max_rows_process: int = MAX_ROWS_PROCESS,
                 settings: UpdateSettings | None = None) -> None:
        super().__init__(settings)
        self.children = _Children(children)
        self.max_rows_process = max_rows_process

    @property
    def properties(self) -> Properties:
        first, last = self.children[0].properties, self.children[-1].properties
        flags = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT
        flags |= last & (Properties.PROPAGATE_ADDS | Properties.BACKPROP_NEEDS_OUTPUT | Properties.OUTPUT_CONTIGUOUS)
        flags |= first & (Properties.BACKPROP_ADDS | Properties.INPUT_CONTIGUOUS)
        if self._trained():
            flags |= Properties.UPDATABLE
        return flags | Properties.BACKPROP_NEEDS_OUTPUT if last & Properties.STORES_STATS else flags

    @property
    def input_dim(self) -> int:
        return self.children[0].input_dim

    @property
    def output_dim(self) -> int:
        return self.children[-1].output_dim

    def _trained(self) -> list[UpdatableComponent]:
        """Return the children that training changes."""
        return [child for child in self.children
                if isinstance(child, UpdatableComponent) and child.has(Properties.UPDATABLE)]

    def as_block_affine(self) -> CompositeComponent:
        """Return the composite with a BlockAffineComponent in place of each child that repeats an affine map."""
        children = [child.as_block_affine() if hasattr(child, "as_block_affine") else child for child in self.children]
        component = CompositeComponent(children, self.max_rows_process)
        component.copy_settings(self)
        return component

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the children's parameters, named after the child's number and a dot: ``0.linear_params``."""
        return {f"{i}.{name}": value for i, child in enumerate(self.children)
                for name, value in child.parameters().items()}

    def preconditioners(self) -> tuple[OnlineNaturalGradient, ...]:
        return tuple(preconditioner for child in self._trained() for preconditioner in child.preconditioners())

    def set_underlying_learning_rate(self, rate: float) -> None:
        """Set the composite's rate to ``rate`` times its factor, and each child's to that times the child's factor."""
        super().set_underlying_learning_rate(rate)
        # a frozen child keeps the rate from before freezing, which unfreezing gives back
        before = self.before_freezing if self.is_frozen else None
        for child in self._trained():
            child.set_underlying_learning_rate(before.learning_rate if before and child.is_frozen
                                               else self.learning_rate)

    def set_actual_learning_rate(self, rate: float) -> None:
        super().set_actual_learning_rate(rate)
        for child in self._trained():
            child.set_actual_learning_rate(rate)

    def freeze(self) -> None:
        """Freeze the composite and each child: Kaldi's copies of a composite lose the composite's own factor."""
        super().freeze()
        for child in self._trained():
            child.freeze()

    def unfreeze(self, rate: float) -> None:
        super().unfreeze(rate)
        for child in self._trained():
            child.unfreeze(self.learning_rate)

    def set_as_gradient(self) -> None:
        super().set_as_gradient()
        for child in self._trained():
            child.set_as_gradient()

    def zero_stats(self) -> None:
        for child in self.children:
            child.zero_stats()

    def scale(self, factor: float) -> None:
        for child in self.children:
            child.scale(factor)

    def add(self, alpha: float, other: Component) -> None:
        for child, theirs in zip(self.children, other.children, strict=True):
            child.add(alpha, theirs)

    def propagate(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        for rows in self._chunks(x.shape[0]):
            mark = ops.mark_scratch()
            _ChunkValues(ops, self.children, x[rows]).forward(len(self.children), y[rows])
            ops.release_scratch(mark)

    def backprop(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: Memo,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None and update is None:
            return
        for rows in self._chunks(x.shape[0]):
            mark = ops.mark_scratch()
            chunk = _ChunkValues(ops, self.children, x[rows])
            chunk.forward(chunk.num_needed_backward())
            chunk.backward(None if y is None else y[rows], dy[rows], update, None if dx is None else dx[rows])
            ops.release_scratch(mark)

    def _chunks(self, num_rows: int) -> Iterator[slice]:
        """Yield the ranges of rows to compute at a time."""
        step = self.max_rows_process if self.max_rows_process > 0 else max(num_rows, 1)
        for start in range(0, num_rows, step):
            yield slice(start, min(start + step, num_rows))

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> CompositeComponent:
        max_rows, count = line.get_int("max-rows-process", MAX_ROWS_PROCESS), line.get_int("num-components", 0)
        if count < 1:
            raise invalid_initializer(line, cls.__name__, "num-components is required and must be 1 or more; other "
                                      "keys are max-rows-process and component1 to componentN, each a quoted config "
                                      "line such as component1='type=NoOpComponent dim=5'")
        children = []
        for number in range(1, count + 1):
            key = f"component{number}"
            if not line.has(key):
                raise invalid_initializer(line, cls.__name__, f"{key} is missing, expected one for each of the "
                                                              f"{count} components")
            children.append(_child_from_config(ConfigLine(line.get_string(key), line.path, line.number), rng))
        fault = _fault(children)
        if fault:
            raise invalid_initializer(line, cls.__name__, fault)
        return cls(children, max_rows)

    def info(self, verbose: int = 0) -> str:
        inside = (f"sub-component{number} = {{ {child.info(verbose)} }}"
                  for number, child in enumerate(self.children, 1))
        return f"{type(self).__name__} {', '.join(inside)}"


def _child_from_config(line: ConfigLine, rng: np.random.Generator) -> Component:
    """Return a child made from its own config line, which consists of keys only, among them ``type``."""
    if line.first_token:
        raise line.error(f"Error parsing config line: {line.whole_line}",
                         f"'{line.first_token}' at its begin should be a pair, as in type=NoOpComponent dim=5")
    kind = component_class(line.get_string("type"))
    if kind is CompositeComponent:
        raise line.error(f"{NESTED}: {line.whole_line}")
    child = kind.from_config(line, rng)
    line.check_all_used()
    return child


def _fault(children: Sequence[Component]) -> str:
    """Return the reason why these components cannot form a composite; empty if they can."""
    for number, child in enumerate(children, 1):
        flags = child.properties
        if not flags & Properties.SIMPLE or flags & Properties.RANDOM:
            return (f"component {number} is a {type(child).__name__}; those inside a composite must be simple and not "
                    f"random")
        if number > 1 and child.input_dim != children[number - 2].output_dim:
            return (f"component {number} takes {child.input_dim} columns, the one before it gives "
                    f"{children[number - 2].output_dim}")
    return ""


class _Memory:
    """Allocator of the children's memos in scratch memory, which is valid for one call only."""

    def __init__(self, ops: Ops) -> None:
        self.new_vector = ops.scratch_vector


class _ChunkValues:
    """Values between the children for a chunk of rows, in scratch memory.

    ``values[i]`` is the input of child ``i``; None for values that were not computed.
    """

    def __init__(self, ops: Ops, children: Sequence[Component], x: DeviceArray) -> None:
        self.ops, self.children = ops, children
        self.flags = [child.properties for child in children]
        self.values: list[Any] = [x, *[None] * len(children)]
        self.memos: list[Memo] = [None] * len(children)

    def forward(self, count: int, y: DeviceArray | None = None) -> None:
        """Compute the first ``count`` children; the last child of the composite writes to ``y`` if that is given."""
        ops = self.ops
        for i, child in enumerate(self.children[:count]):
            if i + 1 == len(self.children) and y is not None:
                self.values[i + 1] = y
            else:
                self.values[i + 1] = self._matrix(child.output_dim, self.flags[i] & Properties.PROPAGATE_ADDS)
            if self.flags[i] & Properties.USES_MEMO:
                self.memos[i] = child.new_memo(_Memory(ops), self.values[i].shape[0])
            mark = ops.mark_scratch()
            child.propagate(ops, None, self.values[i], self.values[i + 1], self.memos[i])
            ops.release_scratch(mark)

    def num_needed_backward(self) -> int:
        """Return the number of children that must be recomputed for the backward pass."""
        count, last = len(self.children), self.flags[-1]
        if last & Properties.USES_MEMO:
            return count
        if count > 1 and not last & Properties.BACKPROP_NEEDS_INPUT and not self.flags[-2] & (
                Properties.BACKPROP_NEEDS_OUTPUT | Properties.USES_MEMO):
            return count - 2
        return count - 1

    def backward(self, y: DeviceArray | None, dy: Any, update: Component | None, dx: DeviceArray | None) -> None:
        """Compute ``dx`` and the updates from the output derivative ``dy``; ``y`` is None if it is not needed."""
        ops = self.ops
        self.values[-1] = y
        for i in reversed(range(len(self.children))):
            child, flags, x, value = self.children[i], self.flags[i], self.values[i], self.values[i + 1]
            child_update = None if update is None else update.children[i]
            if child_update is not None and flags & Properties.STORES_STATS:
                child_update.store_stats(ops, x, value, self.memos[i])
            derivative = dx if i == 0 else self._matrix(child.input_dim, flags & Properties.BACKPROP_ADDS)
            if derivative is not None or flags & Properties.UPDATABLE:
                mark = ops.mark_scratch()
                child.backprop(ops, None, x, value, dy, self.memos[i], child_update, derivative)
                ops.release_scratch(mark)
            dy = derivative

    def _matrix(self, num_cols: int, zero: int) -> DeviceArray:
        """Return a scratch matrix with as many rows as this chunk."""
        matrix = self.ops.scratch(self.values[0].shape[0], num_cols)
        if zero:
            self.ops.set_const(matrix, 0.0)
        return matrix
