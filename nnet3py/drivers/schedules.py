"""Schedules over the iterations: jobs, archives, learning rates, shrinkage, dropout, models to combine.

Only arithmetic; nothing here reads or writes files. Kaldi: steps/libs/nnet3/train/common.py and dropout_schedule.py.
"""
from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnet3py.errors import Nnet3Error, UsageError

WORST_OBJECTIVE = -100000.0      # objective of a job without one in its log
ACCEPTED_BELOW_BEST = 1.0        # jobs with a lower objective, relative to the best, are not averaged
_LEAST_SHRINK = 0.5
_DEFAULT_FRACTION = 0.5          # position of a middle value without one in a dropout schedule


@dataclass(frozen=True)
class Plan:
    """Plan of a training: archives, epochs, jobs, learning rates."""

    num_archives: int  # archives of training examples
    passes: int  # passes over each archive in an epoch: one for every frame of an example, or every frame shift
    num_epochs: float
    # jobs_initial, jobs_final, jobs_step: int, parallel jobs at the start and at the end; all numbers are multiples of
    # the last
    jobs_initial: int
    jobs_final: int
    jobs_step: int
    # lrate_initial, lrate_final: float, effective learning rates
    lrate_initial: float
    lrate_final: float
    most_jobs: int | None = None  # greatest number of parallel jobs; None: the number of archives

    def __post_init__(self) -> None:
        """Raise UsageError if the numbers allow no training."""
        if max(self.jobs_initial, self.jobs_final) > (self.most_jobs or self.num_archives):
            raise UsageError(f"--trainer.optimization.num-jobs-final={self.jobs_final} (initial: {self.jobs_initial}) "
                             f"is more than the {self.num_archives} archives of examples",
                             "ask for fewer jobs, or make smaller archives with --trainer.samples- or frames-per-iter")
        if self.num_iters < 1:
            raise UsageError(f"--trainer.num-epochs={self.num_epochs:g} of {self.num_archives} archives with "
                             f"{self.jobs_initial} to {self.jobs_final} jobs is less than one iteration")

    @property
    def expanded_archives(self) -> int:
        """Number of passes over archives in an epoch."""
        return self.num_archives * self.passes

    @property
    def to_process(self) -> int:
        """Number of archives that the whole training reads, each as often as there are passes over it."""
        return int(self.num_epochs * self.expanded_archives)

    @property
    def num_iters(self) -> int:
        """Number of iterations, and of models after the initial one."""
        return int(2 * self.to_process / (self.jobs_initial + self.jobs_final))

    def jobs(self, iteration: int) -> int:
        """Return the number of jobs of an iteration. Kaldi: get_current_num_jobs."""
        ideal = self.jobs_initial + (self.jobs_final - self.jobs_initial) * (iteration / self.num_iters)
        if ideal < self.jobs_step:
            return int(0.5 + ideal)
        return int(0.5 + ideal / self.jobs_step) * self.jobs_step

    def processed(self, iteration: int) -> int:
        """Return the number of archives that the iterations before ``iteration`` read."""
        return sum(self.jobs(before) for before in range(iteration))

    def learning_rate(self, iteration: int) -> float:
        """Return the learning rate of each job of an iteration: effective learning rate times number of jobs.

        Kaldi: get_learning_rate.
        """
        if iteration + 1 >= self.num_iters:
            effective = self.lrate_final
        else:
            ratio = math.log(self.lrate_final / self.lrate_initial)
            effective = self.lrate_initial * math.exp(self.processed(iteration) * ratio / self.to_process)
        return self.jobs(iteration) * effective

    def fraction(self, iteration: int) -> float:
        """Return the fraction of the training that is done before an iteration, from 0 to 1."""
        return self.processed(iteration) / self.to_process


