"""The list of operations as source of a torch module: one statement per operation, one module per component."""
from __future__ import annotations

import keyword
import re
from typing import Any

from nnet3py.export.operations import Graph, Loop, Op, linear_weights

UNARY = {"relu": "torch.relu({0})", "sigmoid": "torch.sigmoid({0})", "tanh": "torch.tanh({0})", "exp": "torch.exp({0})",
         "log": "torch.log({0})", "sqrt": "torch.sqrt({0})", "softmax": "torch.softmax({0}, -1)",
         "log_softmax": "torch.log_softmax({0}, -1)"}
# The code for each operation; inputs by number, settings by name.
EXPRESSIONS = {
    **UNARY,
    "one_frame": "{0}.unsqueeze(1)", "matmul": "torch.matmul({0}, {1})", "add": "{0} + {1}", "sub": "{0} - {1}",
    "mul": "{0} * {1}", "div": "{0} / {1}", "int_sum": "{0} + {1}", "and": "{0} & {1}", "or": "{0} | {1}",
    "scale": "{by} * {0}", "shift": "{0} + {by}", "at_least": "torch.clamp({0}, min={least})",
    "columns": "{0}[..., {begin}:{end}]",
    "sum": "{0}.sum({axis}, keepdim=True)", "maximum": "{0}.amax({axis}, keepdim=True)",
    "transposed": "{0}.transpose(-1, -2)", "weight_row": "{0}[{row}]", "weight_shape": "{0}.reshape({shape})",
    "away_from_zero": "torch.where({0} >= 0, torch.clamp({0}, min={least}), torch.clamp({0}, max=-{least}))",
    "double": "{0}.double()", "single": "{0}.float()",
    "first_frame": "{0}[:, :1]",
    "take_rows": "{0}.index_select(1, {1})",
    "choose": "torch.where({0}.unsqueeze(1), {1}, {2})",
    "int_add": "{0} + ({value})", "round_down": "{0} - torch.remainder({0}, {by})",
    "is_multiple": "torch.remainder({0}, {by}) == 0", "at_least_int": "torch.clamp({0}, min={least})",
    "at_most_rows": "torch.clamp({0}, max={1}.size(1) - 1)", "as_column": "{0}.float().unsqueeze(0).unsqueeze(2)",
    "is_in": "({0} >= {lo}) & ({0} <= end + ({hi}))",
    "row_numbers": "torch.div({0} - ({lo}), {step}, rounding_mode='floor')",
    "rows_of": "torch.clamp(torch.div({0} - ({lo}), {step}, rounding_mode='floor'), 0, {1}.size(1) - 1)",
    "times": "torch.arange({lo}, end + ({hi} + 1), {step}, device={first}.device)",
    "window_sum": "windows({0}, {1}, {2})",
}
INDENT = " " * 8

HEAD = '''\
from typing import List

import torch
from torch import Tensor, nn
from torch.nn import functional


def windows(x: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Sums of the frames first to last, (N, windows, columns); 0 where last < first."""
    sums = functional.pad(torch.cumsum(x, 1), (0, 0, 1, 0))
    begin = torch.clamp(first, max=x.size(1))
    return sums.index_select(1, torch.maximum(last + 1, begin)) - sums.index_select(1, begin)


class Network(nn.Module):
    """Made by nnet3py. Matrices are (sequences, frames, columns); the submodules are the components."""

'''


def access(name: str) -> str:
    """The expression for the submodule of a component: a component called a.b is b of a."""
    expression = "self"
    for piece in name.split("."):
        plain = piece.isidentifier() and not keyword.iskeyword(piece)
        expression = f"{expression}.{piece}" if plain else f'getattr({expression}, "{piece}")'
    return expression


