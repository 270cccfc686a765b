"""Where the rows of a descriptor come from, and how they are split into commands that each read or write few matrices.

A list of locations is a pair of integer arrays (terms, rows): the matrix and the row in it of each row's k-th term, -1
for none; a row's terms stand before its gaps. The number of a matrix may be that of a step or of a sub-matrix.

Kaldi: ``SplitLocations``, ``SplitLocationsBackward``, ``HasContiguousProperty`` (nnet-compile-utils.h).
"""
from __future__ import annotations

import numpy as np

Locations = tuple[np.ndarray, np.ndarray]      # matrices and rows, int64 (terms, rows)
Column = tuple[np.ndarray, np.ndarray]         # the same for one term, int64 (rows,)


def compact(matrices: np.ndarray, rows: np.ndarray) -> Locations:
    """Move each row's terms before its gaps, in order, and drop the terms that no row has."""
    present = matrices >= 0
    if len(present) > 1 and (present[1:] & ~present[:-1]).any():
        order = np.argsort(~present, axis=0, kind="stable")
        matrices, rows = np.take_along_axis(matrices, order, 0), np.take_along_axis(rows, order, 0)
        present = matrices >= 0
    length = int(present.any(axis=1).sum())
    return matrices[:length], rows[:length]


def split_locations(matrices: np.ndarray, rows: np.ndarray) -> list[Column]:
    """Split locations into columns. A matrix that more than half of the rows use gets a column of its own."""
    if len(matrices) == 0:
        return []
    if len(matrices) == 1:
        return [(matrices[0], rows[0])]
    counts = np.bincount(matrices[matrices >= 0])
    frequent = np.flatnonzero(counts > matrices.shape[1] // 2)[::-1]
    if not len(frequent):
        return list(zip(matrices, rows, strict=True))
    columns: list[Column] = []
    rest = matrices.copy()
    position = np.arange(matrices.shape[1])
    for matrix in frequent.tolist():
        is_here = matrices == matrix
        term = is_here.argmax(axis=0)                # the first such term of each row
        has = is_here[term, position]
        columns.append((np.where(has, matrix, -1), np.where(has, rows[term, position], -1)))
        rest[term[has], position[has]] = -1
    return columns + split_locations(*compact(rest, rows))


def split_locations_backward(matrices: np.ndarray, rows: np.ndarray) -> list[Column]:
    """Split locations into columns that can be added to in one command.

    In a column with one matrix each of its rows occurs in one run of neighbors; in one with several, none occurs
    twice.
    """
    pieces: list[Column] = []
    for column_matrices, column_rows in split_locations(matrices, rows):
        present = column_matrices >= 0
        if not present.any():
            continue
        numbers = np.where(present, column_rows, -1)
        single = only_matrix(column_matrices) >= 0
        piece = _run_number(numbers) if single else _occurrence(column_matrices, numbers)
        pieces += _pieces((column_matrices, numbers), piece)
    return pieces


def split_repeated(column: Column, matrices: np.ndarray, rows: np.ndarray) -> list[Column]:
    """Split a column into columns in none of which a pair of ``matrices`` and ``rows``, one per term, occurs twice."""
    present = column[0] >= 0
    return _pieces(column, _occurrence(np.where(present, matrices, -1), np.where(present, rows, -1)))


def _pieces(column: Column, piece: np.ndarray) -> list[Column]:
    """A column for each number in ``piece`` (one per term), with those terms only."""
    matrices, rows = column
    present = matrices >= 0
    chosen = [(piece == k) & present for k in range(int(piece[present].max()) + 1)]
    return [(np.where(is_chosen, matrices, -1), np.where(is_chosen, rows, -1)) for is_chosen in chosen]


def only_matrix(matrices: np.ndarray) -> int:
    """The matrix that all terms of a column share, or -1 if there are several."""
    present = matrices[matrices >= 0]
    return int(present[0]) if len(present) and (present == present[0]).all() else -1


def contiguous_ranges(indexes: np.ndarray, num_rows: int) -> np.ndarray | None:
    """Where in ``indexes`` each value 0 … num_rows - 1 stands: int32 (num_rows, 2) of begin and end; -1, -1: nowhere.

    None if the places of some value do not follow each other.
    """
    starts = np.flatnonzero(np.diff(indexes, prepend=indexes[:1] - 1))
    ends = np.append(starts[1:], len(indexes))
    values = indexes[starts]
    real = values >= 0
    if np.bincount(values[real], minlength=1).max() > 1:
        return None
    ranges = np.full((num_rows, 2), -1, dtype=np.int32)
    ranges[values[real], 0], ranges[values[real], 1] = starts[real], ends[real]
    return ranges


def _run_number(rows: np.ndarray) -> np.ndarray:
    """For each place how many separate runs of the same value came before its run."""
    starts = np.flatnonzero(np.diff(rows, prepend=rows[:1] - 1))
    per_run = _count_earlier(rows[starts])
    return np.repeat(per_run, np.diff(np.append(starts, len(rows))))


def _occurrence(matrices: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """For each place how often the same pair came before."""
    return _count_earlier(matrices * (int(rows.max(initial=0)) + 2) + rows)


def _count_earlier(values: np.ndarray) -> np.ndarray:
    if (np.diff(values) > 0).all():
        return np.zeros(len(values), np.int64)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    out = np.empty(len(values), np.int64)
    out[order] = np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values))))
    return out
