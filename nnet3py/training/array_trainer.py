"""Training step by step on arrays or tensors, for training loops that users write. ``trainer.py`` has the steps."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from nnet3py.advice import Advising, elsewhere
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.config_line import did_you_mean
from nnet3py.egs.example import NnetIo
from nnet3py.errors import ShapeError, UsageError, within
from nnet3py.formats.general import GeneralMatrix, check_finite, to_dense
from nnet3py.network.model_file import AnyModel, network_of
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate
from nnet3py.runtime.blas_threads import BlasAlone
from nnet3py.runtime.computer import Computer
from nnet3py.training.objectives import Frames, LossLike, LossTarget, OutputObjectives, kaldi_derivative, loss_objective
from nnet3py.training.options import TrainerOptions, TrainerSettings
from nnet3py.training.targets import as_array, is_array
from nnet3py.training.trainer import MinibatchTrainer, NodeRows
from nnet3py.training.training_data import ArrayInputs, supervision_of

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from nnet3py.training.minibatches import Array


@dataclass(frozen=True)
class _Output:
    """An output in a minibatch, with the target for a loss, or the supervision for the node's own objective."""

    # as in ``NnetIo``
    name: str
    indexes: np.ndarray
    frames: Frames    # the order of the rows
    # one of them is None; both are None before the targets are given
    target: LossTarget | None = None
    supervision: GeneralMatrix | None = None


@dataclass(frozen=True)
class _Minibatch:
    inputs: list[NnetIo]
    outputs: list[_Output]


@dataclass(frozen=True)
class _Forward:
    """A minibatch between the forward and the backward pass."""

    minibatch: _Minibatch
    computer: Computer
    is_single: bool       # whether the features are of one sequence, without an axis of sequences
    has_one_name: bool    # whether the outputs were requested by one name, not by a list of names


class _ArrayTrainer(MinibatchTrainer[_Minibatch]):
    """Trainer on minibatches of arrays; ``values`` are the outputs' losses in the last minibatch, by name."""

    def __init__(self, nnet: Nnet, options: TrainerOptions, objectives: OutputObjectives) -> None:
        super().__init__(nnet, options)
        self._objectives = objectives
        self.values: dict[str, float] = {}

    def _request(self, eg: _Minibatch) -> ComputationRequest:
        return ComputationRequest([IoSpecification(io.name, io.indexes) for io in eg.inputs],
                                  [IoSpecification(io.name, io.indexes, has_deriv=True) for io in eg.outputs],
                                  need_model_derivative=True, store_component_stats=self.options.store_component_stats)

    def _inputs(self, eg: _Minibatch) -> Iterable[NnetIo]:
        return eg.inputs

    def _node_rows(self, eg: _Minibatch) -> Iterable[NodeRows]:
        return chain(eg.inputs, eg.outputs)

    def _process_outputs(self, computer: Computer, eg: _Minibatch, suffix: str) -> None:
        for io in eg.outputs:
            output, deriv = computer.output_view(io.name), computer.input_view(io.name)
            if io.target is not None:
                with within(f"minibatch {self.num_minibatches}"):
                    objective, self.values[io.name] = loss_objective(
                        self._objectives.losses[io.name], io.name, computer.ops, io.target, output, deriv)
            else:
                assert io.supervision is not None
                objective = self._objectives.queue_own(computer.ops, io.name, io.supervision, output, deriv)()
                self.values[io.name] = -objective.value / (objective.weight or 1.0)
            self._count(io.name + suffix, *objective)

    def forward(self, eg: _Minibatch) -> Computer:
        """Run the forward pass of a step."""
        self._follow_freezing()
        computer = self._computers.computer(self._request(eg))
        with BlasAlone():
            self._forward(computer, eg)
        return computer

    def backward(self, computer: Computer, eg: _Minibatch, derivatives: Mapping[str, np.ndarray]) -> None:
        """Run the backward pass and the update of a step, from derivatives of objectives, float32 (rows, dim)."""
        for name, derivative in derivatives.items():
            computer.accept_input(name, derivative)
        with BlasAlone():
            self._backward(computer, eg, self._whole_step())
        self.num_minibatches += 1


