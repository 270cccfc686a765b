"""Trained scales and offsets: blocks, in-place use, natural gradient, file forms, config lines."""
from __future__ import annotations

import numpy as np
import pytest
from component_cases import from_config, normal, read_text, reread
from numpy_ops import NumpyOps
from runtime_cases import assert_close, matrices_for, run_both, training_request

from nnet3py.compiler import compile
from nnet3py.components.elementwise import (
    ConstantComponent,
    ConstantFunctionComponent,
    NaturalGradientPerElementScaleComponent,
    PerElementOffsetComponent,
    PerElementScaleComponent,
    ScaleAndOffsetComponent,
)
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.config_line import ConfigLine
from nnet3py.errors import ConfigError, FormatError
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate
from nnet3py.runtime.computer import Computer

FLOAT32 = 1e-5     # sums of a few float32 products


MAKERS = {
    "scale": lambda: PerElementScaleComponent(normal(6)),
    "ng-scale": lambda: NaturalGradientPerElementScaleComponent(normal(6), OnlineNaturalGradient(2, 10)),
    "offset": lambda: PerElementOffsetComponent(normal(6), 6),
    "offset-block": lambda: PerElementOffsetComponent(normal(3), 6),
    "scale-offset": lambda: ScaleAndOffsetComponent(normal(6), normal(6, seed=1), 6, rank=2),
    "scale-offset-block": lambda: ScaleAndOffsetComponent(normal(3), normal(3, seed=1), 6, rank=2),
}
kinds = pytest.mark.parametrize("kind", MAKERS)


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


def test_update_period_of_scale_and_offset_depends_on_where_it_came_from():
    made = ScaleAndOffsetComponent.from_config(ConfigLine("dim=6"), np.random.default_rng(0))
    assert made.preconditioner_scale.update_period == 4
    assert reread(made).preconditioner_scale.update_period == 1


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
        read_text(kind, f"<LearningRate> 0.1 {text} </{kind.__name__}> ")


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


UPDATE = 1e-3      # of the change, which natural gradient scales; parameters are rounded by 3e-8


CONSTANT_MAKERS = {
    "function": lambda **options: ConstantFunctionComponent(normal(5), 3, **options),
    "function-square": lambda **options: ConstantFunctionComponent(normal(5), 5, **options),
    "constant": lambda **options: ConstantComponent(normal(5), **options),
}
constant_kinds = pytest.mark.parametrize("kind", CONSTANT_MAKERS)


def test_information_without_an_input():
    assert ConstantComponent(np.array([1, 3], dtype=np.float32)).info() == (
        "ConstantComponent, input-dim=2, output-dim=2, learning-rate=0.001, ConstantComponent, output-dim=2, "
        "is-updatable=true, use-natural-gradient=true, output-{mean,stddev}=2,1")


def test_no_input_is_wanted():
    component, indexes = CONSTANT_MAKERS["constant"](), np.array([[0, 1, 0], [2, -5, 3]], dtype=np.int32)
    wanted = component.input_indexes(indexes)
    assert wanted.shape == (2, 0, 3)
    computable, used = component.is_computable(indexes, np.zeros((2, 0), dtype=bool))
    assert computable.tolist() == [True, True] and used.shape == (2, 0)


@constant_kinds
def test_natural_gradient(kind, ops):
    component, dy = CONSTANT_MAKERS[kind](), normal(30, 5, seed=1)
    given, rows, before = dy.copy(), dy.copy(), component.output.copy()
    factor = OnlineNaturalGradient(4, 1).precondition(NumpyOps(), rows)
    component.freeze_natural_gradient(True)      # it is not reached, as in Kaldi
    component.backprop(ops, None, None, None, dy, None, component, None)
    change = 0.001 * factor * rows.sum(axis=0)
    np.testing.assert_allclose(component.output - before, change, rtol=0, atol=UPDATE * np.abs(change).max())
    np.testing.assert_array_equal(dy, given)
    assert component.preconditioner.t == 1 and not component.preconditioner.frozen
    assert (component.preconditioner.rank, component.preconditioner.update_period) == (4, 1)     # 40 lowered


@constant_kinds
def test_plain_gradient(kind, ops):
    for component in (CONSTANT_MAKERS[kind](use_natural_gradient=False), CONSTANT_MAKERS[kind]()):
        component.set_as_gradient()
        dy, before = normal(4, 5, seed=1), component.output.copy()
        component.backprop(ops, None, None, None, dy, None, component, None)
        np.testing.assert_allclose(component.output - before, dy.sum(axis=0), atol=FLOAT32)
        assert component.preconditioner.t == 0


@constant_kinds
def test_what_is_not_updatable_stays(kind, ops):
    component = CONSTANT_MAKERS[kind](is_updatable=False)
    before, other = component.output.copy(), CONSTANT_MAKERS[kind](is_updatable=False)
    component.backprop(ops, None, None, None, normal(4, 5), None, component, None)
    component.scale(0.0)
    component.add(2.0, other)
    np.testing.assert_array_equal(component.output, before)
    assert component.parameters() == {} and component.num_parameters() == 0
    assert CONSTANT_MAKERS[kind]().num_parameters() == 5


