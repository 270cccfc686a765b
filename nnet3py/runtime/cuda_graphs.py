"""How the calls of a stage run on a GPU: captured once as CUDA graphs, then replayed.

The first run of a stage is plain: kernels are compiled, tables uploaded, scratch space finds its size. In the second
the runner sees which calls need the host (``memory.touch_host``): those that read a sum, refresh the natural gradient
or draw for a decision. The third captures what lies between them, a graph for each piece, and from then on a piece is
one launch. Where no call needs the host, a stage is a single graph.

A graph holds addresses and numbers as they were. So it is given up, and the stage looked at again, when one of these
has changed: the place of scratch space, a setting of a component (a learning rate, a dropout proportion, a test mode),
which statistics were ever stored, the seed, the arithmetic of products. What changes with each minibatch lies in
device memory: the data, the minibatch's number and all draws (``ops/cuda/draws.py``), the statistics that self-repair
depends on. The views of a stage are those of its arena; where that moves, a stage is bound anew.

With ``NNET3PY_CUDA_GRAPHS=0`` in the environment, with a driver without graphs, or where a piece cannot be captured,
launches are plain.
"""
from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from nnet3py.runtime.device_nnet import DeviceNnet

logger = logging.getLogger(__name__)

Call = tuple[Callable[..., Any], tuple[Any, ...]]
_PLAIN_RUNS = 2        # before anything is captured
_SCALARS = (bool, int, float, str, type(None))


@dataclass
class Piece:
    """Calls that follow each other, and their graph once there is one."""

    calls: list[Call]
    needs_host: bool
    graph: Any = None
    failed: bool = False


class StageRunner:
    """Runs the calls of one stage, again and again.

    Parameters
    ----------
    ops : the GPU's operations
    calls : the stage's calls, in order
    networks : the networks that the calls' components belong to
    """

    def __init__(self, ops: Any, calls: Sequence[Call], networks: Sequence[DeviceNnet]) -> None:
        from nnet3py.ops.cuda import graphs

        self._ops, self._calls = ops, list(calls)
        self._settings = _Settings(networks)
        self._possible = graphs.driver() is not None and os.environ.get("NNET3PY_CUDA_GRAPHS", "1") != "0"
        self._num_plain = 0
        self._state: Any = None
        self.pieces: list[Piece] = []

    def __call__(self) -> None:
        """Run the stage once."""
        if not self._possible:
            self._run_plain()
            return
        state = self._current_state()
        if state != self._state:
            self._num_plain, self.pieces, self._state = min(self._num_plain, _PLAIN_RUNS - 1), [], state
        if self._num_plain < _PLAIN_RUNS:
            self._num_plain += 1
            self._observe()
            return
        for piece in self.pieces:
            self._run_piece(piece)

    @property
    def num_launches(self) -> tuple[int, int]:
        """How many graphs a replay launches, and how many calls run without one."""
        graphs = sum(piece.graph is not None for piece in self.pieces)
        return graphs, sum(len(piece.calls) for piece in self.pieces if piece.graph is None)

    def _run_plain(self) -> None:
        for function, args in self._calls:
            function(*args)

    def _observe(self) -> None:
        """Run plainly, and cut the calls into pieces by whether they need the host."""
        from nnet3py.ops.cuda.memory import host_touches

        self.pieces = []
        for function, args in self._calls:
            before = host_touches()
            function(*args)
            needs_host = host_touches() != before
            if not self.pieces or self.pieces[-1].needs_host != needs_host:
                self.pieces.append(Piece([], needs_host))
            self.pieces[-1].calls.append((function, args))

    def _run_piece(self, piece: Piece) -> None:
        if piece.graph is None and not piece.needs_host and not piece.failed:
            self._capture(piece)
        if piece.graph is not None:
            piece.graph.launch()
            return
        for function, args in piece.calls:
            function(*args)

    def _capture(self, piece: Piece) -> None:
        """Make the piece's graph; without one it runs plainly from now on."""
        from nnet3py.ops.cuda import graphs, memory

        def run() -> None:
            for function, args in piece.calls:
                function(*args)

        try:
            piece.graph = graphs.capture(run)
        except memory.HostNeeded:
            piece.failed = True
        except graphs.CaptureFailed as error:
            piece.failed = True
            _warn_once(error)

    def _current_state(self) -> tuple[Any, ...]:
        from nnet3py.ops.cuda import cublas

        return (self._ops.workspace.generation, self._ops.random.seed, cublas.tf32_is_allowed(), self._settings.now())


class _Settings:
    """The settings of components that end up as numbers in launches."""

    def __init__(self, networks: Sequence[DeviceNnet]) -> None:
        hosts = [component for network in networks for outer in network.host.components
                 for component in (outer, *outer.children)]
        self._numbers, self._marks = [], []
        for host in {id(host): host for host in hosts}.values():
            names = [name for name, value in vars(host).items() if isinstance(value, _SCALARS)]
            if names:
                self._numbers.append((itemgetter(*names), vars(host)))
            if hasattr(host, "stored"):
                self._marks.append(host.stored)

    def now(self) -> tuple[Any, ...]:
        """Everything in a component that is no array, and its marks of what was stored."""
        return (tuple(values(attributes) for values, attributes in self._numbers),
                tuple(mark.tobytes() for mark in self._marks))


_warned = False


def _warn_once(error: Exception) -> None:
    global _warned
    if not _warned:
        _warned = True
        logger.warning("Some kernels are launched one by one, since they cannot be captured (%s)", error)
