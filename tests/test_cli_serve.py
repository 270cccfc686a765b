"""nnet3py serve with a real model: vosk's results over the wire, for clients side by side, and an end by a signal."""
from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from paths import ROOT
from recognition_cases import DATA, PACKAGE, RATE, dialogue
from server_runs import log_until, running

from nnet3py.cli.recognition.serve import serve
from nnet3py.recognition.model_folder import demo_folder

pytest.importorskip("websockets")
from websockets.asyncio.client import ClientConnection, connect  # noqa: E402
from websockets.exceptions import ConnectionClosed  # noqa: E402

BLOCK = 2880 * 2             # bytes: what vosk was given at a time
TIME_STEPS = 1e-4            # seconds: printed times have six digits, and ours come of other sums
CONFIDENCE = 1e-3            # the same of other search
MEMORY = 24 << 20            # bytes: what allocators keep for themselves may differ by that


async def conversation(port: int, block: int = BLOCK) -> list[dict]:
    sound = dialogue().tobytes()
    async with connect(f"ws://127.0.0.1:{port}") as client:
        await client.send(json.dumps({"config": {"sample_rate": RATE}}))
        answers = []
        for first in range(0, len(sound), block):
            await client.send(sound[first:first + block])
            answers.append(json.loads(await client.recv()))
        await client.send('{"eof" : 1}')
        return [*answers, json.loads(await client.recv())]


def test_vosk_s_results_for_clients_side_by_side() -> None:
    async def all_clients(port: int) -> list[list[dict]]:
        return await asyncio.gather(conversation(port), conversation(port, 4001), conversation(port, 200_000))

    with running("--num-threads=2") as (process, port):
        usual, small, large = asyncio.run(all_clients(port))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    results = [answer for answer in usual if "result" in answer]
    expected = [json.loads(line.partition(" ")[2]) for line in (DATA / "results.txt").read_text().splitlines()
                if line.startswith("result")]
    assert [answer["text"] for answer in results] == [answer["text"] for answer in expected]
    for answer, other in zip(results, expected, strict=True):
        for word, wanted in zip(answer["result"], other["result"], strict=True):
            assert word["start"] == pytest.approx(wanted["start"], abs=TIME_STEPS)
            assert word["end"] == pytest.approx(wanted["end"], abs=TIME_STEPS)
            assert word["conf"] == pytest.approx(wanted["conf"], abs=CONFIDENCE)
    words = [[word for answer in answers for word in answer.get("result", [])] for answers in (usual, small, large)]
    assert words[0] == words[1] == words[2]


async def misbehaviour(port: int, number: int) -> None:
    """A client that does something wrong after some sound."""
    random = np.random.default_rng(number)
    async with connect(f"ws://127.0.0.1:{port}", ping_interval=None) as client:
        await client.send(json.dumps({"config": {"sample_rate": int(random.choice([8000, 16000, 44100]))}}))
        try:
            for _ in range(random.integers(5)):
                await client.send(random.bytes(int(random.integers(1, 9000))))
                await client.recv()
            wrong = number % 4
            if wrong == 0:
                client.transport.abort()
            elif wrong == 1:
                await client.send("words instead of sound")
                assert "error" in json.loads(await client.recv())
            elif wrong == 2:
                await client.send(bytes(3 << 20))
            else:
                await client.send(random.bytes(4000))       # and goes without reading the answer
        except ConnectionClosed:
            pass


@pytest.mark.slow
def test_clients_that_misbehave_harm_nobody_and_leave_nothing() -> None:
    async def round_of(port: int, number: int) -> None:
        *others, one, two = await asyncio.gather(
            *(misbehaviour(port, 40 * number + client) for client in range(40)), conversation(port), conversation(port))
        assert one == two == usual and others == [None] * 40

    def memory(port: int) -> int:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            values = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines() if line[0] != "#")
        assert values["nnet3py_connections"] == "0" and 'nnet3py_errors_total{kind="internal"}' not in values
        return int(float(values["process_resident_memory_bytes"]))

    with running() as (process, port):
        usual = asyncio.run(conversation(port))
        sizes = []
        for number in range(12):
            asyncio.run(round_of(port, number))
            time.sleep(0.2)
            sizes.append(memory(port))
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert sizes[-1] < sizes[3] + MEMORY, sizes


