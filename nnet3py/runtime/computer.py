"""Computers, which run compiled computations on given matrices; their cache by request; the log of a run.

Kaldi: ``NnetComputer``, ``--computation.debug``.
"""
from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.computation import (
    COMMANDS,
    Command,
    CommandPrinter,
    CommandType,
    Computation,
    Role,
    describe_computation,
    submatrix_text,
)
from nnet3py.compiler.request import ComputationRequest
from nnet3py.components.base import Component, Properties
from nnet3py.components.natural_gradient import check_preconditioners, named_preconditioners
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.general import check_finite
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import Arena, BoundComputation, Stage
from nnet3py.runtime.blas_threads import BlasAlone
from nnet3py.runtime.parameter_store import ParameterStore, host_of

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

class Computer:
    """A computation bound to a network: accepts inputs, runs, and provides outputs.

    With derivatives, a second round follows: it accepts output derivatives, runs the backward pass, and provides
    derivatives of the inputs.

    Parameters
    ----------
    computation : from ``nnet3py.compile``, for this network
    nnet : the network
    update : the network that receives the parameter updates: ``nnet`` itself trains it in place, ``nnet.as_gradient()``
        collects derivatives; None if the computation has no model derivative
    device : "cpu" or "cuda"
    stats : the network that receives statistics (default: ``update``)
    ops, arena : operations and memory shared with other computers that never run simultaneously; with these, networks
        must not change after binding on a GPU; without, networks are copied to the GPU before each pass
    debug : whether to log every command as it runs

    A network's ``ParameterStore`` may be given in place of the network: the caller then copies parameters to and from
    the device (``push``, ``pull``).
    """

    def __init__(self, computation: Computation, nnet: Nnet | ParameterStore,
                 update: Nnet | ParameterStore | None = None, device: str = "cpu", *,
                 stats: Nnet | ParameterStore | None = None, ops: Ops | None = None, arena: Arena | None = None,
                 debug: bool = False) -> None:
        self.computation = computation
        self.ops = ops if ops is not None else get_ops(device)
        self._owns_random_key = ops is None
        self._bound = BoundComputation(computation, nnet, self.ops, arena or Arena(self.ops), update,
                                       stats if stats is not None else update)
        changed = (self._bound.update, update), (self._bound.stats, stats if stats is not None else update)
        self._pulled = _stores(*changed) if _changes_networks(computation) else []   # copied to the host after each run
        self._pushed = _stores((self._bound.nnet, nnet), *changed) if ops is None else []   # copied before each pass
        self._preconditioners = named_preconditioners(host_of(update)) if self._pulled and update is not None else []
        self._next_stage = 0
        self._pending: set[str] = set()
        self._stage: Stage | None = None
        self._num_passes = 0
        self._debug = debug
        if debug:
            log_preamble(self._bound)
        self.restart()

    def __repr__(self) -> str:
        waiting = f"waits for {', '.join(sorted(self._pending))}" if self._pending else "has all it needs"
        return f"<Computer: {len(self.computation.commands)} commands on {self.ops.device}, {waiting}>"

    def restart(self) -> None:
        """Go back to the start of the computation, to run it on other inputs."""
        self._next_stage = 0
        self._stage = None
        stages = self._bound.stages()
        self._pending = set(stages[0].inputs)

    def accept_input(self, name: str, matrix: np.ndarray) -> None:
        """Copy the rows of an input node to the computer; before the backward pass, the derivative of an output node.

        Parameters
        ----------
        name : the node
        matrix : float (rows, dim), the rows of the request in its order

        Raises
        ------
        ShapeError : rows or columns differ from those of the request and the network
        NumericError : NaN or infinity in the matrix
        Nnet3Error : the computation does not expect this node now
        """
        stages = self._bound.stages()
        if self._next_stage >= len(stages):   # all stages were run: new inputs start it again
            self.restart()
        stage = stages[self._next_stage]
        if name not in stage.inputs:
            raise Nnet3Error(f"Could not accept input for network node {name} (it is not expected at this point in the "
                             f"computation)", f"expected now: {', '.join(sorted(stage.inputs)) or 'nothing'}")
        matrix = np.asarray(matrix)
        view = stage.inputs[name]
        if matrix.ndim != 2 or matrix.shape[0] != view.shape[0]:
            raise ShapeError(f"Num-rows mismatch for input '{name}': {view.shape[0]} in computation-request, "
                             f"{matrix.shape[0] if matrix.ndim else 0} provided.")
        if matrix.shape[1] != view.shape[1]:
            raise ShapeError(f"Num-cols mismatch for input '{name}': {view.shape[1]} in computation-request, "
                             f"{matrix.shape[1]} provided.")
        check_finite(matrix, f"input '{name}'")
        self.ops.copy_in(view, matrix)
        self._pending.discard(name)

    def run(self) -> None:
        """Run until inputs or outputs are to be exchanged: the forward pass, then the backward pass.

        Raises
        ------
        Nnet3Error : an input is missing, or the computation has ended
        NumericError : NaN or infinity in the rows that natural gradient preconditions
        """
        stages = self._bound.stages()
        if self._next_stage >= len(stages):
            raise Nnet3Error("the computation has been run to its end", "accept its first inputs again, or restart()")
        if self._pending:
            raise Nnet3Error(f"Cannot run computation-- we did not get input for node '{sorted(self._pending)[0]}'",
                             "give its matrix with accept_input(name, matrix) before run()")
        stage = stages[self._next_stage]
        begins = self._next_stage == 0 or stage.next_stage >= 0        # a forward pass, or a round of a loop
        if begins and self._owns_random_key:
            self.ops.random.begin_minibatch(0, self._num_passes)
            self._num_passes += 1
        if self._next_stage == 0:
            for store in self._pushed:
                store.push()
        self._stage = stage
        self._bound.take_settings()
        if self._debug:
            run_traced(self._bound, self._stage)
        else:
            self._stage.run()
        for store in self._pulled:
            store.pull()
        if self._preconditioners:
            check_preconditioners(self.ops, self._preconditioners)()
        self._next_stage = stage.next_stage if stage.next_stage >= 0 else self._next_stage + 1
        self._pending = set(stages[self._next_stage].inputs) if self._next_stage < len(stages) else set()

    def output(self, name: str, copy: bool = True) -> NDArray[np.float32]:
        """Return an output, float32 (rows, dim), or, after the backward run, an input's derivative.

        Parameters
        ----------
        copy : False: return the computer's own matrix if possible, which the next run overwrites
        """
        view = self.output_view(name)
        return view if not copy and isinstance(view, np.ndarray) else np.asarray(self.ops.copy_out(view))

    def output_view(self, name: str) -> DeviceArray:
        """Return the matrix of an output on the device; its contents are valid until the next run."""
        if self._stage is None or name not in self._stage.outputs:
            ready = sorted(self._stage.outputs) if self._stage else []
            raise Nnet3Error(f"Could not provide output for network node {name} (it is not expected at this point in "
                             f"the computation)", f"ready now: {', '.join(ready) or 'nothing'}")
        return self._stage.outputs[name]

    def input_view(self, name: str) -> DeviceArray:
        """Return the device's matrix of an expected input, to be filled in place of :meth:`accept_input`."""
        self._pending.discard(name)
        return self._bound.stages()[self._next_stage].inputs[name]


