"""nnet3py/engine/cache_folder.py: the chosen folder, and locks: processes take turns, and never wait for ever."""
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

ANOTHER = 54321            # a user whom no system has
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or not cache_folder.system.can_lock(),
                                reason="files have no owners, or cannot be locked, on this system")


@pytest.fixture(autouse=True)
def _only_what_a_test_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("NUMBA_CACHE_DIR", "NNET3PY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    yield


def chosen() -> Path:
    return cache_folder.cache_folder.__wrapped__()


def test_the_first_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert chosen() == tmp_path / "home" / ".cache" / "nnet3py"
    for name, value in (("XDG_CACHE_HOME", "xdg/nnet3py"), ("NNET3PY_CACHE", "ours"), ("NUMBA_CACHE_DIR", "numbas")):
        monkeypatch.setenv(name, str(tmp_path / value.removesuffix("/nnet3py")))
        assert chosen() == tmp_path / value and (tmp_path / value).is_dir()
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o700


def test_a_relative_platform_folder_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                            caplog: pytest.LogCaptureFixture) -> None:
    """As XDG's standard says: whoever starts a command in a folder of others would execute what lies there."""
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert chosen() == tmp_path / "home" / ".cache" / "nnet3py" and not caplog.records
    monkeypatch.setenv("HOME", "home")
    assert chosen() == cache_folder.private_folder() and "the home directory is no absolute path" in caplog.text


def make_anothers(folder: Path) -> str:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(folder, ANOTHER, ANOTHER)
    return f"{folder} belongs to another user"


def open_to_all(folder: Path) -> str:
    folder.chmod(0o777)
    return f"{folder} can be written by all users"


def open_above(folder: Path) -> str:
    return open_to_all(folder.parent)


@pytest.mark.parametrize("spoil", [make_anothers, open_to_all, open_above])
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "NNET3PY_CACHE", "XDG_CACHE_HOME"])
def test_a_folder_where_others_can_plant_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str,
                                                      spoil, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "above"))
    folder = chosen()
    fault = spoil(folder)
    with caplog.at_level(logging.WARNING):
        taken = chosen()
    assert taken == cache_folder.private_folder() and taken.stat().st_mode & 0o777 == 0o700
    assert len(caplog.records) == 1 and fault in caplog.text and "NNET3PY_CACHE" in caplog.text
    open_again = folder.parent if spoil is open_above else folder
    open_again.chmod(0o700)
    os.chown(folder, os.geteuid(), os.getegid())
    assert chosen() == folder


def test_a_folder_that_cannot_be_written_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                      caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "file/below"):
        caplog.clear()
        monkeypatch.setenv("NNET3PY_CACHE", str(tmp_path / name))
        assert chosen() == cache_folder.private_folder()
        assert len(caplog.records) == 1 and "cannot be written" in caplog.text


@pytest.mark.parametrize("how", ["return 0", "raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_the_private_folder_goes_with_its_process(tmp_path: Path, how: str) -> None:
    """Not with a child that it forks."""
    program = f"""
import os, signal
from nnet3py.engine.cache_folder import private_folder
from nnet3py.cli.process.run import run_process
def body():
    made = private_folder()
    if os.fork() == 0:
        raise SystemExit
    os.wait()
    assert made.is_dir()
    {how}
run_process(body)
"""
    (tmp_path / "tmp").mkdir()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "TMPDIR": str(tmp_path / "tmp")})
    expected = {"return 0": 0, "raise KeyboardInterrupt": 130}.get(how, -signal.SIGTERM)
    assert done.returncode == expected and os.listdir(tmp_path / "tmp") == [], done.stderr


# -- locks -------------------------------------------------------------------------------------------------------------



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
