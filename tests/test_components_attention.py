"""RestrictedAttentionComponent: against its definition, statistics, files, config lines, information."""
from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from component_cases import Draws, arranged, from_config, indexes_of, read_text, reread, written
from hypothesis import given
from hypothesis import strategies as st
from numpy_ops import NumpyOps

from nnet3py.components.attention import (
    AttentionShape,
    RestrictedAttentionComponent,
    RestrictedAttentionComponentPrecomputedIndexes,
)
from nnet3py.components.time_grid import TimeGrid
from nnet3py.errors import CompileError, FormatError, ShapeError
from nnet3py.index import NO_TIME

FLOAT32 = 1e-5       # sums of some ten products of numbers near 1, and an exponential function
FLOAT64 = 1e-12
configured = partial(from_config, RestrictedAttentionComponent)


def make(left: int = 2, right: int = 1, required: tuple[int, int] | None = None, stride: int = 1, heads: int = 2,
         key_dim: int = 3, value_dim: int = 2, output_context: bool = True,
         key_scale: float = 0.5) -> RestrictedAttentionComponent:
    required = (left, right) if required is None else required
    return RestrictedAttentionComponent(
        AttentionShape(heads, key_dim, value_dim, left, right, stride, *required, output_context, key_scale))


def features(indexes: np.ndarray, dim: int, seed: int = 0) -> np.ndarray:
    """Random rows, 0 for padding, float64."""
    rows = np.random.default_rng(seed).standard_normal((len(indexes), dim))
    rows[indexes[:, 1] == NO_TIME] = 0
    return rows


def defined(component, inputs, outputs, x) -> tuple[np.ndarray, np.ndarray]:
    """Output and weights of the output rows that are not padding, by the definition, one frame at a time."""
    shape, row = component.shape, {tuple(index): i for i, index in enumerate(inputs.tolist())}
    dim = shape.head_input_dim
    results, all_weights = [], []
    for n, t, k in outputs.tolist():
        result, weights_of_heads = [], []
        for h in range(shape.num_heads):
            block = x[:, h * dim:(h + 1) * dim]
            frames = [(n, t + d * shape.time_stride, k) for d in range(-shape.num_left_inputs,
                                                                       shape.num_right_inputs + 1)]
            around = np.array([block[row[frame]] if frame in row else np.zeros(dim) for frame in frames])
            own = np.zeros(dim) if t == NO_TIME else block[row[n, t, k]]
            _, _, query, added = np.split(own, np.cumsum([shape.key_dim, shape.value_dim, shape.key_dim]))
            keys, values = around[:, :shape.key_dim], around[:, shape.key_dim:shape.key_dim + shape.value_dim]
            weights = np.exp(shape.key_scale * keys @ query + added)
            weights /= weights.sum()
            result += [weights @ values, *([weights] if shape.output_context else [])]
            weights_of_heads.append(weights)
        results.append(np.concatenate(result))
        all_weights.append(weights_of_heads)
    return np.array(results), np.array(all_weights)


def test_wanted_inputs():
    component = make(2, 1, stride=3, required=(1, 0))
    wanted = component.input_indexes(np.array([[0, 5, 1], [3, NO_TIME, 0]], np.int32))
    assert wanted.dtype == np.int32 and wanted[0].tolist() == [[0, t, 1] for t in (-1, 2, 5, 8)]
    assert wanted[1].tolist() == [[3, NO_TIME, 0]] * 4
    available = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 1]], bool)
    computable, used = component.is_computable(np.zeros((4, 3), np.int32), available)
    assert computable.tolist() == [True, True, False, False]
    np.testing.assert_array_equal(used, available)


def test_rows_that_do_not_exist_become_padding():
    component = make(2, 1, required=(0, 0))
    inputs, outputs, indexes = arranged(component, indexes_of(range(3)), lambda t: (t >= 0) & (t < 3))
    assert inputs[:, 1].tolist() == [NO_TIME] * 4 + [0, 0, 1, 1, 2, 2] + [NO_TIME] * 2
    assert inputs[:, 0].tolist() == [0, 1] * 6 and outputs.tolist() == indexes_of(range(3)).tolist()
    assert indexes.grid == TimeGrid(2, -2, 1, 6, 0, 1, 3, 1)


def test_outputs_between_steps_become_padding():
    component = make(1, 1, stride=2)
    inputs, outputs, indexes = arranged(component, indexes_of([0, 3], [(0, 0)]))
    assert outputs[:, 1].tolist() == [0, NO_TIME, NO_TIME, 3]
    assert inputs[:, 1].tolist() == [-2, NO_TIME, 0, 1, 2, 3, NO_TIME, 5]
    assert indexes.grid == TimeGrid(1, -2, 1, 8, 0, 1, 4, 1)
    again = component.reorder_indexes(inputs, outputs)
    np.testing.assert_array_equal(again[0], inputs)
    np.testing.assert_array_equal(again[1], outputs)


