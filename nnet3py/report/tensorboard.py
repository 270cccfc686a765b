"""Event files of a training for TensorBoard, written with tensorboardX (the extra ``tensorboard``).

tensorboardX rather than tensorboard: the writer need not be the viewer, and it brings 4 MB with it rather than 80.
"""
from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nnet3py.errors import UsageError
from nnet3py.extras import load
from nnet3py.report.training_logs import Iteration, diagnosed_outputs, seconds_before, series
from nnet3py.report.training_plots import Trainings, component_values, effective_rates

_EVENTS = "events.out.tfevents."     # what names of its files begin with


class Scalar(NamedTuple):
    """Point of a curve; points with the same ``tag`` share a chart, with a line for each ``run``."""

    run: str
    tag: str
    iteration: int
    value: float


def write_events(trainings: Trainings, output: Path, end: float) -> Path:
    """Write ``LABEL/train`` and ``LABEL/valid`` into ``output`` in place of older events; create the folder.

    Parameters
    ----------
    output : folder for ``tensorboard --logdir``; returned
    end : time at which the last iteration began, in seconds since 1970; earlier times follow from durations of jobs

    Raises Nnet3Error where tensorboardX is not installed, UsageError if the folder cannot be made.
    """
    writers = load("tensorboardX", "files for TensorBoard need", "tensorboard")
    for label, iterations in trainings.items():
        seconds = seconds_before(iterations)
        begin = end - max(seconds.values(), default=0.0)
        points = list(scalars(iterations))
        for run in ("train", "valid"):
            folder = output / label.strip("/").replace("..", "_") / run
            new = folder / f".{os.getpid()}.new"
            try:
                new.mkdir(parents=True)
            except OSError as error:
                raise UsageError(f"the folder {folder} for TensorBoard cannot be made: {error.strerror}",
                                 "name another with --output-dir") from None
            try:
                with writers.SummaryWriter(str(new)) as writer:
                    for point in points:
                        if point.run == run:
                            writer.add_scalar(point.tag, point.value, point.iteration,
                                              begin + seconds.get(point.iteration, 0.0))
                _replace_events(folder, new)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return output


def scalars(iterations: Sequence[Iteration]) -> Iterator[Scalar]:
    """Return all curves of a training: held-out data in the run ``valid``, all others in ``train``."""
    for kind in ("objective", "accuracy"):
        for output in diagnosed_outputs(iterations, kind):
            for data in ("train", "valid"):
                for number, value in series(iterations, data, output, kind):
                    yield Scalar(data, f"{kind}/{output}", number, value)
    for number, rate in effective_rates(iterations):
        yield Scalar("train", "training/learning_rate", number, rate)
    for iteration in iterations:
        seconds = max((job.seconds for job in iteration.jobs.values()), default=math.nan)
        if math.isfinite(seconds):
            yield Scalar("train", "training/seconds", iteration.number, seconds)
            yield Scalar("train", "training/jobs", iteration.number, float(len(iteration.jobs)))
    for name, (_, values, _) in component_values(iterations).items():
        for component, points in values.items():
            for number, value in points.items():
                yield Scalar("train", f"{name}/{component}", number, value)


def _replace_events(folder: Path, new: Path) -> None:
    """Move the files of ``new`` into ``folder``, in place of older events."""
    before = {path.name for path in folder.glob(f"{_EVENTS}*")}
    names = [path.name for path in new.iterdir()]
    for name in names:
        os.replace(new / name, folder / name)
    for name in before.difference(names):
        (folder / name).unlink(missing_ok=True)
