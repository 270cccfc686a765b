"""Operations on whole networks: test modes, rates, statistics, the orthonormal constraint, edit directives."""
from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from component_forms import FORM_NAMES, FORMS
from test_train import CLASSIFIER, points

import nnet3py
from nnet3py.cli.nnet.networks import copy as nnet3_copy
from nnet3py.cli.training.train import train as nnet3_train
from nnet3py.components.base import Properties
from nnet3py.components.updatable import UpdatableComponent
from nnet3py.errors import ConfigError, NumericError, ShapeError, UsageError
from nnet3py.fine_tuning.train import rate_factors
from nnet3py.network import whole_model
from nnet3py.network.edits import apply_edits
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import (
    RANDOM_TYPES,
    add_components,
    check_ratio,
    component_dot_products,
    constrain_orthonormal,
    format_per_component,
    freeze_natural_gradient,
    has_batchnorm,
    is_a,
    learning_rates,
    num_updatable_components,
    perturb,
    scale_batchnorm_stats,
    scale_components,
    set_batchnorm_test_mode,
    set_dropout_proportion,
    set_dropout_test_mode,
    set_l2_regularize,
    set_learning_rate,
    set_learning_rate_factor,
    set_learning_rates,
    set_max_change,
    unvectorize,
    updatable_components,
    vectorize,
    zero_component_stats,
)
from nnet3py.ops import get_ops
from nnet3py.training.options import MinibatchOptions, TrainerOptions
from nnet3py.training.train import Progress
from nnet3py.training.trainer import NnetTrainer
from nnet3py.training.training_data import training_data

CONFIG = """
input-node name=input dim=6
component name=a1 type=NaturalGradientAffineComponent input-dim=6 output-dim=8 learning-rate-factor=0.5
component-node name=a1 component=a1 input=input
component name=bn type=BatchNormComponent dim=8
component-node name=bn component=bn input=a1
component name=drop type=GeneralDropoutComponent dim=8 dropout-proportion=0.1
component-node name=drop component=drop input=bn
component name=d2 type=DropoutComponent dim=8 dropout-proportion=0.2
component-node name=d2 component=d2 input=drop
component name=l1 type=LinearComponent input-dim=8 output-dim=4 orthonormal-constraint=-1
component-node name=l1 component=l1 input=d2
component name=a2 type=AffineComponent input-dim=4 output-dim=4 orthonormal-constraint=0.7
component-node name=a2 component=a2 input=l1
output-node name=output input=a2
output-node name=output-xent input=Scale(0.5, l1)
"""
ROUNDING = 2e-6     # of float32 products of a few numbers around 1


@pytest.fixture
def nnet() -> Nnet:
    return Nnet.from_config(CONFIG, seed=1)


def component(nnet: Nnet, name: str) -> Any:
    return nnet.component(name)


def fill_stats(nnet: Nnet) -> None:
    bn = component(nnet, "bn")
    bn.count[0] = 10.0
    bn.sum[...] = np.arange(8.0)
    bn.sumsq[...] = np.arange(8.0) ** 2 + 10.0


def test_types_and_those_derived_from_them(nnet: Nnet) -> None:
    assert is_a(nnet.component("a1"), "AffineComponent")
    assert not is_a(nnet.component("l1"), "AffineComponent")


def test_batchnorm_test_mode_raises_the_version(nnet: Nnet) -> None:
    fill_stats(nnet)
    version = nnet.version
    assert has_batchnorm(nnet)
    set_batchnorm_test_mode(nnet, True)
    assert component(nnet, "bn").test_mode
    assert component(nnet, "bn").test_scale is not None
    assert nnet.version > version
    version = nnet.version
    set_batchnorm_test_mode(nnet, True)
    assert nnet.version == version


def test_dropout(nnet: Nnet) -> None:
    set_dropout_test_mode(nnet, True)
    set_dropout_proportion(nnet, 0.3)
    for name in ("drop", "d2"):
        assert component(nnet, name).test_mode
        assert component(nnet, name).dropout_proportion == float(np.float32(0.3))


