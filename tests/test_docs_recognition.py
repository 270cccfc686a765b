"""docs/recognition.md: its commands and its code run, its options are those that there are, with the values it says."""
from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import pages
import pytest
from paths import ROOT
from recognition_cases import PACKAGE, RATE, SOUNDS, dialogue

from nnet3py.cli.main import load
from nnet3py.cli.registry import PERSON_NAMES
from nnet3py.recognition.model_folder import demo_folder

pytest.importorskip("websockets")
PAGE = (ROOT / "docs" / "recognition.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return [text for _, text in pages.blocks(PAGE, kind)]


def commands() -> list[list[str]]:
    return [line.split()[1:] for block in blocks("bash") for line in block.splitlines()]


@pytest.fixture
def folder(here: Path) -> Path:
    """A model and sounds under the names of the page."""
    (here / "vosk-model-small-ko-0.22").symlink_to(PACKAGE)
    shutil.copy(SOUNDS[0], "a.wav")
    (here / "recordings").mkdir()
    for path, text in zip(SOUNDS, ("five two nine five", "seven zero three"), strict=False):
        shutil.copy(path, "recordings")
        (here / "recordings" / Path(path).name).with_suffix(".txt").write_text(text)
    shutil.copy("recordings/utt1.txt", "a.txt")
    return here


def test_commands(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = {}
    for name, *args in commands():
        if name != "serve":
            args = [word for word in args if "--num-jobs" not in word]        # processes take time
            if name == "align":                # which needs word_boundary.int
                args = [demo_folder() if word == "vosk-model-small-ko-0.22" else word for word in args]
            assert load(PERSON_NAMES[name]).execute(args) == 0, capfd.readouterr().err
            words[name] = words.get(name, "") + capfd.readouterr().out
    assert words["listen"].split() == words["transcribe"].split() and words["listen"]
    assert sorted(path.name for path in (folder / "subtitles").glob("*.srt")) == ["utt1.srt", "utt2.srt"]
    assert (folder / "grids" / "a.TextGrid").is_file() and (folder / "times" / "utt2.ctm").is_file()


def test_many_files(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The example in small: what Python says of files, the lines of the command, and a list by a pipe."""
    exec(compile(blocks("python")[0], "docs/recognition.md", "exec"), {})
    said = sorted(capfd.readouterr().out.splitlines())
    assert [line.split(maxsplit=2)[::2] for line in said] == [
        ["recordings/utt1.wav", "five two nine five"], ["recordings/utt2.wav", "seven zero three"]]
    lines = [json.loads(line) for line in Path("results.jsonl").read_text().splitlines()]
    example = json.loads(blocks("json")[0])
    for line in lines:
        assert list(line) == list(example) and list(line["segments"][0]) == list(example["segments"][0])
        assert list(line["segments"][0]["words"][0]) == list(example["segments"][0]["words"][0])
    before = Path("results.jsonl").read_text()
    command = next(words for words in commands() if "--results=results.jsonl" in words)
    assert load("nnet3-transcribe").execute(command[1:]) == 0
    assert Path("results.jsonl").read_text() == before, "all of it was done"
    pipe = blocks("sh")[0].replace("nnet3py ", f"{shlex.quote(sys.executable)} -m nnet3py ")
    done = subprocess.run(["sh", "-c", pipe], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    of_file = {line["file"]: line for line in lines}
    for line in map(json.loads, done.stdout.splitlines()):
        assert line == {**of_file.pop(line["file"]), "name": line["name"]}
    assert not of_file


def test_python(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sound = dialogue().tobytes()
    names: dict = {"blocks": [sound[first:first + 5760] for first in range(0, len(sound), 5760)]}
    for block in blocks("python")[1:4]:
        exec(compile(block, "docs/recognition.md", "exec"), names)
    out = capfd.readouterr().out
    assert "said: five two nine five\n" in out and "said: seven zero three\n" in out and "utterances" in out
    assert names["result"].text.startswith("five two")
    assert out.count("heard: five two nine five") == 3


def test_the_server_and_its_client(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = next(words for words in commands() if words[0] == "serve")
    faults: list[BaseException] = []

    def client() -> None:
        try:
            while not over.is_set():
                try:
                    urlopen(f"http://127.0.0.1:{port}/health").close()
                    break
                except OSError:
                    time.sleep(0.05)
            code = blocks("python")[4].replace("2700", port)
            exec(compile(code, "docs/recognition.md", "exec"), {})
        except BaseException as fault:
            faults.append(fault)
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    over = threading.Event()
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=client)
    thread.start()
    status = load("serve").execute([word.replace("2700", port) for word in command[1:]])
    over.set()
    thread.join()
    signal.signal(signal.SIGTERM, before)
    assert status == 0 and faults == []
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1].startswith("five two") and lines[0] == "" and len(lines) >= 5


def test_options_of_the_server() -> None:
    """Those that the page names exist; where it names a value, it is the default."""
    serve = load("serve")
    defaults = {option.name: option.default for option in serve.declared}
    text = PAGE.split("\n## A server\n")[1]
    found = re.findall(r"--([a-z][a-z-]+)(?:=([\w.]+))?", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    assert len(found) >= 12
    for name, value in found:
        assert name in defaults, name
        if value and name != "host":
            assert float(value) == defaults[name], name


def test_layouts_are_all_there() -> None:
    from nnet3py.recognition.model_folder import LAYOUTS

    rows = PAGE.split("| layout | files |")[1].split("\n\n")[0].count("\n|") - 1
    assert rows == len(LAYOUTS) + 1, "and single files"
    assert RATE == 16000 and "sample_rate=16000" in PAGE
