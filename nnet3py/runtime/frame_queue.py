"""Frames that wait until they are used, in memory that is used again."""
from __future__ import annotations

import numpy as np

_FIRST_ROOM = 64      # frames


class FrameQueue:
    """Rows that are put in at the end and taken from the beginning.

    Parameters
    ----------
    dim : elements of a row
    """

    def __init__(self, dim: int) -> None:
        self._rows = np.zeros((_FIRST_ROOM, dim), np.float32)
        self._begin = self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    def push(self, frames: np.ndarray) -> None:
        """Put in float (frames, dim)."""
        self._make_room(len(frames))
        self._rows[self._end:self._end + len(frames)] = frames
        self._end += len(frames)

    def repeat(self, frame: np.ndarray, count: int) -> None:
        """Put in (1, dim) so many times."""
        self._make_room(count)
        self._rows[self._end:self._end + count] = frame
        self._end += count

    def first(self, count: int) -> np.ndarray:
        """float32 (count, dim): the rows that have waited longest. A view, until more are put in."""
        return self._rows[self._begin:self._begin + count]

    def drop(self, count: int) -> None:
        """Take the first rows away."""
        self._begin += count

    def clear(self) -> None:
        """Take all away."""
        self._begin = self._end = 0

    def _make_room(self, count: int) -> None:
        if self._end + count <= len(self._rows):
            return
        waiting = self._rows[self._begin:self._end]
        if len(waiting) + count > len(self._rows) // 2:
            self._rows = np.zeros((2 * (len(waiting) + count), self._rows.shape[1]), np.float32)
        self._rows[:len(waiting)] = waiting
        self._begin, self._end = 0, len(waiting)
