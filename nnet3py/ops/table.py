"""The table of operations, each declared once, and the interface of ops objects.

The declarations stand in ``matrix_operations.py``, ``layer_operations.py`` and ``training_operations.py``, as methods
of a class for each family. A family has a module of its name in ``cpu/`` and in ``cuda/``, with a kernel of each
operation's name; operations that are plain functions on the CPU are in ``cpu/plain.py``::

    class Rows(Protocol):
        def copy_rows(self, dst: Out[Mat], src: Mat, indexes: IVec, alpha: F32) -> None:
            \"\"\"``dst[i] = alpha src[indexes[i]]``, a zero row where the index is -1. Kaldi: CopyRows.\"\"\"

The types are those of ``arrays.py``; ``Out`` marks what the operation writes. Destinations come first, then sources,
index arrays and scalars. mypy checks calls against the declarations, since ``get_ops`` returns :class:`Ops`;
kernels get the kinds of their arguments, and their documentation, from them. Light: no numpy, no numba.
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
    """The operations of all families."""


class Memory(Protocol):
    """A device's memory, as parameter stores need it."""

    def new_vector(self, size: int, /) -> DeviceArray:
        """Return an uninitialized float32 vector that lasts."""


class Device(Memory, Protocol):
    """The part of an ops object beside operations: scratch space, memory, copies and random numbers."""

    @property
    def device(self) -> str:
        """The device's name: "cpu" or "cuda"."""

    @property
    def random(self) -> Random:
        """The random stream."""

    def scratch(self, rows: int, cols: int) -> DeviceArray:
        """Return an uninitialized contiguous float32 (rows, cols) matrix, valid until the next reset."""

    def scratch_vector(self, dim: int) -> DeviceArray:
        """Return an uninitialized contiguous float32 (dim,) vector, valid until the next reset."""

    def mark_scratch(self) -> int:
        """Return a mark for ``release_scratch``."""

    def release_scratch(self, mark: int) -> None:
        """Take back arrays handed out since ``mark_scratch`` returned ``mark``; earlier ones stay valid."""

    def reset_scratch(self) -> None:
        """Take back all arrays of scratch space."""

    def new_vector(self, size: int, /, dtype: type = ...) -> DeviceArray:
        """Return an uninitialized vector that lasts, float32 unless ``dtype`` says otherwise."""

    def upload(self, table: np.ndarray) -> DeviceArray:
        """Return a host array's copy that kernels can read; on the CPU the array itself."""

    def keep(self, table: np.ndarray) -> DeviceArray:
        """Upload an array that never changes: operations can then be given the host array itself."""

    def copy_in(self, dst: DeviceArray, src: np.ndarray) -> None:
        """Fill a matrix of this device from a host array of any float type."""

    def copy_out(self, src: DeviceArray) -> np.ndarray:
        """Return a contiguous host copy of a matrix of this device."""

    def staged(self, *arrays: np.ndarray) -> AbstractContextManager[tuple[DeviceArray, ...]]:
        """Make host arrays readable for kernels inside a ``with``."""

    def read_later(self, src: DeviceArray) -> Callable[[], np.ndarray]:
        """Return a function that returns a host copy of a vector as it is now, to be called only once."""

    def later(self, operation: str, /, *args: Any) -> Callable[[], float]:
        """Queue an operation and return a function that waits for its number."""

    def replay(self, run: Callable[..., None], /, *args: Any) -> None:
        """Call ``run(*args)``, whose operations depend on nothing else; a GPU may capture and replay the launches."""

    def free_memory(self) -> tuple[int, int]:
        """Return the free and all bytes of the device's memory; 0 if unknown."""

    def natural_gradient_failed(self) -> Callable[[], bool]:
        """Return a function that tells whether a preconditioner may have got unusable rows."""


class Ops(Operations, Device, Protocol):
    """The operations of a device for one thread, as ``get_ops`` returns them."""


@dataclass(frozen=True)
class Argument:
    """An argument of an operation: ``kind`` is its type's name in small letters, ``default`` its source text."""

    name: str
    kind: str
    role: str               # destination, source, index or scalar
    default: str | None = None


SCALARS = ("f32", "f64", "int", "bool", "f32cell", "intcell")
INDEXES = ("imat", "ivec", "lvec")


@dataclass(frozen=True)
class Operation:
    """An operation, described by its declaration."""

    declaration: Callable[..., Any]

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.declaration.__name__

    @property
    def meaning(self) -> str:
        """The documentation."""
        return inspect.getdoc(self.declaration) or ""

    @property
    def returns(self) -> str:
        """The type of the result, "None" for none."""
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
        """Return an empty function with the operation's name and documentation, as if defined in a module."""
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
    """Return ``natural_gradient`` for ``NaturalGradient``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", declared.__name__).lower()


FAMILIES: dict[str, tuple[Operation, ...]] = {     # also the name of its module in cpu/ and cuda/
    _family_name(family): tuple(Operation(value) for name, value in vars(family).items() if not name.startswith("_"))
    for family in Operations.__bases__ if family is not Protocol}
FAMILY_OF: dict[str, str] = {operation.name: family for family, members in FAMILIES.items() for operation in members}
OPERATIONS: dict[str, Operation] = {operation.name: operation for members in FAMILIES.values() for operation in members}


def documented(function: Function) -> Function:
    """Give a function with an operation's name the documentation of the declaration."""
    function.__doc__ = OPERATIONS[function.__name__].meaning
    return function
