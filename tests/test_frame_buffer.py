"""Rows that come and go."""
from __future__ import annotations

import numpy as np

from nnet3py.runtime.frame_buffer import FrameBuffer

RNG = np.random.default_rng(3)


def test_rows_have_their_numbers():
    everything = RNG.standard_normal((1000, 3)).astype(np.float32)
    buffer, at = FrameBuffer(3), 0
    while at < len(everything):
        count = int(RNG.integers(0, 40))
        buffer.append(everything[at:at + count])
        at = min(at + count, len(everything))
        assert buffer.end == at
        np.testing.assert_array_equal(buffer.between(buffer.first, at), everything[buffer.first:at])
        if at > buffer.first:
            numbers = RNG.integers(buffer.first, at, 5)
            np.testing.assert_array_equal(buffer.rows(numbers), everything[numbers])
        buffer.forget(int(RNG.integers(0, at + 30)))
        assert buffer.first <= buffer.end == at


def test_memory_is_reused():
    buffer = FrameBuffer(2)
    for number in range(3000):
        buffer.append(np.full((5, 2), number, dtype=np.float32))
        buffer.forget(buffer.end - 20)
    assert len(buffer._rows) <= 64
    np.testing.assert_array_equal(buffer.between(buffer.end - 1, buffer.end), [[2999, 2999]])


def test_a_forgotten_row_stays_forgotten():
    buffer = FrameBuffer(1)
    buffer.append(np.arange(10.0)[:, None])
    buffer.forget(4)
    buffer.forget(2)
    assert (buffer.first, buffer.end) == (4, 10)
    buffer.forget(99)
    assert (buffer.first, buffer.end) == (10, 10)
