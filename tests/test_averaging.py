"""nnet3py/training/averaging.py, nnet3-average and nnet3-show-progress: averages, changes of parameters."""
from __future__ import annotations

import logging
import re

import numpy as np
import pytest
from runtime_cases import TDNN, TDNN_CONTEXT, class_example, dense_example, parameters, plain
from test_diagnostics import objective

from nnet3py.cli.training.train import show_progress
from nnet3py.egs.example import EXAMPLE
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import perturb
from nnet3py.training.averaging import average_nnets, normalized_weights, objective_changes
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import NnetTrainer

ROUNDING = 1e-6       # one float32 product and sum per model


def test_weights(caplog):
    """A warning comes if they do not sum to one."""
    caplog.set_level(logging.WARNING)
    assert normalized_weights(None, 4) == [0.25] * 4
    assert normalized_weights([-1.0, 2.0], 2) == [-1.0, 2.0]
    normalized_weights([0.5, 0.505], 2)
    assert caplog.messages == []
    assert normalized_weights([2.0, 2.0], 2) == [0.5, 0.5]
    assert caplog.messages == ["Normalizing weights to sum to one, sum was 4"]


@pytest.mark.parametrize(("weights", "message"), [
    ([0.5], "found 1 weights, expected one for each of 2 models"), ([1.0, -1.0], "sum to 0"), ([np.nan, 1.0], "finite"),
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


TDNN_LAYER = """
input-node name=input dim=2
component name=a type=TdnnComponent input-dim=2 output-dim=2 time-offsets=0
component-node name=a component=a input=input
output-node name=output input=a
"""


@pytest.mark.parametrize(("config", "change"), [
    (TDNN, ("TanhComponent", "SigmoidComponent")), (TDNN_LAYER, ("offsets=0", "offsets=-1,0"))])
def test_models_must_be_alike(config, change):
    """A layer of one offset and one of two have the same dimensions, but other parameters."""
    pairs = [("first", Nnet.from_config(config)), ("second", Nnet.from_config(config.replace(*change)))]
    with pytest.raises(Nnet3Error, match="second has other components than first"):
        average_nnets(pairs, [0.5, 0.5])


def test_nothing_to_average():
    with pytest.raises(UsageError, match="no models"):
        average_nnets([], [])


CURVATURE = 1e-3      # what sixteen segments of a small step leave of the second order


def examples() -> list:
    left, right = TDNN_CONTEXT
    return [class_example(3, 4, seed=seed, left=left, right=right) for seed in range(3)]


def networks(stddev: float = 0.1) -> tuple[Nnet, Nnet]:
    old = Nnet.from_config(TDNN)
    new = old.copy()
    perturb(new, stddev, seed=3)
    return old, new


def test_changes_sum_to_the_change_of_the_objective():
    old, new = networks()
    found = objective_changes(old, new, examples(), 16)
    assert len(found) == 3
    assert sum(found) == pytest.approx(objective(new, examples()) - objective(old, examples()), abs=CURVATURE)
    assert max(np.abs(found)) > 10 * CURVATURE


def test_a_component_that_stays_changes_nothing():
    old = Nnet.from_config(TDNN)
    new = old.copy()
    for value in new.component("b").parameters().values():
        value += np.float32(0.05)
    found = objective_changes(old, new, examples(), 8)
    assert found[0] == found[2] == 0.0
    assert found[1] == pytest.approx(objective(new, examples()) - objective(old, examples()), abs=CURVATURE / 10)


def test_learning_rates_and_networks_stay_as_they_are():
    """The derivative is the plain one, whatever the learning rates; the networks are not touched."""
    old, new = networks()
    before = old.copy()
    expected = objective_changes(old, new, examples(), 1)
    for nnet in (old, new):
        for component in (nnet.component(name) for name in "abc"):
            component.set_underlying_learning_rate(7.0)
    assert objective_changes(old, new, examples()) == pytest.approx(expected, rel=1e-5)
    for name in "abc":
        for key, value in old.component(name).parameters().items():
            np.testing.assert_array_equal(value, before.component(name).parameters()[key])


def test_what_cannot_be_compared():
    old, new = networks()
    with pytest.raises(UsageError, match="No examples read"):
        objective_changes(old, new, [])
    eg = dense_example()
    with pytest.raises(Nnet3Error):
        objective_changes(old, new, [eg])       # without context


@pytest.fixture
def folder(here):
    """The current folder, with old.raw, new.raw, p.raw and egs."""
    for name, nnet in zip(("old.raw", "new.raw"), networks(), strict=True):
        nnet.write(name)
    plain().write("p.raw")
    write_table("ark:egs", EXAMPLE, ((f"e{i}", eg) for i, eg in enumerate(examples())))
    return here


def per_component(text: str, what: str) -> dict[str, float]:
    """The numbers of a ``[ a:1 b:2 ]`` line."""
    line = re.search(rf"^LOG \(nnet3-show-progress\[\S+\]:main\(\):nnet3-show-progress\.cc:\d+\) {what} \[ (.*) \]$",
                     text, re.MULTILINE)
    assert line is not None, what
    return {name: float(value) for name, value in (pair.split(":") for pair in line[1].split())}


def test_command(folder, capfd):
    assert show_progress.execute(["--num-segments=2", "old.raw", "new.raw", "ark:egs"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    old, new = networks()
    norm = {name: [np.sqrt(sum(float((value.astype(np.float64) ** 2).sum()) for value in values))
                   for values in (
                       [n - o for n, o in zip(new.component(name).parameters().values(),
                                              old.component(name).parameters().values(), strict=True)],
                       new.component(name).parameters().values(), old.component(name).parameters().values())]
            for name in "abc"}
    assert per_component(err, "Parameter differences per layer are") == pytest.approx(
        {name: values[0] for name, values in norm.items()}, rel=1e-4)
    assert per_component(err, "Norms of parameter matrices from <new-nnet-in> are") == pytest.approx(
        {name: values[1] for name, values in norm.items()}, rel=1e-4)
    assert per_component(err, "Relative parameter differences per layer are") == pytest.approx(
        {name: values[0] / values[2] for name, values in norm.items()}, rel=1e-4)
    assert set(per_component(err, "Total objf change per component is")) == set("abc")
    assert re.findall(r"At position (\S+), objf per frame is -\S+", err) == ["0.25", "0.75"]
    assert err.count("Overall log-likelihood for 'output' is") == err.count("Overall accuracy for 'output' is") == 2


def test_without_examples(folder, capfd):
    assert show_progress.execute(["old.raw", "old.raw"]) == 0
    err = capfd.readouterr().err
    assert set(per_component(err, "Relative parameter differences per layer are").values()) == {0.0}
    assert "objf" not in err


def test_networks_of_different_size(folder, capfd):
    assert show_progress.execute(["old.raw", "p.raw", "ark:egs"]) == 0
    err = capfd.readouterr().err
    assert "WARNING" in err and "Parameter-dim mismatch, cannot show progress." in err and "per layer" not in err


def test_the_difference_network(folder, capfd):
    assert show_progress.execute(["--verbose=1", "old.raw", "new.raw"]) == 0
    assert "VLOG[1]" in (err := capfd.readouterr().err) and "component name=a type=AffineComponent" in err


def test_no_examples(folder, capfd):
    write_table("ark:empty", EXAMPLE, {})
    assert show_progress.execute(["old.raw", "new.raw", "ark:empty"]) == 255
    assert "No examples read." in capfd.readouterr().err
