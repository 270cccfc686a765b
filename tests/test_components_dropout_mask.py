"""DropoutMaskComponent: proportions, structure and repetition of its masks, networks, files and config lines."""
from __future__ import annotations

import io

import numpy as np
import pytest
from component_cases import reread, written
from own_ops import reference_ops
from runtime_cases import grid
from test_components_nonlinear import from_config

from nnet3py.compiler import compile
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.dropout_mask import DropoutMaskComponent
from nnet3py.errors import ConfigError, FormatError, NumericError
from nnet3py.io.tokens import TokenReader
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_dropout_test_mode
from nnet3py.ops import get_ops
from nnet3py.runtime.computer import Computer

FOUR_SIGMA = 4
ROWS = 2000


@pytest.fixture(params=["reference", "cpu"])
def ops(request):
    return reference_ops() if request.param == "reference" else get_ops("cpu")


def read_text(text):
    return DropoutMaskComponent.read(TokenReader(io.BytesIO(text.encode()), size=len(text)))


def mask(component, ops, rows: int = ROWS, seed: int = 1) -> np.ndarray:
    ops.random.begin_minibatch(seed, 0)
    ops.reset_scratch()
    y = np.full((rows, component.output_dim), np.nan, np.float32)
    component.propagate(ops, None, np.zeros((0, component.input_dim), np.float32), y, None)
    return y


def assert_shares(found: np.ndarray, expected: float, count: int) -> None:
    """Shares of ``count`` independent draws each, within four standard deviations."""
    assert (np.abs(found - expected) < FOUR_SIGMA * np.sqrt(expected * (1 - expected) / count)).all()


# -- masks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("proportion", [0.2, 0.7])
def test_zeros_and_ones(dim, proportion, ops):
    y = mask(DropoutMaskComponent(dim, proportion), ops)
    assert set(np.unique(y)) == {0.0, 1.0}                            # not scaled up
    assert_shares(y.mean(axis=0), 1 - proportion, ROWS)
    if dim in (2, 3):
        both = y[:, 0] * y[:, 1], (1 - y[:, 0]) * (1 - y[:, 1])       # kept, dropped
        if proportion < 0.5:
            assert not both[1].any()
            assert_shares(both[0].mean(), 1 - 2 * proportion, ROWS)
        else:
            assert not both[0].any()
    if dim == 3:
        assert_shares((y[:, 0] * y[:, 2]).mean(), (1 - proportion) ** 2, ROWS)    # the third is on its own
    if dim == 5:
        assert_shares((y[:, 0] * y[:, 1]).mean(), (1 - proportion) ** 2, ROWS)


def test_continuous_masks(ops):
    y = mask(DropoutMaskComponent(3, 0.25, continuous=True), ops)
    assert 0.5 <= y.min() < 0.51 and 1.49 < y.max() <= 1.5
    assert np.abs(y.mean(axis=0) - 1).max() < FOUR_SIGMA * np.sqrt(1 / 12 / ROWS)
    assert np.abs(np.corrcoef(y.T) - np.eye(3)).max() < FOUR_SIGMA / np.sqrt(ROWS)


@pytest.mark.parametrize("settings, expected", [
    ({"dropout_proportion": 0.0}, 1.0), ({"dropout_proportion": 0.0, "continuous": True}, 1.0),
    ({"dropout_proportion": 0.25, "test_mode": True}, 0.75), ({"dropout_proportion": 1.0, "test_mode": True}, 0.0),
    ({"dropout_proportion": 0.25, "test_mode": True, "continuous": True}, 1.0), ({"dropout_proportion": 1.0}, None)])
def test_constant_masks(settings, expected, ops):
    y = mask(DropoutMaskComponent(3, **settings), ops, 7)
    if expected is None:           # everything is dropped
        expected = 0.0
    np.testing.assert_array_equal(y, expected)


def test_the_seed_makes_the_mask(ops):
    component = DropoutMaskComponent(3, 0.4)
    first = mask(component, ops)
    np.testing.assert_array_equal(mask(component, ops), first)
    assert (mask(component, ops, seed=2) != first).any()


@pytest.mark.parametrize("proportion", [-0.5, 1.5, float("nan")])
def test_an_impossible_proportion(proportion, ops):
    with pytest.raises(NumericError, match="dropout proportion"):
        mask(DropoutMaskComponent(3, proportion), ops)


# -- networks ----------------------------------------------------------------------------------------------------------

LSTM = """
input-node name=input dim=3
component name=gates type=AffineComponent input-dim=5 output-dim=8 learning-rate=0.1
component name=mask type=DropoutMaskComponent output-dim=3 dropout-proportion=0.3
component name=cell type=LstmNonlinearityComponent cell-dim=2 use-dropout=true learning-rate=0.1
component-node name=mask component=mask input=mask
component-node name=gates component=gates input=Append(input, IfDefined(Offset(m, -1)))
component-node name=cell component=cell input=Append(gates, IfDefined(Offset(c, -1)), mask)
dim-range-node name=c input-node=cell dim-offset=0 dim=2
dim-range-node name=m input-node=cell dim-offset=2 dim=2
output-node name=output input=m
output-node name=output-mask input=mask
"""


