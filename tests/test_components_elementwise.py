"""Trained scales and offsets: finite differences, blocks, in-place use, natural gradient, file forms, config lines.

Kaldi's cases are in test_components_affine.py, with those of the other trained components.
"""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import check_derivatives, in_float64, reread, written
from numpy_ops import NumpyOps

from nnet3py.components.elementwise import (
    NaturalGradientPerElementScaleComponent,
    PerElementOffsetComponent,
    PerElementScaleComponent,
)
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.scale_and_offset import ScaleAndOffsetComponent
from nnet3py.config_line import ConfigLine
from nnet3py.errors import ConfigError, FormatError
from nnet3py.io.tokens import TokenReader

FLOAT32 = 1e-5     # sums of a few float32 products


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


MAKERS = {
    "scale": lambda: PerElementScaleComponent(normal(6)),
    "ng-scale": lambda: NaturalGradientPerElementScaleComponent(normal(6), OnlineNaturalGradient(2, 10)),
    "offset": lambda: PerElementOffsetComponent(normal(6), 6),
    "offset-block": lambda: PerElementOffsetComponent(normal(3), 6),
    "scale-offset": lambda: ScaleAndOffsetComponent(normal(6), normal(6, seed=1), 6, rank=2),
    "scale-offset-block": lambda: ScaleAndOffsetComponent(normal(3), normal(3, seed=1), 6, rank=2),
}
kinds = pytest.mark.parametrize("kind", MAKERS)


@kinds
def test_derivatives(kind):
    check_derivatives(NumpyOps(np.float64), in_float64(MAKERS[kind]()), 4, 4)


def test_flags():
    assert [int(make().properties) for make in MAKERS.values()] == [0x147, 0x147, 0x107, 0x907, 0x187, 0xD87]


@kinds
def test_in_place_is_the_same(kind):
    component, ops = MAKERS[kind](), NumpyOps()
    x, dy = normal(4, 6), normal(4, 6, seed=1)
    y, dx = np.full_like(x, np.nan), np.full_like(x, np.nan)
    one, two = component.copy(), component.copy()
    component.propagate(ops, None, x, y, None)
    component.backprop(ops, None, x, y, dy, None, one, dx)
    both, derivs = x.copy(), dy.copy()
    component.propagate(ops, None, both, both, None)
    component.backprop(ops, None, x, both, derivs, None, two, derivs)
    np.testing.assert_array_equal(both, y)
    np.testing.assert_array_equal(derivs, dx)
    np.testing.assert_array_equal(one.vectorize(), two.vectorize())
    assert (one.vectorize() != component.vectorize()).all()


@pytest.mark.parametrize("kind", ["offset", "scale-offset"])
def test_blocks_are_one_vector_repeated(kind):
    ops, x = NumpyOps(), normal(4, 6)
    block, whole = MAKERS[f"{kind}-block"](), MAKERS[kind]()
    for name, value in block.parameters().items():
        setattr(whole, name, np.tile(value, 2))
    results = []
    for component in (block, whole):
        y = np.empty_like(x)
        component.propagate(ops, None, x, y, None)
        results.append(y)
    np.testing.assert_array_equal(*results)


def test_scales_near_zero_act_as_small_ones():
    component, ops = ScaleAndOffsetComponent(np.array([0, 1e-5, -1e-5, 2], dtype=np.float32),
                                             np.ones(4, dtype=np.float32), 4), NumpyOps()
    x, dy = normal(3, 4), normal(3, 4, seed=1)
    y, dx, gradient = np.empty_like(x), np.empty_like(x), component.copy()
    component.propagate(ops, None, x, y, None)
    np.testing.assert_allclose(y, x * [1e-4, 1e-4, -1e-4, 2] + 1, rtol=1e-6)
    gradient.set_as_gradient()
    gradient.scale(0.0)
    component.backprop(ops, None, None, y, dy, None, gradient, dx)
    np.testing.assert_allclose(dx, dy * component.scales, rtol=1e-6)      # the scales themselves, as in Kaldi
    np.testing.assert_allclose(gradient.scales, (x * dy).sum(axis=0), atol=5e-2)   # x from y: float32 of 1 over 1e-4


