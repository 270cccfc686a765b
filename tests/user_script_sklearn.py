"""A program of somebody who checks types, with scikit-learn. ``test_types.py`` runs it and has mypy check it."""
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import nnet3py
from nnet3py.sklearn import Nnet3Classifier, Nnet3Regressor


def main() -> None:
    """Fit, predict, look at the network."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 4))
    classifier: Nnet3Classifier = Nnet3Classifier(hidden_dims=(8,), num_epochs=1, random_state=0)
    fitted: Nnet3Classifier = classifier.fit(rows, (rows[:, 0] > 0).astype(int))
    probabilities: NDArray[np.float64] = fitted.predict_proba(rows)
    regressor = Nnet3Regressor(hidden_dims=(8,), num_epochs=1, random_state=np.random.RandomState(0))
    predicted: NDArray[np.float64] = regressor.fit(rows, rows[:, 0].tolist()).predict(rows)
    nnet: nnet3py.Nnet = fitted.nnet_
    history: nnet3py.History = fitted.history_
    print(probabilities.shape, predicted.shape, nnet.num_parameters(), len(history), fitted.predict(rows).shape)


if __name__ == "__main__":
    main()
