"""Rules for importing ONNX operators that work frame by frame, and those that rearrange axes."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nnet3py.export.onnx_context import TIME, Atom, Axis, CannotBe, Context, OnnxOp, Tensor, Value, columns_of

Rule = Callable[[Context, OnnxOp], Value | list[Value]]
COUNT = 1000.0            # of frames, for the statistics of batch normalization
LAST = np.iinfo(np.int32).max


# -- axes --------------------------------------------------------------------------------------------------------------

def _same(context: Context, op: OnnxOp) -> Value:
    return op.inputs[0]


def _cast(context: Context, op: OnnxOp) -> Value:
    if op.get("to") not in (1, 10, 11, 16):
        raise CannotBe("it converts numbers to a type other than real numbers")
    return op.inputs[0]


def _transpose(context: Context, op: OnnxOp) -> Value:
    x = op.tensor()
    order = list(op.get("perm") or range(len(x.axes))[::-1])
    if sorted(order) != list(range(len(x.axes))):
        raise CannotBe(f"{order} is no order of {len(x.axes)} axes")
    return x.transposed(order)


def _reshape(context: Context, op: OnnxOp) -> Value:
    x, wanted = op.whole(), op.array(1, "shape").tolist()
    if not op.get("allowzero"):
        wanted = [x.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    if -1 in wanted:
        others = int(np.prod([size for size in wanted if size != -1]))
        wanted[wanted.index(-1)] = int(np.prod(x.shape)) // max(others, 1)
    return x.reshaped(wanted)


def _flatten(context: Context, op: OnnxOp) -> Value:
    x = op.whole()
    axis = int(op.get("axis", 1)) % (len(x.axes) + 1)
    return x.reshaped([int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))])


def _squeeze(context: Context, op: OnnxOp) -> Value:
    x, axes = op.tensor(), op.optional_array(1, "axes")
    places = [i for i, size in enumerate(x.shape) if size == 1] if axes is None else (axes % len(x.axes)).tolist()
    if any(x.axes[i] for i in places):
        raise CannotBe(f"axes {places} of a value of shape {x.shape} are not of size 1")
    return x.without_axes(places)


def _unsqueeze(context: Context, op: OnnxOp) -> Value:
    x, axes = op.tensor(), op.array(1, "axes")
    return x.with_axes((axes % (len(x.axes) + axes.size)).tolist())


def _expand(context: Context, op: OnnxOp) -> Value:
    x = op.whole()
    wanted = op.array(1, "shape").tolist()
    x = x.with_axes(range(max(0, len(wanted) - len(x.axes))))
    wanted = [1] * (len(x.axes) - len(wanted)) + wanted
    return _repeated(x, [max(size, own) for size, own in zip(wanted, x.shape, strict=True)])


def _tile(context: Context, op: OnnxOp) -> Value:
    x = op.whole()
    return _repeated(x, [own * n for own, n in zip(x.shape, op.array(1, "repeats").tolist(), strict=True)])


def _repeated(x: Tensor, shape: list[int]) -> Tensor:
    """Broadcast a value that has no axis of frames, such as an i-vector, to a shape with one axis of frames more."""
    grown = [i for i, (size, own) in enumerate(zip(shape, x.shape, strict=True)) if size != own]
    if not grown:
        return x
    if len(grown) > 1 or x.axes[grown[0]] or not x.is_constant:
        raise CannotBe(f"a value of shape {x.shape} is repeated to {tuple(shape)}; only a value that is the same for "
                       "all frames can be repeated, once for each frame")
    axes = list(x.axes)
    axes[grown[0]] = (Atom(TIME, shape[grown[0]]),)
    return replace(x, axes=tuple(axes))


def _slice(context: Context, op: OnnxOp) -> Value:
    x = op.tensor()
    starts, ends = op.array(1, "start").tolist(), op.array(2, "end").tolist()
    axes, steps = op.optional_array(3, "axes"), op.optional_array(4, "step")
    places = range(len(starts)) if axes is None else (axes % len(x.axes)).tolist()
    steps_ = [1] * len(starts) if steps is None else steps.tolist()
    for place, start, end, step in zip(places, starts, ends, steps_, strict=True):
        if place == x.time_axis and op.output_names[0] in context.without_cut:
            continue
        x = _cut(context, op, x, place, slice(start, min(end, LAST), step))
    return x


def _cut(context: Context, op: OnnxOp, x: Tensor, axis: int, part: slice) -> Tensor:
    """Return the elements ``part`` of an axis of frames or columns, as a Slice operator does."""
    rows = range(x.shape[axis])[part]
    if rows == range(x.shape[axis]):
        return x
    if not len(rows) or rows.step < 1:
        raise CannotBe(f"{part.start}:{part.stop}:{part.step} of an axis of {x.shape[axis]}: empty, or in reverse")
    if axis == x.time_axis:
        return _cut_time(x, axis, rows)
    if not x.is_columns(axis) or rows.step != 1:
        raise CannotBe(f"it takes a part of the {x.axes[axis][0].kind}, or not all columns of a range")
    return columns(context, op, x, axis, rows.start, len(rows))


def _cut_time(x: Tensor, axis: int, rows: range) -> Tensor:
    if x.is_constant:
        return x.with_node(x.source, _exchanged(x.axes, axis, (Atom(TIME, len(rows)),)))
    last = x.shape[axis] - rows.stop                       # not what a step of several rows passes over
    if rows.step > 1 and (x.before or x.after):
        raise CannotBe("it follows a Pad, after which a network can only have a convolution")
    before, after = max(0, x.before - rows.start), max(0, x.after - last)
    first = max(0, rows.start - x.before)                  # of the rows that are the node's
    step, shift = x.step * rows.step, x.shift + x.step * first
    source, early = x.source, shift % step
    if early:
        source, shift = f"Offset({x.source}, {early})", shift - early
    return replace(x, axes=_exchanged(x.axes, axis, (Atom(TIME, len(rows)),)), source=source, step=step, shift=shift,
                   before=before, after=after, early=x.early + x.step * first,
                   late=x.late + x.step * max(0, last - x.after), is_input=False)


def _exchanged(axes: tuple[Axis, ...], place: int, axis: Axis) -> tuple[Axis, ...]:
    return (*axes[:place], axis, *axes[place + 1:])


def columns(context: Context, op: OnnxOp, x: Tensor, axis: int, start: int, count: int) -> Tensor:
    """Return ``count`` elements from ``start`` on of an axis of columns."""
    atoms = x.axes[axis]
    others = tuple(atom for atom in x.stored if atom not in atoms)
    x = context.node(context.stored_as(x, (*atoms, *others), op.hint), op.hint)
    rest = x.dim // x.shape[axis]
    name = context.network.dim_range(op.hint, x.source, start * rest, count * rest)
    new = columns_of(count)
    return x.with_node(name, _exchanged(x.axes, axis, new), (*new, *others))


def _split(context: Context, op: OnnxOp) -> list[Value]:
    x = op.whole()
    axis, sizes = int(op.get("axis", 0)) % len(x.axes), op.optional_array(1, "sizes")
    if not x.is_columns(axis):
        raise CannotBe("it splits the axis of frames or sequences")
    number = len(op.output_names)
    each = -(-x.shape[axis] // number)
    parts = [min(each, x.shape[axis] - i * each) for i in range(number)] if sizes is None else sizes.tolist()
    starts = np.cumsum([0, *parts[:-1]]).tolist()
    return [columns(context, op, x, axis, start, size) for start, size in zip(starts, parts, strict=True)]


def _gather(context: Context, op: OnnxOp) -> Value:
    x, index = op.whole(), op.array(1, "index")
    axis = int(op.get("axis", 0)) % len(x.axes)
    if index.size != 1 or not x.is_columns(axis):
        raise CannotBe("it selects frames, sequences or several columns by index")
    number = int(index.reshape(-1)[0]) % x.shape[axis]
    x = columns(context, op, x, axis, number, 1) if x.shape[axis] > 1 else x
    return x.without_axes([axis]) if index.ndim == 0 else x


def _concat(context: Context, op: OnnxOp) -> Value:
    parts = [op.whole(i) for i in range(len(op.inputs))]
    first = next((part for part in parts if not part.is_constant), parts[0])
    axis = int(op.get("axis", 0)) % len(first.axes)
    if not all(part.is_columns(axis) for part in parts):
        raise CannotBe("it concatenates frames or sequences; a network can only concatenate columns")
    descriptors = []
    others = tuple(atom for atom in first.stored if atom not in first.axes[axis])
    for part in parts:
        like = replace(first, axes=_exchanged(first.axes, axis, part.axes[axis]), stored=(*part.axes[axis], *others))
        descriptors.append(context.together(op, like, part)[1])
    new = columns_of(sum(part.shape[axis] for part in parts))
    dim = sum(part.dim for part in parts)
    name = context.network.layer(op.hint, "NoOpComponent", f"dim={dim}", f"Append({', '.join(descriptors)})")
    return first.with_node(name, _exchanged(first.axes, axis, new), (*new, *others))


# -- element by element ------------------------------------------------------------------------------------------------

def _simple(kind: str) -> Rule:
    return lambda context, op: _node(context, op, kind)


def _node(context: Context, op: OnnxOp, kind: str) -> Tensor:
    """Add a component of type ``kind`` whose only option is its dimension, that of the operator's input."""
    x = op.whole()
    return x.with_node(context.network.layer(op.hint, kind, f"dim={x.dim}", x.source))


