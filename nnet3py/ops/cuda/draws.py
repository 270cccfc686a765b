"""The random stream of a GPU: what kernels draw stays in device memory, so that a captured launch draws anew each time.

The minibatch's number lies in device memory, where kernels read it. A draw for a kernel is made by a launch of its own
into a cell, an array of one element that belongs to this draw of this call of this component. The numbers are those
that the host would draw.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.ops.cuda.formulas import formula
from nnet3py.ops.cuda.launch import Shape, kernel
from nnet3py.ops.cuda.memory import new_array, touch_host
from nnet3py.ops.cuda.threads import device_function
from nnet3py.ops.formulas import random as formulas
from nnet3py.ops.random import Random, philox

_block_words = formula(formulas.block_words)
_MASK = 0xFFFFFFFF
_HALF = np.uint64(32)
_UNIT = np.float32(2.0 ** -32)


def _one_thread(rows: int, cols: int) -> Shape:
    return (1, 1), (1, 1)


@device_function
def _word(k0, k1, block, minibatch, component, place):
    """A word of a block of the stream, as a uint64."""
    w0, w1, w2, w3 = _block_words(block, minibatch, component, np.uint64(k0), np.uint64(k1))
    return w0 if place == 0 else w1 if place == 1 else w2 if place == 2 else w3


@kernel("lvec int int int intcell int int int", shape=_one_thread)
def _integer(cell, k0, k1, block, minibatch, component, place, n):
    """cell = a whole number in 0..n-1."""
    cell[0] = np.int64((_word(k0, k1, block, minibatch[0], component, place) * np.uint64(n)) >> _HALF)


@kernel("vec int int int intcell int int", shape=_one_thread)
def _uniform(cell, k0, k1, block, minibatch, component, place):
    """cell = a number in [0, 1)."""
    cell[0] = np.float32(np.int64(_word(k0, k1, block, minibatch[0], component, place))) * _UNIT


class DeviceRandom(Random):
    """The random stream of the GPU's operations: as :class:`Random`, with draws that kernels read.

    ``integer`` and ``uniform`` are for decisions of the host, which cannot be captured.
    """

    def __init__(self, ops: Any) -> None:
        super().__init__(ops)
        self._minibatch_cell = new_array(1, np.int64)
        self._cells: dict[tuple[int, int, int], Any] = {}
        self._word_block, self._num_taken, self._known = 0, 0, -1
        self.begin_minibatch(0, 0)

    @property
    def seed(self) -> int:
        """The seed of the run, which launches hold as a number."""
        return self._seed

    def begin_minibatch(self, seed: int, minibatch: int) -> None:
        super().begin_minibatch(seed, minibatch)
        if self._minibatch == self._known:
            return
        self._known = self._minibatch
        self._ops.copy_in(self._minibatch_cell, np.array([self._minibatch]))

    def select(self, component_index: int, call: int = 0) -> None:
        super().select(component_index, call)
        self._num_taken = 0

    def _next_place(self) -> tuple[int, int]:
        """The block and the place in it of the next word that is drawn by itself."""
        if self._num_taken == 0:
            self._word_block = self._take_blocks(1)
        place = self._num_taken
        self._num_taken = (place + 1) % 4
        return self._word_block, place

    def _word(self) -> int:
        touch_host()
        block, place = self._next_place()
        counter = (block & _MASK, block >> 32, self._minibatch, self._component)
        return philox(counter, (self._seed & _MASK, self._seed >> 32))[place]

    def draw_integer(self, n: int) -> Any:
        cell, place = self._cell(np.int64)
        _integer(cell, *place, n)
        return cell

    def draw_uniform(self) -> Any:
        cell, place = self._cell(np.float32)
        _uniform(cell, *place)
        return cell

    def _cell(self, dtype: Any) -> tuple[Any, tuple[Any, ...]]:
        """A cell for the next draw, and where in the stream that lies."""
        block, place = self._next_place()
        key = self._component, block, place
        if key not in self._cells:
            self._cells[key] = new_array(1, dtype)
        return self._cells[key], (self._seed & _MASK, self._seed >> 32, block, self._minibatch_cell, self._component,
                                  place)

    def _fill(self, operation: Any, dst: Any) -> None:
        block = self._take_blocks((dst.size + 3) // 4)
        signed_seed = self._seed - (1 << 64) if self._seed >> 63 else self._seed
        operation(dst.reshape(1, -1) if dst.ndim == 1 else dst, signed_seed, block, self._minibatch_cell,
                  self._component)
