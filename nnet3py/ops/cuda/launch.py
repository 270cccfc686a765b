"""How the GPU kernels are compiled and launched.

A kernel has the name and the arguments of its CPU twin and is decorated like it::

    @kernel("mat mat ivec f32")
    def copy_rows(dst, src, indexes, alpha):
        first_col, first_row = cuda.grid(2)
        col_step, row_step = cuda.gridsize(2)
        for i in range(first_row, dst.shape[0], row_step):
            for j in range(first_col, dst.shape[1], col_step): ...

The loops run over whatever grid they get, so the launch shape decides the speed and never the result. Neighbouring
threads work on neighbouring columns.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from nnet3py.ops import device
from nnet3py.ops.kinds import kinds_of

cuda = device.cuda()

THREADS = 256          # threads of a block
MAX_BLOCKS = 1024      # of a grid in each direction: enough to fill any GPU, and the loops do the rest

_forced: tuple[tuple[int, int], tuple[int, int]] | None = None


def launch_2d(rows: int, cols: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Grid and block, each (along columns, along rows), for a kernel over a (rows, cols) matrix."""
    if _forced is not None:
        return _forced
    width = 32
    while width < cols and width < THREADS:
        width *= 2
    height = THREADS // width
    return ((max(1, min(-(-cols // width), MAX_BLOCKS)), max(1, min(-(-rows // height), MAX_BLOCKS))), (width, height))


@contextmanager
def forced_launch(grid: tuple[int, int], block: tuple[int, int]) -> Iterator[None]:
    """Launch every kernel with this grid and block (for tests of the loops' edges)."""
    global _forced
    _forced = (grid, block)
    try:
        yield
    finally:
        _forced = None


class Kernel:
    """A function compiled for one signature when it is first launched, on a grid that fits one of its matrices."""

    def __init__(self, function: Callable[..., Any], kinds: str, over: int) -> None:
        self.function = function
        self.kinds = tuple(kinds.split())
        self.signature = kinds_of(kinds)
        self.over = over
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._compiled: Any = None

    def compile(self) -> Any:
        """The dispatcher of numba.cuda, compiled for the current device."""
        if self._compiled is None:
            self._compiled = cuda.jit(self.signature)(self.function)
        return self._compiled

    def ptx(self, compute_capability: tuple[int, int]) -> str:
        """The kernel's PTX for a compute capability such as (7, 5); needs NVVM, but no GPU."""
        with _as_if_on(compute_capability):
            return cuda.compile_ptx(self.function, self.signature, cc=compute_capability)[0]

    def __call__(self, *args: Any) -> None:
        rows, cols = args[self.over].shape
        if rows and cols:
            grid, block = launch_2d(rows, cols)
            (self._compiled or self.compile())[grid, block](*args)


@contextmanager
def _as_if_on(compute_capability: tuple[int, int]) -> Iterator[None]:
    """Compile functions that kernels call, too: numba asks the current device for what it should compile them for."""
    module = cuda.dispatcher
    asked, module.get_current_device = module.get_current_device, lambda: SimpleNamespace(
        compute_capability=compute_capability)
    try:
        yield
    finally:
        module.get_current_device = asked


def kernel(kinds: str, over: int = 0) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a :class:`Kernel`; ``kinds`` as for the CPU, ``over`` the argument whose (rows, cols) the grid covers."""
    return lambda function: Kernel(function, kinds, over)