@pytest.mark.slow
def test_long_silence_takes_no_memory() -> None:
    async def silence(port: int, minutes: int) -> int:
        """How much more memory there is after it than after its first minutes."""
        sizes = []
        async with connect(f"ws://127.0.0.1:{port}", ping_interval=None) as client:
            await client.send(json.dumps({"config": {"sample_rate": RATE}}))
            for _ in range(minutes * 6):
                await client.send(bytes(10 * RATE * 2))
                assert "error" not in json.loads(await client.recv())
                page = await asyncio.to_thread(lambda: urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
                sizes.append(int(page.split("process_resident_memory_bytes ")[-1]))
        return max(sizes) - max(sizes[:12])

    with running("--max-speed=0") as (process, port):
        assert asyncio.run(silence(port, 60)) < MEMORY


def test_wrong_options(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert serve.execute(["--max-connections=0", str(PACKAGE)]) == 255
    assert "--max-connections=0: expected 1 or more" in capfd.readouterr().err
    assert serve.execute([str(tmp_path)]) == 255
    assert capfd.readouterr().err.count("ERROR") == 1


def test_without_websockets(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.asyncio.server", None)
    assert serve.execute([str(PACKAGE)]) == 255
    assert "needs the package websockets" in capfd.readouterr().err


def said(answers: list[dict]) -> list[str]:
    return [answer["text"] for answer in answers if answer.get("text")]


async def talk(client: ClientConnection, model: str = "") -> list[str]:
    """Say the dialogue's first half; the results that come by then."""
    config = {"sample_rate": RATE, **({"model": model} if model else {})}
    await client.send(json.dumps({"config": config}))
    sound, answers = dialogue().tobytes(), []
    for first in range(0, len(sound) // 2, BLOCK):
        await client.send(sound[first:first + BLOCK])
        answers.append(json.loads(await client.recv()))
    return said(answers)


async def end(client: ClientConnection) -> list[str]:
    sound, answers = dialogue().tobytes(), []
    rest = len(range(0, len(sound) // 2, BLOCK)) * BLOCK
    for message in (sound[rest:], '{"eof": 1}'):
        await client.send(message)
        answers.append(json.loads(await client.recv()))
    return said(answers)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP")
def test_models_by_name_are_read_again_at_a_signal(tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(PACKAGE, models / "one")
    shutil.copytree(demo_folder(), models / "two")

    async def body(process: subprocess.Popen[str], port: int) -> None:
        def state() -> dict:
            with urlopen(f"http://127.0.0.1:{port}/health") as page:
                return json.load(page)

        async def reload() -> str:
            process.send_signal(signal.SIGHUP)
            return await asyncio.to_thread(log_until, process, "looked at again")

        url = f"ws://127.0.0.1:{port}"
        assert state()["models"] == ["two", "one"] and state()["model"] == "two"
        async with connect(url) as old, connect(url) as stranger:
            begun = await talk(old, "one")
            await stranger.send('{"config": {"model": "three"}}')
            assert "expected one of two, one" in json.loads(await stranger.recv())["error"]
            (models / "new").mkdir()                     # a folder is replaced by one that is not whole
            (models / "new" / "am").mkdir()
            (models / "new" / "am" / "final.mdl").write_bytes((PACKAGE / "am" / "final.mdl").read_bytes()[:1000])
            (models / "one").rename(tmp_path / "whole")
            (models / "new").rename(models / "one")
            log = await reload()
            assert "model one: " in log and "cannot be used for recognition" in log and "stays as it was" in log
            assert "nothing is different" in log and state()["models"] == ["two", "one"]
            async with connect(url) as new:
                assert await talk(new, "one") == begun
            (models / "one").rename(tmp_path / "broken")
            shutil.copytree(demo_folder(), models / "one")        # by another model
            (models / "three").symlink_to(tmp_path / "whole")
            log = await reload()
            assert "model one is read again; model three is new" in log and "ERROR" not in log
            assert state()["models"] == ["two", "one", "three"]
            rest = await end(old)
            assert " ".join(begun + rest) == "five two nine five seven zero three eight five six four"
        async with connect(url) as new, connect(url) as other, connect(url) as default:
            assert await talk(new, "three") + await end(new) == begun + rest
            words = await talk(other, "one") + await end(other)
            assert words == await talk(default) + await end(default)

    with running("--default-model=two", model=str(models)) as (process, port):
        asyncio.run(asyncio.wait_for(body(process, port), 120))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.slow
def test_models_that_nobody_uses_any_more_take_no_memory(tmp_path: Path) -> None:
    shutil.copytree(demo_folder(), tmp_path / "model")

    def resident(process: subprocess.Popen[str]) -> int:
        return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with running(model=str(tmp_path / "model")) as (process, _):
        sizes = []
        for _ in range(12):
            os.utime(tmp_path / "model" / "am" / "final.mdl")
            process.send_signal(signal.SIGHUP)
            assert "model model is read again" in log_until(process, "looked at again")
            time.sleep(1.5)
            sizes.append(resident(process))
    assert max(sizes[6:]) < sizes[2] + MEMORY, sizes


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals of this kind")
def test_closing_the_terminal_ends_it() -> None:
    import fcntl
    import termios

    master, slave = os.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = subprocess.Popen([sys.executable, "-m", "nnet3py", "serve", "--port=0", str(PACKAGE)], cwd=ROOT,
                               stdin=slave, stderr=subprocess.PIPE, text=True, preexec_fn=take_terminal,
                               env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        os.close(slave)
        log_until(process, "Listening on")
        process.send_signal(signal.SIGHUP)          # from somebody else, while the terminal is there
        log_until(process, "looked at again")
        os.close(master)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def test_models_that_cannot_be_chosen_from(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).symlink_to(PACKAGE)
    for words, message in (
            (["--default-model=three", str(tmp_path)], "--default-model=three: expected one of one, two"),
            (["--graph=HCLG.fst", str(tmp_path)], "--graph=HCLG.fst is for a single model, but there are one, two"),
            ([str(tmp_path), str(tmp_path / "one")], "two models have the name one"),
            (["--demo", str(tmp_path)], "--demo, --lang and --model-name name the model, but")):
        assert serve.execute(words) == 255
        assert message in capfd.readouterr().err
