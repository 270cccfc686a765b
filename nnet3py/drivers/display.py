"""What a driver shows while it trains: a line per iteration; on a terminal a table that includes the current one."""
from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import IO

from nnet3py.drivers.commands import Step
from nnet3py.drivers.schedules import Plan
from nnet3py.log import clock_time, rate
from nnet3py.report.training_logs import TrainLog

logger = logging.getLogger(__name__)

_CLEAR_LINE = "\r\x1b[K"
# The columns of the table and their widths: with a space between them they fit a terminal of 80 characters.
_COLUMNS = {"iter": 8, "jobs": 4, "epoch": 6, "rate": 8, "train": 8, "valid": 8, "accuracy": 8, "of": 4,
            "frames/s": 8, "left": 7}


class Display:
    """Shows the iterations of a training.

    Parameters
    ----------
    plan : of the training
    terminal : a stream to write a table on, whose last row is the current iteration; None to log plain lines
    """

    def __init__(self, plan: Plan, terminal: IO[str] | None = None) -> None:
        self.plan, self.terminal = plan, terminal
        self._begun = self._step_begun = time.monotonic()
        self._processed_before: int | None = None

    def begin(self, step: Step) -> None:
        """An iteration starts."""
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
        """An iteration is done. ``valid``: what is known of held-out data, and of which iteration's model."""
        measured = {**_objectives(jobs, valid), **self._speed(step, jobs)}
        if self.terminal is None:
            logger.info("%s", "   ".join([self.headline(step), *_as_words(measured, step.iteration)]))
        else:
            shrink = f" shrink {step.shrink:0.5f}" if step.shrink != 1.0 else ""
            self.terminal.write(f"{_CLEAR_LINE}{_row({**self._planned(step), **measured})}{shrink}\n")
            self.terminal.flush()

    def headline(self, step: Step) -> str:
        """What is known before an iteration, as Kaldi's drivers log it."""
        plan, epoch = self.plan, self._epoch(step)
        percent = step.processed * 100.0 / plan.to_process
        line = (f"Iter: {step.iteration}/{plan.num_iters - 1}   Jobs: {step.num_jobs}   Epoch: {epoch:0.2f}/"
                f"{plan.num_epochs:0.1f} ({percent:0.1f}% complete)   lr: {step.learning_rate:0.6f}")
        return line + (f"   shrink: {step.shrink:0.5f}" if step.shrink != 1.0 else "")

    def _planned(self, step: Step) -> dict[str, str]:
        """The same for the table."""
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
    """What was measured, as a line of a log says it."""
    of = f" (iter {measured['of']})" if measured.get("of", str(iteration)) != str(iteration) else ""
    return [*([f"train: {measured['train']}"] if "train" in measured else []),
            *(f"{name}: {measured[name]}{of}" for name in ("valid", "accuracy") if name in measured),
            f"{measured['frames/s']} frames/s", f"{measured['left']} left"]


def _objectives(jobs: Mapping[int, TrainLog],
                valid: tuple[int, Mapping[tuple[str, str], float]] | None) -> dict[str, str]:
    """Columns of the table; ``of``: the iteration whose model has these values on held-out data."""
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
