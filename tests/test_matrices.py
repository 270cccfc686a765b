"""Dense matrices, vectors and packed matrices."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from io_samples import SAMPLES, archive, check_survives, reader_of, written
from paths import shared_golden

from nnet3py.errors import FormatError
from nnet3py.formats.matrices import (
    read_matrix,
    read_packed,
    read_vector,
    write_matrix,
    write_packed,
    write_vector,
)

TEXT_PRECISION = 1e-6        # seven digits are printed

finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
matrices = hnp.arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=finite32)


def test_bytes_are_kaldis() -> None:
    matrix = np.array([[1, 2]], dtype=np.float32)
    assert written(write_matrix, matrix, binary=True) == (
        b"FM \4\1\0\0\0\4\2\0\0\0" + bytes.fromhex("0000803f00000040"))
    matrix = np.array([[1, -2.5], [1 / 3, 1e-10]], dtype=np.float32)
    assert written(write_matrix, matrix, binary=False) == b" [\n  1 -2.5 \n  0.3333333 1e-10 ]\n"
    assert written(write_vector, np.arange(1.0, 4.0), binary=False) == b" [ 1 2 3 ]\n"
    assert written(write_vector, np.empty(0), binary=False) == b" [ ]\n"
    assert written(write_matrix, np.empty((0, 0)), binary=False) == b" [ ]\n"
    assert written(write_packed, np.arange(3.0), binary=False) == b"[\n0 \n1 2 ]\n"
    assert written(write_packed, np.empty(0), binary=False) == b"[ ]\n"
    assert written(write_packed, np.arange(3.0), binary=True)[:8] == b"DP \4\2\0\0\0"


def test_an_archive_is_written_back_byte_for_byte() -> None:
    for _, matrix, data in archive(SAMPLES / "feats.ark", read_matrix):
        assert matrix.shape == (155, 40)
        assert written(write_matrix, matrix, binary=True) == data


def test_text_as_kaldi_prints_it() -> None:
    folder = shared_golden() / "data"
    binary = {key: value for key, value, _ in archive(folder / "feats.ark", read_matrix)}
    text = (folder / "feats.txt").read_bytes()
    found = b"".join(key.encode() + b" " + written(write_matrix, binary[key], binary=False)
                     for key, _, _ in archive(folder / "feats.txt", read_matrix))
    assert found == text


@given(matrices, st.booleans(), st.booleans())
def test_matrices_come_back(matrix: np.ndarray, binary: bool, double: bool) -> None:
    values = matrix.astype(np.float64) if double else matrix
    found = read_matrix(reader_of(written(write_matrix, values, binary=binary), binary), dtype=values.dtype)
    assert found.dtype == values.dtype
    np.testing.assert_allclose(found, values, rtol=0 if binary else TEXT_PRECISION)
    found[0, 0] = 0                                                        # ours to change


@given(matrices, st.booleans())
def test_vectors_and_packed_matrices_come_back(matrix: np.ndarray, binary: bool) -> None:
    vector = matrix.ravel()
    found = read_vector(reader_of(written(write_vector, vector, binary=binary), binary))
    np.testing.assert_allclose(found, vector, rtol=0 if binary else TEXT_PRECISION)
    packed = matrix[:1, :1].ravel() if matrix.size < 6 else vector[:6]
    found = read_packed(reader_of(written(write_packed, packed, binary=binary), binary))
    np.testing.assert_allclose(found, packed, rtol=0 if binary else TEXT_PRECISION)


@given(matrices, st.sampled_from([1, 2]))
def test_strided_matrices_are_written_whole(matrix: np.ndarray, step: int) -> None:
    part = matrix[::step, ::-1]
    assert np.array_equal(read_matrix(reader_of(written(write_matrix, part, binary=True), True)), part)


@pytest.mark.parametrize("text, rows", [
    (b" [\n  1 2\n\n  3 4 ]\n", [[1, 2], [3, 4]]),
    (b"[ 1 2 ; 3 4 ; ]", [[1, 2], [3, 4]]),
    (b"\n[ 1\n 2\n]", [[1], [2]]),
    (b"[ -1e-3 NaN inf Infinity ]", [[-1e-3, np.nan, np.inf, np.inf]]),
    (b"[]", np.empty((0, 0))),
    (b" [ ]\n", np.empty((0, 0))),
])
def test_text_forms(text: bytes, rows: Any) -> None:
    np.testing.assert_array_equal(read_matrix(reader_of(text, False)), np.array(rows, dtype=np.float32))


@pytest.mark.parametrize("text", [b"[ 1 -inf ]", b"[ +2 ]", b"[ .5 ]", b"[ 1 x ]", b"[ 1 2\n 3 ]", b"[ 1 2", b"1 2 ]",
                                  b"", b"[ 1e99 ]", b"[ 1,2 ]", b"[ 1-2 ]"])
def test_bad_text_is_refused(text: bytes) -> None:
    with pytest.raises(FormatError):
        read_matrix(reader_of(text, False))


def test_a_matrix_is_no_vector() -> None:
    with pytest.raises(FormatError, match="is it a matrix"):
        read_vector(reader_of(b"[ 1 2\n 3 4 ]", False))


def test_the_newline_after_text_is_consumed() -> None:
    reader = reader_of(b" [ 1 2 ]\r\nkey", False)
    read_vector(reader)
    assert reader.peek(3) == b"key"


@pytest.mark.parametrize("data, message", [
    (b"FM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f12", "only 2 bytes follow"),
    (b"FM \4\xff\xff\xff\xff\4\2\0\0\0", "-1 x 2"),
    (b"FM \4\2\0\0\0\4\2\0\0\0" + bytes(15), "end of the file"),
    (b"FV \4\2\0\0\0" + bytes(8), "expected a matrix"),
    (b"FM \4\0\0\0\0\4\2\0\0\0", "0 x 2"),
])
def test_bad_binary_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_matrix(reader_of(data, True))


def test_large_text_matrices() -> None:
    matrix = np.random.default_rng(0).normal(size=(1000, 83)).astype(np.float32)
    data = written(write_matrix, matrix, binary=False)
    np.testing.assert_allclose(read_matrix(reader_of(data, False)), matrix, rtol=TEXT_PRECISION)
    lines = data.decode().splitlines()
    assert lines[7] == "  " + "".join(f"{value:.7g} " for value in matrix[6].tolist())


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("read, write, value", [
    (read_matrix, write_matrix, np.array([[1, -2.5], [1 / 3, 1e-10]])),
    (read_vector, write_vector, np.array([1.5, -2, 1e20])),
    (read_packed, write_packed, np.arange(6.0))])
def test_damaged_bytes_are_refused(binary: bool, read: Any, write: Any, value: np.ndarray) -> None:
    data = written(write, value, binary=binary)
    check_survives(read, data, binary, count=200)


@given(st.text("0123456789.-+eE   ", max_size=12))
def test_the_fast_parser_takes_only_what_the_strict_one_does(text: str) -> None:
    data = f"[ {text} ]".encode()
    words = text.split()
    valid = all(re.fullmatch(r"(-?\d+\.?\d*|-\.\d+)([eE][-+]?\d+)?", word) for word in words)
    valid = valid and all(abs(float(word)) < 3e38 for word in words)
    if valid:
        assert read_vector(reader_of(data, False)).tolist() == [float(np.float32(float(word))) for word in words]
    else:
        with pytest.raises(FormatError):
            read_vector(reader_of(data, False))
