"""The regular grid of times and sequences on which convolution-like components see their rows.

Kaldi: ``ConvolutionComputationIo``.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.index import NO_TIME, distinct, sequence_keys, sequences_of

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter


@dataclass
class TimeGrid:
    """Times of input and output: first, spacing (0 if there is only one time) and number; sequences per time.

    ``reorder_in`` = r > 1 stores the input in blocks of r times, in which the time of one sequence varies fastest.
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
        """The smallest grid that holds the given indexes, int32 (rows, 3) each; padding rows are sequences only."""
        return cls(images(inputs).shape[0], *_regular_times(inputs), *_regular_times(outputs))

    def input_rows(self, inputs: np.ndarray) -> np.ndarray:
        """The grid's input indexes, int32 (rows, 3), in its order; those not among ``inputs`` have t = NO_TIME."""
        return _rows(self.start_in, self.step_in, self.num_in, self.reorder_in, inputs)

    def output_rows(self, outputs: np.ndarray) -> np.ndarray:
        """The grid's output indexes, int32 (rows, 3), in its order; those not among ``outputs`` have t = NO_TIME."""
        return _rows(self.start_out, self.step_out, self.num_out, 1, outputs)

    # Irregular: its numbers have no tags, and files have another name for it.
    @classmethod
    def read(cls, reader: TokenReader) -> TimeGrid:
        """Read ``<ConvCompIo>``, eight integers and ``</ConvCompIo>``."""
        reader.expect("<ConvCompIo>")
        grid = cls(*(reader.integer() for _ in range(8)))
        reader.expect("</ConvCompIo>")
        return grid

    def write(self, writer: TokenWriter) -> None:
        """Write what ``read`` reads."""
        writer.token("<ConvCompIo>")
        for value in (self.num_images, self.start_in, self.step_in, self.num_in, self.start_out, self.step_out,
                      self.num_out, self.reorder_in):
            writer.integer(value)
        writer.token("</ConvCompIo>")


def images(indexes: np.ndarray) -> np.ndarray:
    """The distinct (n, x) pairs, int32 (pairs, 2), sorted by n, then x."""
    return sequences_of(distinct(sequence_keys(indexes)))


def at_time_offsets(indexes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The indexes, int32 (rows, 3), moved by each time offset: int32 (rows, offsets, 3); those without a time stay."""
    moved = np.repeat(indexes[:, None, :], len(offsets), axis=1)
    moved[indexes[:, 1] != NO_TIME, :, 1] += offsets
    return moved


def _regular_times(indexes: np.ndarray) -> tuple[int, int, int]:
    """First time, spacing and number of times of the smallest regular grid that holds the times of ``indexes``."""
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
    """Whether the rows are already the whole grid in its order, as they usually are."""
    if len(present) % num:
        return False
    if len(present) == num and present[0, 1] == start and present[-1, 1] == start + step * (num - 1):
        moves = present[1:] - present[:-1]      # one sequence
        return bool((moves == (0, step, 0)).all())
    grid = present.reshape(num, -1, 3)
    first = sequence_keys(grid[0])
    return bool((first[1:] > first[:-1]).all() and (grid[1:, :, ::2] == grid[0, :, ::2]).all()
                and (grid[..., 1] == (start + step * np.arange(num))[:, None]).all())
