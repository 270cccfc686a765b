"""Statistics extraction and pooling: index logic and values by definition, files and config lines."""
from __future__ import annotations

import re

import numpy as np
import pytest
from component_cases import CASES, arranged, from_config, indexes_of, normal, read_components, read_text, written
from hypothesis import given
from hypothesis import strategies as st
from numpy_ops import NumpyOps

from nnet3py.components.base import Component
from nnet3py.components.statistics_pooling import (
    StatisticsExtractionComponent,
    StatisticsExtractionComponentPrecomputedIndexes,
    StatisticsPoolingComponent,
    StatisticsPoolingComponentPrecomputedIndexes,
)
from nnet3py.components.time_grid import by_sequence, row_ranges, rows_inside
from nnet3py.errors import CompileError, FormatError
from nnet3py.index import NO_TIME

FLOAT32 = 1e-5           # float32 sums of a few dozen terms, and a root of their difference


def propagated(ops, component: Component, indexes, x: np.ndarray, rows: int) -> np.ndarray:
    y = np.zeros((rows, component.output_dim), x.dtype)
    component.propagate(ops, indexes, x, y, None)
    return y


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-4, 6), st.integers(-1, 1)), unique=True, max_size=20),
       st.integers(0, 3), st.integers(0, 3))
def test_row_ranges(indexes, before, after):
    rows = by_sequence(np.array(indexes, np.int32).reshape(-1, 3))
    of = np.array([[n, t, x] for n in range(4) for t in (-9, 0, 3, 20) for x in (0, 1)], np.int32)
    found = row_ranges(rows, of, of[:, 1].astype(np.int64) - before, of[:, 1].astype(np.int64) + after)
    assert found.dtype == np.int32
    for (n, t, x), (begin, end) in zip(of, found, strict=True):
        inside = (rows[:, 0] == n) & (rows[:, 2] == x) & (rows[:, 1] >= t - before) & (rows[:, 1] <= t + after)
        np.testing.assert_array_equal(np.arange(begin, end), np.flatnonzero(inside))


def test_rows_inside():
    np.testing.assert_array_equal(rows_inside(np.array([[2, 4], [5, 5], [0, 3]], np.int32)), [2, 3, 0, 1, 2])
    assert rows_inside(np.zeros((0, 2), np.int32)).size == 0


@pytest.mark.parametrize("component", [StatisticsExtractionComponent(2), StatisticsPoolingComponent(3, 1, 1, 1)])
def test_rows_in_another_order_are_refused(component):
    rows = indexes_of(range(3))
    with pytest.raises(CompileError, match="sorted by n, then x, then t"):
        component.precompute_indexes(rows, rows, True)


def test_the_config_line_gives_kaldis_component():
    config = (CASES / "statistics-pooling" / "config.txt").read_text()
    components = read_components(CASES / "statistics-pooling" / "nnet.raw")
    for name, kind in (("ext", StatisticsExtractionComponent), ("pool", StatisticsPoolingComponent)):
        line = re.search(rf"^component name={name} type=\w+ (.*)$", config, re.MULTILINE)[1]
        assert written(from_config(kind, line), True) == components[name][1]


@given(period=st.integers(1, 3), groups=st.integers(1, 3), start=st.integers(-3, 2), num=st.integers(1, 4),
       with_variance=st.booleans(), hole=st.integers(-5, 20))
def test_extraction_by_definition(period, groups, start, num, with_variance, hole):
    component = StatisticsExtractionComponent(2, period, period * groups, with_variance)
    outputs = indexes_of(period * groups * np.arange(start, start + num), ((0, 0), (2, 0), (0, -1)))
    rows = arranged(component, outputs, lambda t: t != hole)
    if rows is None:
        return
    inputs, outputs, indexes = rows
    x = np.random.default_rng(0).standard_normal((len(inputs), 2))
    y = propagated(NumpyOps(np.float64), component, indexes, x, len(outputs))
    for row, (n, t, extra) in zip(y, outputs, strict=True):
        times = range(t, t + period * groups, period)
        frames = x[(inputs[:, 0] == n) & (inputs[:, 2] == extra) & np.isin(inputs[:, 1], list(times))]
        parts = [[len(frames)], frames.sum(axis=0), (frames ** 2).sum(axis=0)]
        np.testing.assert_allclose(row, np.concatenate(parts if with_variance else parts[:2]))
    np.testing.assert_array_equal(indexes.counts, y[:, 0])


