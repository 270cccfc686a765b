"""A buffer of the frames of a stream that are still needed. Light: it imports none of the runtime's kernels."""
from __future__ import annotations

import numpy as np


class FrameBuffer:
    """A buffer of float32 rows, numbered from 0 in order of arrival; old ones are dropped and their memory reused.

    Attributes
    ----------
    first, end : the number of the oldest row that is kept, and that of the next row to be appended
    """

    def __init__(self, dim: int) -> None:
        self._rows = np.empty((64, dim), dtype=np.float32)
        self._place = 0              # the place of row ``first`` in the memory
        self.first = self.end = 0

    def append(self, rows: np.ndarray) -> None:
        """Append rows, float (rows, dim)."""
        count = self.end - self.first
        if self._place + count + len(rows) > len(self._rows):
            kept = self._rows[self._place:self._place + count]
            if 2 * (count + len(rows)) > len(self._rows):
                self._rows = np.empty((2 * (count + len(rows)), self._rows.shape[1]), dtype=np.float32)
            self._rows[:count] = kept.copy()
            self._place = 0
        begin = self._place + count
        self._rows[begin:begin + len(rows)] = rows
        self.end += len(rows)

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers, float32 (numbers, dim), new; none of them may have been dropped."""
        rows: np.ndarray = self._rows[numbers - self.first + self._place]
        return rows

    def between(self, first: int, end: int) -> np.ndarray:
        """Return a view of rows, float32 (end - first, dim), valid until rows are added; none may have been dropped."""
        begin = first - self.first + self._place
        return self._rows[begin:begin + end - first]

    def forget(self, before: int) -> None:
        """Drop the rows before number ``before``."""
        before = min(max(before, self.first), self.end)
        self._place += before - self.first
        self.first = before
        if self.first == self.end:
            self._place = 0
