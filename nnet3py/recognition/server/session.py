"""The conversation with one client, and streams that are decoded in threads while the event loop goes on."""
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from nnet3py.errors import Nnet3Error
from nnet3py.recognition.results import Result
from nnet3py.recognition.scheduler import BatchScheduler, ScheduledStream
from nnet3py.recognition.server.metrics import Metrics
from nnet3py.recognition.server.models import ServedModels
from nnet3py.recognition.server.options import Limits, Pace
from nnet3py.recognition.server.protocol import (
    BYTES_PER_SAMPLE,
    CloseCode,
    Control,
    ProtocolError,
    StreamSettings,
    error_message,
    partial_message,
    read_text_message,
    result_message,
)
from nnet3py.recognition.stream import Stream

PIECE_SECONDS = 0.5      # of sound that a stream decodes before other streams have their turn

T = TypeVar("T")


class Answer(NamedTuple):
    """A message to a client; ``num_words`` is the number of words if it is a result, None for a partial result."""

    message: str
    num_words: int | None = None


class StreamThreads:
    """A decoder of the streams of a server, in the threads of a :class:`BatchScheduler`.

    ``begin``: function that makes the recognizer's stream for a client's settings, called in a thread. ``num_threads``:
    number of streams that are decoded at the same time; 0: the scheduler's default.
    """

    def __init__(self, begin: Callable[[StreamSettings], Stream], num_threads: int = 0) -> None:
        self._begin, self._scheduler = begin, BatchScheduler(num_threads)
        self.num_streams = 0           # open streams

    async def open(self, settings: StreamSettings) -> RunningStream:
        """Begin a stream. Raises Nnet3Error if the model does not allow the settings."""
        stream = await asyncio.to_thread(self._begin, settings)
        self.num_streams += 1
        return RunningStream(self._scheduler.add(stream), settings, self._leave)

    def _leave(self) -> None:
        self.num_streams -= 1

    def shut_down(self) -> None:
        """End the threads after the pieces of sound that they decode now."""
        self._scheduler.shut_down()


