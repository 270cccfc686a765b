"""nnet3py/network/freezing.py: what is frozen stays as it is, whatever sets learning rates afterwards."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_train import CLASSIFIER, points

import nnet3py
from nnet3py.cli.nnet.copy import copy as nnet3_copy
from nnet3py.cli.training.train import train as nnet3_train
from nnet3py.components.updatable import UpdatableComponent
from nnet3py.errors import UsageError
from nnet3py.fine_tuning.train import rate_factors
from nnet3py.network.edits import apply_edits
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import constrain_orthonormal, set_learning_rate
from nnet3py.ops import get_ops
from nnet3py.training.minibatches import MinibatchOptions
from nnet3py.training.train import Progress
from nnet3py.training.trainer import NnetTrainer, TrainerOptions
from nnet3py.training.training_data import training_data

COMPOSITE = """
input-node name=input dim=2
component name=c type=CompositeComponent num-components=2 \
component1='type=NaturalGradientAffineComponent input-dim=2 output-dim=8 learning-rate-factor=0.5' \
component2='type=RectifiedLinearComponent dim=8'
component name=b type=NaturalGradientAffineComponent input-dim=8 output-dim=2 learning-rate=0.01
component name=l type=LogSoftmaxComponent dim=2
component-node name=c component=c input=input
component-node name=b component=b input=c
component-node name=l component=l input=b
output-node name=output input=l
"""


@pytest.fixture(params=[("a", CLASSIFIER), ("c", COMPOSITE)], ids=["affine", "composite"])
def case(request: pytest.FixtureRequest) -> tuple[str, Nnet]:
    """The name of a component, and a network."""
    name, config = request.param
    return name, Nnet.from_config(config)


def vector(nnet: Nnet, name: str) -> np.ndarray:
    return updatable(nnet, name).vectorize()


def updatable(nnet: Nnet, name: str) -> UpdatableComponent:
    component = nnet.component(name)
    assert isinstance(component, UpdatableComponent)
    return component


def changes(nnet: Nnet, action: Callable[[], object]) -> set[str]:
    """The components whose parameters an action changes."""
    names = [name for name in nnet if nnet.component(name).parameters()]
    before = {name: vector(nnet, name) for name in names}
    action()
    return {name for name in names if not np.array_equal(vector(nnet, name), before[name])}


def test_rates_that_train_sets_do_not_undo_it(case: tuple[str, Nnet]) -> None:
    name, nnet = case
    set_learning_rate(nnet, 0.0, name)
    assert changes(nnet, lambda: nnet3py.train(nnet, points(64, 0), learning_rate=0.01)) == {name, "b"}
    assert nnet3py.freeze(nnet, name) == [name]
    assert changes(nnet, lambda: nnet3py.train(nnet, points(64, 0), learning_rate=0.01)) == {"b"}
    assert changes(nnet, lambda: nnet3py.train(nnet, points(64, 0))) == {"b"}
    assert nnet3py.unfreeze(nnet, name) == [name]
    assert changes(nnet, lambda: nnet3py.train(nnet, points(64, 0))) == {name, "b"}


def test_neither_l2_nor_momentum_moves_it(case: tuple[str, Nnet]) -> None:
    name, nnet = case
    for component in ("b", name):
        updatable(nnet, component).l2_regularize = 0.1
    trainer = NnetTrainer(nnet, TrainerOptions(momentum=0.9))
    egs = list(training_data(nnet, points(64, 0), MinibatchOptions(minibatch_size="1:16")).minibatches(0))
    trainer.train(egs[0])
    nnet3py.freeze(nnet, name)
    assert changes(nnet, lambda: trainer.train(egs[1])) == {"b"}
    for network in (nnet, trainer.delta):
        set_learning_rate(network, 0.05)
    assert changes(nnet, lambda: trainer.train(egs[2])) == {"b"}
    nnet3py.unfreeze(nnet, name)
    assert changes(nnet, lambda: trainer.train(egs[3])) == {name, "b"}
    assert updatable(trainer.delta, name).learning_rate == updatable(nnet, name).learning_rate


def test_a_callback_may_freeze(case: tuple[str, Nnet]) -> None:
    name, nnet = case
    seen = []

    def thaw_by_and_by(progress: Progress) -> None:
        seen.append(vector(nnet, name))
        if progress.epoch.epoch == 1:
            nnet3py.freeze(nnet, [name])

    nnet3py.train(nnet, points(64, 0), learning_rate=0.01, num_epochs=3, callbacks=[thaw_by_and_by])
    assert np.array_equal(seen[0], seen[1]) and np.array_equal(seen[0], seen[2])


@pytest.mark.parametrize("binary", [True, False])
def test_files_hold_it_and_commands_keep_to_it(case: tuple[str, Nnet], tmp_path: Path, binary: bool,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name, nnet = case
    nnet3py.freeze(nnet, name)
    nnet.write("frozen.raw", binary)
    assert nnet3_copy.execute([
        "--learning-rate=0.02", "--edits=set-learning-rate learning-rate=0.03", "frozen.raw", "copy.raw"]) == 0
    nnet3py.write_egs("ark:egs.ark", [("e", eg) for eg in training_data(
        nnet, points(64, 0), MinibatchOptions(minibatch_size="1:16")).minibatches(0)])
    assert nnet3_train.execute(["copy.raw", "ark:egs.ark", "trained.raw"]) == 0
    copy, trained = nnet3py.read_nnet("copy.raw"), nnet3py.read_nnet("trained.raw")
    assert np.array_equal(vector(copy, name), vector(trained, name))
    assert not np.array_equal(vector(copy, "b"), vector(trained, "b"))
    assert nnet3py.unfreeze(trained) == [name]
    assert changes(trained, lambda: nnet3py.train(trained, points(64, 0))) == {name, "b"}
    rate = updatable(trained, "b").learning_rate
    assert (updatable(trained, name).learning_rate_factor, updatable(trained, name).learning_rate) == (1.0, rate)


def test_what_was_before_comes_back() -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    a = updatable(nnet, "a")
    a.learning_rate_factor = 0.5
    set_learning_rate(nnet, 0.02)
    nnet3py.freeze(nnet, "a")
    nnet3py.freeze(nnet, "a")
    assert (a.learning_rate, a.learning_rate_factor) == (0.0, 0.0)
    version = nnet.version
    assert nnet3py.unfreeze(nnet) == ["a"] and nnet3py.unfreeze(nnet) == []
    assert nnet.version > version
    assert (a.learning_rate, a.learning_rate_factor) == (pytest.approx(0.01), 0.5)
    nnet3py.freeze(nnet, "*")
    apply_edits(nnet, "set-learning-rate learning-rate=0.5")
    assert nnet3py.unfreeze(nnet, ["a", "b"]) == ["a", "b"]        # with the rate that was set last
    assert (a.learning_rate, updatable(nnet, "b").learning_rate) == (0.25, 0.5)
    nnet3py.freeze(nnet, "a")
    apply_edits(nnet, "set-learning-rate-factor name=a learning-rate-factor=0.25; set-learning-rate learning-rate=1"
                .replace("; ", "\n"))
    assert nnet3py.unfreeze(nnet, "a") == [] and a.learning_rate == 0.25


def test_a_whole_network_from_a_file_gets_kaldis_rate(tmp_path: Path) -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    nnet3py.freeze(nnet, "*")
    nnet.write(tmp_path / "all.raw")
    nnet = nnet3py.read_nnet(tmp_path / "all.raw")
    assert nnet3py.unfreeze(nnet) == ["a", "b"]
    assert [updatable(nnet, name).learning_rate for name in "ab"] == pytest.approx([0.001, 0.001])


def test_a_composite_s_rates_come_back() -> None:
    nnet = Nnet.from_config(COMPOSITE)
    nnet3py.freeze(nnet, "c")
    set_learning_rate(nnet, 0.5)
    nnet3py.unfreeze(nnet, "c")
    composite = updatable(nnet, "c")
    child = composite.children[0]
    assert isinstance(child, UpdatableComponent)
    assert (composite.learning_rate, child.learning_rate, child.learning_rate_factor) == (0.5, 0.25, 0.5)


@pytest.mark.parametrize(("pattern", "message"), [
    ("tdnn", "'tdnn' matches no component of the network .components with parameters are a, b"),
    ([], "expected a pattern"), (["a", 3], "a string, found int"),
    (["a", "r"], "'r' matches no component with parameters, only r .components with parameters are a, b"),
    ("[nl]", "matches no component of the network")])
def test_patterns_that_match_nothing(pattern: str | list[str], message: str) -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    for action in (nnet3py.freeze, nnet3py.unfreeze):
        with pytest.raises(UsageError, match=message):
            action(nnet, pattern)
    assert not updatable(nnet, "a").is_frozen


def test_the_name_of_a_layer_is_helped() -> None:
    nnet = Nnet.from_config(CLASSIFIER.replace("component name=a ", "component name=tdnn1.affine ")
                            .replace("component=a ", "component=tdnn1.affine "))
    with pytest.raises(UsageError, match=r"try 'tdnn1\*'"):
        nnet3py.freeze(nnet, "tdnn1")
    assert nnet3py.freeze(nnet, "tdnn1*") == ["tdnn1.affine"]


def test_the_orthonormal_constraint_leaves_it() -> None:
    nnet = Nnet.from_config("input-node name=input dim=4\n"
                            "component name=a type=LinearComponent input-dim=4 output-dim=3 "
                            "orthonormal-constraint=1.0\n"
                            "component-node name=a component=a input=input\noutput-node name=output input=a")

    def constrain() -> None:
        constrain_orthonormal(nnet, lambda: True, get_ops("cpu"))()

    assert changes(nnet, constrain) == {"a"}
    nnet3py.freeze(nnet, "a")
    assert changes(nnet, constrain) == set()


def test_fine_tuning_keeps_to_it() -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    nnet3py.freeze(nnet, "a")
    assert rate_factors(nnet, "all") == {"a": 0.0, "b": 1.0}
    with pytest.raises(UsageError, match="--layers=lower: nothing would be trained, since a are frozen"):
        rate_factors(nnet, "lower")
