"""Feature matrices taken apart and put together: context, deltas, columns, rows, affine transforms.

Everything takes and gives float32 (frames, dim). Kaldi: ``feature-functions.h`` and the programs of featbin.
"""
from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from nnet3py.errors import ShapeError, UsageError

_SELECTION = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
_MOST_COLUMNS = 1_000_000     # of a selection; more is a typing error
MOST_DELTAS = 1000            # Kaldi's limit of order and window


def splice(features: np.ndarray, left: int = 4, right: int = 4) -> np.ndarray:
    """Each frame beside its neighbors; at the ends the outermost frame is repeated. Kaldi: SpliceFrames.

    Parameters
    ----------
    features : float (frames, dim)
    left, right : frames before and after that are added

    Returns
    -------
    float (frames, (left + 1 + right) dim), of the type of the features; the earliest frame's columns come first
    """
    ends = np.repeat(features[:1], left, axis=0), np.repeat(features[-1:], right, axis=0)
    return windows(np.concatenate((ends[0], features, ends[1])), left + 1 + right)


def windows(features: np.ndarray, width: int) -> np.ndarray:
    """Each ``width`` successive frames beside each other, (frames - width + 1, width dim), new."""
    features = np.ascontiguousarray(features)
    dim = features.shape[1]
    shape = max(0, len(features) - width + 1), width * dim
    return np.ndarray(shape, features.dtype, features, 0, (dim * features.itemsize, features.itemsize)).copy()


def delta_filters(order: int = 2, window: int = 2) -> list[np.ndarray]:
    """The filters of :func:`add_deltas`, slopes of slopes.

    Parameters
    ----------
    order : of the highest derivative
    window : frames on each side that a slope is taken over

    Returns
    -------
    For each order i from 0 on a filter, float64 (2 i window + 1,), centered.

    Raises
    ------
    UsageError : an order or window out of range
    """
    if not (0 <= order < MOST_DELTAS and 0 < window < MOST_DELTAS):
        raise UsageError(f"expected a delta order from 0 and a delta window from 1 to {MOST_DELTAS - 1}, found "
                         f"{order} and {window}")
    slope = np.arange(-window, window + 1, dtype=np.float64)
    slope /= (slope * slope).sum()
    filters = [np.ones(1)]
    for _ in range(order):
        filters.append(np.convolve(filters[-1], slope))
    return filters


def add_deltas(features: np.ndarray, filters: Sequence[np.ndarray] | None = None) -> np.ndarray:
    """Features and their derivatives over time, side by side. Kaldi: ComputeDeltas.

    Parameters
    ----------
    features : float (frames, dim)
    filters : float64 (taps,) each, as :func:`delta_filters` gives them; None: as it does without arguments

    Returns
    -------
    float32 (frames, len(filters) dim)
    """
    num_frames, dim = features.shape
    filters = delta_filters() if filters is None else filters
    reach = len(filters[-1]) // 2
    padded = np.pad(features.astype(np.float64), ((reach, reach), (0, 0)), mode="edge")
    result = np.empty((num_frames, len(filters) * dim), dtype=np.float32)
    for number, taps in enumerate(filters):
        first = reach - len(taps) // 2
        parts = (tap * padded[first + i:first + i + num_frames] for i, tap in enumerate(taps.tolist()) if tap != 0.0)
        result[:, number * dim:(number + 1) * dim] = sum(parts)
    return result


def parse_selection(text: str) -> np.ndarray:
    """int64 (columns,) of ``0,24-22,3-12``: numbers and ranges, both ends included, which may run backwards.

    UsageError for anything else.
    """
    columns: list[int] = []
    for part in text.split(","):
        match = _SELECTION.fullmatch(part)
        if match is None:
            raise UsageError(f"'{part}' in '{text[:80]}' is not a selection of columns",
                             "expected numbers from 0 and ranges, as in 0,24-22,3-12")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if abs(last - first) + len(columns) >= _MOST_COLUMNS or max(first, last) > 2**31:
            raise UsageError(f"'{text[:80]}' selects too many columns")
        columns += range(first, last + 1) if first <= last else range(first, last - 1, -1)
    return np.array(columns, dtype=np.int64)


def select_columns(features: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Some columns, in the order in which they are named. Kaldi: select-feats.

    Parameters
    ----------
    features : float (frames, dim)
    columns : int (columns,), numbers from 0

    Returns
    -------
    float (frames, columns)

    Raises
    ------
    ShapeError : a column that there is not
    """
    if len(columns) and int(columns.max()) >= features.shape[1]:
        raise ShapeError(f"Invalid selection index: {columns.max()}; the features have {features.shape[1]} columns")
    return features[:, columns]


def subsample(features: np.ndarray, n: int, offset: int = 0) -> np.ndarray:
    """Every n-th frame, or every frame several times.

    Parameters
    ----------
    features : float (frames, dim)
    n : every n-th frame is taken; if negative, every frame -n times
    offset : the first frame that is taken

    Returns
    -------
    float (frames, dim), of fewer or more frames
    """
    return features[offset::n] if n > 0 else np.repeat(features[offset:], -n, axis=0)


def shift(features: np.ndarray, frames: int) -> np.ndarray:
    """Features moved in time, as many as before: the outermost frame is repeated.

    Parameters
    ----------
    features : float (frames, dim)
    frames : how much later they come; earlier if negative

    Returns
    -------
    float (frames, dim), new
    """
    return features[np.clip(np.arange(len(features)) - frames, 0, len(features) - 1)]


def paste(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Features of several kinds side by side, cut to the shortest.

    Parameters
    ----------
    parts : float (frames, dim) each

    Returns
    -------
    float (frames, sum of the dims)
    """
    length = min(map(len, parts))
    return np.hstack([part[:length] for part in parts])


def append_vector(features: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Features with the same further columns in every frame.

    Parameters
    ----------
    features : float (frames, dim)
    vector : float (columns,), such as an i-vector

    Returns
    -------
    float (frames, dim + columns)
    """
    return np.hstack([features, np.broadcast_to(vector, (len(features), len(vector)))])


def transform(features: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Features times a transposed matrix, such as an LDA transform.

    Parameters
    ----------
    features : float (frames, dim)
    matrix : float (rows, dim), or float (rows, dim + 1) with an offset in the last column

    Returns
    -------
    float (frames, rows)

    Raises
    ------
    ShapeError : dimensions that do not fit
    """
    dim = features.shape[1]
    if matrix.shape[1] not in (dim, dim + 1):
        raise ShapeError(f"bad dimension {matrix.shape[0]}x{matrix.shape[1]} versus feat dim {dim}")
    with np.errstate(all="ignore"):
        result = features @ matrix[:, :dim].T
        if matrix.shape[1] > dim:
            result += matrix[:, dim]
    return result
