"""Executors of jobs on this machine and by commands such as Kaldi's queue.pl, and the choice of an executor."""
from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.drivers.jobs.process import JobProcesses, describe_status, job_environment
from nnet3py.engine.threads import num_threads
from nnet3py.errors import UsageError

_WITHOUT_VALUE = ("-V",)


class ParsedCommand(NamedTuple):
    """Parsed value of a driver's ``--cmd``."""

    words: tuple[str, ...]
    is_local: bool             # run.pl: the processes are our own
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
    """Executor that hands each job to a command, which returns the job's status when it has ended and writes its log.

    The machines that the command uses must see the driver's files under the same names. The job's command line is in
    a file beside the log (``log/q/NAME.sh``), because such commands cannot quote every argument. Ending the driver
    ends the command; whether that ends the job on a grid's machine is the command's matter.

    Parameters
    ----------
    command : the words of it
    slots : the most calls at once; None for no limit
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
    """Return a bash script that runs a command line in our folder with what :func:`job_environment` sets."""
    changed = {name: value for name, value in job_environment(threads).items() if os.environ.get(name) != value}
    settings = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(changed.items()))
    return f"cd {shlex.quote(str(Path.cwd()))} || exit 1\n{settings}set -o pipefail\n{command}\n"


class LocalExecutor(Executor):
    """Executor of jobs on this machine.

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
    """Return the variables that tell a job, whose messages go to its log, on which terminal to show progress."""
    try:
        return {"NNET3PY_PROGRESS": os.ttyname(2)}
    except OSError:                # standard error is not a terminal, or closed
        return {}


def make_executor(cmd: str = "run.pl", scheduler: str | None = None, slots: int | None = None,
                  cores: int | None = None) -> Executor:
    """Make the executor that a driver's options ask for.

    Parameters
    ----------
    cmd : ``run.pl``, perhaps with ``--max-jobs-run N`` and ``--num-threads N``, runs the jobs on this machine;
        ``queue.pl -l …``, ``slurm.pl …``, ``ssh.pl …`` or another such command is called for each job
    scheduler : the address of a dask scheduler whose workers run the jobs, or ``local`` for workers started here
    slots : the most jobs at once; None for the number of cores (run.pl), or no limit
    cores : that jobs on this machine share; None for all that this process may use
    """
    if scheduler:
        from nnet3py.drivers.jobs.on_dask import DaskExecutor

        return DaskExecutor(scheduler, slots)
    command = parse_command(cmd)
    if command.is_local:
        return LocalExecutor(slots or command.max_jobs, command.threads, cores)
    return CommandExecutor(command, slots)
