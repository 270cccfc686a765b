"""What a driver shows while it trains: one line an iteration, on a terminal also the iteration that runs."""
from __future__ import annotations

import datetime
import logging
import math
import time
from collections.abc import Mapping
from typing import IO

from nnet3py.drivers.commands import Step
from nnet3py.drivers.schedules import Plan
from nnet3py.report.training_logs import TrainLog

logger = logging.getLogger(__name__)

_CLEAR_LINE = "\r\x1b[K"


class Display:
    """Shows the iterations of a training.

    Parameters
    ----------
    plan : of the training
    terminal : a stream to rewrite lines on; None to log plain lines
    """

    def __init__(self, plan: Plan, terminal: IO[str] | None = None) -> None:
        self.plan, self.terminal = plan, terminal
        self._begun = self._step_begun = time.monotonic()
        self._processed_before: int | None = None

    def begin(self, step: Step) -> None:
        """An iteration starts."""
        self._step_begun = time.monotonic()
        if self._processed_before is None:
            self._begun, self._processed_before = self._step_begun, step.processed
        if self.terminal is not None:
            self.terminal.write(f"{_CLEAR_LINE}{self.headline(step)}   …")
            self.terminal.flush()

    def end(self, step: Step, jobs: Mapping[int, TrainLog],
            valid: tuple[int, Mapping[tuple[str, str], float]] | None) -> None:
        """An iteration is done. ``valid``: what is known of held-out data, and of which iteration's model."""
        line = "   ".join([self.headline(step), *_objectives(step, jobs, valid), *self._speed(step, jobs)])
        if self.terminal is None:
            logger.info("%s", line)
        else:
            self.terminal.write(f"{_CLEAR_LINE}{line}\n")
            self.terminal.flush()

    def headline(self, step: Step) -> str:
        """What is known before an iteration, as Kaldi's drivers log it."""
        plan = self.plan
        percent = step.processed * 100.0 / plan.to_process
        epoch = step.processed * plan.num_epochs / plan.to_process
        line = (f"Iter: {step.iteration}/{plan.num_iters - 1}   Jobs: {step.num_jobs}   Epoch: {epoch:0.2f}/"
                f"{plan.num_epochs:0.1f} ({percent:0.1f}% complete)   lr: {step.learning_rate:0.6f}")
        return line + (f"   shrink: {step.shrink:0.5f}" if step.shrink != 1.0 else "")

    def _speed(self, step: Step, jobs: Mapping[int, TrainLog]) -> list[str]:
        now = time.monotonic()
        frames = sum(max(job.frames.values(), default=0.0) for job in jobs.values())
        seconds = max(now - self._step_begun, 1e-3)
        assert self._processed_before is not None
        done = step.processed + step.num_jobs
        left = max(0, self.plan.processed(self.plan.num_iters) - done)
        remaining = (now - self._begun) * left / max(1, done - self._processed_before)
        shown = datetime.timedelta(seconds=round(remaining))
        speed = frames / seconds
        return [f"{speed:.0f} frames/s" if speed >= 10.0 else f"{speed:.1f} frames/s", f"{shown} left"]


def _objectives(step: Step, jobs: Mapping[int, TrainLog],
                valid: tuple[int, Mapping[tuple[str, str], float]] | None) -> list[str]:
    shown = []
    weights = [(job.objectives["output"], job.frames["output"]) for job in jobs.values() if "output" in job.objectives]
    total = sum(frames for _, frames in weights)
    if total > 0.0 and not math.isnan(total):
        shown.append(f"train: {sum(value * frames for value, frames in weights) / total:.4g}")
    if valid is not None:
        number, values = valid
        of = "" if number == step.iteration else f" (iter {number})"
        if ("output", "objective") in values:
            shown.append(f"valid: {values['output', 'objective']:.4g}{of}")
        if ("output", "accuracy") in values:
            shown.append(f"accuracy: {values['output', 'accuracy']:.4g}{of}")
    return shown
