"""For tests of the server: a recognizer that hears a word in each half second that is not silent; a running server."""
from __future__ import annotations

import asyncio
import functools
import json
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import numpy as np

from nnet3py.recognition.server.models import Reloaded, ServedModel, ServedModels
from nnet3py.recognition.server.options import Limits, ServerOptions
from nnet3py.recognition.server.protocol import StreamSettings
from nnet3py.recognition.server.server import RecognitionServer
from nnet3py.recognition.server.session import StreamThreads

RATE = 8000
WORD = RATE // 2             # samples
DIGITS = "zero one two three four five six seven eight nine".split()
living: weakref.WeakSet[FakeStream] = weakref.WeakSet()


def in_loop(test: Callable[..., Any]) -> Callable[..., None]:
    """Make a test of a coroutine function, which runs in an event loop."""
    @functools.wraps(test)
    def run(*args: Any, **values: Any) -> None:
        asyncio.run(test(*args, **values))

    return run


class FakeResult(NamedTuple):
    text: str
    words: list[tuple[str, float, float, float]]
    costs: list[tuple[str, float]]
    speaker: None = None
    speaker_frames: int = 0

    def alternatives(self, count: int) -> list[tuple[str, float, list[tuple[str, float, float, float]]]]:
        return [(text, -cost, self.words) for text, cost in self.costs[:count]]

    @staticmethod
    def joined(segments: list[FakeResult]) -> FakeResult:
        text = " ".join(segment.text for segment in segments)
        return FakeResult(text, [word for segment in segments for word in segment.words], [(text, 0.0)])


class FakeStream:
    """WORD samples are a word, the digit that the first one's value ends in; silence after words ends a segment."""

    def __init__(self, settings: StreamSettings | None = None) -> None:
        living.add(self)
        self.begun = 0
        self.samples = np.zeros(0, np.int16)
        self.half = b""

    def accept_waveform(self, block: bytes) -> None:
        block = self.half + block
        whole = len(block) // 2 * 2
        self.half = block[whole:]
        self.samples = np.concatenate([self.samples, np.frombuffer(block[:whole], "<i2")])
        if not self.samples.any():       # silence takes no memory
            self.begun, self.samples = self.begun + len(self.samples), self.samples[:0]

    def _words(self) -> list[tuple[str, float, float, float]]:
        starts = [start for start in range(0, len(self.samples) - WORD + 1, WORD) if self.samples[start]]
        return [(DIGITS[self.samples[start] % 10], (self.begun + start) / RATE, (self.begun + start + WORD) / RATE,
                 0.75) for start in starts]

    @property
    def partial(self) -> str:
        return " ".join(word for word, *_ in self._words())

    @property
    def endpoint(self) -> bool:
        return bool(self._words()) and not self.samples[-WORD:].any()

    def result(self) -> FakeResult:
        words = self._words()
        self.begun, self.samples = self.begun + len(self.samples), self.samples[:0]
        text = " ".join(word for word, *_ in words)
        return FakeResult(text, words, [(text, -2.5), (text + " or so", 4.0)])

    def finish(self) -> FakeResult:
        return self.result()


class NamedStream(FakeStream):
    """Says the name of its model before what it hears; the recognizer of a fake model is a word."""

    def __init__(self, settings: StreamSettings) -> None:
        super().__init__(settings)
        assert settings.model is not None
        self.name = settings.model.recognizer

    @property
    def partial(self) -> str:
        return f"{self.name}: {super().partial}"


def fake_models(**recognizers: Any) -> ServedModels:
    """Models by name, the default first."""
    return ServedModels({name: ServedModel(name, recognizer) for name, recognizer in recognizers.items()})


class SlowStream(FakeStream):
    """Takes a while for each block."""

    seconds = 0.3

    def accept_waveform(self, block: bytes) -> None:
        time.sleep(self.seconds)
        super().accept_waveform(block)


class BrokenStream(FakeStream):
    """Fails at sound whose first sample is 13."""

    def accept_waveform(self, block: bytes) -> None:
        super().accept_waveform(block)
        if block[:1] == b"\x0d":
            raise ValueError("thirteen")


def speech(digits: str) -> bytes:
    """Sound in which FakeStream hears these digits; a blank is silence."""
    return b"".join(np.full(WORD, 0 if digit == " " else 10 + int(digit), "<i2").tobytes() for digit in digits)


class Running(NamedTuple):
    server: RecognitionServer
    service: StreamThreads
    port: int
    task: asyncio.Task[None]

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(begin: Callable[[StreamSettings], Any] = FakeStream, num_threads: int = 2,
                  limits: Limits | None = None, models: ServedModels | None = None,
                  read_again: Callable[[], Reloaded] | None = None, **options: Any) -> AsyncIterator[Running]:
    """A server on a free port; it has ended, and has closed all streams, when the block ends."""
    service = StreamThreads(begin, num_threads)
    server = RecognitionServer(service, ServerOptions(port=0, limits=limits or Limits(), **options), models,
                               read_again)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(server.serve(address.set_result))
    await asyncio.wait({task, address}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    try:
        yield Running(server, service, int(address.result().rstrip("/").rpartition(":")[2]), task)
    finally:
        server.stop()
        server.stop()
        await asyncio.wait_for(task, 20)
    assert service.num_streams == 0 and server.metrics.connections == 0


async def converse(connection: Any, *messages: str | bytes) -> list[dict[str, Any]]:
    """Send messages, and read the answer to each that has one."""
    answers = []
    for message in messages:
        await connection.send(message)
        if isinstance(message, bytes) or "config" not in message:
            answers.append(json.loads(await asyncio.wait_for(connection.recv(), 20)))
    return answers


async def http_get(port: int, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers with names in lower case, and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *(f"{key}: {text}" for key, text in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head, _, body = (await asyncio.wait_for(reader.read(), 20)).decode().partition("\r\n\r\n")
    writer.close()
    first, *rest = head.split("\r\n")
    fields = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in rest}
    return int(first.split()[1]), fields, body


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.005)
