"""Training from Python, on arrays, tables or examples: passes, validation, early stopping, checkpoints, a history."""
from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from nnet3py import log
from nnet3py.advice import Advising, arguments_elsewhere, elsewhere
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.model_file import AnyModel, network_of
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode, set_learning_rate
from nnet3py.provided import Shown
from nnet3py.training.diagnostics import NnetDiagnostics
from nnet3py.training.minibatches import Minibatches
from nnet3py.training.objectives import LossLike, OutputObjectives
from nnet3py.training.options import DiagnosticOptions, MinibatchOptions, TrainerOptions
from nnet3py.training.trainer import NnetTrainer
from nnet3py.training.training_data import training_data

if TYPE_CHECKING:
    from nnet3py.training.minibatches import FeaturesOrData, TargetsOfAll, TrainingData

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Epoch:
    """Results of a pass over the training data.

    Objectives are per frame, summed over outputs, and larger is better; with a loss they are minus the loss.

    Attributes
    ----------
    epoch : the number of the pass, 1 for the first
    learning_rate : the rate of the pass; NaN if the components' own rates are used
    objective : the mean objective over the pass, while the network changed
    validation_objective, validation_accuracy : objective and accuracy on the validation data after the pass, in test
        mode; NaN without validation data. Accuracy is the fraction of frames whose largest output is the largest target
    num_minibatches : the number of minibatches in this pass
    seconds : the duration of the pass, validation included
    """

    epoch: int
    learning_rate: float
    objective: float
    validation_objective: float
    validation_accuracy: float
    num_minibatches: int
    seconds: float

    def __str__(self) -> str:
        validation = "" if math.isnan(self.validation_objective) else (
            f", validation objective {self.validation_objective:.6g}, accuracy {self.validation_accuracy:.4g}")
        return f"pass {self.epoch}: objective {self.objective:.6g} per frame{validation}, {self.seconds:.1f} s"


COLUMNS = tuple(column.name for column in fields(Epoch))


