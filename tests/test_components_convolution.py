"""TimeHeightConvolutionComponent: against the sum that defines it, files, config lines, information."""
from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from component_cases import arranged, from_config, indexes_of, read_text, written
from hypothesis import given
from hypothesis import strategies as st
from numpy_ops import NumpyOps

from nnet3py.components.convolution import TimeHeightConvolutionComponent
from nnet3py.components.convolution_geometry import ConvolutionModel
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.errors import CompileError, ConfigError, FormatError, ShapeError
from nnet3py.index import NO_TIME
from nnet3py.ops import get_ops

FLOAT64 = 1e-12     # sums of at most some hundred products of numbers near 1, in another order
FLOAT32 = 1e-5
configured = partial(from_config, TimeHeightConvolutionComponent)


def make(offsets, required=None, filters=(2, 3), heights=(4, 4), subsample: int = 1, max_memory_mb: float = 200.0,
         dtype=np.float32, natural: bool = False) -> TimeHeightConvolutionComponent:
    times = sorted({time for time, _ in offsets})
    model = ConvolutionModel(*filters, *heights, subsample, np.array(offsets, np.int32),
                             np.array(times if required is None else required, np.int32))
    rng = np.random.default_rng(0)
    linear, bias = rng.standard_normal((filters[1], model.param_cols)), rng.standard_normal(filters[1])
    preconditioners = (OnlineNaturalGradient(rank, 1, num_minibatches_history=4.0) for rank in (3, 2))
    return TimeHeightConvolutionComponent(model, linear.astype(dtype), bias.astype(dtype), *preconditioners,
                                          max_memory_mb, natural)


