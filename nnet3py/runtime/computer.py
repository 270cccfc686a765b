"""Running a compiled computation on the caller's matrices. Kaldi: ``NnetComputer``."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.components.natural_gradient import check_preconditioners, named_preconditioners
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.general import check_finite
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import Arena, BoundComputation, Stage
from nnet3py.runtime.parameter_store import ParameterStore, host_of
from nnet3py.runtime.trace import log_preamble, run_traced

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops


class Computer:
    """Accept inputs, run, read outputs; then the same with output derivatives for the backward pass.

    Parameters
    ----------
    computation : from ``nnet3py.compile``, for this network
    nnet : the network
    update : the network that receives the parameter updates: ``nnet`` itself trains it in place, ``nnet.as_gradient()``
        collects derivatives; None where the computation has no model derivative
    device : "cpu" or "cuda"
    stats : the network that receives statistics (default: ``update``)
    ops, arena : operations and memory to share with other computers that never run simultaneously; on a GPU, networks
        are then assumed not to change after binding, else they are copied there before each pass
    debug : log every command as it runs

    In place of a network it takes the network's ``ParameterStore`` on the device: the caller then pushes and pulls, and
    checks preconditioners.
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
        self._pulled = _stores(*changed) if _changes_networks(computation) else []   # to the caller's, after each run
        self._pushed = _stores((self._bound.nnet, nnet), *changed) if ops is None else []   # before each pass
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
        """Give the matrix of an input node; before the backward run, an output node's derivative. It is copied.

        Parameters
        ----------
        name : of the node
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
        """Run up to the next exchange with the caller.

        Raises
        ------
        Nnet3Error : an input is missing, or the computation has ended
        NumericError : natural gradient met NaN or infinity
        """
        stages = self._bound.stages()
        if self._next_stage >= len(stages):
            raise Nnet3Error("the computation has been run to its end", "accept its first inputs again")
        if self._pending:
            raise Nnet3Error(f"Cannot run computation-- we did not get input for node '{sorted(self._pending)[0]}'")
        stage = stages[self._next_stage]
        begins = self._next_stage == 0 or stage.next_stage >= 0        # a pass, or a round of a loop
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
        """An output, float32 (rows, dim), or, after the backward run, an input's derivative.

        ``copy``: False spares the copy where the computer's own matrix can be read; it changes with the next run.
        """
        view = self.output_view(name)
        return view if not copy and isinstance(view, np.ndarray) else np.asarray(self.ops.copy_out(view))

    def output_view(self, name: str) -> DeviceArray:
        """The device's own matrix of an output; its contents are valid until the next run."""
        if self._stage is None or name not in self._stage.outputs:
            ready = sorted(self._stage.outputs) if self._stage else []
            raise Nnet3Error(f"Could not provide output for network node {name} (it is not expected at this point in "
                             f"the computation)", f"ready now: {', '.join(ready) or 'nothing'}")
        return self._stage.outputs[name]

    def input_view(self, name: str) -> DeviceArray:
        """The device's own matrix of an expected input, to be filled in place of :meth:`accept_input`."""
        self._pending.discard(name)
        return self._bound.stages()[self._next_stage].inputs[name]


def _stores(*pairs: tuple[ParameterStore | None, Nnet | ParameterStore | None]) -> list[ParameterStore]:
    """Return the stores for which a network was given, from pairs of a store and what was given; each once."""
    return list({id(bound): bound for bound, given in pairs
                 if bound is not None and bound is not given}.values())


def _changes_networks(computation: Computation) -> bool:
    """Whether parameters or statistics may change."""
    return any(command.type == CommandType.BACKPROP or (command.type == CommandType.PROPAGATE and command.args[5] == 1)
               for command in computation.unfused().commands)