def archive_and_pass(number: int, num_archives: int, passes: int) -> tuple[int, int]:
    """Return the archive (from 1) that the training reads as its ``number``-th (from 0), and the pass over it.

    The pass, from 0 to ``passes`` - 1, determines the frame of an example, or the frame shift.
    """
    archive = number % num_archives + 1
    return archive, (number // num_archives + archive) % passes


def models_to_combine(plan: Plan, max_models: int) -> list[int]:
    """Return the numbers of the models that are combined into the final one, ascending.

    These are the last ``max_models`` models or, if there are more in the last half epoch, evenly spaced ones of it.
    Kaldi: get_model_combine_iters.
    """
    num_iters = plan.num_iters
    first_count = min(int(plan.expanded_archives / plan.jobs_final / 2) + 1, num_iters // 2)
    if first_count > max_models:
        chosen = set(range(num_iters - first_count + 1, num_iters + 1, first_count // max_models))
    else:
        chosen = set(range(num_iters - min(max_models, num_iters // 2) + 1, num_iters + 1))
    return sorted(chosen | {num_iters})


# -- shrinkage ---------------------------------------------------------------------------------------------------------

def proportional_shrink(amount: float, learning_rate: float) -> float:
    """Return the factor 1 - ``amount`` × ``learning_rate`` by which parameters are scaled before an iteration.

    ``amount`` is --trainer.optimization.proportional-shrink. Raises UsageError if the factor is too small.
    """
    shrink = 1.0 - amount * learning_rate
    if shrink <= _LEAST_SHRINK:
        raise UsageError(f"--trainer.optimization.proportional-shrink={amount:g} with a learning rate of "
                         f"{learning_rate:g} multiplies the parameters by {shrink:g}; expected above {_LEAST_SHRINK}",
                         "use a smaller value")
    return shrink


# Component lines of nnet3-info, with mean derivatives of a nonlinearity and of the parts of an LSTM cell.
_TYPE = re.compile(r"^component name=\S+ type=(\w+?)Component\b")
_MEAN_DERIVATIVE = re.compile(r"deriv-avg=\[[^=\]]+=\([^)]*\), mean=([-+0-9.e]+),")
_PARTS = re.compile(r"\b\w+_(sigmoid|tanh)=\{(.*?)\}")
_LARGEST_DERIVATIVE = {"Sigmoid": 0.25, "Tanh": 1.0, "sigmoid": 0.25, "tanh": 1.0}
_SATURATING = ("Sigmoid", "Tanh", "LstmNonlinearity", "GruNonlinearity", "OutputGruNonlinearity")


def saturation(info: str) -> float:
    """Compute the saturation of a network's sigmoids and tanhs: 0 for none, 1 for complete saturation.

    ``info`` is the output of nnet3-info. The saturation is the mean of 1 - (mean derivative)/(largest derivative) over
    components, or 0 if no such component has statistics. Kaldi: should_do_shrinkage.
    """
    values = []
    for line in info.splitlines():
        type_match = _TYPE.match(line)
        if not type_match or type_match[1] not in _SATURATING:
            continue
        parts = [(kind, text) for kind, text in _PARTS.findall(line)] or [(type_match[1], line)]
        for kind, text in parts:
            mean = _MEAN_DERIVATIVE.search(text)
            if mean:
                values.append(1.0 - float(mean[1]) / _LARGEST_DERIVATIVE.get(kind, 1.0))
    return sum(values) / len(values) if values else 0.0


# -- dropout -----------------------------------------------------------------------------------------------------------

class DropoutSchedule:
    """Dropout proportions of components over the training (``--trainer.dropout-schedule``).

    ``[pattern=]v0,v1@x,…,vn`` items with blanks between: v0 at the start, vn at the end, v1 after the share x of the
    training (0.5 if not given), linear between them. Raises UsageError if ``text`` is something else.
    """

    def __init__(self, text: str) -> None:
        self.items: list[tuple[str, list[tuple[float, float]]]] = []
        for item in text.split():
            pattern, equals, values = item.rpartition("=")
            if equals and not pattern:
                raise self._error(item, "there is nothing before the equal sign")
            self.items.append((pattern or "*", self._knots(values, item)))
        if not self.items:
            raise self._error(text, "it is empty")

    def proportions(self, fraction: float) -> list[tuple[str, float]]:
        """Return pairs (pattern of component names, dropout proportion) after the share ``fraction`` of training."""
        return [(pattern, _interpolated(knots, fraction)) for pattern, knots in self.items]

    def edits(self, fraction: float) -> str:
        """Return :meth:`proportions` as the option --edits of nnet3-copy."""
        return ";".join(f"set-dropout-proportion name={pattern} proportion={value}"
                        for pattern, value in self.proportions(fraction))

    def _knots(self, values: str, item: str) -> list[tuple[float, float]]:
        parts = values.split(",")
        if len(parts) < 2:
            raise self._error(item, "a first and a last value are needed")
        knots = []
        for number, part in enumerate(parts):
            value, at, position = part.partition("@")
            if at and number in (0, len(parts) - 1):
                raise self._error(item, "the first value is that at the start and the last that at the end; "
                                        "no position can be given for them")
            outer = 0.0 if number == 0 else 1.0 if number == len(parts) - 1 else _DEFAULT_FRACTION
            knots.append((self._number(position, item) if at else outer, self._number(value, item)))
        if any(after[0] < before[0] for before, after in zip(knots, knots[1:], strict=False)):
            raise self._error(item, "the positions must not fall")
        return knots

    def _number(self, text: str, item: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise self._error(item, f"'{text}' is not a number") from None
        if not 0.0 <= number <= 1.0:
            raise self._error(item, f"{number:g} is not between 0 and 1")
        return number

    def _error(self, item: str, reason: str) -> UsageError:
        return UsageError(f"cannot use --trainer.dropout-schedule: '{item}': {reason}",
                          "examples: 0,0.3@0.20,0.3@0.50,0 or *=0,0.5,0 lstm.*=0,0.3@0.75,0")


def _interpolated(knots: list[tuple[float, float]], fraction: float) -> float:
    if fraction <= 0.0:
        return knots[0][1]
    if fraction >= 1.0:
        return knots[-1][1]
    last = max(number for number, (position, _) in enumerate(knots) if position <= fraction)
    (left, value), (right, next_value) = knots[last], knots[last + 1]
    return value + (fraction - left) / (right - left) * (next_value - value)


# -- minibatches and jobs ----------------------------------------------------------------------------------------------

def halved_minibatch_size(text: str) -> str:
    """Halve the minibatch sizes in a value of ``--minibatch-size``, to at least 1, but not the sizes of examples.

    ``256`` gives ``128``; ``128=64:32,16/256=40`` gives ``128=32:16,8/256=20``.
    """
    def half(part: str) -> str:
        size, equals, ranges = part.rpartition("=")
        return size + equals + re.sub(r"[0-9]+", lambda digits: str(max(1, int(digits[0]) // 2)), ranges)

    return "/".join(half(part) for part in text.split("/"))


def accepted_jobs(objectives: Mapping[int, float]) -> tuple[list[int], int]:
    """Choose the jobs whose models are averaged: those whose objective is close to the best; return also the best job.

    ``objectives`` is the objective per frame of each job; NaN and infinity count as very low. Kaldi:
    get_successful_models.
    """
    values = {job: value if math.isfinite(value) else WORST_OBJECTIVE for job, value in sorted(objectives.items())}
    best = max(values, key=lambda job: values[job])
    return [job for job, value in values.items() if values[best] - value <= ACCEPTED_BELOW_BEST], best


def presoftmax_prior_scale(counts: Sequence[float], power: float, smooth: float = 0.01) -> list[float]:
    """Compute scales of the outputs before the softmax, 1 on average, from counts of the classes.

    A scale is (count + ``smooth`` × mean of the counts) to the power ``power``, divided by the mean of the scales.
    Counts are rounded down.
    """
    whole = [int(count) for count in counts]
    if not whole or sum(whole) <= 0:
        raise Nnet3Error("cannot scale outputs by the counts of their classes: no class occurs in the alignments")
    mean = sum(whole) / len(whole)
    scales = [(count + smooth * mean) ** power for count in whole]
    total = sum(scales)
    return [scale * len(scales) / total for scale in scales]
