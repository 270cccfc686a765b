"""The server: conversations, clients that misbehave, limits, its end; plain HTTP, pages that may connect."""
from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import json
import re
import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fake_recognition import (
    BrokenStream,
    FakeStream,
    NamedStream,
    SlowStream,
    converse,
    fake_models,
    http_get,
    in_loop,
    living,
    serving,
    speech,
    until,
)

from nnet3py import __version__
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.recognition.server import server
from nnet3py.recognition.server import session as stream_threads
from nnet3py.recognition.server.models import Reloaded
from nnet3py.recognition.server.options import Limits, ServerOptions
from nnet3py.recognition.server.server import RecognitionServer, content_policy, origin_is_allowed, page_text
from nnet3py.recognition.server.session import StreamThreads

websockets = pytest.importorskip("websockets")
from websockets.asyncio.client import connect  # noqa: E402
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402

CONFIG = json.dumps({"config": {"sample_rate": 8000}})
EOF = '{"eof" : 1}'
NUM_CONNECTIONS = 200        # what the server must bear at once


async def close_code(connection: Any) -> int:
    """With which code the server closes, whatever it says before."""
    try:
        while True:
            await asyncio.wait_for(connection.recv(), 20)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else 0


@in_loop
async def test_a_conversation() -> None:
    async with serving() as running, connect(running.url) as client:
        answers = await converse(client, CONFIG, speech("4"), speech("2"), speech(" "), speech("7"), EOF)
        assert answers[:2] == [{"partial": "four"}, {"partial": "four two"}]
        assert answers[2] == {"text": "four two", "result": [
            {"conf": 0.75, "end": 0.5, "start": 0.0, "word": "four"},
            {"conf": 0.75, "end": 1.0, "start": 0.5, "word": "two"}]}
        assert answers[3:] == [{"partial": "seven"}, {"text": "seven", "result": [
            {"conf": 0.75, "end": 2.0, "start": 1.5, "word": "seven"}]}]
        assert await close_code(client) == 1000
        assert running.server.metrics.value("sound_seconds_total") == 2.0
        assert running.server.metrics.value("words_total") == 3


@in_loop
async def test_without_a_config_and_without_sound() -> None:
    async with serving() as running:
        async with connect(running.url) as client:
            assert await converse(client, speech("5"), EOF) == [{"partial": "five"}, {
                "text": "five", "result": [{"conf": 0.75, "end": 0.5, "start": 0.0, "word": "five"}]}]
        async with connect(running.url + "/any/path") as client:
            assert await converse(client, b"", EOF) == [{"partial": ""}, {"text": ""}]
        async with connect(running.url) as client:
            assert await converse(client, EOF) == [{"text": ""}]


@in_loop
async def test_reset_and_alternatives() -> None:
    async with serving() as running, connect(running.url) as client:
        config = '{"config": {"words": false, "max_alternatives": 2}}'
        answers = await converse(client, config, speech("3"), '{"reset": 1}', speech("1"), EOF)
        assert answers[1] == {"alternatives": [{"text": "three", "confidence": 2.5},
                                               {"text": "three or so", "confidence": -4.0}]}
        assert answers[3]["alternatives"][0] == {"text": "one", "confidence": 2.5}


@in_loop
async def test_half_frames() -> None:
    """Messages that end within a sample give what whole ones do."""
    sound = speech("314 15")
    async with serving() as running, connect(running.url) as client:
        pieces = [sound[first:first + 2001] for first in range(0, len(sound), 2001)]
        answers = await converse(client, CONFIG, *pieces, EOF)
        words = [word["word"] for answer in answers if "text" in answer for word in answer.get("result", [])]
        assert words == ["three", "one", "four", "one", "five"]


@in_loop
async def test_200_connections_at_once() -> None:
    async def client(url: str, number: int) -> None:
        digits = f"{number:03d}"
        async with connect(url, ping_interval=None) as connection:
            *partials, last = await converse(connection, CONFIG, *(speech(digit) for digit in digits), EOF)
            assert last["text"] == partials[-1]["partial"] == " ".join(
                "zero one two three four five six seven eight nine".split()[int(digit)] for digit in digits)

    async with serving(limits=Limits(max_connections=NUM_CONNECTIONS)) as running:
        await asyncio.gather(*(client(running.url, number) for number in range(NUM_CONNECTIONS)))
        await until(lambda: not running.server.metrics.connections)
        assert running.server.metrics.value("connections_total") == NUM_CONNECTIONS
        assert running.service.num_streams == 0
        gc.collect()
        assert len(living) == 0


