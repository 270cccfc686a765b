"""Rows in time: the regular grid of convolution-like components, and ranges of frames in rows sorted by sequence.

Kaldi: ``ConvolutionComputationIo``.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.errors import CompileError
from nnet3py.index import NO_TIME, distinct, sequence_keys, sequences_of

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter

@dataclass
class TimeGrid:
    """Regular grids of the input's and the output's times: first time, step (0 for a single time), number of times.

    ``num_images`` is the number of rows per time. With ``reorder_in`` = r > 1 the input is stored in blocks of r times,
    within which time varies faster than the sequence.
    """

    num_images: int
    start_in: int
    step_in: int
    num_in: int
    start_out: int
    step_out: int
    num_out: int
    reorder_in: int = 1

    @classmethod
    def from_indexes(cls, inputs: np.ndarray, outputs: np.ndarray) -> TimeGrid:
        """Return the smallest grid with the given indexes, int32 (rows, 3) each; of padding rows only n and x count."""
        return cls(images(inputs).shape[0], *_regular_times(inputs), *_regular_times(outputs))

    def input_rows(self, inputs: np.ndarray) -> np.ndarray:
        """Return the grid's input indexes, int32 (rows, 3), in order; those not in ``inputs`` have t = NO_TIME."""
        return _rows(self.start_in, self.step_in, self.num_in, self.reorder_in, inputs)

    def output_rows(self, outputs: np.ndarray) -> np.ndarray:
        """Return the grid's output indexes, int32 (rows, 3), in order; those not in ``outputs`` have t = NO_TIME."""
        return _rows(self.start_out, self.step_out, self.num_out, 1, outputs)

    # Not a table of fields: the numbers have no tags, and the tag is another name.
    @classmethod
    def read(cls, reader: TokenReader) -> TimeGrid:
        """Read ``<ConvCompIo>``, eight integers and ``</ConvCompIo>``."""
        reader.expect("<ConvCompIo>")
        grid = cls(*(reader.integer() for _ in range(8)))
        reader.expect("</ConvCompIo>")
        return grid

    def write(self, writer: TokenWriter) -> None:
        """Write the grid in the form that :meth:`read` expects."""
        writer.token("<ConvCompIo>")
        for value in (self.num_images, self.start_in, self.step_in, self.num_in, self.start_out, self.step_out,
                      self.num_out, self.reorder_in):
            writer.integer(value)
        writer.token("</ConvCompIo>")


def images(indexes: np.ndarray) -> np.ndarray:
    """Return the distinct (n, x) pairs, int32 (pairs, 2), sorted by n, then x."""
    return sequences_of(distinct(sequence_keys(indexes)))


def at_time_offsets(indexes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return indexes (rows, 3) moved by each time offset, int32 (rows, offsets, 3); those with NO_TIME stay."""
    moved = np.repeat(indexes[:, None, :], len(offsets), axis=1)
    moved[indexes[:, 1] != NO_TIME, :, 1] += offsets
    return moved


def _regular_times(indexes: np.ndarray) -> tuple[int, int, int]:
    """Return first time, spacing and number of times of the smallest regular grid with the times of ``indexes``."""
    times = indexes[:, 1]
    if times.size > 1 and times[0] != NO_TIME and times[1] > times[0]:
        first, step = int(times[0]), int(times[1]) - int(times[0])
        if (np.diff(times) == step).all():      # one row for each time, as of a single sequence
            return first, step, times.size
    times = distinct(times).astype(np.int64)
    times = times[times != NO_TIME]
    if times.size == 0:
        raise ValueError("a time grid needs at least one row that is not padding")
    step = int(np.gcd.reduce(np.diff(times))) if times.size > 1 else 0
    return int(times[0]), step, 1 + (int(times[-1] - times[0]) // step if step else 0)


def _rows(start: int, step: int, num: int, block: int, present: np.ndarray) -> np.ndarray:
    if block == 1 and _is_grid(start, step, num, present):
        return present
    keys = sequence_keys(present)
    sequences = distinct(keys)
    pairs = sequences_of(sequences)
    step = step or 1
    valid = present[:, 1] != NO_TIME
    is_present = np.zeros((num, pairs.shape[0]), dtype=bool)
    is_present[(present[valid, 1] - start) // step, np.searchsorted(sequences, keys[valid])] = True
    rows = np.empty((num // block, pairs.shape[0], block, 3), dtype=np.int32)
    rows[..., 0] = pairs[None, :, 0, None]
    rows[..., 1] = (start + step * np.arange(num)).reshape(-1, 1, block)
    rows[..., 2] = pairs[None, :, 1, None]
    rows[..., 1][~is_present.reshape(-1, block, pairs.shape[0]).transpose(0, 2, 1)] = NO_TIME
    return rows.reshape(-1, 3)


def _is_grid(start: int, step: int, num: int, present: np.ndarray) -> bool:
    """Return whether the rows ``present`` are already the whole grid in its order (the usual case)."""
    if len(present) % num:
        return False
    if len(present) == num and present[0, 1] == start and present[-1, 1] == start + step * (num - 1):
        moves = present[1:] - present[:-1]      # one sequence
        return bool((moves == (0, step, 0)).all())
    grid = present.reshape(num, -1, 3)
    first = sequence_keys(grid[0])
    return bool((first[1:] > first[:-1]).all() and (grid[1:, :, ::2] == grid[0, :, ::2]).all()
                and (grid[..., 1] == (start + step * np.arange(num))[:, None]).all())


def by_sequence(indexes: np.ndarray) -> np.ndarray:
    """Return the indexes, int32 (rows, 3), sorted by n, then x, then t: the frames of a sequence are consecutive."""
    return indexes[np.lexsort((indexes[:, 1], indexes[:, 2], indexes[:, 0]))]


def times_of(indexes: np.ndarray) -> np.ndarray:
    """Return the times of the indexes as int64 (rows,), so that sums of them do not overflow."""
    return indexes[:, 1].astype(np.int64)


def row_ranges(rows: np.ndarray, of: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the range of ``rows`` of each index's sequence with times from ``first`` to ``last``: int32 (len(of), 2).

    Raises CompileError for ``rows`` in another order, or with repetitions.

    ``rows`` : int32 (rows, 3), in the order of ``by_sequence``; ``of`` : int32 (count, 3), indexes whose n and x give
    the sequence; ``first``, ``last`` : int64 (count,), the times.
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
    """Return the rows of the ranges, int32 (count, 2), one range after the other: int64 (sum of lengths,)."""
    lengths = ranges[:, 1] - ranges[:, 0]
    skipped = ranges[:, 0] - (np.cumsum(lengths) - lengths)
    return np.arange(lengths.sum()) + np.repeat(skipped, lengths)


def check_ranges(reader: TokenReader, tag: str, ranges: np.ndarray) -> None:
    """Raise FormatError unless ``ranges``, int32 (count, 2), just read after ``tag``, are valid (begin, end) pairs."""
    if (ranges[:, 0] < 0).any() or (ranges[:, 1] < ranges[:, 0]).any():
        raise reader.error(f"expected ranges of rows, each a begin and an end not below it, after {tag}")
