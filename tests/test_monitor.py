"""What is wrong in a training is told once, in one line; a healthy training is left alone."""
from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest

from nnet3py.report.monitor import Monitor, find_problems
from nnet3py.report.training_logs import ComponentLine, Iteration, ProgressLog, Summary, TrainLog


def training(objectives: Sequence[float], max_change: dict[str, float] | None = None,
             valid: Sequence[float] = ()) -> list[Iteration]:
    iterations = []
    for number, objective in enumerate(objectives):
        jobs = {job: TrainLog({"output": objective}, {"output": 1000.0}, max_change or {}) for job in (1, 2)}
        iteration = Iteration(number, jobs)
        if valid:
            iteration.train = {("output", "objective"): objective}
            iteration.valid = {("output", "objective"): valid[number]}
        iterations.append(iteration)
    return iterations


def with_component(type: str, fields: dict) -> list[Iteration]:
    iterations = training([-3.0, -2.0])
    iterations[-1].progress = ProgressLog({"c": ComponentLine("c", type, fields)})
    return iterations


def summary(mean: float, median: float = 0.5) -> Summary:
    return Summary((0.0,) * 6 + (median,) + (1.0,) * 6, mean, 0.1)


HEALTHY = [-3.3, -2.1, -1.6, -1.4, -1.3, -1.25, -1.2, -1.22, -1.18, -1.17, -1.17, -1.16, -1.16, -1.16, -1.15, -1.15]


def test_a_healthy_training_has_no_problems() -> None:
    healthy = training(HEALTHY, {"tdnn1": 20.0, "": 5.0}, valid=[value - 0.1 for value in HEALTHY])
    relu = ComponentLine("r", "RectifiedLinearComponent", {"deriv-avg": summary(0.4)})
    tanh = ComponentLine("t", "TanhComponent", {"deriv-avg": summary(0.6)})
    healthy[-1].progress = ProgressLog({"r": relu, "t": tanh})
    assert all(not find_problems(healthy[:count]) for count in range(len(healthy) + 1))


def test_the_start_may_be_limited_by_max_change() -> None:
    assert not find_problems(training(HEALTHY[:4], {"tdnn1": 100.0, "": 100.0}))


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_an_objective_that_is_not_finite(value: float) -> None:
    [problem] = find_problems(training([-3.0, -2.0, value]))
    assert problem.kind == "not finite" and "initial-effective-lrate" in problem.text


def test_an_objective_that_fell() -> None:
    [problem] = find_problems(training([-3.0, -1.5, -2.4]))
    assert problem.kind == "diverged" and "from -1.5 to -2.4" in problem.text


@pytest.mark.parametrize("objectives, problem", [
    ([-1.0, -1.29], False), ([-1.0, -1.31], True),               # 0.3, where a fifth is less
    ([-5.0, -2.0, -2.39], False), ([-5.0, -2.0, -2.41], True),   # a fifth of the best
    ([-3.0, -1.0, math.nan, -1.31], True), ([math.nan, -9.0], False)])
def test_how_far_an_objective_may_fall(objectives: list[float], problem: bool) -> None:
    assert [found.kind for found in find_problems(training(objectives))] == ["diverged"] * problem


def test_whole_messages() -> None:
    def texts(iterations: list[Iteration]) -> list[str]:
        return [problem.text for problem in find_problems(iterations)]

    advice = "a lower --trainer.optimization.initial-effective-lrate or --trainer.max-param-change may help"
    assert texts(training([-3.0, -1.5, -2.4])) == [f"the objective fell from -1.5 to -2.4; {advice}"]
    assert texts(training([-3.0, math.nan])) == [
        f"the objective is nan; {advice}, and the features may hold extreme values (try a batch normalization first)"]
    assert texts(training([-3.3] * 15)) == [
        "the objective was -3.3 at first and is -3.3 after 15 iterations: nothing is learned; are targets and features "
        "of the same utterances? a higher learning rate may help"]
    assert texts(training([-1.5 + 0.01 * i for i in range(7)], valid=[-1.6 - 0.01 * i for i in range(7)])) == [
        "over 6 iterations the objective on training data grew to -1.44 while that on held-out data fell to -1.66: "
        "fewer epochs, dropout, l2-regularize or a smaller network may help"]
    assert texts(training([-1.5 + 0.01 * i for i in range(6)], valid=[-1.6 - 0.01 * i for i in range(6)])) == []
    cut = training(HEALTHY[:6], {"tdnn1": 90.0, "": 92.5, "x": 89.9})
    assert texts(cut) == [
        "the change of the whole network was cut in 92.5 % of minibatches: the learning rate is too high for it, or "
        "--trainer.max-param-change too small",
        "the change of tdnn1 was cut in 90 % of minibatches: the learning rate is too high for it, or its max-change "
        "too small"]
    assert texts(cut[:5]) == []
    assert texts(with_component("RectifiedLinearComponent", {"deriv-avg": summary(0.1, median=0.004)})) == [
        "half of the units of c or more are on in fewer than 0.5 % of frames and hardly learn; a lower learning rate, "
        "batch normalization before it or a higher self-repair-scale may help"]
    assert texts(with_component("SigmoidComponent", {"deriv-avg": summary(0.02)})) == [
        "c is saturated (mean derivative 0.02 of at most 0.25); a lower learning rate, a shrink-value below 1 or a "
        "higher self-repair-scale may help"]
    assert texts(with_component("BackpropTruncationComponent", {"clipped-proportion": 0.75})) == [
        "c clipped 75 % of derivatives: they explode; a lower learning rate or shorter chunks may help"]
    assert texts(with_component("BackpropTruncationComponent", {"clipped-proportion": 0.5})) == []


