"""nnet3py/system.py: what takes the place of POSIX where it is missing.

No other system is here to try it on: names that only POSIX has are taken away (``without_posix.py``), and Windows' own
are replaced by a record of how they are called.
"""
from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from driver_cases import FEAT_DIM, NUM_CLASSES, write_egs
from paths import DATA, ROOT, TESTS

from nnet3py import system
from nnet3py.errors import Nnet3Error

WITHOUT_POSIX = TESTS / "without_posix.py"
CONFIG = f"""input-node name=input dim={FEAT_DIM}
component name=affine type=NaturalGradientAffineComponent input-dim={FEAT_DIM} output-dim={NUM_CLASSES}
component-node name=affine component=affine input=input
component name=soft type=LogSoftmaxComponent dim={NUM_CLASSES}
component-node name=soft component=soft input=affine
output-node name=output input=soft
"""
needs_links = pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links on this system")


def run_without_posix(*words: str, data: bytes = b"") -> bytes:
    """What a command writes to standard output on a system without what only POSIX has; it succeeds."""
    done = subprocess.run([sys.executable, str(WITHOUT_POSIX), *words], input=data, capture_output=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_names_are_really_taken_away() -> None:
    program = ("import sys; sys.path[:0] = ['tests', '.']; import without_posix; without_posix.take_away()\n"
               "import os, signal\n"
               "from nnet3py import system\n"
               "print(system.fcntl, hasattr(os, 'pread'), hasattr(signal, 'SIGHUP'), system.HAS_OWNERS)\n"
               "print(system.memory_limit(), system.open_file_limit(), system.largest_memory(), system.can_lock())\n"
               "print(system.ENDING_SIGNALS == (signal.SIGTERM,), list(system.NEW_GROUP), len(system.host_name()) > 0)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines() == ["None False False False", "None None None False",
                                        "True ['creationflags'] True"]


def test_tables_and_pipes_without_posix(tmp_path: Path) -> None:
    ark, scp = tmp_path / "feats.ark", tmp_path / "feats.scp"
    run_without_posix("copy-feats", "ark:gzip -c tests/data/io/feats.ark | gunzip -c |", f"ark,scp:{ark},{scp}")
    assert ark.read_bytes() == (DATA / "io" / "feats.ark").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] != [] and not list(tmp_path.glob("*.tmp"))
    moved = run_without_posix("copy-feats", f"scp:{scp}", "ark:-")
    assert moved == ark.read_bytes()
    assert run_without_posix("feat-to-dim", "ark:-", "-", data=moved).strip().isdigit()


@pytest.mark.slow
def test_training_without_posix_is_the_same(tmp_path: Path) -> None:
    egs = write_egs(tmp_path / "egs", num_archives=1)
    (tmp_path / "config").write_text(CONFIG)
    run_without_posix("nnet3-init", "--srand=1", str(tmp_path / "config"), str(tmp_path / "0.raw"))
    for name, runner in (("there", WITHOUT_POSIX), ("here", None)):
        words = ["nnet3-train", "--use-gpu=no", "--srand=1", str(tmp_path / "0.raw"),
                 f"ark:nnet3-merge-egs --minibatch-size=5 ark:{egs}/egs.1.ark ark:- |", str(tmp_path / f"{name}.raw")]
        environment = {**os.environ, "PATH": f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}",
                       "NNET3PY_PYTHON": sys.executable}
        command = [sys.executable, str(runner), *words] if runner else [str(ROOT / "bin" / words[0]), *words[1:]]
        subprocess.run(command, env=environment, check=True, capture_output=True, cwd=ROOT)
    assert (tmp_path / "there.raw").read_bytes() == (tmp_path / "here.raw").read_bytes()
    assert (tmp_path / "there.raw").read_bytes() != (tmp_path / "0.raw").read_bytes()


# -- files -------------------------------------------------------------------------------------------------------------


def test_bytes_of_a_file_are_read_by_either_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(100)))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY | system.PLAIN)
    try:
        for read in (system.read_at, system._seek_and_read):
            assert read(descriptor, 5, 90) == bytes(range(90, 95))
            assert read(descriptor, 50, 98) == bytes([98, 99]) and read(descriptor, 1, 100) == b""
    finally:
        os.close(descriptor)


def test_what_discards_has_the_systems_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "devnull", "nul")
    assert [system.device_path(path) for path in ("/dev/null", "/dev/stdin", "null")] == ["nul", "/dev/stdin", "null"]


@needs_links
def test_a_copy_takes_the_place_of_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "target").write_text("content")
    system.link_or_copy("target", str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "link").read_text() == "content"

    def refuse(*_: object) -> None:
        raise OSError("a privilege is not held by the client")

    monkeypatch.setattr(os, "symlink", refuse)
    system.link_or_copy("target", str(tmp_path / "copy"))
    assert not (tmp_path / "copy").is_symlink() and (tmp_path / "copy").read_text() == "content"
    for target, path in (("missing", "another"), ("target", "copy")):
        with pytest.raises(OSError, match="privilege"):
            system.link_or_copy(target, str(tmp_path / path))


