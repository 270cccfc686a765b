"""What is computed beside a training: objectives of each model, its statistics, warnings, the report of accuracies.

An iteration's diagnostics describe the model that it begins with, and run in the background while it trains.
"""
from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Callable
from pathlib import Path

from nnet3py.drivers.commands import FrameCommands
from nnet3py.drivers.folder import TrainingFolder
from nnet3py.drivers.jobs.executor import Executor, Job, JobsFailed, Started
from nnet3py.io.streams import write_text
from nnet3py.report.monitor import Monitor
from nnet3py.report.training_logs import (
    Iteration,
    diagnosed_outputs,
    read_compute_prob_log,
    read_iterations,
    read_progress_log,
    read_train_log,
)

logger = logging.getLogger(__name__)

SUBSETS = ("valid", "train")
_ENDED_WELL = b"# Ended (code 0) "
_TAIL_BYTES = 400


def ended_well(log: Path) -> bool:
    """Whether a job has ended, and well, as its log says."""
    try:
        with open(log, "rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL_BYTES))
            return _ENDED_WELL in stream.read()
    except OSError:
        return False


class Diagnostics:
    """The background jobs of a training, what they found, and what is wrong.

    Parameters
    ----------
    folder, commands, executor : of the training
    warn : called with each line that the monitor has to say
    """

    def __init__(self, folder: TrainingFolder, commands: FrameCommands, executor: Executor,
                 warn: Callable[[str], None] = logger.warning) -> None:
        self.folder, self.commands, self.executor, self.warn = folder, commands, executor, warn
        self.iterations: list[Iteration] = []        # complete ones, in order
        self._running: dict[int | str, Started] = {}
        self._monitor = Monitor()

    def resume(self, iteration: int) -> None:
        """Go on after a training that was interrupted before or in ``iteration``.

        What it left unfinished is computed again, if the models are still there.
        """
        if iteration == 0:
            return
        for number in range(max(0, iteration - 2), iteration):
            if self.folder.has_model(number):
                self.start(number, again=False)
                self.wait(number)
        self.iterations = [iteration_ for iteration_ in read_iterations(self.folder.path)
                           if iteration_.number < iteration]
        for line in self._monitor.check(self.iterations):
            self.warn(line)

    def start(self, which: int | str, again: bool = True) -> None:
        """Start the jobs of a model: of a number, ``combined`` or ``final``. ``again``: also those done before."""
        commands = {f"compute_prob_{subset}.{which}": self.commands.compute_prob(which, subset) for subset in SUBSETS}
        if isinstance(which, int) and which > 0 and self.folder.has_model(which - 1):
            commands |= self.commands.progress(which)
        logs = {name: self.folder.log(name) for name in commands}
        jobs = [Job(commands[name], log) for name, log in logs.items() if again or not ended_well(log)]
        for job in jobs:
            job.log.unlink(missing_ok=True)
        if jobs:
            self._running[which] = self.executor.start(jobs)

    def wait(self, which: int | str) -> None:
        """Wait for the jobs of a model; a warning if any failed."""
        started = self._running.pop(which, None)
        if started is None:
            return
        try:
            started.wait()
        except JobsFailed as error:
            self.warn(f"the diagnostics of model {which} failed; training goes on. {' '.join(str(error).split())}")

    def finish(self, number: int) -> None:
        """Wait for the diagnostics of an iteration that has trained; read its logs, and warn of what is wrong."""
        self.wait(number)
        self.iterations.append(self._read(number))
        for line in self._monitor.check(self.iterations):
            self.warn(line)

    def wait_for_all(self) -> None:
        """Wait for whatever runs."""
        for which in list(self._running):
            self.wait(which)

    def is_finished(self, which: int | str) -> bool:
        """Whether the jobs of a model are done."""
        return which not in self._running or self._running[which].finished

    def latest(self, upto: int) -> tuple[int, dict[tuple[str, str], float]] | None:
        """The latest iteration up to ``upto`` with known values on held-out data, and these; None if there is none."""
        if self.is_finished(upto) and self.folder.log(f"compute_prob_valid.{upto}").exists():
            values = read_compute_prob_log(self.folder.log(f"compute_prob_valid.{upto}"))
            if values:
                return upto, values
        for iteration_ in reversed(self.iterations):
            if iteration_.valid:
                return iteration_.number, iteration_.valid
        return None

    def _read(self, number: int) -> Iteration:
        log = self.folder.log
        result = Iteration(number)
        result.jobs = read_job_logs(self.folder, number)
        if log(f"compute_prob_train.{number}").exists():
            result.train = read_compute_prob_log(log(f"compute_prob_train.{number}"))
        if log(f"compute_prob_valid.{number}").exists():
            result.valid = read_compute_prob_log(log(f"compute_prob_valid.{number}"))
        if log(f"progress.{number}").exists():
            result.progress = read_progress_log(log(f"progress.{number}"))
        return result


def read_job_logs(folder: TrainingFolder, iteration: int) -> dict:
    """Job number -> what the training jobs of an iteration logged."""
    jobs = {}
    for path in (folder.path / "log").glob(f"train.{iteration}.*.log"):
        number = path.name.split(".")[2]
        if number.isdigit():
            jobs[int(number)] = read_train_log(path)
    return dict(sorted(jobs.items()))


def accuracy_report(folder: TrainingFolder, kind: str = "accuracy", output: str = "output") -> str:
    """The table of accuracies, or objectives, by iteration; objectives also where there is no accuracy.

    Kaldi: generate_acc_logprob_report.
    """
    iterations = read_iterations(folder.path)
    if output not in diagnosed_outputs(iterations, kind):
        kind = "objective"
    lines = ["%Iter\tduration\ttrain_objective\tvalid_objective\tdifference"]
    total = 0.0
    for iteration in iterations:
        times = [job.seconds for job in iteration.jobs.values() if not math.isnan(job.seconds)]
        train, valid = iteration.train.get((output, kind)), iteration.valid.get((output, kind))
        if times and train is not None and valid is not None:
            total += max(times)
            lines.append(f"{iteration.number}\t{max(times)}\t{train:g}\t{valid:g}\t{valid - train:g}")
    lines.append(f"Total training time is {datetime.timedelta(seconds=total)}\n")
    return "\n".join(lines)


def write_report(folder: TrainingFolder, name: str, kind: str = "accuracy", output: str = "output") -> None:
    """Write :func:`accuracy_report` to the folder's file ``name``."""
    write_text(str(folder.path / name), accuracy_report(folder, kind, output))
