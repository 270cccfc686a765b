"""Nonlinear components: statistics, self-repair, files and config lines."""
from __future__ import annotations

import math

import numpy as np
import pytest
from component_cases import Draws, from_config, normal, read_text, reread, written
from runtime_cases import assert_close

import nnet3py
from nnet3py.components import registry
from nnet3py.components.base import Properties
from nnet3py.components.nonlinear import (
    LogSoftmaxComponent,
    RectifiedLinearComponent,
    SigmoidComponent,
    SoftmaxComponent,
    TanhComponent,
)
from nnet3py.errors import ConfigError, FormatError

KINDS = (SigmoidComponent, TanhComponent, RectifiedLinearComponent, SoftmaxComponent, LogSoftmaxComponent)
REPAIRED = KINDS[:3]
FLOAT32 = 1e-6


@pytest.fixture
def draws(ops):
    """Gives ``ops`` the integers and uniform numbers that it will draw."""
    def chosen(integers=(), uniforms=()):
        ops.random = Draws(integers, uniforms)
        return ops.random
    return chosen


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_updated_without_a_component_to_update(kind, ops):
    component, y, dy = kind(6), normal(5, 6), normal(5, 6)
    component.backprop(ops, None, None, y, dy, None, None, np.empty_like(dy))
    assert not component.counters.any() and not component.stored.any()


@pytest.mark.parametrize("kind", KINDS)
def test_output_derivative_statistics_without_an_input_derivative(kind, ops, draws):
    draws([1])
    component = kind(6)
    component.backprop(ops, None, None, normal(5, 6), normal(5, 6), None, component, None)
    wanted = kind in (SoftmaxComponent, LogSoftmaxComponent)
    assert component.counters[1] == (5 if wanted else 0)


def slopes(kind, y):
    return {SigmoidComponent: y * (1 - y), TanhComponent: 1 - y * y, RectifiedLinearComponent: y > 0}[kind]


@pytest.mark.parametrize("kind", REPAIRED)
def test_values_are_stored_on_half_of_the_calls(kind, ops, draws):
    component, y = kind(3), np.abs(normal(5, 3)) / 4
    numbers = draws([0, 0, 1])
    for count in (5, 5, 10):           # the first always
        component.store_stats(ops, None, y, None)
        assert component.counters[0] == count
    assert numbers.asked == [2, 2, 2]
    np.testing.assert_allclose(component.value_sum, 2 * y.sum(axis=0), rtol=FLOAT32)
    np.testing.assert_allclose(component.deriv_sum, 2 * slopes(kind, y).sum(axis=0), rtol=FLOAT32)


def test_softmax_stores_values_always_and_log_softmax_never(ops, draws):
    numbers = draws()
    for kind, count in ((SoftmaxComponent, 10), (LogSoftmaxComponent, 0)):
        component = kind(3)
        for _ in range(2):
            component.store_stats(ops, None, normal(5, 3), None)
        assert component.counters[0] == count and component.stored.tolist() == [count > 0, False, False]
    assert numbers.asked == []


@pytest.mark.parametrize("kind", KINDS)
def test_output_derivatives_are_stored_on_three_of_four_calls(kind, ops, draws):
    component, dy = kind(3), normal(5, 3)
    numbers = draws([0, 0, 1, 2, 3])
    for count in (5, 5, 10, 15, 20):
        component.backprop(ops, None, None, normal(5, 3), dy, None, component, np.empty_like(dy))
        assert component.counters[1] == count
    assert numbers.asked == [4] * 5
    np.testing.assert_allclose(component.oderiv_sumsq, 4 * (dy.astype(float) ** 2).sum(axis=0), rtol=FLOAT32)


def with_statistics(kind, dim=3, **settings):
    component = kind(dim, **settings)
    rng = np.random.default_rng(0)
    for total in (component.value_sum, component.deriv_sum, component.oderiv_sumsq):
        total[...] = rng.random(dim)
    component.counters[...] = 8, 16, 3, 12
    component.stored[:] = True
    return component


def test_scaling_adding_and_zeroing():
    component = with_statistics(SigmoidComponent)
    before = {name: getattr(component, name).copy() for name in component.STATISTICS}
    fresh = SigmoidComponent(3)
    fresh.add(0.5, component)
    component.scale(0.5)
    for name in component.STATISTICS:
        np.testing.assert_allclose(getattr(component, name), 0.5 * before[name])
        np.testing.assert_allclose(getattr(fresh, name), 0.5 * before[name])
    assert fresh.stored.all()          # empty vectors take the other's size
    component.zero_stats()
    assert not any(getattr(component, name).any() for name in component.STATISTICS) and component.stored.all()
    assert b"<ValueAvg>  [ 0 0 0 ]\n<DerivAvg>  [ 0 0 0 ]\n<Count> 0 " in written(component, False)


