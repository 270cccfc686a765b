"""Rules for importing ONNX operators that read several frames: convolutions, pooling, padding, LSTM, GRU, RNN."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nnet3py.export.onnx_context import TIME, Atom, Axis, CannotBe, Context, NotMade, OnnxOp, Tensor, Value, columns_of
from nnet3py.export.onnx_rules import Rule, product


class Window(NamedTuple):
    """Frames that each row of a convolution's output reads, one for each element of the kernel (tap)."""

    offsets: list[int]        # for each tap, the frame that it reads, relative to the time of the output
    is_padding: list[bool]    # for each tap, whether a missing frame counts as zeros
    # offsets of frames without which an output row is not computed; they set the first and last output
    needed: list[int]
    rows: int                 # number of rows of the output
    # row r of the output has the time ``step * r + shift``
    step: int
    shift: int
    # numbers of frames before the first and after the last row at which the output can be computed, too
    early: int
    late: int


class Spatial(NamedTuple):
    """Kernel size, stride, dilation and padding along one axis."""

    size: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """Distance from the first tap to the last."""
        return (self.size - 1) * self.dilation

    def outputs(self, size: int) -> int:
        """Return the number of outputs along an axis with ``size`` inputs."""
        return (size + self.before + self.after - self.reach - 1) // self.stride + 1


