"""Executors of jobs on this machine, by commands such as Kaldi's queue.pl, or on workers of ``dask.distributed``.

The last need the extra ``dask``. Every worker needs this package and must see the driver's folder, with data and
experiment, under the same name (a shared file system): only command lines and exit statuses travel. A worker's
``--nthreads`` is the number of its cores, which its jobs share. A job that a worker lost is run again on another.
"""
from __future__ import annotations

import atexit
import math
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from nnet3py.drivers.executor import Executor, Job, JobProcesses, describe_status, job_environment
from nnet3py.engine.threads import num_threads
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.extras import load

CONNECT_SECONDS = 30       # wait for the dask scheduler, then for its first worker
_SHARED_SECONDS = 10       # wait until a file of another machine appears here
_OWN_VARIABLES = ("NNET3PY_PYTHON", "NNET3PY_NUM_THREADS")      # not taken from the driver: workers have their own
_WITHOUT_VALUE = ("-V",)


class ParsedCommand(NamedTuple):
    """Parsed value of a driver's ``--cmd``."""

    words: tuple[str, ...]
    is_local: bool             # run.pl: jobs are processes of this one
    max_jobs: int | None       # --max-jobs-run, or None
    threads: int | None        # --num-threads, or None


def parse_command(text: str) -> ParsedCommand:
    """Parse ``run.pl --max-jobs-run 4`` or ``queue.pl -l "mem=4G"``; UsageError for anything else."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--cmd={text}: {error}") from None
    if not words:
        raise UsageError("--cmd is empty", "run.pl runs the jobs on this machine")
    values: dict[str, str] = {}
    place = 1
    while place < len(words):
        name = words[place]
        if not name.startswith("-"):
            raise UsageError(f"--cmd={text}: expected an option, found '{name}'", "every option has one value")
        if name in _WITHOUT_VALUE:
            place += 1
            continue
        if place + 1 == len(words):
            raise UsageError(f"--cmd={text}: the option {name} has no value")
        values[name] = words[place + 1]
        place += 2
    max_jobs = _positive(text, values, "--max-jobs-run", "-tc")
    return ParsedCommand(tuple(words), os.path.basename(words[0]) == "run.pl", max_jobs,
                         _positive(text, values, "--num-threads"))


def _positive(text: str, values: dict[str, str], *names: str) -> int | None:
    for name in names:
        if name in values:
            if not values[name].isascii() or not values[name].isdigit() or int(values[name]) == 0:
                raise UsageError(f"--cmd={text}: {name} {values[name]} is not a positive number")
            return int(values[name])
    return None


class CommandExecutor(Executor):
    """Executor that passes each job to a command, which writes the job's log and returns its status.

    The machines that the command uses must see the driver's files under the same names. The job's command line is in
    a file beside the log (``log/q/NAME.sh``), because such commands cannot quote every argument. Ending the driver
    ends the command, which may or may not end the job on a machine of a grid.

    ``command``: parsed ``--cmd``. ``slots``: int, greatest number of calls at the same time; None: no limit.
    """

    def __init__(self, command: ParsedCommand, slots: int | None = None) -> None:
        super().__init__(slots)
        program = shutil.which(command.words[0])
        if program is None:
            raise UsageError(f"--cmd: there is no program '{command.words[0]}' on PATH",
                             "run.pl runs the jobs on this machine")
        self.words = [program, *command.words[1:]]
        self.threads = command.threads or 1
        self._processes = JobProcesses()

    def share_threads(self, num_jobs: int) -> int:
        return self.threads

    def background_threads(self, num_jobs: int) -> int:
        return self.threads

    def execute(self, job: Job, threads: int, background: bool) -> str | None:
        folder = job.log.parent / "q"
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / f"{job.log.stem}.sh"
        script.write_text(_script(job.command, threads), encoding="utf-8", errors="surrogateescape")
        with tempfile.TemporaryFile() as answer:
            status = self._processes.run([*self.words, *job.cmd_options, str(job.log), "bash", str(script.resolve())],
                                         dict(os.environ), answer)
            answer.seek(0)
            text = answer.read().decode("utf-8", "replace").strip()
        if not status:
            return None
        words = subprocess.list2cmdline([os.path.basename(self.words[0])])
        return f"{words}: {describe_status(status)}{': ' + text.splitlines()[-1] if text else ''}"

    def close(self) -> None:
        self._processes.close()


def _script(command: str, threads: int) -> str:
    """Return a bash script that runs a command line in this process's folder, with a job's environment variables."""
    changed = {name: value for name, value in job_environment(threads).items() if os.environ.get(name) != value}
    settings = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(changed.items()))
    return f"cd {shlex.quote(str(Path.cwd()))} || exit 1\n{settings}set -o pipefail\n{command}\n"


class LocalExecutor(Executor):
    """Executor of jobs on this machine.

    Jobs of one ``run`` that run at the same time get cores // jobs threads each, whether or not there are jobs in the
    background, so that results are reproducible; jobs in the background share the other cores. Kaldi:
    utils/parallel/run.pl.

    Parameters
    ----------
    slots : int, greatest number of jobs at the same time; None: the number of cores
    threads : int, threads of each job; None: a share of the cores
    cores : int, number of cores; None: NNET3PY_NUM_THREADS, or the cores that this process may use
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
    """Return NNET3PY_PROGRESS, the path of the terminal on which a job shows its progress; empty without a terminal."""
    try:
        return {"NNET3PY_PROGRESS": os.ttyname(2)}
    except OSError:                # standard error is not a terminal, or closed
        return {}


