"""Estimators for scikit-learn: networks of nnet3 on rows of features, in pipelines, searches and cross-validation.

>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> from nnet3py.sklearn import Nnet3Classifier
>>> model = make_pipeline(StandardScaler(), Nnet3Classifier(hidden_dims=(256, 256), num_epochs=10)).fit(X, y)

Each row is a sequence of one frame: for utterances, and networks that look at neighboring frames, there is
:func:`nnet3py.train`. ``estimator.nnet_`` is the trained network, which ``write`` puts into a file that Kaldi reads.
Needs the extra ``sklearn``.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnet3py import extras
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.compute import compute
from nnet3py.training.options import TrainerOptions
from nnet3py.training.train import History, train
from nnet3py.xconfig import expand

_base = extras.load("sklearn.base", "estimators need", "sklearn", "scikit-learn")
_utils = extras.load("sklearn.utils", "estimators need", "sklearn", "scikit-learn")
_validation = extras.load("sklearn.utils.validation", "estimators need", "sklearn", "scikit-learn")
_multiclass = extras.load("sklearn.utils.multiclass", "estimators need", "sklearn", "scikit-learn")

__all__ = ["Nnet3Classifier", "Nnet3Regressor"]

_MOST_SEEDS = 2**31 - 1
_ROWS_AT_ONCE = 512             # rows computed as one, which decides the last bits of a sum

MakeNetwork = Callable[[int, int], Nnet]


class Nnet3Estimator(_base.BaseEstimator):      # type: ignore[misc, name-defined]
    """Base of :class:`Nnet3Classifier` and :class:`Nnet3Regressor`.

    Parameters
    ----------
    hidden_dims : dimensions of the hidden layers, each an affine map, a rectifier and batch normalization
    make_network : function that takes the dimensions of input and output and returns the network to train, with nodes
        ``input`` and ``output``, in place of one with ``hidden_dims``; a classifier's output is log-probabilities
    num_epochs : number of passes over the data
    learning_rate, final_learning_rate : learning rates at the beginning and the end, with exponential decay in
        between; None for a constant rate
    minibatch_size : number of rows of a minibatch
    validation_fraction : fraction of the data that is held out, at random, for ``patience``; 0 for none
    patience : number of passes without a better objective on held-out data after which training ends; 0 for all passes
    random_state : integer, ``numpy.random.RandomState``, or None for a different network in each fit

    Attributes
    ----------
    nnet_ : the trained network
    history_ : :class:`nnet3py.History` of the training
    n_features_in_ : number of columns of X
    n_iter_ : number of passes
    """

    def __init__(self, hidden_dims: Sequence[int] = (64, 64), *, make_network: MakeNetwork | None = None,
                 num_epochs: int = 20, learning_rate: float = 0.01, final_learning_rate: float | None = 0.001,
                 minibatch_size: int = 32, validation_fraction: float = 0.0, patience: int = 0,
                 random_state: int | np.random.RandomState | None = None) -> None:
        self.hidden_dims = hidden_dims
        self.make_network = make_network
        self.num_epochs = num_epochs
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.minibatch_size = minibatch_size
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state

    def _fit(self, x: np.ndarray, targets: np.ndarray, output_dim: int, output: str) -> None:
        """Make ``nnet_`` and train it on float32 rows; ``output`` is the options of the output layer, as a text."""
        if not 0.0 <= self.validation_fraction < 1.0:
            raise UsageError(f"validation_fraction={self.validation_fraction}: expected 0 (nothing) to below 1")
        random = _utils.check_random_state(self.random_state)
        if self.make_network is None:
            nnet = Nnet.from_config(_config(self.hidden_dims, x.shape[1], output_dim, output),
                                    seed=int(random.randint(_MOST_SEEDS)))
        else:
            nnet = self.make_network(x.shape[1], output_dim)
        _check_network(nnet, x.shape[1], output_dim)
        order = random.permutation(len(x))
        count = round(len(x) * self.validation_fraction)
        held_out, learned = order[:count], order[count:]
        validation = _rows(x[held_out], targets[held_out]) if count else None
        self.history_: History = train(
            nnet, _rows(x[learned], targets[learned]), validation=validation,
            num_epochs=self.num_epochs, learning_rate=self.learning_rate, final_learning_rate=self.final_learning_rate,
            minibatch_size=self.minibatch_size, patience=self.patience if count else 0,
            options=TrainerOptions(srand=int(random.randint(_MOST_SEEDS))))
        self.nnet_ = nnet
        self.n_iter_ = len(self.history_)

    def _output(self, x: ArrayLike) -> np.ndarray:
        """Return the network's output for float (rows, features), float64 (rows, output dim)."""
        _validation.check_is_fitted(self)
        rows = _validation.validate_data(self, x, reset=False, dtype=np.float32)
        padded = np.zeros((-(-len(rows) // _ROWS_AT_ONCE) * _ROWS_AT_ONCE, rows.shape[1]), np.float32)
        padded[:len(rows)] = rows
        return compute(self.nnet_, padded, frames_per_chunk=_ROWS_AT_ONCE)[:len(rows)].astype(np.float64)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if "nnet_" in state:                    # kernels need writable arrays; those that joblib maps are not
            self.nnet_ = self.nnet_.copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags


class Nnet3Classifier(_base.ClassifierMixin, Nnet3Estimator):      # type: ignore[misc, name-defined]
    """Classifier: a network with log-softmax output, trained with cross-entropy.

    Parameters
    ----------
    hidden_dims, make_network, num_epochs, learning_rate, final_learning_rate, minibatch_size, validation_fraction,
    patience, random_state : see :class:`Nnet3Estimator`

    Attributes
    ----------
    classes_ : classes in the order of output columns
    nnet_, history_, n_features_in_, n_iter_ : see :class:`Nnet3Estimator`
    """

    def fit(self, x: ArrayLike, y: ArrayLike) -> Nnet3Classifier:
        """Train on float (rows, features) and classes (rows,) of any type. Raises ValueError for invalid data."""
        rows, labels = _validation.validate_data(self, x, y, dtype=np.float32)
        _multiclass.check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"expected rows of two classes or more, found one class, {self.classes_[0]!r}")
        self._fit(rows, numbers.astype(np.int32), len(self.classes_), "")
        return self

    def predict_log_proba(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return log-probabilities, float64 (rows, classes)."""
        return self._output(x)

    def predict_proba(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities, float64 (rows, classes), whose rows sum to 1."""
        probabilities = np.exp(self._output(x))
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict(self, x: ArrayLike) -> np.ndarray:
        """Return the most likely class of each row, (rows,), of the type of ``y``; ``x`` is float (rows, features)."""
        likeliest = self._output(x).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])


class Nnet3Regressor(_base.RegressorMixin, Nnet3Estimator):      # type: ignore[misc, name-defined]
    """Regressor: a network trained with squared error on targets normalized to mean 0 and variance 1.

    Parameters
    ----------
    hidden_dims, make_network, num_epochs, learning_rate, final_learning_rate, minibatch_size, validation_fraction,
    patience, random_state : see :class:`Nnet3Estimator`

    Attributes
    ----------
    nnet_, history_, n_features_in_, n_iter_ : see :class:`Nnet3Estimator`
    """

    def fit(self, x: ArrayLike, y: ArrayLike) -> Nnet3Regressor:
        """Train on float (rows, features) and targets (rows,) or (rows, targets). Raises ValueError for bad data."""
        rows, values = _validation.validate_data(self, x, y, dtype=np.float32, multi_output=True, y_numeric=True)
        values = np.asarray(values, np.float64)
        targets = values.reshape(len(rows), -1)
        mean, scale = targets.mean(axis=0), targets.std(axis=0)
        self._mean, self._scale = mean, np.where(scale > 0.0, scale, 1.0)
        self._is_flat = values.ndim == 1
        self._fit(rows, ((targets - self._mean) / self._scale).astype(np.float32), targets.shape[1],
                  " objective-type=quadratic include-log-softmax=false")
        return self

    def predict(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return predictions, float64 of shape (rows,) or (rows, targets), as the ``y`` given to :meth:`fit`."""
        values = self._output(x) * self._scale + self._mean
        return values[:, 0] if self._is_flat else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _config(hidden_dims: Sequence[int], input_dim: int, output_dim: int, output: str) -> str:
    layers = [f"input dim={input_dim} name=input"]
    layers += [f"relu-batchnorm-layer name=hidden{number} dim={dim}" for number, dim in enumerate(hidden_dims, 1)]
    return expand("\n".join([*layers, f"output-layer name=output dim={output_dim}{output}", ""])).final


def _check_network(nnet: Nnet, input_dim: int, output_dim: int) -> None:
    if not isinstance(nnet, Nnet):
        raise UsageError(f"make_network gave {type(nnet).__name__}, expected a network (nnet3py.Nnet)")
    if (dims := (nnet.input_dim("input"), nnet.output_dim("output"))) != (input_dim, output_dim):
        raise Nnet3Error(f"make_network({input_dim}, {output_dim}) gave a network of dimensions {dims}, expected input "
                         f"dimension {input_dim} and output dimension {output_dim}")


def _rows(x: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reshape rows (rows, features) and targets to sequences of one frame: (rows, 1, features)."""
    return x[:, None], targets.reshape(len(x), 1, *targets.shape[1:])
