"""Collapsing: the same function with fewer components."""
from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from nnet3py.network.collapse import collapse_model, prepare_for_test
from nnet3py.network.nnet import Nnet

HEAD = """
input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim=6
component-node name=a component=a input=input
component name=b type=NaturalGradientAffineComponent input-dim=12 output-dim=5
"""
ROUNDING = 5e-6     # float32 products of a dozen numbers around 1


def arrays(nnet: Nnet, name: str) -> tuple[np.ndarray, np.ndarray]:
    component: Any = nnet.component(name)
    return component.linear_params, component.bias_params


def test_affine_after_affine(caplog: pytest.LogCaptureFixture) -> None:
    nnet = Nnet.from_config(HEAD + "component-node name=b component=b input=Append(Offset(a, -1), a)\n"
                            "output-node name=output input=b\n")
    (w1, b1), (w2, b2) = arrays(nnet, "a"), arrays(nnet, "b")
    version = nnet.version
    with caplog.at_level(logging.INFO):
        collapse_model(nnet)
    assert nnet.config_lines() == ["input-node name=input dim=4",
                                   "component-node name=b component=a.b input=Append(Offset(input, -1), input)",
                                   "output-node name=output input=b objective=linear"]
    assert type(nnet.component("a.b")).__name__ == "AffineComponent"
    assert nnet.component_names == ["a.b"] and nnet.version > version
    weights, bias = arrays(nnet, "a.b")
    x = np.random.default_rng(0).standard_normal((7, 8)).astype(np.float32)
    hidden = np.hstack([x[:, :4] @ w1.T + b1, x[:, 4:] @ w1.T + b1])
    np.testing.assert_allclose(x @ weights.T + bias, hidden @ w2.T + b2, atol=ROUNDING)
    assert [record.getMessage() for record in caplog.records] == [
        "Removed 1 orphan nodes.", "Removing 2 orphan components.", "Added 1 components, removed 2"]


def test_a_scale_after_affine_and_chains() -> None:
    nnet = Nnet.from_config(HEAD + "component-node name=b component=b input=Append(a, Offset(a, 2))\n"
                            "component name=s type=FixedScaleComponent dim=5\n"
                            "component-node name=s component=s input=b\n"
                            "output-node name=output input=s\n")
    scales: Any = nnet.component("s")
    (w1, _), (w2, b2) = arrays(nnet, "a"), arrays(nnet, "b")
    b1 = arrays(nnet, "a")[1]
    collapse_model(nnet)
    assert nnet.component_names == ["a.b.s"]
    weights, bias = arrays(nnet, "a.b.s")
    expected = np.hstack([w2[:, :6] @ w1, w2[:, 6:] @ w1]) * scales.vector[:, None]
    np.testing.assert_allclose(weights, expected, atol=ROUNDING)
    np.testing.assert_allclose(bias, (b2 + w2 @ np.tile(b1, 2)) * scales.vector, atol=ROUNDING)


@pytest.mark.parametrize("descriptor", [
    "Append(a, input, Const(0, 2))", "Append(a, IfDefined(Offset(a, 1)))", "Append(a, Failover(Offset(a, 1), a))",
    "Append(a, Round(a, 2))", "Append(a, ReplaceIndex(a, t, 0))", "Append(a, Sum(a, Offset(a, 1)))",
    "Append(a, Switch(a, Offset(a, 1)))", "Append(Const(1, 6), a)",
])
def test_what_prevents_it(descriptor: str) -> None:
    nnet = Nnet.from_config(HEAD + f"component-node name=b component=b input={descriptor}\n"
                            "output-node name=output input=b\n")
    before = nnet.config_lines()
    collapse_model(nnet)
    assert nnet.config_lines() == before


def test_a_component_that_narrows_stays() -> None:
    config = HEAD.replace("output-dim=6", "output-dim=3").replace("input-dim=12", "input-dim=3")
    nnet = Nnet.from_config(config + "component-node name=b component=b input=a\noutput-node name=output input=b\n")
    collapse_model(nnet)
    assert nnet.component_names == ["a", "b"]


def test_what_others_read_stays() -> None:
    nnet = Nnet.from_config(HEAD + "component-node name=b component=b input=Append(a, a)\n"
                            "output-node name=output input=b\noutput-node name=second input=a\n")
    collapse_model(nnet)
    assert nnet.component_names == ["a", "a.b"]


def test_batchnorm_and_dropout_stay_and_are_in_test_mode() -> None:
    nnet = Nnet.from_config(HEAD + """
        component name=bn type=BatchNormComponent dim=6
        component-node name=bn component=bn input=a
        component name=d type=DropoutComponent dim=6 dropout-proportion=0.2
        component-node name=d component=d input=bn
        component-node name=b component=b input=Append(d, d)
        output-node name=output input=b""")
    bn: Any = nnet.component("bn")
    bn.count[0], bn.sumsq[...] = 4.0, 8.0
    assert prepare_for_test(nnet) is nnet
    assert nnet.component_names == ["a", "b", "bn", "d"]
    dropout: Any = nnet.component("d")
    assert bn.test_mode and dropout.test_mode