def _softmax(kind: str) -> Rule:
    def rule(context: Context, op: OnnxOp) -> Value:
        x = op.whole()
        axis = int(op.get("axis", -1)) % len(x.axes)
        if not x.is_columns(axis) or x.shape[axis] != x.dim:
            raise CannotBe(f"it is over axis {axis}, which has not all columns of a frame")
        return _node(context, op, kind)
    return rule


def _clip(context: Context, op: OnnxOp) -> Value:
    low, high = (op.optional_array(i, "limit") for i in (1, 2))
    if low is None or float(low.reshape(-1)[0]) != 0.0 or (high is not None and np.isfinite(high).all()
                                                            and float(high.reshape(-1)[0]) < 1e30):
        raise CannotBe("its limits are not 0 and infinity")
    return _node(context, op, "RectifiedLinearComponent")


def _leaky(context: Context, op: OnnxOp) -> Value:
    """Import LeakyRelu or PRelu as relu(x) - slope relu(-x)."""
    x, network = op.whole(), context.network
    up = network.layer(f"{op.hint}.up", "RectifiedLinearComponent", f"dim={x.dim}", x.source)
    down = network.layer(f"{op.hint}.down", "RectifiedLinearComponent", f"dim={x.dim}", _scaled(x.source, -1.0))
    slope = op.optional_array(1, "slope") if op.kind == "PRelu" else np.float32(op.get("alpha", 0.01))
    assert slope is not None
    if slope.size > 1:
        down = network.layer(f"{op.hint}.slope", "NaturalGradientPerElementScaleComponent", f"dim={x.dim}", down,
                             {"scales": x.as_stored(slope)})
        slope = np.float32(1.0)
    return x.with_node(network.layer(op.hint, "NoOpComponent", f"dim={x.dim}",
                                     f"Sum({up}, {_scaled(down, -float(slope.reshape(-1)[0]))})"))


