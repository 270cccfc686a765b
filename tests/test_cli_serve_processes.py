"""nnet3py serve --num-processes: connections are shared, signals reach all, a process that ended is replaced."""
from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

import pytest
from recognition_cases import PACKAGE, RATE, dialogue
from server_runs import log_until, running

from nnet3py import system
from nnet3py.cli.recognition import processes
from nnet3py.cli.recognition.serve import serve
from nnet3py.recognition.model_folder import demo_folder

pytest.importorskip("websockets")
pytestmark = pytest.mark.skipif(not system.CAN_FORK, reason="processes are not copied on this system")
from websockets.asyncio.client import ClientConnection, connect  # noqa: E402
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def page(port: int, name: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}/{name}", timeout=20) as answer:
        return answer.read().decode()


def metric(port: int, name: str) -> dict[str, float]:
    """The values of a metric by process."""
    values = {}
    for found, labels, value in SAMPLE.findall(page(port, "metrics")):
        process = re.search(r'process="(\d+)"', labels)
        if found == name and process:
            values[process[1]] = values.get(process[1], 0.0) + float(value)
    return values


def children(process: subprocess.Popen[str]) -> list[int]:
    return [int(word) for task in Path(f"/proc/{process.pid}/task").iterdir()
            for word in (task / "children").read_text().split()]


async def begin(port: int) -> ClientConnection:
    """A client that has said something."""
    client = await connect(f"ws://127.0.0.1:{port}")
    await client.send(json.dumps({"config": {"sample_rate": RATE}}))
    await client.send(dialogue()[:RATE].tobytes())
    assert "partial" in json.loads(await client.recv())
    return client


async def end(client: ClientConnection) -> str:
    texts = []
    for message in (dialogue()[RATE:].tobytes(), '{"eof": 1}'):
        await client.send(message)
        texts.append(json.loads(await client.recv()).get("text", ""))
    await client.wait_closed()
    return " ".join(filter(None, texts))


async def comes_to(port: int, name: str, wanted: dict[str, float]) -> None:
    """Wait until the processes have written a metric's values, which they do a few times a second."""
    deadline = time.monotonic() + 20
    while (values := await asyncio.to_thread(metric, port, name)) != wanted:
        assert time.monotonic() < deadline, values
        await asyncio.sleep(0.1)


