"""Parameters and settings of whole networks, for every type of component."""
from __future__ import annotations

import numpy as np
import pytest
from component_forms import FORM_NAMES, FORMS

from nnet3py.components.base import Properties
from nnet3py.errors import ShapeError, UsageError
from nnet3py.network.model_parameters import (
    add_components,
    component_dot_products,
    format_per_component,
    learning_rates,
    num_updatable_components,
    perturb,
    scale_components,
    set_l2_regularize,
    set_learning_rate_factor,
    set_learning_rates,
    set_max_change,
    unvectorize,
    updatable_components,
    vectorize,
)
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate

TWO = """
input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=3 output-dim=2 learning-rate-factor=0.5
component-node name=a component=a input=input
component name=r type=RectifiedLinearComponent dim=2
component-node name=r component=r input=a
component name=l type=LinearComponent input-dim=2 output-dim=4 l2-regularize=0.1
component-node name=l component=l input=r
component name=fixed type=ConstantFunctionComponent input-dim=4 output-dim=5 is-updatable=false
component-node name=fixed component=fixed input=l
output-node name=output input=fixed
"""
ROUNDING = 1e-6     # of float32 products, relative


@pytest.fixture
def nnet() -> Nnet:
    return Nnet.from_config(TWO, seed=1)


def with_component(type_name: str, line: str) -> Nnet:
    """A network that holds the component, at no node, and two others."""
    nnet = Nnet.from_config(TWO, seed=1)
    nnet.add_component("c", f"type={type_name} {line}", seed=2)
    return nnet


def test_the_order_of_the_vector_is_kaldi_s(nnet: Nnet) -> None:
    a, linear = nnet.component("a").parameters(), nnet.component("l").parameters()
    expected = [*a["linear_params"].ravel(), *a["bias_params"], *linear["params"].ravel()]
    vector = vectorize(nnet)
    assert vector.dtype == np.float32 and vector.tolist() == expected and len(vector) == nnet.num_parameters() == 16


@pytest.mark.parametrize(("type_name", "line"), FORMS, ids=FORM_NAMES)
def test_a_vector_back_and_forth(type_name: str, line: str) -> None:
    nnet = with_component(type_name, line)
    other = nnet.copy()
    perturb(other, 0.5, seed=3)
    vector = vectorize(other)
    assert len(vector) == nnet.num_parameters()
    assert np.vdot(vector, vector) == pytest.approx(other.dot_product(other), rel=ROUNDING)
    unvectorize(nnet, vector)
    assert np.array_equal(vectorize(nnet), vector)
    for mine, theirs in zip(nnet.components, other.components, strict=True):
        for key, value in mine.parameters().items():
            assert np.array_equal(value, theirs.parameters()[key])


@pytest.mark.parametrize(("type_name", "line"), FORMS, ids=FORM_NAMES)
def test_perturbing_changes_parameters_by_as_much_as_is_said(type_name: str, line: str) -> None:
    nnet = with_component(type_name, line)
    before = vectorize(nnet)
    perturb(nnet, 0.25, seed=5)
    noise = vectorize(nnet) - before
    assert (noise != 0).mean() > 0.99
    assert 0.25 / 3 < np.sqrt(np.mean(noise ** 2)) < 0.25 * 3      # of at least 16 numbers
    again = with_component(type_name, line)
    perturb(again, 0.25, seed=5)
    assert np.array_equal(vectorize(again), vectorize(nnet))
    perturb(again, 0.25, seed=6)
    assert not np.array_equal(vectorize(again), vectorize(nnet))