def test_scales_are_updated_before_the_derivative_is_formed():
    component, ops = MAKERS["scale"](), NumpyOps()
    x, dy, dx = normal(4, 6), normal(4, 6, seed=1), np.empty((4, 6), dtype=np.float32)
    before = component.scales.copy()
    component.learning_rate = 1.0
    component.backprop(ops, None, x, None, dy, None, component, dx)
    np.testing.assert_allclose(component.scales, before + (x * dy).sum(axis=0), atol=FLOAT32)
    np.testing.assert_array_equal(dx, dy * component.scales)


def test_natural_gradient_is_what_the_preconditioner_gives():
    ops, x, dy = NumpyOps(), normal(9, 6), normal(9, 6, seed=1)
    component = MAKERS["ng-scale"]()
    before, rows, twin = component.scales.copy(), x * dy, OnlineNaturalGradient(2, 10)
    factor = twin.precondition(ops, rows)
    component.backprop(ops, None, x, None, dy, None, component, None)
    np.testing.assert_allclose(component.scales - before, 0.001 * factor * rows.sum(axis=0), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("kind", ["offset", "scale-offset"])
def test_without_natural_gradient_the_step_is_plain(kind):
    component, ops = MAKERS[kind](), NumpyOps()
    component.use_natural_gradient, component.learning_rate = False, 1.0
    dy, before = normal(4, 6), component.offsets.copy()
    component.backprop(ops, None, None, normal(4, 6, seed=1), dy, None, component, None)
    np.testing.assert_allclose(component.offsets - before, dy.sum(axis=0), atol=FLOAT32)


def test_which_preconditioners_freeze():
    for kind, count in (("scale", 0), ("ng-scale", 1), ("offset", 0), ("scale-offset", 0)):
        component = MAKERS[kind]()
        component.freeze_natural_gradient(True)
        assert [p.frozen for p in component.preconditioners()] == [True] * count


# -- files -----------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("binary", [True, False])
def test_files(kind, binary):
    component = MAKERS[kind]()
    again = reread(component, binary)
    assert written(again, binary) == written(component, binary)
    assert again.output_dim == 6


def test_update_period_of_scale_and_offset_depends_on_where_it_came_from():
    made = ScaleAndOffsetComponent.from_config(ConfigLine("dim=6"), np.random.default_rng(0))
    assert made.preconditioner_scale.update_period == 4
    assert reread(made).preconditioner_scale.update_period == 1


def read_text(kind, text: str):
    data = ("<LearningRate> 0.1 " + text + f" </{kind.__name__}> ").encode()
    return kind.read(TokenReader(io.BytesIO(data), size=len(data)))


def test_older_files():
    assert read_text(PerElementScaleComponent, "<Params> [ 1 2 ] <IsGradient> T").is_gradient
    old = read_text(PerElementOffsetComponent, "<Offsets> [ 1 2 ] <IsGradient> T")
    assert old.is_gradient and old.dim == 2 and old.use_natural_gradient
    ng = read_text(NaturalGradientPerElementScaleComponent,
                   "<Params> [ 1 2 ] <IsGradient> F <Rank> 8 <UpdatePeriod> 10 <NumSamplesHistory> 2000 <Alpha> 4 "
                   "<MaxChangePerMinibatch> 0.5")
    assert ng.preconditioner.rank == 8 and ng.scales.tolist() == [1, 2]


@pytest.mark.parametrize("kind, text, message", [
    (PerElementScaleComponent, "<Params> [ ]", "the vector after <Params> is empty"),
    (PerElementOffsetComponent, "<Offsets> [ 1 2 ] <Dim> 5 <UseNaturalGradient> T", "expected a multiple of the 2"),
    (PerElementOffsetComponent, "<Offsets> [ ] <Dim> 5 <UseNaturalGradient> T", "expected a multiple of the 0"),
    (ScaleAndOffsetComponent, "<Dim> 2 <Scales> [ 1 2 ] <Offsets> [ 1 ] <UseNaturalGradient> T <Rank> 2",
     "1 offsets, expected 2"),
    (ScaleAndOffsetComponent, "<Dim> 2 <Scales> [ 1 2 ] <Offsets> [ 1 2 ] <UseNaturalGradient> T <Rank> 0",
     "<Rank> is 0"),
    (ScaleAndOffsetComponent, "<Dim> -2 <Scales> [ 1 2 ] <Offsets> [ 1 2 ] <UseNaturalGradient> T <Rank> 1", "-2"),
    (NaturalGradientPerElementScaleComponent, "<Params> [ 1 2 ] <Rank> 8", "<IsGradient>")])
def test_damaged_files(kind, text, message):
    with pytest.raises(FormatError, match=message):
        read_text(kind, text)


# -- config lines ----------------------------------------------------------------------------------------------------


def from_config(kind, text: str):
    line = ConfigLine(text)
    component = kind.from_config(line, np.random.default_rng(0))
    line.check_all_used()
    return component


def test_defaults():
    assert (from_config(PerElementScaleComponent, "dim=4").scales == 1).all()
    assert (from_config(PerElementOffsetComponent, "dim=4").offsets == 0).all()
    both = from_config(ScaleAndOffsetComponent, "dim=6 block-dim=3 use-natural-gradient=false rank=7")
    assert both.scales.tolist() == [1, 1, 1] and both.offsets.tolist() == [0, 0, 0] and both.dim == 6
    assert not both.use_natural_gradient and both.preconditioner_offset.rank == 7
    ng = from_config(NaturalGradientPerElementScaleComponent, "dim=4").preconditioner
    assert (ng.rank, ng.update_period, ng.num_samples_history, ng.alpha) == (8, 10, 2000, 4)


def test_random_parameters():
    scales = from_config(PerElementScaleComponent, "dim=10000 param-mean=3 param-stddev=0.5").scales
    assert scales.mean() == pytest.approx(3, abs=0.02) and scales.std() == pytest.approx(0.5, rel=0.03)
    offsets = from_config(PerElementOffsetComponent, "dim=6 block-dim=3 param-mean=2").offsets
    assert offsets.tolist() == [2, 2, 2]


def test_vectors_from_files(tmp_path):
    path = tmp_path / "v"
    path.write_text(" [ 1 2 3 ]\n")
    assert from_config(PerElementScaleComponent, f"vector={path} dim=3").scales.tolist() == [1, 2, 3]
    assert from_config(PerElementOffsetComponent, f"vector={path}").dim == 3
    assert from_config(NaturalGradientPerElementScaleComponent, f"scales={path}").scales.tolist() == [1, 2, 3]
    with pytest.raises(ConfigError, match="the vector has 3 elements"):
        from_config(PerElementOffsetComponent, f"vector={path} dim=6")
    with pytest.raises(ConfigError, match="Unused values 'dim=3'"):
        from_config(NaturalGradientPerElementScaleComponent, f"scales={path} dim=3")


@pytest.mark.parametrize("kind, text", [
    (PerElementScaleComponent, "dim=0"), (PerElementScaleComponent, "param-mean=1"),
    (PerElementScaleComponent, "dim=3 param-stddev=-1"), (PerElementOffsetComponent, "dim=6 block-dim=4"),
    (PerElementOffsetComponent, "dim=6 block-dim=0"), (ScaleAndOffsetComponent, "dim=-6 block-dim=3"),
    (ScaleAndOffsetComponent, "dim=6 rank=0"), (NaturalGradientPerElementScaleComponent, "dim=6 rank=-1")])
def test_impossible_config_lines(kind, text):
    with pytest.raises(ConfigError, match=f"Bad initializer {text}"):
        from_config(kind, text)