def test_connections_are_shared_and_counted() -> None:
    async def body(process: subprocess.Popen[str], port: int) -> None:
        clients = [await begin(port) for _ in range(6)]
        await comes_to(port, "nnet3py_connections", {"0": 0, "1": 3, "2": 3})      # each has as many
        health = json.loads(await asyncio.to_thread(page, port, "health"))
        assert health["connections"] == 6 and health["processes"] == 2
        with pytest.raises(InvalidStatus, match="503"):
            await connect(f"ws://127.0.0.1:{port}")
        texts = await asyncio.gather(*map(end, clients))
        assert set(texts) == {"five two nine five seven zero three eight five six four"}
        await comes_to(port, "nnet3py_connections", {"0": 0, "1": 0, "2": 0})
        await asyncio.sleep(0.5)
        counted = await asyncio.to_thread(metric, port, "nnet3py_connections_total")
        assert counted["1"] >= 3 and counted["2"] >= 3 and sum(counted.values()) == 6
        clients = [await begin(port) for _ in range(3)]      # those that ended are counted as such
        assert max((await asyncio.to_thread(metric, port, "nnet3py_connections")).values()) == 2
        await asyncio.gather(*(client.close() for client in clients))

    with running("--num-processes=2", "--max-connections=6") as (process, port):
        asyncio.run(asyncio.wait_for(body(process, port), 120))
        assert len(children(process)) == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_process_that_was_ended_is_replaced() -> None:
    with running("--num-processes=2") as (process, port):
        before = children(process)
        os.kill(before[0], signal.SIGKILL)
        line = log_until(process, "takes its place")
        assert f"Process 1 ({before[0]}) ended with signal 9" in line
        deadline = time.monotonic() + 20
        while len(children(process)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert before[1] in children(process) and before[0] not in children(process)
        for _ in range(4):
            assert json.loads(page(port, "health"))["status"] == "ok"
        assert metric(port, "nnet3py_restarts_total")["0"] == 1
        process.kill()                       # without whom the others have nothing to do
        process.wait()
        while any(Path(f"/proc/{number}").exists() for number in before[1:]):
            assert time.monotonic() < deadline + 20
            time.sleep(0.05)


@pytest.mark.parametrize(("num_signals", "code"), [(1, 1000), (2, 1001)])
def test_a_signal_reaches_all(num_signals: int, code: int) -> None:
    """After the first conversations may end; the second ends them. No further connections are accepted."""
    async def body(process: subprocess.Popen[str], port: int) -> None:
        clients = [await begin(port) for _ in range(4)]
        process.send_signal(signal.SIGTERM)
        for child in children(process):      # as systemd does, unless KillMode=mixed: it must not count as a second
            os.kill(child, signal.SIGTERM)
        await asyncio.sleep(0.5)
        with pytest.raises(OSError):
            await connect(f"ws://127.0.0.1:{port}")
        if num_signals == 1:
            assert all(text.startswith("five two") for text in await asyncio.gather(*map(end, clients)))
        else:
            process.send_signal(signal.SIGINT)
        for client in clients:
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == code

    with running("--num-processes=2", "--drain-seconds=30") as (process, port):
        asyncio.run(asyncio.wait_for(body(process, port), 25))
        assert process.wait(20) == 0


def test_models_are_read_again_and_open_connections_keep_theirs(tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(PACKAGE, models / "one")

    async def body(process: subprocess.Popen[str], port: int) -> None:
        async def reload() -> str:
            process.send_signal(signal.SIGHUP)
            return await asyncio.to_thread(log_until, process, "looked at again")

        old = await begin(port)
        before = children(process)
        assert "nothing is different" in await reload() and children(process) == before
        shutil.copytree(demo_folder(), models / ".new")
        (models / "one").rename(tmp_path / "old")
        (models / ".new").rename(models / "one")
        assert "model one is read again" in await reload()
        new = await begin(port)
        assert len(children(process)) >= 3
        assert await end(old) == "five two nine five seven zero three eight five six four"
        assert await end(new) != ""
        deadline = time.monotonic() + 30
        while set(children(process)) & set(before):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        assert len(children(process)) == 2
        (models / "one" / "am" / "final.mdl").rename(tmp_path / "final.mdl")
        assert "the model stays as it was" in await reload() and len(children(process)) == 2
        assert sum((await asyncio.to_thread(metric, port, "nnet3py_reloads_total")).values()) == 3

    with running("--num-processes=2", model=str(models)) as (process, port):
        asyncio.run(asyncio.wait_for(body(process, port), 120))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_memory_is_shared() -> None:
    """Two processes have their own of what streams change; the model is counted once."""
    def proportional(number: int) -> float:
        text = Path(f"/proc/{number}/smaps_rollup").read_text()
        return int(re.search(r"^Pss: +(\d+)", text, re.MULTILINE)[1]) / 1024

    with running("--num-processes=3") as (process, _):
        time.sleep(1.0)
        sizes = Counter({number: proportional(number) for number in (process.pid, *children(process))})
        assert len(sizes) == 4
        assert max(sizes.values()) < 0.5 * sum(sizes.values())


def test_where_processes_cannot_be_copied(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.system, "CAN_FORK", False)
    assert serve.execute(["--num-processes=2", str(PACKAGE)]) == 255
    assert "this system cannot fork" in capfd.readouterr().err
    with pytest.raises(processes.UsageError, match="GPU"):
        monkeypatch.setattr(processes.system, "CAN_FORK", True)
        processes.check_processes(2, "cuda")


def test_a_port_that_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    with running() as (_, port):
        assert serve.execute(["--num-processes=2", f"--port={port}", str(PACKAGE)]) == 255
    assert f"cannot listen on port {port}" in capfd.readouterr().err
