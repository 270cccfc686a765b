"""What one types first at a network: nnet(feats), nnet["name"], iteration, its text."""
from __future__ import annotations

import numpy as np
import pytest
from runtime_cases import LSTM, TDNN

import nnet3py
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import DimRangeNode, InputNode


def test_calling_a_network_computes() -> None:
    nnet, feats = Nnet.from_config(TDNN), np.random.default_rng(0).standard_normal((12, 3))
    np.testing.assert_array_equal(nnet(feats), nnet3py.compute(nnet, feats))
    assert nnet(feats, output="t").shape == (12, 5)


def test_items_are_components_then_nodes() -> None:
    nnet = Nnet.from_config(LSTM)
    assert nnet["gates"] is nnet.component("gates")
    assert isinstance(nnet["input"], InputNode) and isinstance(nnet["m"], DimRangeNode)
    named = Nnet.from_config(TDNN.replace("component-node name=a component=a", "component-node name=first component=a")
                             .replace("input=a\n", "input=first\n"))
    assert named["first"] is named.component("a")


@pytest.mark.parametrize(("name", "hint"), [("gate", "did you mean 'gates'"), (0, "it has gates, cell, out, input")])
def test_a_name_that_is_not_there(name: object, hint: str) -> None:
    with pytest.raises(nnet3py.Nnet3Error, match=f"no component or node {name!r} .{hint}"):
        Nnet.from_config(LSTM)[name]        # type: ignore[index]


def test_iteration_gives_the_names_of_components() -> None:
    nnet = Nnet.from_config(TDNN)
    assert list(nnet) == nnet.component_names and "t" in nnet and "output" in nnet and "nobody" not in nnet
    assert {name: nnet[name] for name in nnet} == dict(nnet.named_components())
    assert not Nnet().component_names and Nnet(), "an empty network is true, too"


def test_text() -> None:
    nnet = Nnet.from_config(TDNN)
    assert repr(nnet) == "<Nnet: input (3) -> output (4), 6 components, 130 parameters>"
    assert repr(nnet["a"]) == "<AffineComponent 9 -> 5: linear_params 5 x 9, bias_params 5>"
    assert repr(nnet["t"]) == "<TanhComponent 5 -> 5>"
    assert repr(Nnet()) == "<Nnet: no input -> no output, 0 components, 0 parameters>"
    nnet.nodes[1].descriptor = nnet.nodes[-1].descriptor        # edited by hand, and wrong
    assert "input (3)" in repr(nnet)
