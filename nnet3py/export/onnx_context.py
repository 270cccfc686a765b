"""Classes for the rules that import ONNX operators: values of the graph, operators, the network being built."""
from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.export.plain_weights import set_arrays
from nnet3py.network.nnet import Nnet

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_FIXED = "is the number of frames or sequences fixed in the graph? export it with any number of both"
BATCH, TIME, FEATURES = "sequences", "frames", "columns"


class CannotBe(Nnet3Error):
    """Error for an operator that no nnet3 network can compute; the caller adds the names of operator and node."""


@dataclass(frozen=True, eq=False)
class Atom:
    """Indivisible part of an axis: an axis of size 4 × 40 may be two atoms, of 4 and 40 columns."""

    kind: str    # BATCH, TIME or FEATURES
    size: int    # number of elements


Axis = tuple[Atom, ...]      # row-major: the last atom varies fastest; () for an axis of size 1


@dataclass(frozen=True, eq=False)
class Tensor:
    """Value of the ONNX graph that depends on the network's input, and the nnet3 node that computes it.

    Row r along its axis of frames is the value of the descriptor ``source`` at time ``step * r + shift``.
    """

    axes: tuple[Axis, ...]       # the atoms of each axis
    stored: Axis                 # atoms of the node's columns, the last varying fastest
    source: str                  # descriptor of the node, without an offset
    step: int = 1
    shift: int = 0
    # numbers of rows of zeros at the beginning and end of the axis of frames, which the node lacks
    before: int = 0
    after: int = 0
    # numbers of frames before the first and after the last row at which the node can be computed, too
    early: int = 0
    late: int = 0
    is_constant: bool = False    # whether the value is the same at all times
    # whether the value is the network's input, perhaps with its axes in another order
    is_input: bool = field(default=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(math.prod(atom.size for atom in axis) for axis in self.axes)

    @property
    def dim(self) -> int:
        """Number of columns of the node."""
        return math.prod(atom.size for atom in self.stored)

    @property
    def node(self) -> str:
        """Name of the node that the descriptor reads."""
        return next(name for name in _NAME.findall(self.source) if name not in ("Scale", "Offset", "ReplaceIndex"))

    @property
    def columns(self) -> Axis:
        """Atoms of columns in the order of the axes."""
        return tuple(atom for axis in self.axes for atom in axis if atom.kind == FEATURES)

    @property
    def time_axis(self) -> int:
        """Index of the axis of frames; -1 if there is none, or if it is merged with others."""
        return next((i for i, axis in enumerate(self.axes) if [atom.kind for atom in axis] == [TIME]), -1)

    def is_columns(self, axis: int) -> bool:
        """Return whether an axis has neither sequences nor frames."""
        return all(atom.kind == FEATURES for atom in self.axes[axis])

    def with_node(self, source: str, axes: tuple[Axis, ...] | None = None, stored: Axis | None = None) -> Tensor:
        """Return the value of another node at the same times."""
        return replace(self, source=source, axes=self.axes if axes is None else axes,
                       stored=self.stored if stored is None else stored, is_input=False)

    def transposed(self, order: Sequence[int]) -> Tensor:
        """Permute the axes."""
        return replace(self, axes=tuple(self.axes[i] for i in order))

    def reshaped(self, shape: Sequence[int]) -> Tensor:
        """Reshape as numpy does. Raises CannotBe if frames or sequences would be split or mixed with columns."""
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
        """Remove axes of size 1."""
        return replace(self, axes=tuple(axis for i, axis in enumerate(self.axes) if i not in axes))

    def with_axes(self, places: Sequence[int]) -> Tensor:
        """Insert axes of size 1, which have the indexes ``places`` in the result."""
        axes = deque(self.axes)
        rank = len(self.axes) + len(places)
        return replace(self, axes=tuple(() if i in places else axes.popleft() for i in range(rank)))

    def column_order(self, atoms: Axis | None = None) -> np.ndarray:
        """Return, for each column of the node, its index if the columns were ordered by ``atoms``: int64 (dim,).

        ``atoms`` is a permutation of the atoms of the columns; None for their order in the axes.
        """
        atoms = self.columns if atoms is None else atoms
        numbers = np.arange(self.dim).reshape([atom.size for atom in atoms])
        return numbers.transpose([atoms.index(atom) for atom in self.stored]).reshape(-1)

    def as_stored(self, array: np.ndarray) -> np.ndarray:
        """Broadcast a constant array to the columns of the node, in their order: float32 (dim,).

        Raises CannotBe for an array that differs between frames or sequences, or has axes that the value lacks.
        """
        if array.ndim > len(self.axes):
            raise CannotBe(f"an array of shape {array.shape} has more than {len(self.axes)} axes")
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
    """Return an axis of ``size`` columns."""
    return (Atom(FEATURES, size),) if size > 1 else ()


# -- the network being built -------------------------------------------------------------------------------------------

_INPUTS_AND_OUTPUTS = ("input", "output", "ivector")      # taken; other programs often give them to layers
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass
class Layer:
    """Component and its component node, both with one name.

    ``settings`` : options of the config line, after the type; ``arrays`` : parameters by attribute of the component.
    """

    name: str
    type: str
    settings: str
    input: str
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


class NetworkBuilder:
    """Builder of a network from nodes in the order of computation, with unique and valid names."""

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._layers: list[Layer] = []
        self._ranges: dict[int, list[str]] = {}
        self._outputs: list[str] = []
        self._names: set[str] = set(_INPUTS_AND_OUTPUTS)

    def input(self, name: str, dim: int) -> None:
        """Add an input node."""
        self._inputs.append(f"input-node name={name} dim={dim}")

    def output(self, name: str, descriptor: str) -> None:
        """Add an output node; another name than ``output`` is made unique."""
        name = name if name == "output" else self.new_name(name)
        self._outputs.append(f"output-node name={name} input={descriptor}")

    def new_name(self, hint: str) -> str:
        """Return an unused valid name similar to ``hint``."""
        plain = _NO_NAME.sub("_", hint).strip(".") or "layer"
        plain = f"{plain}.affine" if plain in _INPUTS_AND_OUTPUTS else plain
        plain = plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"
        name, count = plain, 1
        while name in self._names:
            count += 1
            name = f"{plain}_{count}"
        self._names.add(name)
        return name

    def layer(self, hint: str, kind: str, settings: str, descriptor: str,
              arrays: Mapping[str, np.ndarray] | None = None) -> str:
        """Add a component of type ``kind`` with its node; return their name."""
        name = self.new_name(hint)
        self.named_layer(name, kind, settings, descriptor, arrays)
        return name

    def named_layer(self, name: str, kind: str, settings: str, descriptor: str,
                    arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """Add a component and node whose name was made by :meth:`new_name` before, so that others could refer to it."""
        self._layers.append(Layer(name, kind, settings, descriptor, dict(arrays or {})))

    def affine(self, hint: str, weight: np.ndarray, bias: np.ndarray | None, descriptor: str) -> str:
        """Add an affine or linear map; return its name.

        ``weight`` is float (outputs, inputs), ``bias`` float (outputs,) or None.
        """
        name = self.new_name(hint)
        self.named_affine(name, weight, bias, descriptor)
        return name

    def named_affine(self, name: str, weight: np.ndarray, bias: np.ndarray | None, descriptor: str) -> None:
        """Add an affine or linear map with a name from :meth:`new_name`."""
        dims = f"input-dim={weight.shape[1]} output-dim={weight.shape[0]}"
        if bias is None:
            self.named_layer(name, "LinearComponent", dims, descriptor, {"params": weight})
        else:
            self.named_layer(name, "NaturalGradientAffineComponent", dims, descriptor,
                             {"linear_params": weight, "bias_params": bias})

    def add_bias(self, name: str, bias: np.ndarray, hint: str = "") -> str:
        """Add a bias, float (outputs,), to a linear map that nothing reads yet, and perhaps rename it.

        Returns its name; "" if the node is not a linear map.
        """
        layer = next((layer for layer in self._layers if layer.name == name and layer.type == "LinearComponent"), None)
        if layer is None:
            return ""
        if hint:
            self._names.discard(name)
            layer.name = self.new_name(hint)
        layer.type = "NaturalGradientAffineComponent"
        layer.arrays = {"linear_params": layer.arrays["params"], "bias_params": bias}
        return layer.name

    def dim_range(self, hint: str, source: str, offset: int, dim: int) -> str:
        """Add a dim-range node of columns ``offset`` to ``offset + dim`` of a node; return its name."""
        name = self.new_name(hint)
        self._ranges.setdefault(len(self._layers), []).append(
            f"dim-range-node name={name} input-node={source} dim-offset={offset} dim={dim}")
        return name

    def is_layer(self, name: str) -> bool:
        """Return whether ``name`` is an input node or a component node."""
        return any(layer.name == name for layer in self._layers) or any(
            line.split()[1] == f"name={name}" for line in self._inputs)

    def network(self) -> Nnet:
        """Make the network and set its parameters."""
        lines = list(self._inputs)
        for number, layer in enumerate(self._layers):
            lines += self._ranges.get(number, [])
            lines += [f"component name={layer.name} type={layer.type} {layer.settings}",
                      f"component-node name={layer.name} component={layer.name} input={layer.input}"]
        nnet = Nnet.from_config("\n".join([*lines, *self._ranges.get(len(self._layers), []), *self._outputs]) + "\n")
        set_arrays(nnet, {f"{layer.name}.{attribute}": array for layer in self._layers
                          for attribute, array in layer.arrays.items()})
        return nnet


# -- operators ---------------------------------------------------------------------------------------------------------

_MADE_UP = re.compile(r"^(onnx::|val_|_v_|/|\d)")          # names of weights that exporters invented


@dataclass(frozen=True)
class NotMade:
    """Output of an operator that no nnet3 node can compute."""

    reason: str    # message of the error that is raised if an operator reads this output


Value = Tensor | NotMade | np.ndarray | None      # None: an optional input that is not given


@dataclass
class OnnxOp:
    """Operator of the graph."""

    kind: str                     # its type, such as ``Conv``
    name: str                     # name of its node
    inputs: list[Value]           # values of its inputs
    # names of inputs and outputs in the graph
    input_names: list[str]
    output_names: list[str]
    attributes: dict[str, Any]    # by name; texts are ``str``

    def tensor(self, number: int = 0) -> Tensor:
        """Return an input that depends on the network's input."""
        value = self.inputs[number] if number < len(self.inputs) else None
        if isinstance(value, NotMade):
            raise CannotBe(value.reason)
        if not isinstance(value, Tensor):
            raise CannotBe(f"its input {number} does not depend on the network's input")
        return value

    def whole(self, number: int = 0) -> Tensor:
        """Return an input that depends on the network's input. Raises CannotBe if it was padded with rows of zeros."""
        value = self.tensor(number)
        if value.before or value.after:
            raise CannotBe("it follows a Pad, after which a network can only have a convolution")
        return value

    def array(self, number: int, what: str) -> np.ndarray:
        """Return a constant input; ``what`` names it in errors."""
        value = self.optional_array(number, what)
        if value is None:
            raise CannotBe(f"its {what} is not given")
        return value

    def optional_array(self, number: int, what: str) -> np.ndarray | None:
        """Return a constant input, or None if it is not given; ``what`` names it in errors."""
        value = self.inputs[number] if number < len(self.inputs) else None
        if isinstance(value, NotMade):
            raise CannotBe(value.reason)
        if isinstance(value, Tensor):
            raise CannotBe(f"its {what} is computed, not a constant")
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    @property
    def module(self) -> str:
        """Name of the PyTorch module that the operator's weights are named after; "" if unknown."""
        for name, value in zip(self.input_names, self.inputs, strict=True):
            module, _, last = name.rpartition(".")
            if isinstance(value, np.ndarray) and module and last.startswith(("weight", "bias")) \
                    and not _MADE_UP.match(name):
                return module
        return ""

    @property
    def hint(self) -> str:
        """Name for its component: that of the exported module, else that of the node."""
        if self.module:
            return self.module
        path = [part for part in self.name.strip("/").split("/") if part]
        if len(path) > 1:
            return ".".join(path[:-1]) if path[-1].startswith(self.kind) else ".".join(path)
        return self.kind.lower()


@dataclass(frozen=True)
class Cutter:
    """Slice with constant limits that is the only reader of a value; ``output`` is the name of its result."""

    output: str
    starts: list[int]
    ends: list[int]
    axes: list[int]
    steps: list[int]

    def part(self, axis: int, rank: int, size: int) -> range:
        """Return the indexes along an axis, of ``size`` elements, that the Slice keeps; the value has ``rank`` axes."""
        rows = range(size)
        for place, start, end, step in zip(self.axes, self.starts, self.ends, self.steps, strict=True):
            if place % rank == axis:
                rows = rows[start:end:step]
        return rows


@dataclass
class Context:
    """Network being built, and its properties."""

    network: NetworkBuilder
    uses: dict[str, int]    # number of operators and outputs of the graph that read each value
    # whether convolutions read copies of the first and last frames where the graph has zeros
    replicates: bool = False
    # numbers of copies of the first frame before it, and of the last frame after it, that the graph makes
    repeated: tuple[int, int] = (0, 0)
    has_zeros: bool = False    # whether zeros stand for frames before the first or after the last
    is_recurrent: bool = False                                  # whether a frame depends on the previous or next one
    cutters: dict[str, Cutter] = field(default_factory=dict)    # Slice operators by the value that they read
    # outputs of Slice operators whose rows a convolution has left out already
    without_cut: set[str] = field(default_factory=set)

    def at(self, x: Tensor, offset: int) -> str:
        """Return the descriptor that reads a value ``offset`` frames later."""
        return x.source if x.is_constant else _later(x.source, offset)

    def node(self, x: Tensor, hint: str) -> Tensor:
        """Return the value as the output of a node of its own, which a NoOpComponent copies if necessary."""
        if self.network.is_layer(x.source):
            return x
        return x.with_node(self.network.layer(hint, "NoOpComponent", f"dim={x.dim}", x.source))

    def copy(self, x: Tensor, hint: str) -> str:
        """Add a dim-range node with all columns of a value; return its name.

        It is needed where a part of a descriptor reads the value with two scales, which one node may not have.
        """
        x = self.node(x, hint)
        return self.network.dim_range(f"{hint}.needed", x.source, 0, x.dim)

    def limited(self, x: Tensor, hint: str) -> Tensor:
        """Return the value as a node that cannot be computed before its first row and after its last.

        The node adds zero times the frames that these rows need, so that IfDefined() finds no others.
        """
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
        """Return the value with its columns permuted to the order ``atoms``."""
        order = x.column_order(atoms)
        if np.array_equal(order, np.arange(x.dim)):
            return replace(x, stored=atoms)
        numbers = ",".join(map(str, np.argsort(order).tolist()))
        name = self.network.layer(f"{hint}.permute", "PermuteComponent", f"column-map={numbers}", x.source)
        return x.with_node(name, stored=atoms)

    def in_order(self, x: Tensor, hint: str) -> Tensor:
        """Return the value with its columns in the order of its axes."""
        return self.stored_as(x, x.columns, hint)

    def together(self, op: OnnxOp, first: Tensor, second: Tensor) -> tuple[Tensor, str]:
        """Align two values of the same shape, to add or multiply them.

        Returns the first value, and the descriptor that reads the second at the times of the first. Raises CannotBe
        for other shapes, or frames that do not match.
        """
        if first.is_constant and not second.is_constant:
            raise CannotBe("its first input is the same for all frames, and its second is not")
        second = self._like(op, first, second)
        if second.is_constant:
            return first, second.source
        if first.step != second.step:
            raise CannotBe(f"its inputs have different frame rates: every {first.step}th and every {second.step}th")
        first = replace(first, early=min(first.early, second.early), late=min(first.late, second.late))
        return first, self.at(second, second.shift - first.shift)

    def _like(self, op: OnnxOp, first: Tensor, second: Tensor) -> Tensor:
        """Return the second value with its columns stored as those of the first."""
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
            raise CannotBe(f"the columns of its inputs are axes of different sizes: {sizes[0]} and {sizes[1]}")
        partner = dict(zip(first.columns, second.columns, strict=True))
        return self.stored_as(second, tuple(partner[atom] for atom in first.stored), op.hint)


def _later(descriptor: str, offset: int) -> str:
    return descriptor if offset == 0 else f"Offset({descriptor}, {offset})"
