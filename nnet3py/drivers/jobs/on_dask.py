"""Jobs on the workers of ``dask.distributed``, on this machine or on others (the extra ``dask``).

Every worker needs this package and must see the driver's folder, with data and experiment, under the same name (a
shared file system): only command lines and exit statuses travel. A worker's ``--nthreads`` says how many cores it may
use; jobs that share a worker share them. A job that a worker lost is run again on another.
"""
from __future__ import annotations

import atexit
import math
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.drivers.jobs.process import JobProcesses, describe_status
from nnet3py.engine.threads import num_threads
from nnet3py.errors import Nnet3Error
from nnet3py.extras import load

CONNECT_SECONDS = 30       # wait for the scheduler, then for its first worker
_SHARED_SECONDS = 10       # wait until a file of another machine appears here
_OWN_VARIABLES = ("NNET3PY_PYTHON", "NNET3PY_NUM_THREADS")      # not taken from the driver: workers have their own


class DaskExecutor(Executor):
    """Executor of jobs as tasks of a dask cluster.

    Parameters
    ----------
    scheduler : its address (``tcp://host:8786``), or ``local`` for a worker process for each core of this machine
    slots : the most jobs at once; None for no limit besides the workers' threads
    """

    def __init__(self, scheduler: str, slots: int | None = None) -> None:
        super().__init__(slots)
        distributed = _distributed()
        self._cluster: Any = None
        if scheduler == "local":
            self._cluster = distributed.LocalCluster(n_workers=slots or num_threads(), threads_per_worker=1,
                                                     dashboard_address=":0")
        self._client: Any = _connect(distributed, self._cluster or scheduler, scheduler)
        self._futures: set[Any] = set()

    def share_threads(self, num_jobs: int) -> int:
        workers = self._client.nthreads()
        if not workers:
            return 1
        beside = max(1, math.ceil(min(num_jobs, self.slots or num_jobs) / len(workers)))
        return max(1, min(workers.values()) // beside)

    def execute(self, job: Job, threads: int, background: bool) -> str | None:
        variables = {name: value for name, value in os.environ.items()
                     if name.startswith("NNET3PY_") and name not in _OWN_VARIABLES}
        future = self._client.submit(_run_task, job.command, str(job.log), os.getcwd(), threads, background, variables,
                                     pure=False, key=f"{job.log.stem}-{os.urandom(8).hex()}")
        self._futures.add(future)
        try:
            status = future.result()
        finally:
            self._futures.discard(future)
        if not _appears(job.log):
            return f"a worker ended it with {describe_status(status)}, but its log is not to be seen here: the " \
                   "workers must see the driver's folders under the same names"
        return describe_status(status) if status else None

    def close(self) -> None:
        if self._client is not None:
            self._client.cancel(list(self._futures), force=True)
            self._client.close()
            self._client = None
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def _distributed() -> Any:
    return load("distributed", "--scheduler needs", "dask", "dask.distributed")


def _connect(distributed: Any, target: Any, name: str) -> Any:
    """Return a client of the scheduler that has at least one worker."""
    try:
        client = distributed.Client(target, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise Nnet3Error(f"--scheduler={name}: cannot connect: {error}",
                         "'dask scheduler' starts one and prints its address; 'dask worker ADDRESS' adds a worker") \
            from None
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        client.close()
        raise Nnet3Error(f"--scheduler={name}: it has no workers", f"'dask worker {name}' starts one") from None
    return client


def _appears(log: Path) -> bool:
    """Return whether a file can be seen here, perhaps after a moment."""
    deadline = time.monotonic() + _SHARED_SECONDS
    while not log.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


# -- on a worker -----------------------------------------------------------------------------------------------------


@cache
def _processes() -> JobProcesses:
    processes = JobProcesses()
    atexit.register(processes.close)
    return processes


def _run_task(command: str, log: str, folder: str, threads: int, background: bool, variables: dict[str, str]) -> int:
    """Run a job on this worker; returns its status. It is ended when nobody waits for it any more."""
    from distributed import get_worker, secede

    worker = get_worker()
    key = worker.get_current_task()
    if background:
        secede()          # diagnostics do not keep the next training job waiting

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled"

    return _processes().run_logged(command, Path(folder, log), threads, folder, variables, wanted)
