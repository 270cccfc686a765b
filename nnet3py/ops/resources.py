"""Scratch space for a component call, and the random stream: the parts of an ops object beside operations.

The numbers of the stream depend on nothing but (seed, minibatch, component, place): they are the same on every device.
The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): a
block cipher that turns a key and a counter of four 32-bit words into four random words. The key is the seed. The
counter is (block low, block high, minibatch, component), so each component of each minibatch has 2^64 blocks of its
own, and each of its calls takes 2^32 of them (block high is the call's number). Element p of a filled array comes from
word p % 4 of block first + p // 4, so its value does not depend on threads or on the order of computation.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# -- random numbers ----------------------------------------------------------------------------------------------------


MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
_MASK = 0xFFFFFFFF


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return four random 32-bit words for a counter of four and a key of two 32-bit words (Philox4x32-10)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & _MASK, (p0 >> 32) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + KEY_STEPS[0]) & _MASK, (k1 + KEY_STEPS[1]) & _MASK
    return c0, c1, c2, c3


class Random:
    """Random numbers of one ops object.

    ``begin_minibatch`` and ``select`` choose a component's stream and go to its start. Single numbers (``integer``,
    ``uniform``) and arrays (``fill_uniform``) are taken from this stream in the order of calls.
    """

    def __init__(self, ops: Any) -> None:
        self._ops = ops
        self._seed = 0
        self._minibatch = 0
        self._component = 0
        self._block = 0
        self._words: list[int] = []    # words of the current block that the host has not used

    def begin_minibatch(self, seed: int, minibatch: int) -> None:
        """Select the streams of a minibatch (0, 1, ...) of a run; only the lower 64 bits of ``seed`` are used."""
        self._seed, self._minibatch = seed & 0xFFFFFFFFFFFFFFFF, minibatch & _MASK
        self.select(0)

    def select(self, component_index: int, call: int = 0) -> None:
        """Go to the start of the stream of a component's call, which has 2^32 blocks.

        ``call`` numbers the calls of a component in a minibatch (a recurrence, or forward and backward).
        """
        self._component = component_index & _MASK
        self._block = (call & _MASK) << 32
        self._words.clear()

    def _word(self) -> int:
        if not self._words:
            block = self._take_blocks(1)
            counter = (block & _MASK, block >> 32, self._minibatch, self._component)
            self._words = list(philox(counter, (self._seed & _MASK, self._seed >> 32)))[::-1]
        return self._words.pop()

    def _take_blocks(self, count: int) -> int:
        first = self._block
        self._block += count
        return first

    def integer(self, n: int) -> int:
        """Draw an integer from 0 to n - 1, n below 2^32; probabilities are equal to within 2^-32."""
        return (self._word() * n) >> 32

    def uniform(self) -> float:
        """Draw a number in [0, 1), a multiple of 2^-32."""
        return self._word() * 2.0 ** -32

    def draw_integer(self, n: int) -> Any:
        """Draw as ``integer``, for a kernel's argument: on a GPU, return a device array with the number."""
        return self.integer(n)

    def draw_uniform(self) -> Any:
        """Draw as ``uniform``, for a kernel's argument: on a GPU, return a device array with the number."""
        return self.uniform()

    def fill_uniform(self, dst: Any) -> None:
        """Fill a float32 matrix or contiguous vector with numbers in [0, 1), multiples of 2^-24."""
        block = self._take_blocks((dst.size + 3) // 4)
        signed_seed = self._seed - (1 << 64) if self._seed >> 63 else self._seed
        self._ops.philox_uniform(dst.reshape(1, -1) if dst.ndim == 1 else dst, signed_seed, block,
                                 self._minibatch_argument(), self._component)

    def _minibatch_argument(self) -> Any:
        """Return the minibatch's number for a kernel's argument."""
        return self._minibatch


# -- scratch space -----------------------------------------------------------------------------------------------------


_ALIGNMENT = 16         # floats: a cache line of 64 bytes
_MAX_VIEWS = 4096       # array objects kept for reuse; a bound computation needs far fewer


def _aligned_block(size: int) -> np.ndarray:
    """Return an uninitialized float32 vector of ``size`` elements that starts on a cache line."""
    block = np.empty(size + _ALIGNMENT, np.float32)
    start = -(block.ctypes.data // 4) % _ALIGNMENT
    return block[start:start + size]


class Workspace:
    """Scratch space for one call of a component: float32 arrays that are valid until the next ``reset_scratch``.

    The executor resets it before each call. Arrays are parts of one block of memory. A request that does not fit gets
    memory of its own, and the next reset replaces the block by one of the largest size needed so far. Requests for the
    same size at the same offset return the same array object.

    Parameters
    ----------
    allocate : function that returns an uninitialized float32 vector of a given size in the device's memory

    Attributes
    ----------
    generation : number of times that the block was replaced, which moves all arrays
    """

    def __init__(self, allocate: Callable[[int], Any] = _aligned_block) -> None:
        self._allocate = allocate
        self._block = allocate(0)
        self.generation = 0
        self._views: dict[tuple[int, int, int], Any] = {}
        self._used = 0       # elements in use
        self._needed = 0     # largest number of elements ever in use

    def scratch(self, rows: int, cols: int) -> Any:
        """Return an uninitialized contiguous float32 (rows, cols) matrix, valid until the next reset."""
        key = (self._used, rows, cols)
        view = self._views.get(key)
        if view is None:
            view = self._take(rows * cols).reshape(rows, cols)
            if len(self._views) < _MAX_VIEWS and key[0] + view.size <= self._block.size:
                self._views[key] = view
        self._used += -(-rows * cols // _ALIGNMENT) * _ALIGNMENT
        return view

    def scratch_vector(self, dim: int) -> Any:
        """Return an uninitialized contiguous float32 (dim,) vector, valid until the next reset."""
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
        """Return the number of elements in use, as the argument of ``release_scratch``."""
        return self._used

    def release_scratch(self, mark: int) -> None:
        """Free the arrays returned since ``mark_scratch`` returned ``mark``; earlier ones stay valid."""
        self._needed = max(self._needed, self._used)
        self._used = mark

    def reset_scratch(self) -> None:
        """Free all arrays."""
        self.release_scratch(0)
        if self._needed > self._block.size:
            self._block = self._allocate(self._needed)
            self.generation += 1
            self._views.clear()
