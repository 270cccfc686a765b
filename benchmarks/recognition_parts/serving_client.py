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
from collections.abc import Callable, Iterator, Sequence
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


def tree_of(process: int) -> list[int]:
    """Return a process and all that it has started, and these have."""
    children = [int(word) for task in Path(f"/proc/{process}/task").iterdir()
                for word in (task / "children").read_text(encoding="ascii").split()]
    return [process, *(number for child in children for number in tree_of(child))]


def memory_of(*processes: int) -> Memory:
    """Return the memory of processes and of those that they have started, together, by Linux's /proc."""
    total = [0.0, 0.0, 0.0]
    for number in (number for process in processes for number in tree_of(process)):
        text = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii")
        for place, name in enumerate(("Rss", "Pss", "Anonymous")):
            total[place] += int(re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[1]) / 1024      # type: ignore[index]
    return Memory(*total)


def processor_seconds(*processes: int) -> float:
    """Return the processor time that processes and those that they have started have taken, all threads together."""
    seconds = 0.0
    for number in (number for process in processes for number in tree_of(process)):
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / _TICKS
    return seconds


def our_server(num_processes: int = 1) -> Callable[[Path, int], list[str]]:
    """Return the command of nnet3py's server."""
    return lambda model, port: [sys.executable, "-m", "nnet3py", "serve", f"--port={port}",
                                f"--num-processes={num_processes}", str(model)]


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


def talk(servers: Sequence[tuple[int, int]], sound: bytes, seconds: float, count: int) -> Late:
    """Have ``count`` streams in real time, at once, each of its own part of the sound, with servers in turn.

    ``servers``: the process and the port of each.
    """
    return asyncio.run(_talk(servers, sound, seconds, count))


async def _talk(servers: Sequence[tuple[int, int]], sound: bytes, seconds: float, count: int) -> Late:
    late: list[float] = []
    processes, ports = zip(*servers, strict=True)
    await asyncio.gather(*(_stream(port, list(blocks(sound, 2.0, 7 * number)), 0.0, [])                        # warm
                           for number, port in enumerate(2 * ports)))
    busy, working, began = processor_seconds(*processes), time.process_time(), time.perf_counter()
    spoken = await asyncio.gather(*(
        _stream(ports[number % len(ports)], list(blocks(sound, seconds, 7 * number)),
                began + 0.5 + number / count * BLOCK, late)
        for number in range(count)))
    words, is_whole = zip(*spoken, strict=True)
    return Late(sorted(late), list(words), is_whole.count(False), processor_seconds(*processes) - busy,
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
