"""Jobs by a command such as Kaldi's queue.pl, slurm.pl or ssh.pl: ``CMD [options] LOG COMMAND``."""
from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.drivers.jobs.process import JobProcesses, describe_status, job_environment
from nnet3py.errors import UsageError

_WITHOUT_VALUE = ("-V",)


class ParsedCommand(NamedTuple):
    """The value of a driver's ``--cmd``."""

    words: tuple[str, ...]
    is_local: bool             # run.pl: the processes are our own
    max_jobs: int | None       # --max-jobs-run, or None
    threads: int | None        # --num-threads, or None


def parse_command(text: str) -> ParsedCommand:
    """Take ``run.pl --max-jobs-run 4`` or ``queue.pl -l "mem=4G"`` apart. Raises UsageError for anything else."""
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
    """Hands each job to a command, which returns the job's status when it has ended and writes its log.

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
    """A bash script that runs a command line in our folder with what :func:`job_environment` sets."""
    changed = {name: value for name, value in job_environment(threads).items() if os.environ.get(name) != value}
    settings = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(changed.items()))
    return f"cd {shlex.quote(str(Path.cwd()))} || exit 1\n{settings}set -o pipefail\n{command}\n"