def test_a_file_is_locked_for_a_descriptor(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | system.PLAIN) for _ in range(2))
    try:
        assert system.lock_open_file(first)
        assert not system.lock_open_file(second) or not system.can_lock()
    finally:
        os.close(first)
        assert system.lock_open_file(second)
        os.close(second)


class WindowsLocks:
    """msvcrt's ``locking``: what was asked of it, and whether the byte is taken."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []
        self.error: int | None = None

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        """Note where the file stands."""
        self.calls.append((os.lseek(descriptor, 0, os.SEEK_CUR), mode, count))
        if self.error is not None:
            raise OSError(self.error, "locked")


def test_windows_locks_a_byte_behind_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = WindowsLocks()
    monkeypatch.setattr(system, "fcntl", None)
    monkeypatch.setattr(system, "msvcrt", locks)
    (tmp_path / "lock").write_text("content")
    with open(tmp_path / "lock", "r+b") as stream:
        stream.seek(3)
        assert system.can_lock() and system.lock_range(stream.fileno(), 7, 1)
        system.unlock_range(stream.fileno(), 7, 1)
        assert system.lock_open_file(stream.fileno())
        assert locks.calls == [(2**40 + 7, 2, 1), (2**40 + 7, 0, 1), (2**40, 2, 1)]
        assert os.lseek(stream.fileno(), 0, os.SEEK_CUR) == 3, "where the file stood"
        locks.error = system._TAKEN[0]
        assert not system.lock_range(stream.fileno()) and not system.lock_open_file(stream.fileno())
        locks.error = 22
        with pytest.raises(OSError, match="locked"):
            system.lock_range(stream.fileno())


# -- programs ----------------------------------------------------------------------------------------------------------


def test_a_shell_is_found_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = subprocess.run(system.shell_words("echo a b"), capture_output=True, check=True)
    assert said.stdout.split() == [b"a", b"b"]
    assert subprocess.run(system.bash_words("false | true"), check=False).returncode == 1, "a pipe fails with its parts"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Nnet3Error, match="bash, and there is none on PATH"):
        system.bash_words("true")
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    with pytest.raises(Nnet3Error, match="run by sh, and there is none on PATH"):
        system.shell_words("true")


def test_a_program_ends_with_all_it_started(tmp_path: Path) -> None:
    note = tmp_path / "child"
    process = subprocess.Popen(system.bash_words(f"sleep 60 & echo $! > {note}; wait"), **system.NEW_GROUP)
    while not (note.exists() and note.read_text().strip()):
        time.sleep(0.01)
    start = time.monotonic()
    system.end_groups({process.pid})
    assert process.wait() != 0 and time.monotonic() - start < system.PATIENCE
    assert system._living_groups({process.pid}) == set()


def test_windows_ends_trees_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.delattr(os, "killpg", raising=False)
    monkeypatch.setattr(subprocess, "run", lambda words, **_: calls.append(words))
    system.end_groups({17})
    assert calls == [["taskkill", "/PID", "17", "/T", "/F"]]


@pytest.mark.parametrize("has_handlers", [True, False])
def test_an_event_loop_hears_signals(has_handlers: bool) -> None:
    """Windows' loops have no handlers of signals."""
    before = signal.getsignal(signal.SIGTERM)

    async def until_signal() -> bool:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        shown = loop if has_handlers else SimpleNamespace(add_signal_handler=refuse,
                                                          call_soon_threadsafe=loop.call_soon_threadsafe)
        system.call_at_signals(shown, (signal.SIGTERM,), stopped.set)
        loop.call_later(0.01, os.kill, os.getpid(), signal.SIGTERM)
        return await asyncio.wait_for(stopped.wait(), 10)

    def refuse(*_: object) -> None:
        raise NotImplementedError

    try:
        assert asyncio.run(until_signal())
    finally:
        signal.signal(signal.SIGTERM, before)


# -- the machine -------------------------------------------------------------------------------------------------------


def test_limits_are_this_processs() -> None:
    resource = pytest.importorskip("resource")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert system.open_file_limit() == (None if most == resource.RLIM_INFINITY else most)
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    assert system.memory_limit() == (None if address_space == resource.RLIM_INFINITY else address_space)


def test_memory_is_in_bytes() -> None:
    """On macOS the system counts in bytes, on Linux in kB."""
    size = system.largest_memory()
    assert size is None or 2**24 < size < 2**40
    block = np.ones(2**24)                  # 128 MB, written to
    larger = system.largest_memory()
    assert size is None or (larger is not None and larger >= max(size, block.nbytes))


def test_the_c_librarys_functions_are_found() -> None:
    assert system.address_of_c_function("read") > 0
    assert system.address_of_c_function("read") != system.address_of_c_function("write")


def test_heaps_are_shared_where_there_is_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *words: calls.append(words)))
    monkeypatch.setattr(os.path, "exists", lambda _: True)
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    system.share_heaps(2)
    assert calls == [(-8, 2)]
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    system.share_heaps(2)
    assert len(calls) == 1, "who set it knows better"
