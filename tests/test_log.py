"""Kaldi's log lines."""
from __future__ import annotations

import logging
import re
import warnings

import pytest

from nnet3py import log

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


def test_closed_stderr_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    log.log("nobody hears this")


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(log.progress(range(3), "work")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_progress_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(log.progress(range(3), "work", length=3)) == [0, 1, 2]
    assert "work" in terminal.getvalue()
