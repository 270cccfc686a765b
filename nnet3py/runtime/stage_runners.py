"""Repeated runs of a stage: operations recorded once on the CPU, kernels captured once as CUDA graphs on a GPU.

On the CPU the components, in Python, choose views, settings and operations, which takes as long as the operations of a
small network on few rows. Without training and without random numbers they choose the same in each run. So the second
run records the operations that are called, with their arguments, and from the third on these are called one after the
other. A stage is not recorded if one of its operations draws random numbers, returns a value or reads a cell that the
host writes, or if memory is copied to or from the device meanwhile.

On a GPU, the first run of a stage is plain: kernels are compiled, tables uploaded, scratch memory grows to its size. In
the second the runner records which calls need the host (``memory.touch_host``): those that read a sum, initialize an
estimate of natural gradient or draw a random number for a decision. The third captures the calls between them, a graph
for each piece, and from then on a piece is one launch. If no call needs the host, a stage is a single graph.

A graph contains addresses and numbers. So it is dropped, and the stage observed again, when one of these has changed:
the address of scratch memory, a setting of a component (a learning rate, a dropout proportion, a test mode), which
statistics were ever stored, the seed, the precision of matrix products. Values that change with each minibatch are in
device memory: the data, the minibatch's number and all draws (``ops/cuda/random.py``), the statistics that self-repair
depends on, the sizes and estimates of natural gradient. The views of a stage are those of its arena; if that moves,
the stage is bound again.

The host decides by counting calls which estimates of natural gradient are updated in a run. The combinations recur: for
each of them the pieces are observed once, captured the second time, and kept.

With ``NNET3PY_CUDA_GRAPHS=0`` in the environment, with a driver without graphs, or if a piece cannot be captured,
launches are plain.
"""
from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from nnet3py.components.natural_gradient import OnlineNaturalGradient, named_preconditioners
from nnet3py.ops.cpu import CpuOps
from nnet3py.ops.table import FAMILY_OF, OPERATIONS
from nnet3py.runtime.calls import Call
from nnet3py.runtime.parameter_store import ParameterStore

if TYPE_CHECKING:
    from nnet3py.ops.cuda.graphs import Graph

_CELLS = ("f32cell", "intcell")
_BETWEEN_HOST_AND_DEVICE = ("upload", "keep", "copy_in", "copy_out", "read_later")


