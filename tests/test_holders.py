"""Every type of table value: its bytes and its text, there and back."""
from __future__ import annotations

import io

import io_samples
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tokens import OddPipe

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.formats import holders
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.io.tokens import TokenReader


def written(holder, value, binary):
    header = b"\0B" if binary and holder.has_header else b""
    return header + io_samples.written(holder.write, value, binary=binary)


def read(holder, data):
    return holder.read_value(TokenReader(io.BytesIO(data)))


BYTES = [
    (holders.INT32, 123, b"\4\x7b\0\0\0", b"123 \n"),
    (holders.FLOAT, 0.25, b"\4\0\0\x80\x3e", b"0.25 \n"),
    (holders.DOUBLE, 1.0, b"\x08\0\0\0\0\0\0\xf0\x3f", b"1 \n"),
    (holders.INT_VECTOR, [3, -1], b"\4\2\0\0\0\4\3\0\0\0\4\xff\xff\xff\xff", b"3 -1 \n"),
    (holders.INT_VECTOR, [], b"\4\0\0\0\0", b"\n"),
    (holders.INT_VECTOR_VECTOR, [[1, 2], [], [4]],
     b"\4\3\0\0\0\4\2\0\0\0\4\1\0\0\0\4\2\0\0\0\4\0\0\0\0\4\1\0\0\0\4\4\0\0\0", b"1 2 ; ; 4 ; \n"),
    (holders.INT_PAIR_VECTOR, [[1, 2], [4, 5]], b"\4\2\0\0\0\4\1\0\0\0\4\2\0\0\0\4\4\0\0\0\4\5\0\0\0", b"1 2 ; 4 5 \n"),
    (holders.INT_PAIR_VECTOR, [], b"\4\0\0\0\0", b"\n"),
]


def plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("holder, value, binary, text", BYTES)
def test_simple_values(holder, value, binary, text):
    assert written(holder, value, True) == b"\0B" + binary
    assert written(holder, value, False) == text
    assert plain(read(holder, b"\0B" + binary)) == plain(read(holder, text)) == value
    for end in range(len(binary)):
        with pytest.raises(FormatError):
            read(holder, b"\0B" + binary[:end])


def test_a_line_is_read_without_waiting_for_the_next():
    class Live(OddPipe):
        def readinto(self, target):
            count = super().readinto(target)
            assert count, "nothing more comes for now"
            return count

    reader = TokenReader(io.BufferedReader(Live(b"spk-1\nspk-2\n", 6)))
    assert [holders.TOKEN.read_value(reader) for _ in range(2)] == ["spk-1", "spk-2"]


def test_names_have_no_header():
    for binary in (True, False):
        assert written(holders.TOKEN, "spk", binary) == b"spk\n"
        assert written(holders.TOKEN_VECTOR, ["a", "é"], binary) == "a é \n".encode()
    assert read(holders.TOKEN, b" spk \n") == "spk"
    assert read(holders.TOKEN_VECTOR, b"\n") == []
    with pytest.raises(FormatError):
        read(holders.TOKEN, b"two names\n")
    with pytest.raises(Nnet3Error, match="not a token"):
        written(holders.TOKEN, "a b", False)


@pytest.mark.parametrize("holder, text", [
    (holders.INT32, b"1 2\n"), (holders.INT32, b"\n1\n"), (holders.INT32, b"1.5\n"), (holders.INT32, b"3000000000\n"),
    (holders.FLOAT, b"nan\n"), (holders.FLOAT, b"inf\n"), (holders.FLOAT, b"1_0\n"), (holders.FLOAT, b"x\n"),
    (holders.INT_VECTOR, b"1 x\n"), (holders.INT_VECTOR, b"1_0\n"),
    (holders.INT_VECTOR, b"99999999999999999999\n"), (holders.INT_VECTOR_VECTOR, b"1 ; 2\n"),
    (holders.INT_PAIR_VECTOR, b"1 2 ; 3\n"), (holders.INT_PAIR_VECTOR, b"1 2 ;\n"),
    (holders.INT_VECTOR, b"\0B\4\xff\xff\xff\xff"), (holders.INT_VECTOR, b"\0B\4\xff\xff\xff\x7f\4"),
    (holders.INT_VECTOR, b"\0B\4\1\0\0\0\3\1\0\0\0"), (holders.INT_VECTOR, b"\0B\4\2\0\0\0\4\1\0\0\0\3\1\0\0\0"),
    (holders.INT_VECTOR_VECTOR, b"\0B\4\xff\xff\xff\x7f\4\0"),
])
def test_malformed_values(holder, text):
    with pytest.raises(FormatError):
        read(holder, text)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-2**31, 2**31 - 1), max_size=50), st.booleans())
def test_integers_survive(values, binary):
    assert read(holders.INT_VECTOR, written(holders.INT_VECTOR, values, binary)).tolist() == values


def test_matrices_keep_or_change_precision():
    matrix = np.arange(6, dtype=np.float64).reshape(2, 3) / 7
    data = written(holders.DOUBLE_MATRIX, matrix, True)
    assert data.startswith(b"\0BDM ")
    assert np.array_equal(read(holders.DOUBLE_MATRIX, data), matrix)
    single = read(holders.FLOAT_MATRIX, data)
    assert single.dtype == np.float32 and np.array_equal(single, matrix.astype(np.float32))
    vector = written(holders.FLOAT_VECTOR, matrix[0], True)
    assert np.array_equal(read(holders.FLOAT_VECTOR, vector), matrix[0].astype(np.float32))


def test_compressed_matrices_stay_compressed_only_where_asked():
    matrix = np.random.default_rng(3).standard_normal((20, 4)).astype(np.float32)
    compressed = CompressedMatrix.compress(matrix)
    data = written(holders.GENERAL_MATRIX, compressed, True)
    assert written(holders.GENERAL_MATRIX, read(holders.GENERAL_MATRIX, data), True) == data
    assert isinstance(read(holders.GENERAL_MATRIX, data), CompressedMatrix)
    dense = read(holders.FLOAT_MATRIX, data)
    assert isinstance(dense, np.ndarray) and np.allclose(dense, matrix, atol=0.1)
    part = holders.GENERAL_MATRIX.select(read(holders.GENERAL_MATRIX, data), "2:3,1:2")
    assert isinstance(part, np.ndarray) and np.array_equal(part, dense[2:4, 1:3])


def test_ranges_of_vectors():
    vector = np.arange(5, dtype=np.float32)
    select = holders.FLOAT_VECTOR.select
    assert select(vector, "1:2").tolist() == [1, 2] and select(vector, ":").tolist() == vector.tolist()
    assert select(vector, "4:7").tolist() == [4]
    for bad in ("0:8", "5:6", "1:2,0:1"):
        with pytest.raises(Nnet3Error):
            select(vector, bad)