@pytest.mark.parametrize(("type_name", "line"), FORMS, ids=FORM_NAMES)
def test_per_component_operations(type_name: str, line: str) -> None:
    nnet = with_component(type_name, line)
    count = num_updatable_components(nnet)
    assert count == 2 + nnet.component("c").has(Properties.UPDATABLE)
    other = nnet.copy()
    perturb(other, 0.5, seed=1)
    products = component_dot_products(nnet, other)
    assert len(products) == count and sum(products) == pytest.approx(nnet.dot_product(other), rel=ROUNDING, abs=1e-9)
    factors = [2.0, 0.0, -0.5][:count]
    scaled = nnet.copy()
    scale_components(scaled, factors)
    sizes = component_dot_products(nnet, nnet), component_dot_products(scaled, scaled)
    for before, after, factor in zip(*sizes, factors, strict=True):
        assert after == pytest.approx(before * factor * factor, rel=ROUNDING)
    total = nnet.copy()
    add_components(total, other, factors, 0.25)
    for name, factor in zip([name for name, _ in updatable_components(nnet)], factors, strict=True):
        for key, value in total.component(name).parameters().items():
            expected = nnet.component(name).parameters()[key] + np.float32(factor) * other.component(
                name).parameters()[key]
            np.testing.assert_allclose(value, expected, atol=ROUNDING)


def test_statistics_are_added_with_the_common_factor(nnet: Nnet) -> None:
    other = nnet.copy()
    for each, count in ((nnet, 10.0), (other, 4.0)):
        each.component("r").counters[0] = count      # type: ignore[attr-defined]
    add_components(nnet, other, [1.0, 1.0], 0.5)
    assert nnet.component("r").counters[0] == 12.0      # type: ignore[attr-defined]


def test_settings(nnet: Nnet) -> None:
    assert learning_rates(nnet) == pytest.approx([0.001, 0.001], rel=ROUNDING)
    set_learning_rate(nnet, 0.1, "a*")
    assert learning_rates(nnet) == pytest.approx([0.05, 0.001], rel=ROUNDING)
    version = nnet.version
    set_learning_rates(nnet, [0.25, 0.0])
    assert learning_rates(nnet) == [0.25, 0.0]
    assert nnet.version > version       # no derivatives are needed below a rate of 0: what was compiled is void
    assert (set_learning_rate_factor(nnet, 3.0, "l"), set_max_change(nnet, 0.75), set_l2_regularize(nnet, 0.5, "x*")
            ) == (1, 2, 0)
    line = nnet.component("l").info()
    assert "learning-rate-factor=3" in line and "max-change=0.75" in line and "l2-regularize=0.1" in line


def test_settings_reach_into_composites() -> None:
    nnet = Nnet.from_config(TWO)
    nnet.add_component("c", "type=CompositeComponent num-components=2 "
                            "component1='type=AffineComponent input-dim=2 output-dim=3 learning-rate-factor=0.5' "
                            "component2='type=RectifiedLinearComponent dim=3'")
    set_learning_rate(nnet, 0.5)
    assert "learning-rate=0.25" in nnet.component("c").info()
    set_learning_rates(nnet, [0.1, 0.1, 0.125])
    assert "learning-rate=0.125" in nnet.component("c").info()
    assert num_updatable_components(nnet) == 3 and nnet.num_parameters() == 16 + 9


def test_printing(nnet: Nnet) -> None:
    assert format_per_component(nnet, [0.5, 1234567.0]) == "[ a:0.5 l:1.23457e+06 ]"


def test_what_is_refused(nnet: Nnet) -> None:
    other = Nnet.from_config(TWO.replace("output-dim=5", "output-dim=6").replace("dim=4", "dim=3"))
    before = vectorize(nnet)
    for wrong in (lambda: unvectorize(nnet, np.zeros(15)), lambda: unvectorize(nnet, np.zeros((4, 4))),
                  lambda: scale_components(nnet, [1.0]), lambda: add_components(nnet, nnet, [1.0] * 3, 1.0),
                  lambda: format_per_component(nnet, []), lambda: set_learning_rates(nnet, [0.1]),
                  lambda: component_dot_products(nnet, other), lambda: add_components(nnet, other, [1.0, 1.0], 1.0)):
        with pytest.raises(ShapeError):
            wrong()
    for bad in (lambda: perturb(nnet, -1.0), lambda: perturb(nnet, float("nan")),
                lambda: set_learning_rates(nnet, [0.1, -0.1]), lambda: set_max_change(nnet, float("inf")),
                lambda: set_l2_regularize(nnet, 1e39), lambda: set_learning_rate_factor(nnet, float("nan"))):
        with pytest.raises(UsageError):
            bad()
    assert np.array_equal(vectorize(nnet), before) and learning_rates(nnet) == pytest.approx([0.001] * 2, rel=ROUNDING)
