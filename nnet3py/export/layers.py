"""The operations for each component that works frame by frame. The formulas are those of the components."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.export.operations import Builder, Value

Rule = Callable[[Builder, Any, str, Value], Value]
NORM_FLOOR = 2.0 ** -66          # of a row's mean square, relative to the target's
SOFTMAX_FLOOR = 1e-20
SMALLEST_SCALE = 1e-4            # of ScaleAndOffset


def apply(builder: Builder, component: Component, name: str, x: Value) -> Value:
    """The output of a component for the input ``x`` of the same frames; its parameters are named after ``name``."""
    return RULES[type(component).__name__](builder, component, name, x)


def linear(builder: Builder, name: str, weight: np.ndarray, bias: np.ndarray | None, x: Value, *,
           columns: tuple[tuple[int, int], ...] | None = None,
           attributes: tuple[str, str] = ("linear_params", "bias_params"), is_parameter: bool = True) -> Value:
    """x W' + b; only some ranges of W's columns if ``columns`` is given.

    ``weight`` is float32 (outputs, inputs), ``bias`` float32 (outputs,) or None.
    """
    w = builder.weight(name, attributes[0], weight, is_parameter)
    b = None if bias is None else builder.weight(name, attributes[1], bias, is_parameter)
    return builder.op("linear", x, weight=w, bias=b, columns=columns, component=name, dim=weight.shape[0])


def affine_parameters(component: Any) -> tuple[np.ndarray, np.ndarray | None, tuple[str, str]] | None:
    """Weight, bias and their names for a component that is one affine map of a frame; None for others.

    float32 (outputs, inputs), and float32 (outputs,) or None.
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
    """(N, time, blocks, size)."""
    return x if size == x.dim else b.op("reshape", x, tail=(x.dim // size, size), dim=size)


def out_of_blocks(b: Builder, x: Value, dim: int) -> Value:
    """(N, time, dim) again."""
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
    """Columns begin to end of a value."""
    return x if (begin, end) == (0, x.dim) else b.op("columns", x, begin=begin, end=end, dim=end - begin)


def split(b: Builder, x: Value, *widths: int) -> list[Value]:
    """The columns of a value, cut into pieces of these widths."""
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
    """The old convolution: the patches under the filter, side by side, times the filters."""
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
