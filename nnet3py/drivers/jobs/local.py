"""Jobs as processes of this machine, which share its cores."""
from __future__ import annotations

import os
import threading

from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.drivers.jobs.process import JobProcesses, describe_status
from nnet3py.engine.threads import num_threads


class LocalExecutor(Executor):
    """Runs jobs on this machine.

    Jobs of one ``run`` that run side by side get cores // jobs threads each, so that results do not depend on what
    else runs; jobs in the background get what the last ``run`` left. Kaldi: utils/parallel/run.pl.

    Parameters
    ----------
    slots : the most jobs at once; None for the number of cores
    threads : the threads of each job; None to share the cores
    cores : how many there are; None for those this process may use, or NNET3PY_NUM_THREADS
    """

    def __init__(self, slots: int | None = None, threads: int | None = None, cores: int | None = None) -> None:
        self.cores = cores or num_threads()
        super().__init__(slots or self.cores)
        self.threads = threads
        self._processes = JobProcesses()
        self._shown = threading.Lock()      # one of the jobs that run side by side shows its progress on the terminal
        self._busy = self.cores       # threads of the last run: the first diagnostics start before any

    def share_threads(self, num_jobs: int) -> int:
        assert self.slots is not None
        side_by_side = max(1, min(num_jobs, self.slots))
        threads = self.threads or max(1, self.cores // side_by_side)
        self._busy = threads * side_by_side
        return threads

    def background_threads(self, num_jobs: int) -> int:
        return max(1, (self.cores - self._busy) // max(1, num_jobs))

    def execute(self, job: Job, threads: int, background: bool) -> str | None:
        shows = not background and self._shown.acquire(blocking=False)
        try:
            status = self._processes.run_logged(job.command, job.log, threads,
                                                variables=_terminal_variables() if shows else None)
        finally:
            if shows:
                self._shown.release()
        return describe_status(status) if status else None

    def close(self) -> None:
        self._processes.close()


def _terminal_variables() -> dict[str, str]:
    """What tells a job, whose messages go to its log, on which terminal it can show its progress."""
    try:
        return {"NNET3PY_PROGRESS": os.ttyname(2)}
    except OSError:                # standard error is not a terminal, or closed
        return {}