def test_extraction_indexes():
    component = StatisticsExtractionComponent(2, 2, 6)
    wanted = component.input_indexes(np.array([[0, -1, 0], [1, 7, 3], [0, NO_TIME, 0]], np.int32))
    assert wanted[..., 1].tolist() == [[-6, -4, -2], [6, 8, 10], [NO_TIME] * 3]
    assert wanted[1, 0].tolist() == [1, 6, 3]
    computable, used = component.is_computable(wanted[:, 0], np.array([[False] * 3, [False, True, False], [True] * 3]))
    assert computable.tolist() == [False, True, True] and used[1].tolist() == [False, True, False]


def test_two_outputs_of_one_group_are_refused():
    component, frames = StatisticsExtractionComponent(2, 1, 2), indexes_of(range(4), [(0, 0)])
    with pytest.raises(CompileError, match="several are wanted of one group") as error:
        component.precompute_indexes(frames, frames, False)
    assert "Round(node, 2)" in str(error.value.hint)


def test_nothing_backwards_needs_no_indexes():
    rows = indexes_of(range(3), [(0, 0)])
    assert StatisticsExtractionComponent(2).precompute_indexes(rows, rows, False).backward.shape == (0,)
    assert StatisticsPoolingComponent(3, 1, 1, 1).precompute_indexes(rows, rows, False).backward.shape == (0, 2)


@pytest.mark.parametrize("logs", [0, 2])
@pytest.mark.parametrize("stddevs", [False, True])
def test_pooling_by_definition(logs, stddevs, ops):
    extraction = StatisticsExtractionComponent(3, 1, 2)
    pooling = StatisticsPoolingComponent(7, 2, 4, 2, logs, stddevs)
    pooled_from, outputs, pool_indexes = arranged(pooling, indexes_of(range(0, 12, 2)), lambda t: (t >= 0) & (t < 10))
    frames, _, indexes = arranged(extraction, pooled_from, lambda t: (t >= 0) & (t < 9))
    x = normal(len(frames), 3)
    statistics = propagated(ops, extraction, indexes, x, len(pooled_from))
    y = propagated(ops, pooling, pool_indexes, statistics, len(outputs))
    for row, (n, t, _) in zip(y, outputs, strict=True):
        window = x[(frames[:, 0] == n) & (frames[:, 1] >= t - 4) & (frames[:, 1] <= t + 3)].astype(np.float64)
        second = window.std(axis=0) if stddevs else (window ** 2).mean(axis=0)
        expected = [*[np.log(len(window))] * logs, *window.mean(axis=0), *second]
        np.testing.assert_allclose(row, expected, rtol=FLOAT32, atol=FLOAT32)


def test_the_variance_has_a_floor(ops):
    component, rows = StatisticsPoolingComponent(3, 1, 1, 0, output_stddevs=True, variance_floor=0.25), indexes_of(
        range(2), [(0, 0)])
    indexes = component.precompute_indexes(rows, rows, True)
    y = propagated(ops, component, indexes, np.array([[1, 3, 9], [1, 3, 9]], np.float32), 2)
    np.testing.assert_array_equal(y, [[3, 0.5], [3, 0.5]])
    dx, dy = np.zeros((2, 3), np.float32), np.array([[0, 1], [0, 0]], np.float32)
    x = np.array([[1, 3, 9], [1, 3, 9]], np.float32)
    component.backprop(ops, indexes, x, y, dy, None, None, dx)      # as if nothing was floored
    np.testing.assert_allclose(dx, [[0, -6, 1], [0, 0, 0]])


def test_pooling_indexes():
    component = StatisticsPoolingComponent(5, 3, 3, 6)
    indexes = np.array([[0, 0, 0], [1, -3, 2], [0, 1, 0], [0, NO_TIME, 0]], np.int32)
    wanted = component.input_indexes(indexes)
    assert wanted[..., 1].tolist() == [[-3, 0, 3, 6], [-6, -3, 0, 3], [NO_TIME] * 4, [NO_TIME] * 4]
    available = np.array([[False, True, False, False], [False] * 4, [True] * 4, [True] * 4])
    computable, used = component.is_computable(indexes, available)
    assert computable.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(used, available)


EXTRACTION = ("<StatisticsExtractionComponent> <InputDim> 3 <InputPeriod> 2 <OutputPeriod> 4 <IncludeVarinance> F "
              "</StatisticsExtractionComponent> ")
POOLING = ("<StatisticsPoolingComponent> <InputDim> 5 <InputPeriod> 3 <LeftContext> 3 <RightContext> 6 "
           "<NumLogCountFeatures> 2 <OutputStddevs> T <VarianceFloor> 0.25 </StatisticsPoolingComponent> ")


@pytest.mark.parametrize("kind, text", [(StatisticsExtractionComponent, EXTRACTION),
                                        (StatisticsPoolingComponent, POOLING)])
