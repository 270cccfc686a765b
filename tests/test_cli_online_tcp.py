"""online2-tcp-nnet3-decode-faster: the bytes that Kaldi's server answers, and clients that vanish."""
from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
from online_cases import ONLINE, PACKAGE, dialogue
from test_cli_online_decode import PLACES, options, write_inputs

from nnet3py.cli.decoding.online import serve

__all__ = ["options"]      # the fixture
WORDS = str(PACKAGE / "graph" / "words.txt")
PATIENCE = 60              # seconds


class Server:
    """The server in a process of its own."""

    def __init__(self, folder, *more: str) -> None:
        self.log = folder / "log"
        launch = "from nnet3py.cli.decoding.online import serve; serve.main()"
        options = [*write_inputs(folder), "--endpoint.rule2.min-trailing-silence=0.2", "--output-period=0.5",
                   "--ivector-silence-weighting.silence-phones=1", "--ivector-silence-weighting.silence-weight=0.001",
                   "--port-num=0", *more]
        with open(self.log, "wb") as stream:
            self.process = subprocess.Popen([sys.executable, "-c", launch, *options, *PLACES[:2], WORDS], cwd=folder,
                                            stderr=stream)
        self.port = int(self.wait_for(r"Listening on port: (\d+)")[1])

    def wait_for(self, pattern: str) -> re.Match[str]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"no '{pattern}' in {self.log.read_text()}")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for the tests of clients, so that each finds what the one before left."""
    made = Server(tmp_path_factory.mktemp("server"), "--produce-time=true", "--read-timeout=1")
    yield made
    assert made.process.poll() is None, made.log.read_text()
    made.stop()
    assert "Traceback" not in made.log.read_text()


def samples() -> bytes:
    return dialogue().astype("<i2").tobytes()


def answer(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(4096):
        parts.append(part)
    return b"".join(parts)


def talk(server: Server, data: bytes) -> bytes:
    with server.connect() as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return answer(client)


def test_kaldis_bytes(server):
    assert talk(server, samples()) == (ONLINE / "tcp-times.bytes").read_bytes()


def vanish(server, data):
    client = server.connect()
    client.sendall(data)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()                     # the connection is reset


@pytest.mark.parametrize("length", [0, 1, 99, 60000, 200000])
def test_clients_that_vanish(server, length):
    vanish(server, samples()[:length])
    assert talk(server, samples()[:50000]).startswith(b"0.00 0.48 five two \r")


def test_a_client_that_stops_sending(server):
    with server.connect() as client:
        client.sendall(samples()[:60001])          # an odd byte is not a sample
        assert re.fullmatch(rb"0.00 0.48 five two \r.*five \n1.68 1.8\d \n", answer(client))
    server.wait_for("taken to have ended")


def test_no_sound(server):
    assert talk(server, b"") == b"\n"
    assert talk(server, b"abc") == b"\n"


def test_a_port_that_is_taken(options, capfd):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve.execute([*options, f"--port-num={port}", *PLACES[:2], WORDS]) == 255
    assert f"Cannot bind to port: {port}" in capfd.readouterr().err


@pytest.mark.parametrize(("given", "message"), [
    (["--port-num=70000"], "from 0 to 65535"), (["--samp-freq=0"], "one sample or more"),
    (["--chunk-length=0"], "one sample or more"), (["--endpoint.silence-phones="], "must be given")])
def test_what_cannot_be(options, capfd, given, message):
    assert serve.execute([*options, *given, *PLACES[:2], WORDS]) == 255
    assert message in capfd.readouterr().err