class Trainer(Advising):
    """Trainer of a network, in place, step by step on arrays or tensors, for a training loop that you write.

    A step is one of ``nnet3-train``: natural gradient, max-change, momentum, l2, the orthonormal constraint.
    :func:`nnet3py.train` has a loop already; :class:`nnet3py.NnetTrainer` takes examples, such as those of archives.

    >>> trainer = nnet3py.Trainer(nnet, learning_rate=0.005, loss=torch.nn.CrossEntropyLoss(), momentum=0.5)
    >>> for feats, classes in loader:
    ...     value = trainer.step(feats, classes)
    >>> trainer.nnet.write("final.raw")

    Parameters
    ----------
    nnet : the network, which is changed in place
    loss : a loss to minimize in place of the objective of the output nodes: a :class:`nnet3py.Loss`, or a function or
        module to make one of; or a dict of these by the names of outputs. None: the nodes' objectives
    learning_rate : the rate, which each component multiplies by its factor; None: the components' own rates
    frame_subsampling_factor : frames of features for each row of output
    padding : whether to pad features by copies of the first and the last frame for the network's context; False:
        features contain the context, so that outputs have fewer frames
    options : options of the training, :class:`nnet3py.TrainerOptions`
    settings : attributes of the options by name: ``momentum=0.5, max_param_change=1.0, device="cuda"``

    Raises
    ------
    UsageError : options, losses or outputs that do not exist, or that make no sense
    Nnet3Error : a network with other inputs than ``input`` and ``ivector``
    """

    _WHAT: ClassVar[str] = "a trainer"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{
        "fit train train_step update": "trainer.step(feats, targets) for each minibatch; or nnet3py.train(nnet, data)",
        "zero_grad": "nothing is to be done: each step begins anew",
        "model network module": "trainer.nnet", "lr": "trainer.learning_rate",
        "save": "np.savez('state.npz', **trainer.state_dict()); trainer.nnet.write('final.raw')",
        "load": "trainer.load_state_dict(np.load('state.npz'))"})

    def __init__(self, nnet: AnyModel, *, loss: LossLike | Mapping[str, LossLike] | None = None,
                 learning_rate: float | None = None, frame_subsampling_factor: int = 1, padding: bool = True,
                 options: TrainerOptions | None = None, **settings: Unpack[TrainerSettings]) -> None:
        nnet, names = network_of(nnet), [each.name for each in fields(TrainerOptions)]
        for name in settings:
            if name not in names:
                raise UsageError(f"a trainer has no option {name!r}", "did you mean learning_rate=?" if name == "lr"
                                 else did_you_mean(name, names) or f"it has {', '.join(names)}")
        self._shape: dict[str, Any] = {"frame_subsampling_factor": frame_subsampling_factor, "padding": padding}
        self._inputs: dict[tuple[str, ...], ArrayInputs] = {}
        self._objectives = OutputObjectives(nnet, loss)
        self._trainer = _ArrayTrainer(nnet, replace(options or TrainerOptions(), **settings), self._objectives)
        self._rate = math.nan
        if learning_rate is not None:
            self.learning_rate = learning_rate
        self._pending: _Forward | None = None

    def __repr__(self) -> str:
        rate = "" if math.isnan(self._rate) else f", learning rate {self._rate:g}"
        averages = "".join(f", {name} {-stats.average():.6g}" for name, stats in self._trainer.objectives.items())
        return f"<Trainer: {self.num_steps} steps{rate}{averages and ', losses on average' + averages[1:]}>"

    @property
    def nnet(self) -> Nnet:
        """The network, with the parameters after the last step."""
        self._trainer.synchronize()
        return self._trainer.nnet

    @property
    def num_steps(self) -> int:
        """The number of steps so far."""
        return self._trainer.num_minibatches

    @property
    def learning_rate(self) -> float:
        """The learning rate, NaN if the components' own rates are used; it may be set before each step."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        """Set the rate, which each component multiplies by its factor. UsageError for 0 or less."""
        if not 0.0 < rate < math.inf:
            raise UsageError(f"learning_rate={rate} must be above 0", "nnet3py.freeze keeps components as they are")
        self._rate = float(rate)
        for network in (self._trainer.nnet, self._trainer.delta):
            set_learning_rate(network, self._rate)

    def step(self, feats: Array, target: object, ivector: Array | None = None, *,
             num_frames: float | None = None) -> float:
        """Train on one minibatch.

        Parameters
        ----------
        feats : float (sequences, frames, dim), or (frames, dim) of one sequence
        target : for the frames of the output: classes, integers (sequences, frames), -1 for a frame that does not
            count; numbers (sequences, frames, width); or anything else that the loss takes. For one sequence without
            the first axis. A dict by the names of outputs trains several outputs, or others than ``output``
        ivector : float (sequences, ivector dim), where the network has an input ``ivector``
        num_frames : the number of frames over which the loss is a mean; None: the frames that count

        Returns
        -------
        The loss before the step, as the function returns it; or minus the objective per frame; summed over outputs.

        Raises
        ------
        ShapeError : arrays whose shapes do not fit the network or each other
        NumericError : NaN or infinity in them, in the loss or its derivative; the parameters are unchanged
        UsageError : a loss that does not return a value and a derivative; classes for an output that is no
            log-softmax, without a loss
        """
        feats = np.asarray(as_array(feats))
        targets = dict(target) if isinstance(target, Mapping) else {"output": target}
        inputs, outputs = self._inputs_and_outputs(feats, ivector, tuple(targets))

        def check(array: np.ndarray) -> None:
            self._inputs[tuple(targets)].check_targets(array, outputs[0].frames, feats.shape[-2])

        targets = {name: self._target(name, each, feats.ndim == 2, check) for name, each in targets.items()}
        supervised = [self._output(io, targets[io.name], num_frames) for io in outputs]
        self._pending, self._trainer.values = None, {}
        self._trainer.train(_Minibatch(inputs, supervised))
        return sum(self._trainer.values.values())

    @overload
    def forward(self, feats: Array, ivector: Array | None = None,
                outputs: str = "output") -> NDArray[np.float32]: ...
    @overload
    def forward(self, feats: Array, ivector: Array | None = None, *,
                outputs: list[str] | tuple[str, ...]) -> dict[str, NDArray[np.float32]]: ...

    def forward(self, feats: Array, ivector: Array | None = None, outputs: str | list[str] | tuple[str, ...] = "output"
                ) -> NDArray[np.float32] | dict[str, NDArray[np.float32]]:
        """Compute outputs in training mode, for a step that :meth:`backward` completes.

        Parameters
        ----------
        feats, ivector : as for :meth:`step`
        outputs : the name of an output, or a list of names

        Returns
        -------
        float32 (sequences, frames, dim), or (frames, dim) if ``feats`` is of one sequence; for a list of names a dict

        Raises
        ------
        ShapeError, NumericError : features that do not fit the network, or have NaN or infinity
        UsageError : the options ask for backstitch, whose steps need two passes
        """
        if self._trainer.options.backstitch_training_scale > 0.0:
            raise UsageError("backstitch computes outputs twice in a step, which forward and backward cannot do",
                             "use step, or backstitch_training_scale=0")
        names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        feats = np.asarray(as_array(feats))
        minibatch = _Minibatch(*self._inputs_and_outputs(feats, ivector, names))
        self._pending = None
        computer = self._trainer.forward(minibatch)
        self._pending = pending = _Forward(minibatch, computer, feats.ndim == 2, isinstance(outputs, str))
        values = {io.name: io.frames.sequences(computer.output(io.name)) for io in minibatch.outputs}
        if pending.is_single:
            values = {name: value[0] for name, value in values.items()}
        return values[names[0]] if pending.has_one_name else values

    def backward(self, derivative: Array | Mapping[str, Array], *, num_frames: float | None = None) -> None:
        """Complete a step: compute derivatives for the outputs of the last :meth:`forward`, and update the network.

        Parameters
        ----------
        derivative : the derivative of a loss with respect to the output, of the output's shape, float (sequences,
            frames, dim) or (frames, dim); for a list of outputs a dict by name, where a missing derivative is 0
        num_frames : the number of frames over which the loss is a mean; None: all frames of the output; 1: the loss is
            a sum

        Raises
        ------
        UsageError : there was no forward since the last step
        ShapeError : a derivative of another shape than the output
        NumericError : NaN or infinity in a derivative; the parameters are unchanged
        """
        pending = self._pending
        if pending is None:
            raise UsageError("backward takes the step for the outputs of forward, and there are none",
                             "call forward before each backward")
        outputs = {io.name: io for io in pending.minibatch.outputs}
        given = {next(iter(outputs)): derivative} if pending.has_one_name else derivative
        if not isinstance(given, Mapping) or not set(given) <= set(outputs):
            raise UsageError(f"expected a dict of derivatives by the names {', '.join(outputs)}, found "
                             + (", ".join(map(str, given)) if isinstance(given, Mapping) else type(given).__name__))
        rows = {name: self._derivative(io, given.get(name), pending, num_frames) for name, io in outputs.items()}
        self._pending = None
        self._trainer.backward(pending.computer, pending.minibatch, rows)

    def _derivative(self, io: _Output, derivative: Any, pending: _Forward, num_frames: float | None) -> np.ndarray:
        """Turn the derivative of a loss into that of an objective, float32 (rows, dim)."""
        frames, dim = io.frames, self._trainer.nnet.output_dim(io.name)
        shape = (frames.num_sequences, frames.num_frames, dim)[1 if pending.is_single else 0:]
        if derivative is None:
            return np.zeros((len(io.indexes), dim), np.float32)
        array = np.asarray(as_array(derivative))
        if array.shape != shape:
            raise ShapeError(f"expected the derivative of '{io.name}' to be float {shape}, found {array.shape}")
        rows = array.reshape(-1, dim)
        check_finite(rows, f"the derivative of '{io.name}'")
        return kaldi_derivative(rows, -float(len(rows) if num_frames is None else num_frames))

    def _inputs_and_outputs(self, feats: Any, ivector: Any,
                            names: tuple[str, ...]) -> tuple[list[NnetIo], list[_Output]]:
        """Return the inputs of a minibatch, and the named outputs without targets."""
        nnet = self._trainer.nnet
        outputs = [node.name for i, node in enumerate(nnet.nodes) if nnet.is_output(i)]
        for name in names:
            if name not in outputs:
                raise UsageError(f"the network has no output {name!r}",
                                 did_you_mean(str(name), outputs) or f"it has {', '.join(outputs)}")
        if not names:
            raise UsageError("expected the name of an output or several, found none")
        if names not in self._inputs:
            self._inputs[names] = ArrayInputs(nnet, names, **self._shape)
        inputs, frames, indexes = self._inputs[names].inputs(feats, ivector)
        return inputs, [_Output(name, indexes, frames) for name in names]

    def _output(self, io: _Output, target: Any, num_frames: float | None) -> _Output:
        """Return the output with its target: an array (sequences, frames, …), or any object that the loss accepts."""
        loss = self._objectives.losses.get(io.name)
        if loss is not None and (loss.classes is not False or not is_array(target)):
            return replace(io, target=LossTarget.of_array(io.frames, target, num_frames))
        with within(f"the targets of '{io.name}'"):
            matrix = supervision_of(self._trainer.nnet, io.name, target, loss is not None)
        if loss is None:
            return replace(io, supervision=matrix)
        return replace(io, target=LossTarget.of_array(io.frames, io.frames.sequences(to_dense(matrix)), num_frames))

    def _target(self, name: str, target: Any, is_single: bool, check: Callable[[np.ndarray], None]) -> Any:
        """Return targets as float32 or int64 (sequences, frames, …); an object for a loss is returned unchanged."""
        if name in self._objectives.losses and not is_array(target):
            return target
        array = np.asarray(as_array(target))
        array = array[None] if is_single else array
        check(array)
        check_finite(array.reshape(len(array), -1), f"the targets of '{name}'")
        return array.astype(np.int64 if array.dtype.kind in "iu" else np.float32, copy=False)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays that a training changes: ``np.savez("state.npz", **trainer.state_dict())``.

        These are parameters, float32 (rows, cols) or (dim,), and statistics of the network, momentum, the estimates of
        natural gradient, the state of random numbers, the number of steps, and the learning rate. Options, the loss and
        the averages for the log are not part of the state.
        """
        return {**self._trainer.state(), "training.learning_rate": np.array(self._rate)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state as if there had been no break: ``trainer.load_state_dict(np.load("state.npz"))``.

        ``state`` has float and int arrays by name, of the shapes in :meth:`state_dict`: (rows, cols), (dim,).

        Raises
        ------
        Nnet3Error, ShapeError : the state of another network; nothing is changed then
        """
        state = {name: state[name] for name in state}      # a file's arrays are read each time they are asked for
        self._pending = None
        self._trainer.restore(state)
        rate = float(state.get("training.learning_rate", math.nan))
        if not math.isnan(rate):
            self.learning_rate = rate

    def finish(self) -> Nnet:
        """Log the average objectives and how often changes were limited; return the network.

        The end of a ``with`` block does the same.
        """
        self._trainer.log_totals()
        return self._trainer.nnet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is None:
            self.finish()
