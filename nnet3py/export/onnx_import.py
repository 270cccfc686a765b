"""The graph of another program's ONNX file as a network.

One pass through the graph uses unmistakable sizes for sequences and frames, so that everything computed from shapes is
a number. Values that depend on the network's input are nodes (``Tensor`` in ``onnx_context.py``), all others arrays.
"""
from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.export import onnx_rules, onnx_rules_over_time
from nnet3py.export.onnx_context import (
    BATCH,
    TIME,
    Atom,
    Axis,
    CannotBe,
    Context,
    Cutter,
    NetworkBuilder,
    NotMade,
    OnnxOp,
    Tensor,
    Value,
    columns_of,
)
from nnet3py.export.onnx_graph import import_onnx
from nnet3py.network.nnet import Nnet


@dataclass(frozen=True)
class OnnxFile:
    """Content of an ONNX file."""

    path: str                        # the file
    model: Any                       # onnx's ``ModelProto``
    arrays: dict[str, np.ndarray]    # the initializers by name
    metadata: dict[str, str]         # texts by key

    @property
    def is_own(self) -> bool:
        """True for a file that nnet3py wrote."""
        return self.metadata.get("producer") == "nnet3py"


def read_onnx(path: str | os.PathLike[str]) -> OnnxFile:
    """Read a file, and its weights if they are in another file beside it.

    Raises Nnet3Error if the package onnx is not installed or the file cannot be opened, and FormatError for a file that
    is not ONNX.
    """
    onnx, path = import_onnx(), os.fspath(path)
    try:
        model = onnx.load(path)
        arrays = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    except OSError as error:
        raise Nnet3Error(f"{path}: {error.strerror}") from error
    except Exception as error:                   # protobuf's exceptions for bad bytes have no common base
        raise FormatError(f"this is no ONNX file: {error}", path=path) from error
    if not model.graph.node:
        raise FormatError("this is no ONNX file: it has no operators", path=path)
    return OnnxFile(path, model, arrays, {each.key: each.value for each in model.metadata_props})


# -- graphs of other programs ------------------------------------------------------------------------------------------

RULES = onnx_rules.RULES | onnx_rules_over_time.RULES
SEQUENCES, FRAMES = 3, 4001      # primes, which no other size equals; more than any context
PADDING = ("zeros", "replicate")
OLDEST = 13                      # opset; older files are converted
_UNFIT = (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError)
_LAYOUTS = {2: ("tc", "ct"), 3: ("ntc", "nct", "tnc"), 4: ("nctc", "ncct")}     # of a network's input, by rank


@dataclass(frozen=True)
class ForeignNetwork:
    """Network made from a graph.

    Row r of the graph's output is the output of ``nnet`` for frame ``step * r + first``, without frames around the
    utterance except those of ``repeated``.
    """

    nnet: Nnet
    layout: str                  # axes of the input: n sequences, t frames, c columns
    sizes: tuple[int, ...]       # sizes of these axes; -1 for sequences and frames, unless fixed in the graph
    output_axes: str             # axes of the first output, in the same letters
    first: int
    step: int
    repeated: tuple[int, int]    # numbers of repetitions of the first frame before it and of the last frame after it
    has_zeros: bool              # whether zeros stand for frames before the first or after the last
    is_recurrent: bool           # whether a frame depends on the previous or next one


def foreign_network(file: OnnxFile, padding: str = PADDING[0]) -> ForeignNetwork:
    """Make a network from the graph of a file.

    ``padding`` : ``zeros``, as in the graph; or ``replicate``: where a convolution reads beyond the ends, the network
    reads further frames, which repeat the first or last. Raises Nnet3Error for an operator without counterpart, with
    its node.
    """
    model = _in_one_form(file)
    initializers = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in initializers]
    if not inputs or not model.graph.output:
        raise Nnet3Error(f"{file.path}: expected a graph with an input and an output")
    shapes = {each.name: _declared(each) for each in inputs}
    why, furthest = CannotBe(f"its inputs have the shapes {list(shapes.values())}; expected an input of sequences, "
                             "frames and a fixed number of columns"), -1
    for name, shape in shapes.items():                     # one of the inputs has the frames
        for layout in _layouts(shape):
            walk = _Walk(model, layout, shape, padding)
            try:
                walk.add_input(name)
                walk.add_vectors({other: its_shape for other, its_shape in shapes.items() if other != name})
                return walk.network()
            except CannotBe as error:
                if walk.done > furthest:
                    why, furthest = error, walk.done
    raise Nnet3Error(f"{file.path}: {why.message}", why.hint)


