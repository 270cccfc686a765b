"""Ranges of rows: where the frames of a sequence between two times are, in rows sorted by sequence."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.errors import CompileError
from nnet3py.index import distinct, sequence_keys

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader


def by_sequence(indexes: np.ndarray) -> np.ndarray:
    """The indexes, int32 (rows, 3), sorted by n, then x, then t: the frames of a sequence are consecutive."""
    return indexes[np.lexsort((indexes[:, 1], indexes[:, 2], indexes[:, 0]))]


def times_of(indexes: np.ndarray) -> np.ndarray:
    """The times of the indexes, as int64 (rows,) so that sums of them fit."""
    return indexes[:, 1].astype(np.int64)


def row_ranges(rows: np.ndarray, of: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """For each index in ``of``, where in ``rows`` its sequence is between two times: int32 (len(of), 2), begin and end.

    Parameters
    ----------
    rows : int32 (rows, 3), in the order of ``by_sequence``
    of : int32 (wanted, 3)
    first, last : int64 (wanted,), the times

    Raises
    ------
    CompileError : ``rows`` are in another order, or one occurs twice
    """
    lowest = int(rows[:, 1].min(initial=0))
    length = int(rows[:, 1].max(initial=0)) - lowest + 1
    names = [sequence_keys(indexes) for indexes in (rows, of)]
    sequences = distinct(np.concatenate(names))
    starts = [np.searchsorted(sequences, name) * (length + 1) for name in names]
    keys = starts[0] + rows[:, 1] - lowest
    if np.any(keys[1:] <= keys[:-1]):
        raise CompileError("ranges of rows need distinct rows sorted by n, then x, then t; these are not")
    bounds = [np.searchsorted(keys, starts[1] + np.clip(time - lowest, 0, length)) for time in (first, last + 1)]
    return np.stack(bounds, axis=1).astype(np.int32)


def rows_inside(ranges: np.ndarray) -> np.ndarray:
    """The rows inside each of the ranges, int32 (count, 2), one after the other: int64 (sum of lengths,)."""
    lengths = ranges[:, 1] - ranges[:, 0]
    skipped = ranges[:, 0] - (np.cumsum(lengths) - lengths)
    return np.arange(lengths.sum()) + np.repeat(skipped, lengths)


def check_ranges(reader: TokenReader, tag: str, ranges: np.ndarray) -> None:
    """Raise FormatError unless ``ranges``, int32 (count, 2), which follow ``tag``, are ranges of rows."""
    if (ranges[:, 0] < 0).any() or (ranges[:, 1] < ranges[:, 0]).any():
        raise reader.error(f"expected ranges of rows, each a begin and an end not below it, after {tag}")
