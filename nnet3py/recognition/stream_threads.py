"""Streams that are decoded in threads, for programs that must not wait: the server's."""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from nnet3py.recognition.scheduler import BatchScheduler, ScheduledStream
from nnet3py.recognition.server_protocol import (
    BYTES_PER_SAMPLE,
    ResultLike,
    StreamSettings,
    partial_message,
    result_message,
)

PIECE_SECONDS = 0.5      # of sound that a stream decodes before others have their turn

T = TypeVar("T")


class StreamLike(Protocol):
    """What is used here of a recognizer's stream; half a sample at the end of a block waits for the next block."""

    def accept_waveform(self, block: bytes) -> Any: ...
    @property
    def partial(self) -> str: ...
    @property
    def endpoint(self) -> bool: ...
    def result(self) -> ResultLike: ...
    def finish(self) -> ResultLike: ...


class Answer(NamedTuple):
    """What a stream has to say: the message to its client, and how many words a result has; None for no result."""

    message: str
    num_words: int | None = None


class RunningStream(Protocol):
    """A stream whose work is done elsewhere. Calls follow each other; ``close`` may come at any time.

    ``settings`` say what answers look like, which a client may change.
    """

    async def accept(self, block: bytes, settings: StreamSettings) -> Answer:
        """Decode a block of 16-bit samples; returns the words so far, or the result of segments that ended in it."""

    async def finish(self, settings: StreamSettings) -> Answer:
        """Decode what is left; returns the last segment's result."""

    def close(self) -> None:
        """Nobody wants more of it."""


class StreamService(Protocol):
    """Whoever decodes streams for a server."""

    async def open(self, settings: StreamSettings) -> RunningStream:
        """A new stream. Raises Nnet3Error if the model does not allow these settings."""

    def shut_down(self) -> None:
        """End: wait for what is being computed, begin nothing more."""


class StreamThreads:
    """A :class:`StreamService` of a :class:`~nnet3py.recognition.scheduler.BatchScheduler`.

    Parameters
    ----------
    begin : makes the recognizer's stream for a client's settings, in a thread
    num_threads : how many streams are worked on at the same time; 0: as the scheduler thinks best
    """

    def __init__(self, begin: Callable[[StreamSettings], StreamLike], num_threads: int = 0) -> None:
        self._begin, self._scheduler = begin, BatchScheduler(num_threads)
        self.num_streams = 0           # that are open

    async def open(self, settings: StreamSettings) -> RunningStream:
        """A new stream."""
        stream: Any = await asyncio.to_thread(self._begin, settings)
        self.num_streams += 1
        return _RunningStream(self._scheduler.add(stream), settings, self._leave)

    def _leave(self) -> None:
        self.num_streams -= 1

    def shut_down(self) -> None:
        """End the threads, when each has finished its current piece."""
        self._scheduler.shut_down()


class _RunningStream:
    """A stream of the scheduler's."""

    def __init__(self, scheduled: ScheduledStream, settings: StreamSettings, leave: Callable[[], None]) -> None:
        self._scheduled, self._leave = scheduled, leave
        self._piece = max(1, int(PIECE_SECONDS * settings.sample_rate)) * BYTES_PER_SAMPLE
        self._is_closed = False

    async def accept(self, block: bytes, settings: StreamSettings) -> Answer:
        ended: list[ResultLike] = []
        first = 0
        while len(block) - first > self._piece:
            await self._run(_accept, block[first:first + self._piece], ended)
            first += self._piece
        return await self._run(_answer, block[first:], ended, settings)

    async def finish(self, settings: StreamSettings) -> Answer:
        return await self._run(_last_answer, settings)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._leave()

    async def _run(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.wrap_future(self._scheduled.run(lambda stream: work(stream, *args)))


def _accept(stream: StreamLike, piece: bytes, ended: list[ResultLike]) -> None:
    """Decode a piece; results of segments that end in it are added to ``ended``."""
    if piece:
        stream.accept_waveform(piece)
    while stream.endpoint:
        ended.append(stream.result())


def _answer(stream: StreamLike, piece: bytes, ended: list[ResultLike], settings: StreamSettings) -> Answer:
    """Decode the last piece of a block; returns what the client is told after it."""
    _accept(stream, piece, ended)
    if ended:            # a message has one answer, also if several segments ended in it
        return _said(ended[0].joined(ended), settings)
    return Answer(partial_message(stream.partial))


def _last_answer(stream: StreamLike, settings: StreamSettings) -> Answer:
    return _said(stream.finish(), settings)


def _said(result: ResultLike, settings: StreamSettings) -> Answer:
    """Alternatives are searched for when they are asked for, so that is done here, in a thread."""
    return Answer(result_message(result, settings), len(result.words))
