"""Jobs, bash command lines with a log each, and the base of executors, which run them.

    with make_executor("run.pl") as executor:
        diagnostics = executor.start([Job("nnet3-compute-prob 3.mdl ark:valid.egs", log / "compute_prob_valid.3.log")])
        executor.run([Job(f"nnet3-train … 4.{n}.raw", log / f"train.3.{n}.log") for n in (1, 2)])
        diagnostics.wait()

Jobs run in the driver's working directory. Their log begins and ends with the ``#`` lines that Kaldi's run.pl writes.
Jobs that run side by side share the cores; each is told its number of threads by ``NNET3PY_NUM_THREADS``. Jobs end
when the driver does. Kaldi: utils/parallel/run.pl, queue.pl and their like, and ``common.background_command``.
"""
from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

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

    Parameters
    ----------
    failures : failed jobs in the order in which they were given
    total : number of jobs
    """

    def __init__(self, failures: Sequence[Failure], total: int) -> None:
        self.failures, self.total = tuple(failures), total
        first = failures[0]
        self.tail = log_tail(first.job.log)
        which = f"{len(failures)} of {total} jobs" if total > 1 else "A job"
        ends = "ends with:\n" + "\n".join(self.tail) if self.tail else "holds nothing else"
        super().__init__(f"{which} failed ({first.reason}); the log {first.job.log} {ends}")


def log_tail(log: Path) -> list[str]:
    """Return the last lines that a job wrote into its log, without run.pl's; none if the log cannot be read."""
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
        """Return whether all jobs have ended, well or not."""
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

    Parameters
    ----------
    slots : largest number of jobs of a :meth:`run`, and in the background, at a time; None for no limit
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
        """Start jobs in the background, such as diagnostics, with the threads that :meth:`run` leaves, or one each."""
        jobs = list(jobs)
        slots = self._background or threading.Semaphore(len(jobs) or 1)
        return self._launch(jobs, self.background_threads(len(jobs)), slots, background=True)

    def share_threads(self, num_jobs: int) -> int:
        """Return the number of threads of each of ``num_jobs`` jobs that :meth:`run` gets."""
        return 1

    def background_threads(self, num_jobs: int) -> int:
        """Return the number of threads of each of ``num_jobs`` jobs in the background."""
        return 1

    @abstractmethod
    def execute(self, job: Job, threads: int, background: bool) -> str | None:
        """Run one job to its end; called in a thread of its own. Returns why it failed, or None.

        ``background`` tells jobs of :meth:`start` from those of :meth:`run`.
        """

    @abstractmethod
    def close(self) -> None:
        """End jobs that still run; nothing can be run afterwards."""

    def __enter__(self: E) -> E:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _launch(self, jobs: Sequence[Job], threads: int, slots: threading.Semaphore,
                background: bool) -> Started:
        started = Started(jobs)

        def body(number: int) -> None:
            with slots:
                try:
                    started._reasons[number] = self.execute(jobs[number], threads, background)
                except Exception as error:
                    started._reasons[number] = f"{type(error).__name__}: {error}"

        for number in range(len(jobs)):
            # daemon: a driver that dies of an error does not wait for its jobs
            started._threads.append(threading.Thread(target=body, args=(number,), daemon=True))
            started._threads[-1].start()
        return started
