"""What the rules for ONNX operators work with: an operator with its inputs, and the network in the making."""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nnet3py.export.network_builder import NetworkBuilder
from nnet3py.export.onnx_tensors import Axis, CannotBe, Tensor

_MADE_UP = re.compile(r"^(onnx::|val_|_v_|/|\d)")          # names of weights that exporters made


@dataclass(frozen=True)
class NotMade:
    """An output of an operator that no network has; ``reason`` is for whom it would be an input."""

    reason: str


Value = Tensor | NotMade | np.ndarray | None      # None: an optional input that is not given


@dataclass
class OnnxOp:
    """An operator of the graph.

    Attributes
    ----------
    kind : its type, such as ``Conv``
    name : of the node
    inputs : their values
    input_names, output_names : of the graph
    attributes : by name; texts are ``str``
    """

    kind: str
    name: str
    inputs: list[Value]
    input_names: list[str]
    output_names: list[str]
    attributes: dict[str, Any]

    def tensor(self, number: int = 0) -> Tensor:
        """An input that is computed, with all its frames."""
        value = self.inputs[number] if number < len(self.inputs) else None
        if isinstance(value, NotMade):
            raise CannotBe(value.reason)
        if not isinstance(value, Tensor):
            raise CannotBe(f"expected that its input {number} is computed from the network's input")
        return value

    def whole(self, number: int = 0) -> Tensor:
        """The same, without rows of zeros."""
        value = self.tensor(number)
        if value.before or value.after:
            raise CannotBe("it follows a Pad, after which a network can only have a convolution")
        return value

    def array(self, number: int, what: str) -> np.ndarray:
        """An input that is the same whatever the network is given."""
        value = self.optional_array(number, what)
        if value is None:
            raise CannotBe(f"its {what} is not given")
        return value

    def optional_array(self, number: int, what: str) -> np.ndarray | None:
        """The same, or None if the operator is not given it."""
        value = self.inputs[number] if number < len(self.inputs) else None
        if isinstance(value, NotMade):
            raise CannotBe(value.reason)
        if isinstance(value, Tensor):
            raise CannotBe(f"its {what} is computed, not a constant")
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    @property
    def module(self) -> str:
        """The name of the module whose weights it has, where that is known; or ""."""
        for name, value in zip(self.input_names, self.inputs, strict=True):
            module, _, last = name.rpartition(".")
            if isinstance(value, np.ndarray) and module and last.startswith(("weight", "bias")) \
                    and not _MADE_UP.match(name):
                return module
        return ""

    @property
    def hint(self) -> str:
        """A name for its component: that of its module where it was exported from, else that of the node."""
        if self.module:
            return self.module
        path = [part for part in self.name.strip("/").split("/") if part]
        if len(path) > 1:
            return ".".join(path[:-1]) if path[-1].startswith(self.kind) else ".".join(path)
        return self.kind.lower()


@dataclass(frozen=True)
class Cutter:
    """A Slice with constant limits, the only one that takes a value; ``output`` is what it makes of it."""

    output: str
    starts: list[int]
    ends: list[int]
    axes: list[int]
    steps: list[int]

    def part(self, axis: int, rank: int, size: int) -> range:
        """What it leaves of an axis."""
        rows = range(size)
        for place, start, end, step in zip(self.axes, self.starts, self.ends, self.steps, strict=True):
            if place % rank == axis:
                rows = rows[start:end:step]
        return rows


