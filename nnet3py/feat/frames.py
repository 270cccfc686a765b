"""Edits of feature matrices: context, deltas, columns, rows, affine transforms, voice activity.

Kaldi: ``feature-functions.h``, ``voice-activity-detection.h``, the programs of featbin.
"""
from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from nnet3py.errors import ShapeError, UsageError
from nnet3py.feat.options import VadOptions

_SELECTION = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
_MOST_COLUMNS = 1_000_000     # of a selection; more is a typing error
MOST_DELTAS = 1000            # Kaldi's limit of order and window


def splice(features: np.ndarray, left: int = 4, right: int = 4) -> np.ndarray:
    """Concatenate each frame with its neighbors; the first and the last frame are repeated. Kaldi: SpliceFrames.

    Parameters
    ----------
    features : float (frames, dim)
    left, right : numbers of frames before and after the frame

    Returns
    -------
    float (frames, (left + 1 + right) dim), of the features' dtype; the earliest frame's columns come first
    """
    ends = np.repeat(features[:1], left, axis=0), np.repeat(features[-1:], right, axis=0)
    return windows(np.concatenate((ends[0], features, ends[1])), left + 1 + right)


def windows(features: np.ndarray, width: int) -> np.ndarray:
    """Concatenate each ``width`` successive frames to one row: (frames - width + 1, width dim), new."""
    features = np.ascontiguousarray(features)
    dim = features.shape[1]
    shape = max(0, len(features) - width + 1), width * dim
    return np.ndarray(shape, features.dtype, features, 0, (dim * features.itemsize, features.itemsize)).copy()


def delta_filters(order: int = 2, window: int = 2) -> list[np.ndarray]:
    """Return the filters of :func:`add_deltas`: that of the first derivative, convolved with itself for higher orders.

    Parameters
    ----------
    order : order of the highest derivative
    window : frames on each side of a frame from which the first derivative is computed

    Returns
    -------
    For each order i from 0 on, a centered filter, float64 (2 i window + 1,).

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
    """Append derivatives over time to features. Kaldi: ComputeDeltas.

    Parameters
    ----------
    features : float (frames, dim)
    filters : filters of :func:`delta_filters`, float64 (taps,) each; None: those of order 2 and window 2

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
    """Parse a list of columns such as ``0,24-22,3-12``: int64 (columns,).

    Ranges include both ends and may run backwards. Raises UsageError for anything else.
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
            raise UsageError(f"'{text[:80]}' selects more than {_MOST_COLUMNS} columns, or one beyond 2**31")
        columns += range(first, last + 1) if first <= last else range(first, last - 1, -1)
    return np.array(columns, dtype=np.int64)


def select_columns(features: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Select columns, in the order in which they are named. Kaldi: select-feats.

    Parameters
    ----------
    features : float (frames, dim)
    columns : int (columns,), column numbers from 0

    Returns
    -------
    float (frames, columns)

    Raises
    ------
    ShapeError : a column that does not exist
    """
    if len(columns) and int(columns.max()) >= features.shape[1]:
        raise ShapeError(f"Invalid selection index: {columns.max()}; the features have {features.shape[1]} columns")
    return features[:, columns]


def subsample(features: np.ndarray, n: int, offset: int = 0) -> np.ndarray:
    """Take every n-th frame, or repeat each frame.

    Parameters
    ----------
    features : float (frames, dim)
    n : distance of the frames to take; if negative, each frame is repeated -n times
    offset : number of the first frame to take, from 0

    Returns
    -------
    float (new number of frames, dim)
    """
    return features[offset::n] if n > 0 else np.repeat(features[offset:], -n, axis=0)


def shift(features: np.ndarray, frames: int) -> np.ndarray:
    """Delay features, or move them to earlier frames. The first or last frame is repeated to keep their number.

    Parameters
    ----------
    features : float (frames, dim)
    frames : delay in frames; negative to move features to earlier frames

    Returns
    -------
    float (frames, dim), new
    """
    return features[np.clip(np.arange(len(features)) - frames, 0, len(features) - 1)]


