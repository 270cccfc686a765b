"""Random numbers, and dropout masks made from them, on the GPU.

Kernels read the minibatch's number from device memory, so that a captured launch draws new numbers in each minibatch. A
single number for a kernel is drawn by a launch of its own into a "cell", a device array of one element, which is
allocated once for each component, call and position in the stream. The numbers are the same as on the CPU.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from nnet3py.ops.cuda.elementwise import fill_row, first_row, launch_elements, multiply_row, row_distance, scale_row
from nnet3py.ops.cuda.launch import Shape, kernel, launch_2d, operation
from nnet3py.ops.cuda.memory import new_array, touch_host
from nnet3py.ops.cuda.threads import device_function, formula, own_columns, own_rows, row
from nnet3py.ops.formulas import random as formulas
from nnet3py.ops.resources import Random, philox

_block_words, _keys, _unit = map(formula, (formulas.block_words, formulas.keys, formulas.unit))
_MASK = 0xFFFFFFFF
_HALF = np.uint64(32)
_UNIT = np.float32(2.0 ** -32)


def _one_thread(rows: int, cols: int) -> Shape:
    return (1, 1), (1, 1)


@device_function
def _word(k0, k1, block, minibatch, component, place):
    """Return word ``place`` (0 to 3) of a block of the stream with key (k0, k1), as a uint64."""
    w0, w1, w2, w3 = _block_words(block, minibatch, component, np.uint64(k0), np.uint64(k1))
    return w0 if place == 0 else w1 if place == 1 else w2 if place == 2 else w3


@kernel("lvec int int int intcell int int int", shape=_one_thread)
def _draw_integer(cell, k0, k1, block, minibatch, component, place, n):
    """Set the cell to a random integer from 0 to n - 1."""
    cell[0] = np.int64((_word(k0, k1, block, minibatch[0], component, place) * np.uint64(n)) >> _HALF)


@kernel("vec int int int intcell int int", shape=_one_thread)
def _draw_uniform(cell, k0, k1, block, minibatch, component, place):
    """Set the cell to a random number in [0, 1)."""
    cell[0] = np.float32(np.int64(_word(k0, k1, block, minibatch[0], component, place))) * _UNIT


class DeviceRandom(Random):
    """Random numbers of the GPU's ops object: as :class:`Random`, but ``draw_…`` return numbers in device memory.

    ``integer`` and ``uniform`` draw on the host, for its own decisions; such code cannot be captured.
    """

    def __init__(self, ops: Any) -> None:
        super().__init__(ops)
        self._minibatch_cell = new_array(1, np.int64)
        self._cells: dict[tuple[int, int, int], Any] = {}
        self._word_block, self._num_taken, self._uploaded_minibatch = 0, 0, -1
        self.begin_minibatch(0, 0)

    @property
    def seed(self) -> int:
        """Seed of the run; it is a number in captured launches, which must be captured again for another seed."""
        return self._seed

    def begin_minibatch(self, seed: int, minibatch: int) -> None:
        super().begin_minibatch(seed, minibatch)
        if self._minibatch == self._uploaded_minibatch:
            return
        self._uploaded_minibatch = self._minibatch
        self._ops.copy_in(self._minibatch_cell, np.array([self._minibatch]))

    def select(self, component_index: int, call: int = 0) -> None:
        super().select(component_index, call)
        self._num_taken = 0

    def _next_place(self) -> tuple[int, int]:
        """Return the position in the stream of the next single word: its block, and its index in the block."""
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
        _draw_integer(cell, *place, n)
        return cell

    def draw_uniform(self) -> Any:
        cell, place = self._cell(np.float32)
        _draw_uniform(cell, *place)
        return cell

    def _cell(self, dtype: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return a cell for the next draw, and the arguments (key, block, …, place) of the kernel that fills it."""
        block, place = self._next_place()
        key = self._component, block, place
        if key not in self._cells:
            self._cells[key] = new_array(1, dtype)
        return self._cells[key], (self._seed & _MASK, self._seed >> 32, block, self._minibatch_cell, self._component,
                                  place)

    def _minibatch_argument(self) -> Any:
        return self._minibatch_cell


# -- filling matrices; a thread makes the four numbers of a block of the stream ----------------------------------------


def launch_quads(rows: int, cols: int) -> Shape:
    """Return grid and block: a thread for each four elements of a matrix."""
    return launch_2d(1, -(-rows * cols // 4))


@device_function
def _put(dst, position, value):
    """Set element ``position`` of a matrix, counted row by row; do nothing beyond its end."""
    cols = dst.shape[1]
    i = position // cols
    if i < dst.shape[0]:
        dst[i, position - i * cols] = value


@operation(shape=launch_quads)
def philox_uniform(dst, seed, block, minibatch, component):
    k0, k1 = _keys(seed)
    for _ in own_rows(1):
        for place in own_columns((dst.shape[0] * dst.shape[1] + 3) // 4):
            quad = np.int64(place)
            w0, w1, w2, w3 = _block_words(block + quad, minibatch[0], component, k0, k1)
            _put(dst, 4 * quad, _unit(w0))
            _put(dst, 4 * quad + 1, _unit(w1))
            _put(dst, 4 * quad + 2, _unit(w2))
            _put(dst, 4 * quad + 3, _unit(w3))


# -- masks, from uniform random numbers that the caller drew -----------------------------------------------------------


ZERO, ONE = np.float32(0), np.float32(1)
_complementary_pair, _specaugment_row, _time_stretches = map(formula, (
    formulas.complementary_pair, formulas.specaugment_row, formulas.time_stretches))


def launch_each_row(rows: int, cols: int) -> Shape:
    """Return grid and block: a thread for each row of a matrix, along x."""
    return launch_2d(1, rows)


def launch_sequences(rows: int, cols: int) -> Shape:
    """Return grid and block: a thread for each sequence; ``cols`` is the number of sequences + 1."""
    return launch_2d(1, max(cols - 1, 0))


@operation(shape=launch_elements)
def dropout_rows(dst, src, draws, proportion):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        if draws[i, 0] > proportion:
            scale_row(row(dst, i), row(src, i), ONE)
        else:
            fill_row(row(dst, i), ZERO)
        i += step


@operation(shape=launch_each_row)
def complementary_masks(mask, draws, proportion):
    for _ in own_rows(1):
        for i in own_columns(mask.shape[0]):
            _complementary_pair(row(mask, np.int64(i)), row(draws, np.int64(i)), proportion)


# a thread makes a row, of which each sequence has one
@operation(shape=launch_each_row)
def specaugment_mask(mask, draws, max_zeroed):
    for _ in own_rows(1):
        for i in own_columns(mask.shape[0]):
            _specaugment_row(row(mask, np.int64(i)), row(draws, np.int64(i)), max_zeroed)


@operation(over=3, shape=launch_sequences)
def time_mask(mask, draws, rows, starts, start_kept, longest_zeroed, longest_kept):
    for _ in own_rows(1):
        for s in own_columns(starts.shape[0] - 1):
            _time_stretches(mask, row(draws, 0), rows, starts, np.int64(s), start_kept, longest_zeroed, longest_kept)


@operation(shape=launch_elements)
def mul_mask_rows(dst, src, mask, indexes):
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        multiply_row(row(dst, i), row(src, i), row(mask, indexes[i]))
        i += step
