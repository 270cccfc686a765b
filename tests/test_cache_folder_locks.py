"""nnet3py/engine/cache_folder.py, its locks: processes take turns, and never wait for ever."""
from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnet3py.engine import cache_folder
from nnet3py.engine.cache_folder import alone

pytestmark = pytest.mark.skipif(not cache_folder.system.can_lock(), reason="files cannot be locked on this system")

PATIENCE_S = 30.0          # far more than another process needs to start
HOLD = """
import sys, time
from pathlib import Path
from nnet3py.engine.cache_folder import alone
with alone(Path(sys.argv[1])):
    print("inside", flush=True)
    time.sleep(float(sys.argv[2]))
    print("leaves", time.monotonic(), flush=True)
"""


@pytest.fixture(autouse=True)
def _new_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NNET3PY_CACHE", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    descriptor = os.open(tmp_path / cache_folder.LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    monkeypatch.setattr(cache_folder, "_lock_file", lambda: descriptor)
    monkeypatch.setattr(cache_folder, "_gave_up", False)
    yield
    os.close(descriptor)


@pytest.fixture
def hold() -> Iterator[Callable[[Path, float], subprocess.Popen[str]]]:
    """Starts a process that holds the lock of a path for some seconds; it is inside when this returns."""
    started: list[subprocess.Popen[str]] = []

    def start(path: Path, seconds: float) -> subprocess.Popen[str]:
        started.append(subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE,
                                        text=True))
        assert started[-1].stdout is not None and started[-1].stdout.readline() == "inside\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


Hold = Callable[[Path, float], "subprocess.Popen[str]"]


def test_one_waits_for_the_other(hold: Hold) -> None:
    holder = hold(Path("x"), 0.5)
    with alone(Path("x")):
        now = time.monotonic()
    assert float(holder.communicate()[0].split()[1]) <= now


def test_other_paths_are_not_waited_for(hold: Hold) -> None:
    holder = hold(Path("x"), PATIENCE_S)
    with alone(Path("y")), alone(Path("z")):
        assert holder.poll() is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_lock_ends_with_its_process(hold: Hold, number: int) -> None:
    hold(Path("x"), 10 * PATIENCE_S).send_signal(number)
    start = time.monotonic()
    with alone(Path("x")):
        assert time.monotonic() - start < PATIENCE_S


def test_a_stopped_process_is_not_waited_for_long(hold: Hold, monkeypatch: pytest.MonkeyPatch,
                                                  caplog: pytest.LogCaptureFixture) -> None:
    """And then nothing is waited for any more."""
    monkeypatch.setattr(cache_folder, "PATIENCE_S", 0.2)
    holder = hold(Path("x"), 10 * PATIENCE_S)
    holder.send_signal(signal.SIGSTOP)
    start = time.monotonic()
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            with alone(Path("x")):
                pass
    assert time.monotonic() - start < 20 * 0.2
    assert len(caplog.records) == 1 and "has been making x for" in caplog.text


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_where_files_cannot_be_locked_all_go_on(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(cache_folder.system.fcntl, "lockf", fail)
    entered = False
    with alone(Path("x")), alone(Path("y")):
        entered = True
    assert entered


def test_without_a_file_all_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folder, "_lock_file", lambda: None)
    entered = False
    with alone(Path("x")):
        entered = True
    assert entered


def test_it_is_given_back_after_an_error(hold: Hold) -> None:
    with pytest.raises(ZeroDivisionError), alone(Path("x")):
        raise ZeroDivisionError
    hold(Path("x"), 0.0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_inside_each_other(hold: Hold) -> None:
    """A kernel that is compiled needs another one."""
    with alone(Path("x")):
        with alone(Path("y")):
            pass
        hold(Path("y"), 0.0)
        child = os.fork()
        if child == 0:                 # has none of its parent's locks, and gives none of them back
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        waiting = subprocess.Popen([sys.executable, "-c", HOLD, "x", "0"], stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1.0)
    assert waiting.communicate(timeout=PATIENCE_S)[0].startswith("inside\n")