@in_loop
async def test_one_connection_more_than_allowed() -> None:
    async with serving(limits=Limits(max_connections=2)) as running:
        async with connect(running.url) as one, connect(running.url) as two:
            assert await converse(one, speech("1")) + await converse(two, speech("2")) == [
                {"partial": "one"}, {"partial": "two"}]
            with pytest.raises(InvalidStatus, match="503"):
                await connect(running.url)
            assert (await converse(one, EOF))[0]["text"] == "one"
            await until(lambda: running.server.metrics.connections == 1)
            async with connect(running.url) as three:
                assert await converse(three, speech("3")) == [{"partial": "three"}]
        assert running.server.metrics.value("refused_total", "full") >= 1        # older clients ask twice


MISTAKES = {
    "hello": 1003, "": 1003, "[1, 2": 1003, "7": 1003, '{"eof": 0}': 1003, "[" * 5000: 1003,
    '{"config": 5}': 1008, '{"config": {"sample_rate": "fast"}}': 1008, '{"config": {"sample_rate": 1e400}}': 1008,
    '{"config": {"sample_rate": 0}}': 1008, '{"config": {"max_alternatives": -1}}': 1008,
    '{"config": {"phrase_list": [1]}}': 1008, '{"config": {"words": "yes"}}': 1008,
    '{"config": {"model": "/etc"}}': 1008, '{"config": {"sample_rate": 16000}}': 1008,      # sound came before
}


@in_loop
async def test_wrong_messages_end_their_own_connection_only() -> None:
    async def wrong(running: Any, message: str, code: int) -> None:
        async with connect(running.url) as client:
            await converse(client, speech("1"))
            await client.send(message)
            answer = json.loads(await client.recv())
            assert list(answer) == ["error"] and "expected" in answer["error"] or "reset" in answer["error"], answer
            assert await close_code(client) == code, message

    async with serving() as running, connect(running.url) as other:
        await converse(other, speech("6"))
        await asyncio.gather(*(wrong(running, message, code) for message, code in MISTAKES.items()))
        assert (await converse(other, speech("6"), EOF))[1]["text"] == "six six"
        metrics = running.server.metrics
        assert metrics.value("errors_total", "text") == 6 and metrics.value("errors_total", "config") == 9


def test_an_error_within_a_stream_ends_it_only(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with serving(BrokenStream) as running, connect(running.url) as one, connect(running.url) as other:
            await converse(other, speech("6"))
            answers = await converse(one, b"\x0d\x00" * 100)
            assert answers == [{"error": "internal error of the server; its log says more"}]
            assert await close_code(one) == 1011
            assert (await converse(other, EOF))[0]["text"] == "six"
            assert running.server.metrics.value("errors_total", "internal") == 1

    asyncio.run(body())
    assert "ValueError: thirteen" in caplog.text


@in_loop
async def test_a_setting_that_the_model_refuses() -> None:
    def begin(settings: Any) -> FakeStream:
        if settings.phrases:
            raise Nnet3Error("this model has no lookahead graph")
        return FakeStream()

    async with serving(begin) as running:
        async with connect(running.url) as client:
            answers = await converse(client, '{"config": {"phrase_list": ["yes"]}}', speech("1"))
            assert answers == [{"error": "this model has no lookahead graph"}]
            assert await close_code(client) == 1008


@in_loop
async def test_limits_of_size_length_and_time() -> None:
    limits = Limits(max_message_bytes=16000, max_seconds=2.0, idle_timeout=0.3)
    async with serving(limits=limits) as running:
        async with connect(running.url) as client:
            await client.send(bytes(16002))
            assert await close_code(client) == 1009
        async with connect(running.url) as client:
            answers = await converse(client, speech("1"), speech("2"), speech("3"), speech("4"), speech("5"))
            assert answers[4]["text"] == "one two three four"         # what was said is not lost
            assert json.loads(await client.recv()) == {"error": "more than 2 seconds of sound on one connection"}
            assert await close_code(client) == 1008
        async with connect(running.url) as client:
            await converse(client, speech("1"))
            assert json.loads(await client.recv()) == {"error": "no message for 0.3 seconds"}
            assert await close_code(client) == 1008
        for kind in ("size", "length", "idle"):
            await until(lambda kind=kind: running.server.metrics.value("errors_total", kind) == 1)


@in_loop
async def test_fast_clients_are_held_back() -> None:
    async with serving(limits=Limits(max_speed=20.0, burst_seconds=0.5)) as running:
        async with connect(running.url) as client:
            begun = time.monotonic()
            await converse(client, *(speech("1"),) * 7, EOF)         # 3.5 seconds, 3 of them too many
            assert time.monotonic() - begun >= 0.14


@in_loop
async def test_a_slow_stream_does_not_stall_others() -> None:
    def begin(settings: Any) -> FakeStream:
        return SlowStream() if settings.sample_rate == 16000 else FakeStream()

    async with serving(begin) as running, connect(running.url) as slow, connect(running.url) as other:
        await slow.send('{"config": {"sample_rate": 16000}}')
        await slow.send(speech("1"))
        await until(lambda: running.service.num_streams == 1)
        begun = time.monotonic()
        assert (await converse(other, speech("1"), speech("2")))[1] == {"partial": "one two"}
        assert (await http_get(running.port, "/health"))[0] == 200
        assert time.monotonic() - begun < SlowStream.seconds
        await slow.recv()


@in_loop
async def test_an_hour_of_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_threads, "PIECE_SECONDS", 10.0)       # a sixth of a minute at a time, to be quick

    async with serving(limits=Limits(max_speed=0.0)) as running, connect(running.url) as client:
        minute = bytes(60 * 16000)
        answers = await converse(client, CONFIG, *(minute,) * 60, speech("8"), EOF)
        assert answers[:60] == [{"partial": ""}] * 60
        assert answers[-1]["result"] == [{"conf": 0.75, "end": 3600.5, "start": 3600.0, "word": "eight"}]


