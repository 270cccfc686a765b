"""nnet3py/io/byte_source.py: bytes of streams that may or may not be able to seek, some of them given back."""
from __future__ import annotations

import io

import pytest
from test_tokens import OddPipe

from nnet3py.io import byte_source
from nnet3py.io.byte_source import ByteSource

DATA = bytes(range(200))
STREAMS = pytest.mark.parametrize("is_pipe", [False, True])


def source(is_pipe: bool) -> ByteSource:
    return ByteSource(io.BufferedReader(OddPipe(DATA, 7)) if is_pipe else io.BytesIO(DATA))


@STREAMS
def test_long_reads_go_in_pieces(is_pipe: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_source, "_PIECE", 32)
    reader = source(is_pipe)
    assert reader.read_pieces(0) == b""
    assert reader.read_pieces(32) == DATA[:32] and reader.read_pieces(70) == DATA[32:102]
    assert reader.read_pieces(1000) == DATA[102:] and reader.read_pieces(5) == b""


def test_bytes_are_passed_over_where_the_stream_can_seek() -> None:
    reader = ByteSource(io.BufferedReader(io.BytesIO(DATA)))
    assert reader.seek_forward(60) and reader.read(2) == DATA[60:62]
    reader.push_back(b"x")
    assert not reader.seek_forward(60) and reader.read(2) == b"x" + DATA[62:63]      # not over what came back
    assert not source(True).seek_forward(60) and not source(False).seek_forward(60)


@STREAMS
def test_bytes_that_are_given_back_come_again(is_pipe: bool) -> None:
    reader = source(is_pipe)
    assert reader.read(10) == DATA[:10] and reader.offset == 10
    reader.push_back(DATA[6:10])
    assert reader.offset == 6
    assert reader.read(2) == DATA[6:8] and reader.read(4) == DATA[8:12] and reader.offset == 12
    reader.push_back(DATA[10:12])
    target = bytearray(20)
    assert reader.read_into(memoryview(target)) == 20 and target == DATA[10:30]
    assert reader.read_into(memoryview(target)) == 20 and target == DATA[30:50]
    assert reader.offset == 50


@STREAMS
def test_looking_ahead_consumes_nothing(is_pipe: bool) -> None:
    reader = source(is_pipe)
    reader.read(3)
    seen = reader.look_ahead(7)
    assert DATA[3:].startswith(seen) and seen and reader.offset == 3
    reader.consume(2)
    assert reader.read(10) == DATA[5:15]
    assert reader.peek(1)[:1] == DATA[15:16] and reader.offset == 15


@STREAMS
def test_a_record_has_what_was_read_and_not_given_back(is_pipe: bool) -> None:
    reader = source(is_pipe)
    reader.read(4)
    reader.start_record()
    reader.read(10)
    reader.push_back(DATA[12:14])
    assert reader.end_record() == DATA[4:12]
    assert reader.read(4) == DATA[12:16]


def test_the_end_of_a_stream() -> None:
    for is_pipe, remaining in ((False, 10), (True, None)):
        reader = source(is_pipe)
        reader.read(190)
        assert reader.remaining == remaining
        target = bytearray(20)
        assert reader.read_into(memoryview(target)) == 10 and target[:10] == DATA[190:]
        assert reader.read(1) == b"" and reader.remaining == (remaining and 0)
