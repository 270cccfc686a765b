"""The list of operations as source of a torch module: one statement per operation, one submodule per component."""
from __future__ import annotations

import itertools
import keyword
import re
from typing import Any

from nnet3py.export.operations import Graph, InputSpec, Loop, Op, all_ops, linear_weights

UNARY = {"relu": "torch.relu({0})", "sigmoid": "torch.sigmoid({0})", "tanh": "torch.tanh({0})", "exp": "torch.exp({0})",
         "log": "torch.log({0})", "sqrt": "torch.sqrt({0})", "softmax": "torch.softmax({0}, -1)",
         "log_softmax": "torch.log_softmax({0}, -1)"}
# The code for each operation; inputs by number, settings by name.
EXPRESSIONS = {
    **UNARY,
    "one_frame": "{0}.reshape({0}.size(0), 1, {0}.size(-1))",
    "matmul": "torch.matmul({0}, {1})", "add": "{0} + {1}", "sub": "{0} - {1}",
    "mul": "{0} * {1}", "div": "{0} / {1}", "int_sum": "{0} + {1}", "and": "{0} & {1}", "or": "{0} | {1}",
    "scale": "{by} * {0}", "shift": "{0} + {by}", "at_least": "torch.clamp({0}, min={least})",
    "columns": "{0}[..., {begin}:{end}]",
    "sum": "{0}.sum({axis}, keepdim=True)", "maximum": "{0}.amax({axis}, keepdim=True)",
    "transposed": "{0}.transpose(-1, -2)", "weight_row": "{0}[{row}]", "weight_shape": "{0}.reshape({shape})",
    "away_from_zero": "torch.where({0} >= 0, torch.clamp({0}, min={least}), torch.clamp({0}, max=-{least}))",
    "double": "{0}.double()", "single": "{0}.to({first}.dtype)",
    "first_frame": "{0}[:, :1]",
    "take_rows": "{0}.index_select(1, {1})",
    "choose": "torch.where({0}.unsqueeze(1), {1}, {2})",
    "keep": "torch.where({1}.unsqueeze(1), {0}, torch.zeros_like({0}))", "concat": "torch.cat([{inputs}], -1)",
    "int_add": "{0} + ({value})", "round_down": "{0} - torch.remainder({0}, {by})",
    "is_multiple": "torch.remainder({0}, {by}) == 0", "at_least_int": "torch.clamp({0}, min={least})",
    "at_most_rows": "torch.clamp({0}, max={1}.size(1) - 1)",
    "as_column": "{0}.to({first}.dtype).unsqueeze(0).unsqueeze(2)",
    "is_in": "({0} >= {lo}) & ({0} <= end + ({hi}))",
    "row_numbers": "torch.div({0} - ({lo}), {step}, rounding_mode='floor')",
    "rows_of": "torch.clamp(torch.div({0} - ({lo}), {step}, rounding_mode='floor'), 0, {1}.size(1) - 1)",
    "times": "torch.arange({lo}, end + ({hi} + 1), {step}, device={first}.device)",
    "window_sum": "windows({0}, {1}, {2})",
}
INDENT = " " * 8
IVECTOR = "ivector"

CHECKS = "check_tensors", "check_frames", "check_same_frames", "check_vectors", "check_not_given"
HEAD = f'''\
from typing import List, Optional

import torch
from torch import Tensor
from torch.nn import functional

from nnet3py.errors import ShapeError
from nnet3py.export.torch_functions import {", ".join(CHECKS)}
from nnet3py.export.torch_functions import is_exporting, loop_of_any_length, windows
from nnet3py.export.torch_network import TorchNetwork

for check in {CHECKS}:
    torch.fx.wrap(check)          # each is one node of a graph of torch.fx


class Network(TorchNetwork):
    """Made by nnet3py. Matrices are (sequences, frames, columns); the submodules are the components."""

'''


def _in_order(inputs: list[InputSpec]) -> list[InputSpec]:
    """Sort inputs in the order of the arguments of ``forward``: ``input``, ``ivector``, then the others by name."""
    first = {"input": 0, IVECTOR: 1}
    return sorted(inputs, key=lambda spec: (first.get(spec.name, 2), spec.name))