def _spatial(op: OnnxOp, sizes: list[int], lengths: list[int]) -> list[Spatial]:
    """Return the settings of a kernel for each axis after the first two.

    ``sizes``, ``lengths`` : sizes of the kernel and of the input along these axes.
    """
    rank = len(sizes)
    strides, dilations = (op.get(key) or [1] * rank for key in ("strides", "dilations"))
    pads, auto = op.get("pads") or [0] * (2 * rank), op.get("auto_pad", "NOTSET")
    if op.get("ceil_mode"):
        raise CannotBe("ceil_mode is on")
    axes = [Spatial(*numbers) for numbers in zip(sizes, strides, dilations, pads[:rank], pads[rank:], strict=True)]
    if auto in ("NOTSET", "VALID", ""):
        return axes
    result = []
    for axis, length in zip(axes, lengths, strict=True):
        total = max(0, ((length - 1) // axis.stride) * axis.stride + axis.reach + 1 - length)
        if axis.stride > 1 and total:
            raise CannotBe(f"auto_pad={auto} with strides pads by a number that depends on the length of the input")
        small, large = total // 2, total - total // 2
        before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
        result.append(axis._replace(before=before, after=after))
    return result


def _window(context: Context, x: Tensor, axis: Spatial, cut: tuple[int, int] = (0, 0)) -> Window:
    """Return the frames that a kernel reads; the first ``cut[0]`` and last ``cut[1]`` rows of output are left out."""
    zeros_before, zeros_after = axis.before + x.before, axis.after + x.after
    first_tap = axis.stride * cut[0] - zeros_before
    spare = axis.reach - zeros_before - zeros_after + axis.stride * sum(cut)
    has_zeros = bool(zeros_before or zeros_after)
    if has_zeros and spare < 0:
        raise CannotBe(f"its output is {-spare} frames longer than its input, which a network cannot compute",
                       "pad less, or cut the output right after it")
    step = x.step * axis.stride
    shift = (x.shift + x.step * (spare // 2)) // step * step      # as many frames are lost before as after
    first = x.shift - shift
    taps = [x.step * (first_tap + i * axis.dilation) + first for i in range(axis.size)]
    needed = sorted({first, first + x.step * spare}) if has_zeros else []
    is_padding = [has_zeros and not needed[0] <= tap <= needed[-1] for tap in taps]
    context.has_zeros |= any(is_padding)
    early, late = x.early, x.late
    if has_zeros and (context.replicates or not any(is_padding)):       # perhaps the zeros are cut off
        early, late = early + min(taps) - needed[0], late + needed[-1] - max(taps)
        needed, is_padding = [], [False] * len(taps)
    elif has_zeros:
        early, late = 0, 0
    rows = axis.outputs(x.shape[x.time_axis]) - sum(cut)
    return Window(taps, is_padding, needed, rows, step, shift, early, late)


def _frames(context: Context, op: OnnxOp, x: Tensor, window: Window) -> list[str]:
    """Return a descriptor for each tap; the first one adds the frames ``window.needed`` times 0, to require them."""
    parts = [f"IfDefined({context.at(x, tap)})" if is_padding else context.at(x, tap)
             for tap, is_padding in zip(window.offsets, window.is_padding, strict=True)]
    more = [offset for offset in window.needed if offset not in window.offsets]
    if more:
        copy = x.with_node(context.copy(x, op.hint))
        for offset in more:
            parts[0] = f"Sum({parts[0]}, Scale(0.0, {context.at(copy, offset)}))"
    return parts


def _after(x: Tensor, window: Window, source: str, axes: tuple[Axis, ...], stored: Axis) -> Tensor:
    """Return the value that the node ``source`` computes from the frames ``window`` of ``x``.

    ``axes``, ``stored`` : axes of the new value, whose axis of frames is replaced, and order of its columns.
    """
    time = x.time_axis
    axes = (*axes[:time], (Atom(TIME, window.rows),), *axes[time + 1:])
    return replace(x, axes=axes, stored=stored, source=source, step=window.step, shift=window.shift, before=0, after=0,
                   early=window.early, late=window.late, is_input=False)


# -- convolutions ------------------------------------------------------------------------------------------------------

def _conv(context: Context, op: OnnxOp) -> Value:
    x, weight, bias = op.tensor(), op.array(1, "filter"), op.optional_array(2, "bias")
    if x.time_axis < 2 or not x.is_columns(1):
        raise CannotBe(f"its filters do not move over the frames: the axes are {_names(x)}")
    if len(x.axes) > 4 or x.is_constant:
        raise CannotBe(f"it has {len(x.axes) - 2} dimensions, one of them of frames; a network has 1 or 2")
    spatial = _spatial(op, list(weight.shape[2:]), list(x.shape[2:]))
    time = spatial[x.time_axis - 2]
    cut = _cut_off(context, op, x, time)
    if (time.before or time.after or x.before or x.after) and not context.replicates:
        x = context.limited(x, op.hint)
    groups = int(op.get("group", 1))
    if len(x.axes) == 4:
        other = 5 - x.time_axis
        if not x.is_columns(other):
            raise CannotBe(f"the axes of its input are {_names(x)}")
        if x.time_axis == 3:
            weight, spatial = weight.swapaxes(2, 3), spatial[::-1]
        if groups > 1:
            raise CannotBe(f"it has {groups} groups, and moves over columns as well as frames")
        return _over_heights(context, op, x, spatial, weight, bias, cut)
    if groups > 1:
        return _in_groups(context, op, x, spatial[0], weight, bias, groups, cut)
    window = _window(context, x, spatial[0], cut)
    parts = _frames(context, op, x, window)
    order = x.column_order(x.axes[1])
    matrix = weight.transpose(0, 2, 1)[:, :, order].reshape(weight.shape[0], -1)
    name = context.network.affine(op.hint, np.ascontiguousarray(matrix, np.float32), bias, _appended(parts))
    new = columns_of(weight.shape[0])
    return _after(x, window, name, (x.axes[0], new, ()), new)


def _appended(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"Append({', '.join(parts)})"


def _names(x: Tensor) -> str:
    return ", ".join(" and ".join(dict.fromkeys(atom.kind for atom in axis)) or "1" for axis in x.axes)


def _cut_off(context: Context, op: OnnxOp, x: Tensor, axis: Spatial) -> tuple[int, int]:
    """Return how many first and last rows of a padded convolution are removed by the Slice that reads it.

    Causal convolutions are written so: padding on both sides, then a Slice.
    """
    more = axis.before + axis.after + x.before + x.after - axis.reach
    cutter = context.cutters.get(op.output_names[0]) if more > 0 else None
    if cutter is None:
        return 0, 0
    rows = axis.outputs(x.shape[x.time_axis])
    part = cutter.part(x.time_axis, len(x.axes), rows)
    if part.step != 1 or not len(part):
        return 0, 0
    context.without_cut.add(cutter.output)
    return part.start, rows - 1 - part[-1]


def _in_groups(context: Context, op: OnnxOp, x: Tensor, axis: Spatial, weight: np.ndarray, bias: np.ndarray | None,
               groups: int, cut: tuple[int, int]) -> Tensor:
    """Add a grouped convolution: a block-diagonal matrix; for groups of one column, a vector of scales for each tap."""
    window, network = _window(context, x, axis, cut), context.network
    x = context.in_order(x, op.hint)
    parts, outputs = _frames(context, op, x, window), weight.shape[0]
    new = columns_of(outputs)
    if groups == x.dim == outputs:
        scaled = [network.layer(f"{op.hint}.tap{i}", "NaturalGradientPerElementScaleComponent", f"dim={x.dim}", part,
                                {"scales": weight[:, 0, i]}) for i, part in enumerate(parts)]
        if bias is None:
            name = network.layer(op.hint, "NoOpComponent", f"dim={x.dim}", _nested(scaled))
        else:
            name = network.layer(op.hint, "PerElementOffsetComponent", f"dim={x.dim}", _nested(scaled),
                                 {"offsets": bias})
    else:
        width, taps = x.dim // groups, len(parts)
        numbers = np.arange(taps * x.dim).reshape(taps, groups, width).transpose(1, 0, 2).reshape(-1)
        joined = network.layer(f"{op.hint}.groups", "PermuteComponent",
                               f"column-map={','.join(map(str, numbers.tolist()))}", _appended(parts))
        matrix = weight.transpose(0, 2, 1).reshape(outputs, taps * width)
        name = network.layer(op.hint, "BlockAffineComponent",
                             f"input-dim={taps * x.dim} output-dim={outputs} num-blocks={groups}", joined,
                             {"linear_params": matrix,
                              "bias_params": np.zeros(outputs, np.float32) if bias is None else bias})
    return _after(x, window, name, (x.axes[0], new, ()), new)


def _nested(parts: list[str]) -> str:
    """Return a descriptor for the sum of any number of parts: nested Sum(), which has two arguments."""
    total = parts[-1]
    for part in parts[-2::-1]:
        total = f"Sum({part}, {total})"
    return total


def _over_heights(context: Context, op: OnnxOp, x: Tensor, spatial: list[Spatial], weight: np.ndarray,
                  bias: np.ndarray | None, cut: tuple[int, int]) -> Tensor:
    """Add a convolution over frames and heights.

    ``weight`` is float (filters, filters of the input, frames, heights).
    """
    time, height = spatial
    axis = 5 - x.time_axis
    window = _window(context, x, time, cut)
    x = context.stored_as(x, (*x.axes[axis], *x.axes[1]), op.hint)
    heights, places = x.shape[axis], height.outputs(x.shape[axis])
    if any(offset not in window.offsets for offset in window.needed):
        raise CannotBe("its frames are not padded symmetrically, as for a kernel with a middle frame")
    used = [j for j in range(height.size)
            if any(0 <= h * height.stride + j * height.dilation - height.before < heights for h in range(places))]
    pairs = [(tap, j * height.dilation - height.before) for tap in window.offsets for j in used]
    columns = [weight[:, :, i, j] for i in range(time.size) for j in used]
    required = [tap for tap, is_padding in zip(window.offsets, window.is_padding, strict=True) if not is_padding]
    filters = weight.shape[0]
    name = context.network.layer(
        op.hint, "TimeHeightConvolutionComponent",
        f"num-filters-in={x.shape[1]} num-filters-out={filters} height-in={heights} height-out={places} "
        f"height-subsample-out={height.stride} offsets={';'.join(f'{t},{h}' for t, h in pairs)} "
        f"required-time-offsets={','.join(map(str, required))}", x.source,
        {"linear_params": np.concatenate(columns, axis=1),
         "bias_params": np.zeros(filters, np.float32) if bias is None else bias})
    axes = list(x.axes)
    axes[1], axes[axis] = columns_of(filters), columns_of(places)
    return _after(x, window, name, tuple(axes), (*axes[axis], *axes[1]))


# -- padding and pooling -----------------------------------------------------------------------------------------------

def _pad(context: Context, op: OnnxOp) -> Value:
    x, pads, fill, mode = op.tensor(), op.array(1, "pads"), op.optional_array(2, "value"), op.get("mode", "constant")
    axes = op.optional_array(3, "axes")
    rank = len(x.axes)
    places = range(rank) if axes is None else (axes % rank).tolist()
    by_axis = {place: (int(pads[i]), int(pads[i + len(places)])) for i, place in enumerate(places)}
    before, after = by_axis.pop(x.time_axis, (0, 0))
    if any(number for pair in by_axis.values() for number in pair) or min(before, after) < 0:
        raise CannotBe(f"it pads another axis than that of the frames, or cuts: pads={pads.tolist()}")
    if not before and not after:
        return x
    rows = (Atom(TIME, x.shape[x.time_axis] + before + after),)
    axes_ = (*x.axes[:x.time_axis], rows, *x.axes[x.time_axis + 1:])
    if mode == "edge" and x.is_input and x.step == 1 and not (x.before or x.after):
        context.repeated = before, after
        return replace(x, axes=axes_, shift=x.shift - before)          # as utterances are computed anyway
    if mode != "constant" or (fill is not None and fill.size and float(fill.reshape(-1)[0]) != 0.0):
        raise CannotBe(f"it pads in the mode '{mode}', or with another number than 0; a network can have zeros, and at "
                       "its input (mode 'edge') the first and last frames")
    return replace(x, axes=axes_, before=x.before + before, after=x.after + after)


def _pooled(op: OnnxOp) -> tuple[Tensor, list[Spatial]]:
    x = op.whole()
    if x.time_axis < 2 or not x.is_columns(1) or len(x.axes) > 4:
        raise CannotBe(f"it does not pool frames: the axes are {_names(x)}")
    spatial = _spatial(op, list(op.get("kernel_shape")), list(x.shape[2:]))
    if any(axis.before or axis.after for axis in spatial):
        raise CannotBe("it pads")
    return x, spatial


def _average_pool(context: Context, op: OnnxOp) -> Value:
    x, spatial = _pooled(op)
    if any(axis.size > 1 for i, axis in enumerate(spatial) if i != x.time_axis - 2):
        raise CannotBe("it averages columns")
    window = _window(context, x, spatial[x.time_axis - 2])
    parts = [f"Scale({1.0 / len(window.offsets)!r}, {part})" for part in _frames(context, op, x, window)]
    return _after(x, window, context.network.layer(op.hint, "NoOpComponent", f"dim={x.dim}", _nested(parts)), x.axes,
                  x.stored)


def _max_pool(context: Context, op: OnnxOp) -> Value:
    x, spatial = _pooled(op)
    time = spatial[x.time_axis - 2]
    window = _window(context, x, time)
    axes = list(x.axes)
    height = Spatial(1, 1, 1, 0, 0)
    if len(x.axes) == 4:
        axis = 5 - x.time_axis
        height = spatial[axis - 2]
        if height.dilation != 1:
            raise CannotBe("it has gaps between the columns that it pools")
        x = context.stored_as(x, (*x.axes[axis], *x.axes[1]), op.hint)
        axes[axis] = columns_of(height.outputs(x.shape[axis]))
        heights = x.shape[axis]
        if (heights - height.size) % height.stride:
            raise CannotBe(f"{heights} columns are not pooled evenly by {height.size}, {height.stride} apart")
    else:
        axis, heights = 1, 1
    filters = x.dim // heights
    stored = (*axes[axis], *axes[1]) if len(axes) == 4 else x.stored
    name = context.network.layer(
        op.hint, "MaxpoolingComponent",
        f"input-x-dim={time.size} input-y-dim={heights} input-z-dim={filters} pool-x-size={time.size} "
        f"pool-y-size={height.size} pool-z-size=1 pool-x-step=1 pool-y-step={height.stride} pool-z-step=1",
        _appended(_frames(context, op, x, window)))
    return _after(x, window, name, tuple(axes), stored)


# -- recurrences -------------------------------------------------------------------------------------------------------

_STATE = "the state after the last frame is read, which a network does not give"


class Direction(NamedTuple):
    """Direction of a recurrence."""

    hint: str      # prefix of names
    x: str         # descriptor of the input
    delay: int     # offset from a frame to the previous one in this direction
    # float32 (gates * hidden, inputs) and (gates * hidden, hidden)
    weight: np.ndarray
    recurrent: np.ndarray
    # float32 (gates * hidden,)
    bias: np.ndarray
    recurrent_bias: np.ndarray
    hidden: int    # number of columns of the state

    def before(self, node: str) -> str:
        """Return the descriptor of a node at the previous frame of this direction, zeros at the first frame."""
        return f"IfDefined(Offset({node}, {self.delay}))"

    def gate(self, matrix: np.ndarray, *numbers: int) -> np.ndarray:
        """Return the rows of a weight matrix that belong to the gates ``numbers``."""
        return np.concatenate([matrix[number * self.hidden:(number + 1) * self.hidden] for number in numbers])


def _recurrence(make: Callable[[Context, OnnxOp, Direction, int], str], activations: tuple[str, ...]) -> Rule:
    """Return the rule for importing a recurrent operator.

    ``make`` : function that adds the nodes of one direction, and returns the name of the output node;
    ``activations`` : the only activation functions of one direction that are supported.
    """
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
    """Raise CannotBe for settings of a recurrent operator that have no counterpart in nnet3."""
    if op.get("layout") or x.time_axis != 0 or len(x.axes) != 3 or not x.is_columns(2):
        raise CannotBe("its input is not (frames, sequences, columns)")
    if tuple(op.get("activations") or activations * num_directions) != activations * num_directions:
        raise CannotBe(f"its activations are {', '.join(op.get('activations'))}; expected {', '.join(activations)}")
    if op.get("clip") or op.get("input_forget"):
        raise CannotBe("it clips, or couples the input gate to the forget gate")
    lengths = op.optional_array(4, "lengths of sequences")
    if lengths is not None and lengths.size and (lengths != x.shape[0]).any():
        raise CannotBe("its sequences have different lengths")
    for number, what in ((5, "first output"), (6, "first cell")):
        first = op.optional_array(number, f"{what} (a state, which streams have)")
        if first is not None and first.any():
            raise CannotBe(f"its {what} is not zero")


def _lstm(context: Context, op: OnnxOp, d: Direction, number: int) -> str:
    """Add an LSTM. Kaldi's gates are in the order i, f, c, o; ONNX's are i, o, f, c."""
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
    """Add a GRU, h = z h' + (1 - z) n, where 1 - sigmoid(a) is sigmoid(-a). ONNX's gates are in the order z, r, n."""
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


RULES: dict[str, Rule] = {
    "Conv": _conv, "Pad": _pad, "AveragePool": _average_pool, "MaxPool": _max_pool,
    "LSTM": _recurrence(_lstm, ("Sigmoid", "Tanh", "Tanh")), "GRU": _recurrence(_gru, ("Sigmoid", "Tanh")),
    "RNN": _recurrence(_rnn, ("Tanh",)),
}
