"""nnet3py/training/gradients.py against finite differences of nnet3py.compute."""
from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from runtime_cases import LSTM, TDNN, assert_close

import nnet3py
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.network.nnet import Nnet

STEP = 1e-2
DIFFERENCES = 5e-3         # of a central difference with this step in float32, as a fraction of the largest derivative

WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=AffineComponent input-dim=8 output-dim=4
component name=n type=BatchNormComponent dim=4
component name=d type=DropoutComponent dim=4 dropout-proportion=0.5
component name=t type=TanhComponent dim=4
component-node name=a component=a input=Append(Offset(input, -1), Offset(input, 1), ReplaceIndex(ivector, t, 0))
component-node name=n component=n input=a
component-node name=d component=d input=n
component-node name=t component=t input=d
output-node name=output input=t objective=quadratic
"""


def features(frames: int = 6, dim: int = 3) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((frames, dim)).astype(np.float32)


def differences(value, array: np.ndarray) -> np.ndarray:
    """Central differences of a function of nothing, which sees ``array``, edited in place."""
    found = np.zeros(array.shape)
    for place in np.ndindex(array.shape):
        before = array[place]
        values = []
        for step in (STEP, -STEP):
            array[place] = before + step
            values.append(value())
        array[place] = before
        found[place] = (values[0] - values[1]) / (2 * STEP)
    return found


@pytest.mark.parametrize(("config", "output", "factor"), [
    (TDNN, "output", 1), (TDNN, "t", 1), (TDNN, "output", 3), (LSTM, "output", 1)])
def test_input_and_parameters(config: str, output: str, factor: int) -> None:
    nnet, feats = Nnet.from_config(config, seed=2), features()
    y = nnet3py.compute(nnet, feats, output=output, frame_subsampling_factor=factor)
    weights = np.random.default_rng(0).standard_normal(y.shape).astype(np.float32)

    def value() -> float:
        return float((weights * nnet3py.compute(nnet, feats, output=output, frame_subsampling_factor=factor)).sum(
            dtype=np.float64))

    found = nnet3py.gradients(nnet, feats, weights, output=output, frame_subsampling_factor=factor)
    dx, gradient = found
    assert_close(found.output, y)
    assert dx is found.input and dx.dtype == np.float32 and np.isnan(found.value) and found.ivector is None
    assert_close(dx, differences(value, feats), DIFFERENCES)
    bias = "gates" if config == LSTM else "a"
    assert_close(gradient[bias].parameters()["bias_params"],
                 differences(value, nnet[bias].parameters()["bias_params"]), DIFFERENCES)
    assert gradient.component_names == nnet.component_names
    if output == "t":
        assert not gradient["c"].parameters()["bias_params"].any()


def test_a_loss_and_targets() -> None:
    nnet, feats, classes = Nnet.from_config(TDNN, seed=2), features(), np.array([0, 3, 1, -1, 2, 2])
    found = nnet3py.gradients(nnet, feats, targets=classes)
    y, rows = found.output, np.flatnonzero(classes >= 0)
    assert found.value == pytest.approx(float(y[rows, classes[rows]].sum()), rel=1e-5)

    def loss(output: np.ndarray) -> tuple[float, np.ndarray]:
        deriv = np.zeros_like(output)
        deriv[rows, classes[rows]] = 1
        return float((deriv * output).sum()), deriv

    again = nnet3py.gradients(nnet, feats, loss=loss)
    assert again.value == pytest.approx(found.value, rel=1e-5)
    np.testing.assert_array_equal(again.input, found.input)


@pytest.mark.parametrize("training_mode", [False, True])
def test_self_repair_is_none_of_the_derivative(training_mode: bool) -> None:
    """Trained units that are always on would get some on every frame, also where no output depends on it."""
    nnet = Nnet.from_config(
        "input-node name=input dim=2\n"
        "component name=a type=NaturalGradientAffineComponent input-dim=4 output-dim=6 bias-mean=20\n"
        "component name=r type=RectifiedLinearComponent dim=6 self-repair-scale=0.05\n"
        "component name=b type=NaturalGradientAffineComponent input-dim=6 output-dim=2\n"
        "component-node name=a component=a input=Append(input, Offset(input, 1))\n"
        "component-node name=r component=r input=a\ncomponent-node name=b component=b input=r\n"
        "output-node name=output input=b objective=quadratic\n", seed=1)
    feats = features(40, 2)
    nnet3py.train(nnet, feats, np.zeros((40, 2), np.float32), minibatch_size=4)
    deriv = np.zeros((40, 2), np.float32)
    deriv[20] = 1.0
    gradient = nnet3py.gradients(nnet, feats, deriv, training_mode=training_mode)
    assert np.flatnonzero(gradient.input.any(axis=1)).tolist() == [20, 21]
    assert nnet["r"].self_repair_scale == np.float32(0.05)


def test_ivector_and_test_mode() -> None:
    nnet, feats, vector = Nnet.from_config(WITH_IVECTOR, seed=2), features(), np.array([0.5, -1], np.float32)
    norm = nnet["n"]
    norm.count[0], norm.sum[:], norm.sumsq[:] = 10, 1, 30
    target = np.zeros((6, 4))
    found = nnet3py.gradients(nnet, feats, targets=target, ivector=vector)

    def value() -> float:
        return -0.5 * float((nnet3py.compute(nnet, feats, vector).astype(np.float64) ** 2).sum())

    assert found.value == pytest.approx(value(), rel=1e-5) and found.ivector is not None
    assert_close(found.ivector, differences(value, vector), DIFFERENCES)
    assert not norm.test_mode and norm.count[0] == 10
    other = nnet3py.gradients(nnet, feats, targets=target, ivector=vector, training_mode=True)
    assert not np.allclose(other.output, found.output)


def test_files_and_models(tmp_path) -> None:
    nnet, feats = Nnet.from_config(TDNN, seed=2), features()
    nnet.write(tmp_path / "a.raw")
    ones = np.ones((6, 4))
    np.testing.assert_array_equal(nnet3py.gradients(str(tmp_path / "a.raw"), feats, ones).input,
                                  nnet3py.gradients(nnet, feats, ones).input)


def test_what_is_refused() -> None:
    nnet, feats = Nnet.from_config(TDNN), features()
    for wrong, error, message in (
            ({}, UsageError, "expected one of output_deriv, loss and targets"),
            ({"output_deriv": np.ones((6, 4)), "targets": [0] * 6}, UsageError, "expected one of"),
            ({"output_deriv": np.ones((6, 3))}, ShapeError, r"derivative of the output to be float \(6, 4\)"),
            ({"loss": lambda y: (0.0, y[:2])}, ShapeError, r"found \(2, 4\)"),
            ({"targets": [0, 1]}, ShapeError, r"expected integers \(6,\)"),
            ({"output_deriv": np.full((6, 4), np.nan)}, NumericError, "output"),
            ({"targets": [0] * 6, "frame_subsampling_factor": 0}, UsageError, "must be 1 or more"),
            ({"targets": [0] * 6, "output": "nobody"}, nnet3py.Nnet3Error, "no node 'nobody'")):
        with pytest.raises(error, match=message):
            nnet3py.gradients(nnet, feats, **wrong)         # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="one frame or more"):
        nnet3py.gradients(nnet, feats[:0], targets=np.zeros(0, int))


def test_what_they_are_is_kept_by_copies() -> None:
    nnet, feats = Nnet.from_config(TDNN, seed=1), np.ones((6, 3), np.float32)
    found = nnet3py.gradients(nnet, feats, targets=np.zeros(6, int))
    dx, parameters = found
    assert dx is found.input and parameters is found.nnet and len(found) == 2
    for other in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert isinstance(other, nnet3py.Gradients) and other.value == found.value and other.ivector is None
        np.testing.assert_array_equal(other.output, found.output)
        assert other.nnet == found.nnet