RANDOM_CONFIG = """
input-node name=input dim=4
component name=d type=DropoutComponent dim=4 dropout-proportion=0.2
component-node name=d component=d input=input
component name=g type=GeneralDropoutComponent dim=4
component-node name=g component=g input=d
component name=s type=SpecAugmentTimeMaskComponent dim=4
component-node name=s component=s input=g
component name=m type=DropoutMaskComponent output-dim=4
component-node name=m component=m input=m
output-node name=output input=Sum(s, m)
"""


def test_all_kinds_of_dropout(caplog: pytest.LogCaptureFixture) -> None:
    """Every random type has a test mode, every one but SpecAugment over time a dropout proportion."""
    caplog.set_level(logging.INFO)
    nnet = Nnet.from_config(RANDOM_CONFIG)
    assert {type(c).__name__ for c in nnet.components} == set(RANDOM_TYPES)
    assert all(c.has(Properties.RANDOM) for c in nnet.components)
    for test_mode in (True, False):
        set_dropout_test_mode(nnet, test_mode)
        assert [component(nnet, name).test_mode for name in "dgsm"] == [test_mode] * 4
    set_dropout_proportion(nnet, 0.125)
    assert [component(nnet, name).dropout_proportion for name in "dgm"] == [0.125] * 3
    assert component(nnet, "s").zeroed_proportion == 0.25 and not hasattr(component(nnet, "s"), "dropout_proportion")
    apply_edits(nnet, "set-dropout-proportion proportion=0.5")
    assert caplog.messages[-1] == "Set dropout proportions for 3 components."
    apply_edits(nnet, "set-dropout-proportion name=m proportion=0.75")
    assert [component(nnet, name).dropout_proportion for name in "dgm"] == [0.5, 0.5, 0.75]


def test_learning_rates_take_the_factor(nnet: Nnet) -> None:
    set_learning_rate(nnet, 0.02)
    assert component(nnet, "a1").learning_rate == pytest.approx(0.01, rel=1e-6)     # held as float32
    assert component(nnet, "a2").learning_rate == pytest.approx(0.02, rel=1e-6)
    version = nnet.version
    set_learning_rate(nnet, 0.0)      # nothing below needs a derivative then: what was compiled is void
    assert nnet.version > version


def test_statistics(nnet: Nnet) -> None:
    fill_stats(nnet)
    scale_batchnorm_stats(nnet, 0.5)
    assert component(nnet, "bn").count[0] == 5.0
    with pytest.raises(UsageError, match="between 0 and 1"):
        scale_batchnorm_stats(nnet, 1.5)
    set_batchnorm_test_mode(nnet, True)
    zero_component_stats(nnet)
    assert component(nnet, "bn").count[0] == 5.0        # test mode keeps them
    set_batchnorm_test_mode(nnet, False)
    zero_component_stats(nnet)
    assert component(nnet, "bn").count[0] == 0.0


def test_freezing(nnet: Nnet) -> None:
    freeze_natural_gradient(nnet, True)
    assert component(nnet, "a1").preconditioner_in.frozen and component(nnet, "l1").preconditioner_out.frozen
    freeze_natural_gradient(nnet, False)
    assert not component(nnet, "a1").preconditioner_in.frozen


