"""Training of networks on examples that are minibatches. Kaldi: ``NnetTrainer``.

:class:`MinibatchTrainer` is the base of trainers for all kinds of examples.

The model propagates and accumulates statistics; a second network of the same structure, ``delta``, receives the change
of a minibatch (natural gradient and learning rates included), and with momentum keeps a part of earlier changes.
"""
from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.request import ComputationRequest
from nnet3py.components.base import with_children
from nnet3py.components.natural_gradient import check_preconditioners, named_preconditioners
from nnet3py.components.updatable import UpdatableComponent, is_updatable
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import to_dense
from nnet3py.log import count_repeats_anew, kaldi_place, warn_of_repeats
from nnet3py.network.model_file import AnyModel, network_of
from nnet3py.network.whole_model import (
    constrain_orthonormal,
    freeze_natural_gradient,
    scale_batchnorm_stats,
    zero_component_stats,
)
from nnet3py.ops import get_ops
from nnet3py.random_sequence import unsigned
from nnet3py.runtime.blas_threads import BlasAlone
from nnet3py.runtime.computer import Computer, ComputerCache
from nnet3py.runtime.parameter_store import on_device
from nnet3py.training.example_computation import example_request
from nnet3py.training.max_change import MaxChangeStats, update_with_max_change
from nnet3py.training.objectives import LossLike, Objective, ObjectiveStats, OutputObjectives
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer_state import (
    State,
    draws_of,
    draws_state,
    estimates,
    network_arrays,
    prepared_estimates,
    restore_arrays,
)

logger = logging.getLogger(__name__)


class NodeRows(Protocol):
    """Interface of the data of an example for one node: features of an input, or supervision of an output."""

    @property
    def name(self) -> str:
        """The name of the node."""

    @property
    def indexes(self) -> np.ndarray:
        """The index (n, t, x) of each row, int32 (rows, 3)."""


Eg = TypeVar("Eg")      # the kind of example


@dataclass(frozen=True)
class _Step:
    """Settings of one forward-backward pass and the update that follows it."""

    suffix: str                # text appended to outputs' names in the log of objectives
    max_change_scale: float    # factor of all limits on the change
    scale: float               # factor of the change when it is added to the model
    l2_scale: float            # factor of l2 regularization; 0: none in this step
    orthonormal: bool          # whether the orthonormal constraint is applied after the change
    scales_batchnorm: bool     # whether statistics of batch normalization are scaled


