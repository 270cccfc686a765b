"""Jobs, bash command lines with a log each; the base class of executors, which run them; local processes of jobs.

    with make_executor("run.pl") as executor:
        diagnostics = executor.start([Job("nnet3-compute-prob 3.mdl ark:valid.egs", log / "compute_prob_valid.3.log")])
        executor.run([Job(f"nnet3-train … 4.{n}.raw", log / f"train.3.{n}.log") for n in (1, 2)])
        diagnostics.wait()

Jobs run in the driver's working directory. Their log begins and ends with the ``#`` lines that Kaldi's run.pl writes.
Jobs that run side by side share the cores; each is told its number of threads by ``NNET3PY_NUM_THREADS``. Jobs end
when the driver does: their processes have process groups of their own, which ``watcher.py`` ends if the driver is
killed. Kaldi: utils/parallel/run.pl, queue.pl and their like, and ``common.background_command``.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, TypeVar

from nnet3py import system
from nnet3py.drivers import watcher
from nnet3py.engine.threads import environment_of_threads
from nnet3py.errors import Nnet3Error

SHOWN_LINES = 10           # lines of the log of a failed job in error messages
_TAIL_BYTES = 16384

E = TypeVar("E", bound="Executor")


class Job(NamedTuple):
    """Bash command line with its log.

    ``cmd_options`` go to a command such as queue.pl that runs the job (``--gpu 1``); other executors ignore them.
    """

    command: str
    log: Path
    cmd_options: tuple[str, ...] = ()


class Failure(NamedTuple):
    """Failed job with its reason, such as ``exit status 1``."""

    job: Job
    reason: str


class JobsFailed(Nnet3Error):
    """Error: some jobs failed.

    ``failures``: failed jobs in the order in which they were given. ``total``: number of jobs.
    """

    def __init__(self, failures: Sequence[Failure], total: int) -> None:
        self.failures, self.total = tuple(failures), total
        first = failures[0]
        self.tail = log_tail(first.job.log)
        which = f"{len(failures)} of {total} jobs" if total > 1 else "A job"
        ends = "ends with:\n" + "\n".join(self.tail) if self.tail else "holds nothing else"
        super().__init__(f"{which} failed ({first.reason}); the log {first.job.log} {ends}")


def log_tail(log: Path) -> list[str]:
    """Return the last lines of a job's log, without run.pl's ``#`` lines; empty if the log cannot be read."""
    try:
        with open(log, "rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _TAIL_BYTES))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line and not line.startswith("# ")][-SHOWN_LINES:]


class Started:
    """Jobs that run in the background."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = tuple(jobs)
        self._reasons: list[str | None] = [None] * len(jobs)      # reasons of failures
        self._threads: list[threading.Thread] = []

    @property
    def finished(self) -> bool:
        """True if all jobs have ended, successfully or not."""
        return not any(thread.is_alive() for thread in self._threads)

    def wait(self) -> None:
        """Wait for all jobs. Raises JobsFailed if any failed."""
        for thread in self._threads:
            thread.join()
        failures = [Failure(job, reason) for job, reason in zip(self.jobs, self._reasons, strict=True) if reason]
        if failures:
            raise JobsFailed(failures, len(self.jobs))


class Executor(ABC):
    """Base of executors of jobs; a context manager. :meth:`close` ends jobs that still run.

    ``slots``: int, greatest number of jobs at the same time, both for each :meth:`run` and for all jobs in the
    background; None: no limit.
    """

    def __init__(self, slots: int | None) -> None:
        if slots is not None and slots < 1:
            raise Nnet3Error(f"{slots} jobs at once: expected at least one")
        self.slots = slots
        self._background = threading.Semaphore(slots) if slots else None

    def run(self, jobs: Iterable[Job]) -> None:
        """Run jobs, as many at a time as there are slots, and wait for all; JobsFailed if any failed."""
        jobs = list(jobs)
        slots = threading.Semaphore(self.slots or len(jobs) or 1)
        started = self._launch(jobs, self.share_threads(len(jobs)), slots, background=False)
        try:
            started.wait()
        except JobsFailed:
            raise
        except BaseException:          # Ctrl-C
            self.close()
            raise

    def start(self, jobs: Iterable[Job]) -> Started:
        """Start jobs in the background, such as diagnostics.

        Each gets a share of the threads that the jobs of :meth:`run` do not use, but at least one.
        """
        jobs = list(jobs)
        slots = self._background or threading.Semaphore(len(jobs) or 1)
        return self._launch(jobs, self.background_threads(len(jobs)), slots, background=True)

    def share_threads(self, num_jobs: int) -> int:
        """Return the number of threads for each of ``num_jobs`` jobs of one :meth:`run`."""
        return 1

    def background_threads(self, num_jobs: int) -> int:
        """Return the number of threads for each of ``num_jobs`` jobs in the background."""
        return 1

    @abstractmethod
    def execute(self, job: Job, threads: int, background: bool) -> str | None:
        """Run one job to its end, in the calling thread; return the reason if it fails, else None.

        ``threads`` is the job's number of threads, ``background`` True for jobs of :meth:`start`.
        """

    @abstractmethod
    def close(self) -> None:
        """End jobs that still run; nothing can be run afterwards."""

    def __enter__(self: E) -> E:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _launch(self, jobs: Sequence[Job], threads: int, slots: threading.Semaphore, background: bool) -> Started:
        started = Started(jobs)

        def body(number: int) -> None:
            with slots:
                try:
                    started._reasons[number] = self.execute(jobs[number], threads, background)
                except Exception as error:
                    started._reasons[number] = f"{type(error).__name__}: {error}"

        for number in range(len(jobs)):
            # daemon: a driver that ends with an error does not wait for its jobs
            started._threads.append(threading.Thread(target=body, args=(number,), daemon=True))
            started._threads[-1].start()
        return started


# Nothing runs before the watcher knows of the group: bash first waits for a line.
_WAIT_FOR_A_LINE = 'read -r line && exec "$@" </dev/null'

_ASK_SECONDS = 0.2         # between two checks whether a job is still wanted


def job_environment(threads: int, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a job's environment: this process's, with ``variables``, the launchers first on PATH, and ``threads``."""
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
        words : program and arguments
        environment : environment of the program
        output : file for its standard output and standard error
        folder : working directory; None: the driver's
        wanted : function that is called every 0.2 seconds; the program is killed when it returns False

        Returns the exit status, or minus the number of the signal that ended the program.
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
        """End the running processes, and wait for them."""
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
        """Send a line to the watcher process; start it if it does not run yet."""
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
    """Return the current time in the format of the program ``date``."""
    now = time.localtime()      # Windows has no %e
    return time.strftime(f"%a %b {now.tm_mday:2d} %H:%M:%S %Z %Y", now)


PACKAGE = Path(__file__).resolve().parent.parent
CHECKOUT_FOLDER = PACKAGE.parent / "bin"
INSTALLED_FOLDER = PACKAGE / "launchers"


def launcher_folder() -> Path:
    """Return the folder of launchers for PATH: the installed package's, or ``bin/`` of the checkout."""
    for folder in (INSTALLED_FOLDER, CHECKOUT_FOLDER):
        if (folder / "nnet3-info").is_file():
            return folder
    raise Nnet3Error(f"found no commands such as nnet3-info in {INSTALLED_FOLDER} or {CHECKOUT_FOLDER}",
                     "install the package again")
