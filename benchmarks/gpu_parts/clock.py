"""Times, launches and memory on the GPU."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


def synchronize() -> None:
    """Wait until all that was queued is done."""
    from nnet3py.ops.cuda.memory import stream

    stream().synchronize()


def seconds(run: Callable[[], Any], warm: int, repeats: int, wait: Callable[[], None] = synchronize) -> float:
    """Seconds of a call, on average over ``repeats`` after ``warm`` others, the last one's end included.

    In the simulator it is called once: the time means nothing.
    """
    from nnet3py.ops.device import is_simulated

    if is_simulated():
        warm, repeats = 0, 1
    for _ in range(warm):
        run()
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    wait()
    return (time.perf_counter() - start) / repeats


def used_memory() -> int:
    """Bytes of the GPU's memory that are in use, by whomever; 0 in the simulator."""
    from nnet3py.ops.cuda.memory import free_memory
    from nnet3py.ops.device import is_simulated

    if is_simulated():
        return 0
    free, total = free_memory()
    return total - free


@dataclass
class Launches:
    """What the host queued one by one: kernels, graphs and products."""

    kernels: int = 0
    graphs: int = 0
    products: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.kernels + self.graphs + self.products


@contextmanager
def counted() -> Iterator[Launches]:
    """Count launches inside. What a graph holds counts as one."""
    from nnet3py.ops.cuda import cublas, graphs, launch

    found = Launches()
    places = ((launch.Kernel, "launch", "kernels"), (graphs.Graph, "launch", "graphs"),
              (cublas.Cublas, "sgemm", "products"))
    before = [getattr(owner, name) for owner, name, _ in places]

    def counting(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            setattr(found, kind, getattr(found, kind) + 1)
            return function(*args)

        return call

    for (owner, name, kind), function in zip(places, before, strict=True):
        setattr(owner, name, counting(function, kind))
    try:
        yield found
    finally:
        for (owner, name, _), function in zip(places, before, strict=True):
            setattr(owner, name, function)
