"""Kaldi's log lines."""
from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from nnet3py import log
from nnet3py.errors import UsageError

CLEAR = "\r\x1b[K"
HEADER = re.compile(r"^(LOG|WARNING|ERROR|VLOG\[\d+\]) \((\S+)\[5\.5\]:(\w+)\(\):([^:]+):(\d+)\) (.*)$")


@pytest.fixture(autouse=True)
def _program() -> None:
    log.set_program("nnet3-train")


def test_line_has_kaldis_form(capsys: pytest.CaptureFixture[str]) -> None:
    log.log("Wrote model to 1.raw", file="nnet3-train.cc", line=92)
    captured = capsys.readouterr()
    assert captured.err == "LOG (nnet3-train[5.5]:main():nnet3-train.cc:92) Wrote model to 1.raw\n"
    assert captured.out == ""


def test_place_defaults_to_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    log.warning("careful", function="work")
    *rest, line, message = HEADER.match(capsys.readouterr().err.rstrip("\n")).groups()
    assert rest == ["WARNING", "nnet3-train", "work", "tests/test_log.py"]
    assert message == "careful" and int(line) > 20


def test_lines_match_what_recipes_search(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_program("nnet3-compute-prob")
    log.connect_logging()
    logging.getLogger("nnet3py.training.diagnostics").info(
        "Overall accuracy for 'output' is 0.5 per frame, over 10 frames.",
        extra=log.kaldi_place("PrintTotalStats", "nnet-diagnostics.cc", 165))
    # The pattern of the report scripts.
    assert re.search(r"LOG .(nnet3.*compute-prob.*):PrintTotalStats..:nnet.*diagnostics.cc:\d+. Overall accuracy",
                     capsys.readouterr().err)


@pytest.mark.parametrize("level, verbose, shown", [
    (1, 0, False), (1, 1, True), (2, 1, False), (2, 2, True), (0, 0, True)])
def test_vlog_follows_verbose(level: int, verbose: int, shown: bool, capsys: pytest.CaptureFixture[str]) -> None:
    log.set_verbose(verbose)
    log.vlog(level, "detail")
    err = capsys.readouterr().err
    assert err.startswith(f"VLOG[{level}] (") if shown else err == ""


def test_library_loggers_become_kaldi_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log.connect_logging()
    log.connect_logging()   # a second command in the same process must not double the lines
    logger = logging.getLogger("nnet3py.somewhere")
    logger.warning("key %s", "utt1")
    logger.info("fine")
    logger.debug("not shown")
    log.set_verbose(2)
    logger.debug("level one")
    logger.log(9, "level two")
    logger.log(8, "level three, not shown")
    found = [HEADER.match(line).group(1, 6) for line in capsys.readouterr().err.splitlines()]
    assert found == [("WARNING", "key utt1"), ("LOG", "fine"), ("VLOG[1]", "level one"), ("VLOG[2]", "level two")]


def test_pythons_warnings_become_kaldi_lines(capsys: pytest.CaptureFixture[str]) -> None:
    shown_before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        log.connect_logging()
        warnings.warn("two\nlines", RuntimeWarning, stacklevel=1)
        log.disconnect_logging()
    assert re.fullmatch(r"WARNING \(nnet3-train\[5.5\]:main\(\):tests/test_log.py:\d+\) RuntimeWarning: two lines\n",
                        capsys.readouterr().err)
    assert warnings.showwarning is shown_before


def test_logging_outside_commands_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    log.connect_logging()
    log.disconnect_logging()
    with caplog.at_level(logging.INFO):
        logging.getLogger("nnet3py.somewhere").info("to whoever listens")
    assert [record.message for record in caplog.records] == ["to whoever listens"]


def test_what_repeats_is_said_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    logger, other = logging.getLogger("nnet3py.some"), logging.getLogger("nnet3py.other")
    log.count_repeats_anew()
    for _ in range(63):
        log.warn_once(logger, "a rank is lost")
    log.warn_once(other, "a rank is lost")
    assert caplog.messages == ["a rank is lost"] * 2
    assert Path(caplog.records[0].pathname).name == "test_log.py"
    log.warn_of_repeats()
    log.warn_of_repeats()
    assert caplog.messages[2:] == ["a rank is lost (63 times in all)"]
    log.warn_once(logger, "a rank is lost")
    assert len(caplog.messages) == 4


def test_closed_stderr_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    log.log("nobody hears this")


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(log.progress(range(3), "work")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_as_stderr(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error, a terminal; what is shown changes with every item."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(log, "_SECONDS_BETWEEN", 0.0)
    return stream


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    times = iter([0.0, 0.0, 2.0, 4.0])
    monkeypatch.setattr(log.time, "monotonic", lambda: next(times))
    assert list(log.progress(range(3), "work", length=3)) == [0, 1, 2]
    assert terminal.getvalue() == "".join(f"{CLEAR}{text}" for text in (
        "work: 0 of 3 done, 0 s, 0.0 a second", "work: 1 of 3 done, 2 s, 0.5 a second, 0:00:04 left",
        "work: 2 of 3 done, 4 s, 0.5 a second, 0:00:02 left", ""))


def test_progress_counts_the_examples_of_minibatches(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    times = iter([0.0, 0.0, 2.0])
    monkeypatch.setattr(log.time, "monotonic", lambda: next(times))
    list(log.progress([64, 32], "training", size=lambda item: item))
    assert "training: 1 done, 2 s, 32 examples a second" in terminal.getvalue() and "left" not in terminal.getvalue()


def test_progress_tells_the_time_left_by_examples_or_by_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    for settings in ({"length": 128}, {"share": lambda: 0.75}, {"share": lambda: None}, {"share": lambda: 0.0}):
        times = iter([0.0, 0.0, 3.0])
        monkeypatch.setattr(log.time, "monotonic", lambda times=times: next(times))
        list(log.progress([96, 32], "training", size=lambda item: item, **settings))
    known, unknown = "training: 1 done, 3 s, 32 examples a second, 0:00:01 left", (
        "training: 1 done, 3 s, 32 examples a second")
    assert [text for text in terminal.getvalue().split(CLEAR) if ": 1 " in text] == [known, known, unknown, unknown]


def test_log_lines_go_above_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    for item in log.progress(range(2), "work"):
        log.log(f"number {item}")
    shown = re.split(f"({re.escape(CLEAR)})", terminal.getvalue())
    lines = [text for text in shown if "LOG" in text]
    assert [HEADER.match(text.strip()).group(1, 6) for text in lines] == [("LOG", "number 0"), ("LOG", "number 1")]
    assert all(shown[shown.index(text) - 1] == CLEAR for text in lines)


def test_a_process_that_writes_to_a_pipe_leaves_the_terminal_to_its_reader(
        monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    source, target = os.pipe()
    try:
        status = os.fstat(target)
        monkeypatch.setattr("os.fstat", lambda fd: status)
        assert list(log.progress(range(2), "work")) == [0, 1] and terminal.getvalue() == ""
    finally:
        os.close(source)
        os.close(target)


def test_a_process_that_helps_another_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    monkeypatch.setattr(log, "_shows_status", True)
    log.leave_status_to_others()
    assert list(log.progress(range(2), "work")) == [0, 1] and terminal.getvalue() == ""


def test_a_terminal_that_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                  tmp_path: Path) -> None:
    """For who sends standard error to a log, and wants to see what goes on nevertheless."""
    main, other = os.openpty()
    log._opened_terminal.cache_clear()
    try:
        monkeypatch.setenv("NNET3PY_PROGRESS", os.ttyname(other))
        assert log.show_status("at work")
        assert os.read(main, 100).decode() == f"{CLEAR}at work"
        log.log("a line")
        assert os.read(main, 100).decode() == CLEAR and "a line" in capsys.readouterr().err
        monkeypatch.setenv("NNET3PY_PROGRESS", str(tmp_path / "no" / "terminal"))
        assert not log.show_status("at work")
        log._opened_terminal(os.ttyname(other)).close()
    finally:
        log._opened_terminal.cache_clear()
        os.close(main)
        os.close(other)


# -- at a prompt -------------------------------------------------------------------------------------------------------

TRY = """
import logging, sys
{before}
import nnet3py
logging.getLogger("nnet3py.training.train").info("a pass")
logging.getLogger("nnet3py.network.inference").info("housekeeping")
logging.getLogger("nnet3py.network.inference").warning("careful")
{after}
"""


def said(before: str, after: str = "") -> list[str]:
    code = TRY.format(before=before, after=after)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


def test_at_a_prompt_the_log_is_shown() -> None:
    assert said("sys.ps1 = '>>> '") == ["INFO a pass", "WARNING careful"]
    assert said("") == ["careful"], "as logging does it where nobody has asked for anything"
    assert said("sys.ps1 = '>>> '; logging.basicConfig(level=30)") == ["WARNING:nnet3py.network.inference:careful"]


def test_what_is_shown_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("nnet3py.network.inference")
    handlers = list(logging.getLogger("nnet3py").handlers)   # of pytest, of other tests
    try:
        log.show_log("debug")
        log.show_log("debug")
        logger.info("once")
        logger.debug("all")
        log.show_log("INFO")
        logging.getLogger("nnet3py.training").info("[this line is to be parsed by a script:] log-prob-per-frame=-1")
        log.show_log("WARNING")
        logger.info("no more")
        log.connect_logging()
        logger.warning("Kaldi's way")
        with pytest.raises(UsageError, match="expected a level such as INFO"):
            log.show_log("LOUD")
    finally:
        log.disconnect_logging()
        log.show_log(None)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["INFO once", "DEBUG all"] and len(lines) == 3
    assert lines[2].startswith("WARNING (nnet3-train[5.5]") and lines[2].endswith("Kaldi's way")
    assert logging.getLogger("nnet3py").handlers == handlers


def test_a_notebook_shows_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its streams are no terminals; a line is written over by blanks."""
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(log, "_shows_status", True)
    monkeypatch.setattr(log, "_status", "")
    monkeypatch.delenv("NNET3PY_PROGRESS", raising=False)
    assert log.show_status(log.bar(2, 8, "at most {} kernels", 3.4)) and log.show_status("")
    shown = [line.strip() for line in stream.getvalue().split("\r") if line.strip()]
    assert shown == [f"[{'#' * 7}{'.' * 23}] 2 of at most 8 kernels, 3 s"]
    assert stream.getvalue().endswith("\r" + " " * 80 + "\r")
