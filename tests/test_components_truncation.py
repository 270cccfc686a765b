"""ClipGradient and BackpropTruncation: clipping, self-repair, counters, indexes, files and config lines."""
from __future__ import annotations

import numpy as np
import pytest
from component_cases import Draws, from_config, normal, read_text, reread, written

from nnet3py.components.truncation import (
    BackpropTruncationComponent,
    BackpropTruncationComponentPrecomputedIndexes,
    ClipGradientComponent,
)
from nnet3py.errors import FormatError

FLOAT32 = 2e-6


def norms(matrix):
    return np.sqrt((matrix.astype(float) ** 2).sum(axis=1))


def test_clipping_by_norm(ops):
    component, dy = ClipGradientComponent(6, 2.0, True), normal(9, 6)
    dx = np.empty_like(dy)
    component.backprop(ops, None, normal(9, 6), None, dy, None, component, dx)
    np.testing.assert_allclose(norms(dx), np.minimum(norms(dy), 2.0), rtol=FLOAT32)
    assert component.counters.tolist() == [(norms(dy) >= 2).sum(), 9, 0, 1] and component.counters[0] > 0
    component.backprop(ops, None, normal(9, 6), None, dy, None, None, dx)      # nothing is counted
    assert component.counters[1] == 9


def test_clipping_of_elements_and_blocking(ops):
    dy = normal(9, 6)
    component, dx = ClipGradientComponent(6, 0.5, False), dy.copy()
    component.backprop(ops, None, normal(9, 6), None, dx, None, component, dx)
    np.testing.assert_array_equal(dx, np.clip(dy, -0.5, 0.5))
    assert component.counters.tolist() == [0, 0, 0, 1]
    component = ClipGradientComponent(6, 0.0, True)
    component.backprop(ops, None, normal(9, 6), None, dy, None, component, dx)
    assert not dx.any() and not component.counters.any()


def repairing(**settings):
    given = {"clipping_threshold": 2.0, "norm_based_clipping": True, "self_repair_clipped_proportion_threshold": 0.01,
             "self_repair_target": 0.1, "self_repair_scale": 0.5, **settings}
    component = ClipGradientComponent(6, **given)
    component.counters[:2] = 5, 11
    return component


@pytest.mark.parametrize("draw", [0.4, 0.6])
def test_repair_of_clipped_gradients(draw, ops, monkeypatch):
    component, plain = repairing(), repairing(self_repair_scale=0.0)
    monkeypatch.setattr(ops, "random", Draws([], [draw]))
    x, dy, dx, clipped = normal(9, 6), normal(9, 6, seed=1), np.empty((9, 6), np.float32), np.empty((9, 6), np.float32)
    plain.backprop(ops, None, x, None, dy, None, plain, clipped)
    component.backprop(ops, None, x, None, dy, None, component, dx)
    assert component.counters.tolist() == [*plain.counters[:2], float(draw <= 0.5), 1]
    if draw > 0.5:
        np.testing.assert_array_equal(dx, clipped)
        return
    proportion = plain.counters[0] / plain.counters[1]
    excess = np.maximum(np.abs(x) - 0.1, 0) * np.where(x > 0, 1, -1)
    expected = clipped - 0.5 * proportion * norms(clipped).sum() / norms(excess).sum() / 0.5 * excess
    expected *= norms(clipped).sum() / norms(expected).sum()
    np.testing.assert_allclose(dx, expected, atol=1e-5)


@pytest.mark.parametrize("settings", [{"self_repair_clipped_proportion_threshold": 1.0}, {"self_repair_scale": 0.0},
                                      {"self_repair_clipped_proportion_threshold": 0.99}])
def test_no_repair(settings, ops, monkeypatch):
    component = repairing(**settings)
    monkeypatch.setattr(ops, "random", Draws([], [0.1]))
    component.backprop(ops, None, normal(9, 6), None, normal(9, 6), None, component, np.empty((9, 6), np.float32))
    assert component.counters[2] == 0


def test_counters_are_whole_numbers():
    component = ClipGradientComponent(6)
    component.counters[:] = 3, 11, 5, 7
    other = component.copy()
    component.scale(0.5)
    assert component.counters.tolist() == [1, 5, 5, 7]
    component.add(0.5, other)
    assert component.counters.tolist() == [2, 10, 5, 7]
    component.zero_stats()
    assert not component.counters.any()


def test_clip_gradient_files():
    assert reread(repairing()).info() == (
        "ClipGradientComponent, dim=6, norm-based-clipping=true, clipping-threshold=2, "
        "clipped-proportion=0.454545, self-repair-clipped-proportion-threshold=0.01, "
        "self-repair-target=0.1, self-repair-scale=0.5")


