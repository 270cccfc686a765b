"""Estimators for scikit-learn, by its own checks."""
from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the extra sklearn")

from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import nnet3py
from nnet3py.errors import Nnet3Error
from nnet3py.sklearn import Nnet3Classifier, Nnet3Regressor


@parametrize_with_checks([Nnet3Classifier((16,)), Nnet3Regressor((16,))])      # small: a hundred trainings
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


ROWS = 400
LEAST_ACCURACY, LEAST_R2 = 0.9, 0.9          # of easy data, on rows that were not trained on


def rings() -> tuple[np.ndarray, np.ndarray]:
    """Two classes, one around the other: no line divides them."""
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, 2))
    return x, np.where(np.hypot(*x.T) > 1.2, "outside", "inside")


def test_in_a_pipeline_and_a_search() -> None:
    x, y = rings()
    model = make_pipeline(StandardScaler(), Nnet3Classifier(num_epochs=10, random_state=0))
    search = GridSearchCV(model, {"nnet3classifier__hidden_dims": [(), (32, 32)]}, cv=2).fit(x[:300], y[:300])
    assert search.best_params_ == {"nnet3classifier__hidden_dims": (32, 32)}
    assert search.score(x[300:], y[300:]) > LEAST_ACCURACY
    assert pickle.loads(pickle.dumps(search)).score(x[300:], y[300:]) == search.score(x[300:], y[300:])


def test_numbers_of_any_size_and_several_at_once() -> None:
    x, _ = rings()
    y = np.stack([1e4 + 1e3 * np.tanh(x[:, 0]), 1e-4 * x.sum(axis=1)], axis=1)
    model = Nnet3Regressor(num_epochs=30, random_state=0).fit(x[:300], y[:300])
    assert model.predict(x[300:]).shape == (100, 2) and model.score(x[300:], y[300:]) > LEAST_R2


def test_the_network_is_one_for_kaldi(tmp_path: Path) -> None:
    x, y = rings()
    model = Nnet3Classifier((16,), num_epochs=3, random_state=1).fit(x, y)
    model.nnet_.write(str(tmp_path / "final.raw"))
    read = nnet3py.read_nnet(str(tmp_path / "final.raw"))
    same = 1e-6                  # rows are computed in blocks of another size
    assert np.allclose(nnet3py.compute(read, x.astype(np.float32)), model.predict_log_proba(x), atol=same, rtol=same)


def test_a_network_of_ones_own_and_early_stopping() -> None:
    x, y = rings()
    made: list[nnet3py.Nnet] = []

    def make(input_dim: int, output_dim: int) -> nnet3py.Nnet:
        nnet = nnet3py.Nnet.from_config(
            f"input-node name=input dim={input_dim}\n"
            f"component name=a type=NaturalGradientAffineComponent input-dim={input_dim} output-dim={output_dim}\n"
            f"component name=s type=LogSoftmaxComponent dim={output_dim}\n"
            "component-node name=a component=a input=input\ncomponent-node name=s component=s input=a\n"
            "output-node name=output input=s\n", seed=1)
        made.append(nnet)
        return nnet

    model = Nnet3Classifier(make_network=make, num_epochs=50, validation_fraction=0.2, patience=2, random_state=0)
    assert model.fit(x, y).nnet_ is made[0] and model.n_iter_ == len(model.history_) < 50
    with pytest.raises(Nnet3Error, match=r"make_network\(3, 2\) gave a network of dimensions \(2, 2\)"):
        Nnet3Classifier(make_network=lambda *dims: make(2, 2)).fit(np.hstack([x, x[:, :1]]), y)


@pytest.mark.parametrize("options, message", [
    ({"validation_fraction": 1.0}, "validation_fraction=1.0"), ({"num_epochs": 0}, "num_epochs=0 must be 1 or more"),
    ({"make_network": lambda *dims: None}, "gave NoneType, expected a network")])
def test_options_that_make_no_sense(options, message) -> None:
    with pytest.raises(Nnet3Error, match=message):
        Nnet3Classifier(**options).fit(*rings())
