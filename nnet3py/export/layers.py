"""Operations of each component type, with the formulas of the components.

``RULES`` has the types that work frame by frame, ``RULES_OVER_TIME`` those that read several frames: TDNN, convolution
over time, attention. :func:`extraction` and :func:`pooling` are statistics over windows.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.export.descriptors import Frames
from nnet3py.export.operations import Builder, Value
from nnet3py.export.times import Window

Rule = Callable[[Builder, Any, str, Value], Value]
NORM_FLOOR = 2.0 ** -66          # least mean square of a row, relative to the target's
SOFTMAX_FLOOR = 1e-20
SMALLEST_SCALE = 1e-4            # least absolute scale of ScaleAndOffsetComponent


def apply(builder: Builder, component: Component, name: str, x: Value) -> Value:
    """Return the output of a component for its input ``x``; ``name`` is the prefix of its parameters' names."""
    return RULES[type(component).__name__](builder, component, name, x)


def linear(builder: Builder, name: str, weight: np.ndarray, bias: np.ndarray | None, x: Value, *,
           columns: tuple[tuple[int, int], ...] | None = None,
           attributes: tuple[str, str] = ("linear_params", "bias_params"), is_parameter: bool = True) -> Value:
    """Append the operation x W' + b; with ``columns``, only these ranges (begin, end) of W's columns are used.

    ``weight`` is float32 (outputs, inputs), ``bias`` float32 (outputs,) or None.
    """
    w = builder.weight(name, attributes[0], weight, is_parameter)
    b = None if bias is None else builder.weight(name, attributes[1], bias, is_parameter)
    return builder.op("linear", x, weight=w, bias=b, columns=columns, component=name, dim=weight.shape[0])


def affine_parameters(component: Any) -> tuple[np.ndarray, np.ndarray | None, tuple[str, str]] | None:
    """Return weight, bias and their names for a component that is an affine map of a frame; None for others.

    The weight is float32 (outputs, inputs), the bias float32 (outputs,) or None.
    """
    kind = type(component).__name__
    if kind in ("AffineComponent", "NaturalGradientAffineComponent", "FixedAffineComponent"):
        return component.linear_params, component.bias_params, ("linear_params", "bias_params")
    if kind == "LinearComponent":
        return component.params, None, ("params", "")
    return None


def _affine(b: Builder, c: Any, name: str, x: Value) -> Value:
    parameters = affine_parameters(c)
    assert parameters is not None
    weight, bias, attributes = parameters
    return linear(b, name, weight, bias, x, attributes=attributes)


