"""Scratch space for one component call: a bump allocator that stops allocating once it knows the largest need."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_ALIGNMENT = 16         # floats: a cache line of 64 bytes
_MAX_VIEWS = 4096       # remembered views; a bound computation asks for far fewer


def _aligned_block(size: int) -> np.ndarray:
    """An uninitialized float32 vector of ``size`` elements that starts on a cache line."""
    block = np.empty(size + _ALIGNMENT, np.float32)
    start = -(block.ctypes.data // 4) % _ALIGNMENT
    return block[start:start + size]


class Workspace:
    """Hands out float32 arrays that are valid until ``reset_scratch``, which the executor calls before every call.

    A request that does not fit gets a block of its own; the next reset replaces all blocks by one that would have been
    large enough. The arrays of one size at one place are the same objects again and again.

    Parameters
    ----------
    allocate : makes an uninitialized float32 vector of a size, in the memory that is wanted

    Attributes
    ----------
    generation : counts how often the arrays have moved to another place
    """

    def __init__(self, allocate: Callable[[int], Any] = _aligned_block) -> None:
        self._allocate = allocate
        self._block = allocate(0)
        self.generation = 0
        self._views: dict[tuple[int, int, int], Any] = {}
        self._used = 0       # elements handed out since the last reset
        self._needed = 0     # the most that was ever handed out

    def scratch(self, rows: int, cols: int) -> Any:
        """An uninitialized contiguous float32 (rows, cols) matrix, valid until the next reset."""
        key = (self._used, rows, cols)
        view = self._views.get(key)
        if view is None:
            view = self._take(rows * cols).reshape(rows, cols)
            if len(self._views) < _MAX_VIEWS and key[0] + view.size <= self._block.size:
                self._views[key] = view
        self._used += -(-rows * cols // _ALIGNMENT) * _ALIGNMENT
        return view

    def scratch_vector(self, dim: int) -> Any:
        """An uninitialized contiguous float32 (dim,) vector, valid until the next reset."""
        key = (self._used, dim, -1)
        view = self._views.get(key)
        if view is None:
            view = self._take(dim)
            if len(self._views) < _MAX_VIEWS and key[0] + dim <= self._block.size:
                self._views[key] = view
        self._used += -(-dim // _ALIGNMENT) * _ALIGNMENT
        return view

    def _take(self, size: int) -> Any:
        if self._used + size <= self._block.size:
            return self._block[self._used:self._used + size]
        return self._allocate(size)

    def mark_scratch(self) -> int:
        """A mark for ``release_scratch``."""
        return self._used

    def release_scratch(self, mark: int) -> None:
        """Take back what was handed out since ``mark_scratch`` returned ``mark``; what came before it stays valid."""
        self._needed = max(self._needed, self._used)
        self._used = mark

    def reset_scratch(self) -> None:
        """Take back all that was handed out."""
        self.release_scratch(0)
        if self._needed > self._block.size:
            self._block = self._allocate(self._needed)
            self.generation += 1
            self._views.clear()