def test_one_frame_only():
    inputs, outputs, indexes = arranged(make(1, 2, stride=3, required=(0, 0)), indexes_of([7]), lambda t: t == 7)
    assert indexes.grid == TimeGrid(2, 4, 3, 4, 7, 3, 1, 1)
    assert (len(inputs), len(outputs)) == (8, 2)


@pytest.mark.parametrize("times", [[-1, 0], [-3, -2, -1, 0, 1], [-2, -1, 0], [-2, -1, 0, 1, 2]])
def test_inputs_that_do_not_fit(times):
    with pytest.raises(CompileError, match="wants t=-2 to t=1, and at least t=-2 to t=1"):
        make(2, 1).reorder_indexes(indexes_of(times), indexes_of([0]))


@given(left=st.integers(0, 3), right=st.integers(0, 3), stride=st.integers(1, 3), step=st.integers(1, 4),
       num=st.integers(1, 4), heads=st.integers(1, 3), context=st.booleans(), edges=st.booleans())
def test_equals_the_definition(left, right, stride, step, num, heads, context, edges):
    right += left + right == 0
    component = make(left, right, (0, 0) if edges else None, stride, heads, output_context=context)
    wanted = indexes_of(range(5, 5 + num * step, step), [(0, 0), (2, 0), (0, 1)])
    last = 5 + (num - 1) * step
    inputs, outputs, indexes = arranged(component, wanted, (lambda t: (t >= 5) & (t <= last)) if edges else None)
    x, ops = features(inputs, component.input_dim), NumpyOps(np.float64)
    start = features(outputs, component.output_dim, seed=1)
    y, memo = start.copy(), component.new_memo(ops, len(outputs))
    component.propagate(ops, indexes, x, y, memo)
    expected, weights = defined(component, inputs, outputs, x)
    real = outputs[:, 1] != NO_TIME
    np.testing.assert_allclose((y - start)[real], expected[real], atol=FLOAT64)       # it adds
    np.testing.assert_allclose(memo.reshape(weights.shape)[real], weights[real], atol=FLOAT64)


def test_rows_that_were_compiled_for_others():
    component, ops = make(2, 1), NumpyOps()
    inputs, outputs, indexes = arranged(component, indexes_of(range(3)))
    x, y = np.zeros((len(inputs), component.input_dim)), np.zeros((len(outputs), component.output_dim))
    memo = component.new_memo(ops, len(outputs))
    component.propagate(ops, indexes, x, y, memo)
    for grid in (TimeGrid(3, -2, 1, 6, 0, 1, 3), TimeGrid(2, -1, 1, 6, 0, 1, 3), TimeGrid(2, -2, 2, 6, 0, 2, 3),
                 TimeGrid(2, -2, 0, 7, 0, 0, 2), TimeGrid(-2, -2, 1, -6, 0, 1, -3), TimeGrid(0, 0, 0, 0, 0, 0, 0)):
        with pytest.raises(ShapeError, match="compiled for other dimensions"):
            component.propagate(ops, RestrictedAttentionComponentPrecomputedIndexes(grid), x, y, memo)


def test_statistics(ops, monkeypatch):
    monkeypatch.setattr(ops, "random", Draws([0, 1, 2]))
    component = make()
    weights = np.random.default_rng(0).random((5, 8)).astype(np.float32)
    component.store_stats(ops, None, None, weights)        # not counted, but from now on files hold statistics
    assert component.stored[0] and not component.count.any() and not component.posterior.any()
    assert b"<EntropyStats>  [ 0 0 ]" in written(component, False)
    for _ in range(2):
        component.store_stats(ops, None, None, weights)
    blocks = weights.astype(np.float64).reshape(5, 2, 4)
    np.testing.assert_allclose(component.posterior, 2 * blocks.sum(axis=0), rtol=FLOAT32)
    np.testing.assert_allclose(component.entropy, -2 * (blocks * np.log(blocks)).sum(axis=(0, 2)), rtol=FLOAT32)
    assert component.count[0] == 10


def counted() -> RestrictedAttentionComponent:
    component = make()
    component.count[0], component.entropy[:], component.posterior[...] = 4, (2, 1), np.arange(8).reshape(2, 4)
    component.stored[0] = True
    return component


def test_arithmetic_of_statistics():
    component = make()
    component.add(0.5, make())
    assert not component.stored[0]
    component.add(0.5, counted())
    component.scale(3.0)
    assert component.stored[0] and component.count[0] == 6 and component.entropy.tolist() == [3, 1.5]
    np.testing.assert_array_equal(component.posterior, 1.5 * np.arange(8).reshape(2, 4))
    component.zero_stats()
    assert component.stored[0] and not component.count.any() and not component.posterior.any()