def make_executor(cmd: str = "run.pl", scheduler: str | None = None, slots: int | None = None,
                  cores: int | None = None) -> Executor:
    """Make the executor for a driver's options ``--cmd`` and ``--scheduler``.

    Parameters
    ----------
    cmd : ``run.pl``, perhaps with ``--max-jobs-run N`` and ``--num-threads N``, runs the jobs on this machine;
        ``queue.pl -l …``, ``slurm.pl …``, ``ssh.pl …`` or another such command is called for each job
    scheduler : the address of a dask scheduler whose workers run the jobs, or ``local`` for workers started here
    slots : int, greatest number of jobs at the same time; None: the number of cores (run.pl), or no limit
    cores : int, cores that jobs on this machine share; None: all that this process may use
    """
    if scheduler:
        return DaskExecutor(scheduler, slots)
    command = parse_command(cmd)
    if command.is_local:
        return LocalExecutor(slots or command.max_jobs, command.threads, cores)
    return CommandExecutor(command, slots)


class DaskExecutor(Executor):
    """Executor of jobs as tasks of a dask cluster.

    Parameters
    ----------
    scheduler : address of the dask scheduler (``tcp://host:8786``), or ``local`` to start a worker process for each
        core of this machine
    slots : int, greatest number of jobs at the same time; None: limited by the workers' threads only
    """

    def __init__(self, scheduler: str, slots: int | None = None) -> None:
        super().__init__(slots)
        distributed = load("distributed", "--scheduler needs", "dask", "dask.distributed")
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
            return (f"a worker ended it with {describe_status(status)}, but its log does not exist here: workers must "
                    "see the driver's folders under the same names")
        return describe_status(status) if status else None

    def close(self) -> None:
        if self._client is not None:
            self._client.cancel(list(self._futures), force=True)
            self._client.close()
            self._client = None
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def _connect(distributed: Any, target: Any, name: str) -> Any:
    """Return a dask client of scheduler ``target``; raise Nnet3Error if it is not reached, or has no workers.

    ``name`` is the scheduler in messages.
    """
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
        raise Nnet3Error(f"--scheduler={name}: the scheduler has no workers",
                         f"'dask worker {name}' starts one") from None
    return client


def _appears(log: Path) -> bool:
    """Return whether a file exists; wait some seconds for it, as on a shared file system it may appear late."""
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
    """Run a job on this worker, and return its status; the job is killed when its task is cancelled."""
    from distributed import get_worker, secede

    worker = get_worker()
    key = worker.get_current_task()
    if background:
        secede()          # diagnostics do not keep the next training job waiting

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled"

    return _processes().run_logged(command, Path(folder, log), threads, folder, variables, wanted)