class RecordingOps(CpuOps):
    """The operations of the CPU, which can record calls; with scratch memory of their own.

    Attributes
    ----------
    recorded : a list of functions without arguments that repeat the calls; None if nothing is recorded, as after a call
        that cannot be repeated
    """

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[Callable[[], Any]] | None = None
        for name in _BETWEEN_HOST_AND_DEVICE:
            setattr(self, name, self._once(getattr(CpuOps, name)))

    def _cannot_repeat(self) -> None:
        self.recorded = None

    def _once(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that a recording in which it is called is dropped."""
        def call(*args: Any) -> Any:
            self._cannot_repeat()
            return function(*args)

        return call

    def __getattr__(self, name: str) -> Any:
        operation = super().__getattr__(name)
        differs = FAMILY_OF[name] == "random" or any(argument.kind in _CELLS
                                                     for argument in OPERATIONS[name].arguments)

        def call(*args: Any, **named: Any) -> Any:
            given = operation(*args, **named)
            if self.recorded is not None:
                if differs or given is not None:
                    self._cannot_repeat()
                else:
                    self.recorded.append(partial(operation, *args, **named))
            return given

        setattr(self, name, call)
        return call


class RecordedStage:
    """A runner of the calls of one stage on the CPU.

    The first run is not recorded: in it scratch memory grows to its size.
    """

    def __init__(self, ops: RecordingOps, calls: Sequence[Call]) -> None:
        self._ops, self._calls = ops, list(calls)
        self._num_runs = 0
        self._recorded: list[Callable[[], Any]] | None = None

    def __call__(self) -> None:
        """Run the stage once."""
        if self._recorded is not None:
            for operation in self._recorded:
                operation()
            return
        self._ops.recorded = [] if self._num_runs == 1 else None
        self._num_runs += 1
        for function, args in self._calls:
            function(*args)
        self._recorded, self._ops.recorded = self._ops.recorded, None


# -- on the GPU --------------------------------------------------------------------------------------------------------


logger = logging.getLogger(__name__)

Decided: TypeAlias = tuple[tuple[int, ...], ...]      # each preconditioner's ``decisions``
_PLAIN_RUNS = 2        # runs before anything is captured
_MOST_VARIANTS = 12    # combinations of the host's decisions for which a stage's pieces are kept
_SCALARS = (bool, int, float, str, type(None))


@dataclass
class Piece:
    """Consecutive calls of a stage, and their CUDA graph, once it has been captured.

    Attributes
    ----------
    needs_host : whether the calls need the host, so that they cannot be captured
    counted : how often they call each natural-gradient preconditioner: a replay must count these calls, too
    """

    calls: list[Call]
    needs_host: bool
    counted: dict[OnlineNaturalGradient, int]
    graph: Graph | None = None
    failed: bool = False


class StageRunner:
    """A runner of the calls of one stage on a GPU.

    Parameters
    ----------
    ops : the GPU's operations
    calls : the stage's calls, in order
    stores : the stores that the calls' components belong to
    """

    def __init__(self, ops: Any, calls: Sequence[Call], stores: Sequence[ParameterStore]) -> None:
        from nnet3py.ops.cuda import graphs

        self._ops, self._calls = ops, list(calls)
        self._settings, self._decisions = _Settings(stores), _Decisions(stores)
        self._possible = graphs.driver() is not None and os.environ.get("NNET3PY_CUDA_GRAPHS", "1") != "0"
        self._num_plain = 0
        self._state: tuple[object, ...] = ()
        self._variants: OrderedDict[Decided, list[Piece]] = OrderedDict()
        self.pieces: list[Piece] = []

    def __call__(self) -> None:
        """Run the stage once."""
        if not self._possible:
            for function, args in self._calls:
                function(*args)
            return
        state = self._current_state()
        if state != self._state:
            self._num_plain, self._state = min(self._num_plain, _PLAIN_RUNS - 1), state
            self._variants.clear()
        decided = self._decisions.now()
        pieces = self._variants.get(decided)
        if pieces is None or self._num_plain < _PLAIN_RUNS:
            self._num_plain += 1
            self._observe(decided)
            return
        self._variants.move_to_end(decided)
        self.pieces = pieces
        for piece in pieces:
            self._run_piece(piece)

    def _observe(self, decided: Decided) -> None:
        """Run without graphs, and divide the calls into pieces that need the host or do not."""
        from nnet3py.ops.cuda.memory import host_touches

        self.pieces = []
        for function, args in self._calls:
            before, counts = host_touches(), self._decisions.counts()
            function(*args)
            needs_host = host_touches() != before
            if not self.pieces or self.pieces[-1].needs_host != needs_host:
                self.pieces.append(Piece([], needs_host, {}))
            self.pieces[-1].calls.append((function, args))
            self._decisions.count_since(counts, self.pieces[-1].counted)
        if self._decisions.learn(self.pieces):      # the decisions were taken without some of the preconditioners
            return
        self._variants[decided] = self.pieces
        while len(self._variants) > _MOST_VARIANTS:
            self._variants.popitem(last=False)

    def _run_piece(self, piece: Piece) -> None:
        if piece.graph is None and not piece.needs_host and not piece.failed:
            self._capture(piece)
        elif piece.graph is not None:
            for preconditioner, count in piece.counted.items():
                preconditioner.t += count
        if piece.graph is not None:
            piece.graph.launch()
            return
        for function, args in piece.calls:
            function(*args)

    def _capture(self, piece: Piece) -> None:
        """Capture the graph of a piece; if that fails, the piece runs without one from now on."""
        from nnet3py.ops.cuda import graphs, memory

        def run() -> None:
            for function, args in piece.calls:
                function(*args)

        counts = [(preconditioner, preconditioner.t) for preconditioner in piece.counted]
        try:
            piece.graph = graphs.capture(run)
            return
        except memory.HostNeeded:
            pass
        except graphs.CaptureFailed as error:
            _warn_once(error)
        piece.failed = True
        for preconditioner, t in counts:      # the piece is run once more
            preconditioner.t = t

    def _current_state(self) -> tuple[object, ...]:
        from nnet3py.ops.cuda import cublas

        return (self._ops.workspace.generation, self._ops.random.seed, cublas.tf32_is_allowed(), self._settings.now())


class _Settings:
    """The settings of components that are constants in CUDA graphs."""

    def __init__(self, stores: Sequence[ParameterStore]) -> None:
        hosts = [component for store in stores for outer in store.host.components
                 for component in (outer, *outer.children)]
        self._numbers, self._marks = [], []
        for host in {id(host): host for host in hosts}.values():
            names = [name for name, value in vars(host).items() if isinstance(value, _SCALARS)]
            if names:
                self._numbers.append((itemgetter(*names), vars(host)))
            if hasattr(host, "stored"):
                self._marks.append(host.stored)

    def now(self) -> tuple[object, ...]:
        """Return the settings that are numbers or text, and which statistics were ever stored, to compare."""
        return (tuple(values(attributes) for values, attributes in self._numbers),
                tuple(mark.tobytes() for mark in self._marks))


class _Decisions:
    """The decisions of natural-gradient preconditioners to initialize or update, which depend on their call counts."""

    def __init__(self, stores: Sequence[ParameterStore]) -> None:
        preconditioners = (each for store in stores for _, each in named_preconditioners(store.host))
        self._all = list({id(each): each for each in preconditioners}.values())
        self._calls: dict[OnlineNaturalGradient, int] | None = None     # the preconditioners' calls in a run

    def counts(self) -> list[int]:
        """Return the number of calls of each preconditioner so far."""
        return [preconditioner.t for preconditioner in self._all]

    def count_since(self, before: list[int], counted: dict[OnlineNaturalGradient, int]) -> None:
        """Add to ``counted`` the calls of each preconditioner since ``before``, a result of :meth:`counts`."""
        for preconditioner, t in zip(self._all, before, strict=True):
            if preconditioner.t != t:
                counted[preconditioner] = counted.get(preconditioner, 0) + preconditioner.t - t

    def learn(self, pieces: list[Piece]) -> bool:
        """Store how often a run, in these pieces, calls each preconditioner; returns whether that is new."""
        calls: dict[OnlineNaturalGradient, int] = {}
        for piece in pieces:
            for preconditioner, count in piece.counted.items():
                calls[preconditioner] = calls.get(preconditioner, 0) + count
        was_known, self._calls = self._calls == calls, calls
        return not was_known

    def now(self) -> Decided:
        """Return the preconditioners' decisions in the next run."""
        return tuple(preconditioner.decisions(count) for preconditioner, count in (self._calls or {}).items())


_warned = False


def _warn_once(error: Exception) -> None:
    global _warned
    if not _warned:
        _warned = True
        logger.warning("Some kernels are launched one by one, since they cannot be captured (%s)", error)
