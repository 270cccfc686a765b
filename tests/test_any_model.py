from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import DATA

import nnet3py
from nnet3py.errors import UsageError
from nnet3py.network.any_model import network_of, network_or_file

MODEL = DATA / "network" / "am-priors.mdl"


def test_an_acoustic_model_stands_for_its_network(tmp_path: Path) -> None:
    model = nnet3py.read_model(MODEL)
    assert network_of(model) is model.nnet and network_of(model.nnet) is model.nnet
    assert network_or_file(MODEL) == model.nnet and network_or_file(str(MODEL)) == model.nnet
    before = model["o"]["bias_params"].copy()
    nnet3py.freeze(model, "a")
    nnet3py.train(model, np.ones((20, 40), np.float32), np.arange(20) % 10, learning_rate=0.01)
    assert (model["o"]["bias_params"] != before).any() and model["a"].is_frozen
    assert nnet3py.for_inference(model) == nnet3py.for_inference(model.nnet)
    comparison = nnet3py.compare(model, MODEL)
    assert not comparison and [each.name for each in comparison.different] == ["o"]


@pytest.mark.parametrize(("given", "said"), [
    ("final.mdl", r"expected a network, found the path final.mdl \(nnet = nnet3py.read_nnet\('final.mdl'\)\)"),
    (np.zeros((3, 2)), r"found ndarray \(3, 2\) \(the network comes first"),
    (7, r"found int \(nnet3py.read_nnet\('final.raw'\) reads one\)")])
def test_anything_else_is_refused(given: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        network_of(given)                                                                      # type: ignore[arg-type]
