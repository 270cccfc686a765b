"""The operations on the CPU, compiled by numba.

An operation is looked up on first use, in this order: a compiled kernel on disk, which is loaded without numba; a plain
function of ``plain.py``; the kernel in the module of the operation's family (``ops/table.py`` has the families), which
is imported and compiles it. From then on the operation is an attribute of the ops object.
"""
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nnet3py.engine import kernel_files
from nnet3py.ops.resources import Random, Workspace
from nnet3py.ops.table import FAMILY_OF

_FOLDER = Path(__file__).resolve().parent


@cache
def load(name: str) -> Callable[..., Any]:
    """Return the operation ``name``, compiled. Raises AttributeError if the table of operations does not have it."""
    family = FAMILY_OF.get(name)
    if family is None:
        raise AttributeError(f"no operation is called {name!r}; nnet3py/ops/table.py lists them")
    return kernel_files.find(_FOLDER / f"{family}.py", name) or _imported(family, name)


def load_compiled() -> int:
    """Load the operations whose compiled kernels are on disk, before a process forks; return their number."""
    return sum(kernel_files.find(_FOLDER / f"{family}.py", name) is not None for name, family in FAMILY_OF.items())


def _imported(family: str, name: str) -> Callable[..., Any]:
    """Return an operation without a compiled kernel on disk: its plain function, or its kernel after compiling it."""
    plain: Callable[..., Any] | None = getattr(import_module(f"{__name__}.plain"), name, None)
    if plain is not None:
        return plain
    compiled: Callable[..., Any] = getattr(import_module(f"{__name__}.{family}"), name).compile()
    return compiled


class CpuOps:
    """The operations of ``ops/table.py`` on numpy arrays, with scratch space and a random stream, for one thread."""

    device = "cpu"

    def __init__(self) -> None:
        workspace = Workspace()
        self.scratch = workspace.scratch
        self.scratch_vector = workspace.scratch_vector
        self.mark_scratch = workspace.mark_scratch
        self.release_scratch = workspace.release_scratch
        self.reset_scratch = workspace.reset_scratch
        self.random = Random(self)

    @staticmethod
    def new_vector(size: int, dtype: Any = np.float32) -> np.ndarray:
        """Return an uninitialized vector that is not part of scratch space."""
        return np.empty(size, dtype=dtype)

    @staticmethod
    def upload(table: np.ndarray) -> np.ndarray:
        """Return ``table``: on the CPU, kernels can read any host array."""
        return table

    keep = upload

    @staticmethod
    def free_memory() -> tuple[int, int]:
        """Return (0, 0): the free and total memory are unknown."""
        return 0, 0

    @staticmethod
    def copy_in(dst: np.ndarray, src: np.ndarray) -> None:
        """Copy a host array of any float type into a matrix of this device."""
        np.copyto(dst, src, casting="same_kind")

    @staticmethod
    def copy_out(src: np.ndarray) -> np.ndarray:
        """Return a contiguous host copy of a matrix of this device."""
        return np.array(src, order="C")

    @staticmethod
    def staged(*arrays: np.ndarray) -> AbstractContextManager[tuple[np.ndarray, ...]]:
        """Return a context manager whose value is ``arrays``: on the CPU, kernels can read any host array."""
        return nullcontext(arrays)

    @staticmethod
    def read_later(src: np.ndarray) -> Callable[[], np.ndarray]:
        """Copy a vector, and return a function that returns the copy; to be called once."""
        copied = np.array(src)
        return lambda: copied

    def later(self, operation: str, /, *args: Any) -> Callable[[], float]:
        """Run an operation that returns a number, and return a function that returns the number."""
        value = getattr(self, operation)(*args)
        return lambda: value

    @staticmethod
    def replay(run: Callable[..., None], /, *args: Any) -> None:
        """Call ``run(*args)``."""
        run(*args)

    @staticmethod
    def natural_gradient_failed() -> Callable[[], bool]:
        """Return a function that returns True: on the CPU, the caller checks every preconditioner, which is cheap."""
        return lambda: True

    def __getattr__(self, name: str) -> Any:
        operation = load(name)
        setattr(self, name, operation)
        return operation
