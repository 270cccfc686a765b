"""The types in the declarations of operations; ``table.py`` makes the kinds of kernels' arguments from their names.

A matrix or vector is an array in the memory of a device: a numpy array on the CPU, an array of numba.cuda on a GPU.
:class:`DeviceArray` declares the attributes that both have: code for any device uses no others. Importing this module
imports neither numpy nor numba.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

if TYPE_CHECKING:
    from typing import Protocol

    import numpy as np

    Place: TypeAlias = int | slice | tuple[slice, ...]
else:
    Protocol = object       # protocols take long to make, and are not needed at run time


class DeviceArray(Protocol):
    """An array in the memory of some device."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns of a matrix; number of elements of a vector."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def ndim(self) -> int:
        """2 for a matrix, 1 for a vector."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the elements."""

    def __getitem__(self, place: Place, /) -> DeviceArray:
        """Return a view of a part of the array."""

    def reshape(self, rows: int, cols: int, /) -> DeviceArray:
        """Return a view of a contiguous array as a (rows, cols) matrix."""


Anything = TypeVar("Anything")
Out: TypeAlias = Annotated[Anything, "the operation writes it"]

# Matrices have adjacent columns and any row stride, except those of int32; everything else is contiguous.
Mat: TypeAlias = DeviceArray        # float32 (rows, cols)
DMat: TypeAlias = DeviceArray       # float64 (rows, cols)
IMat: TypeAlias = DeviceArray       # int32 (rows, cols), contiguous
Vec: TypeAlias = DeviceArray        # float32 (dim,)
RowVec: TypeAlias = DeviceArray     # float32 (rows,): an element for each row in a formula of elements
DVec: TypeAlias = DeviceArray       # float64 (dim,)
IVec: TypeAlias = DeviceArray       # int32 (dim,); -1 for none
LVec: TypeAlias = DeviceArray       # int64 (dim,); -1 for none
F32: TypeAlias = float
F64: TypeAlias = float
Int: TypeAlias = int
Bool: TypeAlias = bool
# Numbers that differ from minibatch to minibatch: a GPU is given an array of one element, which a captured launch reads
F32Cell: TypeAlias = "float | DeviceArray"
IntCell: TypeAlias = "int | DeviceArray"
