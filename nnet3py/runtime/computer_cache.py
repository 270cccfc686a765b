"""Bound computations, kept by request. One arena and one set of operations serve them all."""
from __future__ import annotations

from collections import OrderedDict

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.request import ComputationRequest
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import Arena
from nnet3py.runtime.computer import Computer
from nnet3py.runtime.parameter_store import ParameterStore, host_of


class ComputerCache:
    """Makes a ready :class:`Computer` for each request, and keeps the most recently used.

    Parameters
    ----------
    nnet, update, stats, device : as for :class:`Computer`
    compiler : compiles, and caches computations
    capacity : how many bound computations are kept
    debug : log every command as it runs
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
        """As :meth:`computer`, with random numbers of its own for each call, for dropout outside test mode."""
        computer = self.computer(request)
        computer.ops.random.begin_minibatch(0, self._num_examples)
        self._num_examples += 1
        return computer

    def computer(self, request: ComputationRequest) -> Computer:
        """A computer at the start of the computation for ``request``."""
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
