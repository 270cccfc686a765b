"""The operations on the CPU, compiled by numba.

An operation is found on first use: its kernel is loaded from the disk, without numba; if it is not there, its family's
module (``ops/table.py`` says which) is imported and compiles it. From then on it is a plain attribute of the object.
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
from nnet3py.ops.random import Random
from nnet3py.ops.table import FAMILY_OF
from nnet3py.ops.workspace import Workspace

_FOLDER = Path(__file__).resolve().parent


@cache
def load(name: str) -> Callable[..., Any]:
    """The operation ``name``, compiled and ready; AttributeError if the table does not have it."""
    family = FAMILY_OF.get(name)
    if family is None:
        raise AttributeError(f"no operation is called {name!r}; nnet3py/ops/table.py lists them")
    return kernel_files.find(_FOLDER / f"{family}.py", name) or _imported(family, name)


def load_compiled() -> int:
    """Load all operations already compiled on this machine, for the copies of a process; returns how many there are."""
    return sum(kernel_files.find(_FOLDER / f"{family}.py", name) is not None for name, family in FAMILY_OF.items())


def _imported(family: str, name: str) -> Callable[..., Any]:
    """An operation that is not on disk: it is compiled now, or is a plain function."""
    operation = getattr(import_module(f"{__name__}.{family}"), name)
    prepare = getattr(operation, "compile", None)
    return prepare() if prepare is not None else operation


class CpuOps:
    """The operations of ``ops/table.py`` on numpy arrays, with scratch space and a random stream; for one thread."""

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
        """Uninitialized memory that lasts."""
        return np.empty(size, dtype=dtype)

    @staticmethod
    def upload(table: np.ndarray) -> np.ndarray:
        """A host array where kernels can read it: here, itself."""
        return table

    keep = upload

    @staticmethod
    def free_memory() -> tuple[int, int]:
        """Bytes that are free, and all of them: here, not known."""
        return 0, 0

    @staticmethod
    def copy_in(dst: np.ndarray, src: np.ndarray) -> None:
        """Fill a matrix of this device from a host array of any float type."""
        np.copyto(dst, src, casting="same_kind")

    @staticmethod
    def copy_out(src: np.ndarray) -> np.ndarray:
        """A host copy (contiguous) of a matrix of this device."""
        return np.array(src, order="C")

    @staticmethod
    def staged(*arrays: np.ndarray) -> AbstractContextManager[tuple[np.ndarray, ...]]:
        """Host arrays where kernels can read them, for the time of a ``with``: here, themselves."""
        return nullcontext(arrays)

    @staticmethod
    def read_later(src: np.ndarray) -> Callable[[], np.ndarray]:
        """A function that gives a host copy of what a vector of this device holds now, to be called once."""
        copied = np.array(src)
        return lambda: copied

    def later(self, operation: str, /, *args: Any) -> Callable[[], float]:
        """A function that gives the number which an operation returns: here, it is computed at once."""
        value = getattr(self, operation)(*args)
        return lambda: value

    @staticmethod
    def replay(run: Callable[..., None], /, *args: Any) -> None:
        """``run(*args)``."""
        run(*args)

    @staticmethod
    def natural_gradient_failed() -> Callable[[], bool]:
        """A function that says whether a preconditioner may have got unusable rows: asking each one costs little."""
        return lambda: True

    def __getattr__(self, name: str) -> Any:
        operation = load(name)
        setattr(self, name, operation)
        return operation