def _in_one_form(file: OnnxFile) -> Any:
    """Return the model converted to opset OLDEST or later, with functions inlined."""
    onnx, model = import_onnx(), file.model
    version = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), OLDEST)
    try:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        if version < OLDEST:
            model = onnx.version_converter.convert_version(model, OLDEST)
    except Exception as error:                 # these tools raise exceptions of any class
        raise Nnet3Error(f"{file.path}: onnx cannot bring the model to opset {OLDEST}: {error}",
                         "export it again with a newer opset") from error
    return model


def _declared(value: Any) -> list[int]:
    """Return the shape of an input; -1 for sizes that are not fixed."""
    return [dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else -1
            for dim in value.type.tensor_type.shape.dim]


def _layouts(shape: list[int]) -> list[str]:
    """Return the possible layouts of an input, the most probable first."""
    fitting = [layout for layout in _LAYOUTS.get(len(shape), ()) if all(
        size > 0 for letter, size in zip(layout, shape, strict=True) if letter == "c")]
    return sorted(fitting, key=lambda layout: shape[layout.index("t")] > 0)


class _Walk:
    """Conversion of the operators of a graph one by one, on the assumption of one layout of the input."""

    def __init__(self, model: Any, layout: str, shape: list[int], padding: str) -> None:
        self.onnx, self.model, self.layout, self.declared = import_onnx(), model, layout, shape
        self.done = 0
        graph = model.graph
        self.values: dict[str, Value] = {each.name: self.onnx.numpy_helper.to_array(each) for each in graph.initializer}
        self.values[""] = None
        self.nodes = list(graph.node)
        uses = Counter(name for node in self.nodes for name in node.input)
        uses.update(each.name for each in graph.output)
        for node in self.nodes:
            if node.op_type == "Constant":
                self._fold(node, self._op(node))
        self.context = Context(NetworkBuilder(), uses, padding == PADDING[1], cutters=dict(self._cutters(uses)))
        sizes = {"n": SEQUENCES, "t": FRAMES}
        self.sizes = {letter: size if size > 0 else sizes.get(letter, 0)
                      for letter, size in zip(layout, shape, strict=True)}

    def add_input(self, name: str) -> None:
        """Add the input node for the features of frames."""
        axes: list[Axis] = []
        for letter, size in zip(self.layout, self.declared, strict=True):
            if letter == "c":
                axes.append(columns_of(size))
            else:
                size = self.sizes[letter]
                axes.append((Atom(TIME if letter == "t" else BATCH, size),) if size > 1 else ())
        stored = tuple(atom for axis, letter in zip(axes, self.layout, strict=True) if letter == "c" for atom in axis)
        self.context.network.input("input", math.prod(atom.size for atom in stored))
        if not any(atom.kind == TIME for axis in axes for atom in axis):
            raise CannotBe("the input has a single frame", "export it with frames of any number")
        self.values[name] = Tensor(tuple(axes), stored, "input", is_input=True)

    def add_vectors(self, shapes: dict[str, list[int]]) -> None:
        """Add input nodes for the other inputs, which have one vector for each sequence, such as i-vectors."""
        for number, (name, shape) in enumerate(shapes.items()):
            if len(shape) != 2 or shape[1] < 1 or number:
                raise CannotBe(f"the input '{name}' has the shape {tuple(shape)}; beside the frames, a network has an "
                               "input (sequences, columns), a vector for each sequence, and no states",
                               "export the model for whole sequences")
            columns = columns_of(shape[1])
            self.context.network.input("ivector", shape[1])
            batch = (Atom(BATCH, self.sizes.get("n", 1)),) if self.sizes.get("n", 1) > 1 else ()
            self.values[name] = Tensor((batch, columns), columns, "ReplaceIndex(ivector, t, 0)", is_constant=True)

    def _cutters(self, uses: Counter[str]) -> Iterable[tuple[str, Cutter]]:
        for node in self.nodes:
            arrays = [self.values.get(name) for name in node.input[1:]]
            if node.op_type == "Slice" and uses[node.input[0]] == 1 and len(arrays) >= 2 and all(
                    isinstance(each, np.ndarray) for each in arrays):
                numbers = [each.reshape(-1).tolist() for each in arrays if isinstance(each, np.ndarray)]
                rank = len(numbers[0])
                yield node.input[0], Cutter(node.output[0], numbers[0], numbers[1],
                                            numbers[2] if len(numbers) > 2 else list(range(rank)),
                                            numbers[3] if len(numbers) > 3 else [1] * rank)

    def network(self) -> ForeignNetwork:
        """Convert all operators; return the network."""
        self._run(self.nodes)
        outputs = [(each.name, self._output(each.name)) for each in self.model.graph.output]
        for number, (name, x) in enumerate(outputs):
            self.context.network.output("output" if number == 0 else name, x.source)
        first = outputs[0][1]
        letters = {BATCH: "n", TIME: "t"}
        return ForeignNetwork(
            self.context.network.network(), self.layout,
            tuple(size if letter == "c" or size > 0 else -1
                  for letter, size in zip(self.layout, self.declared, strict=True)),
            "".join(letters.get(axis[0].kind, "c") if axis else "c" for axis in first.axes), first.shift, first.step,
            self.context.repeated, self.context.has_zeros, self.context.is_recurrent)

    def _output(self, name: str) -> Tensor:
        x = self.values.get(name)
        if isinstance(x, NotMade):
            raise CannotBe(f"the output '{name}': {x.reason}")
        if not isinstance(x, Tensor):
            raise CannotBe(f"the output '{name}' does not depend on the input")
        if x.before or x.after or not (x.is_constant or x.time_axis >= 0):
            raise CannotBe(f"the output '{name}' has no separate axis of frames, or is padded with zeros")
        return self.context.in_order(x, "output.order")

    def _run(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            if node.op_type == "Constant":
                continue
            op = self._op(node)
            try:
                self._do(node, op)
            except _UNFIT as error:            # rules do not check everything in a damaged file
                raise CannotBe(f"{_where(op)}: its inputs and attributes do not match: {error}") from error
            self.done += 1

    def _do(self, node: Any, op: OnnxOp) -> None:
        if node.op_type == "If":
            self._branch(node, op)
        elif node.op_type in ("Shape", "Size") and isinstance(op.inputs[0], Tensor):
            self.values[node.output[0]] = self._shape(op)
        elif not any(isinstance(value, Tensor | NotMade) for value in op.inputs):
            self._fold(node, op)
        else:
            self._apply(op)

    def _op(self, node: Any) -> OnnxOp:
        attributes = {each.name: _text(self.onnx.helper.get_attribute_value(each)) for each in node.attribute}
        for name in node.input:
            if name not in self.values:
                raise CannotBe(f"the ONNX operator '{node.op_type}' (node '{node.name}') reads '{name}', which nothing "
                               "makes")
        return OnnxOp(node.op_type, node.name, [self.values[name] for name in node.input], list(node.input),
                      list(node.output), attributes)

    def _fold(self, node: Any, op: OnnxOp) -> None:
        """Compute the constant outputs of an operator that does not depend on the network's input."""
        from onnx.reference import ReferenceEvaluator

        given = {name: value for name, value in zip(op.input_names, op.inputs, strict=True) if name}
        helper = self.onnx.helper
        try:
            graph = helper.make_graph([node], "one", [helper.make_empty_tensor_value_info(name) for name in given],
                                      [helper.make_empty_tensor_value_info(name) for name in node.output if name])
            evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=self.model.opset_import))
            results = evaluator.run(None, given)
        except Exception as error:                 # of an operator that onnx does not compute, or of a damaged file
            raise CannotBe(f"{_where(op)} cannot be computed: {error}") from error
        for name, result in zip((name for name in node.output if name), results, strict=True):
            self.values[name] = np.asarray(result)

    def _shape(self, op: OnnxOp) -> np.ndarray:
        shape = op.tensor().shape
        if op.kind == "Size":
            return np.array(math.prod(shape), np.int64)
        return np.array(shape[op.get("start", 0):op.get("end", len(shape))], np.int64)

    def _branch(self, node: Any, op: OnnxOp) -> None:
        """Convert the operators of the branch that an If takes; its condition must be constant."""
        condition = op.inputs[0]
        if not isinstance(condition, np.ndarray):
            raise CannotBe(f"{_where(op)} cannot become part of a network: its condition is computed")
        graph = op.attributes["then_branch" if condition.all() else "else_branch"]
        self.values |= {each.name: self.onnx.numpy_helper.to_array(each) for each in graph.initializer}
        for inner in graph.node:
            if inner.op_type == "Constant":
                self._fold(inner, self._op(inner))
        self._run(graph.node)
        for name, inner in zip(node.output, graph.output, strict=True):
            self.values[name] = self.values[inner.name]

    def _apply(self, op: OnnxOp) -> None:
        rule = RULES.get(op.kind)
        if rule is None:
            raise CannotBe(f"{_where(op)} has no counterpart in nnet3", "docs/export.md lists the operators that have")
        try:
            results = rule(self.context, op)
        except CannotBe as error:
            raise CannotBe(f"{_where(op)} cannot become part of a network: {error.message}", error.hint) from error
        values = results if isinstance(results, list) else [results]
        self.values |= dict(zip(op.output_names, values, strict=False))
        for name in op.output_names[len(values):]:
            self.values[name] = NotMade(f"the output '{name}' of {_where(op)} is not one of a network")


def _text(value: Any) -> Any:
    """Decode an attribute if it is bytes; return any other one unchanged."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return [_text(each) for each in value] if isinstance(value, list) else value


def _where(op: OnnxOp) -> str:
    name = op.name or " ".join(op.output_names)
    return f"the ONNX operator '{op.kind}' (node '{name}')"