def raw_request(port: int) -> bytes:
    return (f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n").encode()


def frame(opcode: int, payload: bytes) -> bytes:
    """A client's frame, masked with zeros."""
    return bytes([0x80 | opcode, 0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4) + payload


def test_disconnecting_at_every_point() -> None:
    """The connection is lost after each number of bytes of a whole conversation, in steps."""
    async def lose(port: int, conversation: bytes, length: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(conversation[:length])
        await writer.drain()
        if length % 2:                     # half of them after an answer, or what there is of one
            try:
                await asyncio.wait_for(reader.read(1), 0.05)
            except asyncio.TimeoutError:
                pass
        writer.transport.abort()

    async def body() -> None:
        async with serving(SlowStream, num_threads=4) as running, connect(running.url) as other:
            request = raw_request(running.port)
            conversation = request + frame(1, CONFIG.encode()) + frame(2, speech("1")) + frame(2, speech("2")) + frame(
                1, EOF.encode())
            lengths = [*range(0, len(request), 29), *range(len(request), len(request) + 60, 3),
                       *range(len(request) + 60, len(conversation), 997), len(conversation)]
            await asyncio.gather(*(lose(running.port, conversation, length) for length in lengths))
            await until(lambda: running.server.metrics.connections == 1)
            assert running.service.num_streams == 0
            assert (await converse(other, speech("9"), EOF))[1]["text"] == "nine"

    before, SlowStream.seconds = SlowStream.seconds, 0.01
    try:
        asyncio.run(body())
    finally:
        SlowStream.seconds = before
    gc.collect()
    assert len(living) == 0


@in_loop
async def test_garbage_on_the_port() -> None:
    async with serving() as running:
        request = raw_request(running.port)
        for garbage in (b"\x16\x03\x01\x02\x00" * 20, b"POST / HTTP/1.1\r\n\r\n", b"\r\n" * 5,
                        b"GET /" + b"x" * 20000, request.replace(b"13", b"12"), request + b"\xff" * 50,
                        request + frame(1, b"\xff\xfe"), request + frame(3, b"")):
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(garbage)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), 5)
            writer.close()
        async with connect(running.url) as client:
            assert await converse(client, speech("1")) == [{"partial": "one"}]
        await until(lambda: not running.server.metrics.connections)


@in_loop
async def test_pages_of_other_servers_may_not_connect() -> None:
    async def refused(running: Any, origin: str) -> bool:
        try:
            async with connect(running.url, origin=origin):
                return False
        except InvalidStatus as error:
            return error.response.status_code == 403

    async with serving(allowed_origins=["https://example.org"]) as running:
        assert not await refused(running, f"http://127.0.0.1:{running.port}")
        assert not await refused(running, "https://example.org")
        for origin in ("https://elsewhere.org", "null", f"http://127.0.0.1:{running.port + 1}", "http://[::1"):
            assert await refused(running, origin), origin
        assert running.server.metrics.value("refused_total", "origin") >= 4


@in_loop
async def test_stopping_lets_conversations_end() -> None:
    async with serving() as running, connect(running.url) as client:
        await converse(client, speech("1"))
        running.server.stop()
        await asyncio.sleep(0.02)
        assert running.server.health()["status"] == "stopping"
        with pytest.raises(OSError):
            await connect(running.url)
        assert (await converse(client, speech("2"), EOF))[1]["text"] == "one two"
        await asyncio.wait_for(running.task, 5)


@pytest.mark.parametrize("seconds, signals", [(0.1, 1), (60.0, 2)])
@in_loop
async def test_stopping_has_a_deadline(seconds: float, signals: int) -> None:
    async with serving(drain_seconds=seconds) as running, connect(running.url) as client:
        await converse(client, speech("1"))
        for _ in range(signals):
            running.server.stop()
            await asyncio.sleep(0.01)
        assert await close_code(client) == 1001
        await asyncio.wait_for(running.task, 5)


def test_options_that_cannot_be() -> None:
    for options in (ServerOptions(port=70000), ServerOptions(limits=Limits(burst_seconds=-1.0)),
                    ServerOptions(key="key.pem")):
        with pytest.raises(UsageError):
            options.check()


@in_loop
async def test_a_port_that_is_taken() -> None:
    async with serving() as running:
        other = RecognitionServer(StreamThreads(FakeStream, 1), ServerOptions(port=running.port))
        with pytest.raises(Nnet3Error, match=f"cannot listen on port {running.port} of 127.0.0.1"):
            await other.serve()


@pytest.mark.filterwarnings("ignore::ResourceWarning")        # Python 3.10 forgets to close what is under TLS
@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl, which makes a certificate, is not here")
def test_connections_with_tls(tmp_path: Path) -> None:
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", "key.pem", "-out", "cert.pem"], cwd=tmp_path, capture_output=True, check=True)
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")

    async def body() -> None:
        async with serving(certificate=certificate, key=key) as running:
            context = ssl.create_default_context(cafile=certificate)
            async with connect(f"wss://localhost:{running.port}", ssl=context) as client:
                assert await converse(client, speech("1")) == [{"partial": "one"}]

    asyncio.run(body())
    gc.collect()
    for wrong in (str(tmp_path / "none.pem"), __file__):
        with pytest.raises(Nnet3Error, match="no such file|no certificate"):
            options = ServerOptions(port=0, certificate=wrong)
            asyncio.run(RecognitionServer(StreamThreads(FakeStream, 1), options).serve())


@in_loop
async def test_a_client_far_ahead_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers to pings wait behind its sound, which takes longer than the time between pings."""
    monkeypatch.setattr(server, "_PING_SECONDS", 0.1)
    monkeypatch.setattr(SlowStream, "seconds", 0.1)

    async with serving(SlowStream) as running, connect(running.url, ping_interval=None) as client:
        for _ in range(15):
            await client.send(speech("1"))
        answers = [json.loads(await client.recv()) for _ in range(15)]
        assert answers[-1] == {"partial": " ".join(["one"] * 15)}


def with_model(name: str) -> str:
    return json.dumps({"config": {"sample_rate": 8000, "model": name}})


@in_loop
async def test_clients_choose_among_models() -> None:
    async with serving(NamedStream, models=fake_models(ko="Korean", en="English")) as running:
        async with connect(running.url) as one, connect(running.url) as two, connect(running.url) as three:
            assert await converse(one, speech("1")) == [{"partial": "Korean: one"}]
            assert await converse(two, with_model("en"), speech("2")) == [{"partial": "English: two"}]
            assert await converse(two, '{"reset": 1}', with_model("ko"), speech("3")) == [
                {"text": "two", "result": [{"conf": 0.75, "end": 0.5, "start": 0.0, "word": "two"}]},
                {"partial": "Korean: three"}]
            await one.send(with_model("ko"))            # what it has
            assert await converse(one, speech("1")) == [{"partial": "Korean: one one"}]
            await one.send(with_model("en"))
            assert "model can be set before the first sound" in json.loads(await one.recv())["error"]
            await three.send(with_model("fr"))
            assert json.loads(await three.recv()) == {"error": "model '\"fr\"': expected one of ko, en"}
            assert await close_code(three) == 1008
        assert running.server.metrics.value("streams_total", "ko") == 2
        assert running.server.metrics.value("streams_total", "en") == 1


@in_loop
async def test_models_read_again_are_for_new_connections() -> None:
    later = iter([Reloaded(fake_models(ko="newer"), ["model ko is read again"], []),
                  Reloaded(fake_models(ko="newer"), [], ["model ko: am/final.mdl: no model"])])

    async with serving(NamedStream, models=fake_models(ko="older"), read_again=lambda: next(later)) as running:
        async with connect(running.url) as old:
            assert await converse(old, speech("1")) == [{"partial": "older: one"}]
            running.server.reload()
            await until(lambda: running.server.metrics.value("reloads_total", "ok") == 1)
            async with connect(running.url) as new:
                assert await converse(new, speech("2")) == [{"partial": "newer: two"}]
            assert await converse(old, speech("3")) == [{"partial": "older: one three"}]
            await converse(old, '{"reset": 1}')
            assert await converse(old, with_model("ko"), speech("4")) == [{"partial": "older: four"}]
        running.server.reload()
        await until(lambda: running.server.metrics.value("reloads_total", "failed") == 1)
        async with connect(running.url) as new:
            assert await converse(new, speech("5")) == [{"partial": "newer: five"}]


@in_loop
async def test_a_signal_while_models_are_read_is_not_lost() -> None:
    reads, go_on = [], threading.Event()

    def read_again() -> Reloaded:
        reads.append(len(reads))
        assert go_on.wait(10)
        return Reloaded(fake_models(ko=f"number {len(reads)}"), [], [])

    async with serving(NamedStream, models=fake_models(ko="older"), read_again=read_again) as running:
        running.server.reload()
        await until(lambda: bool(reads))
        for _ in range(3):
            running.server.reload()
        async with connect(running.url) as client:
            assert await converse(client, speech("1")) == [{"partial": "older: one"}]      # nobody waits for it
        go_on.set()
        await until(lambda: running.server.metrics.value("reloads_total", "ok") == 2)
        async with connect(running.url) as client:
            assert await converse(client, speech("1")) == [{"partial": "number 2: one"}]
    assert reads == [0, 1]


@in_loop
async def test_paths() -> None:
    pytest.importorskip("websockets")

    async with serving(models=fake_models(digits=0, letters=1)) as running:
        status, headers, text = await http_get(running.port, "/health")
        assert (status, headers["content-type"]) == (200, "application/json")
        assert json.loads(text) == {"status": "ok", "model": "digits", "models": ["digits", "letters"],
                                    "version": __version__, "connections": 0, "sample_rate": 8000.0}
        status, headers, text = await http_get(running.port, "/metrics?all")
        assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "\nnnet3py_connections 0\n" in text
        status, headers, text = await http_get(running.port, "/")
        assert status == 200 and headers["content-type"] == "text/html; charset=utf-8" and text == page_text()
        assert headers["x-content-type-options"] == "nosniff" and headers["connection"] == "close"
        assert headers["content-security-policy"] == content_policy(text)
        status, headers, text = await http_get(running.port, "/../etc/passwd")
        assert status == 404 and "/health" in text
        running.server.stop()
        assert running.server.health()["status"] == "stopping"


def test_the_page_loads_nothing() -> None:
    page = page_text()
    assert not re.findall(r"\b(?:src|href)=(?![\"']data:).*|@import|url\(", page)
    assert "http://www.w3.org/2000/svg" in page and len(re.findall("https?://", page)) == 1      # a name, no address
    assert " style=" not in page and not re.search(r"\son[a-z]+=", page), "the content policy allows none"
    policy = content_policy(page)
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script) == 1 and base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode() in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize("origin, host, is_local, allowed, expected", [
    (None, "127.0.0.1:2700", True, (), True),                                   # no browser
    ("http://localhost:2700", "localhost:2700", True, (), True),
    ("http://[::1]:2700", "[::1]:2700", True, (), True),
    ("http://LOCALHOST:2700", "localhost:2700", True, (), True),
    ("http://localhost:8000", "localhost:2700", True, (), False),
    ("https://evil.org", "localhost:2700", True, (), False),
    ("http://evil.org:2700", "evil.org:2700", True, (), False),                 # a name that was made to lead here
    ("http://speech.example.org", "speech.example.org", False, (), True),
    ("http://evil.org", "speech.example.org", False, (), False),
    ("https://app.example.org", "localhost:2700", True, ("https://app.example.org",), True),
    ("https://app.example.org", "localhost:2700", True, ("*",), True),
    ("null", "localhost:2700", True, (), False), ("", "", True, (), False), ("http://[", "[", True, (), False),
])
def test_origins(origin: str | None, host: str, is_local: bool, allowed: tuple[str, ...], expected: bool) -> None:
    assert origin_is_allowed([] if origin is None else [origin], host, is_local, allowed) is expected


def test_two_origins_are_none() -> None:
    assert not origin_is_allowed(["http://localhost:1"] * 2, "localhost:1", True, ())
