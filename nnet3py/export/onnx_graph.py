"""Conversion of the list of operations to an ONNX graph of standard operators, and writing of ONNX models to files."""
from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.export.operations import STREAM_TIME, Graph, Loop, Op, State, Value, linear_weights
from nnet3py.export.plain_weights import network_text
from nnet3py.extras import load
from nnet3py.io.specifiers import Medium, parse_wxfilename
from nnet3py.io.streams import open_output

OPSET, IR_VERSION = 17, 8
NETWORK = "network"      # key of the metadata with the network without its weights
TO_THE_END = 2**31 - 1
LONG = 2**20             # frames of a stream; more than any network looks back
Settings = dict[str, Any]


def _nothing(s: Settings) -> Sequence[Any]:
    return ()


# By kind of an operation that becomes one operator: the operator, a function from the operation's settings to the
# int64 constants that it reads after the operation's inputs, and its attributes.
OPERATORS: dict[str, tuple[str, Callable[[Settings], Sequence[Any]], dict[str, int]]] = {
    **{kind: (name, _nothing, {}) for kind, name in {
        "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "add": "Add",
        "sub": "Sub", "mul": "Mul", "div": "Div", "matmul": "MatMul", "and": "And", "or": "Or", "int_sum": "Add",
    }.items()},
    "softmax": ("Softmax", _nothing, {"axis": -1}), "log_softmax": ("LogSoftmax", _nothing, {"axis": -1}),
    "concat": ("Concat", _nothing, {"axis": -1}), "concat_time": ("Concat", _nothing, {"axis": 1}),
    "take_rows": ("Gather", _nothing, {"axis": 1}),
    "double": ("Cast", _nothing, {"to": 11}), "single": ("Cast", _nothing, {"to": 1}),      # onnx.TensorProto's numbers
    "one_frame": ("Unsqueeze", lambda s: [[1]], {}),
    "columns": ("Slice", lambda s: [[s["begin"]], [s["end"]], [-1]], {}),
    "pick_columns": ("Gather", lambda s: [s["index"]], {"axis": -1}),
    "weight_row": ("Gather", lambda s: [s["row"]], {"axis": 0}),
    "sum": ("ReduceSum", lambda s: [[s["axis"]]], {"keepdims": 1}),
    "reshape": ("Reshape", lambda s: [[0, 0, *s["tail"]]], {}),
    "weight_shape": ("Reshape", lambda s: [s["shape"]], {}),
    "last_rows": ("Slice", lambda s: [[-s["count"]], [TO_THE_END], [1]], {}),
    "first_frame": ("Slice", lambda s: [[0], [1], [1]], {}),
    "int_add": ("Add", lambda s: [s["value"]], {}), "at_least_int": ("Max", lambda s: [s["least"]], {}),
}
WITH_NUMBER = {"scale": ("Mul", "by"), "shift": ("Add", "by"), "at_least": ("Max", "least")}


def import_onnx() -> Any:
    """Import the package onnx. Raises Nnet3Error with the command that installs it."""
    return load("onnx", "ONNX files need", "onnx")


def linear_weight(graph: Graph, settings: Settings) -> np.ndarray:
    """Return the matrix of a ``linear`` operation as in the file, (inputs, outputs)."""
    array = graph.weights[settings["weight"]].array
    if settings["columns"] is not None:
        array = np.concatenate([array[:, begin:end] for begin, end in settings["columns"]], axis=1)
    return np.ascontiguousarray(array.T)


def linear_name(settings: Settings) -> str:
    """Return the name of the matrix of a ``linear`` operation in the file."""
    if settings["columns"] is None:
        return str(settings["weight"])
    return settings["weight"] + "[" + ",".join(f"{b}:{e}" for b, e in settings["columns"]) + "]"


