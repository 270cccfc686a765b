"""TdnnComponent: its index logic against the definition, derivatives, file forms and config lines."""
from __future__ import annotations

import io
from functools import partial

import numpy as np
import pytest
from component_cases import arranged, from_config, indexes_of, written
from hypothesis import given
from hypothesis import strategies as st
from numpy_ops import NumpyOps

from nnet3py.components.affine import NaturalGradientAffineComponent
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.tdnn import TdnnComponent
from nnet3py.components.time_grid import TimeGrid
from nnet3py.errors import CompileError, ConfigError, FormatError
from nnet3py.index import NO_TIME
from nnet3py.io.tokens import TokenReader, TokenWriter

FLOAT32 = 1e-5     # sums of a few dozen float32 products
configured = partial(from_config, TdnnComponent)


def make(offsets, input_dim: int = 3, output_dim: int = 2, bias: bool = True, **kwargs) -> TdnnComponent:
    rng = np.random.default_rng(0)
    return TdnnComponent(np.array(offsets, dtype=np.int32),
                         rng.standard_normal((output_dim, len(offsets) * input_dim), dtype=np.float32),
                         rng.standard_normal(output_dim, dtype=np.float32) if bias else None,
                         OnlineNaturalGradient(3, 4), OnlineNaturalGradient(2, 4), **kwargs)


def features(indexes: np.ndarray, dim: int) -> np.ndarray:
    """Rows that depend on the index alone, 0 for padding."""
    rows = np.stack([np.sin(1.0 + 0.7 * c + indexes @ [1.3, 0.9, 2.1]) for c in range(dim)], axis=1)
    rows[indexes[:, 1] == NO_TIME] = 0
    return rows.astype(np.float32)


@given(offsets=st.lists(st.integers(-4, 4), min_size=1, max_size=4, unique=True), start=st.integers(-3, 3),
       step=st.integers(1, 4), num=st.integers(1, 5), sequences=st.sets(
           st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=4),
       more=st.sets(st.integers(-9, 20), max_size=3), bias=st.booleans())
def test_rows_are_found_wherever_they_lie(offsets, start, step, num, sequences, more, bias):
    component = make(offsets, bias=bias)
    outputs = indexes_of(range(start, start + step * num, step), sorted(sequences))
    try:
        inputs, outputs, precomputed = arranged(component, outputs, more=indexes_of(sorted(more), sorted(sequences)))
    except CompileError:   # steps of input and output that do not go together
        assert num > 1
        return
    y = np.zeros((len(outputs), 2), dtype=np.float32)
    component.propagate(NumpyOps(), precomputed, features(inputs, 3), y, None)
    for row, (n, t, x) in zip(y, outputs, strict=True):
        if t == NO_TIME:
            continue
        spliced = np.concatenate([features(np.array([[n, t + offset, x]]), 3)[0] for offset in offsets])
        expected = component.linear_params @ spliced + (component.bias_params if bias else 0)
        np.testing.assert_allclose(row, expected, atol=FLOAT32)


def test_subsampled_rows_are_interleaved_in_blocks():
    component = make([-1, 0, 1])
    inputs, outputs, precomputed = arranged(component, indexes_of((0, 3, 6), [(0, 0), (1, 0)]))
    assert precomputed.row_stride == 3 and precomputed.row_offsets == [0, 1, 2]
    assert inputs[:6, :2].tolist() == [[0, -1], [0, 0], [0, 1], [1, -1], [1, 0], [1, 1]]
    assert outputs[:, :2].tolist() == [[0, 0], [1, 0], [0, 3], [1, 3], [0, 6], [1, 6]]


def test_rows_that_are_missing_become_padding():
    component = make([0, 3])
    outputs = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0]], dtype=np.int32)   # sequence 1 has no time 2
    inputs, outputs, precomputed = arranged(component, outputs)
    assert outputs.tolist() == [[0, 0, 0], [1, 0, 0], [0, 2, 0], [1, NO_TIME, 0]]
    assert [1, NO_TIME, 0] in inputs.tolist() and len(np.unique(inputs[inputs[:, 1] != NO_TIME], axis=0)) == 6
    again_in, again_out = component.reorder_indexes(inputs, outputs)
    np.testing.assert_array_equal(again_in, inputs)
    np.testing.assert_array_equal(again_out, outputs)
    assert component.precompute_indexes(again_in, again_out, True) == precomputed


def test_wanted_inputs():
    component = make([2, -1])
    wanted = component.input_indexes(np.array([[0, 5, 1], [3, NO_TIME, 0]], dtype=np.int32))
    assert wanted.dtype == np.int32
    assert wanted.tolist() == [[[0, 7, 1], [0, 4, 1]], [[3, NO_TIME, 0], [3, NO_TIME, 0]]]
    computable, used = component.is_computable(np.zeros((2, 3), dtype=np.int32), np.array([[1, 1], [1, 0]], dtype=bool))
    assert computable.tolist() == [True, False] and used[0].all()
    assert component.input_shifts() == [2, -1]


def test_steps_that_do_not_go_together():
    component = make([0, 3])
    with pytest.raises(CompileError, match="not a multiple"):
        component.reorder_indexes(indexes_of((0, 3, 6), [(0, 0)]), indexes_of((0, 2, 4), [(0, 0)]))
    with pytest.raises(CompileError, match="cannot use inputs that start at t=0"):
        make([-1]).precompute_indexes(indexes_of((0, 1), [(0, 0)]), indexes_of((0, 1), [(0, 0)]), True)


