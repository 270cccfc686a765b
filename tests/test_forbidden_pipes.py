"""Where pipes are forbidden, nothing that names a file runs a command: names, tables, scripts, options, edits."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from digits_cases import CONFIG

from nnet3py.cli.main import load
from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io import streams
from nnet3py.io.streams import open_input, open_output
from nnet3py.io.tables import RandomAccessReader, SequentialReader, write_table
from nnet3py.network.nnet import Nnet

READ, WRITE = "touch ran; cat feats.ark |", "| cat > ran"


@pytest.fixture
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a table, a network and a script of which one line is a pipe; pipes are forbidden."""
    write_table("ark:feats.ark", FLOAT_MATRIX, {"u": np.zeros((30, 40), np.float32)})
    Nnet.from_config(CONFIG).write("nnet.raw")
    Path("script").write_text(f"u {READ}\n")
    Path("targets").write_text(f"u {WRITE}\n")
    monkeypatch.setenv(streams.PIPES_VARIABLE, "no")
    return here


def read(rspecifier: str) -> None:
    with SequentialReader(rspecifier, FLOAT_MATRIX) as reader:
        list(reader)


def look_up(rspecifier: str) -> None:
    with RandomAccessReader(rspecifier, FLOAT_MATRIX) as reader:
        reader["u"]


def write(wspecifier: str) -> None:
    write_table(wspecifier, FLOAT_MATRIX, {"u": np.zeros((1, 1), np.float32)})


@pytest.mark.parametrize(("use", "name"), [
    (open_input, READ), (open_output, WRITE),
    (read, f"ark:{READ}"), (read, f"ark,bg:{READ}"), (read, f"ark,p:{READ}"), (read, f"scp:{READ}"),
    (read, "scp:script"), (look_up, f"ark:{READ}"), (look_up, f"ark,s,cs:{READ}"), (look_up, "scp:script"),
    (write, f"ark:{WRITE}"), (write, "scp:targets"), (write, f"ark,scp:{WRITE},x"), (write, f"ark,scp:x,{WRITE}"),
])
def test_every_kind_of_name(folder: Path, use: Callable[[str], object], name: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(Nnet3Error, match="would run a shell command, which is forbidden here"):
        use(name)
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("words", [
    ["nnet3-compute", READ, "ark:feats.ark", "ark:out"],
    ["nnet3-compute", "nnet.raw", "scp:script", "ark:out"],
    ["nnet3-compute", "nnet.raw", "ark:feats.ark", f"ark:{WRITE}"],
    ["nnet3-compute", f"--ivectors=ark:{READ}", "nnet.raw", "ark:feats.ark", "ark:out"],
    ["nnet3-compute", "--ivectors=ark:feats.ark", f"--utt2spk=ark:{READ}", "nnet.raw", "ark:feats.ark", "ark:out"],
    ["nnet3-compute", f"--config={READ}", "nnet.raw", "ark:feats.ark", "ark:out"],
    ["nnet3-compile", f"--request={READ}", "nnet.raw"],
    ["nnet3-copy", f"--edits-config={READ}", "nnet.raw", "out"],
    ["nnet3-copy", f"--nnet-config={READ}", "nnet.raw", "out"],
    ["nnet3-init", READ, "out"],
    ["copy-feats", f"--write-num-frames=ark:{WRITE}", "ark:feats.ark", "ark:out"],
    ["copy-matrix", READ, "out"],
    ["apply-cmvn", f"--utt2spk=ark:{READ}", "ark:feats.ark", "ark:feats.ark", "ark:out"],
])
def test_commands(folder: Path, capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    if words[1].startswith("--config"):
        expected = "Cannot open config file"           # never a pipe, in Kaldi neither
    else:
        expected = "forbidden by NNET3PY_PIPES=no"
    assert load(words[0]).execute(words[1:]) != 0
    assert expected in capfd.readouterr().err
    assert not (folder / "ran").exists() and not (folder / "out").exists()


def test_a_process_forbids_them_for_good(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its environment says later; and without either they work."""
    monkeypatch.delenv(streams.PIPES_VARIABLE)
    program = ("import os, sys; from nnet3py.io.streams import forbid_pipes, open_input\n"
               "with open_input('echo before |') as stream: print(stream.read())\n"
               "forbid_pipes(); os.environ['NNET3PY_PIPES'] = 'yes'\n"
               "open_input('touch ran |')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "b'before\\n'\n" and "by forbid_pipes()" in done.stderr
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("value", ["no", "", "0", "true"])
def test_only_yes_allows_them(folder: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """A misspelled value does not open what somebody meant to close."""
    monkeypatch.setenv(streams.PIPES_VARIABLE, value)
    with pytest.raises(Nnet3Error, match="forbidden"):
        open_input(READ)
    monkeypatch.setenv(streams.PIPES_VARIABLE, "yes")
    with open_input("echo |") as stream:
        assert stream.read() == b"\n"
