"""nnet3py/training/trainer_state.py: a training goes on as if it had never stopped."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runtime_cases import TDNN, parameters
from test_array_trainer import CLASSES, FEATS, IVECTORS, WITH_IVECTOR

import nnet3py
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.training.trainer_state import draws_of, draws_state, network_arrays, prepared_estimates

COMPOSITE = """
input-node name=input dim=3
component name=c type=CompositeComponent num-components=2 \
 component1='type=NaturalGradientAffineComponent input-dim=3 output-dim=5' \
 component2='type=RectifiedLinearComponent dim=5'
component-node name=c component=c input=input
output-node name=output input=c objective=quadratic
"""


def test_a_state_goes_on_exactly(tmp_path: Path) -> None:
    """Momentum, natural gradient, dropout, the orthonormal constraint, statistics: as if it had never stopped."""
    def trainer(rate: float | None = None) -> nnet3py.Trainer:
        return nnet3py.Trainer(Nnet.from_config(WITH_IVECTOR, seed=2), momentum=0.5, srand=3, learning_rate=rate)

    whole, first, second = trainer(0.03), trainer(0.03), trainer()
    batches = list(zip(FEATS * 2, CLASSES * 2, strict=True))
    for number, (feats, classes) in enumerate(batches):
        whole.step(feats, classes, IVECTORS)
        if number < 7:
            first.step(feats, classes, IVECTORS)
    np.savez(tmp_path / "state.npz", **first.state_dict())
    second.load_state_dict(np.load(tmp_path / "state.npz"))
    assert second.num_steps == 7 and second.learning_rate == 0.03
    for feats, classes in batches[7:]:
        second.step(feats, classes, IVECTORS)
    mine, theirs = second.state_dict(), whole.state_dict()
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(mine[name], value, err_msg=name)
    assert {name.split(".")[0] for name in mine} == {"nnet", "momentum", "natural_gradient", "draws", "training"}
    assert "natural_gradient.0.a.w" in mine and theirs["momentum.b.params"].any()
    assert mine["nnet.r.stored"].any() and mine["nnet.n.count"] > 0


def test_a_state_of_another_network() -> None:
    state = nnet3py.Trainer(Nnet.from_config(TDNN)).state_dict()
    other = nnet3py.Trainer(Nnet.from_config(WITH_IVECTOR))
    before = parameters(other.nnet)
    with pytest.raises(ShapeError, match="the state has 'nnet.a.linear_params' of shape .5, 9., expected .4, 8."):
        other.load_state_dict(state)
    with pytest.raises(Nnet3Error, match="the state has no 'training.num_minibatches'"):
        other.load_state_dict({})
    for name, value in parameters(other.nnet).items():
        np.testing.assert_array_equal(before[name], value)


def test_names_of_arrays() -> None:
    nnet = Nnet.from_config(COMPOSITE)
    arrays = dict(network_arrays("nnet", nnet, with_statistics=True))
    inside = ["0.linear_params", "0.bias_params",
              *(f"1.{name}" for name in ("value_sum", "deriv_sum", "oderiv_sumsq", "counters", "stored"))]
    assert list(arrays) == [f"nnet.c.{name}" for name in inside]
    assert list(network_arrays("x", nnet, with_statistics=False))[0][1] is nnet["c"].children[0].linear_params
    trainer = nnet3py.Trainer(nnet)
    trainer.step(FEATS[0], np.ones((3, 4, 5)))
    assert sorted(name for name in trainer.state_dict() if name.endswith(".calls")) == [
        "natural_gradient.0.c.calls", "natural_gradient.1.c.calls"]


def test_estimates_that_do_not_belong_together() -> None:
    trainer = nnet3py.Trainer(Nnet.from_config(WITH_IVECTOR))
    trainer.step(FEATS[0], CLASSES[0], IVECTORS)
    state = trainer.state_dict()
    state["natural_gradient.0.a.gram"] = np.zeros((2, 3))
    before = trainer.state_dict()
    with pytest.raises(ShapeError, match="the state has 'natural_gradient.0.a.gram' of shape .2, 3., expected"):
        trainer.load_state_dict(state)
    after = trainer.state_dict()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_estimates_that_are_missing_begin_anew() -> None:
    trainer = nnet3py.Trainer(Nnet.from_config(WITH_IVECTOR))
    trainer.step(FEATS[0], CLASSES[0], IVECTORS)
    delta = trainer._trainer.delta
    preconditioner = delta["a"].preconditioner_in
    assert preconditioner.t == 1 and preconditioner.w is not None
    prepared_estimates(get_ops("cpu"), delta, {})()
    assert preconditioner.t == 0 and preconditioner.w is None
    trainer.step(FEATS[0], CLASSES[0], IVECTORS)
    assert preconditioner.t == 1


def test_draws_go_on() -> None:
    generator = np.random.Generator(np.random.Philox(key=7))
    generator.integers(0, 100, 5)
    other = draws_of(draws_state(generator))
    np.testing.assert_array_equal(other.integers(0, 2**40, 20), generator.integers(0, 2**40, 20))