class DirectSum:
    """The convolution and its derivatives by the formula, a loop over rows, heights and offsets."""

    def __init__(self, component, inputs: np.ndarray, outputs: np.ndarray) -> None:
        self.c, model = component, component.model
        places = {tuple(index): row for row, index in enumerate(inputs.tolist()) if index[1] != NO_TIME}
        heights = range(model.height_out)
        self.terms = [        # output row and height, offset, input row and height
            (row, h, o, places[n, t + time, x], model.height_subsample_out * h + height)
            for row, (n, t, x) in enumerate(outputs.tolist()) if t != NO_TIME
            for h in heights for o, (time, height) in enumerate(model.offsets.tolist())
            if (n, t + time, x) in places and 0 <= model.height_subsample_out * h + height < model.height_in]
        self.filters = component.linear_params.reshape(model.num_filters_out, len(model.offsets), model.num_filters_in)

    def output(self, x: np.ndarray, num_rows: int) -> np.ndarray:
        model = self.c.model
        y = np.tile(self.c.bias_params, (num_rows, model.height_out, 1))
        x = x.reshape(len(x), model.height_in, -1)
        for row, h, o, source, height in self.terms:
            y[row, h] += self.filters[:, o] @ x[source, height]
        return y.reshape(num_rows, -1)

    def derivatives(self, x: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By the input, the parameters and the bias."""
        model = self.c.model
        x, dy = x.reshape(len(x), model.height_in, -1), dy.reshape(len(dy), model.height_out, -1)
        dx, filters = np.zeros_like(x), np.zeros_like(self.filters)
        for row, h, o, source, height in self.terms:
            dx[source, height] += self.filters[:, o].T @ dy[row, h]
            filters[:, o] += np.outer(dy[row, h], x[source, height])
        return dx.reshape(len(x), -1), filters.reshape(model.num_filters_out, -1), dy.sum(axis=(0, 1))


def check_against_direct_sum(ops, component, inputs, outputs, precomputed, tolerance: float) -> None:
    """Output and derivatives; ``dx`` is added to, and rows of padding are 0 in the input and in the derivative."""
    dtype, rng = component.linear_params.dtype, np.random.default_rng(1)
    x = rng.standard_normal((len(inputs), component.input_dim)).astype(dtype)
    dy = rng.standard_normal((len(outputs), component.output_dim)).astype(dtype)
    padding = outputs[:, 1] == NO_TIME
    x[inputs[:, 1] == NO_TIME], dy[padding] = 0, 0
    direct, y = DirectSum(component, inputs, outputs), np.full_like(dy, np.nan)
    component.propagate(ops, precomputed, x, y, None)
    np.testing.assert_allclose(y[~padding], direct.output(x, len(outputs))[~padding], rtol=0, atol=tolerance)
    gradient, dx = component.copy(), np.ones_like(x)
    gradient.scale(0.0)
    gradient.set_as_gradient()
    component.backprop(ops, precomputed, x, None, dy, None, gradient, dx)
    expected = direct.derivatives(x, dy)
    real = inputs[:, 1] != NO_TIME
    for found, want in zip((dx[real] - 1, gradient.linear_params, gradient.bias_params),
                           (expected[0][real], *expected[1:]), strict=True):
        np.testing.assert_allclose(found, want, rtol=0, atol=tolerance)


@st.composite
def components(draw):
    """Components of many geometries, in float64: height padding, subsampling, times not required, little memory."""
    height_in, subsample, step = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    height_out = draw(st.integers(1, 1 + (height_in - 1) // subsample))
    within = draw(st.integers(0, height_in - 1 - subsample * (height_out - 1)))   # reaches an input from every height
    offsets = draw(st.sets(st.tuples(st.integers(-2, 2), st.integers(-3, 4)), max_size=6))
    offsets = {(step * time, height) for time, height in offsets
               if any(0 <= subsample * h + height < height_in for h in range(height_out))}
    offsets.add((step * draw(st.integers(-2, 2)), within))
    complete = sorted(time for time, height in offsets if height == within)
    times = sorted({time for time, _ in offsets})
    required = draw(st.sets(st.sampled_from(times))) | {draw(st.sampled_from(complete))}
    return make(sorted(offsets), sorted(required), draw(st.tuples(st.integers(1, 3), st.integers(1, 2))),
                (height_in, height_out), subsample, draw(st.sampled_from([200.0, 3e-4, 1e-9])), np.float64)


@given(component=components(), start=st.integers(-3, 3), step=st.integers(1, 4), num=st.integers(1, 5),
       sequences=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=3),
       missing=st.one_of(st.none(), st.integers(2, 7)), first=st.integers(-4, 0), length=st.integers(1, 14))
def test_the_sum_that_defines_it(component, start, step, num, sequences, missing, first, length):
    """Frames outside first .. first + length do not exist, nor does every ``missing``-th."""
    def exists(t):
        inside = (t >= first) & (t < first + length)
        return inside & (t % missing != 0) if missing else inside

    assert component.model.fault() is None
    rows = arranged(component, indexes_of(range(start, start + step * num, step), sorted(sequences)), exists)
    if rows is None:
        return
    inputs, outputs, precomputed = rows
    assert precomputed.computation.fault() is None
    check_against_direct_sum(NumpyOps(np.float64), component, inputs, outputs, precomputed, FLOAT64)


@pytest.mark.parametrize("case", [
    dict(offsets=[(t, h) for t in (-1, 0, 1) for h in (-1, 0, 1)]),
    dict(offsets=[(t, 0) for t in (-1, 0, 1)], heights=(4, 4)),
    dict(offsets=[(t, h) for t in (-3, 0, 3) for h in (-1, 0, 1, 2)], heights=(8, 4), subsample=2, filters=(17, 9)),
    dict(offsets=[(-1, 0), (0, 0), (2, 0), (2, 1)], filters=(1, 1)),
    dict(offsets=[(0, 0), (1, 1)], max_memory_mb=1e-9)])
@pytest.mark.parametrize("step", [1, 3])
def test_kernels(case, step):
    component = make(**case)
    rows = arranged(component, indexes_of(range(0, 5 * step, step)))
    check_against_direct_sum(get_ops("cpu"), component, *rows, tolerance=FLOAT32 * component.linear_params.shape[1])


def test_little_memory_changes_the_order_of_sums_only():
    found = []
    for megabytes in (200.0, 1e-9):
        component = make([(t, h) for t in (-1, 0, 1) for h in (-1, 0, 1)], max_memory_mb=megabytes)
        inputs, outputs, precomputed = arranged(component, indexes_of(range(5)))
        assert precomputed.computation.times_per_chunk == (5 if megabytes > 1 else 1)
        x = np.random.default_rng(1).standard_normal((len(inputs), 8), dtype=np.float32)
        y = np.empty((len(outputs), 12), np.float32)
        component.propagate(get_ops("cpu"), precomputed, x, y, None)
        found.append(y)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=FLOAT32)


def test_unit_filters_copy_the_input():
    component = configured("num-filters-in=3 num-filters-out=3 height-in=4 height-out=4 offsets=0,1;-1,0;0,0 "
                            "init-unit=true")
    assert component.linear_params.sum() == 3 and not component.bias_params.any()
    inputs, outputs, precomputed = arranged(component, indexes_of(range(3)))
    x = np.random.default_rng(1).standard_normal((len(inputs), 12), dtype=np.float32)
    y = np.empty((len(outputs), 12), np.float32)
    component.propagate(get_ops("cpu"), precomputed, x, y, None)
    np.testing.assert_array_equal(y, x[2:])      # the first time is there for the offset -1


def test_wanted_inputs():
    component = make([(-1, 0), (0, 0), (0, 1), (2, 0)], [0])
    wanted = component.input_indexes(np.array([[0, 5, 1], [3, NO_TIME, 0]], np.int32))
    assert wanted.dtype == np.int32
    assert wanted.tolist() == [[[0, 4, 1], [0, 5, 1], [0, 7, 1]], [[3, NO_TIME, 0]] * 3]
    available = np.array([[0, 1, 0], [1, 0, 1]], dtype=bool)
    computable, used = component.is_computable(np.zeros((2, 3), np.int32), available)
    assert computable.tolist() == [True, False] and used[0].tolist() == [False, True, False]


def test_arranging_twice_changes_nothing():
    component = make([(-2, 0), (0, 0), (1, 0)], [0])
    inputs, outputs, _ = arranged(component, indexes_of((0, 3, 6)), lambda t: (t >= 0) & (t < 7))
    again = component.reorder_indexes(inputs, outputs)
    np.testing.assert_array_equal(again[0], inputs)
    np.testing.assert_array_equal(again[1], outputs)
    with pytest.raises(CompileError, match="not in the order"):
        component.precompute_indexes(inputs[::-1], outputs, True)
    with pytest.raises(CompileError, match="not in the order"):
        component.precompute_indexes(inputs, outputs[::-1], True)


@pytest.mark.parametrize("other", [
    make([(0, 0), (0, 1)]), make([(0, 0)], filters=(2, 2)), make([(0, 0)], heights=(4, 3)),
    make([(0, 0)], heights=(5, 4)), make([(0, 0)], filters=(4, 3), heights=(2, 2))])
def test_a_computation_of_other_dimensions(other):
    component = make([(0, 0)])
    inputs, outputs, precomputed = arranged(other, indexes_of(range(2)))
    with pytest.raises(ShapeError, match="compiled for other dimensions"):
        component.propagate(get_ops("cpu"), precomputed, np.zeros((len(inputs), 8), np.float32),
                            np.zeros((len(outputs), 12), np.float32), None)


def test_natural_gradient_takes_the_gradient_twice():
    """First its rows, then the columns of the result; the factors of both are applied at the end."""
    component, ops = make([(0, 0), (1, 1)], natural=True), get_ops("cpu")
    inputs, outputs, precomputed = arranged(component, indexes_of(range(4)))
    rng = np.random.default_rng(1)
    x = rng.standard_normal((len(inputs), 8), dtype=np.float32)
    dy = rng.standard_normal((len(outputs), 12), dtype=np.float32)
    inner, outer = (preconditioner for preconditioner in component.copy().preconditioners())
    gradient = component.copy()
    gradient.scale(0.0)
    gradient.set_as_gradient()
    component.backprop(ops, precomputed, x, None, dy, None, gradient, None)
    for calls in (1, 2, 3):
        before = component.vectorize()
        component.backprop(ops, precomputed, x, None, dy, None, component, None)
        change = np.column_stack([gradient.linear_params, gradient.bias_params])
        factor = inner.precondition(ops, change)
        change = np.ascontiguousarray(change.T)
        factor *= outer.precondition(ops, change)
        expected = component.learning_rate * factor * np.concatenate([change[:-1].T.ravel(), change[-1]])
        np.testing.assert_allclose(component.vectorize() - before, expected, rtol=0, atol=1e-3 * abs(expected).max())
        assert component.preconditioner_in.t == component.preconditioner_out.t == calls


def test_learning_rate_zero_changes_nothing():
    component = make([(0, 0)], natural=True)
    component.learning_rate = 0.0
    inputs, outputs, precomputed = arranged(component, indexes_of(range(2)))
    before = component.vectorize()
    component.backprop(get_ops("cpu"), precomputed, np.ones((len(inputs), 8), np.float32), None,
                       np.ones((len(outputs), 12), np.float32), None, component, None)
    np.testing.assert_array_equal(component.vectorize(), before)
    assert component.preconditioner_in.t == 0


@pytest.mark.parametrize("damage, message", [
    ((b"<LearningRate> 0.001 <Model>", b"<Modell>"), "expected <Model>, found '<Modell>'"),
    ((b"<Model>", b"<Modell>"), "<Model>"),
    ((b"<NumFiltersOut> 3", b"<NumFiltersOut> 2"), "expected a matrix of 2 x 4"),
    ((b"0,0 1,0", b"0,0 1,0 2,0"), "expected a matrix of 3 x 6"),
    ((b"0,0 1,0", b"1,0 0,0"), "impossible convolution: offsets"),
    ((b"<MaxMemoryMb> 200", b"<MaxMemoryMb> 0"), "above 0 after <MaxMemoryMb>"),
    ((b"<MaxMemoryMb> 200", b"<MaxMemoryMb> nan"), "MaxMemoryMb"),
    ((b"<NumMinibatchesHistory> 4", b"<NumMinibatchesHistory> 1"), "num-minibatches-history must be above 1"),
    ((b"<NumMinibatchesHistory> 4", b"<NumMinibatchesHistory> 1e9"), "history"),
    ((b"<AlphaInOut> 4 4", b"<AlphaInOut> 4 -4"), "alpha -4"),
    ((b"<RankInOut> 3 2", b"<RankInOut> 3 0"), "rank 0"),
    ((b"</TimeHeightConvolutionComponent>", b"</Time>"), "</TimeHeightConvolutionComponent>")])
def test_damaged_files(damage, message):
    text = written(make([(0, 0), (1, 0)]), False)
    assert damage[0] in text
    with pytest.raises(FormatError, match=message):
        read_text(TimeHeightConvolutionComponent, text.replace(*damage))


SIZES = "num-filters-in=20 num-filters-out=30 height-in=5 height-out=5 "


def test_config_defaults():
    component = configured(SIZES + "height-offsets=-1,0,1 time-offsets=-1,0,1")
    assert component.model.offsets.tolist() == [[t, h] for t in (-1, 0, 1) for h in (-1, 0, 1)]
    assert component.model.required_time_offsets.tolist() == [-1, 0, 1] and component.model.height_subsample_out == 1
    assert component.linear_params.std() == pytest.approx(1 / math.sqrt(180), rel=0.05)    # 5400 draws
    assert not component.bias_params.any() and component.max_memory_mb == 200.0
    inner, outer = component.preconditioners()
    assert (inner.rank, outer.rank, inner.update_period, inner.alpha) == (80, 15, 1, 4.0)
    assert outer.num_minibatches_history == 4.0


def test_every_config_key():
    component = from_config(TimeHeightConvolutionComponent,
        "num-filters-in=2 num-filters-out=3 height-in=6 height-out=3 height-subsample-out=2 offsets=3,0;0,1;0,0 "
        "required-time-offsets=3 max-memory-mb=0.5 param-stddev=0 bias-stddev=0.5 init-unit=false "
        "use-natural-gradient=true rank-in=2 rank-out=1 alpha-in=3 alpha-out=5 num-minibatches-history=10 "
        "learning-rate=0.5 max-change=0.25")
    assert component.model.offsets.tolist() == [[0, 0], [0, 1], [3, 0]]        # sorted
    assert not component.linear_params.any() and component.bias_params.all()
    assert component.info().startswith(
        "TimeHeightConvolutionComponent, input-dim=12, output-dim=9, learning-rate=0.5, max-change=0.25 "
        "num-filters-in=2, ")
    assert component.info().endswith(", num-params=21, max-memory-mb=0.5, use-natural-gradient=1, "
                                     "num-minibatches-history=10, rank-in=2, rank-out=1, alpha=3")
    assert component.preconditioner_out.alpha == 5.0
    plain = configured(SIZES + "offsets=0,0 use-natural-gradient=false param-stddev=-2")
    assert plain.info().endswith(", use-natural-gradient=0") and plain.linear_params.std() > 0.1


def test_unused_heights_are_reported(caplog):
    configured("num-filters-in=1 num-filters-out=1 height-in=5 height-out=3 height-subsample-out=2 offsets=0,0")
    assert "does not use input height 1" in caplog.text


@pytest.mark.parametrize("text, message", [
    ("num-filters-in=1 num-filters-out=1 height-in=5 offsets=0,0", "Expected height-out="),
    (SIZES.replace("height-in=5", "height-in=0") + "offsets=0,0", "must be above 0"),
    (SIZES + "offsets=0,0 height-subsample-out=0", "must be above 0"),
    (SIZES + "height-offsets=0", "Expected time-offsets="),
    (SIZES + "time-offsets=0", "Expected height-offsets="),
    (SIZES + "time-offsets=0 height-offsets=", "height-offsets must be integers in rising order"),
    (SIZES + "time-offsets=0,0 height-offsets=0", "time-offsets must be integers in rising order"),
    (SIZES + "time-offsets=0,1 height-offsets=1,0", "height-offsets must be integers in rising order"),
    (SIZES + "offsets=0,0 required-time-offsets=", "required-time-offsets must be integers in rising order"),
    (SIZES + "offsets=0,0 required-time-offsets=1", "must be some of the time offsets"),
    (SIZES + "offsets=", "pairs of time and height"), (SIZES + "offsets=0,0;", "pairs of time and height"),
    (SIZES + "offsets=0,0;0", "pairs of time and height"), (SIZES + "offsets=0,0,0", "pairs of time and height"),
    (SIZES + "offsets=0,0;1,0;0,0", "none of them twice"),
    (SIZES + "offsets=0,99999999999", "pairs of time and height"),
    (SIZES + "offsets=0,0;0,5", "the offset 0,5 reaches no input height"),
    (SIZES + "offsets=0,1", "output height 4 sees only zero padding"),
    (SIZES + "offsets=0,0 time-offsets=0", "Unused values 'time-offsets=0'"),
    (SIZES + "offsets=0,0 max-memory-mb=0", "max-memory-mb must be above 0"),
    (SIZES + "offsets=0,0 num-minibatches-history=1", "num-minibatches-history must be above 1"),
    (SIZES + "offsets=0,0 rank-in=0", "rank 0"), (SIZES + "offsets=0,0 alpha-out=-1", "alpha -1"),
    (SIZES + "offsets=0,0 init-unit=true", "init-unit needs as many filters out as in"),
    (SIZES.replace("30", "20") + "offsets=1,0 init-unit=true", "init-unit needs")])
def test_impossible_config_lines(text, message):
    with pytest.raises(ConfigError, match=message):
        configured(text)
