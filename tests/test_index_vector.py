"""The code of index lists."""
from __future__ import annotations

import io

import io_samples
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.errors import FormatError
from nnet3py.formats.index_vector import encode, read_index_vector, write_index_vector
from nnet3py.io.tokens import TokenReader

# The documented example: (0,-1,0), (0,0,0), (0,1,0), (1,5,0).
EXAMPLE = np.array([[0, -1, 0], [0, 0, 0], [0, 1, 0], [1, 5, 0]], dtype=np.int32)
EXAMPLE_BYTES = bytes.fromhex("3c493156 3e20 0404000000 ff0101 7f0401000000 0405000000 0400000000")

index = st.tuples(st.integers(0, 3), st.one_of(st.integers(-300, 300), st.just(-2**31), st.integers(-2**31, 2**31 - 1)),
                  st.integers(-1, 1))


def written(indexes, binary):
    return io_samples.written(write_index_vector, indexes, binary=binary)


def read(data, binary=True):
    return read_index_vector(TokenReader(io.BytesIO(data), binary=binary))


def slow_encode(indexes):
    found, before = b"", (0, 0, 0)
    for n, t, x in indexes.tolist():
        if (n, x) == (before[0], before[2]) and -125 < t - before[1] < 125:
            found += (t - before[1]).to_bytes(1, "little", signed=True)
        else:
            found += b"\x7f" + b"".join(b"\4" + v.to_bytes(4, "little", signed=True) for v in (n, t, x))
        before = (n, t, x)
    return found


def test_the_documented_example():
    assert written(EXAMPLE, True) == EXAMPLE_BYTES
    assert np.array_equal(read(EXAMPLE_BYTES), EXAMPLE)
    text = b"<I1V> 4 <I1> 0 -1 0 <I1> 0 0 0 <I1> 0 1 0 <I1> 1 5 0 "
    assert written(EXAMPLE, False) == text
    assert np.array_equal(read(text, binary=False), EXAMPLE)


@settings(deadline=None, max_examples=200)
@given(st.lists(index, max_size=40))
def test_any_indexes_survive(rows):
    indexes = np.array(rows, dtype=np.int32).reshape(-1, 3)
    assert encode(indexes) == slow_encode(indexes)
    data = written(indexes, True)
    assert np.array_equal(read(data + b"more"), indexes)
    assert np.array_equal(read(written(indexes, False), binary=False), indexes)


def test_limits():
    for t, size in ((124, 1), (125, 16), (-124, 1), (-125, 16)):
        assert len(encode(np.array([[0, t, 0]], dtype=np.int32))) == size


@pytest.mark.parametrize("data", [
    EXAMPLE_BYTES[:-1], EXAMPLE_BYTES[:12], b"<I1V> \4\xff\xff\xff\xff", b"<I1V> \4\xff\xff\xff\x7f\0\0",
    b"<I1V> \4\1\0\0\0\x7d", b"<I1V> \4\1\0\0\0\x80", b"<I1V> \4\1\0\0\0\x7f\3\1\0\0\0\4\5\0\0\0\4\0\0\0\0"])
def test_garbage(data):
    with pytest.raises(FormatError):
        read(data)