def test_statistics_are_sums_in_double():
    component = counted()
    component.entropy[0] = 1 / 3
    data = written(component, True)
    assert b"<EntropyStats> DV \x04\2\0\0\0" + component.entropy.tobytes() in data
    assert b"<PosteriorStats> DM \x04\2\0\0\0\x04\4\0\0\0" + component.posterior.tobytes() in data
    assert reread(component).entropy[0] == 1 / 3


@pytest.mark.parametrize(("found", "damage", "message"), [
    (b"<NumHeads> 2", b"<NumHeads> 0", "num-heads, key-dim"),
    (b"<NumHeads> 2", b"<NumHeads> 100000000", "larger than any model"),
    (b"<KeyDim> 3", b"<KeyDim> -3", "num-heads, key-dim"),
    (b"<ValueDim> 2", b"<ValueDim> 2000000000", "larger than any model"),
    (b"<NumLeftInputs> 2", b"<NumLeftInputs> -1", "num-left-inputs and"),
    (b"<NumLeftInputs> 2", b"<NumLeftInputs> 2000000", "larger than any model"),
    (b"<NumRightInputs> 1", b"<Inputs> 1", "expected <NumRightInputs>"),
    (b"<TimeStride> 1", b"<TimeStride> 0", "time-stride"),
    (b"<TimeStride> 1", b"<TimeStride> 2000000000", "larger than any model"),
    (b"<NumLeftInputsRequired> 2", b"<NumLeftInputsRequired> 3", "from 0 to"),
    (b"<NumRightInputsRequired> 1", b"<NumRightInputsRequired> -1", "from 0 to"),
    (b"<OutputContext> T", b"<OutputContext> 1", "expected T or F"),
    (b"<KeyScale> 0.5", b"<KeyScale> 0", "key-scale"),
    (b"<KeyScale> 0.5", b"<KeyScale> 1.5", "key-scale"),
    (b"<KeyScale> 0.5", b"<KeyScale> nan", "expected a number"),
    (b"<StatsCount> 4", b"<StatsCount> x", "expected a number"),
    (b"[ 2 1 ]", b"[ 2 1 3 ]", "expected 2 elements after <EntropyStats>"),
    (b"[ 2 1 ]", b"[ ]", "found 0 and 2 x 4"),
    (b"0 1 2 3", b"0 1 2", "rows|columns|numbers"),
    (b"</RestrictedAttentionComponent>", b"</Attention>", "expected </RestrictedAttentionComponent>")])
def test_damaged_files(found, damage, message):
    text = written(counted(), False)
    assert found in text
    with pytest.raises(FormatError, match=message):
        read_text(RestrictedAttentionComponent, text.replace(found, damage, 1))


def test_a_count_without_statistics():
    text = written(make(), False)
    assert b"<StatsCount> 0 <EntropyStats>  [ ]" in text
    with pytest.raises(FormatError, match="expected 2 elements after <EntropyStats> and 2 x 4"):
        read_text(RestrictedAttentionComponent, text.replace(b"<StatsCount> 0", b"<StatsCount> 5"))


def test_config_defaults():
    shape = configured("key-dim=40 value-dim=60 num-left-inputs=5 num-right-inputs=2").shape
    assert shape == AttentionShape(1, 40, 60, 5, 2, 1, 5, 2, True, float(np.float32(40 ** -0.5)))
    assert configured("key-dim=1 value-dim=2 num-left-inputs=1 num-right-inputs=1").shape.key_scale == 1.0


def test_every_config_key():
    component = configured("key-dim=4 value-dim=6 num-left-inputs=5 num-right-inputs=2 num-heads=3 time-stride=2 "
                            "num-left-inputs-required=1 num-right-inputs-required=0 output-context=false key-scale=1")
    assert component.shape == AttentionShape(3, 4, 6, 5, 2, 2, 1, 0, False, 1.0)
    assert (component.input_dim, component.output_dim) == (3 * (4 + 6 + 4 + 8), 18)


def test_information():
    plain = ("RestrictedAttentionComponent, input-dim=24, output-dim=12, num-heads=2, time-stride=1, key-dim=3, "
             "value-dim=2, num-left-inputs=2, num-right-inputs=1, context-dim=4, num-left-inputs-required=2, "
             "num-right-inputs-required=1, output-context=true, key-scale=0.5")
    assert make().info() == plain
    assert counted().info() == (plain + ", entropy=0.5,0.25, posterior-stats[0]=0,0.25,0.5,0.75, "
                                "posterior-stats[1]=1,1.25,1.5,1.75, stats-count=4")
    many = make(heads=7)
    many.count[0] = 1
    assert "posterior-stats[4]=" in many.info() and "posterior-stats[5]=" not in many.info()