def _scaled(descriptor: str, by: float) -> str:
    return descriptor if by == 1.0 else f"Scale({by!r}, {descriptor})"


def _neg(context: Context, op: OnnxOp) -> Value:
    return _times(context, op, op.whole(), np.float32(-1.0))


# -- two values --------------------------------------------------------------------------------------------------------

def _add(context: Context, op: OnnxOp) -> Value:
    if any(isinstance(value, np.ndarray) for value in op.inputs[:2]):
        x, array = _with_constant(op)
        return _plus(context, op, x, array)
    total = op.whole(0)
    for number in range(1, len(op.inputs)):
        total = _sum(context, op, total, op.whole(number), 1.0)
    return total


def _sub(context: Context, op: OnnxOp) -> Value:
    if not any(isinstance(value, np.ndarray) for value in op.inputs):
        return _sum(context, op, op.whole(0), op.whole(1), -1.0)
    x, array = _with_constant(op)
    if isinstance(op.inputs[0], np.ndarray):
        return _plus(context, op, _times(context, op, x, np.float32(-1.0)), array)
    return _plus(context, op, x, -array)


def _sum(context: Context, op: OnnxOp, first: Tensor, second: Tensor, sign: float) -> Tensor:
    if first.is_constant and not second.is_constant and sign == 1.0:
        first, second = second, first
    is_other = second.source != first.source or sign != 1.0
    if is_other and second.node == first.node:
        second = second.with_node(context.copy(second, op.hint))
    first, other = context.together(op, first, second)
    return first.with_node(context.network.layer(op.hint, "NoOpComponent", f"dim={first.dim}",
                                                 f"Sum({first.source}, {_scaled(other, sign)})"))


def _mul(context: Context, op: OnnxOp) -> Value:
    if any(isinstance(value, np.ndarray) for value in op.inputs):
        return _times(context, op, *_with_constant(op))
    first, second = op.whole(0), op.whole(1)
    if first.is_constant and not second.is_constant:
        first, second = second, first
    first, other = context.together(op, first, second)
    return first.with_node(product(context, op.hint, first.dim, first.source, other))


