"""The code of lists of cindexes."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_samples import check_survives, reader_of, written

from nnet3py.errors import FormatError
from nnet3py.formats.index_vector import read_cindex_vector, write_cindex_vector

# The documented example: four rows, three of node 4, one of node 6.
NODES = np.array([4, 4, 4, 6], dtype=np.int32)
INDEXES = np.array([[0, -1, 0], [0, 0, 0], [0, 1, 0], [1, 5, 0]], dtype=np.int32)
TEXT = b"<I1V> 4 [4 :<I1> 0 -1 0 <I1> 0 0 0 <I1> 0 1 0 ][6 :<I1> 1 5 0 ]"
BINARY = bytes.fromhex("3c493156 3e20 0404000000 7c0404000000 ff0101 7c0406000000 7f0401000000 0405000000 0400000000")

time = st.one_of(st.integers(-300, 300), st.sampled_from([123, 124, 125, -123, -124, -125, 0]),
                 st.integers(-2**31, 2**31 - 1))
row = st.tuples(st.integers(0, 2), st.integers(0, 3), time, st.integers(-1, 1))


def test_the_documented_example() -> None:
    assert written(write_cindex_vector, NODES, INDEXES, binary=False) == TEXT
    assert written(write_cindex_vector, NODES, INDEXES, binary=True) == BINARY
    for data, binary in ((TEXT, False), (BINARY, True)):
        nodes, indexes = read_cindex_vector(reader_of(data, binary))
        assert np.array_equal(nodes, NODES)
        assert np.array_equal(indexes, INDEXES)


def slow_encode(nodes: list[int], indexes: list[list[int]]) -> bytes:
    found, previous = b"", None
    for node, (n, t, x) in zip(nodes, indexes, strict=True):
        if previous is None or node != previous[0]:
            found += b"|\4" + node.to_bytes(4, "little", signed=True)
        limit = 125 if previous is None else 124
        n0, t0, x0 = (0, 0, 0) if previous is None else previous[1]
        if (n, x) == (n0, x0) and -limit < t - t0 < limit:
            found += (t - t0).to_bytes(1, "little", signed=True)
        elif (t, x) == (t0, x0) and n - n0 in (0, 1):
            found += bytes([125 + n - n0])
        else:
            found += b"\x7f" + b"".join(b"\4" + v.to_bytes(4, "little", signed=True) for v in (n, t, x))
        previous = node, (n, t, x)
    return found


@settings(deadline=None, max_examples=300)
@given(st.lists(row, max_size=30))
def test_any_cindexes_survive(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, dtype=np.int32).reshape(-1, 4)
    nodes, indexes = table[:, 0], table[:, 1:]
    data = written(write_cindex_vector, nodes, indexes, binary=True)
    assert data[11:] == slow_encode(nodes.tolist(), indexes.tolist())
    for binary in (True, False):
        more = written(write_cindex_vector, nodes, indexes, binary=binary) + b"more"
        reader = reader_of(more, binary)
        found_nodes, found_indexes = read_cindex_vector(reader)
        assert np.array_equal(found_nodes, nodes)
        assert np.array_equal(found_indexes, indexes)
        assert reader.raw(4) == b"more"


@pytest.mark.parametrize("data", [
    BINARY.replace(b"|\4\4", b"|\3\4"), BINARY.replace(b"|\4\4", b"\1\4\4", 1), BINARY[:-1],
    BINARY[:6] + b"\4\xff\xff\xff\x7f" + BINARY[11:]])
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        read_cindex_vector(reader_of(data, True))


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_lists_are_refused(binary: bool) -> None:
    check_survives(read_cindex_vector, BINARY if binary else TEXT, binary)
