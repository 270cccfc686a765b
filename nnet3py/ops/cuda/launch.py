"""The decorators of GPU kernels: compilation, arguments, and launch shapes.

An operation's kernel has the name and the arguments of the table of operations::

    @operation()
    def copy_rows(dst, src, indexes, alpha):
        first_col, first_row = cuda.grid(2)
        col_step, row_step = cuda.gridsize(2)
        for i in range(first_row, dst.shape[0], row_step):
            for j in range(first_col, dst.shape[1], col_step): ...

The loops cover the matrix with any grid, so the launch shape decides the speed and never the result. Neighboring
threads work on neighboring columns. ``shape`` chooses the grid: :func:`launch_2d` (the default) spreads threads over a
matrix; ``threads.py`` has the shapes of kernels that reduce.

An operation that returns a sum to the host is made by the decorator ``memory.summed_by_host`` from a function that
queues a kernel and returns a ``count``; the kernel writes ``count`` parts of the sum into
``memory.results().place(count)``. A call of the operation waits for the sum; ``ops.later`` queues the kernel, and reads
the parts when the sum is needed.

Scalars that differ from minibatch to minibatch (random draws, the minibatch's number) cannot be part of a captured
launch. Their kinds are ``f32cell`` and ``intcell``: a device array of one element (float32, int64), read as
``draw[0]``; a caller may give a number. Kernels that are parts of operations are given their arguments' kinds::

    @kernel("dvec int intcell")
    def _add_count(count, num_rows, draw): ...

Index arrays (``ivec``, ``lvec``, ``imat``) may be host arrays that never change: they are uploaded once. Other host
arrays may be arguments only after ``ops.keep`` has been called with them.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from nnet3py import log
from nnet3py.engine.kinds import cell_type, kinds_of
from nnet3py.errors import DeviceError
from nnet3py.ops import device
from nnet3py.ops.cuda.memory import constant_cell, is_resident, resident, stream
from nnet3py.ops.table import INDEXES, OPERATIONS, documented

logger = logging.getLogger(__name__)
_count = count(1)              # compiled kernels, for the status line
cuda = device.cuda()
Shape = tuple[tuple[int, int], tuple[int, int]]     # grid and block, each (along columns, along rows)

THREADS = 256          # threads of a block
MAX_BLOCKS = 1024      # of a grid in each direction: enough to fill any GPU, and the loops do the rest
EMPTY_GRID: Shape = (0, 0), (1, 1)     # nothing is launched

_forced: Shape | None = None


def launch_2d(rows: int, cols: int) -> Shape:
    """Return grid and block, each (along columns, along rows), for a kernel over a (rows, cols) matrix."""
    if not rows or not cols:
        return EMPTY_GRID
    if _forced is not None:
        return _forced
    width = 32
    while width < cols and width < THREADS:
        width *= 2
    height = THREADS // width
    return (min(-(-cols // width), MAX_BLOCKS), min(-(-rows // height), MAX_BLOCKS)), (width, height)


@contextmanager
def forced_launch(grid: tuple[int, int], block: tuple[int, int]) -> Iterator[None]:
    """Launch every kernel inside the ``with`` with this grid and block, to test that results do not depend on them."""
    global _forced
    _forced = (grid, block)
    try:
        yield
    finally:
        _forced = None


def forced() -> Shape | None:
    """Return the grid and block of :func:`forced_launch`; None if not forced."""
    return _forced


class Kernel:
    """CUDA kernel: compiled for one signature on its first launch; the size of one argument determines the grid."""

    def __init__(self, function: Callable[..., Any], kinds: str, over: int, shape: Callable[[int, int], Shape],
                 fastmath: bool) -> None:
        self.function = function
        self.kinds = tuple(kinds.split())
        types = list(kinds_of(kinds))
        self._cells = [(place, cell_type(kind)) for place, kind in enumerate(self.kinds) if kind.endswith("cell")]
        for place, cell in self._cells:
            types[place] = cell
        self.signature = tuple(types)
        self._indexes = tuple(place for place, kind in enumerate(self.kinds) if kind in INDEXES)
        self.over, self.shape, self.fastmath = over, shape, fastmath
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._compiled: Any = None

    def compile(self) -> Any:
        """Return numba.cuda's dispatcher, after compiling the kernel or loading it from the disk cache."""
        if self._compiled is None:
            self._compiled = _compile(self.function, self.signature, self.fastmath)
        return self._compiled

    def ptx(self, compute_capability: tuple[int, int]) -> str:
        """Return the kernel's PTX for a compute capability such as (7, 5); needs NVVM, but no GPU."""
        with _as_if_on(compute_capability):
            return cuda.compile_ptx(self.function, self.signature, cc=compute_capability, fastmath=self.fastmath)[0]

    def launch(self, shape: Shape, *args: Any) -> None:
        """Queue the kernel with the grid and block ``shape``."""
        compiled = self._compiled or self.compile()
        compiled[shape[0], shape[1], stream()](*self._on_device(args))

    def __call__(self, *args: Any) -> None:
        size = args[self.over].shape
        rows, cols = size if len(size) == 2 else (1, size[0])
        shape = self.shape(rows, cols)
        if shape != EMPTY_GRID:
            self.launch(shape, *args)

    def _on_device(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the arguments with host arrays and numbers replaced by device arrays where the kernel needs them."""
        ready = list(args)
        for place, cell in self._cells:
            if not hasattr(args[place], "shape"):
                ready[place] = constant_cell(args[place], str(cell.dtype))
        for place, value in enumerate(ready):
            if type(value) is not np.ndarray:
                continue
            if place in self._indexes or is_resident(value):
                ready[place] = resident(value)
            else:
                raise DeviceError(f"argument {place} of the GPU kernel {self.__name__} is a host array",
                                  "this is a fault of nnet3py: copy it to the device before")
        return ready


def _compile(function: Callable[..., Any], signature: tuple[Any, ...], fastmath: bool) -> Any:
    if device.is_simulated():
        return cuda.jit(signature)(function)
    from nnet3py.engine.code_files import kept_on_disk

    log.show_status(f"Compiling kernels for the GPU, or loading them: {next(_count)}")
    try:
        with kept_on_disk(Path(function.__code__.co_filename).resolve(), device.compiler()):
            return cuda.jit(signature, fastmath=fastmath, cache=True)(function)
    except Exception as error:       # the cache is damaged, or cannot be written
        logger.debug("%s is compiled without the disk: %s", function.__name__, error)
        return cuda.jit(signature, fastmath=fastmath)(function)
    finally:
        log.show_status("")


@contextmanager
def _as_if_on(compute_capability: tuple[int, int]) -> Iterator[None]:
    """Let numba compile device functions for this compute capability, instead of the current device's."""
    module = cuda.dispatcher
    asked, module.get_current_device = module.get_current_device, lambda: SimpleNamespace(
        compute_capability=compute_capability)
    try:
        yield
    finally:
        module.get_current_device = asked


def kernel(kinds: str, over: int = 0, shape: Callable[[int, int], Shape] = launch_2d,
           fastmath: bool = False) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a :class:`Kernel` of a function.

    Parameters
    ----------
    kinds : kinds of the arguments (``engine/kinds.py``), separated by blanks
    over : position of the argument whose (rows, cols) the grid covers; a vector is one row
    shape : function of rows and columns that returns grid and block, EMPTY_GRID if there is nothing to do
    fastmath : True for quicker exp, tanh and division with a few digits less
    """
    return lambda function: Kernel(function, kinds, over, shape, fastmath)


def operation(over: int = 0, shape: Callable[[int, int], Shape] = launch_2d,
              fastmath: bool = False) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes the kernel of the operation named as the function; arguments of :func:`kernel`."""
    return lambda function: Kernel(documented(function), OPERATIONS[function.__name__].kinds, over, shape, fastmath)
