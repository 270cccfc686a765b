"""nnet3py/io/temporary_files.py: what a process has not finished does not stay, however it ended."""
from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnet3py.io import temporary_files
from nnet3py.io.streams import open_output

WRITE = """
import sys, time
from nnet3py.io.streams import open_output
stream = open_output(sys.argv[1])
stream.write(b"half")
stream.flush()
print("began", flush=True)
if sys.argv[2] == "sleep":
    time.sleep(600)
raise KeyboardInterrupt
"""

Begin = Callable[[Path, str], "subprocess.Popen[str]"]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts a process that has begun an output when this returns, and then sleeps, or ends with an exception."""
    started: list[subprocess.Popen[str]] = []

    def start(path: Path, then: str = "sleep") -> subprocess.Popen[str]:
        started.append(subprocess.Popen([sys.executable, "-c", WRITE, str(path), then], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True))
        assert started[-1].stdout is not None and started[-1].stdout.readline() == "began\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def _new_process() -> None:
    temporary_files._left_behind.cache_clear()


def write(path: Path) -> None:
    with open_output(str(path)) as stream:
        stream.write(b"whole")


def test_what_a_killed_process_left_goes_with_the_next_output(begin: Begin, tmp_path: Path) -> None:
    process = begin(tmp_path / "out", "sleep")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (left,) = tmp_path.iterdir()
    assert temporary_files.NAME.fullmatch(left.name)
    write(tmp_path / "another")
    assert left.exists(), "that is another output's"
    write(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["another", "out"]


@pytest.mark.skipif(not temporary_files.system.can_lock(), reason="files cannot be locked on this system")
def test_what_is_being_written_stays(begin: Begin, tmp_path: Path) -> None:
    begin(tmp_path / "out", "sleep")
    write(tmp_path / "out")
    assert len(os.listdir(tmp_path)) == 2 and (tmp_path / "out").read_bytes() == b"whole"


def test_an_interrupted_process_leaves_nothing(begin: Begin, tmp_path: Path) -> None:
    """Even if nobody closed the output."""
    assert begin(tmp_path / "out", "end").wait(30) != 0
    assert os.listdir(tmp_path) == []


def test_only_such_files_are_removed(tmp_path: Path) -> None:
    names = [".out", ".out.tmp", ".out.1-2.tmpx", "out.1-2.tmp", ".out.a-2.tmp", ".other.1-2.tmp"]
    for name in names:
        (tmp_path / name).write_text("kept")
    (tmp_path / ".out.1-2.tmp").symlink_to("out.1-2.tmp")
    (tmp_path / ".out.1-3.tmp").mkdir()
    os.mkfifo(tmp_path / ".out.1-4.tmp")
    (tmp_path / ".out.1-5.tmp").write_text("left")
    write(tmp_path / "out")
    kept = {*names, ".out.1-2.tmp", ".out.1-3.tmp", ".out.1-4.tmp", "out"}
    assert set(os.listdir(tmp_path)) == kept


def test_where_files_cannot_be_locked_all_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without locks nobody knows what is still being written."""
    def no_locks(descriptor: int) -> bool:
        raise OSError(errno.ENOLCK, "no locks available")

    (tmp_path / ".out.1-5.tmp").write_text("left")
    monkeypatch.setattr(temporary_files.system, "lock_range", no_locks)
    write(tmp_path / "out")
    assert set(os.listdir(tmp_path)) == {".out.1-5.tmp", "out"}


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        temporary_files.create(str(tmp_path / "missing" / "out"))
    assert not temporary_files._unfinished


def test_long_names(begin: Begin, tmp_path: Path) -> None:
    process = begin(tmp_path / ("long" * 60), "sleep")
    process.kill()
    process.wait()
    write(tmp_path / ("long" * 60))
    assert os.listdir(tmp_path) == ["long" * 60]
