"""Diagnostics of a training: objectives of each model, statistics, warnings, the table on the terminal, the report.

An iteration's diagnostics describe the model with which the iteration begins, and run in the background meanwhile.
"""
from __future__ import annotations

import datetime
import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from nnet3py.drivers.commands import FrameCommands, Step
from nnet3py.drivers.executor import Executor, Job, JobsFailed, Started
from nnet3py.drivers.schedules import Plan
from nnet3py.drivers.staged import TrainingFolder
from nnet3py.io.streams import write_text
from nnet3py.log import clock_time, rate
from nnet3py.report.monitor import Monitor
from nnet3py.report.training_logs import (
    Iteration,
    TrainLog,
    diagnosed_outputs,
    read_compute_prob_log,
    read_iterations,
)

logger = logging.getLogger(__name__)

SUBSETS = ("valid", "train")
_ENDED_WELL = b"# Ended (code 0) "
_TAIL_BYTES = 400


def ended_well(log: Path) -> bool:
    """Return whether a job's log ends with status 0."""
    try:
        with open(log, "rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL_BYTES))
            return _ENDED_WELL in stream.read()
    except OSError:
        return False


class Diagnostics:
    """Runner of a training's diagnostic jobs in the background, which reads their logs and warns of problems.

    ``folder``, ``commands``, ``executor``: those of the training. ``warn``: function that is called with each warning.
    """

    def __init__(self, folder: TrainingFolder, commands: FrameCommands, executor: Executor,
                 warn: Callable[[str], None] = logger.warning) -> None:
        self.folder, self.commands, self.executor, self.warn = folder, commands, executor, warn
        self.iterations: list[Iteration] = []        # complete iterations, in order
        self._running: dict[int | str, Started] = {}
        self._monitor = Monitor()

    def resume(self, iteration: int) -> None:
        """Prepare for a training that continues with ``iteration`` after an interruption.

        Unfinished diagnostics of the last two models are computed again, if the models still exist; the logs of earlier
        iterations are read.
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
        """Start the diagnostic jobs of a model (number, ``combined``, ``final``) in the background.

        ``again`` : whether jobs are also repeated whose logs are complete
        """
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
        """Wait for the diagnostics of a model, and warn if a job failed."""
        started = self._running.pop(which, None)
        if started is None:
            return
        try:
            started.wait()
        except JobsFailed as error:
            self.warn(f"the diagnostics of model {which} failed; training goes on. {' '.join(str(error).split())}")

    def finish(self, number: int) -> None:
        """Wait for the diagnostics of a complete iteration, read its logs, and warn of problems."""
        self.wait(number)
        self.iterations += read_iterations(self.folder.path, number)
        for line in self._monitor.check(self.iterations):
            self.warn(line)

    def wait_for_all(self) -> None:
        """Wait for all background jobs."""
        for which in list(self._running):
            self.wait(which)

    def latest(self, upto: int) -> tuple[int, dict[tuple[str, str], float]] | None:
        """Return the latest iteration up to ``upto`` with results on held-out data, and these; None for none.

        The results are by (output, ``objective`` or ``accuracy``).
        """
        log = self.folder.log(f"compute_prob_valid.{upto}")
        is_finished = upto not in self._running or self._running[upto].finished
        if is_finished and log.exists() and (values := read_compute_prob_log(log)):
            return upto, values
        for iteration_ in reversed(self.iterations):
            if iteration_.valid:
                return iteration_.number, iteration_.valid
        return None


def accuracy_report(folder: TrainingFolder, kind: str = "accuracy", output: str = "output") -> str:
    """Return a table, as text, of the accuracy or objective of each iteration, in training and on held-out data.

    ``kind`` is ``accuracy`` or ``objective``; outputs without accuracies get objectives. Kaldi:
    generate_acc_logprob_report.
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


_CLEAR_LINE = "\r\x1b[K"
# The columns of the table and their widths: with a space between them they fit a terminal of 80 characters.
_COLUMNS = {"iter": 8, "jobs": 4, "epoch": 6, "rate": 8, "train": 8, "valid": 8, "accuracy": 8, "of": 4,
            "frames/s": 8, "left": 7}


class Display:
    """Display of a training's progress, iteration by iteration.

    ``plan``: plan of the training. ``terminal``: stream for a table whose last row is the current iteration; None: log
    lines instead.
    """

    def __init__(self, plan: Plan, terminal: IO[str] | None = None) -> None:
        self.plan, self.terminal = plan, terminal
        self._begun = self._step_begun = time.monotonic()
        self._processed_before: int | None = None

    def begin(self, step: Step) -> None:
        """Show that an iteration starts."""
        self._step_begun = time.monotonic()
        is_first = self._processed_before is None
        if is_first:
            self._begun, self._processed_before = self._step_begun, step.processed
        if self.terminal is not None:
            head = _row({name: name for name in _COLUMNS}) + "\n" if is_first else ""
            self.terminal.write(f"{_CLEAR_LINE}{head}{_row(self._planned(step))}   …")
            self.terminal.flush()

    def end(self, step: Step, jobs: Mapping[int, TrainLog],
            valid: tuple[int, Mapping[tuple[str, str], float]] | None) -> None:
        """Show the results of an iteration.

        ``jobs`` are the logs of its jobs; ``valid`` is what :meth:`Diagnostics.latest` returns.
        """
        measured = {**_objectives(jobs, valid), **self._speed(step, jobs)}
        if self.terminal is None:
            logger.info("%s", "   ".join([self.headline(step), *_as_words(measured, step.iteration)]))
        else:
            shrink = f" shrink {step.shrink:0.5f}" if step.shrink != 1.0 else ""
            self.terminal.write(f"{_CLEAR_LINE}{_row({**self._planned(step), **measured})}{shrink}\n")
            self.terminal.flush()

    def headline(self, step: Step) -> str:
        """Return the line that Kaldi's drivers log before an iteration: number, jobs, epoch, learning rate."""
        plan, epoch = self.plan, self._epoch(step)
        percent = step.processed * 100.0 / plan.to_process
        line = (f"Iter: {step.iteration}/{plan.num_iters - 1}   Jobs: {step.num_jobs}   Epoch: {epoch:0.2f}/"
                f"{plan.num_epochs:0.1f} ({percent:0.1f}% complete)   lr: {step.learning_rate:0.6f}")
        return line + (f"   shrink: {step.shrink:0.5f}" if step.shrink != 1.0 else "")

    def _planned(self, step: Step) -> dict[str, str]:
        """Return the table's columns, by name, that are filled before an iteration: iteration, jobs, epoch, rate."""
        return {"iter": f"{step.iteration}/{self.plan.num_iters - 1}", "jobs": f"{step.num_jobs}",
                "epoch": f"{self._epoch(step):0.2f}", "rate": f"{step.learning_rate:0.6f}"}

    def _epoch(self, step: Step) -> float:
        return step.processed * self.plan.num_epochs / self.plan.to_process

    def _speed(self, step: Step, jobs: Mapping[int, TrainLog]) -> dict[str, str]:
        now = time.monotonic()
        frames = sum(max(job.frames.values(), default=0.0) for job in jobs.values())
        seconds = max(now - self._step_begun, 1e-3)
        assert self._processed_before is not None
        done = step.processed + step.num_jobs
        left = max(0, self.plan.processed(self.plan.num_iters) - done)
        remaining = (now - self._begun) * left / max(1, done - self._processed_before)
        return {"frames/s": rate(frames / seconds), "left": clock_time(remaining)}


def _row(cells: Mapping[str, str]) -> str:
    return " ".join(cells.get(name, "").rjust(width) for name, width in _COLUMNS.items()).rstrip()


def _as_words(measured: Mapping[str, str], iteration: int) -> list[str]:
    """Return the measured values of an iteration as texts for a log line."""
    of = f" (iter {measured['of']})" if measured.get("of", str(iteration)) != str(iteration) else ""
    return [*([f"train: {measured['train']}"] if "train" in measured else []),
            *(f"{name}: {measured[name]}{of}" for name in ("valid", "accuracy") if name in measured),
            f"{measured['frames/s']} frames/s", f"{measured['left']} left"]


def _objectives(jobs: Mapping[int, TrainLog],
                valid: tuple[int, Mapping[tuple[str, str], float]] | None) -> dict[str, str]:
    """Return the table's columns of objectives and accuracy; column ``of`` is the iteration of the held-out values."""
    shown = {}
    weights = [(job.objectives["output"], job.frames["output"]) for job in jobs.values() if "output" in job.objectives]
    total = sum(frames for _, frames in weights)
    if total > 0.0 and not math.isnan(total):
        shown["train"] = f"{sum(value * frames for value, frames in weights) / total:.4g}"
    if valid is not None:
        number, values = valid
        for name, key in (("valid", "objective"), ("accuracy", "accuracy")):
            if ("output", key) in values:
                shown |= {name: f"{values['output', key]:.4g}", "of": str(number)}
    return shown
