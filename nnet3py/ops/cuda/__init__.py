"""The operations on a GPU, compiled by numba.cuda; each file has the same operations as the file of ``ops/cpu``."""
from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from nnet3py.ops.resources import Workspace
from nnet3py.ops.table import FAMILY_OF


def load(name: str) -> Any:
    """Return the operation ``name``. Raises AttributeError if the table of operations does not have it."""
    family = FAMILY_OF.get(name)
    if family is None:
        raise AttributeError(f"no operation is called {name!r}; nnet3py/ops/table.py lists them")
    return getattr(import_module(f"{__name__}.{family}"), name)


class CudaOps:
    """The operations of ``ops/table.py`` on device arrays, with scratch space and a random stream, for one thread."""

    device = "cuda"

    def __init__(self) -> None:
        from nnet3py.ops.cuda import memory
        from nnet3py.ops.cuda.graphs import replay
        from nnet3py.ops.cuda.random import DeviceRandom

        self.workspace = Workspace(memory.new_array)
        self.scratch = self.workspace.scratch
        self.scratch_vector = self.workspace.scratch_vector
        self.mark_scratch = self.workspace.mark_scratch
        self.release_scratch = self.workspace.release_scratch
        self.reset_scratch = self.workspace.reset_scratch
        self.new_vector = memory.new_array
        self.upload = memory.upload
        self.keep = memory.resident
        self.free_memory = memory.free_memory
        copies = memory.Copies(lambda: self.copy_mat, self._passing_space)
        self.copy_in = copies.copy_in
        self.copy_out = copies.copy_out
        self.read_later = copies.read_later
        self.staged = copies.staged
        self.replay = replay
        self.random = DeviceRandom(self)
        self._failures = 0.0

    def _passing_space(self, rows: int, cols: int) -> Any:
        """Return scratch space for a matrix of the next two launches only: it is free for other uses at once."""
        mark = self.mark_scratch()
        matrix = self.scratch(rows, cols)
        self.release_scratch(mark)
        return matrix

    def later(self, operation: str, /, *args: Any) -> Callable[[], float]:
        """Queue an operation that returns a number; return a function that waits for the number, to be called once."""
        from nnet3py.ops.cuda import memory

        count = load(operation).queue(*args)
        if not count:
            return lambda: 0.0
        parts = self.read_later(memory.results().place(count))
        return lambda: float(parts().sum())

    def natural_gradient_failed(self) -> Callable[[], bool]:
        """Return a function that returns whether preconditioners got rows they cannot use; to be called once.

        It waits for the operations queued before this call, and counts those queued since the previous call.
        """
        from nnet3py.ops.cuda.natural_gradient import natural_gradient_failures

        failures = self.read_later(natural_gradient_failures())

        def failed() -> bool:
            failures_before, self._failures = self._failures, float(failures()[0])
            return self._failures != failures_before

        return failed

    def __getattr__(self, name: str) -> Any:
        operation = load(name)
        setattr(self, name, operation)
        return operation