@pytest.mark.parametrize("last, problem", [(-3.3 + 0.032, True), (-3.3 + 0.034, False)])
def test_a_gain_of_a_hundredth_is_learning(last: float, problem: bool) -> None:
    assert [found.kind for found in find_problems(training([-3.3] * 14 + [last]))] == ["stalled"] * problem


def test_an_objective_that_never_moves() -> None:
    assert not find_problems(training([-3.3] * 14))
    [problem] = find_problems(training([-3.3] * 15))
    assert problem.kind == "stalled" and "nothing is learned" in problem.text


def test_held_out_data_getting_worse() -> None:
    falling = [-1.6 - 0.01 * i for i in range(10)]
    [problem] = find_problems(training([-1.5 + 0.01 * i for i in range(10)], valid=falling))
    assert problem.kind == "overfitted" and "-1.69" in problem.text
    falling[-3] = -1.5
    assert not find_problems(training([-1.5 + 0.01 * i for i in range(10)], valid=falling))


def test_changes_that_are_nearly_always_cut() -> None:
    found = find_problems(training(HEALTHY, {"tdnn1": 95.0, "tdnn2": 50.0, "": 91.0}))
    assert [problem.place for problem in found] == ["", "tdnn1"]
    assert "--trainer.max-param-change" in found[0].text and "of tdnn1 was cut in 95 %" in found[1].text


def test_one_job_that_is_not_limited_is_enough() -> None:
    iterations = training(HEALTHY, {"tdnn1": 95.0})
    iterations[-1].jobs[2].max_change = {"tdnn1": 10.0}
    assert not find_problems(iterations)


@pytest.mark.parametrize("type, fields, kind, place", [
    ("RectifiedLinearComponent", {"deriv-avg": summary(0.1, median=0.001)}, "dead", "c"),
    ("SigmoidComponent", {"deriv-avg": summary(0.02)}, "saturated", "c"),
    ("TanhComponent", {"deriv-avg": summary(0.09)}, "saturated", "c"),
    ("OutputGruNonlinearityComponent", {"deriv-avg": summary(0.09)}, "saturated", "c"),
    ("LstmNonlinearityComponent",
     {"f_t_sigmoid": {"deriv-avg": summary(0.01)}, "m_t_tanh": {"deriv-avg": summary(0.5)}},
     "saturated", "c (f_t_sigmoid)"),
    ("BackpropTruncationComponent", {"clipped-proportion": 0.75}, "clipped", "c"),
])
def test_units_that_do_not_learn(type: str, fields: dict, kind: str, place: str) -> None:
    [problem] = find_problems(with_component(type, fields))
    assert (problem.kind, problem.place) == (kind, place) and re.search("may help|explode", problem.text)


@pytest.mark.parametrize("type, fields", [
    ("RectifiedLinearComponent", {"deriv-avg": summary(0.1, median=0.1)}),
    ("SigmoidComponent", {"deriv-avg": summary(0.05)}),
    ("BatchNormComponent", {"deriv-avg": summary(0.0)}),
    ("TanhComponent", {"deriv-avg": "[ 0.01 0.02 ]"}),
    ("BackpropTruncationComponent", {"clipped-proportion": 0.1}),
])
def test_units_that_are_well(type: str, fields: dict) -> None:
    assert not find_problems(with_component(type, fields))


def test_each_problem_is_told_once() -> None:
    monitor = Monitor()
    iterations = training([-3.0, -1.5, -2.4, -2.5])
    assert monitor.check(iterations[:2]) == []
    [line] = monitor.check(iterations[:3])
    assert line.startswith("iteration 2: the objective fell") and "\n" not in line
    assert monitor.check(iterations) == []


def test_a_job_that_failed() -> None:
    iterations = training([-3.0, -2.0])
    iterations[-1].jobs[2] = TrainLog(seconds=4.0)
    [problem] = find_problems(iterations)
    assert problem.kind == "failed" and "log/train.1.2.log" in problem.text
    iterations[-1].jobs[2] = TrainLog()       # still at work
    assert not find_problems(iterations)