def repaired(component, ops, numbers, y, dy):
    """What self-repair adds to the derivative, and what it adds to the counters."""
    plain, dx, before = np.empty_like(dy), np.empty_like(dy), component.counters.copy()
    component.backprop(ops, None, None, y, dy, None, None, plain)
    component.backprop(ops, None, None, y, dy, None, component, dx)
    assert numbers.asked == ["uniform", 4]
    return dx - plain, component.counters[2:] - before[2:]


@pytest.mark.parametrize("draw", [0.4, 0.6])
@pytest.mark.parametrize("kind, threshold", [(SigmoidComponent, None), (SigmoidComponent, 0.1), (TanhComponent, None)])
def test_repair_of_squashing_units(kind, threshold, draw, ops, draws):
    numbers = draws([1], [draw])
    settings = {} if threshold is None else {"self_repair_lower_threshold": threshold}
    component = with_statistics(kind, self_repair_scale=0.01, **settings)
    limit = threshold or (0.05 if kind is SigmoidComponent else 0.2)
    component.deriv_sum[:] = 8 * limit * np.array([0.9, 1.1, 0.99])
    y, dy = normal(5, 3), normal(5, 3)
    change, counted = repaired(component, ops, numbers, y, dy)
    low = np.array([True, False, True]) & (draw <= 0.5)
    centered = 2 * y - 1 if kind is SigmoidComponent else y
    np.testing.assert_allclose(change, -(0.01 / 0.5) * centered * low, atol=FLOAT32)
    assert counted.tolist() == [low.sum(), 3]


@pytest.mark.parametrize("draw", [0.4, 0.6])
@pytest.mark.parametrize("block_dim", [6, 3])
def test_repair_of_rectifiers(block_dim, draw, ops, draws):
    numbers = draws([1], [draw])
    component = with_statistics(RectifiedLinearComponent, 6, block_dim=block_dim, self_repair_scale=0.01)
    # in blocks the mean decides: 0.04, 0.5, 0.96
    component.deriv_sum[:] = 8 * np.array([0.05, 0.5, 0.97, 0.03, 0.5, 0.95])
    change, counted = repaired(component, ops, numbers, normal(5, 6), normal(5, 6))
    direction = np.array([-1, 0, 1, -1, 0, 0 if block_dim == 6 else 1]) * (draw <= 0.5)
    np.testing.assert_allclose(change, np.broadcast_to(-(0.01 / 0.5) * direction, (5, 6)), atol=FLOAT32)
    assert counted.tolist() == ([(direction[:block_dim] ** 2).sum(), block_dim] if draw <= 0.5 else [0, 0])


@pytest.mark.parametrize("kind", REPAIRED)
def test_repair_needs_a_scale_and_statistics(kind, ops, draws):
    for component in (with_statistics(kind), kind(3, self_repair_scale=0.01)):
        numbers = draws([1], [0.1])
        component.deriv_sum[:] = 0
        y, dy = normal(5, 3), normal(5, 3)
        plain, dx = np.empty_like(dy), np.empty_like(dy)
        before = component.counters.copy()
        component.backprop(ops, None, None, y, dy, None, None, plain)
        component.backprop(ops, None, None, y, dy, None, component, dx)
        np.testing.assert_array_equal(dx, plain)
        # sigmoid and tanh count what they look at even then
        assert component.counters[3] - before[3] == (0 if kind is RectifiedLinearComponent else 3)
        assert "uniform" not in numbers.asked


def test_impossible_repair(ops, draws):
    draws([1] * 9, [0.1] * 9)
    too_much = with_statistics(SigmoidComponent, self_repair_scale=0.2)
    upper = with_statistics(TanhComponent, self_repair_scale=0.01, self_repair_upper_threshold=0.5)
    for component, message in ((too_much, "0 < self-repair-scale < 0.1"), (upper, "self-repair-upper-threshold")):
        with pytest.raises(ConfigError, match=message):
            component.backprop(ops, None, None, normal(5, 3), normal(5, 3), None, component, normal(5, 3))


@pytest.mark.parametrize("binary", [True, False])
def test_files_with_everything(binary):
    component = with_statistics(RectifiedLinearComponent, 4, block_dim=2, self_repair_lower_threshold=0.1,
                                self_repair_upper_threshold=0.9, self_repair_scale=1e-5)
    again = reread(component, binary)
    for name in component.STATISTICS:
        np.testing.assert_allclose(getattr(again, name), getattr(component, name), rtol=1e-6)     # float32 averages
    assert again.info() == ("RectifiedLinearComponent, dim=4, block-dim=2, self-repair-lower-threshold=0.1, "
                            "self-repair-upper-threshold=0.9, self-repair-scale=1e-05, count=8, "
                            "self-repaired-proportion=0.25, value-avg=[ 0.08 0.03 0.005 0.002 ], "
                            "deriv-avg=[ 0.10 0.11 0.08 0.09 ], oderiv-rms=[ 0.18 0.24 0.23 0.01 ], oderiv-count=16")
    again.counters[0] = 1.0
    assert ", count=1, self-repaired-proportion=0.25, value-avg=[" in again.info()
    again.counters[0] = 0.0
    assert ", count=" not in again.info() and "oderiv-count=16" in again.info()