def test_text(kind, text):
    component = read_text(kind, text)
    assert written(component, False).decode() == text
    assert vars(read_text(kind, text.partition(" ")[2])) == vars(component)        # the opening tag may be read already
    assert component.info() == (f"{kind.__name__}, input-dim={component.input_dim}, "
                                f"output-dim={component.output_dim}")


@pytest.mark.parametrize("kind, text, old, new", [
    (StatisticsExtractionComponent, EXTRACTION, "<InputDim> 3", "<InputDim> 0"),
    (StatisticsExtractionComponent, EXTRACTION, "<InputPeriod> 2", "<InputPeriod> 0"),
    (StatisticsExtractionComponent, EXTRACTION, "<InputPeriod> 2", "<InputPeriod> -2"),
    (StatisticsExtractionComponent, EXTRACTION, "<OutputPeriod> 4", "<OutputPeriod> 5"),
    (StatisticsExtractionComponent, EXTRACTION, "<OutputPeriod> 4", "<OutputPeriod> 2000000000"),
    (StatisticsExtractionComponent, EXTRACTION, "Varinance", "Variance"),
    (StatisticsExtractionComponent, EXTRACTION, "</Stat", "</Spat"),
    (StatisticsPoolingComponent, POOLING, "<InputDim> 5", "<InputDim> -5"),
    (StatisticsPoolingComponent, POOLING, "<InputDim> 5", "<InputDim> 4"),
    (StatisticsPoolingComponent, POOLING, "<InputPeriod> 3", "<InputPeriod> 0"),
    (StatisticsPoolingComponent, POOLING, "<LeftContext> 3", "<LeftContext> 4"),
    (StatisticsPoolingComponent, POOLING, "<LeftContext> 3", "<LeftContext> -3"),
    (StatisticsPoolingComponent, POOLING, "<RightContext> 6", "<RightContext> 2000000001"),
    (StatisticsPoolingComponent, POOLING, "<NumLogCountFeatures> 2", "<NumLogCountFeatures> -1"),
    (StatisticsPoolingComponent, POOLING, "<NumLogCountFeatures> 2", "<NumLogCountFeatures> 2000000000"),
    (StatisticsPoolingComponent, POOLING, "<VarianceFloor> 0.25", "<VarianceFloor> 0"),
    (StatisticsPoolingComponent, POOLING, "<VarianceFloor> 0.25", "<VarianceFloor> nan"),
    (StatisticsPoolingComponent, POOLING, "<OutputStddevs> T", "<OutputStddevs> X")])
def test_damaged_files(kind, text, old, new):
    assert old in text
    with pytest.raises(FormatError):
        read_text(kind, text.replace(old, new))


@pytest.mark.parametrize("kind, text", [
    (StatisticsExtractionComponentPrecomputedIndexes, "[ 0,2 2,3 ] <Counts> [ 2 1 ] <BackwardIndexes> [ 0 0 2 ] "),
    (StatisticsExtractionComponentPrecomputedIndexes, "[ 0,2 2,3 ] <Counts> [ 2 1 ] <BackwardIndexes> [ 0 0 -1 ] "),
    (StatisticsExtractionComponentPrecomputedIndexes, "[ 0,2 2,4 ] <Counts> [ 2 1 ] <BackwardIndexes> [ 0 0 1 ] "),
    (StatisticsExtractionComponentPrecomputedIndexes, "[ 0,2 2,1 ] <Counts> [ 2 1 ] <BackwardIndexes> [ ] "),
    (StatisticsExtractionComponentPrecomputedIndexes, "[ 0,2 2,3 ] <Counts> [ 2 ] <BackwardIndexes> [ ] "),
    (StatisticsPoolingComponentPrecomputedIndexes, "[ 0,2 -1,3 ] <BackwardIndexes> [ ] "),
    (StatisticsPoolingComponentPrecomputedIndexes, "[ 0,2 1,4 ] <BackwardIndexes> [ 0,1 0,2 1,2 ] "),
    (StatisticsPoolingComponentPrecomputedIndexes, "[ 0,2 1,3 ] <BackwardIndexes> [ 0,1 0,2 1,3 ] ")])
def test_damaged_precomputed_indexes(kind, text):
    with pytest.raises(FormatError, match="ranges|rows between|counts"):
        read_text(kind, f"<ForwardIndexes> {text}</{kind.__name__}> ")


def test_config_defaults():
    component = from_config(StatisticsExtractionComponent, "input-dim=3")
    assert vars(component) == vars(StatisticsExtractionComponent(3, 1, 1, True)) and component.output_dim == 7
    component = from_config(StatisticsPoolingComponent, "input-dim=7 left-context=0 right-context=2")
    assert vars(component) == vars(StatisticsPoolingComponent(7, 1, 0, 2, 0, False, 1e-10))
    assert component.output_dim == 6
