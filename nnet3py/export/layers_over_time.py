"""The operations for components that look at several frames: TDNN, convolution over time, attention, statistics."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnet3py.export.descriptors import Frames
from nnet3py.export.layers import columns, linear, split
from nnet3py.export.operations import Builder, Value
from nnet3py.export.times import Window

At = Callable[[int], Value]      # the input at an offset from the output's time; zero where it is missing


def _side_by_side(b: Builder, at: At, offsets: list[int]) -> Value:
    """The columns of the input at these offsets, side by side."""
    frames = [at(offset) for offset in offsets]
    return frames[0] if len(frames) == 1 else b.op("concat", *frames, dim=sum(f.dim for f in frames))


def _tdnn(b: Builder, c: Any, name: str, at: At) -> Value:
    x = _side_by_side(b, at, c.time_offsets.tolist())
    return linear(b, name, c.linear_params, c.bias_params, x)


def _convolution(b: Builder, c: Any, name: str, at: At) -> Value:
    """The patches under the filter for each height of the output, side by side, times the filters."""
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


RULES: dict[str, Callable[[Builder, Any, str, At], Value]] = {
    "TdnnComponent": _tdnn, "TimeHeightConvolutionComponent": _convolution, "RestrictedAttentionComponent": _attention,
}


# -- statistics, over windows that end where the utterance ends --------------------------------------------------------


def _window_sum(frames: Frames, source: int, x: Value, first: Value, last: Value, period: int) -> Value:
    """Sums of the frames of ``x`` (those of node ``source``) at multiples of ``period`` from one time to another."""
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
    """Count, sums and sums of squares of the group of each time."""
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
    """Means, deviations and logarithms of counts."""
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