@pytest.mark.parametrize("text, message", [
    ("<Dim> 0 ", "dimension between 1 and"), ("<Dim> 2000000000 ", "dimension between 1 and"),
    ("<Dim> 4 <BlockDim> 3 ", "divides the dimension 4"),
    ("<Dim> 2 <ValueAvg> [ 1 2 3 ] ", "expected 2 elements after <ValueAvg>, found 3"),
    ("<Dim> 2 <ValueAvg> [ ] <DerivAvg> [ ] <Count> 0 </TanhComponent> ", "expected </SigmoidComponent>")])
def test_damaged_files(text, message):
    with pytest.raises(FormatError, match=message):
        read_text(SigmoidComponent, text)


def test_every_key():
    component = from_config(RectifiedLinearComponent, "dim=6 block-dim=3 self-repair-lower-threshold=0.1 "
                                                      "self-repair-upper-threshold=0.9 self-repair-scale=1e-5")
    assert (component.dim, component.block_dim) == (6, 3)
    assert component.info() == ("RectifiedLinearComponent, dim=6, block-dim=3, self-repair-lower-threshold=0.1, "
                                "self-repair-upper-threshold=0.9, self-repair-scale=1e-05")
    plain = from_config(TanhComponent, "dim=6")
    assert plain.block_dim == 6 and plain.info() == "TanhComponent, dim=6"
    assert plain.has(Properties.STORES_STATS)


CONFIG = """
input-node name=input dim=3
component name=a type=AffineComponent input-dim=3 output-dim=4
component name=s type={type} dim=4
component name=b type=AffineComponent input-dim=4 output-dim=2
component-node name=a component=a input=input
component-node name=s component=s input=a
component-node name=b component=b input=s
output-node name=output input=b
"""
FUNCTION_FLOAT32 = 1e-5          # rounding of a few operations, as a fraction of the largest value


class SoftplusComponent(nnet3py.FunctionComponent):
    """y = log(1 + exp x)."""

    @staticmethod
    def function(x):
        return math.log(1.0 + math.exp(x))

    @staticmethod
    def derivative(x, y):
        return 1.0 / (1.0 + math.exp(-x)) + 0.0 * y


class CubeComponent(nnet3py.FunctionComponent):
    """y = x³, which cannot be trained through."""

    @staticmethod
    def function(x):
        return x * x * x


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    for cls in (SoftplusComponent, CubeComponent):
        nnet3py.register_component(cls)


def feats(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((7, 3)).astype(np.float32)


def test_it_computes_again_and_again() -> None:
    nnet = nnet3py.Nnet.from_config(CONFIG.format(type="SoftplusComponent"))
    for seed in range(5):         # calls are written down in the second run, and repeated from the third on
        between = nnet(feats(seed), output=["a", "s"])
        assert_close(between["s"], np.log1p(np.exp(between["a"])), FUNCTION_FLOAT32)


def test_derivatives_and_files(tmp_path) -> None:
    nnet = nnet3py.Nnet.from_config(CONFIG.format(type="SoftplusComponent"))
    nnet.write(tmp_path / "a.raw", binary=False)
    nnet = nnet3py.read_nnet(tmp_path / "a.raw")
    assert "type=SoftplusComponent, dim=4" in nnet3py.info(nnet)
    w = {name: nnet[name].parameters()["linear_params"] for name in "ab"}
    x = feats(0)
    found = nnet3py.gradients(nnet, x, np.ones((7, 2)))
    slope = 1 / (1 + np.exp(-nnet(x, output="a")))
    assert_close(found.input, (np.ones((7, 2)) @ w["b"] * slope) @ w["a"], FUNCTION_FLOAT32)


def test_it_learns_and_one_without_derivative_does_not() -> None:
    x, y = feats(0), np.random.default_rng(1).standard_normal((7, 2))
    config = CONFIG.format(type="SoftplusComponent") + "output-node name=output input=b objective=quadratic\n"
    nnet = nnet3py.Nnet.from_config(config.replace("output-node name=output input=b\n", ""))
    history = nnet3py.train(nnet, (x, y), num_epochs=20, learning_rate=0.02)
    assert history["objective"][-1] > 0.7 * history["objective"][0]
    cube = nnet3py.Nnet.from_config(CONFIG.format(type="CubeComponent"))
    between = cube(x, output=["a", "s"])
    assert_close(between["s"], between["a"] ** 3, FUNCTION_FLOAT32)
    with pytest.raises(ConfigError, match="CubeComponent has no derivative"):
        nnet3py.gradients(cube, x, np.ones((7, 2)))