def lstm_pass(nnet: Nnet, seed: int, optimize: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Output, masks and input derivative of two sequences of four frames."""
    request = ComputationRequest(
        [IoSpecification("input", grid(2, range(4)), True)],
        [IoSpecification("output", grid(2, range(4)), True), IoSpecification("output-mask", grid(2, range(4)), False)],
        True, False)
    ops = get_ops("cpu")
    ops.random.begin_minibatch(seed, 0)
    computer = Computer(compile(nnet, request, optimize=optimize), nnet, update=nnet.as_gradient(), ops=ops)
    computer.accept_input("input", np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32))
    computer.run()
    output, masks = computer.output("output").copy(), computer.output("output-mask").copy()
    computer.accept_input("output", np.ones((8, 2), np.float32))
    computer.run()
    return output, masks, computer.output("input").copy()


def test_a_node_that_names_itself_as_input():
    """As Kaldi's scripts write it: there is no input, but a component node must have one."""
    nnet = Nnet.from_config(LSTM, seed=1)
    output, masks, deriv = lstm_pass(nnet, 1)
    assert masks.shape == (8, 3) and set(np.unique(masks)) == {0.0, 1.0} and np.isfinite(deriv).all()
    for found, expected in zip(lstm_pass(nnet, 1, optimize=False)[:2], (output, masks), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (lstm_pass(nnet, 2)[1] != masks).any()
    set_dropout_test_mode(nnet, True)
    np.testing.assert_array_equal(lstm_pass(nnet, 1)[1], np.float32(1) - np.float32(0.3))


# -- files and config lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("continuous", [True, False])
def test_files(binary, continuous):
    component = DropoutMaskComponent(3, 0.25, continuous, True)
    again = reread(component, binary)
    assert vars(again) == vars(component) and written(again, binary) == written(component, binary)
    assert (b"<Continuous>" in written(component, binary)) == continuous


def test_text():
    text = ("<DropoutMaskComponent> <OutputDim> 3 <DropoutProportion> 0.25 <TestMode> T <Continuous> "
            "</DropoutMaskComponent> ")
    assert written(DropoutMaskComponent(3, 0.25, True, True), False).decode() == text
    assert vars(read_text(text)) == vars(DropoutMaskComponent(3, 0.25, True, True))
    assert vars(read_text(text.partition(" ")[2])) == vars(read_text(text))


def test_older_files():
    """Those without test mode, and proportions that the reader lets pass."""
    component = read_text("<OutputDim> 3 <DropoutProportion> 0.25 </DropoutMaskComponent> ")
    assert vars(component) == vars(DropoutMaskComponent(3, 0.25))
    component = read_text("<OutputDim> 3 <DropoutProportion> 0.25 <Continuous> </DropoutMaskComponent> ")
    assert vars(component) == vars(DropoutMaskComponent(3, 0.25, True))
    assert read_text("<OutputDim> 3 <DropoutProportion> 2 </DropoutMaskComponent> ").dropout_proportion == 2.0


@pytest.mark.parametrize("text", [
    "<OutputDim> 0 <DropoutProportion> 0.25 </DropoutMaskComponent> ", "<OutputDim> 3 <DropoutProportion> x ",
    "<OutputDim> 3 <DropoutProportion> 0.25 <TestMode> </DropoutMaskComponent> ",
    "<OutputDim> 3 <DropoutProportion> 0.25 <Continuous> T </DropoutMaskComponent> ",
    "<OutputDim> 3 <DropoutProportion> 0.25 <Continuous> <TestMode> T </DropoutMaskComponent> ",
    "<OutputDim> 3 <DropoutProportion> 0.25 ", "<Dim> 3 <DropoutProportion> 0.25 </DropoutMaskComponent> "])
def test_damaged_files(text):
    with pytest.raises(FormatError):
        read_text(text)


def test_config():
    component = from_config(DropoutMaskComponent, "output-dim=3")
    assert vars(component) == vars(DropoutMaskComponent(3, 0.5))
    assert component.info() == "DropoutMaskComponent, output-dim=3, dropout-proportion=0.5"
    component = from_config(DropoutMaskComponent, "output-dim=3 dropout-proportion=0.1 continuous=true test-mode=true")
    assert vars(component) == vars(DropoutMaskComponent(3, 0.1, True, True))
    assert component.info() == "DropoutMaskComponent, output-dim=3, dropout-proportion=0.1, continuous=true"
    assert int(component.properties) == 0x2000 and component.input_dim == component.output_dim == 3
    for text in ("", "output-dim=0", "output-dim=3 dropout-proportion=1.5", "output-dim=3 dropout-proportion=-0.1"):
        with pytest.raises(ConfigError, match="Invalid initializer for layer of type DropoutMaskComponent"):
            from_config(DropoutMaskComponent, text)
