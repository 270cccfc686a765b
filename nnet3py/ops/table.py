"""The table of operations: what every ops object answers to, each operation declared once.

The declarations stand in ``matrix_operations.py``, ``layer_operations.py`` and ``training_operations.py``, as methods
of a class for each family. A family has a module of its name in ``cpu/`` and in ``cuda/``, with a kernel of each
operation's name::

    class Rows(Protocol):
        def copy_rows(self, dst: Out[Mat], src: Mat, indexes: IVec, alpha: F32) -> None:
            \"\"\"``dst[i] = alpha src[indexes[i]]``, a zero row where the index is -1. Kaldi: CopyRows.\"\"\"

The types are those of ``arrays.py``; ``Out`` marks what the operation writes. Destinations come first, then sources,
index arrays and scalars. A call is checked against the declaration by mypy, since it is what ``get_ops`` returns;
kernels get the kinds of their arguments from it, and their documentation. Light: no numpy, no numba.
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
    from nnet3py.ops.random import Random

Function = TypeVar("Function", bound=Callable[..., Any])


class Operations(matrix.Rows, matrix.Elementwise, matrix.Products, matrix.Reductions, matrix.ByFactor, matrix.Random,
                 layer.Nonlinear, layer.Normalize, layer.Recurrent, layer.Structural, layer.Dropout,
                 layer.Pooling, layer.Convolution, layer.Attention, layer.StatisticsPooling,
                 training.Objective, training.Chain, training.Numerators, training.NaturalGradient, training.Eigen,
                 training.Orthogonal, training.Orthonormal, Protocol):
    """The operations of all families."""


class Memory(Protocol):
    """What gives memory."""

    def new_vector(self, size: int, /) -> DeviceArray:
        """Uninitialized float32 memory that lasts."""


class Device(Memory, Protocol):
    """What an ops object has beside operations: scratch space, memory, copies and random numbers."""

    @property
    def device(self) -> str:
        """Its name: "cpu" or "cuda"."""

    @property
    def random(self) -> Random:
        """Its random stream."""

    def scratch(self, rows: int, cols: int) -> DeviceArray:
        """An uninitialized contiguous float32 (rows, cols) matrix, valid until the next reset."""

    def scratch_vector(self, dim: int) -> DeviceArray:
        """An uninitialized contiguous float32 (dim,) vector, valid until the next reset."""

    def mark_scratch(self) -> int:
        """A mark for ``release_scratch``."""

    def release_scratch(self, mark: int) -> None:
        """Take back what was handed out since ``mark_scratch`` returned ``mark``; what came before it stays valid."""

    def reset_scratch(self) -> None:
        """Take back all that was handed out."""

    def new_vector(self, size: int, /, dtype: type = ...) -> DeviceArray:
        """The same; of float32 unless ``dtype`` says otherwise."""

    def upload(self, table: np.ndarray) -> DeviceArray:
        """A host array where kernels can read it."""

    def keep(self, table: np.ndarray) -> DeviceArray:
        """The same of an array that never changes: operations can then be given the host array itself."""

    def copy_in(self, dst: DeviceArray, src: np.ndarray) -> None:
        """Fill a matrix of this device from a host array of any float type."""

    def copy_out(self, src: DeviceArray) -> np.ndarray:
        """A host copy (contiguous) of a matrix of this device."""

    def staged(self, *arrays: np.ndarray) -> AbstractContextManager[tuple[DeviceArray, ...]]:
        """Host arrays where kernels can read them, for the time of a ``with``."""

    def read_later(self, src: DeviceArray) -> Callable[[], np.ndarray]:
        """A function that gives a host copy of what a vector of this device holds now, to be called only once."""

    def later(self, operation: str, /, *args: Any) -> Callable[[], float]:
        """A function that gives the number which an operation returns; the host waits for it only when it asks."""

    def replay(self, run: Callable[..., None], /, *args: Any) -> None:
        """``run(*args)``, which calls operations that depend on nothing else; a device may remember what it queued."""

    def free_memory(self) -> tuple[int, int]:
        """Bytes of the device's memory that are free, and all of them; 0 if that is not known."""

    def natural_gradient_failed(self) -> Callable[[], bool]:
        """A function that says whether a preconditioner may have got what it cannot use."""


class Ops(Operations, Device, Protocol):
    """What ``get_ops`` returns: the operations of a device, for one thread."""


@dataclass(frozen=True)
class Argument:
    """One argument of an operation: ``kind`` is its type's name in small letters; ``default`` as it is written."""

    name: str
    kind: str
    role: str               # destination, source, index or scalar
    default: str | None = None


SCALARS = ("f32", "f64", "int", "bool", "f32cell", "intcell")
INDEXES = ("imat", "ivec", "lvec")


@dataclass(frozen=True)
class Operation:
    """One operation, as its declaration says."""

    declaration: Callable[..., Any]

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.declaration.__name__

    @property
    def meaning(self) -> str:
        """What it does."""
        return inspect.getdoc(self.declaration) or ""

    @property
    def returns(self) -> str:
        """The type of what it returns, "None" for nothing."""
        return str(self.declaration.__annotations__["return"])

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments in order."""
        types = {name: text for name, text in self.declaration.__annotations__.items() if name != "return"}
        defaults = self.declaration.__defaults__ or ()
        written = dict(zip(list(types)[len(types) - len(defaults):], map(str, defaults), strict=True))
        return tuple(_argument(name, text, written.get(name)) for name, text in types.items())

    @property
    def kinds(self) -> str:
        """The arguments' kinds in order."""
        return " ".join(argument.kind for argument in self.arguments)

    def stand_in(self, file: str, module: str) -> Callable[..., Any]:
        """A function of its name and documentation, which does nothing and stands in a module."""
        code = self.declaration.__code__.replace(co_filename=file)
        function = FunctionType(code, {"__name__": module}, self.name)
        function.__doc__ = self.meaning
        return function


def _argument(name: str, text: str, default: str | None) -> Argument:
    is_written = text.startswith("Out[")
    kind = (text[4:-1] if is_written else text).lower()
    role = ("destination" if is_written else "scalar" if kind in SCALARS else "index" if kind in INDEXES else "source")
    return Argument(name, kind, role, default)


def _family_name(declared: type) -> str:
    """``statistics_pooling`` for ``StatisticsPooling``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", declared.__name__).lower()


FAMILIES: dict[str, tuple[Operation, ...]] = {     # the family's name is that of its module in cpu/ and cuda/
    _family_name(family): tuple(Operation(value) for name, value in vars(family).items() if not name.startswith("_"))
    for family in Operations.__bases__ if family is not Protocol}
FAMILY_OF: dict[str, str] = {operation.name: family for family, members in FAMILIES.items() for operation in members}
OPERATIONS: dict[str, Operation] = {operation.name: operation for members in FAMILIES.values() for operation in members}


def documented(function: Function) -> Function:
    """A function of an operation's name, which gets the documentation that the declaration has."""
    function.__doc__ = OPERATIONS[function.__name__].meaning
    return function
