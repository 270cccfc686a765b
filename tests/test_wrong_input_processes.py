"""Wrong input that only a process can suffer: closed streams, readers that go away, full disks, signals."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import ROOT
from wrong_input_cases import make_folder

BIN = ROOT / "bin"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, of good files, with an older ``out``."""
    monkeypatch.chdir(make_folder(tmp_path / "work"))
    return tmp_path / "work"


def shell(folder: Path, text: str) -> tuple[int, str, str]:
    """Status, output and messages of a shell command with the launchers on its PATH."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NNET3PY_PYTHON": sys.executable}
    done = subprocess.run(["bash", "-c", text], cwd=folder, env=environment, capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


@pytest.mark.parametrize(("text", "status", "message"), [
    ("nnet3-copy raw - >&-", 255, "standard output is closed"),
    ("nnet3-info raw >&-", 255, "standard output is closed"),
    ("feat-to-len ark:feats >&-", 255, "standard output is closed"),
    ("nnet3-copy - out <&-", 255, "standard input is closed"),
    ("nnet3-copy raw - >/dev/full", 255, "cannot write to standard output: No space left on device"),
    ("nnet3-info raw >/dev/full", 255, "cannot write to standard output: No space left on device"),
    ("ulimit -f 1; nnet3-copy raw out", 255, "cannot write to 'out': File too large"),
    ("ulimit -f 1; nnet3-get-egs --num-pdfs=6 --num-frames=8 ark:feats ark:post ark:out", 255, "File too large"),
])
def test_standard_streams_and_limits(folder: Path, text: str, status: int, message: str) -> None:
    found, _, err = shell(folder, text)
    assert (found, err.count("ERROR (")) == (status, 1) and message in err and "internal error" not in err, err
    assert (folder / "out").read_bytes() == b"before" and not list(folder.glob(".*"))


def test_closed_standard_error_is_not_written_into_files(folder: Path) -> None:
    assert shell(folder, "nnet3-copy --print-args=true raw out 2>&-")[0] == 0
    assert (folder / "out").read_bytes() == (folder / "raw").read_bytes()
    assert shell(folder, "nnet3-copy raw out <&- >&- 2>&-")[0] == 0
    assert (folder / "out").read_bytes() == (folder / "raw").read_bytes()
    assert shell(folder, "nnet3-copy missing out 2>&-")[0] == 255


@pytest.mark.parametrize("words", ["copy-feats ark:many ark,t:-", "nnet3-compute raw ark:many ark:-",
                                   "nnet3-shuffle-egs ark:manyegs ark:-"])
def test_a_reader_that_goes_away(folder: Path, words: str) -> None:
    (folder / "many").write_bytes((folder / "feats").read_bytes() * 300)
    (folder / "manyegs").write_bytes((folder / "egs").read_bytes() * 100)
    status, out, err = shell(folder, f"{words} | head -c 10; exit ${{PIPESTATUS[0]}}")
    assert status == 141 and len(out) <= 10 and "ERROR" not in err and "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_killed_in_the_middle(folder: Path, number: int) -> None:
    os.mkfifo(folder / "slow")
    keeper = os.open(folder / "slow", os.O_RDWR)      # so that nobody sees an end
    try:
        environment = {**os.environ, "NNET3PY_PYTHON": sys.executable}
        process = subprocess.Popen([BIN / "copy-feats", "ark:slow", "ark:out"], cwd=folder, env=environment,
                                   stderr=subprocess.PIPE)
        os.write(keeper, (folder / "feats").read_bytes()[:700])
        deadline = time.monotonic() + 30
        while not list(folder.glob(".out*")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        time.sleep(0.5)                                # until it waits for the rest of the second entry
        process.send_signal(number)
        err = process.communicate(timeout=30)[1]
    finally:
        os.close(keeper)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert b"Traceback" not in err
    assert (folder / "out").read_bytes() == b"before" and not list(folder.glob(".out*"))
