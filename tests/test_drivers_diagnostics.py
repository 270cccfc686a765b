"""What a driver shows: lines in a log, a table on a terminal."""
from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys

import pytest

from nnet3py.drivers import diagnostics
from nnet3py.drivers.commands import Step
from nnet3py.drivers.schedules import Plan
from nnet3py.report.training_logs import TrainLog

PLAN = Plan(3, 8, 0.5, 1, 2, 1, 0.0003, 0.00003)      # 8 iterations, 12 archives
JOBS = {1: TrainLog({"output": -1.5}, {"output": 300.0}), 2: TrainLog({"output": -2.5}, {"output": 100.0})}
VALID = 4, {("output", "objective"): -3.25, ("output", "accuracy"): 0.5}
CLEAR = "\r\x1b[K"
HEAD = "    iter jobs  epoch     rate    train    valid accuracy   of frames/s    left"
RUNNING = "     5/7    2   0.25 0.000500"
ROW = RUNNING + "    -1.75    -3.25      0.5    4      200 0:00:02"
# As the lines were before there was a table: scripts may read them.
LINE = ("Iter: 5/7   Jobs: 2   Epoch: 0.25/0.5 (50.0% complete)   lr: 0.000500   train: -1.75   "
        "valid: -3.25 (iter 4)   accuracy: 0.5 (iter 4)   200 frames/s   0:00:04 left")


def show(terminal: io.StringIO | None, monkeypatch: pytest.MonkeyPatch, shrink: float = 1.0) -> None:
    """Two iterations of two seconds each."""
    times = iter([0.0, 0.0, 2.0, 2.0, 4.0])
    monkeypatch.setattr(diagnostics.time, "monotonic", lambda: next(times))
    shown = diagnostics.Display(PLAN, terminal)
    for number, processed in ((5, 6), (6, 8)):
        step = Step(number, 2, processed, 0.0005, shrink)
        shown.begin(step)
        shown.end(step, JOBS, VALID if number == 5 else (6, {("output", "objective"): -3.0}))


def test_a_log_has_a_line_for_each_iteration(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.INFO)
    show(None, monkeypatch)
    assert caplog.messages[0] == LINE
    assert "   valid: -3   200 frames/s   0:00:02 left" in caplog.messages[1] and "accuracy" not in caplog.messages[1]
    caplog.clear()
    show(None, monkeypatch, shrink=0.9)
    assert "lr: 0.000500   shrink: 0.90000   train: " in caplog.messages[0]
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_table(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    terminal = io.StringIO()
    show(terminal, monkeypatch)
    shown = terminal.getvalue().split(CLEAR)
    assert shown[1] == f"{HEAD}\n{RUNNING}   …"
    assert shown[2] == ROW.replace("0:00:02", "0:00:04") + "\n"
    assert shown[3] == "     6/7    2   0.33 0.000500   …", "the head is written once"
    assert len(shown) == 5 and len(HEAD) < 80 and not caplog.messages
    terminal = io.StringIO()
    show(terminal, monkeypatch, shrink=0.9)
    assert "0:00:04 shrink 0.90000\n" in terminal.getvalue()


COMMAND = """
import sys
from nnet3py import log
from nnet3py.cli.drivers import train as train_drivers
from nnet3py.drivers import frame_level
from nnet3py.drivers.commands import Step
from nnet3py.drivers.diagnostics import Display
from nnet3py.drivers.schedules import Plan

def train_dnn(options, terminal):
    shown, step = Display(Plan(3, 8, 0.5, 1, 2, 1, 0.0003, 0.00003), terminal), Step(5, 2, 6, 0.0005)
    shown.begin(step)
    shown.end(step, {}, None)

frame_level.train_dnn = train_dnn
sys.exit(train_drivers.train_dnn.execute(["--dir=exp", "--egs.dir=egs", "--ali-dir=ali", "--feat-dir=feats"]))
"""


def test_the_command_in_a_pipe() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stderr and "\r" not in done.stderr
    assert re.search(r"Iter: 5/7   Jobs: 2   .* left\n$", done.stderr) and "iter jobs" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals")
def test_the_command_on_a_terminal() -> None:
    main, other = os.openpty()
    shown = b""
    try:
        process = subprocess.Popen([sys.executable, "-c", COMMAND], stderr=other)
        os.close(other)
        try:
            while piece := os.read(main, 4096):
                shown += piece
        except OSError:             # how Linux says that the other end is closed
            pass
        assert process.wait() == 0
    finally:
        os.close(main)
    text = shown.decode().replace("\r\n", "\n")
    assert f"{CLEAR}{HEAD}\n{RUNNING}   …{CLEAR}{RUNNING} " in text and "Iter:" not in text
