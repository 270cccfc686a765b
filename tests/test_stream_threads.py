"""Streams in threads: side by side, long blocks in pieces, and no stream left over."""
from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from fake_recognition import RATE, FakeStream, in_loop, living, speech

from nnet3py.errors import Nnet3Error
from nnet3py.recognition.server.protocol import StreamSettings
from nnet3py.recognition.server.session import PIECE_SECONDS, Answer, StreamThreads

SETTINGS = StreamSettings(float(RATE))


class Counting(FakeStream):
    """Remembers how long its blocks were."""

    blocks: list[int] = []

    def accept_waveform(self, block: bytes) -> None:
        self.blocks.append(len(block))
        super().accept_waveform(block)


def test_streams_are_decoded_side_by_side() -> None:
    together = threading.Barrier(3)

    class Meeting(FakeStream):
        def accept_waveform(self, block: bytes) -> None:
            together.wait(10)              # passes when three are here
            super().accept_waveform(block)

    async def body() -> None:
        threads = StreamThreads(Meeting, 3)
        streams = [await threads.open(SETTINGS) for _ in range(6)]
        answers = await asyncio.gather(*(stream.accept(speech(str(digit)), SETTINGS)
                                         for digit, stream in enumerate(streams)))
        assert answers == [Answer(f'{{"partial": "{word}"}}') for word in "zero one two three four five".split()]
        last = await streams[4].finish(StreamSettings(float(RATE), words=False))
        assert last == Answer('{"text": "four"}', 1)
        assert threads.num_streams == 6
        for stream in streams:
            stream.close()
            stream.close()
        assert threads.num_streams == 0
        threads.shut_down()

    asyncio.run(body())
    assert not [thread for thread in threading.enumerate() if "nnet3py-stream" in thread.name]


def test_long_blocks_come_in_pieces() -> None:
    async def body() -> None:
        threads = StreamThreads(Counting, 1)
        stream = await threads.open(SETTINGS)
        answer = await stream.accept(speech("123345")[:-1000], SETTINGS)
        assert answer == Answer('{"partial": "one two three three four"}')
        assert Counting.blocks == [int(PIECE_SECONDS * RATE) * 2] * 5 + [7000]
        stream.close()
        threads.shut_down()

    Counting.blocks.clear()
    asyncio.run(body())


@in_loop
async def test_segments_that_end_in_one_block_have_one_answer() -> None:
    threads = StreamThreads(FakeStream, 1)
    stream = await threads.open(SETTINGS)
    answer = await stream.accept(speech("12 3 4"), StreamSettings(float(RATE), words=False))
    assert answer == Answer('{"text": "one two three"}', 3)
    assert await stream.accept(b"", SETTINGS) == Answer('{"partial": "four"}')
    stream.close()
    threads.shut_down()


@in_loop
async def test_a_stream_that_cannot_begin_leaves_nothing() -> None:
    def begin(settings: StreamSettings) -> Any:
        raise Nnet3Error("no such stream")

    threads = StreamThreads(begin, 1)
    with pytest.raises(Nnet3Error, match="no such stream"):
        await threads.open(SETTINGS)
    assert threads.num_streams == 0
    threads.shut_down()


def test_a_stream_that_is_closed_while_it_works() -> None:
    going, go_on = threading.Event(), threading.Event()

    class Waiting(FakeStream):
        def accept_waveform(self, block: bytes) -> None:
            going.set()
            assert go_on.wait(10)
            super().accept_waveform(block)

    async def body() -> None:
        threads = StreamThreads(Waiting, 1)
        stream = await threads.open(SETTINGS)
        work = asyncio.ensure_future(stream.accept(speech("1234"), SETTINGS))
        await asyncio.get_running_loop().run_in_executor(None, going.wait)
        work.cancel()
        stream.close()
        assert threads.num_streams == 0
        go_on.set()
        threads.shut_down()

    asyncio.run(body())
    gc.collect()
    assert len(living) == 0