class MinibatchTrainer(ABC, Generic[Eg]):
    """Base of trainers, which change a network in place; there is a derived class for each kind of example.

    Parameters
    ----------
    nnet : the model; its statistics are zeroed first if the options say so
    options : options of the training; None: the defaults of :class:`TrainerOptions`
    """

    # True: the change is only limited as a whole and added, without limits, l2 regularization or constraints of
    # components, scaling of statistics, or backstitch, as in Kaldi's discriminative trainer.
    _is_plain = False

    def __init__(self, nnet: AnyModel, options: TrainerOptions | None = None) -> None:
        nnet, options = network_of(nnet), options or TrainerOptions()
        options.check()
        count_repeats_anew()
        self.nnet, self.options = nnet, options
        if options.zero_component_stats:
            zero_component_stats(nnet)
        self.delta = nnet.copy()
        self.delta.scale(0.0)
        self.compiler = CachingCompiler.with_options(nnet, options.optimize, options.compiler)
        self._bind()
        self._draws = np.random.Generator(np.random.Philox(key=unsigned(options.srand)))
        self._seed = int(self._draws.integers(0, 100001))
        self.num_minibatches = 0
        self.objectives: dict[str, ObjectiveStats] = {}
        self.max_change_stats = MaxChangeStats()

    def _bind(self) -> None:
        """Make the device stores of the model and of ``delta``, and an empty cache of computations bound to them."""
        options, ops = self.options, get_ops(self.options.device)
        self._trained, self._change = on_device(self.nnet, ops), on_device(self.delta, ops)
        self._preconditioners = named_preconditioners(self.delta)
        self._computers = ComputerCache(self._trained, self.compiler, update=self._change, stats=self._trained,
                                        device=options.device, capacity=options.compiler.cache_capacity,
                                        debug=options.debug)

    def __repr__(self) -> str:
        totals = "".join(f", {name} {stats.average():.6g}" for name, stats in self.objectives.items())
        return f"<{type(self).__name__}: {self.num_minibatches} minibatches{totals}>"

    @abstractmethod
    def _request(self, eg: Eg) -> ComputationRequest:
        """Return the request for an example."""

    @abstractmethod
    def _inputs(self, eg: Eg) -> Iterable[NnetIo]:
        """Return the network's inputs in an example."""

    @abstractmethod
    def _node_rows(self, eg: Eg) -> Iterable[NodeRows]:
        """Return the rows of all inputs and outputs of an example."""

    @abstractmethod
    def _process_outputs(self, computer: Computer, eg: Eg, suffix: str) -> None:
        """Set the derivatives of all outputs, and add their objectives to the averages of the names + ``suffix``."""

    def train(self, eg: Eg) -> None:
        """Train on one minibatch.

        Raises Nnet3Error if the example does not fit the network, and NumericError if the example holds NaN or
        infinity.
        """
        with BlasAlone():
            self._train(eg)
        self.num_minibatches += 1

    def synchronize(self) -> None:
        """Copy parameters and statistics from the device to ``nnet`` and ``delta``, and log results not logged yet.

        Raises NumericError if natural gradient was given NaN or infinity; ``nnet`` and ``delta`` are unchanged.
        """
        self._trained.run_reports()
        for store in (self._trained, self._change):
            store.pull()

    def log_totals(self) -> bool:
        """End the training: log the final lines, and copy the trained parameters to ``nnet``.

        Returns
        -------
        True if some output had weight above 0.
        """
        self.synchronize()
        warn_of_repeats()
        for name in sorted(self.objectives):
            self.objectives[name].log_total()
        for line in self.max_change_stats.lines(self.nnet.component_names):
            logger.info(line, extra=kaldi_place("PrintMaxChangeStats", "nnet-training.cc", 330))
        return any(stats.total_weight != 0.0 for stats in self.objectives.values())

    def state(self) -> State:
        """Return copies of all arrays that training changes, by name: see :mod:`nnet3py.training.trainer_state`."""
        self.synchronize()
        arrays = {name: array.copy() for name, array in self._changing_arrays().items()}
        return {**arrays, **estimates(self._computers.ops, self.delta), **draws_state(self._draws),
                "training.num_minibatches": np.array(self.num_minibatches), "training.seed": np.array(self._seed)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from the :meth:`state` of a trainer whose network had the same structure.

        Raises Nnet3Error or ShapeError if ``state`` is that of another network, or no state; nothing is changed.
        """
        self.synchronize()
        numbers = {f"training.{name}": np.zeros((), np.int64) for name in ("num_minibatches", "seed")}
        restore_arrays(numbers, state)
        draws, restore_estimates = draws_of(state), prepared_estimates(self._computers.ops, self.delta, state)
        restore_arrays(self._changing_arrays(), state)
        restore_estimates()
        self._draws = draws
        self.num_minibatches, self._seed = (int(number) for number in numbers.values())
        self._bind()             # the estimates are at other places in memory
        for store in (self._trained, self._change):
            store.push()

    def _changing_arrays(self) -> dict[str, np.ndarray]:
        return {**dict(network_arrays("nnet", self.nnet, with_statistics=True)),
                **dict(network_arrays("momentum", self.delta, with_statistics=False))}

    def _train(self, eg: Eg) -> None:
        """Run the step for a minibatch, or both steps of backstitch."""
        options = self.options
        self._follow_freezing()
        computer = self._computers.computer(self._request(eg))
        if self._is_plain:
            self._run_step(computer, eg, _Step("", 1.0, 1.0 - options.momentum, 0.0, False, False))
        elif self._is_backstitch_minibatch():
            alpha = options.backstitch_training_scale
            freeze_natural_gradient(self.delta, True)
            self._run_step(computer, eg, _Step("", alpha, -alpha, 0.0, True, False))
            freeze_natural_gradient(self.delta, False)
            computer.restart()
            forward = 1.0 + alpha
            self._run_step(computer, eg, _Step("_backstitch", forward, forward, 1.0 / forward, False, True))
        else:
            self._run_step(computer, eg, self._whole_step())

    def _whole_step(self) -> _Step:
        """Return the settings of the step without backstitch."""
        return _Step("", 1.0, 1.0 - self.options.momentum, 1.0, True, True)

    def _follow_freezing(self) -> None:
        """Copy to ``delta`` the learning rates of components that were frozen or unfrozen since the last minibatch."""
        kept = np.ones(len(self.delta.components))
        for c, (mine, theirs) in enumerate(zip(self.nnet.components, self.delta.components, strict=True)):
            if isinstance(mine, UpdatableComponent) and isinstance(theirs, UpdatableComponent) \
                    and mine.is_frozen != theirs.is_frozen:
                for part, change in zip(with_children([mine]), with_children([theirs]), strict=True):
                    if isinstance(part, UpdatableComponent) and isinstance(change, UpdatableComponent):
                        change.copy_settings(part)
                kept[c] = 0.0        # momentum would still move a frozen component
        if not kept.all():
            self.synchronize()
            self._bind()             # derivatives of frozen components are not computed
            self._change.scale_components(kept)

    def _is_backstitch_minibatch(self) -> bool:
        interval = self.options.backstitch_training_interval
        return (self.options.backstitch_training_scale > 0.0
                and self.num_minibatches % interval == self._seed % interval)

    def _run_step(self, computer: Computer, eg: Eg, step: _Step) -> None:
        self._forward(computer, eg)
        num_before = self._trained.num_reports()
        self._process_outputs(computer, eg, step.suffix)
        self._trained.run_reports(num_before)      # of the step before, while a device computes this one's outputs
        self._backward(computer, eg, step)

    def _forward(self, computer: Computer, eg: Eg) -> None:
        # Both steps of backstitch draw from the same key, so that dropout masks are the same in both.
        computer.ops.random.begin_minibatch(self._seed, self.num_minibatches)
        for io in self._inputs(eg):
            computer.accept_input(io.name, to_dense(io.features))
        computer.run()

    def _backward(self, computer: Computer, eg: Eg, step: _Step) -> None:
        """Run the backward pass, which stores the change in ``delta``, and change the model."""
        computer.run()
        self._trained.when_done(check_preconditioners(computer.ops, self._preconditioners))
        self._apply_l2(eg, step.l2_scale)
        self._update(step)
        if step.scales_batchnorm:
            scale_batchnorm_stats(self._trained, self.options.batchnorm_stats_scale)
        if step.orthonormal:
            self._trained.when_done(constrain_orthonormal(
                self._trained, lambda: int(self._draws.integers(0, 4)) == 0, computer.ops))

    def _update(self, step: _Step) -> None:
        """Add the change to the model, and keep a part of it as momentum."""
        momentum = self.options.momentum if not self.options.backstitch_training_scale else 0.0
        self._trained.when_done(update_with_max_change(
            self._trained, self._change, self.options.max_param_change, step.max_change_scale, step.scale, momentum,
            self.max_change_stats, of_components=not self._is_plain))

    def _count(self, name: str, weight: float, objective: float, aux_objective: float = 0.0) -> None:
        """Add the objective of an output in this minibatch to the averages of ``name``."""
        self._add_to_averages(name, self.num_minibatches, weight, objective, aux_objective)

    def _add_to_averages(self, name: str, minibatch: int, weight: float, objective: float,
                         aux_objective: float = 0.0) -> None:
        if name not in self.objectives:
            self.objectives[name] = ObjectiveStats(name, self.options.print_interval)
        self.objectives[name].add(minibatch, weight, objective, aux_objective)

    def _count_later(self, name: str, objective: Callable[[], Objective]) -> None:
        """Add the objective of an output in this minibatch to the averages of ``name``, once it is computed."""
        minibatch = self.num_minibatches

        def count() -> None:
            weight, value = objective()
            self._add_to_averages(name, minibatch, weight, value)

        self._trained.when_done(count)

    def _apply_l2(self, eg: Eg, l2_scale: float) -> None:
        factor = l2_scale * self.options.l2_regularize_factor
        if factor == 0.0:
            return
        factor *= num_sequences(self._node_rows(eg))
        scales = np.array([-2.0 * factor * c.learning_rate * c.l2_regularize if is_updatable(c) else 0.0
                           for c in self.delta.components])
        if not scales.any():
            return
        self._change.add_components(scales, self._trained)


class NnetTrainer(MinibatchTrainer[NnetExample]):
    """Trainer of a network, in place, on examples with a supervision for each output row. Kaldi: ``NnetTrainer``.

    Parameters
    ----------
    nnet : the model; its statistics are zeroed first if the options say so
    options : options of the training; None: the defaults of :class:`TrainerOptions`
    loss : a loss to minimize instead of the objectives of all output nodes: a :class:`nnet3py.Loss`, or a function or
        module to convert to one; or a dict of losses by the names of outputs; or ``OutputObjectives`` with these
    """

    def __init__(self, nnet: AnyModel, options: TrainerOptions | None = None,
                 loss: LossLike | Mapping[str, LossLike] | OutputObjectives | None = None) -> None:
        super().__init__(nnet, options)
        self.output_objectives = loss if isinstance(loss, OutputObjectives) else OutputObjectives(self.nnet, loss)

    def _request(self, eg: NnetExample) -> ComputationRequest:
        return example_request(self.nnet, eg, need_model_derivative=True,
                               store_component_stats=self.options.store_component_stats)

    def _inputs(self, eg: NnetExample) -> Iterable[NnetIo]:
        return (io for io in eg.io if self.nnet.is_input(self.nnet.node_index(io.name)))

    def _node_rows(self, eg: NnetExample) -> Iterable[NnetIo]:
        return eg.io

    def _process_outputs(self, computer: Computer, eg: NnetExample, suffix: str) -> None:
        for io in eg.io:
            if self.nnet.is_output(self.nnet.node_index(io.name)):
                output, deriv = computer.output_view(io.name), computer.input_view(io.name)
                self._count_later(io.name + suffix, self.output_objectives.queue(
                    computer.ops, io, output, deriv, f"minibatch {self.num_minibatches}"))


def num_sequences(nodes: Iterable[NodeRows]) -> int:
    """Return the number of sequences in a merged example: 1 + the n of each node's last index.

    Raises Nnet3Error if the inputs and outputs of the example hold different numbers of sequences.
    """
    counts = {node.name: int(node.indexes[-1, 0]) + 1 for node in nodes if len(node.indexes)}
    if len(set(counts.values())) > 1:
        raise Nnet3Error(f"the inputs and outputs of an example hold different numbers of sequences: {counts}",
                         "were they merged separately? nnet3-merge-egs merges whole examples")
    return next(iter(counts.values()), 1)
