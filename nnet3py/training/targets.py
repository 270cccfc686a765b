"""Targets of an output, given as plain arrays: classes, dense values, sparse weights."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from nnet3py.errors import ShapeError
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, check_finite
from nnet3py.formats.posteriors import Posterior

NO_TARGET = -1       # the class of a frame to be ignored


class RowsOfScipy(Protocol):
    """What is used of scipy's sparse matrices by rows."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def indptr(self) -> np.ndarray: ...
    @property
    def indices(self) -> np.ndarray: ...
    @property
    def data(self) -> np.ndarray: ...


@runtime_checkable
class SparseOfScipy(Protocol):
    """Any of scipy's sparse matrices."""

    def tocsr(self) -> RowsOfScipy:
        """The same by rows."""


Targets: TypeAlias = np.ndarray | Sequence[float] | Sequence[Sequence[float]] | SparseMatrix | SparseOfScipy


def as_targets(targets: Targets, num_rows: int, dim: int, where: str = "the targets") -> Posterior | np.ndarray:
    """Targets of an output as posteriors, or as a matrix if they are dense.

    Parameters
    ----------
    targets : int (rows,), the class of each row, -1 for a row that does not count; or float (rows, dim); or a sparse
        matrix of that shape, a SparseMatrix or one of scipy's; for an output of one column also float (rows,)
    num_rows, dim : shape of the output
    where : their name in messages

    Returns
    -------
    Posterior of ``num_rows`` frames, or float32 (num_rows, dim)

    Raises
    ------
    ShapeError : another shape, or a class that the output does not have
    NumericError : NaN or infinity
    """
    if isinstance(targets, SparseMatrix | SparseOfScipy):
        matrix = targets if isinstance(targets, SparseMatrix) else _from_scipy(targets)
        _check_shape(matrix.shape, "a sparse matrix", num_rows, dim, where)
        check_finite(matrix, where)
        return Posterior(matrix.row_starts, matrix.columns, matrix.values)
    array = np.asarray(targets)
    if are_classes(array):
        return _of_classes(array, num_rows, dim, where)
    if array.ndim == 1 and dim == 1:
        array = array[:, None]
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"{where}: expected {_wanted(num_rows, dim)}; found {array.dtype} {array.shape}",
                         "np.asarray(targets, dtype=np.int32) or np.float32 may make numbers of them")
    _check_shape(array.shape, str(array.dtype), num_rows, dim, where)
    check_finite(array, where)
    return np.asarray(array, dtype=np.float32)


def are_classes(targets: Targets) -> bool:
    """Whether targets, of any kind that ``as_targets`` takes, are the class of each row: integers (rows,)."""
    if isinstance(targets, SparseMatrix | SparseOfScipy):
        return False
    try:
        array = np.asarray(targets)
    except ValueError:      # rows of different lengths
        return False
    return array.dtype.kind in "iub" and array.ndim == 1


def as_supervision(targets: Targets, num_rows: int, dim: int, where: str = "the targets") -> GeneralMatrix:
    """The same as a matrix of an example: sparse for classes and sparse weights, else float32 (rows, dim)."""
    wanted = as_targets(targets, num_rows, dim, where)
    if isinstance(wanted, np.ndarray):
        return wanted
    return SparseMatrix.from_arrays(wanted.row_starts, wanted.ids, wanted.weights, dim)


def target_width(targets: Targets) -> int:
    """The columns that a matrix of targets, of any kind that ``as_targets`` takes, has at least."""
    if isinstance(targets, SparseMatrix | SparseOfScipy):
        return int((targets if isinstance(targets, SparseMatrix) else targets.tocsr()).shape[1])
    if are_classes(targets):
        return int(np.max(targets, initial=0)) + 1
    return int(np.shape(targets)[1]) if np.ndim(targets) > 1 else 1


def _of_classes(classes: np.ndarray, num_rows: int, dim: int, where: str) -> Posterior:
    if len(classes) != num_rows:
        _check_shape(classes.shape, str(classes.dtype), num_rows, dim, where)
    classes = classes.astype(np.int64)
    wrong = classes[(classes < NO_TARGET) | (classes >= dim)]
    if len(wrong):
        raise ShapeError(f"{where}: found the class {wrong[0]}, but the output has the classes 0 to {dim - 1} "
                         f"({NO_TARGET}: a row that does not count)")
    counts = classes != NO_TARGET
    return Posterior(np.concatenate(([0], np.cumsum(counts))), classes[counts].astype(np.int32),
                     np.ones(int(counts.sum()), dtype=np.float32))


def _from_scipy(targets: SparseOfScipy) -> SparseMatrix:
    rows = targets.tocsr()
    return SparseMatrix.from_arrays(rows.indptr, rows.indices, rows.data, rows.shape[1])


def _check_shape(shape: tuple[int, ...], kind: str, num_rows: int, dim: int, where: str) -> None:
    if shape != (num_rows, dim):
        raise ShapeError(f"{where}: expected {_wanted(num_rows, dim)}; found {kind} {shape}")


def _wanted(num_rows: int, dim: int) -> str:
    return f"integers ({num_rows},) for classes below {dim}, or numbers ({num_rows}, {dim}), dense or sparse"