def paste(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate the columns of several features, cut to the shortest.

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
    """Append the same columns to every frame.

    Parameters
    ----------
    features : float (frames, dim)
    vector : float (columns,), for example an i-vector

    Returns
    -------
    float (frames, dim + columns)
    """
    return np.hstack([features, np.broadcast_to(vector, (len(features), len(vector)))])


def transform(features: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Multiply features by a transposed matrix, for example an LDA transform.

    Parameters
    ----------
    features : float (frames, dim)
    matrix : float (rows, dim), or float (rows, dim + 1) with offsets in the last column

    Returns
    -------
    float (frames, rows)

    Raises
    ------
    ShapeError : a matrix with another number of columns
    """
    dim = features.shape[1]
    if matrix.shape[1] not in (dim, dim + 1):
        raise ShapeError(f"bad dimension {matrix.shape[0]}x{matrix.shape[1]} versus feat dim {dim}")
    with np.errstate(all="ignore"):
        result = features @ matrix[:, :dim].T
        if matrix.shape[1] > dim:
            result += matrix[:, dim]
    return result


def add_shifted_deltas(features: np.ndarray, window: int = 1, shift: int = 3, blocks: int = 7) -> np.ndarray:
    """Append shifted delta cepstra (SDC): derivatives at this frame and at later ones. Kaldi: ShiftedDeltaFeatures.

    Parameters
    ----------
    features : float32 (frames, dim)
    window : frames on each side from which a derivative is computed; beyond the ends the first and last frame are
        repeated
    shift : frames from one derivative to the next
    blocks : number of derivatives

    Returns
    -------
    float32 (frames, (1 + blocks) dim)

    Raises
    ------
    UsageError : numbers out of range
    """
    if not (0 < shift < MOST_DELTAS and 0 < blocks < MOST_DELTAS):
        raise UsageError(f"expected a block shift and a number of blocks from 1 to {MOST_DELTAS - 1}, found {shift} "
                         f"and {blocks}")
    taps = delta_filters(1, window)[1]
    count, dim = features.shape
    later = (blocks - 1) * shift
    padded = np.pad(features.astype(np.float64), ((window, window + later), (0, 0)), mode="edge")
    with np.errstate(all="ignore"):
        slopes = sum(tap * padded[i:i + count + later] for i, tap in enumerate(taps.tolist()) if tap != 0.0)
    result = np.empty((count, (1 + blocks) * dim), dtype=np.float32)
    result[:, :dim] = features
    with np.errstate(over="ignore"):
        for block in range(blocks):
            begin = block * shift
            result[:, (1 + block) * dim:(2 + block) * dim] = slopes[begin:begin + count]
    return result


def voiced_frames(features: np.ndarray, options: VadOptions | None = None) -> np.ndarray:
    """Decide by their energy which frames are voiced. Kaldi: ComputeVadEnergy.

    Parameters
    ----------
    features : float (frames, dim), of which column 0 is the log-energy
    options : thresholds; None for Kaldi's defaults

    Returns
    -------
    float32 (frames,): 1 for voiced frames, else 0

    Raises
    ------
    UsageError : options out of range
    """
    options = options or VadOptions()
    options.check()
    energy, count = features[:, 0], len(features)
    threshold = options.energy_threshold
    if options.energy_mean_scale != 0 and count:
        threshold += options.energy_mean_scale * float(energy.sum(dtype=np.float64)) / count
    loud = np.concatenate(([0], np.cumsum(energy > np.float32(threshold))))
    frames = np.arange(count)
    first = np.maximum(frames - options.frames_context, 0)
    end = np.minimum(frames + options.frames_context + 1, count)
    needed = (end - first).astype(np.float32) * np.float32(options.proportion_threshold)
    return (loud[end] - loud[first] >= needed).astype(np.float32)