def test_clip_gradient_config():
    component = from_config(ClipGradientComponent, "dim=6")
    assert component.info() == ("ClipGradientComponent, dim=6, norm-based-clipping=false, clipping-threshold=15, "
                                "clipped-proportion=0, self-repair-clipped-proportion-threshold=0.01, "
                                "self-repair-target=0, self-repair-scale=1")
    component = from_config(ClipGradientComponent, "dim=6 clipping-threshold=0 norm-based-clipping=true "
                            "self-repair-clipped-proportion-threshold=0.5 self-repair-target=1 self-repair-scale=2")
    assert (component.clipping_threshold, component.self_repair_target, component.self_repair_scale) == (0, 1, 2)


def test_where_the_intervals_end():
    component = BackpropTruncationComponent(4, zeroing_interval=3, recurrence_interval=2)
    rows = np.array([[n, t, 0] for n in (0, 1) for t in range(-4, 5)], np.int32)
    indexes = component.precompute_indexes(rows, rows, True)
    expected = [-1.0 if (t - n) // 3 != (t - 2 - n) // 3 else 0.0 for n, t, _ in rows]
    assert indexes.zeroing.tolist() == expected and indexes.zeroing_sum == -sum(expected)
    assert indexes.zeroing.dtype == np.float32


def test_truncation(ops):
    component, dy = BackpropTruncationComponent(6, 0.5, 1.0, 1.5), normal(20, 6)
    zeroing = -(np.arange(20) % 2).astype(np.float32)
    indexes = BackpropTruncationComponentPrecomputedIndexes(zeroing, 10.0)
    size = norms(0.5 * dy)
    zeroed = (zeroing == -1) & (size > 1.5)
    expected = 0.5 * dy * (np.minimum(1.0 / size, 1) * ~zeroed)[:, None]
    for given, update in ((dy.copy(), component), (dy, None)):
        dx = given if update else np.empty_like(dy)
        component.backprop(ops, indexes, None, None, given, None, update, dx)
        np.testing.assert_allclose(dx, expected, atol=FLOAT32)
        assert component.counters.tolist() == [(size >= 1).sum(), zeroed.sum(), 20, 10]
    assert zeroed.any() and not zeroed[1::2].all()


def test_thresholds_of_zero_are_no_limit(ops):
    component, dy = BackpropTruncationComponent(6, 1.0, 0.0, 0.0), 1e4 * normal(4, 6)
    dx = np.empty_like(dy)
    indexes = BackpropTruncationComponentPrecomputedIndexes(-np.ones(4, np.float32), 4.0)
    component.backprop(ops, indexes, None, None, dy, None, component, dx)
    np.testing.assert_array_equal(dx, dy)
    assert component.counters.tolist() == [0, 0, 4, 4]


def counted():
    component = BackpropTruncationComponent(4, 0.5, 1.0, 1.5, 3, 2)
    component.counters[:] = 5, 2, 40, 8
    return component


def test_truncation_files():
    component = counted()
    assert reread(component).info() == (
        "BackpropTruncationComponent, dim=4, scale=0.5, count=40, recurrence-interval=2, "
        "clipping-threshold=1, clipped-proportion=0.125, zeroing-threshold=1.5, "
        "zeroing-interval=3, zeroed-proportion=0.25, count-zeroing-boundaries=8")
    text = written(component, False).decode().replace("<Scale> 0.5 ", "")
    assert read_text(BackpropTruncationComponent, text).value_scale == 1.0
    with pytest.raises(FormatError, match="at least 1"):
        read_text(BackpropTruncationComponent, text.replace("<ZeroingInterval> 3", "<ZeroingInterval> 0"))


def test_truncation_statistics_scale_and_add():
    component = counted()
    component.scale(0.25)
    component.add(2.0, counted())
    assert component.counters.tolist() == [11.25, 4.5, 90, 18]


def test_truncation_config():
    component = from_config(BackpropTruncationComponent, "dim=4 scale=0.5 clipping-threshold=1 zeroing-threshold=1.5 "
                                                         "zeroing-interval=3 recurrence-interval=2")
    component.counters[:] = 5, 2, 40, 8
    assert component.info() == counted().info()
    plain = from_config(BackpropTruncationComponent, "dim=4")
    assert (plain.value_scale, plain.clipping_threshold, plain.zeroing_threshold) == (1.0, 30.0, 15.0)
    assert (plain.zeroing_interval, plain.recurrence_interval) == (20, 1)