def _stores(*pairs: tuple[ParameterStore | None, Nnet | ParameterStore | None]) -> list[ParameterStore]:
    """Return the bound stores that differ from the given objects, which are then networks; each once."""
    return list({id(bound): bound for bound, given in pairs
                 if bound is not None and bound is not given}.values())


def _changes_networks(computation: Computation) -> bool:
    """Return whether a computation may change parameters or statistics."""
    return any(command.type == CommandType.BACKPROP or (command.type == CommandType.PROPAGATE and command.args[5] == 1)
               for command in computation.unfused().commands)


# -- computers, kept by request ----------------------------------------------------------------------------------------


class ComputerCache:
    """A cache of computers by request; the most recently used are kept.

    All share one arena and one set of operations.

    Parameters
    ----------
    nnet, update, stats, device : as for :class:`Computer`
    compiler : the compiler, which caches computations
    capacity : the number of bound computations that are kept
    debug : whether to log every command as it runs
    """

    def __init__(self, nnet: Nnet | ParameterStore, compiler: CachingCompiler,
                 update: Nnet | ParameterStore | None = None, stats: Nnet | ParameterStore | None = None,
                 device: str = "cpu", capacity: int = 64, debug: bool = False) -> None:
        self.nnet, self.update, self.stats, self.compiler, self.capacity = nnet, update, stats, compiler, capacity
        self._debug = debug
        self.ops = get_ops(device)
        self.arena = Arena(self.ops)
        self._computers: OrderedDict[ComputationRequest, Computer] = OrderedDict()
        self._num_examples = 0

    def next_example(self, request: ComputationRequest) -> Computer:
        """Return a computer as :meth:`computer` does, and let each call draw new random numbers.

        They are used by dropout outside test mode.
        """
        computer = self.computer(request)
        computer.ops.random.begin_minibatch(0, self._num_examples)
        self._num_examples += 1
        return computer

    def computer(self, request: ComputationRequest) -> Computer:
        """Return a computer at the start of the computation for ``request``."""
        computer = self._computers.get(request)
        if computer is None or not computer.computation.fits(host_of(self.nnet)):
            computation = self.compiler.compile(request)
            computer = Computer(computation, self.nnet, self.update, stats=self.stats, ops=self.ops, arena=self.arena,
                                debug=self._debug)
            self._computers[request] = computer
            self._computers.move_to_end(request)
            while len(self._computers) > self.capacity:
                self._computers.popitem(last=False)
        else:
            self._computers.move_to_end(request)
            computer.restart()
        return computer


