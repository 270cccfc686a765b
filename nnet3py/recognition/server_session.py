"""The conversation with one client, from its first message to the end of its connection."""
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from nnet3py.errors import Nnet3Error
from nnet3py.recognition.served_models import ServedModels
from nnet3py.recognition.server_limits import Limits, Pace
from nnet3py.recognition.server_metrics import Metrics
from nnet3py.recognition.server_protocol import (
    BYTES_PER_SAMPLE,
    CloseCode,
    Control,
    ProtocolError,
    StreamSettings,
    error_message,
    read_text_message,
    result_message,
)
from nnet3py.recognition.stream_threads import Answer, RunningStream, StreamService

logger = logging.getLogger(__name__)

REFUSAL_SECONDS = 1.0      # for a client to read what it is told at the end

T = TypeVar("T")


class ConnectionLike(Protocol):
    """The part of a connection of the package websockets that is used here."""

    def recv(self) -> Awaitable[str | bytes]: ...
    def send(self, message: str) -> Awaitable[None]: ...
    def close(self, code: int = 1000, reason: str = "") -> Awaitable[None]: ...
    def wait_closed(self) -> Awaitable[None]: ...


class Session:
    """One client's conversation.

    Parameters
    ----------
    connection : to the client
    service : which decodes
    settings : those of a client that chooses none
    limits, metrics : of the server
    models : what the client may choose from, to its end
    """

    def __init__(self, connection: ConnectionLike, service: StreamService, settings: StreamSettings, limits: Limits,
                 metrics: Metrics, models: ServedModels) -> None:
        self._connection, self._service, self._settings = connection, service, settings
        self._limits, self._metrics, self._models = limits, metrics, models
        self._stream: RunningStream | None = None
        self._stream_settings = settings       # the stream's own
        self._seconds = 0.0                    # of sound on this connection
        self._clock = asyncio.get_running_loop().time
        self._pace = Pace(limits, self._clock())

    async def run(self) -> None:
        """Answer messages until the client or the server ends the connection, for whatever reason.

        Raises nothing but what the connection's own calls raise when it is gone, and asyncio's CancelledError.
        """
        try:
            while await self._answer(await self._next()):
                pass
            await self._connection.close()
        except ProtocolError as error:
            await self._refuse(error)
        except Nnet3Error as error:            # such as a phrase list for a model that can have none
            await self._refuse(ProtocolError(str(error), CloseCode.POLICY, "settings"))
        finally:
            self._end_stream()

    async def fail(self) -> None:
        """Tell the client that the fault is here."""
        await self._refuse(ProtocolError("internal error of the server", CloseCode.INTERNAL, "internal"))

    async def _next(self) -> str | bytes:
        return await self._in_time(self._connection.recv(), "no message")

    async def _in_time(self, what: Awaitable[T], lack: str) -> T:
        timeout = self._limits.idle_timeout
        try:
            return await asyncio.wait_for(what, timeout or None)
        except asyncio.TimeoutError:
            raise ProtocolError(f"{lack} for {timeout:g} seconds", CloseCode.POLICY, "idle") from None

    async def _answer(self, message: str | bytes) -> bool:
        """Answer one message; returns whether the conversation goes on."""
        if isinstance(message, bytes):
            return await self._accept(message)
        wanted = read_text_message(message, self._settings, self._models)
        self._metrics.count("messages_total", label=wanted.value if isinstance(wanted, Control) else "config")
        if isinstance(wanted, Control):
            await self._say(await self._finish())
            self._end_stream()
            return wanted is not Control.EOF
        self._settings = wanted
        if self._stream is not None and _of_stream(wanted) != _of_stream(self._stream_settings):
            raise ProtocolError("sample_rate, phrase_list and model can be set before the first sound of a stream, not "
                                "within it: send {\"reset\": 1} before", CloseCode.POLICY, "config")
        return True

    async def _accept(self, message: bytes) -> bool:
        """Decode sound, and answer."""
        begun = self._clock()
        seconds = len(message) / BYTES_PER_SAMPLE / self._settings.sample_rate
        self._seconds += seconds
        self._metrics.count("messages_total", label="sound")
        self._metrics.count("sound_seconds_total", seconds)
        if 0 < self._limits.max_seconds < self._seconds:
            await self._say(await self._finish())
            raise ProtocolError(f"more than {self._limits.max_seconds:g} seconds of sound on one connection",
                                CloseCode.POLICY, "length")
        await self._say(await (await self._open_stream()).accept(message, self._settings))
        self._metrics.answered(self._clock() - begun)
        delay = self._pace.delay(seconds, self._clock())
        if delay:
            await self._hold_back(delay)
        return True

    async def _hold_back(self, delay: float) -> None:
        """Look at no more messages for a while; nor does the client send, once those that wait fill their place."""
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

    async def _say(self, answer: Answer) -> None:
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
        await self._connection.close(error.code, _short(str(error)))

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _of_stream(settings: StreamSettings) -> tuple[object, ...]:
    """What cannot change while a stream lasts."""
    return settings.sample_rate, settings.phrases, settings.model


def _short(text: str) -> str:
    """A reason that fits into a closing frame: at most 123 bytes."""
    return text.encode()[:123].decode(errors="ignore")