def product(context: Context, hint: str, dim: int, first: str, second: str) -> str:
    """Add a node with the product of two values of the same columns; return its name."""
    return context.network.layer(hint, "ElementwiseProductComponent", f"input-dim={2 * dim} output-dim={dim}",
                                 f"Append({first}, {second})")


def _div(context: Context, op: OnnxOp) -> Value:
    if not isinstance(op.inputs[1], np.ndarray):
        raise CannotBe("it divides by a value that is not constant")
    with np.errstate(divide="ignore"):
        return _times(context, op, op.whole(0), 1.0 / op.inputs[1].astype(np.float64))


def _with_constant(op: OnnxOp) -> tuple[Tensor, np.ndarray]:
    numbers = (0, 1) if isinstance(op.inputs[1], np.ndarray) else (1, 0)
    return op.whole(numbers[0]), op.array(numbers[1], "constant")


def _check_finite(array: np.ndarray) -> None:
    if not np.isfinite(array).all():
        raise CannotBe("its constant has NaN or infinity in it")


def _plus(context: Context, op: OnnxOp, x: Tensor, array: np.ndarray) -> Tensor:
    """Add a constant vector to ``x``; if ``x`` is a linear map that nothing else reads, the vector becomes its bias."""
    _check_finite(array)
    vector = x.as_stored(array)
    if not vector.any():
        return x
    used = max(context.uses.get(name, 0) for name in op.input_names)
    name = context.network.add_bias(x.source, vector, op.module) if used == 1 else ""
    if name:
        return x.with_node(name)
    return x.with_node(context.network.layer(op.hint, "FixedBiasComponent", f"dim={x.dim}", x.source,
                                             {"vector": vector}))


def _times(context: Context, op: OnnxOp, x: Tensor, array: np.ndarray | np.floating[Any]) -> Tensor:
    array = np.asarray(array)
    _check_finite(array)
    if array.size == 1 and array.ndim <= len(x.axes):
        return x.with_node(_scaled(x.source, float(array.reshape(-1)[0])))
    return x.with_node(context.network.layer(op.hint, "FixedScaleComponent", f"dim={x.dim}", x.source,
                                             {"vector": x.as_stored(array)}))


# -- affine maps, normalization ----------------------------------------------------------------------------------------

def _matmul(context: Context, op: OnnxOp) -> Value:
    is_left = isinstance(op.inputs[0], np.ndarray)
    x, weight = op.whole(int(is_left)), op.array(int(not is_left), "second factor, as in self-attention,")
    if weight.ndim != 2:
        raise CannotBe(f"its matrix has the shape {weight.shape}; expected two dimensions")
    return affine(context, op, x, len(x.axes) - (2 if is_left else 1), weight if is_left else weight.T, None)


def _gemm(context: Context, op: OnnxOp) -> Value:
    x, weight, bias = op.whole(), op.array(1, "matrix"), op.optional_array(2, "bias")
    if op.get("transA"):
        x = x.transposed((1, 0))
    weight = op.get("alpha", 1.0) * (weight if op.get("transB") else weight.T)
    if bias is not None:
        bias = np.broadcast_to(op.get("beta", 1.0) * bias.reshape(-1), (weight.shape[0],))
    return affine(context, op, x, len(x.axes) - 1, weight, bias)


def affine(context: Context, op: OnnxOp, x: Tensor, axis: int, weight: np.ndarray, bias: np.ndarray | None) -> Tensor:
    """Add an affine map of one axis, whose size becomes ``outputs``; other axes of columns are treated separately.

    ``weight`` is float (outputs, inputs), ``bias`` float (outputs,) or None.
    """
    if axis < 0 or not x.is_columns(axis):
        raise CannotBe("its matrix multiplies frames or sequences, not columns")
    if x.shape[axis] != weight.shape[1]:
        raise CannotBe(f"its matrix has {weight.shape[1]} inputs, and there are {x.shape[axis]} columns")
    new, others = columns_of(weight.shape[0]), tuple(atom for atom in x.stored if atom not in x.axes[axis])
    weight = np.ascontiguousarray(weight, np.float32)
    bias = None if bias is None else np.ascontiguousarray(bias, np.float32)
    if not others:
        name = context.network.affine(op.hint, weight[:, x.column_order(x.axes[axis])], bias, x.source)
    else:
        x = context.stored_as(x, (*others, *x.axes[axis]), op.hint)
        repeats = x.dim // weight.shape[1]
        zeros = np.zeros(weight.shape[0], np.float32)
        name = context.network.layer(
            op.hint, "NaturalGradientRepeatedAffineComponent",
            f"input-dim={x.dim} output-dim={repeats * weight.shape[0]} num-repeats={repeats}", x.source,
            {"linear_params": weight, "bias_params": zeros if bias is None else bias})
    return x.with_node(name, _exchanged(x.axes, axis, new), (*others, *new))


