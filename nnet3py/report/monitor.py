"""Problems of a training, found in its logs: one line for each, with advice."""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nnet3py.report.training_logs import ComponentLine, Iteration, Summary, TrainLog, series

FALL = 0.2                   # of the best objective's size: so far below it an iteration counts as divergence …
SMALLEST_FALL = 0.3          # … if it is also this much per frame, since objectives near zero move by little
FIRST_ITERATIONS = 5         # the first steps are large and limited by max-change in every healthy training
STALL_ITERATIONS = 15        # an objective that has not moved until then …
STALL_GAIN = 0.01            # … by this part of its size is stuck
OVERFIT_ITERATIONS = 6       # for so long the objective on held-out data falls while that on training data grows
OFTEN = 90.0                 # per cent of minibatches whose change was cut
SATURATED = 0.1              # mean derivative of a sigmoid or tanh, as a part of its largest
DEAD = 0.005                 # a ReLU that is on in fewer frames does not learn any more
CLIPPED = 0.5                # part of the derivatives
_LARGEST_DERIVATIVE = {"SigmoidComponent": 0.25, "TanhComponent": 1.0, "i_t_sigmoid": 0.25, "f_t_sigmoid": 0.25,
                       "o_t_sigmoid": 0.25, "c_t_tanh": 1.0, "m_t_tanh": 1.0, "GruNonlinearityComponent": 1.0,
                       "OutputGruNonlinearityComponent": 1.0}
_MEDIAN = 6                  # its place among the 13 percentiles of a summary


class Problem(NamedTuple):
    """Problem of a training."""

    kind: str     # short name, such as ``diverged``
    place: str    # component or job; with ``kind`` it identifies the problem in later iterations
    text: str     # message