@dataclass
class History(Advising, Shown):
    """Record of a training by :func:`train`, with an :class:`Epoch` for each pass.

    ``history["objective"]`` is an array (epochs,) of this attribute of all epochs. ``history[-1]`` is the last epoch,
    and iteration yields all epochs in order.

    Attributes
    ----------
    epochs : the results of each pass
    best : the number of the epoch, from 1 on, after which the network had its final parameters: with ``patience`` the
        epoch with the best validation objective, else the last; 0 before the first pass has ended
    checkpoints : paths of the files that were written
    """

    epochs: list[Epoch] = field(default_factory=list)
    best: int = 0
    checkpoints: list[str] = field(default_factory=list)

    _WHAT: ClassVar[str] = "a history"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{
        "loss losses train_loss": "-history['objective']: objectives are what is maximized, losses with the other sign",
        "val_loss validation_loss": "-history['validation_objective']",
        "accuracy acc val_accuracy": "history['validation_accuracy']",
        "history dict to_dict as_dict": "history.arrays()",
        "to_pandas dataframe to_dataframe plot": "pandas.DataFrame(history.arrays())",
        **{name: f"history[{name!r}]" for name in COLUMNS}})

    @overload
    def __getitem__(self, name: str) -> NDArray[np.float64]: ...
    @overload
    def __getitem__(self, name: int) -> Epoch: ...

    def __getitem__(self, name: str | int) -> NDArray[np.float64] | Epoch:
        if isinstance(name, int):
            return self.epochs[name]
        if name not in COLUMNS:
            raise Nnet3Error(f"a history has no {name!r}", self._ELSEWHERE.get(name, f"it has {', '.join(COLUMNS)}"))
        return np.array([getattr(epoch, name) for epoch in self.epochs])

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return all attributes of the epochs by name, each float64 (epochs,)."""
        return {name: self[name] for name in COLUMNS}

    def __len__(self) -> int:
        return len(self.epochs)

    def __iter__(self) -> Iterator[Epoch]:
        return iter(self.epochs)

    def __repr__(self) -> str:
        count = f"{len(self)} pass{'es' if len(self) != 1 else ''}"
        return "\n".join([f"<History: {count}, the network is as after pass {self.best}>", *map(str, self.epochs)])


@dataclass
class Progress:
    """Progress of a training, the argument of callbacks after each pass.

    Attributes
    ----------
    epoch : the results of the pass that has ended
    nnet : the network, whose parameters a callback may change
    history : the results of all passes so far
    """

    epoch: Epoch
    nnet: Nnet
    history: History


Callback = Callable[[Progress], object]


def rate_of_pass(number: int, count: int, first: float, final: float = -1.0) -> float:
    """Return the learning rate of pass ``number`` (from 0) of ``count``: first (final / first)^(number / count).

    If ``final`` is not above 0, the rate is ``first``.
    """
    return float(first * (final / first if final > 0.0 else 1.0) ** (number / count))


@arguments_elsewhere(
    epochs_or_n_epochs_or_max_epochs="num_epochs=", lr_or_learn_rate_or_eta="learning_rate=",
    batch_size="minibatch_size=",
    validation_data_or_valid_or_val_or_eval_set="validation=(feats, classes)",
    device="options=nnet3py.TrainerOptions(device='cuda')", momentum="options=nnet3py.TrainerOptions(momentum=0.5)",
    seed_or_random_state_or_srand="options=nnet3py.TrainerOptions(srand=1)",
    optimizer_or_optim="it is Kaldi's natural gradient; with another one: module = nnet3py.to_torch(nnet)",
    verbose="nnet3py.show_log('INFO')",
    shuffle="the order is drawn anew in each pass; TrainerOptions(srand=1) seeds it",
    callback="callbacks=[function]", early_stopping="patience=3", targets_or_y_or_labels="train(nnet, feats, targets)",
    ivector_or_ivectors="train(nnet, [(feats, targets, ivector)])", criterion_or_objective="loss=")
def train(nnet: AnyModel, *data: FeaturesOrData | TargetsOfAll, loss: LossLike | Mapping[str, LossLike] | None = None,
          validation: TrainingData | None = None,
          num_epochs: int = 1, learning_rate: float | None = None, final_learning_rate: float | None = None,
          minibatch_size: int = 64, minibatches: MinibatchOptions | None = None, options: TrainerOptions | None = None,
          callbacks: Callback | Sequence[Callback] = (), patience: int = 0,
          checkpoints: str | os.PathLike[str] | None = None) -> History:
    """Train a network in place as ``nnet3-train`` does: natural gradient, max-change, momentum.

    >>> history = nnet3py.train(nnet, feats, classes, validation=(more, their_classes), num_epochs=5)
    >>> history["validation_accuracy"]

    Parameters
    ----------
    nnet : a network, or an acoustic model, whose network is trained; changed in place
    data : features and targets, arrays or tensors of PyTorch; or one argument: a list of (feats, targets), a data set
        or ``DataLoader`` of PyTorch, examples, the rspecifier of an archive of examples, or the rspecifiers of two
        tables: see :func:`nnet3py.training.training_data.training_data`. Targets are integers (frames,), or numbers
        (frames, dim), dense or sparse; with a loss, of any width
    loss : a loss to minimize instead of the objective of the output node: a function (output, target) that returns
        value and derivative, a loss of torch, or a :class:`nnet3py.Loss`, which has more settings; one for all outputs,
        or a dict by their names. Objectives in the history are then minus the loss
    validation : data of the same forms, a pair for features and targets, on which objective and accuracy are measured
        after each pass
    num_epochs : the number of passes over the data
    learning_rate : the rate of the first pass, which each component multiplies by its factor; None: the components' own
    final_learning_rate : the rate towards which the rate falls exponentially; None: the rate stays the same
    minibatch_size : the number of examples, or of frames for a network without context, in a minibatch; the last one
        may be smaller
    minibatches : options of making examples from utterances (context, lengths); its ``minibatch_size`` is ignored
    options : options of the trainer; ``options.srand`` seeds dropout and the order of the data
    callbacks : one function or several, called after each pass with a :class:`Progress`; the training ends if one
        returns True
    patience : the number of passes without a better validation objective after which the training ends, with the
        network as it was after the best pass; 0: the training never ends early
    checkpoints : a folder, made if it is missing, for the network after each pass as ``1.raw``, ``2.raw``, …:
        files for ``read_nnet``, ``nnet3-train`` and a driver's ``--input-model``

    Returns
    -------
    History : objectives and accuracies of each pass

    Raises
    ------
    UsageError : options that make no sense, or no data; classes as targets of an output that is no log-softmax, without
        a loss; a loss that does not return a value and a derivative
    ShapeError : data whose dimensions are not the network's
    NumericError : NaN or infinity in the data, in the trained network, or in a loss or its derivative
    Nnet3Error : files that cannot be read or written
    """
    nnet, options = network_of(nnet), options or TrainerOptions()
    if len(data) not in (1, 2):
        raise UsageError(f"expected data, or features and targets, found {len(data)} arguments",
                         "give i-vectors with features and targets: train(nnet, [(feats, targets, ivector)])")
    _check(num_epochs, minibatch_size, learning_rate, final_learning_rate, patience, validation)
    minibatches = replace(minibatches or MinibatchOptions(), minibatch_size=f"1:{minibatch_size}")
    objectives = OutputObjectives(nnet, loss)
    has_loss = "output" in objectives.losses
    source = training_data(nnet, data if len(data) == 2 else data[0], minibatches, has_loss)
    validator = None if validation is None else _Validator(training_data(nnet, validation, minibatches, has_loss),
                                                           options, objectives)
    folder = None if checkpoints is None else _folder(checkpoints)
    trainer, history, best = NnetTrainer(nnet, options, objectives), History(), None
    for number in range(num_epochs):
        rate = math.nan
        if learning_rate is not None:
            rate = rate_of_pass(number, num_epochs, learning_rate, final_learning_rate or -1.0)
            for network in (nnet, trainer.delta):
                set_learning_rate(network, rate)
        length = history.epochs[-1].num_minibatches if history.epochs else None
        epoch = _pass(trainer, source, number, rate, validator, length)
        history.epochs.append(epoch)
        logger.info("%s", epoch)
        if folder is not None:
            history.checkpoints.append(os.path.join(folder, f"{epoch.epoch}.raw"))
            nnet.write(history.checkpoints[-1])
        if not patience or epoch.validation_objective > max(history["validation_objective"][:-1], default=-math.inf):
            history.best, best = epoch.epoch, nnet.copy() if patience else None
        ends = [callback(Progress(epoch, nnet, history)) is True
                for callback in ([callbacks] if callable(callbacks) else callbacks)]
        if any(ends) or (patience and epoch.epoch - history.best >= patience):
            break
    trainer.log_totals()
    if best is not None and history.best < len(history):
        nnet.scale(0.0)
        nnet.add(1.0, best)
    return history


def _pass(trainer: NnetTrainer, source: Minibatches, number: int, rate: float, validator: _Validator | None,
          length: int | None) -> Epoch:
    begin, first = time.monotonic(), trainer.num_minibatches
    before = _totals(trainer)
    for eg in log.progress(source.minibatches(trainer.options.srand + number), f"pass {number + 1}", length):
        trainer.train(eg)
    trainer.synchronize()
    objective, weight = (after - earlier for after, earlier in zip(_totals(trainer), before, strict=True))
    measured = (math.nan, math.nan) if validator is None else validator.measure(trainer.nnet)
    return Epoch(number + 1, rate, objective / weight if weight else math.nan, *measured,
                 trainer.num_minibatches - first, time.monotonic() - begin)


def _totals(trainer: NnetTrainer) -> tuple[float, float]:
    stats = [stats for name, stats in trainer.objectives.items() if not name.endswith("_backstitch")]
    return sum(totals.total_objective for totals in stats), sum(totals.total_weight for totals in stats)


class _Validator:
    """Measurement of objective and accuracy on held-out data; each computation is compiled once."""

    def __init__(self, source: Minibatches, options: TrainerOptions, objectives: OutputObjectives) -> None:
        self._egs, self._objectives = list(source.minibatches(0)), objectives
        self._options = DiagnosticOptions(optimize=options.optimize, compiler=options.compiler, device=options.device)
        self._form: Nnet | None = None
        self._compiler: CachingCompiler | None = None

    def measure(self, nnet: Nnet) -> tuple[float, float]:
        """Return objective per frame and accuracy of a copy of the network in test mode."""
        if self._form is None:
            self._form = nnet.copy()
            set_batchnorm_test_mode(self._form, True)
            set_dropout_test_mode(self._form, True)
            self._compiler = CachingCompiler.with_options(self._form, self._options.optimize, self._options.compiler)
        tested = self._form.copy()
        tested.scale(0.0)
        tested.add(1.0, nnet)
        diagnostics = NnetDiagnostics(tested, self._options, compiler=self._compiler, objectives=self._objectives)
        for eg in self._egs:
            diagnostics.compute(eg)
        objective, weight = diagnostics.totals()
        outputs = diagnostics.outputs.values()
        counted = sum(output.accuracy_weight for output in outputs)
        return (objective / weight if weight else math.nan,
                sum(output.num_correct for output in outputs) / counted if counted else math.nan)


def _check(num_epochs: int, minibatch_size: int, learning_rate: float | None, final_learning_rate: float | None,
           patience: int, validation: TrainingData | None) -> None:
    rules = ((num_epochs >= 1, "num_epochs", num_epochs, "1 or more"),
             (minibatch_size >= 1, "minibatch_size", minibatch_size, "1 or more"),
             (patience >= 0, "patience", patience, "0 (never) or more"),
             (learning_rate is None or learning_rate > 0, "learning_rate", learning_rate, "above 0"),
             (final_learning_rate is None or final_learning_rate > 0, "final_learning_rate", final_learning_rate,
              "above 0"))
    for holds, name, value, wanted in rules:
        if not holds:
            raise UsageError(f"{name}={value} must be {wanted}")
    if final_learning_rate is not None and learning_rate is None:
        raise UsageError("final_learning_rate needs learning_rate", "give learning_rate, the rate of the first pass")
    if patience and validation is None:
        raise UsageError(f"patience={patience} needs validation data")


def _folder(path: str | os.PathLike[str]) -> str:
    folder = os.fspath(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder} for checkpoints ({error.strerror})") from None
    return folder