def _batch_norm(context: Context, op: OnnxOp) -> Value:
    if op.get("training_mode"):
        raise CannotBe("it is in training mode; export the model in evaluation mode")
    x = op.whole()
    scale, offset, mean, variance = (op.array(i, "statistics").astype(np.float64) for i in range(1, 5))
    size = x.shape[1] if len(x.axes) > 1 else 0
    if not x.is_columns(min(1, len(x.axes) - 1)) or size != mean.size:
        raise CannotBe(f"it has statistics of {mean.size} columns, and its axis 1 is not one of as many columns")
    others = tuple(atom for atom in x.stored if atom not in x.axes[1])
    x = context.stored_as(x, (*others, *x.axes[1]), op.hint)
    epsilon = float(op.get("epsilon", 1e-5))
    network, repeats = context.network, x.dim // size
    x = x.with_node(network.layer(
        op.hint, "BatchNormComponent", f"dim={x.dim} block-dim={size} epsilon={epsilon!r}", x.source,
        {"count": np.array([COUNT]), "sum": mean * COUNT, "sumsq": (variance + mean**2) * COUNT}))
    return _scale_and_offset(context, op, x, np.tile(scale, repeats), np.tile(offset, repeats))


def _scale_and_offset(context: Context, op: OnnxOp, x: Tensor, scale: np.ndarray, offset: np.ndarray) -> Tensor:
    """Add components for trained scales and offsets, float (dim,); none for scales of 1 or offsets of 0."""
    if (scale != 1.0).any():
        x = x.with_node(context.network.layer(f"{op.hint}.scale", "NaturalGradientPerElementScaleComponent",
                                              f"dim={x.dim}", x.source, {"scales": scale.astype(np.float32)}))
    if offset.any():
        x = x.with_node(context.network.layer(f"{op.hint}.offset", "PerElementOffsetComponent", f"dim={x.dim}",
                                              x.source, {"offsets": offset.astype(np.float32)}))
    return x


def _layer_norm(context: Context, op: OnnxOp) -> Value:
    """Import LayerNormalization: center the columns, append a constant column, and normalize by their rms.

    The constant column is sqrt(dim * epsilon), so that the rms contains epsilon.
    """
    x, network = op.whole(), context.network
    scale, offset = op.array(1, "scale"), op.optional_array(2, "offset")
    axis = int(op.get("axis", -1)) % len(x.axes)
    dim = x.dim
    if int(np.prod(x.shape[axis:])) != dim or not all(x.is_columns(i) for i in range(axis, len(x.axes))):
        raise CannotBe("it is not over all columns of a frame")
    center = np.vstack([np.eye(dim) - 1.0 / dim, np.zeros(dim)])
    bias = np.append(np.zeros(dim), np.sqrt(dim * float(op.get("epsilon", 1e-5))))
    centered = network.layer(f"{op.hint}.center", "FixedAffineComponent", f"input-dim={dim} output-dim={dim + 1}",
                            x.source, {"linear_params": center, "bias_params": bias})
    rms = float(np.sqrt(dim / (dim + 1)))
    normal = network.layer(op.hint, "NormalizeComponent", f"dim={dim + 1} target-rms={rms!r}", centered)
    x = x.with_node(network.dim_range(f"{op.hint}.columns", normal, 0, dim))
    return _scale_and_offset(context, op, x, x.as_stored(scale),
                             np.zeros(dim) if offset is None else x.as_stored(offset))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("Identity", "Dropout"), _same), "Cast": _cast, "Transpose": _transpose, "Reshape": _reshape,
    "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Expand": _expand, "Tile": _tile,
    "Slice": _slice, "Split": _split, "Gather": _gather, "Concat": _concat,
    "Relu": _simple("RectifiedLinearComponent"), "Sigmoid": _simple("SigmoidComponent"),
    "Tanh": _simple("TanhComponent"), "Softmax": _softmax("SoftmaxComponent"),
    "LogSoftmax": _softmax("LogSoftmaxComponent"), "Clip": _clip, "LeakyRelu": _leaky, "PRelu": _leaky, "Neg": _neg,
    "Add": _add, "Sum": _add, "Sub": _sub, "Mul": _mul, "Div": _div,
    "MatMul": _matmul, "Gemm": _gemm, "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm,
}
