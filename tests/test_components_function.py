"""nnet3py/components/function.py: components that are one function of a number."""
from __future__ import annotations

import math

import numpy as np
import pytest
from runtime_cases import assert_close

import nnet3py
from nnet3py.components import registry
from nnet3py.errors import ConfigError

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
FLOAT32 = 1e-5          # rounding of a few operations, as a fraction of the largest value


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
    monkeypatch.setattr(registry, "_FROM_OUTSIDE", {})
    for cls in (SoftplusComponent, CubeComponent):
        nnet3py.register_component(cls)


def feats(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((7, 3)).astype(np.float32)


def test_it_computes_again_and_again() -> None:
    nnet = nnet3py.Nnet.from_config(CONFIG.format(type="SoftplusComponent"))
    for seed in range(5):         # calls are written down in the second run, and repeated from the third on
        between = nnet(feats(seed), output=["a", "s"])
        assert_close(between["s"], np.log1p(np.exp(between["a"])), FLOAT32)


def test_derivatives_and_files(tmp_path) -> None:
    nnet = nnet3py.Nnet.from_config(CONFIG.format(type="SoftplusComponent"))
    nnet.write(tmp_path / "a.raw", binary=False)
    nnet = nnet3py.read_nnet(tmp_path / "a.raw")
    assert "type=SoftplusComponent, dim=4" in nnet3py.info(nnet)
    w = {name: nnet[name].parameters()["linear_params"] for name in "ab"}
    x = feats(0)
    found = nnet3py.gradients(nnet, x, np.ones((7, 2)))
    slope = 1 / (1 + np.exp(-nnet(x, output="a")))
    assert_close(found.input, (np.ones((7, 2)) @ w["b"] * slope) @ w["a"], FLOAT32)


def test_it_learns_and_one_without_derivative_does_not() -> None:
    x, y = feats(0), np.random.default_rng(1).standard_normal((7, 2))
    config = CONFIG.format(type="SoftplusComponent") + "output-node name=output input=b objective=quadratic\n"
    nnet = nnet3py.Nnet.from_config(config.replace("output-node name=output input=b\n", ""))
    history = nnet3py.train(nnet, (x, y), num_epochs=20, learning_rate=0.02)
    assert history["objective"][-1] > 0.7 * history["objective"][0]
    cube = nnet3py.Nnet.from_config(CONFIG.format(type="CubeComponent"))
    between = cube(x, output=["a", "s"])
    assert_close(between["s"], between["a"] ** 3, FLOAT32)
    with pytest.raises(ConfigError, match="CubeComponent has no derivative"):
        nnet3py.gradients(cube, x, np.ones((7, 2)))