def in_blocks(b: Builder, x: Value, size: int) -> Value:
    """Reshape (N, time, dim) to (N, time, blocks, size)."""
    return x if size == x.dim else b.op("reshape", x, tail=(x.dim // size, size), dim=size)


def out_of_blocks(b: Builder, x: Value, dim: int) -> Value:
    """Reshape (N, time, blocks, size) to (N, time, dim)."""
    return x if x.dim == dim else b.op("reshape", x, tail=(dim,), dim=dim)


def _repeated_affine(b: Builder, c: Any, name: str, x: Value) -> Value:
    y = linear(b, name, c.linear_params, c.bias_params, in_blocks(b, x, c.linear_params.shape[1]))
    return out_of_blocks(b, y, c.output_dim)


def _block_affine(b: Builder, c: Any, name: str, x: Value) -> Value:
    blocks, width = c.num_blocks, c.linear_params.shape[1]
    weight = b.weight(name, "linear_params", c.linear_params)
    shaped = b.outer.op("weight_shape", weight, shape=(blocks, c.output_dim // blocks, width), dim=width)
    weight_t = b.outer.op("transposed", shaped)
    y = b.op("matmul", b.op("reshape", x, tail=(blocks, 1, width), dim=width), weight_t, dim=c.output_dim // blocks,
             constant=x.is_constant)
    y = b.op("reshape", y, tail=(c.output_dim,), dim=c.output_dim)
    return b.op("add", y, b.weight(name, "bias_params", c.bias_params))


def _scale_by(attribute: str, kind: str) -> Rule:
    def rule(b: Builder, c: Any, name: str, x: Value) -> Value:
        vector = getattr(c, attribute)
        y = b.op(kind, in_blocks(b, x, vector.size), b.weight(name, attribute, vector))
        return out_of_blocks(b, y, x.dim)
    return rule


def _scale_and_offset(b: Builder, c: Any, name: str, x: Value) -> Value:
    scales = b.outer.op("away_from_zero", b.weight(name, "scales", c.scales), least=SMALLEST_SCALE)
    y = b.op("mul", in_blocks(b, x, c.scales.size), scales, constant=x.is_constant, dim=c.scales.size)
    return out_of_blocks(b, b.op("add", y, b.weight(name, "offsets", c.offsets)), x.dim)


def _batch_norm(b: Builder, c: Any, name: str, x: Value) -> Value:
    scale, offset = c._derived()
    y = b.op("batch_norm", in_blocks(b, x, c.block_dim), component=name, target_rms=float(c.target_rms),
             scale=b.weight(name, "test_scale", scale, False), offset=b.weight(name, "test_offset", offset, False))
    return out_of_blocks(b, y, x.dim)


def _normalize(b: Builder, c: Any, name: str, x: Value) -> Value:
    blocks = in_blocks(b, x, c.block_dim)
    squares = b.op("sum", b.op("mul", blocks, blocks), axis=-1, dim=1)
    ratio = b.op("scale", squares, by=1.0 / (c.block_dim * float(c.target_rms) ** 2))
    root = b.op("sqrt", b.op("at_least", ratio, least=NORM_FLOOR))
    y = b.op("div", blocks, root)
    if c.add_log_stddev:
        log = b.op("shift", b.op("log", root), by=float(np.log(c.target_rms)))
        y = b.op("concat", y, log, dim=c.block_dim + 1)
    return out_of_blocks(b, y, c.output_dim)


def _unary(kind: str) -> Rule:
    return lambda b, c, name, x: b.op(kind, x, component=name)


def _same(b: Builder, c: Any, name: str, x: Value) -> Value:
    return x


def _times(attribute: str) -> Rule:
    def rule(b: Builder, c: Any, name: str, x: Value) -> Value:
        by = float(getattr(c, attribute))
        return x if by == 1.0 else b.op("scale", x, by=by)
    return rule


def _dropout(b: Builder, c: Any, name: str, x: Value) -> Value:
    return x if c.dropout_proportion == 0 else b.op("scale", x, by=1.0 - float(c.dropout_proportion))


def _dropout_mask(b: Builder, c: Any, name: str, x: Value) -> Value:
    kept = 1.0 if c.continuous else 1.0 - float(c.dropout_proportion)
    return Value(b.constant(f"{name}/mask", np.full((1, 1, c.output_dim), kept, "f4")), c.output_dim, True)


def _softmax(b: Builder, c: Any, name: str, x: Value) -> Value:
    return b.op("at_least", b.op("softmax", x, component=name), least=SOFTMAX_FLOOR)


def _constant(b: Builder, c: Any, name: str, x: Value) -> Value:
    row = b.outer.op("weight_shape", b.weight(name, "output", c.output), shape=(1, 1, c.output.size), dim=c.output.size,
                     constant=True)
    return row


def columns(b: Builder, x: Value, begin: int, end: int) -> Value:
    """Return the columns ``begin`` to ``end`` of a value."""
    return x if (begin, end) == (0, x.dim) else b.op("columns", x, begin=begin, end=end, dim=end - begin)


def split(b: Builder, x: Value, *widths: int) -> list[Value]:
    """Split the columns of a value into pieces of these widths."""
    ends = np.cumsum(widths).tolist()
    return [columns(b, x, end - width, end) for end, width in zip(ends, widths, strict=True)]


def _product(b: Builder, c: Any, name: str, x: Value) -> Value:
    first, *rest = split(b, x, *[c.output_dim] * (x.dim // c.output_dim))
    for other in rest:
        first = b.op("mul", first, other)
    return first


def _sum_block(b: Builder, c: Any, name: str, x: Value) -> Value:
    blocks = b.op("reshape", x, tail=(x.dim // c.output_dim, c.output_dim), dim=c.output_dim)
    y = b.op("reshape", b.op("sum", blocks, axis=-2), tail=(c.output_dim,))
    return y if c.block_scale == 1.0 else b.op("scale", y, by=float(c.block_scale))


def _sum_group(b: Builder, c: Any, name: str, x: Value) -> Value:
    matrix = np.repeat(np.eye(c.output_dim, dtype=np.float32), c.sizes, axis=0)
    return b.op("matmul", x, b.constant(f"{name}/groups", matrix), dim=c.output_dim)


def _permute(b: Builder, c: Any, name: str, x: Value) -> Value:
    return b.op("pick_columns", x, index=tuple(c.column_map.tolist()))


def _pnorm(b: Builder, c: Any, name: str, x: Value) -> Value:
    size = x.dim // c.output_dim
    blocks = b.op("reshape", x, tail=(c.output_dim, size), dim=size)
    squares = b.op("sum", b.op("mul", blocks, blocks), axis=-1, dim=1)
    return b.op("sqrt", b.op("reshape", squares, tail=(c.output_dim,), dim=c.output_dim))


def _convolution(b: Builder, c: Any, name: str, x: Value) -> Value:
    """Compute ConvolutionComponent: concatenate the patches under the filter; multiply them by the filter matrix."""
    index = np.concatenate([start + c.taps for start, _ in c._places()])
    places = len(index) // c.taps.size
    patches = b.op("pick_columns", x, index=tuple(index.tolist()), dim=index.size)
    patches = b.op("reshape", patches, tail=(places, c.taps.size), dim=c.taps.size)
    y = linear(b, name, c.filter_params, c.bias_params, patches, attributes=("filter_params", "bias_params"))
    return b.op("reshape", y, tail=(c.output_dim,), dim=c.output_dim)


def _max_pooling(b: Builder, c: Any, name: str, x: Value) -> Value:
    s = c.shape
    sizes, steps = (s.pool_x_size, s.pool_y_size, s.pool_z_size), (s.pool_x_step, s.pool_y_step, s.pool_z_step)
    numbers = np.arange(x.dim).reshape(s.input_x_dim, s.input_y_dim, s.input_z_dim)
    boxes = np.lib.stride_tricks.sliding_window_view(numbers, sizes)[::steps[0], ::steps[1], ::steps[2]]
    size = int(np.prod(sizes))
    picked = b.op("pick_columns", x, index=tuple(boxes.reshape(-1).tolist()), dim=boxes.size)
    largest = b.op("maximum", b.op("reshape", picked, tail=(c.output_dim, size), dim=size), axis=-1, dim=1)
    return b.op("reshape", largest, tail=(c.output_dim,), dim=c.output_dim)


def _lstm(b: Builder, c: Any, name: str, x: Value) -> Value:
    params, n = b.weight(name, "params", c.params), c.cell_dim
    w_ic, w_fc, w_oc = (b.shared("weight_row", params, row=row, dim=n) for row in range(3))
    i, f, g, o, previous, *masks = split(b, x, n, n, n, n, n, *([1, 1, 1] if c.use_dropout else []))

    def gate(part: Value, peephole: Value, cell: Value, number: int) -> Value:
        y = b.op("sigmoid", b.op("add", part, b.op("mul", cell, peephole, constant=False)))
        return b.op("mul", y, masks[number]) if masks else y

    kept = b.op("mul", gate(f, w_fc, previous, 1), previous)
    cell = b.op("add", kept, b.op("mul", gate(i, w_ic, previous, 0), b.op("tanh", g)))
    return b.op("concat", cell, b.op("mul", gate(o, w_oc, cell, 2), b.op("tanh", cell)), dim=2 * n)


def _gru(b: Builder, c: Any, name: str, x: Value) -> Value:
    n, r = c.cell_dim, c.recurrent_dim
    if r == n:
        z, reset, part, previous = split(b, x, n, n, n, n)
        output = previous
    else:
        z, reset, part, previous, output = split(b, x, n, r, n, n, r)
    w = b.outer.shared("transposed", b.weight(name, "w_h", c.w_h))
    recurrent = b.op("matmul", b.op("mul", reset, output), w, dim=n, constant=x.is_constant)
    return _gru_cell(b, b.op("add", part, recurrent), z, previous)


def _output_gru(b: Builder, c: Any, name: str, x: Value) -> Value:
    n = c.cell_dim
    z, part, previous = split(b, x, n, n, n)
    recurrent = b.op("mul", previous, b.weight(name, "w_h", c.w_h))
    return _gru_cell(b, b.op("add", part, recurrent), z, previous)


def _gru_cell(b: Builder, total: Value, z: Value, previous: Value) -> Value:
    h = b.op("tanh", total)
    cell = b.op("add", b.op("sub", h, b.op("mul", z, h)), b.op("mul", z, previous))
    return b.op("concat", h, cell, dim=2 * h.dim)


def _composite(b: Builder, c: Any, name: str, x: Value) -> Value:
    for number, child in enumerate(c.children):
        x = apply(b, child, f"{name}.{number}", x)
    return x


RULES: dict[str, Rule] = {
    **dict.fromkeys(("AffineComponent", "NaturalGradientAffineComponent", "FixedAffineComponent", "LinearComponent"),
                    _affine),
    "RepeatedAffineComponent": _repeated_affine, "NaturalGradientRepeatedAffineComponent": _repeated_affine,
    "BlockAffineComponent": _block_affine,
    "PerElementScaleComponent": _scale_by("scales", "mul"),
    "NaturalGradientPerElementScaleComponent": _scale_by("scales", "mul"),
    "PerElementOffsetComponent": _scale_by("offsets", "add"),
    "FixedScaleComponent": _scale_by("vector", "mul"), "FixedBiasComponent": _scale_by("vector", "add"),
    "ScaleAndOffsetComponent": _scale_and_offset,
    "BatchNormComponent": _batch_norm, "NormalizeComponent": _normalize,
    "SigmoidComponent": _unary("sigmoid"), "TanhComponent": _unary("tanh"), "RectifiedLinearComponent": _unary("relu"),
    "SoftmaxComponent": _softmax, "LogSoftmaxComponent": _unary("log_softmax"),
    **dict.fromkeys(("NoOpComponent", "ClipGradientComponent", "GeneralDropoutComponent",
                     "SpecAugmentTimeMaskComponent"), _same),
    "DropoutComponent": _dropout, "DropoutMaskComponent": _dropout_mask,
    "BackpropTruncationComponent": _times("value_scale"),
    "ConstantComponent": _constant, "ConstantFunctionComponent": _constant,
    "ElementwiseProductComponent": _product, "SumBlockComponent": _sum_block, "SumGroupComponent": _sum_group,
    "PermuteComponent": _permute, "PnormComponent": _pnorm,
    "ConvolutionComponent": _convolution, "MaxpoolingComponent": _max_pooling,
    "LstmNonlinearityComponent": _lstm, "GruNonlinearityComponent": _gru, "OutputGruNonlinearityComponent": _output_gru,
    "CompositeComponent": _composite,
}


# -- components that read several frames -------------------------------------------------------------------------------

At = Callable[[int], Value]      # the input at an offset from the output's time; zero where it is missing


def _side_by_side(b: Builder, at: At, offsets: list[int]) -> Value:
    """Concatenate the columns of the input at each of ``offsets``, frames relative to the output."""
    frames = [at(offset) for offset in offsets]
    return frames[0] if len(frames) == 1 else b.op("concat", *frames, dim=sum(f.dim for f in frames))


def _tdnn(b: Builder, c: Any, name: str, at: At) -> Value:
    x = _side_by_side(b, at, c.time_offsets.tolist())
    return linear(b, name, c.linear_params, c.bias_params, x)


def _time_height_convolution(b: Builder, c: Any, name: str, at: At) -> Value:
    """Compute TimeHeightConvolutionComponent: gather a patch for each output height; multiply it by the filters."""
    model = c.model
    times = model.time_offsets.tolist()
    x = _side_by_side(b, at, times)
    width, size = model.num_filters_in, model.input_dim
    padding = len(times) * size                                   # the number of a column of zeros
    places = np.full((model.height_out, len(model.offsets), width), padding)
    for p, (time, height) in enumerate(model.offsets.tolist()):
        heights = np.arange(model.height_out) * model.height_subsample_out + height
        inside = (0 <= heights) & (heights < model.height_in)
        start = times.index(time) * size + heights[inside] * width
        places[inside, p] = start[:, None] + np.arange(width)
    if (places == padding).any():
        x = b.op("concat", x, b.op("scale", columns(b, x, 0, 1), by=0.0), dim=padding + 1)
    patches = b.op("pick_columns", x, index=tuple(places.reshape(-1).tolist()), dim=places.size)
    patch = len(model.offsets) * width
    patches = b.op("reshape", patches, tail=(model.height_out, patch), dim=patch)
    y = linear(b, name, c.linear_params, c.bias_params, patches)
    return b.op("reshape", y, tail=(model.output_dim,), dim=model.output_dim)


def _attention(b: Builder, c: Any, name: str, at: At) -> Value:
    s = c.shape
    frames = {o: at(int(o) * s.time_stride) for o in c._positions()}
    outputs = []
    for head in range(s.num_heads):
        start = head * s.head_input_dim
        parts = {o: split(b, columns(b, x, start, start + s.head_input_dim), s.key_dim, s.value_dim, s.key_dim,
                          s.positions) for o, x in frames.items()}
        _, _, query, added = parts[0]
        scores = [b.op("sum", b.op("mul", query, key), axis=-1, dim=1) for key, *_ in parts.values()]
        score = b.op("scale", b.op("concat", *scores, dim=s.positions), by=float(s.key_scale))
        weights = b.op("softmax", b.op("add", score, added))
        total = None
        for number, (_, value, *_) in enumerate(parts.values()):
            term = b.op("mul", value, columns(b, weights, number, number + 1))
            total = term if total is None else b.op("add", total, term)
        assert total is not None
        outputs += [total, weights] if s.output_context else [total]
    return outputs[0] if len(outputs) == 1 else b.op("concat", *outputs, dim=c.output_dim)


RULES_OVER_TIME: dict[str, Callable[[Builder, Any, str, At], Value]] = {
    "TdnnComponent": _tdnn, "TimeHeightConvolutionComponent": _time_height_convolution,
    "RestrictedAttentionComponent": _attention,
}


# -- statistics, over windows that end where the utterance ends --------------------------------------------------------


def _window_sum(frames: Frames, source: int, x: Value, first: Value, last: Value, period: int) -> Value:
    """Sum the frames of ``x``, a value of node ``source``, over windows.

    ``first``, ``last`` : vectors of the first and last time of each window; ``period`` : only frames at times that are
    multiples of it are summed.
    """
    b = frames.builder
    own = frames.own_times(source, x)
    mask = frames.can_node(source, own)
    if period > 1:
        on_period = b.shared("is_multiple", own.times, by=period)
        mask = on_period if mask is None else b.shared("and", mask, on_period)
    if mask is not None:
        x = b.op("keep", x, mask)
    begin = b.op("at_least_int", frames.row_numbers(source, first, x), least=0, dim=0)
    end = b.op("at_most_rows", frames.row_numbers(source, last, x), x, dim=0)
    return b.op("window_sum", x, begin, end, dim=x.dim)


def extraction(frames: Frames, c: Any, source: int, window: Window) -> Value:
    """Compute StatisticsExtractionComponent: frame counts, sums and sums of squares over periods of frames."""
    b = frames.builder
    every = c.output_period == 1
    x = b.op("double", frames.read(source, 0, window) if every else frames.available(source))
    count = b.op("shift", b.op("scale", columns(b, x, 0, 1), by=0.0), by=1.0)
    parts = [count, x, b.op("mul", x, x)] if c.include_variance else [count, x]
    x = b.op("concat", *parts, dim=sum(p.dim for p in parts))
    if every:
        return b.op("single", x)
    when = frames.when(window)
    first = b.op("round_down", when.times, by=c.output_period)
    last = b.op("int_add", first, value=c.output_period - 1)
    return b.op("single", _window_sum(frames, source, x, first, last, c.input_period))


def pooling(frames: Frames, c: Any, source: int, window: Window) -> Value:
    """Compute StatisticsPoolingComponent: log counts, means and standard deviations over a window around each time."""
    b, when = frames.builder, frames.when(window)
    first = b.op("int_add", when.times, value=-c.left_context)
    last = b.op("int_add", when.times, value=c.right_context)
    sums = _window_sum(frames, source, b.op("double", frames.available(source)), first, last, c.input_period)
    count, total = split(b, sums, 1, sums.dim - 1)
    count = b.op("at_least", count, least=1.0)
    means = b.op("div", total, count)
    parts = [b.op("log", count)] * c.num_log_count_features
    if c.output_stddevs:
        mean, square = split(b, means, means.dim // 2, means.dim // 2)
        variance = b.op("at_least", b.op("sub", square, b.op("mul", mean, mean)), least=float(c.variance_floor))
        parts += [mean, b.op("sqrt", variance)]
    else:
        parts.append(means)
    return b.op("single", b.op("concat", *parts, dim=c.output_dim) if len(parts) > 1 else parts[0])
