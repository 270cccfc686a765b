"""What the tests of killed processes and full disks share: starting a process that can be killed, and what is left."""
from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from paths import ROOT

from nnet3py.io import temporary_files

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
PATIENCE_S = 10.0            # by then the processes of one that was killed have ended
_said: dict[Path, list[bytes]] = {}
_readers: list[threading.Thread] = []
_DROP_CAPABILITY = 24        # PR_CAPBSET_DROP
_CAPABILITIES = (1, 2, 3)    # to write, read and change other users' files, and one's own that forbid it


def environment(**variables: str) -> dict[str, str]:
    """That of a command, with the launchers on its PATH."""
    return {**os.environ, "NNET3PY_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
            "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}", **variables}


def start(words: Sequence[str], folder: Path, limit: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own, which SIGINT ends although nobody sits at a terminal.

    What it says is for :func:`messages`. ``limit`` is called before it starts.
    """
    def before() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)       # it may be ignored where tests run unattended
        if limit is not None:
            limit()

    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=environment(), start_new_session=True, preexec_fn=before)
    said = _said.setdefault(folder, [])

    def read() -> None:          # not into a file: the disk may be full
        assert process.stdout is not None
        with process.stdout:
            said.extend(process.stdout)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    _readers.append(reader)
    return process


def messages(folder: Path) -> str:
    """What processes of :func:`start` have said in a folder."""
    for reader in _readers:
        reader.join(PATIENCE_S)
    return b"".join(_said.get(folder, [])).decode(errors="replace")


def kill(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal as it is sent: SIGINT by a terminal to all that it started, others to the process alone."""
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)


def processes_in(folder: Path) -> list[str]:
    """The command lines of the processes that work in a folder or below it; those that have ended do not count."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                place = os.readlink(f"/proc/{name}/cwd")
                if place == str(folder) or place.startswith(f"{folder}/"):
                    found.append(Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue             # it ended meanwhile, or is another user's
    return [words for words in found if words]


def check_nobody_is_left(folder: Path) -> None:
    """No process that was started in a folder outlives the one that was killed."""
    if not os.path.exists("/proc/self/cwd"):
        return
    end = time.monotonic() + PATIENCE_S
    while (left := processes_in(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []


def unfinished(folder: Path) -> list[str]:
    """Names of files in a folder, or below it, that outputs were written to."""
    return [path.name for path in folder.rglob(".*") if temporary_files.NAME.fullmatch(path.name)]


def obey_modes() -> None:
    """Before a process starts: the modes of files hold for it although it is root's."""
    if os.geteuid() == 0:
        library = ctypes.CDLL(None, use_errno=True)
        for capability in _CAPABILITIES:
            if library.prctl(_DROP_CAPABILITY, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "cannot give up a capability")
