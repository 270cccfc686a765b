"""Trained vectors: Kaldi's case, networks with and without optimization, natural gradient, files, config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import CASES, assert_same_info, info_lines, read_ark, read_components, reread, written
from numpy_ops import NumpyOps
from runtime_cases import assert_close, matrices_for, run_both, training_request

from nnet3py.compiler import compile
from nnet3py.components.constant import ConstantComponent, ConstantFunctionComponent
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.components.updatable import UpdateSettings
from nnet3py.config_line import ConfigLine
from nnet3py.errors import ConfigError, FormatError
from nnet3py.io.tokens import TokenReader
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate
from nnet3py.ops import get_ops
from nnet3py.runtime.computer import Computer

FLOAT32 = 1e-5     # sums of a few float32 products, and Kaldi's in another order
UPDATE = 1e-3      # of the change, which natural gradient scales; parameters are rounded by 3e-8


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


MAKERS = {
    "function": lambda **options: ConstantFunctionComponent(normal(5), 3, **options),
    "function-square": lambda **options: ConstantFunctionComponent(normal(5), 5, **options),
    "constant": lambda **options: ConstantComponent(normal(5), **options),
}
kinds = pytest.mark.parametrize("kind", MAKERS)


@pytest.fixture(params=["numpy", "cpu"])
def ops(request):
    return NumpyOps() if request.param == "numpy" else get_ops("cpu")


# -- computing ---------------------------------------------------------------------------------------------------------


def test_kaldis_case(ops):
    """The net puts the vector beside the input and maps both."""
    folder = CASES / "constant-function"
    (k, _), (a, _) = read_components(folder / "nnet.raw").values()
    values = read_ark(folder / "io.ark")
    x, dy = values["input.input"], values["output-deriv.output"]
    vector = np.empty((len(x), 6), dtype=np.float32)
    k.propagate(ops, None, x, vector, None)
    both, y = np.concatenate([x, vector], axis=1), np.empty_like(dy)
    a.propagate(ops, None, both, y, None)
    np.testing.assert_allclose(y, values["output.output"], rtol=0, atol=FLOAT32)
    deriv = np.zeros_like(both)
    a.backprop(ops, None, both, None, dy, None, None, deriv)
    part = np.ascontiguousarray(deriv[:, 4:])
    gradient = k.copy()
    gradient.set_as_gradient()
    gradient.scale(0.0)
    for name, updated in (("gradient.raw", gradient), ("updated.raw", k)):
        ops.reset_scratch()
        before = updated.output.copy()
        k.backprop(ops, None, None, None, part, None, updated, None)
        expected = read_components(folder / name)["k"][0].output
        atol = UPDATE * np.abs(expected - before).max()
        np.testing.assert_allclose(updated.output, expected, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("binary", [True, False])
def test_kaldis_file_and_information(binary):
    folder = CASES / "constant-function"
    component, data = read_components(folder / f"nnet.{'raw' if binary else 'txt'}")["k"]
    assert written(component, binary) == data
    if binary:
        assert_same_info(component.info(), info_lines("constant-function")["k"])


def test_information_without_an_input():
    assert ConstantComponent(np.array([1, 3], dtype=np.float32)).info() == (
        "ConstantComponent, input-dim=2, output-dim=2, learning-rate=0.001, ConstantComponent, output-dim=2, "
        "is-updatable=true, use-natural-gradient=true, output-{mean,stddev}=2,1")


def test_flags():
    flags = [[int(make(is_updatable=on).properties) for on in (True, False)] for make in MAKERS.values()]
    assert flags == [[0x23, 0x21], [0x27, 0x25], [0x2, 0x0]]


def test_no_input_is_wanted():
    component, indexes = MAKERS["constant"](), np.array([[0, 1, 0], [2, -5, 3]], dtype=np.int32)
    wanted = component.input_indexes(indexes)
    assert wanted.shape == (2, 0, 3)
    computable, used = component.is_computable(indexes, np.zeros((2, 0), dtype=bool))
    assert computable.tolist() == [True, True] and used.shape == (2, 0)


@kinds
def test_the_input_derivative_stays_as_it_is(kind, ops):
    component, dx = MAKERS[kind](), normal(4, 3)
    before = dx.copy()
    component.backprop(ops, None, None, None, normal(4, 5), None, component, dx)
    np.testing.assert_array_equal(dx, before)


@kinds
def test_natural_gradient(kind, ops):
    component, dy = MAKERS[kind](), normal(30, 5, seed=1)
    given, rows, before = dy.copy(), dy.copy(), component.output.copy()
    factor = OnlineNaturalGradient(4, 1).precondition(NumpyOps(), rows)
    component.freeze_natural_gradient(True)      # it is not reached, as in Kaldi
    component.backprop(ops, None, None, None, dy, None, component, None)
    change = 0.001 * factor * rows.sum(axis=0)
    np.testing.assert_allclose(component.output - before, change, rtol=0, atol=UPDATE * np.abs(change).max())
    np.testing.assert_array_equal(dy, given)
    assert component.preconditioner.t == 1 and not component.preconditioner.frozen
    assert (component.preconditioner.rank, component.preconditioner.update_period) == (4, 1)     # 40 lowered


@kinds
def test_plain_gradient(kind, ops):
    for component in (MAKERS[kind](use_natural_gradient=False), MAKERS[kind]()):
        component.set_as_gradient()
        dy, before = normal(4, 5, seed=1), component.output.copy()
        component.backprop(ops, None, None, None, dy, None, component, None)
        np.testing.assert_allclose(component.output - before, dy.sum(axis=0), atol=FLOAT32)
        assert component.preconditioner.t == 0


@kinds
def test_what_is_not_updatable_stays(kind, ops):
    component = MAKERS[kind](is_updatable=False)
    before, other = component.output.copy(), MAKERS[kind](is_updatable=False)
    component.backprop(ops, None, None, None, normal(4, 5), None, component, None)
    component.scale(0.0)
    component.add(2.0, other)
    np.testing.assert_array_equal(component.output, before)
    assert component.parameters() == {} and component.num_parameters() == 0
    assert MAKERS[kind]().num_parameters() == 5


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


# -- files -------------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("binary", [True, False])
def test_files(kind, binary):
    """Also the settings that Kaldi writes but cannot read."""
    settings = UpdateSettings(0.5, 2.0, 0.75, 0.25, True)
    for options in ({}, {"is_updatable": False, "use_natural_gradient": False}, {"settings": settings}):
        component = MAKERS[kind](**options)
        again = reread(component, binary)
        assert written(again, binary) == written(component, binary)
        assert (again.is_updatable, again.use_natural_gradient, again.max_change, again.l2_regularize) == (
            component.is_updatable, component.use_natural_gradient, component.max_change, component.l2_regularize)
        assert (again.input_dim, again.output_dim) == (component.input_dim, 5)


def read_text(kind, text: str):
    data = (text + f" </{kind.__name__}> ").encode()
    return kind.read(TokenReader(io.BytesIO(data), size=len(data)))


FUNCTION = "<InputDim> 3 <Output> [ 1 2 ] <IsUpdatable> T <UseNaturalGradient> F"
CONSTANT = "<Output> [ 1 2 ] <IsUpdatable> T <UseNaturalGradient> F"


@pytest.mark.parametrize(("kind", "fields"), [(ConstantFunctionComponent, FUNCTION), (ConstantComponent, CONSTANT)])
def test_every_field_before_the_vector_may_be_missing(kind, fields):
    plain = read_text(kind, fields)
    assert (plain.learning_rate, plain.learning_rate_factor, plain.is_gradient) == (0.001, 1.0, False)
    assert plain.output.tolist() == [1, 2] and plain.is_updatable and not plain.use_natural_gradient
    assert read_text(kind, f"<{kind.__name__}> <LearningRate> 0.5 {fields}").learning_rate == 0.5
    assert read_text(kind, f"<LearningRateFactor> 2 {fields}").learning_rate_factor == 2
    assert read_text(kind, f"<IsGradient> T {fields}").is_gradient
    assert read_text(kind, f"<MaxChange> 2 <L2Regularize> 3 {fields}").max_change == 2


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
def test_damaged_files(kind, text, message):
    with pytest.raises(FormatError, match=message):
        read_text(kind, "<LearningRate> 0.1 " + text)


# -- config lines ------------------------------------------------------------------------------------------------------


def from_config(kind, text: str):
    line = ConfigLine(text)
    component = kind.from_config(line, np.random.default_rng(0))
    line.check_all_used()
    return component


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


@pytest.mark.parametrize(("kind", "text"), [
    (ConstantFunctionComponent, "output-dim=3"), (ConstantFunctionComponent, "input-dim=3"),
    (ConstantFunctionComponent, "input-dim=-1 output-dim=3"), (ConstantFunctionComponent, "input-dim=3 output-dim=0"),
    (ConstantFunctionComponent, "input-dim=3 output-dim=3 max-change=-1"), (ConstantComponent, ""),
    (ConstantComponent, "output-dim=0"), (ConstantComponent, "output-dim=3 learning-rate=-1")])
def test_impossible_config_lines(kind, text):
    with pytest.raises(ConfigError, match=f"Bad initializer {text}"):
        from_config(kind, text)


def test_a_constant_has_no_key_for_an_input():
    with pytest.raises(ConfigError, match="Unused values 'input-dim=3'"):
        from_config(ConstantComponent, "input-dim=3 output-dim=3")
