"""What ONNX's LSTM, GRU and RNN become in a network."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nnet3py.export.onnx_context import Context, NotMade, OnnxOp, Value
from nnet3py.export.onnx_rules import Rule, product
from nnet3py.export.onnx_tensors import CannotBe, Tensor, columns_of

_STATE = "the state after the last frame is read, which a network does not give"


class Direction(NamedTuple):
    """One direction of a recurrence.

    Attributes
    ----------
    hint : for names
    x : the descriptor of the input
    delay : from the time of a frame to that of the one before in this direction
    weight, recurrent : float32 (gates * hidden, inputs), (gates * hidden, hidden)
    bias, recurrent_bias : float32 (gates * hidden,)
    hidden : columns
    """

    hint: str
    x: str
    delay: int
    weight: np.ndarray
    recurrent: np.ndarray
    bias: np.ndarray
    recurrent_bias: np.ndarray
    hidden: int

    def before(self, node: str) -> str:
        """The descriptor of a node a step earlier; zeros at first."""
        return f"IfDefined(Offset({node}, {self.delay}))"

    def gate(self, matrix: np.ndarray, *numbers: int) -> np.ndarray:
        """The rows of some gates, by number."""
        return np.concatenate([matrix[number * self.hidden:(number + 1) * self.hidden] for number in numbers])


def _recurrence(make: Callable[[Context, OnnxOp, Direction, int], str], activations: tuple[str, ...]) -> Rule:
    """The rule of an operator, of which ``make`` makes one direction and returns the node of its outputs."""
    def rule(context: Context, op: OnnxOp) -> Value | list[Value]:
        x = context.limited(op.whole(), op.hint)
        weight, recurrent = op.array(1, "weights"), op.array(2, "recurrent weights")
        hidden = recurrent.shape[2]
        bias = op.optional_array(3, "bias")
        directions = {"forward": [-1], "reverse": [1], "bidirectional": [-1, 1]}[op.get("direction", "forward")]
        _check(op, x, activations, len(directions))
        if weight.shape[2] != x.dim:
            raise CannotBe(f"its weights are for {weight.shape[2]} columns, and there are {x.dim}")
        gates, order = weight.shape[1], x.column_order()
        biases = np.zeros((len(directions), 2 * gates), np.float32) if bias is None else bias
        outputs, own = [], context.network.new_name(op.hint)
        for number, sign in enumerate(directions):
            hint = f"{own}.{'forward' if sign < 0 else 'backward'}" if len(directions) > 1 else own
            outputs.append(make(context, op, Direction(
                hint, x.source, sign * x.step, weight[number][:, order], recurrent[number], biases[number, :gates],
                biases[number, gates:], hidden), number))
        context.is_recurrent = True
        source = outputs[0]
        if len(outputs) > 1:
            source = own
            context.network.named_layer(own, "NoOpComponent", f"dim={2 * hidden}", f"Append({', '.join(outputs)})")
        ways, columns = columns_of(len(outputs)), columns_of(hidden)
        axes = (x.axes[0], ways, x.axes[1], columns)
        y = replace(x.with_node(source, axes, (*ways, *columns)), is_constant=False)
        values: list[Value] = [y, NotMade(_STATE), NotMade(_STATE)]
        return values[:len(op.output_names)]
    return rule


def _check(op: OnnxOp, x: Tensor, activations: tuple[str, ...], num_directions: int) -> None:
    """CannotBe for what a network cannot do."""
    if op.get("layout") or x.time_axis != 0 or len(x.axes) != 3 or not x.is_columns(2):
        raise CannotBe("its input is not (frames, sequences, columns)")
    if tuple(op.get("activations") or activations * num_directions) != activations * num_directions:
        raise CannotBe(f"its activations are {', '.join(op.get('activations'))}; expected {', '.join(activations)}")
    if op.get("clip") or op.get("input_forget"):
        raise CannotBe("it clips, or has the input gate from the forget gate")
    lengths = op.optional_array(4, "lengths of sequences")
    if lengths is not None and lengths.size and (lengths != x.shape[0]).any():
        raise CannotBe("sequences have other lengths")
    for number, what in ((5, "first output"), (6, "first cell")):
        first = op.optional_array(number, f"{what} (a state, which streams have)")
        if first is not None and first.any():
            raise CannotBe(f"its {what} is not zero")


def _lstm(context: Context, op: OnnxOp, d: Direction, number: int) -> str:
    """Kaldi's gates are in the order i, f, c, o; ONNX's are i, o, f, c."""
    network, dim = context.network, d.hidden
    peepholes = op.optional_array(7, "peepholes")
    i, o, f = (0, 1, 2)
    rows = np.zeros((3, dim), np.float32)
    if peepholes is not None:
        rows = np.stack([peepholes[number, k * dim:(k + 1) * dim] for k in (i, f, o)])
    gates, cell = network.new_name(f"{d.hint}.gates"), network.new_name(f"{d.hint}.lstm")
    c = network.dim_range(f"{d.hint}.c", cell, 0, dim)
    m = network.dim_range(f"{d.hint}.m", cell, dim, dim)
    order = (0, 2, 3, 1)
    matrix = np.hstack([d.gate(d.weight, *order), d.gate(d.recurrent, *order)])
    network.named_affine(gates, matrix, d.gate(d.bias + d.recurrent_bias, *order), f"Append({d.x}, {d.before(m)})")
    network.named_layer(cell, "LstmNonlinearityComponent", f"cell-dim={dim}", f"Append({gates}, {d.before(c)})",
                        {"params": rows})
    return m


def _gru(context: Context, op: OnnxOp, d: Direction, number: int) -> str:
    """h = z h' + (1 - z) n, where 1 - sigmoid(a) is sigmoid(-a). ONNX's gates are in the order z, r, n."""
    network, dim = context.network, d.hidden
    output = network.new_name(f"{d.hint}.h")
    before = d.before(output)
    signs = np.repeat([1.0, -1.0, 1.0], dim).astype(np.float32)
    matrix = signs[:, None] * np.hstack([d.gate(d.weight, 0, 0, 1), d.gate(d.recurrent, 0, 0, 1)])
    sums = network.affine(f"{d.hint}.gates", matrix, signs * d.gate(d.bias + d.recurrent_bias, 0, 0, 1),
                          f"Append({d.x}, {before})")
    gates = network.layer(f"{d.hint}.sigmoid", "SigmoidComponent", f"dim={3 * dim}", sums)
    old, new, reset = (network.dim_range(f"{d.hint}.{name}", gates, k * dim, dim)
                       for k, name in enumerate(("z", "not-z", "r")))
    weight, recurrent = d.gate(d.weight, 2), d.gate(d.recurrent, 2)
    bias, recurrent_bias = d.gate(d.bias, 2), d.gate(d.recurrent_bias, 2)
    if op.get("linear_before_reset"):
        inner = network.affine(f"{d.hint}.recurrent", recurrent, recurrent_bias, before)
        kept = product(context, f"{d.hint}.reset", dim, reset, inner)
        sums = network.affine(f"{d.hint}.input", weight, bias, d.x)
        sums = f"Sum({sums}, {kept})"
    else:
        kept = product(context, f"{d.hint}.reset", dim, reset, before)
        sums = network.affine(f"{d.hint}.input", np.hstack([weight, recurrent]), bias + recurrent_bias,
                              f"Append({d.x}, {kept})")
    tanh = network.layer(f"{d.hint}.tanh", "TanhComponent", f"dim={dim}", sums)
    parts = product(context, f"{d.hint}.old", dim, old, before), product(context, f"{d.hint}.new", dim, new, tanh)
    network.named_layer(output, "NoOpComponent", f"dim={dim}", f"Sum({', '.join(parts)})")
    return output


def _rnn(context: Context, op: OnnxOp, d: Direction, number: int) -> str:
    network, dim = context.network, d.hidden
    output = network.new_name(f"{d.hint}.h")
    sums = network.affine(f"{d.hint}.affine", np.hstack([d.weight, d.recurrent]), d.bias + d.recurrent_bias,
                          f"Append({d.x}, {d.before(output)})")
    network.named_layer(output, "TanhComponent", f"dim={dim}", sums)
    return output


RULES: dict[str, Rule] = {"LSTM": _recurrence(_lstm, ("Sigmoid", "Tanh", "Tanh")),
                          "GRU": _recurrence(_gru, ("Sigmoid", "Tanh")), "RNN": _recurrence(_rnn, ("Tanh",))}