def test_time_grid_files():
    grid = TimeGrid(2, -1, 1, 9, 0, 3, 3, 3)
    for binary in (True, False):
        stream = io.BytesIO()
        grid.write(TokenWriter(stream, binary))
        reader = TokenReader(io.BytesIO((b"\0B" if binary else b"") + stream.getvalue()))
        reader.read_header()
        assert TimeGrid.read(reader) == grid
    assert stream.getvalue() == b"<ConvCompIo> 2 -1 1 9 0 3 3 3 </ConvCompIo> "


@pytest.mark.parametrize("natural", [True, False])
def test_equals_splicing_and_an_affine_layer(natural):
    component, ops = make([-1, 0, 2], use_natural_gradient=natural), NumpyOps()
    inputs, outputs, precomputed = arranged(component, indexes_of(range(6), [(0, 0), (1, 0)]))
    x = features(inputs, 3)
    row = {tuple(index): i for i, index in enumerate(inputs.tolist())}
    spliced = np.concatenate([x[[row[n, t + offset, k] for n, t, k in outputs.tolist()]]
                              for offset in component.time_offsets.tolist()], axis=1)
    affine = NaturalGradientAffineComponent(component.linear_params.copy(), component.bias_params.copy(),
                                            OnlineNaturalGradient(3, 4), OnlineNaturalGradient(2, 4))
    affine.is_gradient = not natural
    dy = np.random.default_rng(1).standard_normal((len(outputs), 2), dtype=np.float32)
    for _ in range(3):
        component.backprop(ops, precomputed, x, None, dy, None, component, None)
        affine.backprop(ops, None, spliced, None, dy, None, affine, None)
    np.testing.assert_allclose(component.vectorize(), affine.vectorize(), atol=FLOAT32)
    assert component.preconditioner_in.t == (3 if natural else 0)


def test_learning_rate_zero_changes_nothing():
    component, ops = make([0, 1]), NumpyOps()
    component.learning_rate = 0.0
    inputs, outputs, precomputed = arranged(component, indexes_of((0, 1), [(0, 0)]))
    before = component.vectorize()
    component.backprop(ops, precomputed, features(inputs, 3), None, np.ones((2, 2), dtype=np.float32), None,
                       component, None)
    np.testing.assert_array_equal(component.vectorize(), before)
    assert component.preconditioner_in.t == 0


def test_older_and_damaged_files():
    text = written(make([2, -1]), False)
    old = text.replace(b"<AlphaInOut> 4 4", b"<Alpha> 3")
    reader = TokenReader(io.BytesIO(old))
    assert [p.alpha for p in TdnnComponent.read(reader).preconditioners()] == [3.0, 3.0]
    for damage, message in (((b"[ 2 -1 ]", b"[ 2 2 ]"), "distinct offsets"),
                            ((b"[ 2 -1 ]", b"[ 1 2 3 4 ]"), "divides the columns"),
                            ((b"<AlphaInOut>", b"<Beta>"), "expected <AlphaInOut>"),
                            ((b"<RankInOut> 3", b"<RankInOut> -3"), "rank -3")):
        assert damage[0] in text
        with pytest.raises(FormatError, match=message):
            TdnnComponent.read(TokenReader(io.BytesIO(text.replace(*damage))))


def test_config_defaults():
    component = configured("input-dim=60 output-dim=200 time-offsets=1,-1,0")
    assert component.time_offsets.tolist() == [1, -1, 0] and component.input_dim == 60
    assert component.linear_params.std() == pytest.approx(1 / np.sqrt(180), rel=0.02)   # 36000 draws
    assert component.bias_params.std() == pytest.approx(1.0, rel=0.2)                  # 200 draws
    inner, outer = component.preconditioners()
    assert (inner.rank, outer.rank, inner.update_period, inner.alpha) == (20, 80, 4, 4.0)


def test_every_config_key():
    component = from_config(TdnnComponent,
        "input-dim=4 output-dim=3 time-offsets=0 param-stddev=0 bias-stddev=0 bias-mean=2 use-bias=true "
        "orthonormal-constraint=-1 use-natural-gradient=true rank-in=2 rank-out=1 alpha-in=3 alpha-out=5 "
        "num-samples-history=100 learning-rate=0.5 max-change=0.25")
    assert not component.linear_params.any() and component.bias_params.tolist() == [2, 2, 2]
    assert component.info().endswith("rank-in=2, rank-out=1, num-samples-history=100, update-period=4, alpha-in=3, "
                                     "alpha-out=5")
    assert ", max-change=0.25, orthonormal-constraint=-1, time-offsets=0, linear-params-rms=0" in component.info()
    plain = configured("input-dim=4 output-dim=3 time-offsets=0 use-bias=false use-natural-gradient=false")
    assert plain.bias_params is None and plain.info().endswith(", has-bias=false, use-natural-gradient=false")


@pytest.mark.parametrize("text, message", [
    ("input-dim=4 output-dim=3", "time-offsets"),
    ("input-dim=4 output-dim=3 time-offsets=", "time-offsets must be given"),
    ("input-dim=4 output-dim=3 time-offsets=0,1,0", "none of them twice"),
    ("input-dim=4 output-dim=3 time-offsets=0,a", "list of integers"),
    ("input-dim=4 time-offsets=0", "must be given and above 0"),
    ("input-dim=4 output-dim=3 time-offsets=0 bias-stddev=-1", "bias-stddev must not be negative"),
    ("input-dim=4 output-dim=3 time-offsets=0 rank-out=0", "rank 0")])
def test_impossible_config_lines(text, message):
    with pytest.raises(ConfigError, match=message):
        configured(text)