NETWORK = """
input-node name=input dim=3
component name=k type={type} output-dim=4 output-stddev=1 {keys}
component name=a type=LinearComponent input-dim=7 output-dim=2
component-node name=k component=k input={source}
component-node name=a component=a input=Append(input, k)
output-node name=output input=a
"""


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("updatable", [True, False])
@pytest.mark.parametrize(("type_name", "source"), [
    ("ConstantComponent", "Const(0.0, 4)"), ("ConstantComponent", "Append(Offset(input, 100), Const(0.0, 1))"),
    ("ConstantFunctionComponent", "input"), ("ConstantFunctionComponent", "Append(input, Const(2.0, 1))")])
def test_in_a_network(type_name, source, updatable, optimize):
    """Output and gradients; a ConstantComponent's input need not exist."""
    dims = {"ConstantComponent": ""}.get(type_name, f"input-dim={3 if source == 'input' else 4}")
    nnet = Nnet.from_config(NETWORK.format(type=type_name, source=source, keys=f"{dims} is-updatable={updatable}"))
    vector, weights = nnet.component("k").output, nnet.component("a").params
    request, gradient = training_request(), nnet.as_gradient()
    given = matrices_for(nnet, request)
    output, deriv = run_both(Computer(compile(nnet, request, optimize=optimize), nnet, gradient), given)
    x, dy = given["input"], given["output"]
    rows = [list(map(tuple, request.inputs[0].indexes)).index(tuple(index)) for index in request.outputs[0].indexes]
    assert_close(output, np.c_[x[rows], np.tile(vector, (len(rows), 1))] @ weights.T)
    expected = np.zeros_like(x)
    expected[rows] = (dy @ weights)[:, :3]
    assert_close(deriv, expected)
    assert_close(gradient.component("k").output, (dy @ weights)[:, 3:].sum(axis=0) if updatable else vector)


def test_the_learning_rate_of_what_is_not_updatable_stays():
    nnet = Nnet.from_config(NETWORK.format(type="ConstantComponent", source="Const(0.0, 4)", keys="is-updatable=false"))
    set_learning_rate(nnet, 0.5)
    assert [component.learning_rate for component in nnet.components] == [0.001, 0.5]


FUNCTION = "<InputDim> 3 <Output> [ 1 2 ] <IsUpdatable> T <UseNaturalGradient> F"
CONSTANT = "<Output> [ 1 2 ] <IsUpdatable> T <UseNaturalGradient> F"


@pytest.mark.parametrize(("kind", "text", "message"), [
    (ConstantFunctionComponent, CONSTANT, "expected <InputDim>, found '<Output>'"),
    (ConstantFunctionComponent, FUNCTION.replace("3", "0"), "expected a dimension between 1"),
    (ConstantFunctionComponent, FUNCTION.replace("3", "-3"), "found -3"),
    (ConstantFunctionComponent, FUNCTION.replace("<Output>", "<Params>"), "<Output>"),
    (ConstantFunctionComponent, FUNCTION.replace("[ 1 2 ]", "[ ]"), "the vector after <Output> is empty"),
    (ConstantComponent, FUNCTION, "expected <Output>, found '<InputDim>'"),
    (ConstantComponent, CONSTANT.replace("[ 1 2 ]", "[ ]"), "the vector after <Output> is empty"),
    (ConstantComponent, CONSTANT.replace("[ 1 2 ]", "[ 1 x ]"), "expected a number"),
    (ConstantComponent, CONSTANT.replace("T <Use", "5 <Use"), "expected T or F"),
    (ConstantComponent, CONSTANT.replace("<IsUpdatable> T", ""), "<IsUpdatable>"),
    (ConstantComponent, CONSTANT.replace("<UseNaturalGradient> F", ""), "<UseNaturalGradient>"),
    (ConstantComponent, CONSTANT + " <Dim>", "expected </ConstantComponent>|found <Dim>")])
def test_damaged_files_of_constant(kind, text, message):
    with pytest.raises(FormatError, match=message):
        read_text(kind, f"<LearningRate> 0.1 {text} </{kind.__name__}> ")


@pytest.mark.parametrize(("kind", "dims"), [(ConstantFunctionComponent, "input-dim=3 output-dim=2000"),
                                            (ConstantComponent, "output-dim=2000")])
def test_config_lines(kind, dims):
    plain = from_config(kind, dims)
    assert plain.output.shape == (2000,) and not plain.output.any()
    assert plain.is_updatable and plain.use_natural_gradient and plain.learning_rate == 0.001
    made = from_config(kind, f"{dims} output-mean=3 output-stddev=0.5 is-updatable=false use-natural-gradient=false "
                             "learning-rate=0.25 learning-rate-factor=2 max-change=3 l2-regularize=4")
    assert made.output.mean() == pytest.approx(3, abs=0.05) and made.output.std() == pytest.approx(0.5, rel=0.05)
    assert not made.is_updatable and not made.use_natural_gradient
    assert (made.learning_rate, made.learning_rate_factor, made.max_change, made.l2_regularize) == (0.25, 2, 3, 4)


def test_a_constant_has_no_key_for_an_input():
    with pytest.raises(ConfigError, match="Unused values 'input-dim=3'"):
        from_config(ConstantComponent, "input-dim=3 output-dim=3")