class OnnxWriter:
    """Writer of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.onnx = import_onnx()
        self.helper, self.graph = self.onnx.helper, graph
        self.nodes: list[Any] = []
        self.initializers: dict[str, np.ndarray] = {}
        self.constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.doubles: set[str] = set()
        self.count = 0
        self.scope = ""

    def model(self) -> Any:
        """Return the ONNX model with its metadata."""
        if self.graph.states and not self.graph.fixed:
            self._first_chunk()
        self._lengths()
        for op in self.graph.ops:
            self._loop(op) if isinstance(op, Loop) else self._op(op)
        for name, value in self.graph.outputs:
            self._add("Identity", [value.name], [name])
        for state in self.graph.states:
            self._add("Identity", [state.next_value], [f"next.{state.name}"])
        graph = self.helper.make_graph(
            self.nodes, "nnet3", [*map(self._input_info, self.graph.inputs), *map(self._state_info, self.graph.states)],
            [*(self._float_info(name, ["N", self._rows_out(), value.dim]) for name, value in self.graph.outputs),
             *map(self._next_info, self.graph.states)],
            [self.onnx.numpy_helper.from_array(array, name) for name, array in self.initializers.items()])
        model = self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", OPSET)],
                                       producer_name="nnet3py", ir_version=IR_VERSION)
        self.helper.set_model_props(model, self.graph.metadata | self._network())
        return model

    def _network(self) -> dict[str, str]:
        """Return the metadata from which the network can be restored: its text, and the arrays not in initializers."""
        if self.graph.network is None:
            return {}
        written = linear_weights(self.graph) | self.initializers.keys()
        left_out = {name for name, weight in self.graph.weights.items() if weight.is_parameter and name in written}
        return {NETWORK: network_text(self.graph.network, left_out)}

    def _float_info(self, name: str, shape: list[Any]) -> Any:
        return self.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape)

    def _input_info(self, spec: Any) -> Any:
        fixed = self.graph.fixed
        frames = fixed.outputs * self.graph.frame_subsampling_factor if fixed else "T"
        return self._float_info(spec.name, ["N", frames, spec.dim] if spec.has_time else ["N", spec.dim])

    def _next_info(self, state: State) -> Any:
        name = f"next.{state.name}"
        return self._float_info(name, ["N", f"frames of {name}" if state.is_growing else state.frames, state.dim])

    def _rows_out(self) -> int | str:
        return self.graph.fixed.outputs if self.graph.fixed else "T_out"

    def _state_info(self, state: State) -> Any:
        frames = state.frames if state.frames_at_start else f"frames of {state.name}"
        return self._float_info(state.name, ["N", frames, state.dim])

    def _first_chunk(self) -> None:
        """Add the value ``is_first``, bool (1,): whether this is the first chunk, when the states have no frames."""
        state = next(s for s in self.graph.states if s.frames_at_start == 0)
        self._add("Equal", [self._rows(state.name), self._constant([0])], ["is_first"])

    def _by_chunk(self, first: int, later: int) -> str:
        """Return a value, int64 (1,), that is ``first`` in the first chunk and ``later`` in all others."""
        if first == later or not self.graph.states:
            return self._constant([first])
        if self.graph.fixed:
            return self._constant([later])
        return self._add("Where", ["is_first", self._constant([first]), self._constant([later])])

    def _new(self) -> str:
        self.count += 1
        return f"{self.scope}/t{self.count}" if self.scope else f"t{self.count}"

    def _add(self, kind: str, inputs: list[str], outputs: list[str] | None = None, **attributes: Any) -> str:
        outputs = outputs or [self._new()]
        self.nodes.append(self.helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes))
        return outputs[0]

    def _constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Return the name of an initializer with these numbers, added unless there is an equal one."""
        array = np.asarray(values, dtype)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self.constants:
            self.constants[key] = name = f"c{len(self.constants)}"
            self.initializers[name] = array
        return self.constants[key]

    def _float(self, number: float, like: str) -> str:
        return self._constant(number, np.float64 if like in self.doubles else np.float32)

    def _name(self, name: str) -> str:
        """Return the name of an operation's input; if it is a weight, add its initializer."""
        weight = self.graph.weights.get(name)
        if weight is not None and name not in self.initializers:
            self.initializers[name] = weight.array
        return name

    def _rows(self, value: str) -> str:
        """Return the number of frames of a value, (1,)."""
        return self._add("Slice", [self._add("Shape", [value]), *map(self._constant, ([1], [2]))])

    def _lengths(self) -> None:
        """Add the values ``batch``, the number of sequences, (1,), and ``end``, the time of the last output."""
        spec = next((s for s in self.graph.inputs if s.has_time), self.graph.inputs[0])
        shape = self._add("Shape", [spec.name])
        self._add("Slice", [shape, *map(self._constant, ([0], [1]))], ["batch"])
        if not spec.has_time:
            self._add("Identity", [self._constant(0)], ["end"])
            return
        self._add("Gather", [shape, self._constant(1)], ["num_frames"])
        factor = self.graph.frame_subsampling_factor
        if self.graph.edges == "stream":
            self._stream_lengths(self._by_chunk(1 + spec.left + spec.right, factor))
            return
        if self.graph.edges == "given":
            self._add("Sub", ["num_frames", self._constant(1 + spec.left + spec.right)], ["end"])
            return
        last = self._add("Sub", ["num_frames", self._constant(1)])
        if factor == 1:
            self._add("Identity", [last], ["end"])
            return
        self._add("Mul", [self._add("Div", [last, self._constant(factor)]), self._constant(factor)], ["end"])

    def _stream_lengths(self, others: str) -> None:
        """Add ``begin`` and ``end``, the times of a chunk's first and last output, and ``span``, ``end - begin``.

        ``others`` : name of the value to subtract from a chunk's number of frames to get ``span``.
        """
        self._add("Squeeze", [self._add("Sub", ["num_frames", others])], ["span"])
        begin = self._constant(0)
        if any(state.name == STREAM_TIME for state in self.graph.states):
            first = self._add("Slice", [STREAM_TIME, *map(self._constant, ([0], [1], [0]))])
            begin = self._add("Cast", [self._add("Squeeze", [first])], to=self.onnx.TensorProto.INT64)
            if self.graph.fixed and self.graph.fixed.first_time:
                begin = self._add("Add", [begin, self._constant(self.graph.fixed.first_time)])
        self._add("Identity", [begin], ["begin"])
        self._add("Add", ["begin", "span"], ["end"])

    def _end_plus(self, number: int) -> str:
        return "end" if number == 0 else self._add("Add", ["end", self._constant(number)])

    def _op(self, op: Op) -> None:
        self.scope = op.scope
        inputs, output, s = [self._name(name) for name in op.inputs], [op.output.name], op.settings
        if op.kind in OPERATORS:
            kind, constants, attributes = OPERATORS[op.kind]
            self._add(kind, [*inputs, *map(self._constant, constants(s))], output, **attributes)
        elif op.kind in WITH_NUMBER:
            kind, key = WITH_NUMBER[op.kind]
            if (kind, s[key]) == ("Mul", 1.0):
                self._add("Identity", inputs, output)
            else:
                self._add(kind, [*inputs, self._float(s[key], inputs[0])], output)
        else:
            getattr(self, f"_do_{op.kind}")(inputs, output, s)
        if op.kind == "double" or op.kind != "single" and any(name in self.doubles for name in inputs):
            self.doubles.add(op.output.name)

    def _do_frames(self, i: list[str], o: list[str], s: Settings) -> None:
        if self.graph.edges in ("given", "stream"):
            self._add("Identity", i, o)
            return
        times = self._add("Range", [self._constant(-s["left"]), self._end_plus(s["right"] + 1), self._constant(1)])
        last = self._add("Sub", [self._add("Gather", [self._add("Shape", i), self._constant(1)]), self._constant(1)])
        index = self._add("Min", [self._add("Max", [times, self._constant(0)]), last])
        self._add("Gather", [i[0], index], o, axis=1)

    def _do_linear(self, i: list[str], o: list[str], s: Settings) -> None:
        name = linear_name(s)
        if name not in self.initializers:
            self.initializers[name] = linear_weight(self.graph, s)
        if s["bias"] is None:
            self._add("MatMul", [i[0], name], o)
        else:
            self._add("Add", [self._add("MatMul", [i[0], name]), self._name(s["bias"])], o)

    def _do_batch_norm(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("Add", [self._add("Mul", [i[0], self._name(s["scale"])]), self._name(s["offset"])], o)

    def _do_maximum(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("ReduceMax", i, o, axes=[s["axis"]], keepdims=1)

    def _do_transposed(self, i: list[str], o: list[str], s: Settings) -> None:
        rank = 3 if i[0] not in self.initializers else self.initializers[i[0]].ndim
        self._add("Transpose", i, o, perm=[*range(rank - 2), rank - 1, rank - 2])

    def _do_away_from_zero(self, i: list[str], o: list[str], s: Settings) -> None:
        least, zero = (self._constant(x, np.float32) for x in (s["least"], 0.0))
        small = self._add("Where", [self._add("GreaterOrEqual", [i[0], zero]), least, self._add("Neg", [least])])
        self._add("Where", [self._add("GreaterOrEqual", [self._add("Abs", i), least]), i[0], small], o)

    def _do_expand(self, i: list[str], o: list[str], s: Settings) -> None:
        if "frames" in s:
            length = self._constant([s["frames"]])
        else:
            factor = self.graph.frame_subsampling_factor
            span = "span" if self.graph.edges == "stream" else "end"
            span = self._add("Add", [span, self._by_chunk(s["hi"] - s["lo"] + s["step"], factor)])
            length = self._add("Div", [span, self._constant([s["step"]])])
        self._add("Expand", [i[0], self._add("Concat", ["batch", length, self._constant([1])], axis=0)], o)

    def _do_slice_time(self, i: list[str], o: list[str], s: Settings) -> None:
        stop = -s["stop"] or TO_THE_END
        start = self._by_chunk(s["start"], s["later_start"])
        self._add("Slice", [i[0], start, *map(self._constant, ([stop], [1], [s["step"]]))], o)

    def _mask(self, name: str) -> str:
        return self._add("Unsqueeze", [name, self._constant([1])])

    def _do_keep(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("Where", [self._mask(i[1]), i[0], self._float(0.0, i[0])], o)

    def _do_choose(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("Where", [self._mask(i[0]), i[1], i[2]], o)

    def _do_window_sum(self, i: list[str], o: list[str], s: Settings) -> None:
        sums = self._add("CumSum", [i[0], self._constant(1)])
        sums = self._add("Pad", [sums, self._constant([0, 1, 0, 0, 0, 0]), self._float(0.0, i[0])])
        begin = self._add("Min", [i[1], self._rows(i[0])])
        end = self._add("Max", [self._add("Add", [i[2], self._constant(1)]), begin])
        self._add("Sub", [self._add("Gather", [sums, end], axis=1), self._add("Gather", [sums, begin], axis=1)], o)

    def _do_times(self, i: list[str], o: list[str], s: Settings) -> None:
        first = self._constant(s["lo"])
        if self.graph.edges == "stream":
            new = s["hi"] + s["step"] - self.graph.frame_subsampling_factor
            later = self._add("Add", ["begin", self._constant(new)])
            if not self.graph.fixed:
                later = self._add("Squeeze", [self._add("Where", ["is_first", first, later])])
            first = later
        self._add("Range", [first, self._end_plus(s["hi"] + 1), self._constant(s["step"])], o)

    def _do_round_down(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("Sub", [i[0], self._add("Mod", [i[0], self._constant(s["by"])])], o)

    def _do_table_int(self, i: list[str], o: list[str], s: Settings, dtype: Any = np.int64) -> None:
        index = self._add("Mod", [i[0], self._constant(len(s["table"]))])
        self._add("Gather", [self._constant(s["table"], dtype), index], o)

    def _do_table_bool(self, i: list[str], o: list[str], s: Settings) -> None:
        self._do_table_int(i, o, s, np.bool_)

    def _do_is_in(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("And", [self._add("GreaterOrEqual", [i[0], self._constant(s["lo"])]),
                          self._add("LessOrEqual", [i[0], self._end_plus(s["hi"])])], o)

    def _do_is_multiple(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("Equal", [self._add("Mod", [i[0], self._constant(s["by"])]), self._constant(0)], o)

    def _do_rows_of(self, i: list[str], o: list[str], s: Settings) -> None:
        last = self._add("Sub", [self._rows(i[1]), self._constant(1)])
        self._add("Min", [self._add("Max", [self._row(i[0], i[1], s), self._constant(0)]), last], o)

    def _do_row_numbers(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("Identity", [self._row(i[0], i[1], s)], o)

    def _row(self, times: str, x: str, s: Settings) -> str:
        """Return the index in ``x`` of the row for each of ``times``.

        In a stream it is counted from the last row, since the first rows may have been dropped.
        """
        if self.graph.edges != "stream":
            row = self._add("Sub", [times, self._constant(s["lo"])])
            return row if s["step"] == 1 else self._add("Div", [row, self._constant(s["step"])])
        row = self._add("Sub", [times, self._end_plus(s["hi"])])
        if s["step"] > 1:
            row = self._add("Div", [row, self._constant(s["step"])])
        return self._add("Add", [row, self._add("Sub", [self._rows(x), self._constant(1)])])

    def _do_times_of(self, i: list[str], o: list[str], s: Settings) -> None:
        last = self._end_plus(s["hi"])
        before = self._add("Mul", [self._add("Sub", [self._add("Squeeze", [self._rows(i[0])]), self._constant(1)]),
                                   self._constant(s["step"])])
        self._add("Range", [self._add("Sub", [last, before]), self._add("Add", [last, self._constant(1)]),
                            self._constant(s["step"])], o)

    def _do_next_time(self, i: list[str], o: list[str], s: Settings) -> None:
        """Add the time of the next chunk, which wraps at a multiple of the modulus, so that float32 is exact."""
        moved = self._add("Add", ["span", self._constant(self.graph.frame_subsampling_factor)])
        period = s["again"] * -(-LONG // s["again"])
        again, twice = (self._constant(number, np.float32) for number in (period, 2 * period))
        time = self._add("Add", [i[0], self._add("Cast", [moved], to=self.onnx.TensorProto.FLOAT)])
        late = self._add("GreaterOrEqual", [time, twice])
        self._add("Where", [late, self._add("Sub", [time, again]), time], o)

    def _do_at_most_rows(self, i: list[str], o: list[str], s: Settings) -> None:
        self._add("Min", [i[0], self._add("Sub", [self._rows(i[1]), self._constant(1)])], o)

    def _do_as_column(self, i: list[str], o: list[str], s: Settings) -> None:
        number = self._add("Cast", i, to=self.onnx.TensorProto.FLOAT)
        self._add("Unsqueeze", [number, self._constant([0, 2])], o)

    def _loop(self, loop: Loop) -> None:
        """Add a Scan, each of whose steps computes ``fold`` frames, (N, fold, columns)."""
        self.scope = loop.scope
        if not loop.scanned:
            raise Nnet3Error(f"the recurrence of '{loop.scope}' has no input that changes with time")
        rows = self._rows(loop.scanned[0][0])
        missing = self._add("Mod", [self._add("Neg", [rows]), self._constant([loop.fold])])
        given = [self._folded(name, value, loop, missing) for name, value in loop.scanned]
        begin = [c.begin or self._add("Expand", [self._constant(0.0, np.float32), self._add(
            "Concat", ["batch", self._constant([loop.fold, c.dim])], axis=0)]) for c in loop.carried]
        body = self._body(loop)
        states, all_frames = [self._new() for _ in loop.carried], [self._new() for _ in loop.collected]
        direction = int(loop.is_backward)
        self.scope = loop.scope
        self._add("Scan", begin + given, states + all_frames, body=body, num_scan_inputs=len(given),
                  scan_input_axes=[1] * len(given), scan_input_directions=[direction] * len(given),
                  scan_output_axes=[1] * len(all_frames), scan_output_directions=[direction] * len(all_frames))
        for folded, (_, value) in zip(all_frames, loop.collected, strict=True):
            y = self._add("Reshape", [folded, self._constant([0, -1, value.dim])])
            start, end = (missing, self._constant([TO_THE_END])) if loop.is_backward else (self._constant([0]), rows)
            self._add("Slice", [y, start, end, self._constant([1])], [value.name])

    def _folded(self, name: str, value: Value, loop: Loop, missing: str) -> str:
        """Group the frames of a value by steps of the Scan, (N, steps, fold, columns), padded with zeros."""
        if loop.fold == 1:
            return self._add("Unsqueeze", [name, self._constant([2])])
        zero, zeros = self._constant([0]), self._constant([0, 0, 0])
        pads = [zero, missing, zeros, zero] if loop.is_backward else [zeros, zero, missing, zero]
        padded = self._add("Pad", [name, self._add("Concat", pads, axis=0), self._constant(0.0, np.float32)])
        return self._add("Reshape", [padded, self._constant([0, -1, loop.fold, value.dim])])

    def _body(self, loop: Loop) -> Any:
        outer, self.nodes = self.nodes, []
        for op in loop.body:
            self._op(op)
        inputs = [self._float_info(c.inside, ["N", loop.fold, c.dim]) for c in loop.carried]
        inputs += [self._float_info(value.name, [None, loop.fold, value.dim]) for _, value in loop.scanned]
        outputs = [self._float_info(c.next, ["N", loop.fold, c.dim]) for c in loop.carried]
        collected = []
        for inside, _ in loop.collected:                      # a value may be carried and collected
            self.scope = ""
            collected.append(self._add("Identity", [inside.name]))
            outputs.append(self._float_info(collected[-1], ["N", loop.fold, inside.dim]))
        body = self.helper.make_graph(self.nodes, f"{loop.scope} step", inputs, outputs)
        self.nodes = outer
        return body


# -- files -------------------------------------------------------------------------------------------------------------

LARGEST_FILE = 2**31 - 2**20      # bytes in one file; above, weights are in a second file
SMALL_WEIGHT = 1024               # bytes; smaller weights stay in the first file


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an ONNX model as one file, or, above LARGEST_FILE, as two, with the weights beside the graph."""
    if weight_bytes(model) > LARGEST_FILE:
        _write_in_two(import_onnx(), model, os.fspath(path))
        return
    with open_output(path) as file:
        file.write(model.SerializeToString())


def weights_beside(path: str) -> list[str]:
    """Return the paths of the separate files in which an ONNX file keeps its weights; empty if they are inside."""
    onnx = import_onnx()
    names = {entry.value for each in onnx.load(path, load_external_data=False).graph.initializer
             for entry in each.external_data if entry.key == "location"}
    return [os.path.join(os.path.dirname(path), name) for name in sorted(names)]


def weight_bytes(model: Any) -> int:
    """Return the size of the weights of an ONNX model in bytes."""
    return sum(len(each.raw_data) for each in model.graph.initializer)


def _write_in_two(onnx: Any, model: Any, path: str) -> None:
    """Write the graph as one file, and its weights as another beside it."""
    folder, name = os.path.split(path)
    if parse_wxfilename(path).medium is not Medium.FILE or not os.path.isdir(folder or "."):
        raise UsageError(f"the model's weights have {weight_bytes(model)} bytes, too many for a single ONNX file; "
                         f"they need a second file beside it, but '{path}' is not a path in an existing folder",
                         "give the path of a file, not a pipe")
    weights = f"{name}.weights"
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder or ".") as unfinished:
            graph = os.path.join(unfinished, name)
            for tensor in model.graph.initializer:
                if len(tensor.raw_data) >= SMALL_WEIGHT:
                    onnx.external_data_helper.set_external_data(tensor, weights)
            onnx.save_model(model, graph)
            onnx.checker.check_model(graph, full_check=True)
            shutil.copymode(graph, os.path.join(unfinished, weights))
            os.replace(os.path.join(unfinished, weights), os.path.join(folder, weights))
            os.replace(graph, path)
    except OSError as error:
        raise Nnet3Error(f"cannot write {path}: {error.strerror or error}") from error
