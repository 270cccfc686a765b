"""nnet3py/training/averaging.py: weighted sums of parameters and statistics."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from runtime_cases import TDNN, TDNN_CONTEXT, class_example, parameters

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.training.averaging import average_nnets, normalized_weights
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import NnetTrainer

ROUNDING = 1e-6       # one float32 product and sum per model


def test_weights():
    assert normalized_weights(None, 4) == [0.25] * 4
    assert normalized_weights([3.0, 1.0], 2) == [0.75, 0.25]
    assert normalized_weights([-1.0, 2.0], 2) == [-1.0, 2.0]


def test_weights_that_do_not_sum_to_one_are_warned_about(caplog):
    caplog.set_level(logging.WARNING)
    normalized_weights([0.5, 0.505], 2)
    assert caplog.messages == []
    assert normalized_weights([2.0, 2.0], 2) == [0.5, 0.5]
    assert caplog.messages == ["Normalizing weights to sum to one, sum was 4"]


@pytest.mark.parametrize(("weights", "message"), [
    ([0.5], "1 weights were given for 2 models"), ([1.0, -1.0], "sum to 0"), ([np.nan, 1.0], "finite"),
    ([np.inf, 1.0], "finite")])
def test_bad_weights(weights, message):
    with pytest.raises(UsageError, match=message):
        normalized_weights(weights, 2)


def trained(seed: int) -> Nnet:
    """A network with statistics."""
    nnet = Nnet.from_config(TDNN, seed=seed)
    left, right = TDNN_CONTEXT
    NnetTrainer(nnet, TrainerOptions()).train(class_example(seed=seed, left=left, right=right))
    return nnet


def test_parameters_and_statistics():
    nnets = [trained(seed) for seed in range(3)]
    weights = [0.5, 0.3, 0.2]
    wanted = {name: sum(w * parameters(n)[name] for w, n in zip(weights, nnets, strict=True))
              for name in parameters(nnets[0])}
    sums = sum(w * vars(n.component("t"))["value_sum"] for w, n in zip(weights, nnets, strict=True))
    rate = vars(nnets[0].component("a"))["learning_rate"]
    vars(nnets[1].component("a"))["learning_rate"] = 7.0
    result = average_nnets((("m", nnet) for nnet in nnets), weights)
    for name, value in parameters(result).items():
        np.testing.assert_allclose(value, wanted[name], atol=ROUNDING)
    np.testing.assert_allclose(vars(result.component("t"))["value_sum"], sums, atol=ROUNDING)
    assert vars(result.component("a"))["learning_rate"] == rate


def test_one_model_is_its_own_average():
    nnet = trained(0)
    before = parameters(nnet)
    for name, value in parameters(average_nnets([("m", nnet)], [1.0])).items():
        np.testing.assert_array_equal(value, before[name])


def test_models_are_taken_one_at_a_time():
    alive = []

    def models():
        for seed in range(3):
            alive.append(seed)
            yield f"m{seed}", Nnet.from_config(TDNN, seed=seed)
            assert alive[-1] == seed

    average_nnets(models(), [1 / 3] * 3)
    assert alive == [0, 1, 2]


def test_models_must_be_alike():
    other = TDNN.replace("TanhComponent", "SigmoidComponent")
    pairs = [("first", Nnet.from_config(TDNN)), ("second", Nnet.from_config(other))]
    with pytest.raises(Nnet3Error, match="second has other components than first"):
        average_nnets(pairs, [0.5, 0.5])


TDNN_LAYER = """
input-node name=input dim=2
component name=a type=TdnnComponent input-dim=2 output-dim=2 time-offsets={offsets}
component-node name=a component=a input=input
output-node name=output input=a
"""


def test_equal_dimensions_are_not_enough():
    """A layer of one offset and one of two have the same dimensions, but other parameters."""
    pairs = [("first", Nnet.from_config(TDNN_LAYER.format(offsets="0"))),
             ("second", Nnet.from_config(TDNN_LAYER.format(offsets="-1,0")))]
    with pytest.raises(Nnet3Error, match="second has other components than first"):
        average_nnets(pairs, [0.5, 0.5])


def test_nothing_to_average():
    with pytest.raises(UsageError, match="no models"):
        average_nnets([], [])