def _shape(spec: InputSpec) -> str:
    return f"(sequences, frames, {spec.dim})" if spec.has_time else f"(sequences, {spec.dim})"


def access(name: str) -> str:
    """Return the expression for the submodule of a component: component a.b is submodule b of a."""
    expression = "self"
    for piece in name.split("."):
        plain = piece.isidentifier() and not keyword.iskeyword(piece)
        expression = f"{expression}.{piece}" if plain else f'getattr({expression}, "{piece}")'
    return expression


class TorchSource:
    """Writer of the source of one graph.

    Parameters
    ----------
    graph : the operations
    least_frames : least number of frames of each sequence

    Attributes
    ----------
    constants : weights that become buffers of the module: name of the buffer -> name of the weight
    columns : column indexes that become buffers: name of the buffer -> indexes
    """

    def __init__(self, graph: Graph, least_frames: int = 1) -> None:
        self.graph, self.least_frames = graph, least_frames
        self.lines: list[str] = []
        self.loops: list[list[str]] = []       # methods of recurrences, called by forward
        self.indent = INDENT
        self._of_linear = linear_weights(graph)
        self.names: dict[str, str] = {}
        self.blocks: dict[str, str] = {}       # value in blocks -> a variable with its sequences and frames
        self.taken = {*re.findall(r"\w+", HEAD.partition("\nfor check")[0]), "self", "end", "results",
                      "k", "rounds", "rows", "states", "step", "steps"}
        self.constants: dict[str, str] = {}
        self.columns: dict[str, tuple[int, ...]] = {}
        self.inputs = _in_order(graph.inputs)
        self.first = ""                        # the input with the numbers of sequences and frames

    def source(self) -> str:
        """Return the module's source."""
        for spec in self.inputs:
            self._new(spec.name, spec.name)
        first = next((spec for spec in self.inputs if spec.has_time), self.inputs[0] if self.inputs else None)
        self.first = self.names[first.name] if first else ""
        self._signature()
        self._checks(first)
        self._line(f"end = {self._end()}")
        for op in self.graph.ops:
            self._loop(op) if isinstance(op, Loop) else self._op(op)
        outputs = ", ".join(self._value(value.name) for _, value in self.graph.outputs)
        self._line(f"return {outputs}" if len(self.graph.outputs) == 1 else f"return [{outputs}]")
        return HEAD + "\n".join([*itertools.chain(*self.loops), *self.lines]) + "\n"

    def _line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def _signature(self) -> None:
        names = [self.names[spec.name] for spec in self.inputs]
        if names and names[0] == "input" and IVECTOR not in names:
            names.insert(1, IVECTOR)           # in all modules, so that any may be called as module(input, ivector)
            self.taken.add(IVECTOR)
        arguments = "".join(f", {name}: Optional[Tensor] = None" if place else f", {name}: Tensor"
                            for place, name in enumerate(names))
        result = "Tensor" if len(self.graph.outputs) == 1 else "List[Tensor]"
        self.lines = [f"    def forward(self{arguments}) -> {result}:", INDENT + '"""The outputs of the network.', ""]
        for spec in self.inputs:
            least = f", {self.least_frames} frames or more" if spec.has_time and self.least_frames > 1 else ""
            self._line(f"{self.names[spec.name]} : float {_shape(spec)}{least}")
        for name, value in self.graph.outputs:
            self._line(f"returns {name}, float (sequences, {self._frames_out()}, {value.dim})")
        self._line('"""')

    def _frames_out(self) -> str:
        factor, context = self.graph.frame_subsampling_factor, self.context
        if self.graph.edges == "none":
            return "1"
        frames = f"(frames - {context})" if context and factor > 1 else f"frames - {context}" if context else "frames"
        return frames if factor == 1 else f"{frames} / {factor} rounded up"

    @property
    def context(self) -> int:
        """Number of context frames that the caller gives, before and after together."""
        spec = next((s for s in self.graph.inputs if s.has_time), None)
        return spec.left + spec.right if spec and self.graph.edges == "given" else 0

    def _checks(self, first: InputSpec | None) -> None:
        """Append the statements that check the inputs of ``forward``."""
        given = [(self.names[spec.name], spec) for spec in self.inputs]
        for name, spec in given[1:]:
            self._line(f"if {name} is None:")
            self._line(f"    raise ShapeError(\"'{name}' is not given, expected float {_shape(spec)}\")")
        self._line("if not torch.jit.is_scripting():")
        self._line(f"    check_tensors([{', '.join(f'({name!r}, {name})' for name, _ in given)}], {self._like()})")
        self._line("if not torch.jit.is_tracing():          # which would warn of each comparison")
        for name, spec in given:
            if spec is first and spec.has_time:
                self._line(f"    check_frames({name}, {name!r}, {spec.dim}, {self.least_frames}, {self.context})")
            else:
                kind = "same_frames" if spec.has_time else "vectors"
                self._line(f"    check_{kind}({name}, {name!r}, {spec.dim}, {self.first}, {self.first!r})")
        if IVECTOR in self.taken and IVECTOR not in self.names:
            self._line(f"    check_not_given({IVECTOR}, {IVECTOR!r})")

    def _like(self) -> str:
        """Return the expression for a parameter, whose dtype the inputs must have."""
        linear = next((op.settings for op in all_ops(self.graph) if op.kind == "linear"), None)
        if linear:
            return f"{access(linear['component'])}.weight"
        return next((self._value(w.name) for w in self.graph.weights.values() if w.is_parameter), "None")

    def _new(self, name: str, hint: str) -> str:
        plain = re.sub(r"\W", "_", hint.split("/")[0].removesuffix("_input")) or "x"
        plain = plain if plain.isidentifier() and not keyword.iskeyword(plain) else f"x_{plain}"
        free, count = plain, 1
        while free in self.taken:
            count += 1
            free = f"{plain}_{count}"
        self.taken.add(free)
        self.names[name] = free
        return free

    def _end(self) -> str:
        spec = next((s for s in self.graph.inputs if s.has_time), None)
        if spec is None:
            return "0"
        factor = self.graph.frame_subsampling_factor
        if self.graph.edges == "given":
            return f"{self.first}.size(1) - {1 + spec.left + spec.right}"
        last = f"{self.first}.size(1) - 1"
        return last if factor == 1 else f"({last}) // {factor} * {factor}"

    def _value(self, name: str) -> str:
        """Return the Python expression for a value or a weight."""
        weight = self.graph.weights.get(name)
        if weight is None:
            return self.names[name]
        if weight.is_parameter:
            attribute = {"linear_params": "weight", "bias_params": "bias"}.get(weight.attribute, weight.attribute)
            return f"{access(weight.component)}.{attribute if name in self._of_linear else weight.attribute}"
        buffer = re.sub(r"\W", "_", f"constant_{name}")
        self.constants[buffer] = name
        return f"self.{buffer}"

    def _op(self, op: Op) -> None:
        expression = self._reshaped(op) if op.kind == "reshape" else self._expression(op)
        if op.kind != "reshape":
            matrix = next((self.blocks[name] for name in op.inputs if name in self.blocks), None)
            if matrix:
                self.blocks[op.output.name] = matrix
        self._line(f"{self._new(op.output.name, op.output.name)} = {expression}")

    def _expression(self, op: Op) -> str:
        inputs = [self.names[op.inputs[0]]] if op.kind == "frames" else [self._value(name) for name in op.inputs]
        s = op.settings
        special = getattr(self, f"_do_{op.kind}", None)
        if special is not None:
            return str(special(inputs, s))
        if op.kind in UNARY and "component" in s:
            return f"{access(s['component'])}({inputs[0]})"
        settings = {key: _text(value) for key, value in s.items()}
        return EXPRESSIONS[op.kind].format(*inputs, inputs=", ".join(inputs), first=self.first, **settings)

    def _do_frames(self, inputs: list[str], s: dict[str, Any]) -> str:
        if self.graph.edges == "given" or s["left"] == 0 == s["right"] and self.graph.frame_subsampling_factor == 1:
            return inputs[0]
        times = f"torch.arange({-s['left']}, end + {s['right'] + 1}, device={inputs[0]}.device)"
        return f"{inputs[0]}.index_select(1, torch.clamp({times}, 0, {inputs[0]}.size(1) - 1))"

    def _do_linear(self, inputs: list[str], s: dict[str, Any]) -> str:
        module = access(s["component"])
        if s["columns"] is None:
            return f"{module}({inputs[0]})"
        pieces = [f"{module}.weight[:, {begin}:{end}]" for begin, end in s["columns"]]
        weight = pieces[0] if len(pieces) == 1 else f"torch.cat([{', '.join(pieces)}], 1)"
        bias = f", {module}.bias" if s["bias"] is not None else ""
        return f"functional.linear({inputs[0]}, {weight}{bias})"

    def _do_batch_norm(self, inputs: list[str], s: dict[str, Any]) -> str:
        x, dim = inputs[0], self.graph.weights[s["scale"]].array.size
        y = f"{access(s['component'])}({x}.reshape(-1, {dim})).reshape({x}.shape)"
        return y if s["target_rms"] == 1.0 else f"{s['target_rms']!r} * {y}"

    def _do_pick_columns(self, inputs: list[str], s: dict[str, Any]) -> str:
        name = f"columns_{len(self.columns)}"
        self.columns[name] = s["index"]
        return f"{inputs[0]}.index_select(-1, self.{name})"

    def _reshaped(self, op: Op) -> str:
        """Return the expression for a ``reshape`` operation.

        Values split into blocks have the shape (sequences * frames, blocks, size) until the blocks are joined: with
        separate axes, ``torch.export`` fails to simplify the sizes.
        """
        source, tail = op.inputs[0], list(op.settings["tail"])
        x, matrix = self.names[source], self.blocks.get(source)
        if len(tail) > 1:
            self.blocks[op.output.name] = matrix or x
            return f"{x}.flatten(1).unflatten(1, {tail})" if matrix else f"{x}.flatten(0, 1).unflatten(1, {tail})"
        return f"{x}.flatten(1).unflatten(0, [{matrix}.size(0), {matrix}.size(1)])" if matrix else x

    def _do_expand(self, inputs: list[str], s: dict[str, Any]) -> str:
        frames = s["frames"] if "frames" in s else f"(end + ({s['hi'] - s['lo'] + s['step']})) // {s['step']}"
        return f"{inputs[0]}.expand({self.first}.size(0), {frames}, -1)"

    def _do_slice_time(self, inputs: list[str], s: dict[str, Any]) -> str:
        x, step = inputs[0], f":{s['step']}" if s["step"] > 1 else ""
        stop = f"{x}.size(1) - {s['stop']}" if s["stop"] else ""
        rows = f"{x}[:, {s['start'] or ''}:{stop}{step}]"
        return f"{rows}.contiguous()" if step else rows        # torch.export may not know whether it already is

    def _do_table_int(self, inputs: list[str], s: dict[str, Any], form: str = "{}") -> str:
        table = form.format(f"torch.tensor({[int(x) for x in s['table']]}, device={self.first}.device)")
        return f"{table}.index_select(0, torch.remainder({inputs[0]}, {len(s['table'])}))"

    def _do_table_bool(self, inputs: list[str], s: dict[str, Any]) -> str:
        return self._do_table_int(inputs, s, "({} > 0)")

    def _loop(self, loop: Loop) -> None:
        """Add the methods that compute a recurrence, and append their call to ``forward``."""
        number = len(self.loops) + 1
        scanned = [self._value(name) for name, _ in loop.scanned]
        others = self._from_outside(loop)
        given = [self.first, *scanned, *others]
        self._step(loop, number, others)
        self._all_steps(loop, number, scanned, others)
        dims = [value.dim for _, value in loop.collected], [carried.dim for carried in loop.carried]
        self.loops[-1] += [
            "    @torch.jit.unused",
            f"    def _loop_of_any_length_{number}(self{_arguments(given)}) -> List[Tensor]:",
            f"{INDENT}return loop_of_any_length(self._step_{number}, {self.first}, [{', '.join(scanned)}], "
            f"[{', '.join(others)}], {dims}, {loop.fold}, {loop.is_backward})", ""]
        self._line("if torch.jit.is_scripting() or not is_exporting():")
        self._line(f"    results = self._loop_{number}({', '.join(given)})")
        self._line("else:")
        self._line(f"    results = self._loop_of_any_length_{number}({', '.join(given)})")
        for place, (_, outside) in enumerate(loop.collected):
            self._line(f"{self._new(outside.name, outside.name)} = results[{place}]")

    def _from_outside(self, loop: Loop) -> list[str]:
        """Return the names of the values from outside a recurrence that are the same at all of its steps."""
        inside = {value.name for _, value in loop.scanned} | {c.inside for c in loop.carried} | {
            op.output.name for op in loop.body}
        return list(dict.fromkeys(self.names[name] for op in loop.body for name in op.inputs
                                  if name not in inside and name not in self.graph.weights))

    def _step(self, loop: Loop, number: int, others: list[str]) -> None:
        forward, self.lines = self.lines, []
        taken = [self._new(value.name, value.name) for _, value in loop.scanned]
        states = [self._new(carried.inside, carried.inside) for carried in loop.carried]
        self._line(f"\"\"\"{loop.fold} frame{'s'[:loop.fold - 1]} of the recurrence of {loop.scope}: results, and the "
                   "next states.\"\"\"")
        for op in loop.body:
            self._op(op)
        results = [*(inside.name for inside, _ in loop.collected), *(carried.next for carried in loop.carried)]
        self._line(f"return [{', '.join(map(self._value, results))}]")
        arguments = _arguments([self.first, *taken, *states, *others])
        self.loops.append([f"    def _step_{number}(self{arguments}) -> List[Tensor]:", *self.lines, ""])
        self.lines = forward

    def _all_steps(self, loop: Loop, number: int, scanned: list[str], others: list[str]) -> None:
        """Add the method with the loop over all steps, each of ``fold`` frames."""
        forward, self.lines = self.lines, []
        fold, count = loop.fold, len(loop.collected)
        self._line(f"rows = {scanned[0]}.size(1)")
        self._line(f"rounds = (rows + {fold - 1}) // {fold}" if fold > 1 else "rounds = rows")
        for x, (_, value) in zip(scanned, loop.scanned, strict=True):
            padded = x
            if fold > 1:
                padding = f"rounds * {fold} - rows, 0" if loop.is_backward else f"0, rounds * {fold} - rows"
                padded = f"functional.pad({x}, (0, 0, {padding}))"
            self._line(f"{x} = {padded}.reshape(-1, rounds, {fold}, {value.dim})")
        zeros = (f"{self.first}.new_zeros([{self.first}.size(0), {fold}, {carried.dim}])" for carried in loop.carried)
        self._line(f"states: List[Tensor] = [{', '.join(zeros)}]")
        self._line("steps: List[List[Tensor]] = []")
        self._line("for k in range(rounds - 1, -1, -1):" if loop.is_backward else "for k in range(rounds):")
        given = [self.first, *(f"{x}[:, k]" for x in scanned), *(f"states[{i}]" for i in range(len(loop.carried))),
                 *others]
        self._line(f"    step = self._step_{number}({', '.join(given)})")
        self._line(f"    states = step[{count}:]")
        self._line("    steps.append(step)")
        if loop.is_backward:
            self._line("steps = steps[::-1]")
        inside = "" if fold == 1 else f"[:, rounds * {fold} - rows:]" if loop.is_backward else "[:, :rows]"
        every = f"rounds * {fold}" if fold > 1 else "rounds"
        results = (f"torch.stack([step[{place}] for step in steps], 1).reshape(-1, {every}, {outside.dim}){inside}"
                   for place, (_, outside) in enumerate(loop.collected))
        self._line(f"return [{', '.join(results)}]")
        arguments = _arguments([self.first, *scanned, *others])
        self.loops[-1] += [f"    def _loop_{number}(self{arguments}) -> List[Tensor]:", *self.lines, ""]
        self.lines = forward


def _arguments(names: list[str]) -> str:
    return "".join(f", {name}: Tensor" for name in names)


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float) else repr(value)
