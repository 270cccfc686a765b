"""The list of operations that a network becomes before it is written as ONNX or as a torch module.

Matrices are float32 (N, time, columns): N sequences, then frames; a value that is the same at all times has one frame.
Each operation makes one new value; a :class:`Loop` makes several. ``KINDS`` defines the operations; each writer has one
translation for each.
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nnet3py.network.nnet import Nnet

# Result of each kind. x, y: matrices; v: int64 vector of times or rows; m: boolean vector with an element per frame.
KINDS = {
    "frames": "the rows of an input from left frames before t = 0 to right frames after the last output's time",
    "one_frame": "an input without time, (N, columns), as (N, 1, columns)",
    "linear": "x W' + b with the parameters of a component, or with some columns of W",
    "matmul": "x times a weight of two or more dimensions",
    "add": "x + y, or a weight", "sub": "x - y", "mul": "x * y, or a weight", "div": "x / y",
    "scale": "x times a number", "shift": "x plus a number", "at_least": "the larger of x and a number",
    "relu": "max(x, 0)", "sigmoid": "1 / (1 + exp(-x))", "tanh": "tanh(x)", "exp": "exp(x)", "log": "log(x)",
    "sqrt": "square root", "softmax": "softmax over the last dimension", "log_softmax": "its logarithm",
    "batch_norm": "the columns by the stored mean and variance of a component",
    "concat": "columns side by side", "columns": "columns begin to end", "pick_columns": "columns by number",
    "sum": "sum over one dimension from the back, which stays with size 1", "maximum": "the same, the largest",
    "reshape": "(N, time, ...) with other dimensions after the first two",
    "transposed": "a weight with its last two dimensions exchanged", "weight_row": "one row of a weight",
    "weight_shape": "a weight of other dimensions", "away_from_zero": "a weight with numbers near 0 moved to +-least",
    "double": "as float64", "single": "as float32",
    "expand": "a value with one frame, repeated for the frames from lo to hi after the last",
    "slice_time": "frames from start (later_start in later chunks) to stop frames before the end, each step-th",
    "concat_time": "the frames of x, then those of y", "last_rows": "the last count frames",
    "first_frame": "the first frame, which stands for the whole",
    "take_rows": "the frames that v numbers", "keep": "x where m, else 0", "choose": "x where m, else y",
    "window_sum": "sums of the frames first to last (int64 vectors) of x, 0 where last < first",
    "times": "lo, lo + step, ... up to the last output's time plus hi", "int_add": "v plus a number",
    "round_down": "v rounded down to a multiple", "table_int": "table[v mod len(table)]", "int_sum": "v + v",
    "table_bool": "table[v mod len(table)] as boolean", "is_in": "lo <= v <= last output's time + hi",
    "row_numbers": "the rows of x, whose frames begin at lo, end at the last output's time plus hi and are step apart, "
    "at the times v; perhaps outside x",
    "rows_of": "the same, moved inside x",
    "times_of": "the times of the frames of x, which end at the last output's time plus hi and are step apart",
    "next_time": "the time of the first output of the next chunk, (N, 1, 1)",
    "and": "m and m", "or": "m or m", "is_multiple": "v mod by is 0", "at_least_int": "max(v, number)",
    "at_most_rows": "min(v, rows of x - 1)", "as_column": "m as float (1, time, 1)",
}


STREAM_TIME = "stream.time"      # state with the time at which a chunk begins, for networks that depend on time


@dataclass(frozen=True)
class Value:
    """Result of an operation: its name, its number of columns, and whether it has one frame for all times."""

    name: str
    dim: int = 0
    is_constant: bool = False


@dataclass(frozen=True)
class Weight:
    """Array of a component, named ``component.attribute``."""

    name: str
    array: np.ndarray
    component: str = ""
    attribute: str = ""
    is_parameter: bool = False      # can be set from files; False for derived values


@dataclass
class Op:
    """Operation that computes one value."""

    kind: str                                                 # key of ``KINDS``
    # names of the values and weights that it reads, and its result
    inputs: tuple[str, ...]
    output: Value
    scope: str                                                # name of the node of the network that it belongs to
    settings: dict[str, Any] = field(default_factory=dict)    # further arguments, as described in ``KINDS``


@dataclass
class Carried:
    """Value that a loop passes from each step to the next; at the first step it is zero, or a state of the stream."""

    inside: str                     # name in the body
    next: str                       # value of the body that becomes ``inside`` in the next step
    dim: int
    begin: str = ""                 # initial value from outside; "" for zeros


@dataclass
class Loop:
    """Recurrence as a loop over time, each of whose steps computes ``fold`` frames.

    Attributes
    ----------
    body : operations of a step, on matrices of ``fold`` frames
    carried : values passed from each step to the next
    scanned : inputs that change with time: name of the whole value, and the value in the body
    collected : results: the value in the body, and the value of all frames outside
    fold : number of frames of a step
    is_backward : whether the loop begins at the last frame
    scope : name of the first node of the recurrence
    """

    body: list[Op]
    carried: list[Carried]
    scanned: list[tuple[str, Value]]
    collected: list[tuple[Value, Value]]     # in the body, outside
    fold: int
    is_backward: bool
    scope: str


@dataclass(frozen=True)
class InputSpec:
    """Input of the network."""

    name: str
    dim: int
    # frames of context that are read before the first and after the last output
    left: int = 0
    right: int = 0
    has_time: bool = True    # False for i-vectors, which have one row for each sequence


@dataclass(frozen=True)
class State:
    """Value passed from a chunk of a stream to the next, (N, frames, dim): ``next_value`` becomes the input ``name``.

    At the start of a stream it has ``frames_at_start`` frames: none, or all of them with zeros. If it ``is_growing``,
    it may take several chunks until it has all its frames.
    """

    name: str
    next_value: str
    dim: int
    frames: int
    frames_at_start: int
    is_growing: bool = False


@dataclass(frozen=True)
class FixedChunks:
    """Sizes of chunks of a stream that are all alike, from the first on, with states of constant size."""

    outputs: int       # rows of output of each chunk
    first_time: int    # time of the first row of the first chunk, 0 or less; rows before t = 0 must be discarded


@dataclass
class Graph:
    """Whole network as operations, in the order of computation."""

    inputs: list[InputSpec]
    outputs: list[tuple[str, Value]]
    ops: list[Op | Loop]
    weights: dict[str, Weight]
    frame_subsampling_factor: int
    edges: str            # "repeat": inputs are whole utterances; "given": with context around them; "stream": chunks;
    #                       "none": whole utterances, of which only the first row of output is wanted
    fixed: FixedChunks | None = None      # of streams whose chunks all have the same size
    metadata: dict[str, str] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    network: Nnet | None = None           # source of the operations, perhaps collapsed


class Builder:
    """Builder of a list of operations, whose results are named after the node ``scope`` of the network.

    ``outer`` : for the body of a loop, the builder of the operations around the loop; ``fold`` : for the body of a
    loop, the number of frames of a step.
    """

    def __init__(self, outer: Builder | None = None, fold: int = 0) -> None:
        self.ops: list[Op | Loop] = []
        self.weights: dict[str, Weight] = outer.weights if outer else {}
        self.names: dict[str, int] = outer.names if outer else {}
        self.outer = outer or self
        self.fold = fold                      # frames of matrices inside a loop; 0 outside
        self.scope = ""
        self._known: dict[Any, Value] = outer._known if outer else {}
        self.states: list[State] = outer.states if outer else []

    def new_name(self, hint: str) -> str:
        """Return an unused name."""
        count = self.names.get(hint, 0)
        self.names[hint] = count + 1
        return hint if count == 0 else f"{hint}_{count}"

    def op(self, kind: str, *inputs: Value | str, dim: int = -1, constant: bool | None = None,
           **settings: Any) -> Value:
        """Append an operation, and return its result.

        Parameters
        ----------
        dim : number of columns of the result; -1 for the largest number among the inputs
        constant : whether the result has one frame for all times; None: if all inputs have
        settings : further arguments of the operation
        """
        assert kind in KINDS, kind
        values = [v for v in inputs if isinstance(v, Value)]
        if dim < 0:
            dim = max((v.dim for v in values), default=0)
        if constant is None:
            constant = all(v.is_constant for v in values) if values else False
        names = tuple(v.name if isinstance(v, Value) else v for v in inputs)
        output = Value(self.new_name(f"{self.scope}/{kind}" if self.scope else kind), dim, constant)
        self.ops.append(Op(kind, names, output, self.scope, settings))
        return output

    def shared(self, kind: str, *inputs: Value | str, **settings: Any) -> Value:
        """Return the result of an operation outside all loops, appended unless there is an equal one already."""
        key = (kind, *inputs, *sorted(settings.items()))
        if key not in self._known:
            outer = self.outer
            scope, outer.scope = outer.scope, ""
            self._known[key] = outer.op(kind, *inputs, **settings)
            outer.scope = scope
        return self._known[key]

    def state(self, name: str, dim: int, frames: int, frames_at_start: int, is_growing: bool = False) -> Value:
        """Add an input for a state from the previous chunk; :meth:`next_state` sets its next value."""
        self.states.append(State(name, "", dim, frames, frames_at_start, is_growing))
        self.names[name] = 1
        return Value(name, dim)

    def next_state(self, name: str, before: Value, new: Value) -> Value:
        """Append new frames to a state; the last frames of the result become the state of the next chunk.

        Returns the state ``before`` with the frames ``new`` after it.
        """
        joined = self.op("concat_time", before, new, dim=before.dim, constant=False)
        count = next(state.frames for state in self.states if state.name == name)
        self.set_next(name, self.op("last_rows", joined, count=count))
        return joined

    def set_next(self, name: str, value: Value) -> None:
        """Set a state's value for the next chunk."""
        place = next(i for i, state in enumerate(self.states) if state.name == name)
        self.states[place] = replace(self.states[place], next_value=value.name)

    def weight(self, component: str, attribute: str, array: np.ndarray, is_parameter: bool = True) -> str:
        """Return the name of a component's array, which is stored unless it is already."""
        name = f"{component}.{attribute}"
        if name not in self.weights:
            self.weights[name] = Weight(name, np.ascontiguousarray(array), component, attribute, is_parameter)
        return name

    def constant(self, hint: str, array: np.ndarray) -> str:
        """Store an array that belongs to no component; return its name."""
        name = self.new_name(hint)
        self.weights[name] = Weight(name, np.ascontiguousarray(array))
        return name