def matrix_with(singular_values: np.ndarray, rows: int, cols: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    left = np.linalg.qr(rng.standard_normal((rows, rows)))[0]
    right = np.linalg.qr(rng.standard_normal((cols, cols)))[0]
    k = len(singular_values)
    return np.ascontiguousarray((left[:, :k] * singular_values) @ right[:k], dtype=np.float32)


def constrain_matrix(weights: np.ndarray, constraint: float, name: str) -> None:
    ratio = whole_model.constrain_matrix(get_ops("cpu"), weights, constraint)
    check_ratio(float(ratio()[0]), name)


@pytest.mark.parametrize(("rows", "cols"), [(4, 7), (7, 4), (5, 5)])
def test_one_step_is_the_formula(rows: int, cols: int) -> None:
    weights = matrix_with(np.linspace(0.9, 1.1, min(rows, cols)), rows, cols)
    m = np.float64(weights if rows <= cols else weights.T)
    p = m @ m.T
    expected = m - 4 * 0.125 / 0.81 * (p - 0.81 * np.eye(len(p))) @ m
    constrain_matrix(weights, 0.9, "w")
    np.testing.assert_allclose(weights if rows <= cols else weights.T, expected, atol=ROUNDING)


def test_a_fixed_scale_is_reached() -> None:
    weights = matrix_with(np.linspace(0.8, 1.2, 5), 5, 9)
    for _ in range(20):
        constrain_matrix(weights, 1.0, "w")
    np.testing.assert_allclose(np.linalg.svd(weights, compute_uv=False), 1.0, atol=ROUNDING)


def test_a_floating_scale_changes_across_the_matrix_only() -> None:
    weights = matrix_with(np.linspace(2.8, 3.2, 5), 5, 9)
    before = np.float64(weights)
    constrain_matrix(weights, -1.0, "w")
    change = np.float64(weights) - before
    assert abs(np.vdot(change, before)) < 1e-5 * np.linalg.norm(change) * np.linalg.norm(before)    # float32 rounding
    for _ in range(30):
        constrain_matrix(weights, -5.0, "w")       # the size of a negative constraint says nothing
    values = np.linalg.svd(weights, compute_uv=False)
    np.testing.assert_allclose(values, values.mean(), rtol=ROUNDING)
    assert 2.8 < values.mean() < 3.2


@pytest.mark.parametrize(("spread", "divisor"), [(0.05, 1), (0.2, 2), (0.6, 4)])
def test_unequal_singular_values_slow_it_down(spread: float, divisor: int) -> None:
    values = np.linspace(1 - spread, 1 + spread, 6)
    weights = matrix_with(values, 6, 6)
    squares = values ** 2
    scale = np.sum(squares ** 2) / np.sum(squares)
    ratio = np.mean(squares ** 2) / np.mean(squares) ** 2
    assert (ratio > 1.02) + 2 * (ratio > 1.1) == {1: 0, 2: 1, 4: 3}[divisor]
    expected = values - 4 * 0.125 / divisor / scale * (squares - scale) * values
    constrain_matrix(weights, -1.0, "w")
    np.testing.assert_allclose(np.linalg.svd(weights, compute_uv=False), np.sort(expected)[::-1], atol=ROUNDING)


def test_zero_and_broken_matrices() -> None:
    weights = np.zeros((2, 3), dtype=np.float32)
    constrain_matrix(weights, -1.0, "w")
    assert not weights.any()
    with pytest.raises(NumericError, match="Ratio is nan in the orthonormal constraint of component w"):
        constrain_matrix(np.full((2, 3), np.nan, dtype=np.float32), -1.0, "w")


def test_one_draw_per_constrained_component(nnet: Nnet) -> None:
    before = {name: component(nnet, name).parameters() for name in ("a1", "l1", "a2")}
    before = {name: {key: value.copy() for key, value in values.items()} for name, values in before.items()}
    draws = iter([False, True])
    constrain_orthonormal(nnet, lambda: next(draws), get_ops("cpu"))()
    assert next(draws, None) is None
    assert np.array_equal(component(nnet, "l1").params, before["l1"]["params"])
    assert not np.array_equal(component(nnet, "a2").linear_params, before["a2"]["linear_params"])
    assert np.array_equal(component(nnet, "a2").bias_params, before["a2"]["bias_params"])


@pytest.mark.parametrize(("edit", "message"), [
    ("set-laerning-rate x=1", "Directive 'set-laerning-rate' is not currently supported .*did you mean 'set-l"),
    ("remove-orphans foo=1", "Could not interpret 'foo=1' in edit config line remove-orphans foo=1"),
    ("set-learning-rate name=a*", "expected learning-rate= to be set"),
    ("set-learning-rate-factor", "expected learning-rate-factor= to be set"),
    ("set-dropout-proportion", "expected proportion= to be set"),
    ("rename-node old-name=a1", "expected new-name= to be set"),
    ("rename-node old-name=a new-name=b", "there is no node called a"),
    ("rename-node old-name=a1_input new-name=b", "there is no node called a1_input"),
    ("rename-node old-name=a1 new-name=bn", "Node of requested name bn already exists"),
    ("rename-node old-name=a1 new-name=1b", "not allowable"),
    ("remove-output-nodes name=out*", "All outputs were removed"),
    ("apply-svd name=a1", "Either Bottleneck-dim or energy-threshold must be set"),
    ("apply-svd name=a1 bottleneck-dim=2", "must be below 1"),
    ("reduce-rank name=a1 rank=0", "Rank must be positive"),
])
def test_edits_that_are_refused(nnet: Nnet, edit: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        apply_edits(nnet, edit)


def test_patterns_are_literal_but_for_the_star(nnet: Nnet) -> None:
    apply_edits(nnet, "set-learning-rate name=.1 learning-rate=5")
    assert component(nnet, "a1").learning_rate < 1.0
    apply_edits(nnet, "set-learning-rate name=*1* learning-rate=5")
    assert component(nnet, "l1").learning_rate == 5.0


def test_svd_by_energy(nnet: Nnet) -> None:
    squares = np.linalg.svd(component(nnet, "a1").linear_params, compute_uv=False) ** 2
    expected = int(np.sum(np.cumsum(squares) < 0.6 * squares.sum())) + 1
    apply_edits(nnet, "apply-svd name=a1 energy-threshold=0.6 shrinkage-threshold=0.99")
    assert component(nnet, "a1_a").output_dim == expected


def test_no_energy_leaves_the_dimension(nnet: Nnet) -> None:
    apply_edits(nnet, "apply-svd name=a1 bottleneck-dim=2 energy-threshold=0 shrinkage-threshold=0.99")
    assert component(nnet, "a1_a").output_dim == 2


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
RELATIVE_ROUNDING = 1e-6     # of float32 products, relative


@pytest.fixture
def small() -> Nnet:
    return Nnet.from_config(TWO, seed=1)


def with_component(type_name: str, line: str) -> Nnet:
    """A network that holds the component, at no node, and two others."""
    nnet = Nnet.from_config(TWO, seed=1)
    nnet.add_component("c", f"type={type_name} {line}", seed=2)
    return nnet


def test_the_order_of_the_vector_is_kaldi_s(small: Nnet) -> None:
    a, linear = small.component("a").parameters(), small.component("l").parameters()
    expected = [*a["linear_params"].ravel(), *a["bias_params"], *linear["params"].ravel()]
    vector = vectorize(small)
    assert vector.dtype == np.float32 and vector.tolist() == expected and len(vector) == small.num_parameters() == 16


@pytest.mark.parametrize(("type_name", "line"), FORMS, ids=FORM_NAMES)
def test_a_vector_back_and_forth(type_name: str, line: str) -> None:
    nnet = with_component(type_name, line)
    other = nnet.copy()
    perturb(other, 0.5, seed=3)
    vector = vectorize(other)
    assert len(vector) == nnet.num_parameters()
    assert np.vdot(vector, vector) == pytest.approx(other.dot_product(other), rel=RELATIVE_ROUNDING)
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
    assert len(products) == count and sum(products) == pytest.approx(
        nnet.dot_product(other), rel=RELATIVE_ROUNDING, abs=1e-9)
    factors = [2.0, 0.0, -0.5][:count]
    scaled = nnet.copy()
    scale_components(scaled, factors)
    sizes = component_dot_products(nnet, nnet), component_dot_products(scaled, scaled)
    for before, after, factor in zip(*sizes, factors, strict=True):
        assert after == pytest.approx(before * factor * factor, rel=RELATIVE_ROUNDING)
    total = nnet.copy()
    add_components(total, other, factors, 0.25)
    for name, factor in zip([name for name, _ in updatable_components(nnet)], factors, strict=True):
        for key, value in total.component(name).parameters().items():
            expected = nnet.component(name).parameters()[key] + np.float32(factor) * other.component(
                name).parameters()[key]
            np.testing.assert_allclose(value, expected, atol=RELATIVE_ROUNDING)


def test_statistics_are_added_with_the_common_factor(small: Nnet) -> None:
    other = small.copy()
    for each, count in ((small, 10.0), (other, 4.0)):
        each.component("r").counters[0] = count      # type: ignore[attr-defined]
    add_components(small, other, [1.0, 1.0], 0.5)
    assert small.component("r").counters[0] == 12.0      # type: ignore[attr-defined]


def test_settings(small: Nnet) -> None:
    assert learning_rates(small) == pytest.approx([0.001, 0.001], rel=RELATIVE_ROUNDING)
    set_learning_rate(small, 0.1, "a*")
    assert learning_rates(small) == pytest.approx([0.05, 0.001], rel=RELATIVE_ROUNDING)
    version = small.version
    set_learning_rates(small, [0.25, 0.0])
    assert learning_rates(small) == [0.25, 0.0]
    assert small.version > version       # no derivatives are needed below a rate of 0: what was compiled is void
    assert (set_learning_rate_factor(small, 3.0, "l"), set_max_change(small, 0.75), set_l2_regularize(small, 0.5, "x*")
            ) == (1, 2, 0)
    line = small.component("l").info()
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


def test_printing(small: Nnet) -> None:
    assert format_per_component(small, [0.5, 1234567.0]) == "[ a:0.5 l:1.23457e+06 ]"


def test_what_is_refused(small: Nnet) -> None:
    other = Nnet.from_config(TWO.replace("output-dim=5", "output-dim=6").replace("dim=4", "dim=3"))
    before = vectorize(small)
    for wrong in (lambda: unvectorize(small, np.zeros(15)), lambda: unvectorize(small, np.zeros((4, 4))),
                  lambda: scale_components(small, [1.0]), lambda: add_components(small, small, [1.0] * 3, 1.0),
                  lambda: format_per_component(small, []), lambda: set_learning_rates(small, [0.1]),
                  lambda: component_dot_products(small, other), lambda: add_components(small, other, [1.0, 1.0], 1.0)):
        with pytest.raises(ShapeError):
            wrong()
    for bad in (lambda: perturb(small, -1.0), lambda: perturb(small, float("nan")),
                lambda: set_learning_rates(small, [0.1, -0.1]), lambda: set_max_change(small, float("inf")),
                lambda: set_l2_regularize(small, 1e39), lambda: set_learning_rate_factor(small, float("nan"))):
        with pytest.raises(UsageError):
            bad()
    assert np.array_equal(vectorize(small), before) and learning_rates(small) == pytest.approx(
        [0.001] * 2, rel=RELATIVE_ROUNDING)


COMPOSITE = """
input-node name=input dim=2
component name=c type=CompositeComponent num-components=2 \
component1='type=NaturalGradientAffineComponent input-dim=2 output-dim=8 learning-rate-factor=0.5' \
component2='type=RectifiedLinearComponent dim=8'
component name=b type=NaturalGradientAffineComponent input-dim=8 output-dim=2 learning-rate=0.01
component name=l type=LogSoftmaxComponent dim=2
component-node name=c component=c input=input
component-node name=b component=b input=c
component-node name=l component=l input=b
output-node name=output input=l
"""


@pytest.fixture(params=[("a", CLASSIFIER), ("c", COMPOSITE)], ids=["affine", "composite"])
def case(request: pytest.FixtureRequest) -> tuple[str, Nnet]:
    """The name of a component, and a network."""
    name, config = request.param
    return name, Nnet.from_config(config)


def vector(nnet: Nnet, name: str) -> np.ndarray:
    return updatable(nnet, name).vectorize()


def updatable(nnet: Nnet, name: str) -> UpdatableComponent:
    component = nnet.component(name)
    assert isinstance(component, UpdatableComponent)
    return component


def changes(nnet: Nnet, action: Callable[[], object]) -> set[str]:
    """The components whose parameters an action changes."""
    names = [name for name in nnet if nnet.component(name).parameters()]
    before = {name: vector(nnet, name) for name in names}
    action()
    return {name for name in names if not np.array_equal(vector(nnet, name), before[name])}


def test_rates_that_train_sets_do_not_undo_it(case: tuple[str, Nnet]) -> None:
    name, nnet = case
    set_learning_rate(nnet, 0.0, name)
    assert changes(nnet, lambda: nnet3py.train(nnet, points(64, 0), learning_rate=0.01)) == {name, "b"}
    assert nnet3py.freeze(nnet, name) == [name]
    assert changes(nnet, lambda: nnet3py.train(nnet, points(64, 0), learning_rate=0.01)) == {"b"}
    assert changes(nnet, lambda: nnet3py.train(nnet, points(64, 0))) == {"b"}
    assert nnet3py.unfreeze(nnet, name) == [name]
    assert changes(nnet, lambda: nnet3py.train(nnet, points(64, 0))) == {name, "b"}


def test_neither_l2_nor_momentum_moves_it(case: tuple[str, Nnet]) -> None:
    name, nnet = case
    for component in ("b", name):
        updatable(nnet, component).l2_regularize = 0.1
    trainer = NnetTrainer(nnet, TrainerOptions(momentum=0.9))
    egs = list(training_data(nnet, points(64, 0), MinibatchOptions(minibatch_size="1:16")).minibatches(0))
    trainer.train(egs[0])
    nnet3py.freeze(nnet, name)
    assert changes(nnet, lambda: trainer.train(egs[1])) == {"b"}
    for network in (nnet, trainer.delta):
        set_learning_rate(network, 0.05)
    assert changes(nnet, lambda: trainer.train(egs[2])) == {"b"}
    nnet3py.unfreeze(nnet, name)
    assert changes(nnet, lambda: trainer.train(egs[3])) == {name, "b"}
    assert updatable(trainer.delta, name).learning_rate == updatable(nnet, name).learning_rate


def test_a_callback_may_freeze(case: tuple[str, Nnet]) -> None:
    name, nnet = case
    seen = []

    def thaw_by_and_by(progress: Progress) -> None:
        seen.append(vector(nnet, name))
        if progress.epoch.epoch == 1:
            nnet3py.freeze(nnet, [name])

    nnet3py.train(nnet, points(64, 0), learning_rate=0.01, num_epochs=3, callbacks=[thaw_by_and_by])
    assert np.array_equal(seen[0], seen[1]) and np.array_equal(seen[0], seen[2])


@pytest.mark.parametrize("binary", [True, False])
def test_files_hold_it_and_commands_keep_to_it(case: tuple[str, Nnet], here: Path, binary: bool) -> None:
    name, nnet = case
    nnet3py.freeze(nnet, name)
    nnet.write("frozen.raw", binary)
    assert nnet3_copy.execute([
        "--learning-rate=0.02", "--edits=set-learning-rate learning-rate=0.03", "frozen.raw", "copy.raw"]) == 0
    nnet3py.write_egs("ark:egs.ark", [("e", eg) for eg in training_data(
        nnet, points(64, 0), MinibatchOptions(minibatch_size="1:16")).minibatches(0)])
    assert nnet3_train.execute(["copy.raw", "ark:egs.ark", "trained.raw"]) == 0
    copy, trained = nnet3py.read_nnet("copy.raw"), nnet3py.read_nnet("trained.raw")
    assert np.array_equal(vector(copy, name), vector(trained, name))
    assert not np.array_equal(vector(copy, "b"), vector(trained, "b"))
    assert nnet3py.unfreeze(trained) == [name]
    assert changes(trained, lambda: nnet3py.train(trained, points(64, 0))) == {name, "b"}
    rate = updatable(trained, "b").learning_rate
    assert (updatable(trained, name).learning_rate_factor, updatable(trained, name).learning_rate) == (1.0, rate)


def test_what_was_before_comes_back() -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    a = updatable(nnet, "a")
    a.learning_rate_factor = 0.5
    set_learning_rate(nnet, 0.02)
    nnet3py.freeze(nnet, "a")
    nnet3py.freeze(nnet, "a")
    assert (a.learning_rate, a.learning_rate_factor) == (0.0, 0.0)
    version = nnet.version
    assert nnet3py.unfreeze(nnet) == ["a"] and nnet3py.unfreeze(nnet) == []
    assert nnet.version > version
    assert (a.learning_rate, a.learning_rate_factor) == (pytest.approx(0.01), 0.5)
    nnet3py.freeze(nnet, "*")
    apply_edits(nnet, "set-learning-rate learning-rate=0.5")
    assert nnet3py.unfreeze(nnet, ["a", "b"]) == ["a", "b"]        # with the rate that was set last
    assert (a.learning_rate, updatable(nnet, "b").learning_rate) == (0.25, 0.5)
    nnet3py.freeze(nnet, "a")
    apply_edits(nnet, "set-learning-rate-factor name=a learning-rate-factor=0.25; set-learning-rate learning-rate=1"
                .replace("; ", "\n"))
    assert nnet3py.unfreeze(nnet, "a") == [] and a.learning_rate == 0.25


def test_a_whole_network_from_a_file_gets_kaldis_rate(tmp_path: Path) -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    nnet3py.freeze(nnet, "*")
    nnet.write(tmp_path / "all.raw")
    nnet = nnet3py.read_nnet(tmp_path / "all.raw")
    assert nnet3py.unfreeze(nnet) == ["a", "b"]
    assert [updatable(nnet, name).learning_rate for name in "ab"] == pytest.approx([0.001, 0.001])


def test_a_composite_s_rates_come_back() -> None:
    nnet = Nnet.from_config(COMPOSITE)
    nnet3py.freeze(nnet, "c")
    set_learning_rate(nnet, 0.5)
    nnet3py.unfreeze(nnet, "c")
    composite = updatable(nnet, "c")
    child = composite.children[0]
    assert isinstance(child, UpdatableComponent)
    assert (composite.learning_rate, child.learning_rate, child.learning_rate_factor) == (0.5, 0.25, 0.5)


@pytest.mark.parametrize(("pattern", "message"), [
    ("tdnn", "'tdnn' matches no component of the network .components with parameters are a, b"),
    ([], "expected a pattern"), (["a", 3], "a string, found int"),
    (["a", "r"], "'r' matches no component with parameters, only r .components with parameters are a, b"),
    ("[nl]", "matches no component of the network")])
def test_patterns_that_match_nothing(pattern: str | list[str], message: str) -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    for action in (nnet3py.freeze, nnet3py.unfreeze):
        with pytest.raises(UsageError, match=message):
            action(nnet, pattern)
    assert not updatable(nnet, "a").is_frozen


def test_the_name_of_a_layer_is_helped() -> None:
    nnet = Nnet.from_config(CLASSIFIER.replace("component name=a ", "component name=tdnn1.affine ")
                            .replace("component=a ", "component=tdnn1.affine "))
    with pytest.raises(UsageError, match=r"try 'tdnn1\*'"):
        nnet3py.freeze(nnet, "tdnn1")
    assert nnet3py.freeze(nnet, "tdnn1*") == ["tdnn1.affine"]


def test_the_orthonormal_constraint_leaves_it() -> None:
    nnet = Nnet.from_config("input-node name=input dim=4\n"
                            "component name=a type=LinearComponent input-dim=4 output-dim=3 "
                            "orthonormal-constraint=1.0\n"
                            "component-node name=a component=a input=input\noutput-node name=output input=a")

    def constrain() -> None:
        constrain_orthonormal(nnet, lambda: True, get_ops("cpu"))()

    assert changes(nnet, constrain) == {"a"}
    nnet3py.freeze(nnet, "a")
    assert changes(nnet, constrain) == set()


def test_fine_tuning_keeps_to_it() -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    nnet3py.freeze(nnet, "a")
    assert rate_factors(nnet, "all") == {"a": 0.0, "b": 1.0}
    with pytest.raises(UsageError, match="--layers=lower: nothing would be trained, since a are frozen"):
        rate_factors(nnet, "lower")
