"""Clients of a recognition server, in real time, and what the server takes of the machine meanwhile."""
from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from recognition_parts.measure import BLOCK, RATE, blocks

ROOT = Path(__file__).resolve().parent.parent.parent
_START_SECONDS = 300.0          # most, for a server to load its model
_VOSK_SERVER = Path(__file__).resolve().parent / "run_vosk_server.py"
_TICKS = os.sysconf("SC_CLK_TCK")


class Late(NamedTuple):
    """How late answers were, and what was recognized.

    Attributes
    ----------
    milliseconds : of each block, from when its last sample had been spoken to its answer, in order of size
    words : of each stream
    cut_off : streams that the server has ended before their time
    server_seconds, client_seconds : processor time of either
    """

    milliseconds: list[float]
    words: list[str]
    cut_off: int
    server_seconds: float
    client_seconds: float

    def percentile(self, part: float) -> float:
        """Milliseconds that this part of all answers did not exceed."""
        return self.milliseconds[min(int(part * len(self.milliseconds)), len(self.milliseconds) - 1)]


class Memory(NamedTuple):
    """Megabytes of a process; ``proportional`` counts what several processes share by the share of each."""

    resident: float
    proportional: float
    own: float


def memory_of(process: int) -> Memory:
    """The memory of a process, by Linux's /proc."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    resident, proportional, own = (
        int(re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[1]) / 1024      # type: ignore[index]
        for name in ("Rss", "Pss", "Anonymous"))
    return Memory(resident, proportional, own)


def processor_seconds(process: int) -> float:
    """Processor time that a process has taken, all threads together."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def our_server(model: Path, port: int) -> list[str]:
    """The command of nnet3py's server."""
    return [sys.executable, "-m", "nnet3py", "serve", f"--port={port}", str(model)]


def vosk_server(program: Path) -> Callable[[Path, int], list[str]]:
    """The command of vosk-server's program, ``asr_server.py``."""
    return lambda model, port: [sys.executable, str(_VOSK_SERVER), str(program), str(port), str(model)]


@contextmanager
def running(command: Callable[[Path, int], list[str]], model: Path, cores: int) -> Iterator[tuple[int, int]]:
    """A server that may use so many cores; its process and its port, once it answers there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    process = subprocess.Popen(command(model, port), env={**os.environ, "PYTHONPATH": str(ROOT)},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: os.sched_setaffinity(0, allowed))
    try:
        _wait_for(process, port)
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with status {process.returncode}: {' '.join(map(str, process.args))}")
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise SystemExit(f"the server does not listen after {_START_SECONDS:g} seconds") from None
            time.sleep(0.05)


def talk(process: int, port: int, sound: bytes, seconds: float, count: int) -> Late:
    """``count`` streams in real time, at once, each of its own part of the sound."""
    return asyncio.run(_talk(process, port, sound, seconds, count))


async def _talk(process: int, port: int, sound: bytes, seconds: float, count: int) -> Late:
    late: list[float] = []
    await asyncio.gather(*(_stream(port, list(blocks(sound, 2.0, 7 * number)), 0.0, []) for number in range(2)))  # warm
    busy, working, began = processor_seconds(process), time.process_time(), time.perf_counter()
    spoken = await asyncio.gather(*(
        _stream(port, list(blocks(sound, seconds, 7 * number)), began + 0.5 + number / count * BLOCK, late)
        for number in range(count)))
    words, is_whole = zip(*spoken, strict=True)
    return Late(sorted(late), list(words), is_whole.count(False), processor_seconds(process) - busy,
                time.process_time() - working)


async def _stream(port: int, sound: list[bytes], began: float, late: list[float]) -> tuple[str, bool]:
    """One client: blocks are sent when they have been spoken, whatever has been answered; at 0 seconds, at once.

    Returns its words, and whether the server has answered to the end.
    """
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    words: list[str] = []
    is_whole = False
    async with connect(f"ws://127.0.0.1:{port}", ping_interval=None, open_timeout=60, compression=None) as client:
        await client.send(json.dumps({"config": {"sample_rate": RATE}}))

        async def send() -> None:
            for turn, block in enumerate(sound):
                await asyncio.sleep(max(began + (turn + 1) * BLOCK - time.perf_counter(), 0.0) if began else 0.0)
                await client.send(block)

        sending = asyncio.ensure_future(send())
        try:
            for turn in range(len(sound)):
                answer: dict[str, Any] = json.loads(await client.recv())
                late.append(1e3 * (time.perf_counter() - (began + (turn + 1) * BLOCK)))
                words += [answer["text"]] if answer.get("text") else []
            await sending
            await client.send('{"eof" : 1}')
            words.append(json.loads(await client.recv())["text"])
            is_whole = True
        except ConnectionClosed:
            sending.cancel()
    return " ".join(filter(None, words)), is_whole
