"""Processes of jobs on this machine: each in a group of its own that ends with the driver, with a log as run.pl's."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from nnet3py import system
from nnet3py.drivers.jobs import watcher
from nnet3py.engine.threads import environment_of_threads
from nnet3py.errors import Nnet3Error

# Nothing runs before the watcher knows of the group: bash first waits for a line.
_WAIT_FOR_A_LINE = 'read -r line && exec "$@" </dev/null'

_ASK_SECONDS = 0.2         # between two checks whether a job is still wanted


def job_environment(threads: int, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a job: ours, the package's launchers in front on PATH, and its number of threads.

    ``variables`` are set in addition.
    """
    path = os.pathsep.join(filter(None, [str(launcher_folder()), os.environ.get("PATH")]))
    return {"NNET3PY_PYTHON": sys.executable, **os.environ, **(variables or {}), "PATH": path,
            **environment_of_threads(threads)}


class JobProcesses:
    """Processes that run for a driver; :meth:`close` ends them, and a watcher does so if the driver is killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._closed = False
        self._watcher: subprocess.Popen[str] | None = None

    def run(self, words: Sequence[str], environment: Mapping[str, str], output: IO[bytes],
            folder: str | None = None, wanted: Callable[[], bool] | None = None) -> int:
        """Run a program to its end.

        Parameters
        ----------
        words : the program and its arguments
        environment : all of it
        output : gets what it writes to standard output and standard error
        folder : where it runs; None for the driver's
        wanted : asked now and then; the program is ended as soon as it says no

        Returns its exit status, or minus the number of the signal that ended it.
        """
        process = self._start(words, environment, output, folder)
        if wanted is not None:
            self._wait_while(process, wanted)
        status = process.wait()
        with self._lock:
            self._groups.discard(process.pid)
            self._tell(f"-{process.pid}")
        return status

    def run_logged(self, command: str, log: Path, threads: int, folder: str | None = None,
                   variables: Mapping[str, str] | None = None, wanted: Callable[[], bool] | None = None) -> int:
        """Run a bash command line with its log written to ``log``; returns the exit status as :meth:`run` does.

        The log begins and ends with the ``#`` lines of Kaldi's run.pl and queue.pl. ``variables`` are added to the
        environment that :func:`job_environment` gives; ``folder`` and ``wanted`` as for :meth:`run`.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as output:
            output.write(log_header(command).encode("utf-8", "surrogateescape"))
        with open(log, "ab") as output:      # programs of a pipe write to it side by side
            start = time.time()
            status = self.run(system.bash_words(command), job_environment(threads, variables), output, folder, wanted)
            output.write(log_footer(status, time.time() - start, threads).encode())
        return status

    def end(self) -> None:
        """End the processes that run now; returns when they are gone."""
        with self._lock:
            groups = set(self._groups)
        system.end_groups(groups)

    def close(self) -> None:
        """End the processes and the watcher; nothing can be started afterwards."""
        with self._lock:
            self._closed = True
        self.end()
        if self._watcher is not None:
            assert self._watcher.stdin is not None
            self._watcher.stdin.close()
            self._watcher.wait()
            self._watcher = None

    def _wait_while(self, process: subprocess.Popen[bytes], wanted: Callable[[], bool]) -> None:
        while True:
            try:
                process.wait(_ASK_SECONDS)
                return
            except subprocess.TimeoutExpired:
                if not wanted():
                    system.end_groups({process.pid})
                    return

    def _start(self, words: Sequence[str], environment: Mapping[str, str], output: IO[bytes],
               folder: str | None) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise Nnet3Error("the executor of these jobs is closed")
            process = subprocess.Popen([*system.bash_words(_WAIT_FOR_A_LINE), "job", *words], stdin=subprocess.PIPE,
                                       stdout=output, stderr=subprocess.STDOUT, env=dict(environment), cwd=folder,
                                       **system.NEW_GROUP)
            self._groups.add(process.pid)
            self._tell(f"+{process.pid}")
        assert process.stdin is not None
        try:
            process.stdin.write(b"\n")
            process.stdin.close()
        except BrokenPipeError:
            pass                        # ended already
        return process

    def _tell(self, line: str) -> None:
        """Send a line to the watcher, which is started for the first one."""
        if self._watcher is None:
            if self._closed:
                return
            self._watcher = subprocess.Popen([sys.executable, "-I", "-S", watcher.__file__], stdin=subprocess.PIPE,
                                             stdout=subprocess.DEVNULL, text=True, **system.NEW_GROUP)
        assert self._watcher.stdin is not None
        try:
            self._watcher.stdin.write(line + "\n")
            self._watcher.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass                        # someone ended it: the jobs go on unwatched


def log_header(command: str) -> str:
    """Return the lines that begin a log."""
    quoted = "\n".join(f"# {line}" for line in command.splitlines())
    return f"# Running on {system.host_name()}\n# Started at {_date()}\n{quoted}\n"


def log_footer(status: int, seconds: float, threads: int) -> str:
    """Return the lines that end a log; Kaldi's scripts read the time from them."""
    ended = f"code {status}" if status >= 0 else f"code 0; signal {-status}"
    return (f"# Accounting: time={seconds:.0f} threads={threads}\n"
            f"# Ended ({ended}) at {_date()}, elapsed time {seconds:.0f} seconds\n")


def describe_status(status: int) -> str:
    """Describe an exit status: ``exit status 1`` or ``killed by SIGKILL``."""
    number = -status if status < 0 else status - 128
    if number <= 0 or number not in {signal_.value for signal_ in signal.Signals}:
        return f"exit status {status}"
    return f"killed by {signal.Signals(number).name}"


def _date() -> str:
    """Return the time now as the program ``date`` prints it."""
    now = time.localtime()      # Windows has no %e
    return time.strftime(f"%a %b {now.tm_mday:2d} %H:%M:%S %Z %Y", now)


PACKAGE = Path(__file__).resolve().parent.parent.parent
CHECKOUT_FOLDER = PACKAGE.parent / "bin"
INSTALLED_FOLDER = PACKAGE / "launchers"


def launcher_folder() -> Path:
    """Return the folder to put on PATH: of the installed package, or ``bin/`` of the checkout."""
    for folder in (INSTALLED_FOLDER, CHECKOUT_FOLDER):
        if (folder / "nnet3-info").is_file():
            return folder
    raise Nnet3Error(f"No launchers lie in {INSTALLED_FOLDER} or {CHECKOUT_FOLDER}",
                     "install the package again")