def prune(graph: Graph) -> None:
    """Remove operations whose values are not used, in place."""
    needed = {value.name for _, value in graph.outputs} | {state.next_value for state in graph.states}
    kept: list[Op | Loop] = []
    for op in reversed(graph.ops):
        if isinstance(op, Loop):
            if not needed.isdisjoint(outside.name for _, outside in op.collected):
                _prune_loop(op, needed)
                kept.append(op)
        elif op.output.name in needed:
            needed.update(op.inputs)
            kept.append(op)
    graph.ops = kept[::-1]


def _prune_loop(loop: Loop, needed: set[str]) -> None:
    """Remove unused operations inside a loop; the values that it reads from outside are added to ``needed``."""
    loop.collected = [(inside, outside) for inside, outside in loop.collected if outside.name in needed]
    inner = {inside.name for inside, _ in loop.collected} | {c.next for c in loop.carried}
    kept = []
    for op in reversed(loop.body):
        if op.output.name in inner:
            inner.update(op.inputs)
            kept.append(op)
    loop.body = kept[::-1]
    needed.update(c.begin for c in loop.carried if c.begin)
    used = [(name, value) for name, value in loop.scanned if value.name in inner]
    loop.scanned = used or loop.scanned[:1]          # a loop is as long as what it scans
    needed.update(name for name, _ in loop.scanned)
    needed.update(inner)                             # also weights, and values that are the same in all steps


def all_ops(graph: Graph) -> list[Op]:
    """Return all operations, including those of loops."""
    return [op for each in graph.ops for op in (each.body if isinstance(each, Loop) else [each])]


def linear_weights(graph: Graph) -> set[str]:
    """Return the names of weights and biases of ``linear`` operations."""
    return {op.settings[key] for op in all_ops(graph) if op.kind == "linear" for key in ("weight", "bias")} - {None}
