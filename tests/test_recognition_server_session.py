"""A conversation with a client that reads nothing, or goes while it is held back; how fast clients are held back."""
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake_recognition import RATE, FakeStream, in_loop, speech

from nnet3py.recognition.server import session as server_session
from nnet3py.recognition.server.metrics import Metrics
from nnet3py.recognition.server.models import ServedModels
from nnet3py.recognition.server.options import LEAST_MESSAGE_SECONDS, Limits, Pace
from nnet3py.recognition.server.protocol import StreamSettings
from nnet3py.recognition.server.session import Session, StreamThreads


class Gone(Exception):
    """What a connection says that is no more."""


class FakeConnection:
    """Gives the messages of a list, then none; what it is sent is kept, or never taken."""

    def __init__(self, messages: list[str | bytes], takes_answers: bool = True) -> None:
        self.messages, self.takes_answers = messages, takes_answers
        self.answers: list[str] = []
        self.code = 0
        self.gone = asyncio.Event()

    async def recv(self) -> str | bytes:
        if self.gone.is_set():
            raise Gone
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop(0)

    async def send(self, message: str) -> None:
        if not self.takes_answers:
            await asyncio.Event().wait()
        self.answers.append(message)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        assert len(reason.encode()) <= 123, "a closing frame has no room for more"
        self.code = code

    async def wait_closed(self) -> None:
        await self.gone.wait()


def hold(connection: Callable[[], FakeConnection], limits: Limits,
         meanwhile: Callable[[FakeConnection], Awaitable[Any]] | None = None) -> tuple[FakeConnection, Metrics]:
    """Run a session to its end."""
    async def body() -> tuple[FakeConnection, Metrics]:
        threads, metrics, client = StreamThreads(FakeStream, 1), Metrics(), connection()
        session = asyncio.ensure_future(Session(client, threads, StreamSettings(float(RATE)), limits, metrics,
                                                ServedModels()).run())
        if meanwhile is not None:
            await meanwhile(client)
        try:
            await asyncio.wait_for(session, 10)
        finally:
            assert threads.num_streams == 0
            threads.shut_down()
        return client, metrics

    return asyncio.run(body())


def test_a_client_that_reads_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_session, "REFUSAL_SECONDS", 0.01)
    client, metrics = hold(lambda: FakeConnection([speech("1")], takes_answers=False), Limits(idle_timeout=0.05))
    assert client.code == 1008 and metrics.value("errors_total", "idle") == 1


def test_a_client_that_goes_while_it_is_held_back() -> None:
    async def go(client: FakeConnection) -> None:
        while not client.answers:
            await asyncio.sleep(0.001)
        client.gone.set()

    with pytest.raises(Gone):
        hold(lambda: FakeConnection([speech("1"), speech("2")]), Limits(max_speed=0.001, burst_seconds=0.0), go)


@in_loop
async def test_without_a_limit_of_time_a_client_may_be_silent() -> None:
    threads = StreamThreads(FakeStream, 1)
    session = Session(FakeConnection([]), threads, StreamSettings(float(RATE)), Limits(idle_timeout=0.0), Metrics(),
                      ServedModels())
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(session.run(), 0.05)
    threads.shut_down()


def test_long_reasons_are_cut() -> None:
    client, _ = hold(lambda: FakeConnection(["ü" * 500]), Limits())
    assert client.code == 1003 and "expected" in client.answers[0]


def test_speed_in_the_long_run() -> None:
    """A client that sends as soon as it may sends at the allowed speed, after a first burst at any."""
    limits = Limits(max_speed=4.0, burst_seconds=10.0)
    pace, clock, sound = Pace(limits, 100.0), 100.0, 0.0
    for _ in range(1000):
        clock += pace.delay(0.5, clock)
        sound += 0.5
    assert sound == pytest.approx(10.0 + 4.0 * (clock - 100.0))


def test_sound_in_time_waits_for_nothing() -> None:
    pace = Pace(Limits(max_speed=1.5, burst_seconds=0.3), 0.0)
    assert all(pace.delay(0.2, 0.2 * step) == 0.0 for step in range(1, 100))
    assert pace.delay(100.0, 20.0) > 60.0


def test_empty_messages_count() -> None:
    pace = Pace(Limits(max_speed=2.0, burst_seconds=0.0), 0.0)
    assert pace.delay(0.0, 0.0) == pytest.approx(LEAST_MESSAGE_SECONDS / 2)


def test_no_limit() -> None:
    assert Pace(Limits(max_speed=0.0, burst_seconds=0.0), 0.0).delay(1e9, 0.0) == 0.0