class TorchSource:
    """Writes the source of one graph.

    Attributes
    ----------
    constants : name of a buffer -> name of the weight in it
    columns : name of a buffer -> the column numbers in it
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lines: list[str] = []
        self.indent = INDENT
        self._of_linear = linear_weights(graph)
        self.names: dict[str, str] = {}
        self.taken = {"end", "self", "torch", "nn", "functional", "windows", "rounds", "rows", "k"}
        self.constants: dict[str, str] = {}
        self.columns: dict[str, tuple[int, ...]] = {}
        self.first = next((s.name for s in graph.inputs if s.has_time), graph.inputs[0].name if graph.inputs else "")

    def source(self) -> str:
        """The module's source."""
        arguments = "".join(f", {self._input(spec.name)}: Tensor" for spec in self.graph.inputs)
        self.first = self.names.get(self.first, "")
        result = "Tensor" if len(self.graph.outputs) == 1 else "List[Tensor]"
        self.lines = [f"    def forward(self{arguments}) -> {result}:"]
        self._line(f"end = {self._end()}")
        for op in self.graph.ops:
            self._loop(op) if isinstance(op, Loop) else self._op(op)
        outputs = ", ".join(self._value(value.name) for _, value in self.graph.outputs)
        self._line(f"return {outputs}" if len(self.graph.outputs) == 1 else f"return [{outputs}]")
        return HEAD + "\n".join(self.lines) + "\n"

    def _line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def _input(self, name: str) -> str:
        return self._new(name, name)

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
        """The expression for a value or a weight."""
        weight = self.graph.weights.get(name)
        if weight is None:
            return self.names[name]
        if weight.is_parameter:
            attribute = {"linear_params": "weight", "bias_params": "bias"}.get(weight.attribute, weight.attribute)
            return f"{access(weight.component)}.{attribute if name in self._of_linear else weight.attribute}"
        buffer = re.sub(r"\W", "_", f"constant_{name}")
        self.constants[buffer] = name
        return f"self.{buffer}"

    # -- operations ------------------------------------------------------------------------------------------------

    def _op(self, op: Op) -> None:
        expression = self._expression(op)
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
        return EXPRESSIONS[op.kind].format(*inputs, first=self.first, **settings)

    def _do_frames(self, inputs: list[str], s: dict[str, Any]) -> str:
        if self.graph.edges == "given" or s["left"] == 0 == s["right"] and self.graph.frame_subsampling_factor == 1:
            return inputs[0]
        times = f"torch.arange(-{s['left']}, end + {s['right'] + 1}, device={inputs[0]}.device)"
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
        dim = self.graph.weights[s["scale"]].array.size
        y = f"{access(s['component'])}({inputs[0]}.reshape(-1, {dim})).reshape({inputs[0]}.shape)"
        return y if s["target_rms"] == 1.0 else f"{s['target_rms']!r} * {y}"

    def _do_concat(self, inputs: list[str], s: dict[str, Any]) -> str:
        return f"torch.cat([{', '.join(inputs)}], -1)"

    def _do_pick_columns(self, inputs: list[str], s: dict[str, Any]) -> str:
        name = f"columns_{len(self.columns)}"
        self.columns[name] = s["index"]
        return f"{inputs[0]}.index_select(-1, self.{name})"

    def _do_reshape(self, inputs: list[str], s: dict[str, Any]) -> str:
        x = inputs[0]
        return f"{x}.reshape({x}.size(0), {x}.size(1), {', '.join(map(str, s['tail']))})"

    def _do_expand(self, inputs: list[str], s: dict[str, Any]) -> str:
        frames = s["frames"] if "frames" in s else f"(end + ({s['hi'] - s['lo'] + s['step']})) // {s['step']}"
        return f"{inputs[0]}.expand({self.first}.size(0), {frames}, -1)"

    def _do_slice_time(self, inputs: list[str], s: dict[str, Any]) -> str:
        x, step = inputs[0], f":{s['step']}" if s["step"] > 1 else ""
        stop = f"{x}.size(1) - {s['stop']}" if s["stop"] else ""
        return f"{x}[:, {s['start'] or ''}:{stop}{step}]"

    def _do_keep(self, inputs: list[str], s: dict[str, Any]) -> str:
        return f"torch.where({inputs[1]}.unsqueeze(1), {inputs[0]}, torch.zeros_like({inputs[0]}))"

    def _table(self, inputs: list[str], s: dict[str, Any], is_mask: bool = False) -> str:
        table = f"torch.tensor({[int(x) for x in s['table']]}, device={self.first}.device)"
        table = f"({table} > 0)" if is_mask else table
        return f"{table}.index_select(0, torch.remainder({inputs[0]}, {len(s['table'])}))"

    def _do_table_int(self, inputs: list[str], s: dict[str, Any]) -> str:
        return self._table(inputs, s)

    def _do_table_bool(self, inputs: list[str], s: dict[str, Any]) -> str:
        return self._table(inputs, s, True)

    # -- recurrences -----------------------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> None:
        """A for loop over rounds of ``fold`` frames."""
        fold = loop.fold
        first = self._value(loop.scanned[0][0])
        rows, rounds = self._new(f"{loop.scope} rows", "rows"), self._new(f"{loop.scope} rounds", "rounds")
        self._line(f"{rows} = {first}.size(1)")
        self._line(f"{rounds} = ({rows} + {fold - 1}) // {fold}")
        folded = []
        for name, value in loop.scanned:
            x, missing = self._value(name), f"{rounds} * {fold} - {rows}"
            if fold > 1:
                x = f"functional.pad({x}, (0, 0, {missing}, 0))" if loop.is_backward else \
                    f"functional.pad({x}, (0, 0, 0, {missing}))"
            folded.append(self._new(f"{value.name} folded", value.name))
            self._line(f"{folded[-1]} = {x}.reshape(-1, {rounds}, {fold}, {value.dim})")
        for c in loop.carried:
            self._line(f"{self._new(c.inside, c.inside)} = torch.zeros({self.first}.size(0), {fold}, {c.dim}, "
                       f"device={self.first}.device)")
        lists = [self._new(f"{outside.name} list", outside.name) for _, outside in loop.collected]
        for name in lists:
            self._line(f"{name}: List[Tensor] = []")
        step = self._new(f"{loop.scope} step", "k")
        order = f"range({rounds} - 1, -1, -1)" if loop.is_backward else f"range({rounds})"
        self._line(f"for {step} in {order}:")
        self.indent += "    "
        for (_, value), name in zip(loop.scanned, folded, strict=True):
            self._line(f"{self._new(value.name, value.name)} = {name}[:, {step}]")
        for op in loop.body:
            self._op(op)
        for (inside, _), name in zip(loop.collected, lists, strict=True):
            self._line(f"{name}.append({self._value(inside.name)})")
        if loop.carried:
            states = ", ".join(self.names[c.inside] for c in loop.carried)
            self._line(f"{states} = {', '.join(self._value(c.next) for c in loop.carried)}")
        self.indent = INDENT
        for (_, outside), name in zip(loop.collected, lists, strict=True):
            y = f"torch.stack({name}{'[::-1]' if loop.is_backward else ''}, 1)"
            y += f".reshape(-1, {rounds} * {fold}, {outside.dim})"
            if fold > 1:
                y += f"[:, {rounds} * {fold} - {rows}:]" if loop.is_backward else f"[:, :{rows}]"
            self._line(f"{self._new(outside.name, outside.name)} = {y}")


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float) else repr(value)
