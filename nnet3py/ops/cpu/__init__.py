"""The operations on the CPU, compiled by numba.

An operation is looked up on first use: its kernel is loaded from disk, without numba; if there is none, and it is no
plain function either (``plain.py``), the module of its family (``ops/table.py`` has the families) is imported, and
compiles it. Then it is an attribute of the object.
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
    """Return the operation ``name``, compiled and ready; AttributeError if the table does not have it."""
    family = FAMILY_OF.get(name)
    if family is None:
        raise AttributeError(f"no operation is called {name!r}; nnet3py/ops/table.py lists them")
    return kernel_files.find(_FOLDER / f"{family}.py", name) or _imported(family, name)


def load_compiled() -> int:
    """Load all operations already compiled on this machine, before a process forks; return how many there are."""
    return sum(kernel_files.find(_FOLDER / f"{family}.py", name) is not None for name, family in FAMILY_OF.items())


def _imported(family: str, name: str) -> Callable[..., Any]:
    """Return an operation that is not on disk: a plain function, or compiled now."""
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
        """Return an uninitialized vector that lasts."""
        return np.empty(size, dtype=dtype)

    @staticmethod
    def upload(table: np.ndarray) -> np.ndarray:
        """Return a host array that kernels can read: the array itself."""
        return table

    keep = upload

    @staticmethod
    def free_memory() -> tuple[int, int]:
        """Return free bytes and all bytes: 0, unknown."""
        return 0, 0

    @staticmethod
    def copy_in(dst: np.ndarray, src: np.ndarray) -> None:
        """Fill a matrix of this device from a host array of any float type."""
        np.copyto(dst, src, casting="same_kind")

    @staticmethod
    def copy_out(src: np.ndarray) -> np.ndarray:
        """Return a contiguous host copy of a matrix of this device."""
        return np.array(src, order="C")

    @staticmethod
    def staged(*arrays: np.ndarray) -> AbstractContextManager[tuple[np.ndarray, ...]]:
        """Return a context with host arrays that kernels can read: the arrays themselves."""
        return nullcontext(arrays)

    @staticmethod
    def read_later(src: np.ndarray) -> Callable[[], np.ndarray]:
        """Return a function that returns a host copy of a vector as it is now, to be called once."""
        copied = np.array(src)
        return lambda: copied

    def later(self, operation: str, /, *args: Any) -> Callable[[], float]:
        """Return a function that returns an operation's number, which is computed at once."""
        value = getattr(self, operation)(*args)
        return lambda: value

    @staticmethod
    def replay(run: Callable[..., None], /, *args: Any) -> None:
        """Call ``run(*args)``."""
        run(*args)

    @staticmethod
    def natural_gradient_failed() -> Callable[[], bool]:
        """Return a function that returns True: asking each preconditioner for unusable rows costs little."""
        return lambda: True

    def __getattr__(self, name: str) -> Any:
        operation = load(name)
        setattr(self, name, operation)
        return operation