@dataclass
class Context:
    """The network in the making, and what there is to say about it.

    Attributes
    ----------
    uses : how many operators and outputs of the graph take each value
    replicates : whether the first and last frames are repeated where the graph has zeros
    repeated : frames before the first and after the last that the graph itself makes of these
    has_zeros : whether zeros stand for frames before the first or after the last
    is_recurrent : whether a frame depends on the one before it or after it
    cutters : what takes only a part of a value, by the value's name
    without_cut : outputs of those whose part was taken before
    """

    network: NetworkBuilder
    uses: dict[str, int]
    replicates: bool = False
    repeated: tuple[int, int] = (0, 0)
    has_zeros: bool = False
    is_recurrent: bool = False
    cutters: dict[str, Cutter] = field(default_factory=dict)
    without_cut: set[str] = field(default_factory=set)

    def at(self, x: Tensor, offset: int) -> str:
        """The descriptor of a value some frames later."""
        return x.source if x.is_constant else _later(x.source, offset)

    def node(self, x: Tensor, hint: str) -> Tensor:
        """The value as a node of its own, which ranges of columns can be taken of."""
        if self.network.is_layer(x.source):
            return x
        return x.with_node(self.network.layer(hint, "NoOpComponent", f"dim={x.dim}", x.source))

    def copy(self, x: Tensor, hint: str) -> str:
        """A second name for a value's node: a part of a descriptor cannot have one node with two factors."""
        x = self.node(x, hint)
        return self.network.dim_range(f"{hint}.needed", x.source, 0, x.dim)

    def limited(self, x: Tensor, hint: str) -> Tensor:
        """The value as a node that has no values before its first row and after its last."""
        if not (x.early or x.late):
            return x
        x = self.node(x, hint)
        copy = self.copy(x, hint)
        needed = [f"Scale(0.0, {_later(copy, offset)})" for offset in sorted({-x.early, x.late}) if offset]
        total = x.source
        for each in needed:
            total = f"Sum({total}, {each})"
        name = self.network.layer(f"{hint}.limited", "NoOpComponent", f"dim={x.dim}", total)
        return replace(x.with_node(name), early=0, late=0)

    def stored_as(self, x: Tensor, atoms: Axis, hint: str) -> Tensor:
        """The value with its columns in another order, that of ``atoms``."""
        order = x.column_order(atoms)
        if np.array_equal(order, np.arange(x.dim)):
            return replace(x, stored=atoms)
        numbers = ",".join(map(str, np.argsort(order).tolist()))
        name = self.network.layer(f"{hint}.permute", "PermuteComponent", f"column-map={numbers}", x.source)
        return x.with_node(name, stored=atoms)

    def in_order(self, x: Tensor, hint: str) -> Tensor:
        """The value with its columns in the order of its axes."""
        return self.stored_as(x, x.columns, hint)

    def together(self, op: OnnxOp, first: Tensor, second: Tensor) -> tuple[Tensor, str]:
        """Two values of the same frames and columns: the first, and the descriptor of the second at its times."""
        if first.is_constant and not second.is_constant:
            raise CannotBe("its first input is the same for all frames, and its second is not")
        second = self._like(op, first, second)
        if second.is_constant:
            return first, second.source
        if first.step != second.step:
            raise CannotBe(f"its inputs have another number of frames: every {first.step}th and every {second.step}th")
        first = replace(first, early=min(first.early, second.early), late=min(first.late, second.late))
        return first, self.at(second, second.shift - first.shift)

    def _like(self, op: OnnxOp, first: Tensor, second: Tensor) -> Tensor:
        """The second value with its columns stored as those of the first."""
        rank = len(first.axes)
        if len(second.axes) < rank:
            second = second.with_axes(range(rank - len(second.axes)))
        for number, (size, other) in enumerate(zip(first.shape, second.shape, strict=True)):
            repeated = second.is_constant and other == 1 and not first.is_columns(number)
            if size != other and not repeated:
                raise CannotBe(f"its inputs have shapes {first.shape} and {second.shape}; a network cannot repeat "
                               "columns or frames")
        sizes = [atom.size for atom in first.columns], [atom.size for atom in second.columns]
        if sizes[0] != sizes[1]:
            raise CannotBe(f"the columns of its inputs have other axes: {sizes[0]} and {sizes[1]}")
        partner = dict(zip(first.columns, second.columns, strict=True))
        return self.stored_as(second, tuple(partner[atom] for atom in first.stored), op.hint)


def _later(descriptor: str, offset: int) -> str:
    return descriptor if offset == 0 else f"Offset({descriptor}, {offset})"


def only(values: Sequence[int], what: str) -> int:
    """The single number of a list, or of several equal ones."""
    if len(set(values)) != 1:
        raise CannotBe(f"{what} {list(values)}: expected a single number")
    return int(values[0])