# -- a log line for every command --------------------------------------------------------------------------------------


logger = logging.getLogger(__name__)

_PLACE = kaldi_place("DebugAfterExecute", "nnet-compute.cc", 144)      # scripts that sum up the times look for it
_WRITTEN = frozenset((Role.WRITE, Role.READ_WRITE, Role.PROPAGATED, Role.BACKPROPAGATED))


def log_preamble(bound: BoundComputation) -> None:
    """Log the matrices of a computation, with the numbers that the lines of its commands use."""
    text = describe_computation(bound.computation, bound.host)
    logger.info("%s", text.split("# begin forward commands", 1)[0].rstrip("\n"))


def run_traced(bound: BoundComputation, stage: Stage) -> None:
    """Run a stage's calls, and log a line for each.

    A line has the command's text; the root mean square, before and after, of each matrix and of the parameters that the
    command changes; and the seconds that it took.
    """
    printer = CommandPrinter(bound.computation, bound.host)
    for (function, args), c in zip(stage.calls, stage.commands, strict=True):
        command = bound.computation.commands[c]
        watched = _watched(bound, command)
        before = [_rms(bound.ops, value) for _, value in watched]
        with BlasAlone():
            start = time.perf_counter()
            function(*args)
            elapsed = time.perf_counter() - start
        changes = " ".join(f"{name}: {old:.6g}->{_rms(bound.ops, value):.6g}"
                           for (name, value), old in zip(watched, before, strict=True))
        logger.info("%s\t|\t%s\t|\t time: %.3g secs", printer.line(c).rstrip("\n"), changes, elapsed, extra=_PLACE)


def _watched(bound: BoundComputation, command: Command) -> list[tuple[str, DeviceArray | Component]]:
    """Return names and arrays of the matrices and parameters that a command changes."""
    views: list[tuple[str, DeviceArray | Component]] = []
    for s in _written_submatrices(bound, command):
        whole = bound.whole_view(s)
        views.append((f"m{bound.computation.submatrices[s].matrix}", whole))
        if not bound.computation.is_whole(s):
            views.append((submatrix_text(bound.computation, bound.computation.submatrices[s]), bound.given_view(s)))
    for part in bound.computation.parts_of(command):
        if part.type == CommandType.BACKPROP and bound.update is not None:
            component = bound.update.components[part.args[0]]
            if component.has(Properties.UPDATABLE):
                views.append((bound.update.component_names[part.args[0]], component))
    return views


def _written_submatrices(bound: BoundComputation, command: Command) -> list[int]:
    written = []
    for part in bound.computation.parts_of(command):
        for role, value in zip(COMMANDS[part.type].roles, part.args, strict=False):
            if role in _WRITTEN and value > 0:
                written.append(value)
            elif role == Role.CHANGED_PAIRS:
                pairs = bound.computation.indexes_multi[value]
                written += np.unique(pairs[pairs[:, 0] > 0, 0]).tolist()
    return list(dict.fromkeys(written))


def _rms(ops: Ops, value: DeviceArray | Component) -> float:
    """Return the root mean square of a matrix, or of all parameters of a component."""
    watched = list(value.parameters().values()) if isinstance(value, Component) else [value]
    arrays = [ops.copy_out(array) for array in watched]
    count = sum(array.size for array in arrays)
    with np.errstate(all="ignore"):      # a matrix that is only allocated may hold anything
        total = sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays)
    return float(np.sqrt(total / count)) if count else 0.0