class Monitor:
    """Monitor of a training, which reports each problem once."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def check(self, iterations: Sequence[Iteration]) -> list[str]:
        """Return messages about the problems that earlier calls have not reported.

        ``iterations`` : all iterations so far, in order
        """
        lines = []
        for problem in find_problems(iterations):
            if (problem.kind, problem.place) not in self._told:
                self._told.add((problem.kind, problem.place))
                lines.append(f"iteration {iterations[-1].number}: {problem.text}")
        return lines


def all_messages(iterations: Sequence[Iteration]) -> list[str]:
    """Return the messages of a monitor that checks after each of ``iterations``."""
    monitor = Monitor()
    return [line for count in range(1, len(iterations) + 1) for line in monitor.check(iterations[:count])]


def find_problems(iterations: Sequence[Iteration]) -> list[Problem]:
    """Return all problems at the last of ``iterations``; an empty list if there are none."""
    if not iterations:
        return []
    last = iterations[-1]
    problems = [*_failed(last), *_diverged(iterations), *_stalled(iterations), *_overfitted(iterations)]
    if last.number >= FIRST_ITERATIONS:
        problems += _limited(last)
    if last.progress is not None:
        for component in last.progress.components.values():
            problems += [*_saturated(component), *_clipped(component)]
    return problems


def _failed(iteration: Iteration) -> Iterator[Problem]:
    for number, job in iteration.jobs.items():
        if not job.objectives and math.isfinite(job.seconds):
            yield Problem("failed", f"{iteration.number}.{number}", f"job {number} ended without an objective; "
                          f"log/train.{iteration.number}.{number}.log says why")


def _job_objective(iteration: Iteration) -> float:
    """Return the mean objective over the jobs of an iteration; NaN if a job has NaN or none has finished."""
    values = [job.objectives["output"] for job in iteration.jobs.values() if "output" in job.objectives]
    return sum(values) / len(values) if values else math.nan


def _diverged(iterations: Sequence[Iteration]) -> Iterator[Problem]:
    trained = [iteration for iteration in iterations
               if any("output" in job.objectives for job in iteration.jobs.values())]
    if not trained or trained[-1].number != iterations[-1].number:
        return
    objectives = [_job_objective(iteration) for iteration in trained]
    advice = "a lower --trainer.optimization.initial-effective-lrate or --trainer.max-param-change may help"
    if not math.isfinite(objectives[-1]):
        yield Problem("not finite", "", f"the objective is {objectives[-1]:g}; {advice}, "
                                        "and the features may hold extreme values (try a batch normalization first)")
        return
    before = [value for value in objectives[:-1] if math.isfinite(value)]
    if before and max(before) - objectives[-1] > max(SMALLEST_FALL, FALL * abs(max(before))):
        yield Problem("diverged", "", f"the objective fell from {max(before):.4g} to "
                                      f"{objectives[-1]:.4g}; {advice}")


def _stalled(iterations: Sequence[Iteration]) -> Iterator[Problem]:
    values = [value for value in map(_job_objective, iterations) if math.isfinite(value)]
    if len(values) >= STALL_ITERATIONS and max(values[1:]) - values[0] < STALL_GAIN * abs(values[0]):
        yield Problem("stalled", "", f"the objective was {values[0]:.4g} at first and is {values[-1]:.4g} after "
                                     f"{len(values)} iterations: nothing is learned; are targets and features of the "
                                     "same utterances? a higher learning rate may help")


def _overfitted(iterations: Sequence[Iteration]) -> Iterator[Problem]:
    valid = dict(series(iterations, "valid", "output", "objective"))
    pairs = [(value, valid[number]) for number, value in series(iterations, "train", "output", "objective")
             if number in valid]
    recent = pairs[-OVERFIT_ITERATIONS - 1:]
    if len(recent) > OVERFIT_ITERATIONS and all(after[0] > before[0] and after[1] < before[1]
                                                for before, after in zip(recent, recent[1:], strict=False)):
        yield Problem("overfitted", "", f"over {OVERFIT_ITERATIONS} iterations the objective on training data grew to "
                                        f"{recent[-1][0]:.4g} while that on held-out data fell to {recent[-1][1]:.4g}: "
                                        "fewer epochs, dropout, l2-regularize or a smaller network may help")


def _limited(iteration: Iteration) -> Iterator[Problem]:
    jobs: list[TrainLog] = [job for job in iteration.jobs.values() if job.max_change]
    for name in sorted({name for job in jobs for name in job.max_change}):
        share = min(job.max_change.get(name, 0.0) for job in jobs)
        if share >= OFTEN:
            where = f"of {name}" if name else "of the whole network"
            option = "its max-change" if name else "--trainer.max-param-change"
            yield Problem("limited", name, f"the change {where} was cut in {share:.3g} % of "
                                           f"minibatches: the learning rate is too high for it, or {option} too small")


def _saturated(component: ComponentLine) -> Iterator[Problem]:
    if component.type == "RectifiedLinearComponent":
        derivative = component.summary("deriv-avg")
        if derivative is not None and derivative.percentiles[_MEDIAN] < DEAD:
            yield Problem("dead", component.name, f"half of the units of {component.name} or more are on in "
                          f"fewer than {100 * DEAD:g} % of frames and hardly learn; a lower learning rate, batch "
                          "normalization before it or a higher self-repair-scale may help")
        return
    for part, derivative in mean_derivatives(component):
        largest = _LARGEST_DERIVATIVE[part]
        if derivative.mean < SATURATED * largest:
            name = component.name + ("" if part == component.type else f" ({part})")
            yield Problem("saturated", name, f"{name} is saturated (mean derivative "
                          f"{derivative.mean:g} of at most {largest:g}); a lower learning rate, a shrink-value below 1 "
                          "or a higher self-repair-scale may help")


def mean_derivatives(component: ComponentLine) -> Iterator[tuple[str, Summary]]:
    """Yield the name and the average derivatives of a sigmoid or tanh component, or of each one in a recurrent cell."""
    own = component.summary("deriv-avg")
    if own is not None and component.type in _LARGEST_DERIVATIVE:
        yield component.type, own
    for key, fields in component.fields.items():
        if isinstance(fields, dict) and key in _LARGEST_DERIVATIVE:
            inner = fields.get("deriv-avg")
            if isinstance(inner, Summary):
                yield key, inner


def _clipped(component: ComponentLine) -> Iterator[Problem]:
    share = component.number("clipped-proportion")
    if share > CLIPPED:
        yield Problem("clipped", component.name, f"{component.name} clipped {100 * share:.3g} % of "
                      "derivatives: they explode; a lower learning rate or shorter chunks may help")