class RunningStream:
    """A stream that is decoded in another thread. Each call must end before the next, but ``close`` may come any time.

    ``settings`` determine the form of an answer, and may differ from call to call.
    """

    def __init__(self, scheduled: ScheduledStream, settings: StreamSettings, leave: Callable[[], None]) -> None:
        self._scheduled, self._leave = scheduled, leave
        self._piece = max(1, int(PIECE_SECONDS * settings.sample_rate)) * BYTES_PER_SAMPLE
        self._is_closed = False

    async def accept(self, block: bytes, settings: StreamSettings) -> Answer:
        """Decode a block of 16-bit samples; return the partial text, or the result if segments ended in the block."""
        ended: list[Result] = []
        first = 0
        while len(block) - first > self._piece:
            await self._run(_accept, block[first:first + self._piece], ended)
            first += self._piece
        return await self._run(_answer, block[first:], ended, settings)

    async def finish(self, settings: StreamSettings) -> Answer:
        """Decode the rest, and return the last segment's result."""
        return await self._run(lambda stream: _answer_of(stream.finish(), settings))

    def close(self) -> None:
        """End the stream without a result."""
        if not self._is_closed:
            self._is_closed = True
            self._leave()

    async def _run(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.wrap_future(self._scheduled.run(lambda stream: work(stream, *args)))


def _accept(stream: Stream, piece: bytes, ended: list[Result]) -> None:
    """Decode a piece, and add the results of segments that end in it to ``ended``."""
    if piece:
        stream.accept_waveform(piece)
    while stream.endpoint:
        ended.append(stream.result())


def _answer(stream: Stream, piece: bytes, ended: list[Result], settings: StreamSettings) -> Answer:
    """Decode the last piece of a block, and return the answer to the block."""
    _accept(stream, piece, ended)
    if ended:            # a block has one answer, also if several segments ended in it
        return _answer_of(ended[0].joined(ended), settings)
    return Answer(partial_message(stream.partial))


def _answer_of(result: Result, settings: StreamSettings) -> Answer:
    """Return the answer that holds a result; called in a thread, since finding alternatives takes time."""
    return Answer(result_message(result, settings), len(result.words))


logger = logging.getLogger(__name__)

REFUSAL_SECONDS = 1.0      # for a client to read the message about its error
_REASON_BYTES = 123        # of the reason in a closing frame (RFC 6455)


class Session:
    """The conversation with one client.

    Parameters
    ----------
    connection : connection to the client, of the package websockets
    service : StreamThreads, which decodes
    settings : StreamSettings until the client sends others
    limits, metrics : Limits and Metrics of the server
    models : ServedModels from which the client may choose
    """

    def __init__(self, connection: Any, service: StreamThreads, settings: StreamSettings, limits: Limits,
                 metrics: Metrics, models: ServedModels) -> None:
        self._connection, self._service, self._settings = connection, service, settings
        self._limits, self._metrics, self._models = limits, metrics, models
        self._stream: RunningStream | None = None
        self._stream_settings = settings       # settings of the stream
        self._seconds = 0.0                    # of sound on this connection
        self._clock = asyncio.get_running_loop().time
        self._pace = Pace(limits, self._clock())

    async def run(self) -> None:
        """Answer messages until the client or the server ends the connection, for any reason.

        Raises only the errors of the connection's methods when it is closed, and asyncio's CancelledError.
        """
        try:
            while await self._answer(await self._in_time(self._connection.recv(), "no message")):
                pass
            await self._connection.close()
        except ProtocolError as error:
            await self._refuse(error)
        except Nnet3Error as error:            # such as a phrase list for a model that can have none
            await self._refuse(ProtocolError(str(error), CloseCode.POLICY, "settings"))
        finally:
            self._end_stream()

    async def fail(self) -> None:
        """Tell the client of an internal error."""
        await self._refuse(ProtocolError("internal error of the server; its log says more",
                                         CloseCode.INTERNAL, "internal"))

    async def _in_time(self, what: Awaitable[T], lack: str) -> T:
        timeout = self._limits.idle_timeout
        try:
            return await asyncio.wait_for(what, timeout or None)
        except asyncio.TimeoutError:
            raise ProtocolError(f"{lack} for {timeout:g} seconds", CloseCode.POLICY, "idle") from None

    async def _answer(self, message: str | bytes) -> bool:
        """Answer one message, and return whether the conversation goes on."""
        if isinstance(message, bytes):
            return await self._accept(message)
        content = read_text_message(message, self._settings, self._models)
        self._metrics.count("messages_total", label=content.value if isinstance(content, Control) else "config")
        if isinstance(content, Control):
            await self._send(await self._finish())
            self._end_stream()
            return content is not Control.EOF
        self._settings = content
        if self._stream is not None and _fixed_settings(content) != _fixed_settings(self._stream_settings):
            raise ProtocolError("sample_rate, phrase_list and model can be set before the first sound of a stream, not "
                                "within it: send {\"reset\": 1} before", CloseCode.POLICY, "config")
        return True

    async def _accept(self, message: bytes) -> bool:
        """Decode the sound of a binary message, and send the answer; return True, as the conversation goes on."""
        begun = self._clock()
        seconds = len(message) / BYTES_PER_SAMPLE / self._settings.sample_rate
        self._seconds += seconds
        self._metrics.count("messages_total", label="sound")
        self._metrics.count("sound_seconds_total", seconds)
        if 0 < self._limits.max_seconds < self._seconds:
            await self._send(await self._finish())
            raise ProtocolError(f"more than {self._limits.max_seconds:g} seconds of sound on one connection",
                                CloseCode.POLICY, "length")
        await self._send(await (await self._open_stream()).accept(message, self._settings))
        self._metrics.answered(self._clock() - begun)
        delay = self._pace.delay(seconds, self._clock())
        if delay:
            await self._hold_back(delay)
        return True

    async def _hold_back(self, delay: float) -> None:
        """Read no messages for ``delay`` seconds; the client is held up, too, once its queue of messages is full."""
        try:
            await asyncio.wait_for(self._connection.wait_closed(), delay)
        except asyncio.TimeoutError:
            pass

    async def _open_stream(self) -> RunningStream:
        if self._stream is None:
            self._stream_settings = self._settings
            self._stream = await self._service.open(self._settings)
            if self._settings.model is not None:
                self._metrics.count("streams_total", label=self._settings.model.name)
        return self._stream

    async def _finish(self) -> Answer:
        if self._stream is None:
            return Answer(result_message(None, self._settings), 0)
        return await self._stream.finish(self._settings)

    async def _send(self, answer: Answer) -> None:
        if answer.num_words is not None:
            self._metrics.count("results_total")
            self._metrics.count("words_total", answer.num_words)
        await self._in_time(self._connection.send(answer.message), "an answer was not read")

    async def _refuse(self, error: ProtocolError) -> None:
        self._end_stream()
        self._metrics.count("errors_total", label=error.kind)
        logger.debug("A connection is closed: %s", error)
        try:
            await asyncio.wait_for(self._connection.send(error_message(str(error))), REFUSAL_SECONDS)
        except asyncio.TimeoutError:
            pass
        await self._connection.close(error.code, str(error).encode()[:_REASON_BYTES].decode(errors="ignore"))

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _fixed_settings(settings: StreamSettings) -> tuple[object, ...]:
    """Return the settings that cannot change while a stream lasts."""
    return settings.sample_rate, settings.phrases, settings.model
