"""Tokens and numbers, in text and binary, from files, pipes and memory."""
from __future__ import annotations

import io
import os
import struct
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from io_samples import check_survives, reader_of, written

from nnet3py.errors import FormatError
from nnet3py.io.tokens import TokenReader, TokenWriter

RANGES = {f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-2**(bits - 1), 2**(bits - 1) - 1)
          for sign in ("", "u") for bits in (8, 16, 32, 64)}
TEXT_PRECISION = 1e-6        # seven digits are printed


class OddPipe(io.RawIOBase):
    """Bytes that come a few at a time, without a size and without seeking."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step = io.BytesIO(data), step

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        piece = self._data.read(min(self._step, len(target)))
        target[:len(piece)] = piece
        return len(piece)


def example(writer: TokenWriter) -> None:
    writer.token("<A>")
    writer.integer(-3)
    writer.float32(0.1)
    writer.float64(0.1)
    writer.boolean(True)
    writer.token("<B>")
    writer.integer_vector([1, -2, 3])
    writer.integer_pairs([[1, 2], [3, 4]])
    writer.integer(5, "uint64")
    writer.token("</A>")


def check_example(reader: TokenReader) -> None:
    assert reader.peek_token() == "A"
    assert reader.peek_token() == "A"
    reader.expect_one_or_two("<Z>", "<A>")
    assert reader.integer() == -3
    assert reader.real() == pytest.approx(0.1)
    assert reader.real() == 0.1
    assert reader.boolean() is True
    reader.expect("<B>")
    assert reader.integer_vector().tolist() == [1, -2, 3]
    assert reader.integer_pairs().tolist() == [[1, 2], [3, 4]]
    assert reader.integer("uint64") == 5
    assert reader.peek_token() == "/"
    reader.expect("</A>")
    assert reader.at_end()


def test_bytes_are_kaldis() -> None:
    assert written(TokenWriter.integer, 2, binary=True) == b"\4\2\0\0\0"
    assert written(TokenWriter.float32, 1.0, binary=True) == b"\4\0\0\x80\x3f"
    assert written(lambda w: w.integer(2, "uint64"), binary=True) == b"\xf8\2" + bytes(7)
    assert written(TokenWriter.integer_vector, [1, 2, 3], binary=True) == struct.pack("<b4i", 4, 3, 1, 2, 3)
    assert written(TokenWriter.integer_vector, [1, 2, 3], binary=False) == b"[ 1 2 3 ]\n"
    assert written(TokenWriter.integer_pairs, [[1, 2], [3, 4]], binary=False) == b"[ 1,2 3,4 ]\n"
    assert written(TokenWriter.boolean, True, binary=True) == b"T"
    assert written(TokenWriter.boolean, False, binary=False) == b"F "


@pytest.mark.parametrize("value, text", [(1 / 3, b"0.3333333 "), (1e-5, b"1e-05 "), (123456789.0, b"1.234568e+08 "),
                                         (1e7, b"1e+07 "), (100000.0, b"100000 "), (-0.0, b"-0 ")])
def test_text_has_seven_digits(value: float, text: bytes) -> None:
    assert written(TokenWriter.float32, value, binary=False) == text
    assert written(TokenWriter.float64, value, binary=False) == text


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_pipes_of_any_chunking(binary: bool, step: int) -> None:
    reader = TokenReader(OddPipe(written(example, binary=binary), step))
    reader.binary = binary
    assert reader.remaining is None
    check_example(reader)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("buffer_size", [1, 2, 5, 8192])
def test_buffered_files(binary: bool, buffer_size: int, tmp_path: Any) -> None:
    data = written(example, binary=binary)
    (tmp_path / "file").write_bytes(b"before" + data)
    with open(tmp_path / "file", "rb", buffering=max(buffer_size, 2)) as stream:
        stream.read(6)
        reader = TokenReader(stream)
        reader.binary = binary
        assert reader.offset == 6
        assert reader.remaining == len(data)
        check_example(reader)
        assert reader.offset == 6 + len(data)


def test_a_real_pipe() -> None:
    data = b"\0B" + written(example, binary=True)
    read_end, write_end = os.pipe()

    def feed() -> None:
        with os.fdopen(write_end, "wb", buffering=0) as sink:
            for byte in data:
                sink.write(bytes([byte]))

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(read_end, "rb") as stream:
        reader = TokenReader(stream)
        assert reader.read_header()
        check_example(reader)
        assert reader.offset == len(data)
    thread.join()


@pytest.mark.parametrize("binary", [True, False])
def test_capture_is_what_was_consumed(binary: bool) -> None:
    data = written(example, binary=binary)
    reader = reader_of(b"x " + data, binary)
    reader.token()
    reader.start_capture()
    check_example(reader)
    assert reader.end_capture() == data


def test_nothing_is_taken_beyond_a_value() -> None:
    stream = io.BytesIO(b"\0B" + written(example, binary=True) + b"rest")
    reader = TokenReader(stream)
    reader.read_header()
    reader.expect("<A>")
    reader.integer()
    assert stream.tell() == 2 + 4 + 5
    again = TokenReader(stream, binary=True)
    assert again.real() == pytest.approx(0.1)


@given(st.sampled_from(sorted(RANGES)), st.data(), st.booleans())
def test_integers_come_back(kind: str, data: st.DataObject, binary: bool) -> None:
    value = data.draw(st.integers(*RANGES[kind]))
    reader = reader_of(written(lambda w: w.integer(value, kind), binary=binary), binary)
    assert reader.integer(kind) == value
    with pytest.raises(FormatError):
        written(lambda w: w.integer(RANGES[kind][1] + 1, kind), binary=binary)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans())
def test_reals_come_back(value: float, binary: bool) -> None:
    for write in (TokenWriter.float32, TokenWriter.float64):
        found = reader_of(written(write, value, binary=binary), binary).real()
        assert found == (value if binary else pytest.approx(value, rel=TEXT_PRECISION))


@given(st.lists(st.integers(-2**31, 2**31 - 1)), st.booleans())
def test_integer_lists_come_back(values: list[int], binary: bool) -> None:
    data = written(TokenWriter.integer_vector, values, binary=binary)
    assert reader_of(data, binary).integer_vector().tolist() == values
    if len(values) % 2 == 0:
        data = written(TokenWriter.integer_pairs, values, binary=binary)
        assert reader_of(data, binary).integer_pairs().ravel().tolist() == values
    array = np.array(values, dtype=np.int32)
    data = written(TokenWriter.integers, array, binary=binary)
    assert reader_of(data, binary).integers(len(values)).tolist() == values


@pytest.mark.parametrize("data, binary, read, message", [
    (b"<Foo> ", True, lambda r: r.expect("<Bar>"), "expected <Bar>, found '<Foo>'"),
    (b"<Foo>", True, lambda r: r.token(), "end of the file"),
    (b"", True, lambda r: r.token(), "end of the file"),
    (b"\4\1\0\0", True, lambda r: r.integer(), "end of the file"),
    (b"\10" + bytes(8), True, lambda r: r.integer(), "size byte 8"),
    (b"\3" + bytes(8), True, lambda r: r.real(), "size byte 3"),
    (b"X", True, lambda r: r.boolean(), "expected T or F"),
    (b" 12345678901 ", False, lambda r: r.integer(), "int32"),
    (b"nan ", False, lambda r: r.real(), "expected a number, found 'nan'"),
    (b"inf ", False, lambda r: r.real(), "expected a number, found 'inf'"),
    (b"1e999 ", False, lambda r: r.real(), "too large"),
    (b"x1 ", False, lambda r: r.integer(), "expected an integer, found 'x1'"),
    (b"[ 1 2", False, lambda r: r.integer_vector(), "end of the file"),
    (b"[ 1 2,3 ]", False, lambda r: r.integer_vector(), "expected integers"),
    (b"[ 1,2 3 ]", False, lambda r: r.integer_pairs(), "expected pairs"),
    (b"\4\xff\xff\xff\xff", True, lambda r: r.integer_vector(), "found -1"),
    (b"\4\xff\xff\xff\x7f1234", True, lambda r: r.integer_vector(), "only 4 bytes follow"),
    (b"\2\1\0\0\0", True, lambda r: r.integer_vector(), "size byte 2"),
])
def test_faults_are_named(data: bytes, binary: bool, read: Any, message: str) -> None:
    reader = reader_of(data, binary)
    reader.component = "tdnn1"
    with pytest.raises(FormatError) as caught:
        read(reader)
    assert message in str(caught.value)
    assert "sample" in str(caught.value)
    assert "component 'tdnn1'" in str(caught.value)
    assert caught.value.offset is not None


def test_long_lengths_from_a_pipe_take_no_memory() -> None:
    reader = TokenReader(OddPipe(b"\4\xff\xff\xff\x7f1234", 3), binary=True)
    with pytest.raises(FormatError, match="end of the file"):
        reader.integer_vector()


def test_a_missing_bracket_is_forgiven_as_in_kaldi() -> None:
    reader_of(b"Foo> ", True).expect("<Foo>")
    with pytest.raises(FormatError):
        reader_of(b"Foo ", True).expect("<Foo>")


def test_lines_and_blanks() -> None:
    reader = reader_of(b"  key  rest of line \nnext\n", False)
    reader.skip_whitespace()
    assert reader.token() == "key"
    assert reader.read_line() == b" rest of line "
    assert reader.peek(3) == b"nex"
    reader.skip(1)
    assert reader.read_line() == b"ext"
    assert reader.at_end()
    with pytest.raises(FormatError):
        reader.read_line()


@pytest.mark.parametrize(("length", "is_token"), [(10_000, True), (10_001, False)])
def test_how_long_a_token_may_be(length: int, is_token: bool) -> None:
    reader = reader_of(b"x" * length + b" y", True)
    if is_token:
        assert reader.token() == "x" * length
    else:
        with pytest.raises(FormatError, match="expected a token, found 10001 bytes without a blank"):
            reader.token()


def test_bytes_up_to_a_number() -> None:
    reader = reader_of(b"one two three", True)
    assert (reader.up_to(4), reader.up_to(0), reader.up_to(3)) == (b"one ", b"", b"two")
    reader.skip_up_to(1)
    assert (reader.up_to(100), reader.up_to(None), reader.at_end()) == (b"three", b"", True)
    assert reader_of(b"one two", True).up_to(None) == b"one two"


def test_a_wrong_header_is_refused() -> None:
    with pytest.raises(FormatError, match="binary header"):
        reader_of(b"\0C")


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_bytes_are_refused(binary: bool) -> None:
    def read(reader: TokenReader) -> None:
        reader.expect("<A>")
        reader.integer(), reader.real(), reader.real(), reader.boolean(), reader.expect("<B>")
        reader.integer_vector(), reader.integer_pairs(), reader.integer("uint64"), reader.expect("</A>")

    check_survives(read, written(example, binary=binary), binary)


@pytest.mark.parametrize(("data", "read", "message"), [
    (b"<Dim> <Din> 3 ", lambda r: (r.token(), r.expect("<Dat>")),
     r"expected <Dat>, found '<Din>' \[after <Dim>, byte 6\]"),
    (b"<Dim> x4 ", lambda r: (r.token(), r.integer()), r"expected an integer, found 'x4' \[after <Dim>, byte 6\]"),
    (b"<Dim> </Din> ", lambda r: (r.token(), r.expect("<Dat>")), r"found '</Din>' \[after <Dim>, byte 6\]"),
    (b"<Dim> Din ", lambda r: (r.token(), r.check_token(r.token(), "A", "B")),
     r"expected A or B, found 'Din' \[after <Dim>, byte 6\]"),
    (b"\x1b[31m<Dim> ", lambda r: r.expect("<Dim>"), r"found '\\x1b\[31m<Dim>' \[byte 0\]"),
    (b"0 ", lambda r: r.boolean(), "expected T or F, found '0'"),
    (b"", lambda r: r.token(), "the file is empty"), (b"<Di", lambda r: r.token(), "the file is truncated")])
def test_errors_name_the_place_of_what_was_found(data, read, message) -> None:
    """The byte is the first of what was not expected, and the field the one before it."""
    with pytest.raises(FormatError, match=message):
        read(TokenReader(io.BytesIO(data), size=len(data)))


@pytest.mark.parametrize(("length", "shown"), [(60, "x" * 60), (61, "x" * 60 + "...")])
def test_what_was_found_is_shown_up_to_a_length(length: int, shown: str) -> None:
    with pytest.raises(FormatError, match=f"expected <A>, found '{shown}'"):
        reader_of(b"x" * length + b" ", False).expect("<A>")
