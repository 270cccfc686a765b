"""The table of operations, each declared once, and the interface of ops objects.

The declarations stand in ``matrix_operations.py``, ``layer_operations.py`` and ``training_operations.py``, as methods
of a class for each family. A family has a module of its name in ``cpu/`` and in ``cuda/``, with a kernel of each
operation's name; operations that are plain functions on the CPU are in ``cpu/plain.py``::

    class Rows(Protocol):
        def copy_rows(self, dst: Out[Mat], src: Mat, indexes: IVec, alpha: F32) -> None:
            \"\"\"``dst[i] = alpha src[indexes[i]]``, a zero row where the index is -1. Kaldi: CopyRows.\"\"\"

The types are those of ``arrays.py``; ``Out`` marks what the operation writes. Destinations come first, then sources,
index arrays and scalars. mypy checks calls against the declarations, since ``get_ops`` returns :class:`Ops`; kernels
get the kinds of their arguments and their docstrings from the declarations. Importing this module imports neither
numpy nor numba.
"""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from nnet3py.cached_property import cached_property
from nnet3py.ops import layer_operations as layer
from nnet3py.ops import matrix_operations as matrix
from nnet3py.ops import training_operations as training
from nnet3py.ops.arrays import Protocol

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.resources import Random

Function = TypeVar("Function", bound=Callable[..., Any])


class Operations(matrix.Rows, matrix.Elementwise, matrix.Products, matrix.Reductions, matrix.Random,
                 layer.Nonlinear, layer.Normalize, layer.Recurrent, layer.Structural, layer.Pooling, layer.Convolution,
                 training.Chain, training.Numerators, training.NaturalGradient, training.SmallMatrices, Protocol):
    """Interface of all operations, from the classes of the families."""


class Memory(Protocol):
    """Interface for allocating memory of a device; :class:`Device` extends it."""

    def new_vector(self, size: int, /) -> DeviceArray:
        """Return an uninitialized float32 vector that is not part of scratch space."""


class Device(Memory, Protocol):
    """The methods of an ops object other than operations: scratch space, memory, copies and random numbers."""

    @property
    def device(self) -> str:
        """Name of the device: "cpu" or "cuda"."""

    @property
    def random(self) -> Random:
        """Random numbers of this object."""

    def scratch(self, rows: int, cols: int) -> DeviceArray:
        """Return an uninitialized contiguous float32 (rows, cols) matrix, valid until the next reset."""

    def scratch_vector(self, dim: int) -> DeviceArray:
        """Return an uninitialized contiguous float32 (dim,) vector, valid until the next reset."""

    def mark_scratch(self) -> int:
        """Return the size of scratch space in use, as the argument of ``release_scratch``."""

    def release_scratch(self, mark: int) -> None:
        """Free the arrays of scratch space returned since ``mark_scratch`` returned ``mark``."""

    def reset_scratch(self) -> None:
        """Free all arrays of scratch space."""

    def new_vector(self, size: int, /, dtype: type = ...) -> DeviceArray:
        """Return an uninitialized vector that is not part of scratch space, float32 by default."""

    def upload(self, table: np.ndarray) -> DeviceArray:
        """Return a copy of a host array in device memory; on the CPU the array itself."""

    def keep(self, table: np.ndarray) -> DeviceArray:
        """Upload a host array that never changes; from then on the host array may be an argument of operations."""

    def copy_in(self, dst: DeviceArray, src: np.ndarray) -> None:
        """Copy a host array of any float type into a matrix of this device."""

    def copy_out(self, src: DeviceArray) -> np.ndarray:
        """Return a contiguous host copy of a matrix of this device."""

    def staged(self, *arrays: np.ndarray) -> AbstractContextManager[tuple[DeviceArray, ...]]:
        """Return a context manager whose value is copies of host arrays in device memory, valid inside the ``with``."""

    def read_later(self, src: DeviceArray) -> Callable[[], np.ndarray]:
        """Queue a copy of a vector to the host; return a function that waits for it and returns it. Call it once."""

    def later(self, operation: str, /, *args: Any) -> Callable[[], float]:
        """Queue an operation that returns a number, and return a function that waits for the number and returns it."""

    def replay(self, run: Callable[..., None], /, *args: Any) -> None:
        """Call ``run(*args)``, which calls operations that depend on ``args`` alone; a GPU may replay its launches."""

    def free_memory(self) -> tuple[int, int]:
        """Return the free and the total bytes of the device's memory; (0, 0) if unknown."""

    def natural_gradient_failed(self) -> Callable[[], bool]:
        """Return a function that returns whether a preconditioner may have got rows it cannot use (such as NaN)."""


class Ops(Operations, Device, Protocol):
    """The operations of a device for one thread, as ``get_ops`` returns them."""


@dataclass(frozen=True)
class Argument:
    """An argument of an operation; ``kind`` is the name of its type in lower case."""

    name: str
    kind: str


INDEXES = ("imat", "ivec", "lvec")


@dataclass(frozen=True)
class Operation:
    """Description of an operation, read from its declaration."""

    declaration: Callable[..., Any]

    @property
    def name(self) -> str:
        """Name of the operation."""
        return self.declaration.__name__

    @property
    def meaning(self) -> str:
        """Docstring of the declaration."""
        return inspect.getdoc(self.declaration) or ""

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Arguments of the operation, in order."""
        return tuple(Argument(name, text.removeprefix("Out[").removesuffix("]").lower())
                     for name, text in self.declaration.__annotations__.items() if name != "return")

    @property
    def kinds(self) -> str:
        """Kinds of the arguments, in order, separated by blanks."""
        return " ".join(argument.kind for argument in self.arguments)

    def stand_in(self, file: str, module: str) -> Callable[..., Any]:
        """Return an empty function with the operation's name and docstring, with ``file`` and ``module`` as its source.

        :func:`nnet3py.engine.generated.function_of_text` copies these from it.
        """
        code = self.declaration.__code__.replace(co_filename=file)
        function = FunctionType(code, {"__name__": module}, self.name)
        function.__doc__ = self.meaning
        return function


# By the family's name, such as ``natural_gradient`` for ``NaturalGradient``; also that of its modules in cpu/ and cuda/
FAMILIES: dict[str, tuple[Operation, ...]] = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", family.__name__).lower(): tuple(
        Operation(value) for name, value in vars(family).items() if not name.startswith("_"))
    for family in Operations.__bases__ if family is not Protocol}
FAMILY_OF: dict[str, str] = {operation.name: family for family, members in FAMILIES.items() for operation in members}
OPERATIONS: dict[str, Operation] = {operation.name: operation for members in FAMILIES.values() for operation in members}


def documented(function: Function) -> Function:
    """Set the docstring of a function to that of the operation of the same name; return the function."""
    function.__doc__ = OPERATIONS[function.__name__].meaning
    return function
